//! The running requests by rank, of which the worst is asked for.

use super::super::request::Slot;
use super::RankKey;
use super::worst_few::WorstFew;

/// Ranks change often and the worst is seldom asked for, so there is no order; only
/// the worst few are kept, as long as they are known. The ranks of the others are asked for
/// when they are compared.
///
/// A slot stays in the list when its request leaves, until the next scan: mostly another
/// request has the slot by then.
#[derive(Debug, Default)]
pub(crate) struct RunningSet {
    /// The slots of all members, in any order, and of some requests that have left.
    slots: Vec<Slot>,
    /// By slot: whether it is in `slots`.
    places: Vec<Place>,
    /// The worst members, as long as they are known: all others are better.
    worst: WorstFew,
}

/// The state of a slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// It is not in the list.
    #[default]
    Unlisted,
    /// It is in the list, and its request has left.
    Left,
    /// It is that of a member.
    Member,
}

impl RunningSet {
    /// Adds a request with its rank; or notes the new rank of a member.
    #[inline]
    pub(crate) fn set(&mut self, slot: Slot, rank: RankKey) {
        let at = slot as usize;
        if at >= self.places.len() {
            self.places.resize(at + 1, Place::Unlisted);
        }
        match std::mem::replace(&mut self.places[at], Place::Member) {
            Place::Unlisted => self.slots.push(slot),
            Place::Left => {}
            Place::Member => self.worst.remove(slot),
        }
        if self.worst.best().is_some_and(|best| rank > best) {
            self.worst.insert(rank, slot);
        }
    }

    /// Removes a request, if it is a member.
    #[inline]
    pub(crate) fn remove(&mut self, slot: Slot) {
        if let Some(place) = self.places.get_mut(slot as usize)
            && *place == Place::Member
        {
            *place = Place::Left;
            self.worst.remove(slot);
        }
    }

    /// All members with their ranks.
    fn ranked(&self, rank: impl Fn(Slot) -> RankKey) -> impl Iterator<Item = (RankKey, Slot)> {
        let members = self.slots.iter().filter(|&&slot| self.places[slot as usize] == Place::Member);
        members.map(move |&slot| (rank(slot), slot))
    }

    /// The worst member.
    #[inline]
    pub(crate) fn worst(&mut self, rank: impl Fn(Slot) -> RankKey) -> Option<(RankKey, Slot)> {
        if self.worst.best().is_none() {
            self.find_worst(rank);
        }
        self.worst.first()
    }

    /// The worst member that is better than `bound`.
    fn worst_below(&self, bound: RankKey, rank: impl Fn(Slot) -> RankKey) -> Option<(RankKey, Slot)> {
        self.worst
            .first_below(bound)
            .or_else(|| self.ranked(rank).filter(|(rank, _)| *rank < bound).max_by_key(|(rank, _)| *rank))
    }

    /// All members that are better than `bound`, the worst last.
    fn all_below(&self, bound: RankKey, rank: impl Fn(Slot) -> RankKey) -> Vec<(RankKey, Slot)> {
        let mut below: Vec<_> = self.ranked(rank).filter(|&(rank, _)| rank < bound).collect();
        below.sort_unstable_by_key(|&(rank, _)| rank);
        below
    }

    /// A list of all members, the worst first.
    pub(crate) fn sorted(&self, rank: impl Fn(Slot) -> RankKey) -> Vec<(RankKey, Slot)> {
        let mut all: Vec<_> = self.ranked(rank).collect();
        all.sort_unstable_by_key(|&(rank, _)| std::cmp::Reverse(rank));
        all
    }

    /// All members, the worst first.
    pub(crate) fn worst_first<F: Fn(Slot) -> RankKey>(&mut self, rank: F) -> WorstFirst<'_, F> {
        let worst = self.worst(&rank);
        WorstFirst { running: self, rank, worst, last: None, scans: 0, rest: Vec::new() }
    }

    #[inline(never)]
    fn find_worst(&mut self, rank: impl Fn(Slot) -> RankKey) {
        let mut high = 0;
        let Self { slots, places, worst } = self;
        slots.retain(|&slot| {
            let place = &mut places[slot as usize];
            if *place != Place::Member {
                *place = Place::Unlisted;
                return false;
            }
            let rank = rank(slot);
            // Mostly the first comparison shows that it is not one of the worst.
            let best = worst.best().filter(|_| worst.is_full());
            if best.is_none_or(|best| rank.high() >= high && rank >= best) {
                worst.insert(rank, slot);
                high = worst.best().map_or(0, RankKey::high);
            }
            true
        });
    }
}

/// The members of a [`RunningSet`], the worst first.
#[derive(Debug)]
pub(crate) struct WorstFirst<'a, F> {
    running: &'a RunningSet,
    /// The rank of each member.
    rank: F,
    worst: Option<(RankKey, Slot)>,
    last: Option<RankKey>,
    scans: u32,
    rest: Vec<(RankKey, Slot)>,
}

/// Mostly one or two members are asked for; past so many, all are sorted.
const MOST_SCANS: u32 = 8;

impl<F: Fn(Slot) -> RankKey> Iterator for WorstFirst<'_, F> {
    type Item = (RankKey, Slot);

    fn next(&mut self) -> Option<(RankKey, Slot)> {
        let next = match self.last {
            None => self.worst,
            Some(_) if self.scans > MOST_SCANS => self.rest.pop(),
            Some(last) => {
                self.scans += 1;
                if self.scans > MOST_SCANS {
                    self.rest = self.running.all_below(last, &self.rank);
                    self.rest.pop()
                } else {
                    self.running.worst_below(last, &self.rank)
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
                let rank = |slot: Slot| ranks[&slot];
                prop_assert_eq!(running.worst(rank), sorted.first().copied());
                prop_assert_eq!(running.worst_first(rank).collect::<Vec<_>>(), sorted.clone());
                prop_assert_eq!(running.sorted(rank), sorted);
            }
        }
    }
}
