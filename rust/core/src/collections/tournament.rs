//! The smallest of a fixed number of keys that change often.

use serde::{Deserialize, Serialize};

/// A tournament tree: each leaf has a key, and each inner node the smaller of the two below it.
///
/// Reading the smallest key takes one load; changing a key takes the logarithm of the number of leaves. If keys
/// are equal, the leaf with the lowest index is first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Tournament {
    /// Leaves, a power of two.
    width: usize,
    /// The smallest entry below each node; the root is node 1.
    nodes: Vec<u128>,
}

/// The key of a leaf and its index as one number: of two, the smaller has the smaller key, or the lower index if keys are
/// equal. Which one it is cannot be predicted, and the smaller of two numbers is selected without a branch.
fn entry(key: u64, index: usize) -> u128 {
    u128::from(key) << 64 | index as u128
}

/// The key of an entry.
fn key_of(entry: u128) -> u64 {
    (entry >> 64) as u64
}

impl Tournament {
    /// A tree of `n` leaves, each with the largest key there is.
    pub(crate) fn new(n: usize) -> Self {
        let width = n.next_power_of_two();
        let mut nodes: Vec<_> = (0..2 * width).map(|i| entry(u64::MAX, i.saturating_sub(width))).collect();
        for i in (1..width).rev() {
            nodes[i] = nodes[2 * i];
        }
        Self { width, nodes }
    }

    /// The smallest key and the index of its leaf.
    pub(crate) fn first(&self) -> (u64, usize) {
        (key_of(self.nodes[1]), self.nodes[1] as usize)
    }

    /// Whether the keys of all leaves but `index` are larger than `key`.
    pub(crate) fn others_exceed(&self, index: usize, key: u64) -> bool {
        let mut at = self.width + index;
        while at > 1 {
            if key_of(self.nodes[at ^ 1]) <= key {
                return false;
            }
            at /= 2;
        }
        true
    }

    /// Sets the key of a leaf.
    pub(crate) fn set(&mut self, index: usize, key: u64) {
        let mut at = self.width + index;
        let mut first = entry(key, index);
        self.nodes[at] = first;
        while at > 1 {
            first = first.min(self.nodes[at ^ 1]);
            at /= 2;
            self.nodes[at] = first;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_keys_the_first_leaf_has_the_largest_key() {
        for n in 1..9 {
            assert_eq!(Tournament::new(n).first(), (u64::MAX, 0));
        }
        assert!(Tournament::new(1).others_exceed(0, 3), "there are no others");
    }

    proptest! {
        #[test]
        fn a_tournament_equals_a_scan_of_its_keys(
            n in 1usize..20, sets in prop::collection::vec((0usize..20, prop::option::weighted(0.9, 0u64..10)), 1..60),
        ) {
            let mut tree = Tournament::new(n);
            let mut keys = vec![u64::MAX; n];
            for (index, key) in sets {
                let (index, key) = (index % n, key.unwrap_or(u64::MAX));
                tree.set(index, key);
                keys[index] = key;
                let least = *keys.iter().min().unwrap();
                let first = keys.iter().position(|&k| k == least).unwrap();
                prop_assert_eq!(tree.first(), (least, first));
                let mut others = keys.iter().enumerate().filter(|(other, _)| *other != index);
                // A leaf without a key counts as one with the largest: no leaf beyond `n` is ever smaller.
                if key < u64::MAX {
                    prop_assert_eq!(tree.others_exceed(index, key), others.all(|(_, &other)| other > key));
                }
            }
        }
    }
}
