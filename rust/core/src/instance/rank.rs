//! A place in an order of requests.

use std::cmp::Ordering;

use crate::config::MOST_KEYS;

/// A place in the order; smaller is better: class, keys and row, as the digits
/// of one number, so that mostly the first or second tells two apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rank([u64; MOST_KEYS + 1]);

impl Rank {
    /// Where a class, keys and `row` put a request.
    #[inline]
    pub(super) fn new(class: u32, keys: [i64; MOST_KEYS], row: u32) -> Self {
        let mut digits = [0; MOST_KEYS + 1];
        let mut above = u64::from(class);
        for (digit, key) in digits.iter_mut().zip(keys) {
            // With the sign's bit turned, whole numbers order as natural ones do.
            let key = key as u64 ^ (1 << 63);
            *digit = above << 32 | key >> 32;
            above = key;
        }
        digits[MOST_KEYS] = above << 32 | u64::from(row);
        Self(digits)
    }

    /// The first two digits.
    #[inline]
    pub(super) fn high(self) -> u128 {
        u128::from(self.0[0]) << 64 | u128::from(self.0[1])
    }

    /// The others.
    #[inline]
    fn low(self) -> u128 {
        u128::from(self.0[2]) << 64 | u128::from(self.0[3])
    }

    #[inline]
    pub(super) fn row(self) -> u32 {
        self.0[MOST_KEYS] as u32
    }
}

impl Ord for Rank {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        // Two digits at a time, as which of them tells is hard to foresee.
        match self.high().cmp(&other.high()) {
            Ordering::Equal => self.low().cmp(&other.low()),
            unequal => unequal,
        }
    }
}

impl PartialOrd for Rank {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    /// Without a branch, as which of two is less is hard to foresee.
    #[inline]
    fn lt(&self, other: &Self) -> bool {
        let (high, others) = (self.high(), other.high());
        (high < others) | ((high == others) & (self.low() < other.low()))
    }

    #[inline]
    fn gt(&self, other: &Self) -> bool {
        other < self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranks_order_by_class_then_keys_then_row(
            one in (0u32..3, prop::array::uniform3(-2i64..3), 0u32..3),
            other in (0u32..3, prop::array::uniform3(-2i64..3), 0u32..3),
            scale in prop::sample::select(vec![1, 1 << 40, i64::MAX / 3]),
        ) {
            let rank = |(class, keys, row): (u32, [i64; MOST_KEYS], u32)| {
                Rank::new(class, keys.map(|key| key * scale), row)
            };
            prop_assert_eq!(rank(one).cmp(&rank(other)), one.cmp(&other));
            prop_assert_eq!(rank(one) < rank(other), one < other);
            prop_assert_eq!(rank(one) > rank(other), one > other);
            prop_assert_eq!(rank(one).row(), one.2);
        }
    }
}
