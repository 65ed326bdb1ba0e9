//! The key by which ranked requests are ordered.

use serde::{Deserialize, Serialize};

use crate::config::MOST_KEYS;
use crate::trace::RequestNumber;

/// Rank of a request, smaller is better: class, sort keys and number, in this order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct RankKey {
    class: u32,
    keys: [i64; MOST_KEYS],
    request: RequestNumber,
}

impl RankKey {
    /// The key of a request of a class, with sort keys.
    pub(crate) fn new(class: u32, keys: [i64; MOST_KEYS], request: RequestNumber) -> Self {
        Self { class, keys, request }
    }

    /// The class.
    pub(crate) fn class(self) -> u32 {
        self.class
    }

    /// The sort keys.
    pub(crate) fn keys(self) -> [i64; MOST_KEYS] {
        self.keys
    }

    /// The request.
    pub(crate) fn request(self) -> RequestNumber {
        self.request
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
