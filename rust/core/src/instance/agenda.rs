//! What is due at which of an instance's steps.
//!
//! A ring of buckets, of a few steps each, says what is due within the next
//! thousands of steps; what is due later is kept in a heap. Buckets mostly hold
//! one or nobody, so to note something, and to forget it, takes a handful of
//! instructions however much is noted, and what comes first is at hand.

use super::active::Slot;
use super::order::Order;

/// Steps in a bucket, and buckets in the ring: as many as words of 64 bits have
/// in a cache line.
const STEPS: u64 = 8;
const BUCKETS: u64 = 8 * 64;

/// Nobody, or at no step.
const NOBODY: Slot = Slot::MAX;
const NEVER: u64 = u64::MAX;
/// At a step that the heap knows.
const FAR: u64 = u64::MAX - 1;

/// Slots by the step at which something is due of them, one step a slot.
#[derive(Debug, Clone)]
pub(super) struct Agenda {
    /// No step in the ring is before this one's bucket, and none a round later.
    base: u64,
    /// The first step at which something is due.
    next: u64,
    /// The first in each bucket. None before the first is noted.
    heads: Vec<Slot>,
    /// Which buckets hold somebody.
    held: [u64; 8],
    /// By slot: who is noted in the ring, and its neighbours in its bucket.
    entries: Vec<Entry>,
    far: Order<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// When it is due, if it is in the ring; else whether it is in the heap.
    step: u64,
    before: Slot,
    after: Slot,
}

const ABSENT: Entry = Entry { step: NEVER, before: NOBODY, after: NOBODY };

impl Default for Agenda {
    fn default() -> Self {
        Self {
            base: 0,
            next: NEVER,
            heads: Vec::new(),
            held: [0; 8],
            entries: Vec::new(),
            far: Order::default(),
        }
    }
}

#[inline]
fn bucket(step: u64) -> usize {
    (step / STEPS % BUCKETS) as usize
}

impl Agenda {
    /// The first step at which something is due, or the largest number there is.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// That step, and the lowest slot of which something is due then.
    #[inline]
    pub(super) fn first(&self) -> Option<(u64, Slot)> {
        if self.next == NEVER { None } else { Some((self.next, self.first_of(self.next))) }
    }

    /// The same, if it is due by `step`.
    #[inline]
    pub(super) fn due(&self, step: u64) -> Option<(u64, Slot)> {
        if self.next > step { None } else { self.first() }
    }

    fn first_of(&self, step: u64) -> Slot {
        let far = self.far.first().filter(|(due, _)| *due == step);
        let mut first = far.map_or(NOBODY, |(_, slot)| slot);
        if self.is_near(step) {
            let mut at = self.heads.get(bucket(step)).copied().unwrap_or(NOBODY);
            while at != NOBODY {
                let entry = self.entries[at as usize];
                if entry.step == step {
                    first = first.min(at);
                }
                at = entry.after;
            }
        }
        first
    }

    /// Whether the ring has a bucket for a step.
    #[inline]
    fn is_near(&self, step: u64) -> bool {
        (step / STEPS).wrapping_sub(self.base / STEPS) < BUCKETS
    }

    /// When something is due of a slot, if anything is.
    #[inline]
    pub(super) fn step(&self, slot: Slot) -> Option<u64> {
        match self.entries.get(slot as usize)?.step {
            NEVER => None,
            FAR => self.far.key(slot),
            step => Some(step),
        }
    }

    /// Notes that something is due of a slot at `step` and no more at another.
    /// It is step `now`: little of what is yet to be noted is due before.
    pub(super) fn set(&mut self, slot: Slot, step: u64, now: u64) {
        self.base = self.base.max(now.min(self.next));
        let was = self.entries.get(slot as usize).map_or(FAR, |entry| entry.step);
        if was == FAR || !self.is_near(step) {
            return self.set_far(slot, step);
        }
        if was == step {
            return;
        }
        if was != NEVER {
            self.unlink(slot);
        }
        self.link(slot, step);
        if step < self.next {
            self.next = step;
        } else if was == self.next && was != NEVER {
            self.find_next();
        }
    }

