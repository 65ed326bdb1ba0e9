//! The two lists of requests that ranks put in order: those who run, of whom
//! the worst is asked for, and those who wait, of whom the best is.

use super::active::Slot;
use super::order::Order;
use super::rank::Rank;

/// No place.
const NOWHERE: u32 = u32::MAX;

/// Those who run. Ranks change often and the worst is asked for seldom, so there
/// is no order, only the worst few, as long as they are known.
#[derive(Debug, Default)]
pub(super) struct Running {
    members: Vec<(Rank, Slot)>,
    /// By slot: where it stands.
    places: Vec<u32>,
    /// The worst of them, the worst last: all others are better. Empty: not known.
    worst: Vec<(Rank, Slot)>,
}

/// So many are known at most.
const WORST: usize = 4;

impl Running {
    /// Gives somebody its rank, whether it ran already or not.
    pub(super) fn set(&mut self, slot: Slot, rank: Rank) {
        let at = slot as usize;
        if at >= self.places.len() {
            self.places.resize(at + 1, NOWHERE);
        }
        let place = self.places[at];
        if place == NOWHERE {
            self.places[at] = self.members.len() as u32;
            self.members.push((rank, slot));
        } else {
            self.members[place as usize].0 = rank;
            self.forget(slot);
        }
        if self.worst.first().is_some_and(|(known, _)| rank > *known) {
            self.learn(rank, slot);
        }
    }

    /// Takes somebody out, if it is in.
    pub(super) fn remove(&mut self, slot: Slot) {
        let Some(place) = self.places.get_mut(slot as usize) else { return };
        let hole = std::mem::replace(place, NOWHERE);
        if hole == NOWHERE {
            return;
        }
        self.members.swap_remove(hole as usize);
        if let Some(&(_, moved)) = self.members.get(hole as usize) {
            self.places[moved as usize] = hole;
        }
        self.forget(slot);
    }

    /// The worst of them.
    #[inline]
    pub(super) fn worst(&mut self) -> Option<(Rank, Slot)> {
        if self.worst.is_empty() {
            self.find_worst();
        }
        self.worst.last().copied()
    }

    /// The worst of those who are better than `bound`.
    pub(super) fn worst_below(&self, bound: Rank) -> Option<(Rank, Slot)> {
        let known = self.worst.iter().rev().find(|(rank, _)| *rank < bound).copied();
        known.or_else(|| {
            let below = self.members.iter().filter(|(rank, _)| *rank < bound);
            below.max_by_key(|(rank, _)| *rank).copied()
        })
    }

    /// All who are better than `bound`, the worst last.
    pub(super) fn all_below(&self, bound: Rank) -> Vec<(Rank, Slot)> {
        let mut below: Vec<_> = self.members.iter().copied().filter(|&(rank, _)| rank < bound).collect();
        below.sort_unstable_by_key(|&(rank, _)| rank);
        below
    }

    #[inline]
    fn forget(&mut self, slot: Slot) {
        if let Some(at) = self.worst.iter().position(|known| known.1 == slot) {
            self.worst.remove(at);
        }
    }

    /// Puts somebody among the worst who are known.
    fn learn(&mut self, rank: Rank, slot: Slot) {
        if self.worst.len() == WORST {
            self.worst.remove(0);
        }
        let at = self.worst.partition_point(|(known, _)| *known < rank);
        self.worst.insert(at, (rank, slot));
    }

    fn find_worst(&mut self) {
        let mut high = 0;
        for place in 0..self.members.len() {
            let (rank, slot) = self.members[place];
            // Mostly that says that it is not one of them.
            if self.worst.len() == WORST && (rank.high() < high || rank < self.worst[0].0) {
                continue;
            }
            self.learn(rank, slot);
            high = self.worst[0].0.high();
        }
    }
}

/// All who run, the worst first.
pub(super) struct Falling<'a> {
    running: &'a Running,
    worst: Option<(Rank, Slot)>,
    last: Option<Rank>,
    scans: u32,
    rest: Vec<(Rank, Slot)>,
}

/// Mostly one or two are asked for; past so many, all are put in order.
const MOST_SCANS: u32 = 8;

impl<'a> Falling<'a> {
    pub(super) fn new(running: &'a mut Running) -> Self {
        let worst = running.worst();
        Self { running, worst, last: None, scans: 0, rest: Vec::new() }
    }
}

impl Iterator for Falling<'_> {
    type Item = (Rank, Slot);

    fn next(&mut self) -> Option<(Rank, Slot)> {
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

/// Those who have come last, kept apart from the others.
const LATEST: usize = 4;

/// Those who wait. Whoever comes is mostly let in at the next step, so the
/// latest few are not put in order.
#[derive(Debug, Default)]
pub(super) struct Queued {
    latest: Vec<(Rank, Slot)>,
    others: Order<Rank>,
}

impl Queued {
    /// Gives somebody its rank, whether it waited already or not.
    pub(super) fn set(&mut self, slot: Slot, rank: Rank) {
        if let Some(entry) = self.latest.iter_mut().find(|entry| entry.1 == slot) {
            entry.0 = rank;
        } else if self.others.holds(slot) {
            self.others.set(slot, rank);
        } else {
            if self.latest.len() == LATEST {
                for (rank, slot) in self.latest.drain(..) {
                    self.others.set(slot, rank);
                }
            }
            self.latest.push((rank, slot));
        }
    }

    /// Takes somebody out, if it is in.
    pub(super) fn remove(&mut self, slot: Slot) {
        match self.latest.iter().position(|entry| entry.1 == slot) {
            Some(at) => _ = self.latest.swap_remove(at),
            None => self.others.remove(slot),
        }
    }

    /// The best of them.
    #[inline]
    pub(super) fn best(&self) -> Option<Slot> {
        let mut best = self.others.first();
        for &(rank, slot) in &self.latest {
            if best.is_none_or(|(best, _)| rank < best) {
                best = Some((rank, slot));
            }
        }
        best.map(|(_, slot)| slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_worst_and_the_best_equal_a_scan(
            moves in prop::collection::vec((0u32..12, prop::option::weighted(0.7, 0i64..6), 0i64..6), 1..200),
        ) {
            let (mut running, mut queued) = (Running::default(), Queued::default());
            let mut ranks: BTreeMap<Slot, Rank> = BTreeMap::new();
            for (slot, key, bound) in moves {
                if let Some(key) = key {
                    let rank = Rank::new(0, [key, 0, 0], slot);
                    running.set(slot, rank);
                    queued.set(slot, rank);
                    ranks.insert(slot, rank);
                } else {
                    running.remove(slot);
                    queued.remove(slot);
                    ranks.remove(&slot);
                }
                let scan = |below: Option<Rank>| {
                    let all = ranks.iter().map(|(&slot, &rank)| (rank, slot));
                    all.filter(|(rank, _)| below.is_none_or(|below| *rank < below)).collect::<Vec<_>>()
                };
                prop_assert_eq!(running.worst(), scan(None).into_iter().max());
                prop_assert_eq!(queued.best(), scan(None).into_iter().min().map(|(_, slot)| slot));
                let bound = Rank::new(0, [bound, 0, 0], 5);
                prop_assert_eq!(running.worst_below(bound), scan(Some(bound)).into_iter().max());
                let mut below = scan(Some(bound));
                below.sort_unstable();
                prop_assert_eq!(running.all_below(bound), below);
            }
        }
    }
}
