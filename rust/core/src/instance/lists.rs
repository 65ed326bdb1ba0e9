//! The two lists of requests that ranks put in order: those who run, of whom
//! the worst is asked for, and those who wait, of whom the best is.

use std::hint::select_unpredictable;

use super::active::Slot;
use super::rank::Rank;
use crate::collections::IndexedHeap;

/// No place.
const NOWHERE: u32 = u32::MAX;

/// Where `slot` stands among the first `len`. All are looked at, as which it is
/// is hard to foresee.
#[inline]
fn find<const MOST: usize>(few: &[(Rank, Slot); MOST], len: usize, slot: Slot) -> Option<usize> {
    let mut found = MOST;
    for (at, other) in few.iter().enumerate() {
        found = select_unpredictable(other.1 == slot && at < len, at, found);
    }
    (found < MOST).then_some(found)
}

/// Those who run. Ranks change often and the worst is asked for seldom, so there
/// is no order, only the worst few, as long as they are known.
#[derive(Debug, Default)]
pub(super) struct Running {
    /// As many as there are slots, of which the first `len` are members.
    members: Vec<(Rank, Slot)>,
    len: usize,
    /// By slot: where it stands.
    places: Vec<u32>,
    /// The worst of them, the worst last: all others are better.
    worst: [(Rank, Slot); WORST],
    /// How many of those are known, from the front on.
    known: usize,
}

/// So many are known at most.
const WORST: usize = 4;

impl Running {
    /// Gives somebody its rank, whether it ran already or not.
    pub(super) fn set(&mut self, slot: Slot, rank: Rank) {
        let at = slot as usize;
        if at >= self.places.len() {
            self.make_place(slot);
        }
        let place = self.places[at];
        if place == NOWHERE {
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
    fn make_place(&mut self, slot: Slot) {
        let slots = slot as usize + 1;
        self.places.resize(slots, NOWHERE);
        self.members.resize(slots, Default::default());
    }

    /// Takes somebody out, if it is in.
    pub(super) fn remove(&mut self, slot: Slot) {
        let Some(place) = self.places.get_mut(slot as usize) else { return };
        let hole = std::mem::replace(place, NOWHERE);
        if hole == NOWHERE {
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

    fn all(&self) -> &[(Rank, Slot)] {
        &self.members[..self.len]
    }

    /// The worst of them.
    #[inline]
    pub(super) fn worst(&mut self) -> Option<(Rank, Slot)> {
        if self.known == 0 {
            self.find_worst();
        }
        self.worst[..self.known].last().copied()
    }

    /// The worst of those who are better than `bound`.
    pub(super) fn worst_below(&self, bound: Rank) -> Option<(Rank, Slot)> {
        let known = self.worst[..self.known].iter().rev().find(|(rank, _)| *rank < bound).copied();
        known.or_else(|| {
            let below = self.all().iter().filter(|(rank, _)| *rank < bound);
            below.max_by_key(|(rank, _)| *rank).copied()
        })
    }

    /// All who are better than `bound`, the worst last.
    pub(super) fn all_below(&self, bound: Rank) -> Vec<(Rank, Slot)> {
        let mut below: Vec<_> = self.all().iter().copied().filter(|&(rank, _)| rank < bound).collect();
        below.sort_unstable_by_key(|&(rank, _)| rank);
        below
    }

    #[inline]
    fn forget(&mut self, slot: Slot) {
        if let Some(at) = find(&self.worst, self.known, slot) {
            self.worst.copy_within(at + 1.., at);
            self.known -= 1;
        }
    }

    /// Puts somebody among the worst who are known.
    fn learn(&mut self, rank: Rank, slot: Slot) {
        let mut at = if self.known < WORST {
            self.known += 1;
            self.known - 1
        } else {
            // The best of them makes room.
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
            // Mostly that says that it is not one of them.
            if self.known == WORST && (rank.high() < high || rank < self.worst[0].0) {
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
    latest: [(Rank, Slot); LATEST],
    /// How many of those there are, from the front on.
    few: usize,
    others: IndexedHeap<Rank>,
    best: Option<(Rank, Slot)>,
}

impl Queued {
    /// Gives somebody its rank, whether it waited already or not.
    pub(super) fn set(&mut self, slot: Slot, rank: Rank) {
        let best = self.best.is_none_or(|(best, _)| rank < best);
        let was_best = self.is_best(slot);
        if let Some(at) = find(&self.latest, self.few, slot) {
            self.latest[at].0 = rank;
        } else if self.others.holds(slot) {
            self.others.set(slot, rank);
        } else {
            if self.few == LATEST {
                for (rank, slot) in self.latest {
                    self.others.set(slot, rank);
                }
                self.few = 0;
            }
            self.latest[self.few] = (rank, slot);
            self.few += 1;
        }
        if best {
            self.best = Some((rank, slot));
        } else if was_best {
            self.find_best();
        }
    }

    /// Takes somebody out, if it is in.
    pub(super) fn remove(&mut self, slot: Slot) {
        match find(&self.latest, self.few, slot) {
            Some(at) => {
                self.few -= 1;
                self.latest[at] = self.latest[self.few];
            }
            None => self.others.remove(slot),
        }
        if self.is_best(slot) {
            self.find_best();
        }
    }

    /// The best of them.
    #[inline]
    pub(super) fn best(&self) -> Option<Slot> {
        self.best.map(|(_, slot)| slot)
    }

    #[inline]
    fn is_best(&self, slot: Slot) -> bool {
        self.best.is_some_and(|best| best.1 == slot)
    }

    fn find_best(&mut self) {
        let Some((first, rest)) = self.latest[..self.few].split_first() else {
            self.best = self.others.first();
            return;
        };
        let mut best = first;
        for one in rest {
            best = select_unpredictable(one.0 < best.0, one, best);
        }
        let best = *best;
        self.best = self.others.first().filter(|other| other.0 < best.0).or(Some(best));
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
