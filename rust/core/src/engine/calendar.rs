//! When the current step or run of each instance ends.

use serde::{Deserialize, Serialize};

use crate::collections::{Id, IndexedHeap};
use crate::time::{NEVER, Ticks};

/// The ends of the instances' steps; the earliest is read at once.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Calendar {
    /// By instance: when its step ends, or [`NEVER`].
    ends: IndexedHeap<Ticks>,
}

impl Calendar {
    /// A calendar of `n` instances, none of which runs a step.
    pub(crate) fn new(n: usize) -> Self {
        let mut ends = IndexedHeap::default();
        (0..n).for_each(|index| ends.set(index as Id, NEVER));
        Self { ends }
    }

    /// The earliest end and its instance; if ends are equal, the instance with the lowest index. The time is
    /// [`NEVER`] if no instance runs a step.
    pub(crate) fn first(&self) -> (Ticks, usize) {
        self.ends.first().map_or((NEVER, 0), |(time, index)| (time, index as usize))
    }

    /// Whether no instance but `index` ends a step at `time` or before.
    pub(crate) fn others_are_after(&self, index: usize, time: Ticks) -> bool {
        let (first, of) = self.first();
        if of == index { self.ends.second().is_none_or(|(end, _)| end > time) } else { first > time }
    }

    /// Sets the end of an instance's step.
    pub(crate) fn set(&mut self, index: usize, time: Ticks) {
        self.ends.set(index as Id, time);
    }

    /// Removes an instance's step.
    pub(crate) fn clear(&mut self, index: usize) {
        self.set(index, NEVER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_end_in_order_of_time_and_index() {
        let mut calendar = Calendar::new(3);
        assert_eq!(calendar.first(), (NEVER, 0));
        calendar.set(2, 5);
        calendar.set(1, 5);
        calendar.set(0, 9);
        assert_eq!(calendar.first(), (5, 1));
        assert!(!calendar.others_are_after(1, 5));
        calendar.clear(1);
        assert_eq!(calendar.first(), (5, 2));
        assert!(calendar.others_are_after(2, 5));
        assert!(!calendar.others_are_after(2, 9));
    }
}
