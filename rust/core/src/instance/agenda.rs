//! What is due at which of an instance's steps.
//!
//! A ring says what is due at each of the next thousands of steps; what is due
//! later is kept in a heap. Bits say at which steps there is something, so to
//! note it, to forget it and to find the next takes a handful of instructions
//! however much is noted, and what comes first is at hand.

use super::active::Slot;
use super::order::Order;

/// Steps in the ring: as many as so many words have bits, of which one more word
/// says which have any.
const STEPS: u64 = 64 * WORDS as u64;
const WORDS: usize = 64;

/// Nobody, or at no step.
const NOBODY: Slot = Slot::MAX;
const NEVER: u64 = u64::MAX;
/// At a step that the heap knows.
const FAR: u64 = u64::MAX - 1;

/// Slots by the step at which something is due of them, one step a slot.
#[derive(Debug, Clone)]
pub(super) struct Agenda {
    /// No step in the ring is before this one, and none a round later.
    base: u64,
    /// The first step at which something is due.
    next: u64,
    ring: Box<Ring>,
    /// By slot: who is noted in the ring, and its neighbours at its step.
    entries: Vec<Entry>,
    far: Order<u64>,
}

#[derive(Debug, Clone)]
struct Ring {
    /// At which of its steps something is due.
    held: [u64; WORDS],
    /// Which of those words have any bit.
    words: u64,
    /// One of whom something is due, by step.
    heads: [Slot; STEPS as usize],
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
            ring: Box::new(Ring { held: [0; WORDS], words: 0, heads: [NOBODY; STEPS as usize] }),
            entries: Vec::new(),
            far: Order::default(),
        }
    }
}

/// Where a step stands in the ring.
#[inline]
fn place(step: u64) -> usize {
    (step % STEPS) as usize
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
            let mut at = self.ring.heads[place(step)];
            while at != NOBODY {
                first = first.min(at);
                at = self.entries[at as usize].after;
            }
        }
        first
    }

    /// Whether the ring has a step.
    #[inline]
    fn is_near(&self, step: u64) -> bool {
        step.wrapping_sub(self.base) < STEPS
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
        let place = place(step);
        let ring = &mut *self.ring;
        let (word, bit) = (&mut ring.held[place / 64], 1 << (place % 64));
        let mut after = NOBODY;
        // Mostly nobody is there, which the bits say without a look at the head,
        // which is seldom at hand.
        if *word & bit == 0 {
            *word |= bit;
            ring.words |= 1 << (place / 64);
        } else {
            after = ring.heads[place];
            self.entries[after as usize].before = slot;
        }
        ring.heads[place] = slot;
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
        let place = place(step);
        let ring = &mut *self.ring;
        ring.heads[place] = after;
        let word = &mut ring.held[place / 64];
        *word &= !(u64::from(after == NOBODY) << (place % 64));
        ring.words &= !(u64::from(*word == 0) << (place / 64));
    }

    /// Looks for the first step at which something is due.
    #[inline(never)]
    fn find_next(&mut self) {
        self.next = self.far.next();
        let Ring { held, words, .. } = &*self.ring;
        if *words == 0 {
            return;
        }
        let start = place(self.base);
        let (mut word, bit) = (start / 64, start % 64);
        let mut bits = held[word] & (u64::MAX << bit);
        if bits == 0 {
            // In the words after it, or once round, at last in its own again.
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
