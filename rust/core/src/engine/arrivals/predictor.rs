//! A predictor through which requests pass one after another on their way to the routers.

use std::collections::VecDeque;

use super::sent::Sent;
use crate::config::Prediction;
use crate::time::{NEVER, Ticks};

/// A serial predictor: while it is free, it takes the requests that have reached it, up to a batch.
///
/// Source: Tao et al., "PARS" (ISC 2026), section III-B: the predictor scores the prompts of the waiting queue before the
/// queue is sorted.
#[derive(Debug)]
pub(super) struct Predictor {
    rules: Prediction,
    /// The requests that have reached it and are not scored, in order.
    queue: VecDeque<Sent>,
    /// How many of them, from the front, are scored now.
    batch: usize,
    /// When these are scored.
    end: Ticks,
    /// The requests that are scored and have not left.
    scored: VecDeque<Sent>,
}

crate::checkpoint::checkpointed!(Predictor {
    values: queue, batch, end, scored;
    fixed: rules;
});

impl Predictor {
    /// A predictor without requests.
    pub(super) fn new(rules: Prediction) -> Self {
        Self { rules, queue: VecDeque::new(), batch: 0, end: NEVER, scored: VecDeque::new() }
    }

    /// When the next batch is scored.
    pub(super) fn next(&self) -> Ticks {
        self.end
    }

    /// Adds a request behind the others.
    pub(super) fn enter(&mut self, sent: Sent) {
        self.queue.push_back(sent);
    }

    /// Ends the batch that is scored at `now`, and starts the next one. All requests that reach the predictor at this
    /// moment must have entered it.
    pub(super) fn advance(&mut self, now: Ticks) {
        loop {
            if self.end <= now {
                self.scored.extend(self.queue.drain(..self.batch));
                (self.batch, self.end) = (0, NEVER);
            }
            if self.batch > 0 || self.queue.is_empty() {
                return;
            }
            self.batch = self.queue.len().min(self.rules.batch as usize);
            let ticks = self.rules.once.saturating_add(self.rules.each.saturating_mul(self.batch as Ticks));
            self.end = now.saturating_add(ticks).min(NEVER - 1);
        }
    }

    /// Whether a request is scored and has not left.
    pub(super) fn has_scored(&self) -> bool {
        !self.scored.is_empty()
    }

    /// Removes and returns the next request that is scored.
    pub(super) fn leave(&mut self) -> Option<Sent> {
        self.scored.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(row: u32, entered: Ticks) -> Sent {
        Sent { row, at: entered, entered }
    }

    /// When each of these arrivals is scored.
    fn scored(rules: Prediction, arrivals: &[Ticks]) -> Vec<(u32, Ticks)> {
        let mut predictor = Predictor::new(rules);
        let (mut left, mut next) = (Vec::new(), 0);
        while left.len() < arrivals.len() {
            let now = predictor.next().min(arrivals.get(next).copied().unwrap_or(NEVER));
            while arrivals.get(next) == Some(&now) {
                predictor.enter(sent(next as u32, now));
                next += 1;
            }
            predictor.advance(now);
            left.extend(std::iter::from_fn(|| predictor.leave()).map(|sent| (sent.row, now)));
        }
        left
    }

    #[test]
    fn a_batch_takes_what_is_there_when_the_predictor_is_free() {
        let rules = Prediction { each: 2, once: 10, batch: 3, serial: true };
        // The first is alone; the next three wait for it, the last of which came as it ended; then one that was too many.
        let moments = scored(rules, &[0, 1, 5, 12, 12, 100]);
        assert_eq!(moments, [(0, 12), (1, 28), (2, 28), (3, 28), (4, 40), (5, 112)]);
    }

    #[test]
    fn predictions_that_take_no_time_end_as_they_start() {
        let rules = Prediction { each: 0, once: 0, batch: 1, serial: true };
        assert_eq!(scored(rules, &[3, 3, 4]), [(0, 3), (1, 3), (2, 4)]);
    }
}
