//! How many requests or sessions are in flight at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::{NEVER, Ticks};

/// Slots of clients: a request or a session takes one until it has ended.
#[derive(Debug)]
pub(super) struct Slots {
    /// Slots that no one has had.
    unused: u64,
    /// When each slot that was given back may be taken again.
    given_back: BinaryHeap<Reverse<Ticks>>,
    /// Ticks between the end of one and the start of the next in its slot.
    gap: Ticks,
}

impl Slots {
    /// So many free slots.
    pub(super) fn new(most: u64, gap: Ticks) -> Self {
        Self { unused: most, given_back: BinaryHeap::new(), gap }
    }

    /// From when on a slot is free; [`NEVER`] if all are taken.
    pub(super) fn next(&self) -> Ticks {
        if self.unused > 0 {
            return 0;
        }
        self.given_back.peek().map_or(NEVER, |at| at.0)
    }

    /// Takes the slot that is free first.
    pub(super) fn take(&mut self) {
        if self.unused > 0 {
            self.unused -= 1;
        } else {
            self.given_back.pop();
        }
    }

    /// Gives a slot back at `now`.
    pub(super) fn give_back(&mut self, now: Ticks) {
        self.given_back.push(Reverse(now.saturating_add(self.gap)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_free_a_gap_after_it_was_given_back() {
        let mut slots = Slots::new(2, 5);
        slots.take();
        assert_eq!(slots.next(), 0);
        slots.take();
        assert_eq!(slots.next(), NEVER);
        slots.give_back(20);
        slots.give_back(10);
        assert_eq!(slots.next(), 15);
        slots.take();
        assert_eq!(slots.next(), 25);
    }
}
