//! A few requests of the worst ranks.

use std::hint::select_unpredictable;

use super::super::request::Slot;
use super::RankKey;

/// How many there are at most.
const MOST: usize = 4;

/// Requests by rank, the worst first. If another comes to as many as there may be, the best of them is dropped.
///
/// They are in a ring: a request that is worse than all, as each is that is admitted in order of arrival, moves no other.
#[derive(Debug, Default)]
pub(super) struct WorstFew {
    ring: [(RankKey, Slot); MOST],
    /// Where the best is; those that are worse follow.
    start: usize,
    len: usize,
}

impl WorstFew {
    /// The place in the ring of the request that is worse than `better` of them.
    #[inline]
    fn place(&self, better: usize) -> usize {
        (self.start + better) % MOST
    }

    /// Whether the next to be inserted drops the best.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len == MOST
    }

    /// The rank of the best of them.
    #[inline]
    pub(super) fn best(&self) -> Option<RankKey> {
        (self.len > 0).then(|| self.ring[self.start].0)
    }

    /// The worst.
    #[inline]
    pub(super) fn first(&self) -> Option<(RankKey, Slot)> {
        let last = self.len.checked_sub(1)?;
        Some(self.ring[self.place(last)])
    }

    /// The worst of those that are better than `bound`.
    pub(super) fn first_below(&self, bound: RankKey) -> Option<(RankKey, Slot)> {
        (0..self.len).rev().map(|better| self.ring[self.place(better)]).find(|(rank, _)| *rank < bound)
    }

    /// Inserts a request that is none of them.
    #[inline]
    pub(super) fn insert(&mut self, rank: RankKey, slot: Slot) {
        if self.is_full() {
            self.start = self.place(1);
        } else {
            self.len += 1;
        }
        let mut better = self.len - 1;
        while better > 0 && self.ring[self.place(better - 1)].0 > rank {
            self.ring[self.place(better)] = self.ring[self.place(better - 1)];
            better -= 1;
        }
        self.ring[self.place(better)] = (rank, slot);
    }

    /// Removes a request, if it is one of them.
    #[inline]
    pub(super) fn remove(&mut self, slot: Slot) {
        if self.len == 0 {
            return;
        }
        // Without a branch, which would be mispredicted.
        let mut found = MOST;
        for better in 0..MOST {
            let is_slot = self.ring[self.place(better)].1 == slot && better < self.len;
            found = select_unpredictable(is_slot, better, found);
        }
        if found < MOST {
            for better in found + 1..self.len {
                self.ring[self.place(better - 1)] = self.ring[self.place(better)];
            }
            self.len -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn they_are_the_worst_of_a_sorted_list_that_is_cut(
            moves in prop::collection::vec((0u32..9, prop::option::weighted(0.7, 0i64..50)), 1..100),
        ) {
            let mut few = WorstFew::default();
            let mut expected: Vec<(RankKey, Slot)> = Vec::new();
            for (slot, key) in moves {
                few.remove(slot);
                expected.retain(|other| other.1 != slot);
                if let Some(key) = key {
                    let rank = RankKey::new(0, [key, 0, 0], slot);
                    few.insert(rank, slot);
                    if expected.len() == MOST {
                        expected.remove(0);
                    }
                    expected.push((rank, slot));
                    expected.sort_unstable();
                }
                prop_assert_eq!(few.first(), expected.last().copied());
                prop_assert_eq!(few.best(), expected.first().map(|best| best.0));
                prop_assert_eq!(few.is_full(), expected.len() == MOST);
                let bound = RankKey::new(0, [25, 0, 0], 0);
                let below = expected.iter().rev().find(|(rank, _)| *rank < bound).copied();
                prop_assert_eq!(few.first_below(bound), below);
            }
        }
    }
}
