//! The two lists of requests that ranks put in order: those who run, of whom
//! the worst is asked for, and those who wait, of whom the best is.

use super::active::Slot;
use super::order::Order;
use super::ranks::Rank;

/// No place.
const NOWHERE: u32 = u32::MAX;

/// Those who run. Ranks change often and the worst is asked for seldom, so there
/// is no order, only the worst, as long as it is known.
#[derive(Debug, Default)]
pub(super) struct Running {
    members: Vec<(Rank, Slot)>,
    /// By slot: where it stands.
    places: Vec<u32>,
    /// Where the worst stands, if that is known.
    worst: Option<u32>,
}

impl Running {
    /// Gives somebody its rank, whether it ran already or not.
    pub(super) fn set(&mut self, slot: Slot, rank: Rank) {
        let at = slot as usize;
        if at >= self.places.len() {
            self.places.resize(at + 1, NOWHERE);
        }
        let mut place = self.places[at];
        let worst = self.worst.map(|worst| self.members[worst as usize].0);
        if place == NOWHERE {
            place = self.members.len() as u32;
            self.places[at] = place;
            self.members.push((rank, slot));
        } else {
            self.members[place as usize].0 = rank;
        }
        if worst.is_some_and(|worst| rank > worst) {
            self.worst = Some(place);
        } else if self.worst == Some(place) && worst != Some(rank) {
            self.worst = None;
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
        if self.worst == Some(hole) {
            self.worst = None;
        } else if self.worst == Some(self.members.len() as u32) {
            self.worst = Some(hole);
        }
    }

    /// The worst of them.
    #[inline]
    pub(super) fn worst(&mut self) -> Option<(Rank, Slot)> {
        if self.worst.is_none() {
            self.worst = self.find_below(None);
        }
        self.worst.map(|worst| self.members[worst as usize])
    }

    /// The worst of those who are better than `bound`.
    pub(super) fn worst_below(&self, bound: Rank) -> Option<(Rank, Slot)> {
        self.find_below(Some(bound)).map(|worst| self.members[worst as usize])
    }

    /// All who are better than `bound`, the worst last.
    pub(super) fn all_below(&self, bound: Rank) -> Vec<(Rank, Slot)> {
        let mut below: Vec<_> = self.members.iter().copied().filter(|&(rank, _)| rank < bound).collect();
        below.sort_unstable_by_key(|&(rank, _)| rank);
        below
    }

    fn find_below(&self, bound: Option<Rank>) -> Option<u32> {
        let (mut worst, mut high) = (None, 0);
        for (place, &(rank, _)) in self.members.iter().enumerate() {
            // Mostly that says that it is not.
            if rank.high() < high {
                continue;
            }
            if worst.is_none_or(|(worst, _)| rank > worst) && bound.is_none_or(|bound| rank < bound) {
                (worst, high) = (Some((rank, place)), rank.high());
            }
        }
        worst.map(|(_, place)| place as u32)
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
