//! The running requests by rank, of which the worst is asked for.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::super::request::Slot;
use super::RankKey;

/// How many of the worst members a scan finds.
const FEW: usize = 4;

/// The running requests. Ranks change often and the worst is seldom asked for, so there is no order: the worst few are found
/// by a scan, and known until their own ranks change.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct RunningSet {
    /// By slot: the rank of a member.
    ranks: Vec<Option<RankKey>>,
    /// The worst members, the worst last: all others are better. If it is empty, they are to be found.
    worst: Vec<(RankKey, Slot)>,
}

impl RunningSet {
    /// Adds a request with its rank; or notes the new rank of a member.
    pub(crate) fn set(&mut self, slot: Slot, rank: RankKey) {
        let at = slot as usize;
        if at >= self.ranks.len() {
            self.ranks.resize(at + 1, None);
        }
        if self.ranks[at].replace(rank).is_some() {
            self.forget(slot);
        }
        if self.worst.first().is_some_and(|best| best.0 < rank) {
            insert(&mut self.worst, rank, slot);
        }
    }

    /// Removes a request, if it is a member.
    pub(crate) fn remove(&mut self, slot: Slot) {
        if self.ranks.get_mut(slot as usize).is_some_and(|rank| rank.take().is_some()) {
            self.forget(slot);
        }
    }

    /// Takes a request out of the worst few, if it is one of them.
    fn forget(&mut self, slot: Slot) {
        if let Some(at) = self.worst.iter().position(|other| other.1 == slot) {
            self.worst.remove(at);
        }
    }

    /// The worst member.
    pub(crate) fn worst(&mut self) -> Option<(RankKey, Slot)> {
        if self.worst.is_empty() {
            for (rank, slot) in members(&self.ranks) {
                if self.worst.len() < FEW || self.worst[0].0 < rank {
                    insert(&mut self.worst, rank, slot);
                }
            }
        }
        self.worst.last().copied()
    }

    /// The members that are worse than `bound`, the worst first.
    pub(crate) fn worse_than(&mut self, bound: RankKey) -> Vec<(RankKey, Slot)> {
        if self.worst().is_none_or(|(worst, _)| worst <= bound) {
            return Vec::new();
        }
        let mut worse: Vec<_> = members(&self.ranks).filter(|(rank, _)| *rank > bound).collect();
        worse.sort_unstable_by_key(|&(rank, _)| Reverse(rank));
        worse
    }

    /// The slots of all members.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        members(&self.ranks).map(|(_, slot)| slot)
    }

    /// All members, the worst first.
    pub(crate) fn sorted(&self) -> Vec<(RankKey, Slot)> {
        let mut all: Vec<_> = members(&self.ranks).collect();
        all.sort_unstable_by_key(|&(rank, _)| Reverse(rank));
        all
    }
}

/// The members with their ranks.
fn members(ranks: &[Option<RankKey>]) -> impl Iterator<Item = (RankKey, Slot)> + '_ {
    (0..).zip(ranks).filter_map(|(slot, rank)| rank.map(|rank| (rank, slot)))
}

/// Inserts a request into a few that are sorted, and drops the best of too many.
fn insert(few: &mut Vec<(RankKey, Slot)>, rank: RankKey, slot: Slot) {
    let better = few.iter().take_while(|other| other.0 < rank).count();
    few.insert(better, (rank, slot));
    if few.len() > FEW {
        few.remove(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::RequestNumber;
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
                    let rank = RankKey::new(0, [key, 0, 0], RequestNumber(slot));
                    running.set(slot, rank);
                    ranks.insert(slot, rank);
                } else {
                    running.remove(slot);
                    ranks.remove(&slot);
                }
                let mut sorted: Vec<_> = ranks.iter().map(|(&slot, &rank)| (rank, slot)).collect();
                sorted.sort_unstable();
                sorted.reverse();
                let bound = RankKey::new(0, [3, 0, 0], RequestNumber(0));
                let worse: Vec<_> = sorted.iter().copied().filter(|(rank, _)| *rank > bound).collect();
                prop_assert_eq!(running.worst(), sorted.first().copied());
                prop_assert_eq!(running.worse_than(bound), worse);
                prop_assert_eq!(running.sorted(), sorted);
            }
        }
    }
}
