//! The running requests by rank, of which the worst is asked for.

use std::hint::select_unpredictable;

use super::super::request::Slot;
use super::RankKey;

/// No index.
const ABSENT: u32 = u32::MAX;

/// How many of the worst are known at most.
const WORST: usize = 4;

/// Ranks change often and the worst is seldom asked for, so there is no order; only
/// the worst few are kept, as long as they are known.
#[derive(Debug, Default)]
pub(crate) struct RunningSet {
    /// As many entries as there are slots; the first `len` are members.
    members: Vec<(RankKey, Slot)>,
    len: usize,
    /// By slot: index in `members`.
    places: Vec<u32>,
    /// The worst members, the worst last: all others are better.
    worst: [(RankKey, Slot); WORST],
    /// How many of `worst` are known, from its start.
    known: usize,
}

/// Index of `slot` among the first `len` of a few entries, without a branch, which
/// would be mispredicted.
#[inline]
pub(super) fn find<const MOST: usize>(
    few: &[(RankKey, Slot); MOST],
    len: usize,
    slot: Slot,
) -> Option<usize> {
    let mut found = MOST;
    for (at, other) in few.iter().enumerate() {
        found = select_unpredictable(other.1 == slot && at < len, at, found);
    }
    (found < MOST).then_some(found)
}

impl RunningSet {
    /// Sets the rank of a request, which may be a member already.
    pub(crate) fn set(&mut self, slot: Slot, rank: RankKey) {
        let at = slot as usize;
        if at >= self.places.len() {
            self.add_slot(slot);
        }
        let place = self.places[at];
        if place == ABSENT {
            self.places[at] = self.len as u32;
            self.members[self.len] = (rank, slot);
            self.len += 1;
        } else {
            self.members[place as usize].0 = rank;
            self.forget(slot);
        }
        if self.known > 0 && rank > self.worst[0].0 {
            self.learn(rank, slot);
        }
    }

    #[inline(never)]
    fn add_slot(&mut self, slot: Slot) {
        let slots = slot as usize + 1;
        self.places.resize(slots, ABSENT);
        self.members.resize(slots, Default::default());
    }

    /// Removes a request, if it is a member.
    pub(crate) fn remove(&mut self, slot: Slot) {
        let Some(place) = self.places.get_mut(slot as usize) else { return };
        let hole = std::mem::replace(place, ABSENT);
        if hole == ABSENT {
            return;
        }
        self.len -= 1;
        if hole as usize != self.len {
            let last = self.members[self.len];
            self.members[hole as usize] = last;
            self.places[last.1 as usize] = hole;
        }
        self.forget(slot);
    }

    fn members(&self) -> &[(RankKey, Slot)] {
        &self.members[..self.len]
    }

    /// The worst member.
    #[inline]
    pub(crate) fn worst(&mut self) -> Option<(RankKey, Slot)> {
        if self.known == 0 {
            self.find_worst();
        }
        self.worst[..self.known].last().copied()
    }

    /// The worst member that is better than `bound`.
    fn worst_below(&self, bound: RankKey) -> Option<(RankKey, Slot)> {
        let known = self.worst[..self.known].iter().rev().find(|(rank, _)| *rank < bound).copied();
        known.or_else(|| {
            let below = self.members().iter().filter(|(rank, _)| *rank < bound);
            below.max_by_key(|(rank, _)| *rank).copied()
        })
    }

    /// All members that are better than `bound`, the worst last.
    fn all_below(&self, bound: RankKey) -> Vec<(RankKey, Slot)> {
        let mut below: Vec<_> = self.members().iter().copied().filter(|&(rank, _)| rank < bound).collect();
        below.sort_unstable_by_key(|&(rank, _)| rank);
        below
    }

    /// A list of all members, the worst first.
    pub(crate) fn sorted(&self) -> Vec<(RankKey, Slot)> {
        let mut all = self.members().to_vec();
        all.sort_unstable_by_key(|&(rank, _)| std::cmp::Reverse(rank));
        all
    }

    /// All members, the worst first.
    pub(crate) fn worst_first(&mut self) -> WorstFirst<'_> {
        let worst = self.worst();
        WorstFirst { running: self, worst, last: None, scans: 0, rest: Vec::new() }
    }

    /// Removes a request from the worst that are known.
    #[inline]
    fn forget(&mut self, slot: Slot) {
        if let Some(at) = find(&self.worst, self.known, slot) {
            self.worst.copy_within(at + 1.., at);
            self.known -= 1;
        }
    }

    /// Adds a request to the worst that are known.
    fn learn(&mut self, rank: RankKey, slot: Slot) {
        let mut at = if self.known < WORST {
            self.known += 1;
            self.known - 1
        } else {
            // The best of them is dropped.
            self.worst.rotate_left(1);
            WORST - 1
        };
        while at > 0 && self.worst[at - 1].0 > rank {
            self.worst[at] = self.worst[at - 1];
            at -= 1;
        }
        self.worst[at] = (rank, slot);
    }

    #[inline(never)]
    fn find_worst(&mut self) {
        let mut high = 0;
        for place in 0..self.len {
            let (rank, slot) = self.members[place];
            // Mostly the first comparison shows that it is not one of the worst.
            if self.known == WORST && (rank.high() < high || rank < self.worst[0].0) {
                continue;
            }
            self.learn(rank, slot);
            high = self.worst[0].0.high();
        }
    }
}

/// The members of a [`RunningSet`], the worst first.
#[derive(Debug)]
pub(crate) struct WorstFirst<'a> {
    running: &'a RunningSet,
    worst: Option<(RankKey, Slot)>,
    last: Option<RankKey>,
    scans: u32,
    rest: Vec<(RankKey, Slot)>,
}

/// Mostly one or two members are asked for; past so many, all are sorted.
const MOST_SCANS: u32 = 8;

impl Iterator for WorstFirst<'_> {
    type Item = (RankKey, Slot);

    fn next(&mut self) -> Option<(RankKey, Slot)> {
        let next = match self.last {
            None => self.worst,
            Some(_) if self.scans > MOST_SCANS => self.rest.pop(),
            Some(last) => {
                self.scans += 1;
                if self.scans > MOST_SCANS {
                    self.rest = self.running.all_below(last);
                    self.rest.pop()
                } else {
                    self.running.worst_below(last)
                }
            }
        }?;
        self.last = Some(next.0);
        Some(next)
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
                prop_assert_eq!(running.worst(), sorted.first().copied());
                prop_assert_eq!(running.worst_first().collect::<Vec<_>>(), sorted);
            }
        }
    }
}
