//! The running requests by rank, of which the worst is asked for.

use std::cmp::Reverse;

use super::super::request::Slot;
use super::RankKey;

/// The running requests. Ranks change often and the worst is seldom asked for, so there is no order: the worst is found by
/// a scan, and known until its own rank changes.
#[derive(Debug, Default)]
pub(crate) struct RunningSet {
    /// By slot: the rank of a member.
    ranks: Vec<Option<RankKey>>,
    /// The worst member, if it is known.
    worst: Option<(RankKey, Slot)>,
}

impl RunningSet {
    /// Adds a request with its rank; or notes the new rank of a member.
    #[inline]
    pub(crate) fn set(&mut self, slot: Slot, rank: RankKey) {
        let at = slot as usize;
        if at >= self.ranks.len() {
            self.ranks.resize(at + 1, None);
        }
        self.ranks[at] = Some(rank);
        match self.worst {
            Some((worst, _)) if worst < rank => self.worst = Some((rank, slot)),
            Some((_, other)) if other == slot => self.worst = None,
            _ => {}
        }
    }

    /// Removes a request, if it is a member.
    #[inline]
    pub(crate) fn remove(&mut self, slot: Slot) {
        if let Some(rank) = self.ranks.get_mut(slot as usize) {
            *rank = None;
            self.worst = self.worst.filter(|&(_, worst)| worst != slot);
        }
    }

    /// The worst member.
    #[inline]
    pub(crate) fn worst(&mut self) -> Option<(RankKey, Slot)> {
        if self.worst.is_none() {
            self.worst = self.members().max();
        }
        self.worst
    }

    /// The members that are worse than `bound`, the worst first.
    pub(crate) fn worse_than(&mut self, bound: RankKey) -> Vec<(RankKey, Slot)> {
        if self.worst().is_none_or(|(worst, _)| worst <= bound) {
            return Vec::new();
        }
        let mut worse: Vec<_> = self.members().filter(|(rank, _)| *rank > bound).collect();
        worse.sort_unstable_by_key(|&(rank, _)| Reverse(rank));
        worse
    }

    /// All members, the worst first.
    pub(crate) fn sorted(&self) -> Vec<(RankKey, Slot)> {
        let mut all: Vec<_> = self.members().collect();
        all.sort_unstable_by_key(|&(rank, _)| Reverse(rank));
        all
    }

    fn members(&self) -> impl Iterator<Item = (RankKey, Slot)> + '_ {
        (0..).zip(&self.ranks).filter_map(|(slot, rank)| rank.map(|rank| (rank, slot)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_worst_come_first_as_in_a_sorted_list(
            moves in prop::collection::vec((0u32..20, prop::option::weighted(0.8, 0i64..6)), 1..200),
        ) {
            let mut running = RunningSet::default();
            let mut ranks: BTreeMap<Slot, RankKey> = BTreeMap::new();
            for (slot, key) in moves {
                if let Some(key) = key {
                    let rank = RankKey::new(0, [key, 0, 0], slot);
                    running.set(slot, rank);
                    ranks.insert(slot, rank);
                } else {
                    running.remove(slot);
                    ranks.remove(&slot);
                }
                let mut sorted: Vec<_> = ranks.iter().map(|(&slot, &rank)| (rank, slot)).collect();
                sorted.sort_unstable();
                sorted.reverse();
                let bound = RankKey::new(0, [3, 0, 0], 0);
                let worse: Vec<_> = sorted.iter().copied().filter(|(rank, _)| *rank > bound).collect();
                prop_assert_eq!(running.worst(), sorted.first().copied());
                prop_assert_eq!(running.worse_than(bound), worse);
                prop_assert_eq!(running.sorted(), sorted);
            }
        }
    }
}
