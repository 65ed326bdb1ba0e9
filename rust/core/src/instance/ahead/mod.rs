//! The outcome of the latest step, which a step that is decided ahead does not know.
//!
//! With asynchronous scheduling (vLLM's `AsyncScheduler`, `vllm/v1/core/sched/async_scheduler.py`, 0.33.0) a step is
//! decided when the one before it starts. Without drafts that one yields a token of each request that it completes, so the
//! decision is the same as at its end, but for arrivals and freed blocks
//! ([`AsyncArrivals`](super::queues::AsyncArrivals)). With drafts the decision does not know how many are accepted: it
//! counts all of them as computed, and the tokens of that step not as known.
//!
//! Here the decision is taken at the end of the step before, and what it must not know is kept here until it is taken.

mod pending;

pub(in crate::instance) use pending::Pending;

use serde::{Deserialize, Serialize};

use super::request::Slot;

/// The outcome of the latest step for a request of which it yielded a token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::instance) struct Outcome {
    /// Tokens that it yielded; 0 if the request yielded none.
    pub(in crate::instance) yielded: u32,
    /// Tokens of the step whose KV is given up: drafts that were rejected, or past the last token.
    pub(in crate::instance) given_up: u32,
}

/// The outcomes of the latest step that the step which is decided ahead does not know.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::instance) struct Unseen {
    /// By slot.
    outcomes: Vec<Outcome>,
    /// The slots with an outcome, in the order of the step.
    slots: Vec<Slot>,
    /// Whether the decode set took the step: a token of each of its members.
    decoded: bool,
    /// The requests outside the decode set that ran in the step, where their blocks cannot be freed before it has ended.
    ran: Vec<Slot>,
    /// The tokens of the step that count once the next one is decided.
    pub(in crate::instance) pending: Pending,
}

impl Unseen {
    /// Notes a step that has ended. `decoded`: the decode set took it.
    pub(in crate::instance) fn begin(&mut self, decoded: bool) {
        self.decoded = decoded;
    }

    /// Notes the requests outside the decode set that ran in the step.
    pub(in crate::instance) fn note_ran(&mut self, slots: impl Iterator<Item = Slot>) {
        self.ran.clear();
        self.ran.extend(slots);
    }

    /// Whether a request ran in the step. `decodes`: it is a member of the decode set.
    pub(in crate::instance) fn has_run(&self, slot: Slot, decodes: bool) -> bool {
        decodes && self.decoded || self.of(slot).yielded > 0 || self.ran.contains(&slot)
    }

    /// Whether the decode set took the step.
    pub(in crate::instance) fn has_decoded(&self) -> bool {
        self.decoded
    }

    /// Keeps the outcome of a request.
    pub(in crate::instance) fn note(&mut self, slot: Slot, outcome: Outcome) {
        let at = slot as usize;
        if at >= self.outcomes.len() {
            self.outcomes.resize(at + 1, Outcome::default());
        }
        if self.outcomes[at] == Outcome::default() {
            self.slots.push(slot);
        }
        self.outcomes[at] = outcome;
    }

    /// The outcome of a request that is not known.
    pub(in crate::instance) fn of(&self, slot: Slot) -> Outcome {
        self.outcomes.get(slot as usize).copied().unwrap_or_default()
    }

    /// Forgets the outcome of a request.
    pub(in crate::instance) fn forget(&mut self, slot: Slot) {
        if self.of(slot) != Outcome::default() {
            self.outcomes[slot as usize] = Outcome::default();
            self.slots.retain(|&other| other != slot);
        }
    }

    /// Whether there are none.
    pub(in crate::instance) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Removes and returns a request whose outcome is known from now on.
    pub(in crate::instance) fn pop(&mut self) -> Option<Slot> {
        self.decoded = false;
        self.ran.clear();
        let slot = self.slots.pop()?;
        self.outcomes[slot as usize] = Outcome::default();
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_unseen_until_it_is_taken() {
        let mut unseen = Unseen::default();
        assert_eq!((unseen.of(3), unseen.pop()), (Outcome::default(), None));
        let (two, one) = (Outcome { yielded: 2, given_up: 1 }, Outcome { yielded: 1, given_up: 2 });
        unseen.begin(true);
        unseen.note_ran([4].into_iter());
        assert!(unseen.has_decoded() && unseen.is_empty());
        assert_eq!(
            [(4, false), (5, true), (5, false)].map(|(slot, set)| unseen.has_run(slot, set)),
            [true, true, false]
        );
        unseen.note(3, two);
        unseen.note(3, two);
        unseen.note(1, one);
        unseen.note(7, one);
        unseen.forget(7);
        unseen.forget(9);
        assert_eq!([0, 1, 2, 3, 7].map(|slot| unseen.of(slot).yielded), [0, 1, 0, 2, 0]);
        assert_eq!((unseen.of(3), unseen.of(1)), (two, one));
        assert_eq!([unseen.pop(), unseen.pop(), unseen.pop()], [Some(1), Some(3), None]);
        assert_eq!((unseen.of(3), unseen.of(1)), (Outcome::default(), Outcome::default()));
        assert!(!unseen.has_decoded() && !unseen.has_run(4, true));
    }
}
