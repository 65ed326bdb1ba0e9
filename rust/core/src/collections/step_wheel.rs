//! Ids by the step at which they are due: a timing wheel whose clock counts steps.
//!
//! A ring has a list of ids for each of the next 2,048 steps; ids that are due later are in a heap. A bit map of two
//! levels says which steps have ids, so that setting, removing and finding the next due id take a handful of
//! instructions, however many ids there are.

use serde::{Deserialize, Serialize};

use super::{Id, IndexedHeap};

/// Steps in the ring: one bit each in `WORDS` words, which have one bit each in one more word.
const STEPS: u64 = 64 * WORDS as u64;
/// Words of the bit map, a power of two up to 64. An instance has four rings: longer ones, of eight instances together, would
/// leave no room for other data in a processor's cache of 512 KB.
const WORDS: usize = 32;

/// No id.
const NONE: Id = Id::MAX;
/// The step of an id that is not due.
const NEVER: u64 = u64::MAX;
/// Stands for the step of an id that is in the heap.
const FAR: u64 = u64::MAX - 1;

/// Ids by the step at which they are due; each id is due at one step at most. One line of a processor's cache.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[repr(align(64))]
pub(crate) struct StepWheel {
    /// The ring covers the steps from this one to the one before `base + STEPS`.
    base: u64,
    /// The first step at which an id is due, or `NEVER`.
    next: u64,
    /// The near steps.
    ring: Box<Ring>,
    /// By id: its step, and its neighbours in the list of that step.
    entries: Vec<Entry>,
    /// Ids that are due at a step which the ring does not cover.
    far: Box<IndexedHeap<u64>>,
    /// The first step at which one of these is due, or `NEVER`.
    next_far: u64,
}

const _: () = assert!(size_of::<StepWheel>() == 64);

/// A list of ids for each step.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Ring {
    /// One bit a step: whether an id is due then.
    held: [u64; WORDS],
    /// One bit a word of `held`: whether it has a bit.
    words: u64,
    /// By step: the first id of its list, if the step has a bit.
    #[serde(with = "crate::checkpoint::array")]
    heads: [Id; STEPS as usize],
}

/// The entry of an id in the wheel.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Entry {
    /// Its step if it is in the ring, `FAR` if it is in the heap, else `NEVER`.
    step: u64,
    /// The id before it in the list of its step.
    before: Id,
    /// The id after it.
    after: Id,
}

/// The entry of an id that is not due.
const ABSENT: Entry = Entry { step: NEVER, before: NONE, after: NONE };

impl Default for StepWheel {
    fn default() -> Self {
        Self {
            base: 0,
            next: NEVER,
            ring: Box::new(Ring { held: [0; WORDS], words: 0, heads: [NONE; STEPS as usize] }),
            entries: Vec::new(),
            far: Box::default(),
            next_far: NEVER,
        }
    }
}

/// The place of a step in the ring.
fn place(step: u64) -> usize {
    (step % STEPS) as usize
}

impl StepWheel {
    /// The first step at which an id is due, or `u64::MAX` if none is.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The first step at which an id is due, and the lowest id that is due then.
    pub(crate) fn first(&self) -> Option<(u64, Id)> {
        if self.next == NEVER { None } else { Some((self.next, self.first_of(self.next))) }
    }

    /// As [`Self::first`], or `None` if nothing is due by `step`.
    pub(crate) fn due(&self, step: u64) -> Option<(u64, Id)> {
        if self.next > step { None } else { self.first() }
    }

    /// The lowest id that is due at `step`.
    fn first_of(&self, step: u64) -> Id {
        let mut first = if self.next_far == step { self.first_far() } else { NONE };
        if self.is_near(step) {
            let mut at = self.ring.heads[place(step)];
            while at != NONE {
                first = first.min(at);
                at = self.entries[at as usize].after;
            }
        }
        first
    }

    /// The id in the heap that is due first; of several, the lowest.
    #[cold]
    #[inline(never)]
    fn first_far(&self) -> Id {
        self.far.first().map_or(NONE, |(_, id)| id)
    }

    /// Whether the ring covers a step.
    fn is_near(&self, step: u64) -> bool {
        step.wrapping_sub(self.base) < STEPS
    }

    /// The step at which an id is due, if it is.
    pub(crate) fn step(&self, id: Id) -> Option<u64> {
        match self.entries.get(id as usize)?.step {
            NEVER => None,
            FAR => self.far.key(id),
            step => Some(step),
        }
    }

    /// Makes an id due at `step`, and at no other step. `now` is the current step: later calls should rarely set a
    /// step before it, since the ring no longer covers those.
    pub(crate) fn set(&mut self, id: Id, step: u64, now: u64) {
        self.base = self.base.max(now.min(self.next));
        let was = self.entries.get(id as usize).map_or(FAR, |entry| entry.step);
        if was == FAR || !self.is_near(step) {
            return self.set_far(id, step);
        }
        if was == step {
            return;
        }
        if was != NEVER {
            self.unlink(id);
        }
        self.link(id, step);
        if step < self.next {
            self.next = step;
        } else if was == self.next && was != NEVER {
            self.find_next();
        }
    }

