//! The key by which ranked requests are ordered.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::config::MOST_KEYS;
use crate::trace::RequestNumber;

/// Rank of a request, smaller is better: class, sort keys and number, as the digits of
/// one number. Mostly the first or second digit decides a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RankKey([u64; MOST_KEYS + 1]);

impl RankKey {
    /// The key of a request of a class, with sort keys.
    pub(crate) fn new(class: u32, keys: [i64; MOST_KEYS], request: RequestNumber) -> Self {
        let mut digits = [0; MOST_KEYS + 1];
        let mut above = u64::from(class);
        for (digit, key) in digits.iter_mut().zip(keys) {
            // With the sign bit flipped, signed numbers order as unsigned ones do.
            let key = key as u64 ^ (1 << 63);
            *digit = above << 32 | key >> 32;
            above = key;
        }
        digits[MOST_KEYS] = above << 32 | u64::from(request.0);
        Self(digits)
    }

    /// The class.
    pub(crate) fn class(self) -> u32 {
        (self.0[0] >> 32) as u32
    }

    /// The sort keys.
    pub(crate) fn keys(self) -> [i64; MOST_KEYS] {
        std::array::from_fn(|i| ((self.0[i] << 32 | self.0[i + 1] >> 32) ^ (1 << 63)) as i64)
    }

    /// The first two digits.
    pub(crate) fn high(self) -> u128 {
        u128::from(self.0[0]) << 64 | u128::from(self.0[1])
    }

    /// The others.
    fn low(self) -> u128 {
        u128::from(self.0[2]) << 64 | u128::from(self.0[3])
    }

    /// The request.
    pub(crate) fn request(self) -> RequestNumber {
        RequestNumber(self.0[MOST_KEYS] as u32)
    }
}

impl Ord for RankKey {
    fn cmp(&self, other: &Self) -> Ordering {
        // Two digits at a time: a branch on which of them decides would be mispredicted.
        match self.high().cmp(&other.high()) {
            Ordering::Equal => self.low().cmp(&other.low()),
            unequal => unequal,
        }
    }
}

impl PartialOrd for RankKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    /// Without a branch, which would be mispredicted.
    fn lt(&self, other: &Self) -> bool {
        let (high, others) = (self.high(), other.high());
        (high < others) | ((high == others) & (self.low() < other.low()))
    }

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
        fn keys_order_by_class_then_sort_keys_then_number(
            one in (0u32..3, prop::array::uniform3(-2i64..3), 0u32..3),
            other in (0u32..3, prop::array::uniform3(-2i64..3), 0u32..3),
            scale in prop::sample::select(vec![1, 1 << 40, i64::MAX / 3]),
        ) {
            let rank = |(class, keys, number): (u32, [i64; MOST_KEYS], u32)| {
                RankKey::new(class, keys.map(|key| key * scale), RequestNumber(number))
            };
            prop_assert_eq!(rank(one).cmp(&rank(other)), one.cmp(&other));
            prop_assert_eq!(rank(one) < rank(other), one < other);
            prop_assert_eq!(rank(one) > rank(other), one > other);
            prop_assert_eq!(rank(one).request().0, one.2);
            prop_assert_eq!(rank(one).keys(), one.1.map(|key| key * scale));
        }
    }
}
