//! The steps at which an instance receives the requests that have arrived.
//!
//! An engine may look for new requests at some steps only, as that costs time on each rank. It looks after each step that
//! computes a prompt, and after every `interval` steps without one. An instance without a step in progress looks at once.

use serde::{Deserialize, Serialize};

/// When an instance receives arrivals next.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Receipts {
    /// Steps without a prompt from one receipt to the next.
    interval: u64,
    /// Steps since the latest receipt, below `interval`; 0: the next step receives.
    since: u64,
}

impl Receipts {
    /// Receipts every `interval` steps, the first at once.
    pub(crate) fn new(interval: u64) -> Self {
        Self { interval, since: 0 }
    }

    /// Whether the next step that is formed receives arrivals.
    pub(crate) fn is_due(self) -> bool {
        self.since == 0
    }

    /// Notes that steps have ended. `prompts`: whether the last one computed a prompt.
    pub(crate) fn advance(&mut self, steps: u64, prompts: bool) {
        self.since = if prompts { 0 } else { (self.since + steps) % self.interval };
    }

    /// Notes that all arrivals are received, as no step can be formed.
    pub(crate) fn reset(&mut self) {
        self.since = 0;
    }

    /// The fewest steps without a prompt, `least` or more, after which arrivals are received.
    pub(crate) fn steps_to_next(self, least: u64) -> u64 {
        (self.since + least).next_multiple_of(self.interval) - self.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_received_after_each_interval_and_after_each_prompt() {
        let mut receipts = Receipts::new(3);
        let mut due = |prompts| {
            receipts.advance(1, prompts);
            receipts.is_due()
        };
        assert_eq!([false; 6].map(&mut due), [false, false, true, false, false, true]);
        assert_eq!([false, true, false, false, false].map(&mut due), [false, true, false, false, true]);
    }

    #[test]
    fn a_run_is_as_many_steps_as_its_steps_one_by_one() {
        for (interval, steps) in [(1, 5), (3, 0), (3, 7), (4, 8)] {
            let (mut once, mut apart) = (Receipts::new(interval), Receipts::new(interval));
            for receipts in [&mut once, &mut apart] {
                receipts.advance(2, false);
            }
            once.advance(steps, false);
            (0..steps).for_each(|_| apart.advance(1, false));
            assert_eq!((once.is_due(), once.steps_to_next(1)), (apart.is_due(), apart.steps_to_next(1)));
        }
    }

    #[test]
    fn the_next_receipt_is_not_before_the_least_step() {
        let mut receipts = Receipts::new(10);
        assert_eq!([1, 10, 11].map(|least| receipts.steps_to_next(least)), [10, 10, 20]);
        receipts.advance(7, false);
        assert_eq!([1, 3, 4].map(|least| receipts.steps_to_next(least)), [3, 3, 13]);
        receipts.reset();
        assert!(receipts.is_due());
    }
}
