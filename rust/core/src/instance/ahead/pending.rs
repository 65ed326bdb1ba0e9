//! Tokens of the latest step that count once the next one is decided.
//!
//! `sglang` 0.5.23 drops the result of a request that it retracts before it has processed it (`is_retracted` in
//! `srt/managers/scheduler_components/batch_result_processor.py`): the request computes the token again. No observer has to
//! forget a token: where the next decision may preempt, what the step has yielded is told once that is taken.

use serde::{Deserialize, Serialize};

use crate::instance::request::Slot;
use crate::time::Ticks;

/// Requests with a token that does not count yet. All of its KV but the token's own is computed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::instance) struct Pending {
    /// The requests, in the order in which they end.
    slots: Vec<Slot>,
    /// Start and end of the step.
    step: (Ticks, Ticks),
}

impl Pending {
    /// Keeps the token of a request that a step from `start` to `end` has yielded.
    pub(in crate::instance) fn hold(&mut self, slot: Slot, (start, end): (Ticks, Ticks)) {
        self.slots.push(slot);
        self.step = (start, end);
    }

    /// Has the requests end in the order of their keys.
    pub(in crate::instance) fn sort_by_key(&mut self, key: impl Fn(Slot) -> i64) {
        self.slots.sort_by_key(|&slot| key(slot));
    }

    /// Whether a token of a request does not count yet.
    pub(in crate::instance) fn has(&self, slot: Slot) -> bool {
        self.slots.contains(&slot)
    }

    /// Removes the token of a request. Returns start and end of its step, if there was one.
    pub(in crate::instance) fn remove(&mut self, slot: Slot) -> Option<(Ticks, Ticks)> {
        let at = self.slots.iter().position(|&other| other == slot)?;
        self.slots.remove(at);
        Some(self.step)
    }

    /// Removes all, and returns them with start and end of their step.
    pub(in crate::instance) fn take(&mut self) -> (Vec<Slot>, (Ticks, Ticks)) {
        (std::mem::take(&mut self.slots), self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_pending_until_it_is_taken_or_removed() {
        let mut pending = Pending::default();
        assert_eq!((pending.has(3), pending.remove(3)), (false, None));
        for slot in [3, 1, 7] {
            pending.hold(slot, (10, 20));
        }
        assert!(pending.has(1));
        assert_eq!((pending.remove(1), pending.has(1)), (Some((10, 20)), false));
        pending.hold(5, (10, 20));
        pending.sort_by_key(|slot| -i64::from(slot));
        assert_eq!(pending.take(), (vec![7, 5, 3], (10, 20)));
        assert!(pending.take().0.is_empty());
    }
}
