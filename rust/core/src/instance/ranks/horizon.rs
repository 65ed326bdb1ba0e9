//! For how many steps no rank changes that could change a decision.

use super::Ranks;
use crate::config::Admission;
use crate::instance::run::Run;
use crate::policy::ReqField;
use crate::time::Ticks;

impl Ranks<'_> {
    /// For how many of a run's steps no rank changes that could change a decision.
    pub(in crate::instance) fn steps_before_change(&self, run: &Run) -> u64 {
        if self.ranking.inputs().end_no_run() && self.idle() == 0 {
            u64::MAX
        } else {
            self.steps_to_change(run)
        }
    }

    /// The same for a run in progress, once a request has arrived; `None` if no rank changes by itself.
    pub(in crate::instance) fn steps_after_arrival(&self, run: &Run) -> Option<u64> {
        (self.ranking.may_drift() || self.ranking.shares_keys()).then(|| self.steps_to_change(run))
    }

    #[inline(never)]
    fn steps_to_change(&self, run: &Run) -> u64 {
        let ranking = &self.ranking;
        if ranking.inputs().read(ReqField::SlackS) {
            // No run knows when a reader runs out.
            return 1;
        }
        let (reached, taken) = (self.step(), self.steps());
        let mut most = ranking.steps_to_refresh(taken);
        let next = ranking.next_time();
        if next != Ticks::MAX {
            most = most.min(run.steps_to_reach(next));
        }
        let next_step = ranking.next_step().saturating_sub(reached).max(1);
        if ranking.inputs().classes_change_with_time() {
            // A class that holds a request for some tokens lets it go after them, and from then on time may change its class.
            most = most.min(next_step);
        }
        if ranking.idle() > 0 {
            most = most.min(ranking.next_idle().saturating_sub(taken).max(1));
            let settings = self.reader.settings;
            most = most.min(self.steps_to_reorder(run));
            match settings.scheduler.admission {
                Admission::Wait if settings.selects => most = most.min(next_step),
                // Ranks of running requests decide nothing before blocks run out.
                Admission::Wait => {}
                Admission::Displace { when: Some(_), .. } => return 1,
                Admission::Displace { .. } if ranking.shares_keys() => return 1,
                Admission::Displace { when: None, .. } => most = most.min(next_step),
            }
        }
        most
    }
    /// Steps before the first in which the charges of decodes may have another queued request admitted.
    fn steps_to_reorder(&self, run: &Run) -> u64 {
        /// Steps that are looked at, one by one.
        const MOST: u64 = 64;
        let Some(accumulators) = self.reader.observers.accumulators.as_deref() else { return u64::MAX };
        let rules = &self.reader.settings.scheduler;
        let (running, decodes) = (self.reader.batch.running(), self.reader.batch.decode_set().len());
        // While no seat or no token is free, none is admitted. Where prompts are not cut, the head may be dropped.
        let full = running >= rules.max_num_seqs && rules.counts_decodes();
        if (full || decodes >= rules.max_num_batched_tokens) && rules.cuts_prompts() {
            return u64::MAX;
        }
        if accumulators.fall() {
            return 1;
        }
        if !run.decodes || !accumulators.change_with_decodes() {
            return u64::MAX;
        }
        let growth = accumulators.growth(self.reader.batch.members(self.reader.requests));
        self.ranking.steps_to_reorder(run.steps.min(MOST), accumulators, &growth)
    }
}
