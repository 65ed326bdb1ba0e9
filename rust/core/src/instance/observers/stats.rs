//! Counters and time integrals as an observer.

use super::fact::{Ended, Fact, Steps};
use crate::hint::rare;
use crate::metrics::{InstanceStats, RequestStats};

impl RequestStats {
    /// Counts what happened to a request.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the fact is known where it is told")]
    pub(super) fn observe(&mut self, fact: Fact) {
        match fact {
            Fact::Preempted => self.preemptions += 1,
            Fact::Finished => self.finished += 1,
            Fact::Dropped => self.dropped += 1,
            Fact::Cancelled { .. } => self.cancelled += 1,
            Fact::Left => self.sent += 1,
            Fact::Landed { expired: false, .. } => self.landed += 1,
            Fact::Landed { expired: true, .. } => self.expired_offers += 1,
            _ => {}
        }
    }
}

impl InstanceStats {
    /// Counts the tokens outside the decode set, and the steps whose cost was extrapolated.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "it is told of at one place, once a run")]
    pub(super) fn observe_run(&mut self, ended: &Ended) {
        let &Ended { run, steps, shape, members, discarded, ends_prefills, .. } = ended;
        // A batch computes its tokens once, in however many groups of layers.
        if ends_prefills {
            self.work.prefill_tokens += shape.prefill_tokens;
        }
        self.work.decode_tokens += shape.decode_requests - members - discarded;
        self.work.discarded_tokens += ended.discarded_tokens;
        self.work.extrapolated.add(run.extrapolation, steps);
    }

    /// Counts steps and their time, and the tokens of the decode set.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "it is told of at one place, once a run")]
    pub(super) fn observe_steps(&mut self, steps: &Steps) {
        let &Steps { count, ticks, tokens, running, kv_ticks, .. } = steps;
        self.work.steps += count;
        self.work.busy_ticks += ticks as u64;
        self.work.decode_tokens += tokens;
        self.occupancy.running_ticks += u128::from(running) * ticks;
        self.occupancy.kv_token_ticks += kv_ticks;
        if let Some(drafts) = &steps.drafts {
            rare();
            self.add_drafts(drafts);
        }
    }
}
