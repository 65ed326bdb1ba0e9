//! When the rank of a request may change though nothing happens to it.

use serde::{Deserialize, Serialize};

use super::super::request::Slot;
use crate::collections::{DueTimes, IndexedHeap, StepWheel};
use crate::hint::rare;
use crate::time::Ticks;

/// Steps and moments at which ranks are to be evaluated again, by slot.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Expiry {
    /// By the decode set's step: ranks of its members.
    ranks: StepWheel,
    /// By the decode set's step: classes of its members.
    classes: StepWheel,
    /// By the instance's step: ranks of queued requests.
    idle: IndexedHeap<u64>,
    /// By moment: ranks of any request.
    times: DueTimes,
}

/// When the rank of one request may change; `None`: not by that clock.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Expires {
    /// At a step of the decode set.
    pub(super) step: Option<u64>,
    /// Its class, at a step of the decode set.
    pub(super) class: Option<u64>,
    /// At a step of the instance.
    pub(super) idle: Option<u64>,
    /// At a moment.
    pub(super) time: Option<Ticks>,
}

impl Expiry {
    /// Sets when the rank of a request may change. `step`: the clock's present step.
    pub(super) fn set(&mut self, slot: Slot, expires: Expires, step: u64) {
        self.ranks.set_or_remove(slot, expires.step, step);
        self.classes.set_or_remove(slot, expires.class, step);
        if expires.idle.is_some() || !self.idle.is_empty() {
            rare();
            self.idle.set_or_remove(slot, expires.idle);
        }
        if expires.time.is_some() || !self.times.is_empty() {
            rare();
            self.times.set_or_remove(slot, expires.time);
        }
    }

    /// Sets only the step of the decode set at which the rank may change.
    pub(super) fn set_step(&mut self, slot: Slot, due: u64, step: u64) {
        self.ranks.set(slot, due, step);
    }

    #[inline(never)]
    pub(super) fn remove(&mut self, slot: Slot) {
        self.ranks.remove(slot);
        self.classes.remove(slot);
        self.idle.remove(slot);
        self.times.remove(slot);
    }

    /// Forgets at which step of the decode set the rank of a request may change.
    pub(super) fn remove_step(&mut self, slot: Slot) {
        self.ranks.remove(slot);
    }

    /// A request whose rank may have changed by the decode set's `step`, and at which
    /// step that was.
    pub(super) fn due_by_step(&self, step: u64) -> Option<(u64, Slot)> {
        self.ranks.due(step)
    }

    /// A queued request whose rank may have changed by the instance's `steps`.
    pub(super) fn due_by_idle(&self, steps: u64) -> Option<Slot> {
        self.idle.first().filter(|(due, _)| *due <= steps).map(|(_, slot)| slot)
    }

    /// A request whose rank may have changed by `now`.
    pub(super) fn due_by_time(&self, now: Ticks) -> Option<Slot> {
        self.times.first().filter(|(due, _)| *due <= now).map(|(_, slot)| slot)
    }

    /// The decode set's step at which a rank may change next.
    pub(super) fn next_step(&self) -> u64 {
        self.ranks.next()
    }

    /// The decode set's step at which a class may change next.
    pub(super) fn next_class(&self) -> u64 {
        self.classes.next()
    }

    /// The instance's step at which the rank of a queued request may change next.
    pub(super) fn next_idle(&self) -> u64 {
        self.idle.next()
    }

    /// The moment at which a rank may change next.
    pub(super) fn next_time(&self) -> Ticks {
        self.times.next()
    }

    /// Whether a rank may change by the clock, or while its request is queued.
    pub(super) fn has_drifting(&self) -> bool {
        !self.times.is_empty() || !self.idle.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_clock_has_its_own_next() {
        let mut expiry = Expiry::default();
        expiry.set(0, Expires { step: Some(9), class: Some(12), ..Expires::default() }, 3);
        expiry.set(1, Expires { step: Some(7), ..Expires::default() }, 3);
        assert!(!expiry.has_drifting());
        expiry.set(2, Expires { idle: Some(5), time: Some(400), ..Expires::default() }, 3);
        assert_eq!((expiry.next_step(), expiry.next_class()), (7, 12));
        assert_eq!((expiry.due_by_step(6), expiry.due_by_step(8)), (None, Some((7, 1))));
        assert_eq!((expiry.due_by_idle(4), expiry.due_by_idle(5)), (None, Some(2)));
        assert_eq!((expiry.due_by_time(399), expiry.due_by_time(400)), (None, Some(2)));
        expiry.remove(2);
        assert!(!expiry.has_drifting() && expiry.next_time() == u64::MAX);
    }
}
