//! Requests that clients send again.
//!
//! A request that timed out, was rejected by the policy, or gave up at its router is sent again some time after its end, so
//! often as the rules say. Its client, and the slot of that, wait for its last end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::config::Patience;
use crate::engine::router::mix;
use crate::time::{NEVER, Ticks};

/// The requests that are to be sent again.
#[derive(Debug)]
pub(super) struct Retries {
    rules: Patience,
    /// By row of the trace: how often it was sent again, or is to be.
    counts: Vec<u32>,
    /// When each is sent again, and its row.
    due: BinaryHeap<Reverse<(Ticks, u32)>>,
    /// The sum of the counts.
    all: u64,
}

impl Retries {
    /// No retries of so many rows.
    pub(super) fn new(rules: Patience, rows: usize) -> Self {
        Self { rules, counts: vec![0; rows], due: BinaryHeap::new(), all: 0 }
    }

    /// How often requests were sent again, or are to be.
    pub(super) fn all(&self) -> u64 {
        self.all
    }

    /// When the next request is sent again.
    pub(super) fn next(&self) -> Ticks {
        self.due.peek().map_or(NEVER, |first| first.0.0)
    }

    /// Removes and returns the row of the request that is sent again next.
    pub(super) fn send(&mut self) -> Option<u32> {
        self.due.pop().map(|first| first.0.1)
    }

    /// A request has ended at `now` that may be sent again. Returns whether it is.
    pub(super) fn end(&mut self, row: u32, now: Ticks) -> bool {
        let count = &mut self.counts[row as usize];
        if *count >= self.rules.retries {
            return false;
        }
        *count += 1;
        self.all += 1;
        self.due.push(Reverse((now.saturating_add(wait(&self.rules, row, *count)), row)));
        true
    }
}

/// Ticks before a row is sent again for the `count`th time.
fn wait(rules: &Patience, row: u32, count: u32) -> Ticks {
    let factor = u64::from(rules.growth).saturating_pow(count - 1);
    let wait = rules.backoff.saturating_mul(factor).min(rules.longest);
    let drawn = mix(mix(rules.seed ^ u64::from(row)) ^ u64::from(count)) >> 32;
    let part = u128::from(wait) * u128::from(rules.jitter) / 1_000_000;
    wait - ((part * u128::from(drawn)) >> 32) as Ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Patience =
        Patience { timeout: None, retries: 4, backoff: 100, growth: 2, longest: 500, jitter: 0, seed: 7 };

    #[test]
    fn waits_grow_up_to_the_longest() {
        let mut retries = Retries::new(RULES, 3);
        let mut sent = Vec::new();
        while retries.end(1, 1000) {
            sent.push((retries.next(), retries.send()));
        }
        assert_eq!(sent, [1100, 1200, 1400, 1500].map(|at| (at, Some(1))));
        assert_eq!((retries.all(), retries.next()), (4, NEVER));
    }

    #[test]
    fn a_share_of_a_wait_is_left_out_at_random() {
        let rules = Patience { jitter: 250_000, longest: NEVER, ..RULES };
        let waits: Vec<_> = (0..1000).map(|row| wait(&rules, row, 3)).collect();
        assert!(waits.iter().all(|wait| (300..=400).contains(wait)));
        let sum = waits.iter().sum::<u64>();
        assert!((345_000..355_000).contains(&sum), "the mean of 1000 waits is near 350, their sum was {sum}");
        assert_eq!(wait(&rules, 5, 3), wait(&rules, 5, 3));
        assert_ne!(wait(&Patience { seed: 8, ..rules }, 5, 3), wait(&rules, 5, 3));
    }

    #[test]
    fn waits_do_not_overflow() {
        let rules = Patience { growth: 1000, longest: NEVER, ..RULES };
        assert_eq!(wait(&rules, 0, 900), NEVER);
    }
}