    /// As [`Self::set`], where the heap is concerned too or the id is new.
    #[inline(never)]
    fn set_far(&mut self, id: Id, step: u64) {
        let at = id as usize;
        if at >= self.entries.len() {
            self.entries.resize(at + 1, ABSENT);
        }
        match self.entries[at].step {
            NEVER => {}
            FAR => self.far.remove(id),
            _ => self.unlink(id),
        }
        if self.is_near(step) {
            self.link(id, step);
        } else {
            self.entries[at].step = FAR;
            self.far.set(id, step);
        }
        self.next_far = self.far.next();
        self.find_next();
    }

    /// As [`Self::set`], or removes the id if `step` is `None`.
    pub(crate) fn set_or_remove(&mut self, id: Id, step: Option<u64>, now: u64) {
        match step {
            Some(step) => self.set(id, step, now),
            None => self.remove(id),
        }
    }

    /// Removes an id, if it is due at a step.
    pub(crate) fn remove(&mut self, id: Id) {
        match self.entries.get(id as usize).map_or(NEVER, |entry| entry.step) {
            NEVER => {}
            FAR => self.remove_far(id),
            step => {
                self.unlink(id);
                if step == self.next {
                    self.find_next();
                }
            }
        }
    }

    /// Removes an id from the heap.
    #[inline(never)]
    fn remove_far(&mut self, id: Id) {
        self.far.remove(id);
        self.next_far = self.far.next();
        self.entries[id as usize].step = NEVER;
        self.find_next();
    }

    /// Adds an id to the list of a step that the ring covers.
    fn link(&mut self, id: Id, step: u64) {
        let place = place(step);
        let ring = &mut *self.ring;
        let (word, bit) = (&mut ring.held[place / 64], 1 << (place % 64));
        let mut after = NONE;
        // The list is mostly empty. The bit says so without reading the head, which is rarely in the CPU's cache.
        if *word & bit == 0 {
            *word |= bit;
            ring.words |= 1 << (place / 64);
        } else {
            after = ring.heads[place];
            self.entries[after as usize].before = id;
        }
        ring.heads[place] = id;
        self.entries[id as usize] = Entry { step, before: NONE, after };
    }

    /// Removes an id from the list of its step.
    fn unlink(&mut self, id: Id) {
        let Entry { step, before, after } = std::mem::replace(&mut self.entries[id as usize], ABSENT);
        if after != NONE {
            self.entries[after as usize].before = before;
        }
        if before != NONE {
            self.entries[before as usize].after = after;
            return;
        }
        let place = place(step);
        let ring = &mut *self.ring;
        ring.heads[place] = after;
        let word = &mut ring.held[place / 64];
        *word &= !(u64::from(after == NONE) << (place % 64));
        ring.words &= !(u64::from(*word == 0) << (place / 64));
    }

    /// Finds the first step at which an id is due.
    #[inline(never)]
    fn find_next(&mut self) {
        self.next = self.next_far;
        let Ring { held, words, .. } = &*self.ring;
        if *words == 0 {
            return;
        }
        let start = place(self.base);
        let (mut word, bit) = (start / 64, start % 64);
        let mut bits = held[word] & (u64::MAX << bit);
        if bits == 0 {
            // In the words after it, around the ring, and last in the earlier bits of its own word.
            let after = words.rotate_right(word as u32 + 1);
            word = (word + 1 + after.trailing_zeros() as usize) % WORDS;
            bits = held[word];
        }
        let found = 64 * word + bits.trailing_zeros() as usize;
        let ahead = (found + STEPS as usize - start) as u64 % STEPS;
        self.next = self.next.min(self.base + ahead);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn a_wheel_equals_a_scan_of_its_steps(
            moves in prop::collection::vec(
                (0u32..12, prop::option::weighted(0.7, 0u64..3), 0u64..9_000, 0u64..400), 1..300,
            ),
        ) {
            let mut wheel = StepWheel::default();
            let mut steps: BTreeMap<Id, u64> = BTreeMap::new();
            let mut now = 0u64;
            for (id, kind, ahead, on) in moves {
                now += on;
                // Mostly ahead of `now`, near or far; sometimes behind.
                let step = kind.map(|kind| match kind {
                    0 => (now + ahead).saturating_sub(20),
                    1 => now + ahead % 8,
                    _ => now + ahead % 300,
                });
                wheel.set_or_remove(id, step, now);
                match step {
                    Some(step) => steps.insert(id, step),
                    None => steps.remove(&id),
                };
                let scan = steps.iter().map(|(&id, &step)| (step, id)).min();
                prop_assert_eq!(wheel.first(), scan);
                prop_assert_eq!(wheel.next(), scan.map_or(NEVER, |(step, _)| step));
                prop_assert_eq!(wheel.step(id), steps.get(&id).copied());
                // Ids that are due are removed in order.
                while let Some((step, id)) = wheel.due(now) {
                    prop_assert_eq!(Some((step, id)), steps.iter().map(|(&id, &step)| (step, id)).min());
                    wheel.remove(id);
                    steps.remove(&id);
                }
            }
        }
    }
}