    /// Notes it where the ring is not all that is concerned.
    #[inline(never)]
    fn set_far(&mut self, slot: Slot, step: u64) {
        let at = slot as usize;
        if at >= self.entries.len() {
            self.entries.resize(at + 1, ABSENT);
            self.heads.resize(BUCKETS as usize, NOBODY);
        }
        match self.entries[at].step {
            NEVER => {}
            FAR => self.far.remove(slot),
            _ => self.unlink(slot),
        }
        if self.is_near(step) {
            self.link(slot, step);
        } else {
            self.entries[at].step = FAR;
            self.far.set(slot, step);
        }
        self.find_next();
    }

    /// Notes what [`Self::set`] does, or that nothing is due.
    #[inline]
    pub(super) fn set_or_remove(&mut self, slot: Slot, step: Option<u64>, now: u64) {
        match step {
            Some(step) => self.set(slot, step, now),
            None => self.remove(slot),
        }
    }

    /// Nothing is due of a slot any more.
    #[inline]
    pub(super) fn remove(&mut self, slot: Slot) {
        match self.entries.get(slot as usize).map_or(NEVER, |entry| entry.step) {
            NEVER => {}
            FAR => self.remove_far(slot),
            step => {
                self.unlink(slot);
                if step == self.next {
                    self.find_next();
                }
            }
        }
    }

    #[inline(never)]
    fn remove_far(&mut self, slot: Slot) {
        self.far.remove(slot);
        self.entries[slot as usize].step = NEVER;
        self.find_next();
    }

    #[inline]
    fn link(&mut self, slot: Slot, step: u64) {
        let bucket = bucket(step);
        let after = std::mem::replace(&mut self.heads[bucket], slot);
        if after == NOBODY {
            self.held[bucket / 64] |= 1 << (bucket % 64);
        } else {
            self.entries[after as usize].before = slot;
        }
        self.entries[slot as usize] = Entry { step, before: NOBODY, after };
    }

    #[inline]
    fn unlink(&mut self, slot: Slot) {
        let Entry { step, before, after } = std::mem::replace(&mut self.entries[slot as usize], ABSENT);
        if after != NOBODY {
            self.entries[after as usize].before = before;
        }
        if before != NOBODY {
            self.entries[before as usize].after = after;
            return;
        }
        let bucket = bucket(step);
        self.heads[bucket] = after;
        if after == NOBODY {
            self.held[bucket / 64] &= !(1 << (bucket % 64));
        }
    }

    /// Looks for the first step at which something is due.
    #[inline(never)]
    fn find_next(&mut self) {
        self.next = self.far.next();
        let start = bucket(self.base);
        let (word, bit) = (start / 64, start % 64);
        // From the base's bucket once round to those before it in its word.
        let mut mask = u64::MAX << bit;
        for i in 0..=8 {
            let word = (word + i) % 8;
            let found = self.held[word] & mask;
            if found != 0 {
                let mut at = self.heads[64 * word + found.trailing_zeros() as usize];
                while at != NOBODY {
                    let entry = self.entries[at as usize];
                    self.next = self.next.min(entry.step);
                    at = entry.after;
                }
                return;
            }
            mask = u64::MAX;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_first_equals_a_scan(
            moves in prop::collection::vec(
                (0u32..12, prop::option::weighted(0.7, 0u64..3), 0u64..9_000, 0u64..400), 1..300,
            ),
        ) {
            let mut agenda = Agenda::default();
            let mut steps: BTreeMap<Slot, u64> = BTreeMap::new();
            let mut now = 0u64;
            for (slot, kind, ahead, on) in moves {
                now += on;
                // Mostly ahead, near or far; at times behind.
                let step = kind.map(|kind| match kind {
                    0 => (now + ahead).saturating_sub(20),
                    1 => now + ahead % 8,
                    _ => now + ahead % 300,
                });
                agenda.set_or_remove(slot, step, now);
                match step {
                    Some(step) => steps.insert(slot, step),
                    None => steps.remove(&slot),
                };
                let scan = steps.iter().map(|(&slot, &step)| (step, slot)).min();
                prop_assert_eq!(agenda.first(), scan);
                prop_assert_eq!(agenda.next(), scan.map_or(NEVER, |(step, _)| step));
                prop_assert_eq!(agenda.step(slot), steps.get(&slot).copied());
                // What is due is taken out, first things first.
                while let Some((step, slot)) = agenda.due(now) {
                    prop_assert_eq!(Some((step, slot)), steps.iter().map(|(&slot, &step)| (step, slot)).min());
                    agenda.remove(slot);
                    steps.remove(&slot);
                }
            }
        }
    }
}
