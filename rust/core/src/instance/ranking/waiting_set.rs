//! The queued requests by rank, of which the best is asked for.

use std::collections::BTreeSet;
use std::hint::select_unpredictable;

use super::super::request::Slot;
use super::RankKey;

/// How many of the latest requests are kept apart.
const LATEST: usize = 4;

/// Mostly a request is admitted at the next step after it was queued, so the latest
/// few are not sorted.
#[derive(Debug, Default)]
pub(crate) struct WaitingSet {
    latest: [(RankKey, Slot); LATEST],
    /// How many of `latest` there are, from its start.
    few: usize,
    /// The others, of which the best is mostly the next to be removed.
    others: BTreeSet<(RankKey, Slot)>,
    /// By slot: the rank of each of the others.
    ranks: Vec<Option<RankKey>>,
    best: Option<(RankKey, Slot)>,
}

/// Index of `slot` among the first `len` of a few entries, without a branch, which
/// would be mispredicted.
#[inline]
fn find<const MOST: usize>(few: &[(RankKey, Slot); MOST], len: usize, slot: Slot) -> Option<usize> {
    let mut found = MOST;
    for (at, other) in few.iter().enumerate() {
        found = select_unpredictable(other.1 == slot && at < len, at, found);
    }
    (found < MOST).then_some(found)
}

impl WaitingSet {
    /// Sets the rank of a request, which may be a member already.
    pub(crate) fn set(&mut self, slot: Slot, rank: RankKey) {
        let best = self.best.is_none_or(|(best, _)| rank < best);
        let was_best = self.is_best(slot);
        if let Some(at) = find(&self.latest, self.few, slot) {
            self.latest[at].0 = rank;
        } else if self.take_other(slot).is_some() {
            self.put_other(slot, rank);
        } else {
            if self.few == LATEST {
                for (rank, slot) in self.latest {
                    self.put_other(slot, rank);
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

    /// Removes a request, if it is a member.
    pub(crate) fn remove(&mut self, slot: Slot) {
        match find(&self.latest, self.few, slot) {
            Some(at) => {
                self.few -= 1;
                self.latest[at] = self.latest[self.few];
            }
            None => {
                self.take_other(slot);
            }
        }
        if self.is_best(slot) {
            self.find_best();
        }
    }

    /// The best member and its rank.
    #[inline]
    pub(crate) fn first(&self) -> Option<(RankKey, Slot)> {
        self.best
    }

    /// Adds one of the others.
    fn put_other(&mut self, slot: Slot, rank: RankKey) {
        let at = slot as usize;
        if at >= self.ranks.len() {
            self.ranks.resize(at + 1, None);
        }
        self.ranks[at] = Some(rank);
        self.others.insert((rank, slot));
    }

    /// Removes one of the others. Returns its rank, if it is one of them.
    fn take_other(&mut self, slot: Slot) -> Option<RankKey> {
        if self.others.is_empty() {
            return None;
        }
        let rank = self.ranks.get_mut(slot as usize)?.take()?;
        self.others.remove(&(rank, slot));
        Some(rank)
    }

    #[inline]
    fn is_best(&self, slot: Slot) -> bool {
        self.best.is_some_and(|best| best.1 == slot)
    }

    fn find_best(&mut self) {
        let Some((first, rest)) = self.latest[..self.few].split_first() else {
            self.best = self.others.first().copied();
            return;
        };
        let mut best = first;
        for one in rest {
            best = select_unpredictable(one.0 < best.0, one, best);
        }
        let best = *best;
        self.best = self.others.first().copied().filter(|other| other.0 < best.0).or(Some(best));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_best_equals_a_scan(
            moves in prop::collection::vec((0u32..12, prop::option::weighted(0.7, 0i64..6)), 1..200),
        ) {
            let mut waiting = WaitingSet::default();
            let mut ranks: BTreeMap<Slot, RankKey> = BTreeMap::new();
            for (slot, key) in moves {
                if let Some(key) = key {
                    let rank = RankKey::new(0, [key, 0, 0], slot);
                    waiting.set(slot, rank);
                    ranks.insert(slot, rank);
                } else {
                    waiting.remove(slot);
                    ranks.remove(&slot);
                }
                let best = ranks.iter().map(|(&slot, &rank)| (rank, slot)).min();
                prop_assert_eq!(waiting.first().map(|(_, slot)| slot), best.map(|(_, slot)| slot));
            }
        }
    }
}
