//! Instances that make no progress, and why.

use super::Effects;
use crate::error::Error;
use crate::hint::rare;
use crate::instance::Instance;
use crate::instance::ranking::Ranking;
use crate::time::{TICKS_PER_SECOND, Ticks};

impl Effects<'_> {
    /// Counts a step that was formed.
    ///
    /// # Errors
    ///
    /// If the instance makes no progress.
    pub(in crate::instance) fn count_step(&mut self, now: Ticks) -> Result<(), Error> {
        if !self.on.observers.liveness.count_step(now) {
            return Ok(());
        }
        rare();
        self.check_liveness(now)
    }

    /// Checks that the instance still makes progress.
    ///
    /// # Errors
    ///
    /// If it does not: when the latest token was, and what was done since.
    #[cold]
    #[inline(never)]
    fn check_liveness(&mut self, now: Ticks) -> Result<(), Error> {
        let held = self.on.settings.blocks.saturating_add(self.on.kv.cpu().capacity());
        let held = held.saturating_mul(u64::from(self.on.settings.block.tokens()));
        let tokens = (self.on.observers.load.outstanding_tokens(), held);
        let seats = self.on.settings.scheduler.max_num_seqs;
        let most = most_steps(tokens, (self.queued(), self.admitted()), seats);
        let quantum = self.on.ranking.as_deref().map_or(0, Ranking::longest_quantum);
        if !self.on.observers.liveness.is_over(most, quantum, now) {
            return Ok(());
        }
        let (formed, since) = self.on.observers.liveness.without_token();
        let rule = format!(
            "{formed} steps were formed since the latest token at {} s, more than its {} requests can take: \
             they preempt each other before any yields its next token; where memory is lost, ranks that change \
             as a request runs do that",
            seconds_of(since),
            self.queued() + self.admitted(),
        );
        Err(Error::NoProgress { instance: self.on.settings.index as usize, at: now, rule })
    }
}

impl Instance {
    /// Why no stage can run any of the unfinished requests, of an instance at which nothing
    /// more happens; `None` if all have finished.
    pub(crate) fn blockage(&self, now: Ticks) -> Option<Error> {
        let (waiting, admitted) = (self.queued(), self.batch.running());
        if waiting + admitted == 0 {
            return None;
        }
        let swapped = self.queues.swapped_out();
        let ranked = self.ranking.as_deref().map_or(0, Ranking::waiting);
        let rule = format!(
            "{admitted} admitted requests and {waiting} waiting ones ({swapped} of them swapped out, {ranked} \
             ranked) are left, and no stage of its scheduler can run any: {} of {} blocks are free, of which an \
             admission leaves {}",
            self.kv.free(),
            self.settings.blocks,
            self.settings.watermark(self.admitted()) + u64::from(self.settings.scheduler.spare_block),
        );
        Some(Error::NoProgress { instance: self.settings.index as usize, at: now, rule })
    }
}

/// The steps that requests may take to a token: they lack `tokens`, of which memory holds `held`; so many are `queued` and
/// `admitted`, and run in at most `seats`. Ranks may reorder them once for each, and at least two take turns.
fn most_steps((tokens, held): (u64, u64), (queued, admitted): (u64, u64), seats: u64) -> u64 {
    tokens.min(held).saturating_mul((queued + admitted).min(seats).max(2))
}

/// A moment in seconds.
fn seconds_of(moment: Ticks) -> f64 {
    moment as f64 / TICKS_PER_SECOND as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_take_as_many_steps_as_the_tokens_that_memory_holds_of_each_that_runs() {
        assert_eq!(most_steps((100, 40), (2, 3), 8), 40 * 5, "memory holds 40 tokens at a time");
        assert_eq!(most_steps((30, 40), (2, 3), 8), 30 * 5, "they lack 30 tokens");
        assert_eq!(most_steps((30, 40), (2, 3), 4), 30 * 4, "four run at a time");
        assert_eq!(most_steps((30, 40), (0, 1), 4), 30 * 2, "a request by itself");
        assert_eq!(most_steps((u64::MAX, u64::MAX), (2, 3), 8), u64::MAX);
    }

    #[test]
    fn moments_are_told_in_seconds() {
        for (moment, seconds) in [(0, 0.0_f64), (TICKS_PER_SECOND, 1.0), (TICKS_PER_SECOND / 2 * 7, 3.5)] {
            assert_eq!(seconds_of(moment).to_bits(), seconds.to_bits());
        }
    }
}
