//! The ranks of requests, kept current for a step that is formed.

use super::Effects;
use crate::instance::ranking::RankKey;
use crate::instance::ranks::Ranks;
use crate::instance::request::Slot;
use crate::instance::run::Run;
use crate::time::Ticks;

impl Effects<'_> {
    /// Makes all ranks current for a step that starts now. Returns whether that is deferred: no request is queued, and the
    /// step may be known without it.
    pub(in crate::instance) fn refresh_ranks(&mut self, queued: bool, now: Ticks) -> bool {
        let Some(mut ranks) = self.ranks().filter(Ranks::may_refresh) else { return false };
        let deferred = !queued && ranks.can_be_deferred();
        if !deferred {
            ranks.refresh_for_step(now);
        }
        deferred
    }

    /// Makes all ranks current for a step that is formed again.
    pub(in crate::instance) fn refresh_ranks_again(&mut self, now: Ticks) {
        if let Some(mut ranks) = self.ranks().filter(Ranks::may_refresh) {
            ranks.refresh_for_round(now);
        }
    }

    /// Makes all ranks current whose refresh was deferred.
    pub(in crate::instance) fn refresh_deferred_ranks(&mut self, now: Ticks) {
        if let Some(mut ranks) = self.ranks() {
            ranks.refresh_for_step(now);
        }
    }

    /// Evaluates the ranks of running requests that were not needed until now.
    pub(in crate::instance) fn evaluate_running_ranks(&mut self, now: Ticks) {
        if let Some(mut ranks) = self.ranks() {
            ranks.evaluate_deferred(now);
        }
    }

    /// Begins a step by rank: no request has been admitted or preempted in it. `may_displace`: queued requests may
    /// displace running ones.
    pub(in crate::instance) fn begin_round(&mut self, may_displace: bool) {
        if let Some(ranking) = &mut self.on.ranking {
            ranking.begin_round(may_displace);
        }
    }

    /// The worst running request of the ranking.
    pub(in crate::instance) fn worst_running(&mut self) -> Option<Slot> {
        self.on.ranking.as_mut()?.worst_running()
    }

    /// The running requests that rank worse than `rank`, the worst first, without those admitted in this step.
    pub(in crate::instance) fn worse_than(&mut self, rank: RankKey) -> Vec<Slot> {
        self.on.ranking.as_mut().map_or_else(Vec::new, |ranking| ranking.worse_than(rank))
    }

    /// Takes a request out of the order of those that do not run, until [`Self::put_back`].
    pub(in crate::instance) fn take_out_of_order(&mut self, slot: Slot) {
        if let Some(ranking) = &mut self.on.ranking {
            ranking.take(slot);
        }
    }

    /// Puts requests back where their ranks belong.
    pub(in crate::instance) fn put_back(&mut self, slots: Vec<Slot>) {
        if let Some(ranking) = &mut self.on.ranking {
            for slot in slots {
                ranking.place(slot);
            }
        }
    }

    /// Steps of a run up to the first before which a rank may change.
    pub(in crate::instance) fn steps_before_rank_changes(&mut self, run: &Run) -> u64 {
        self.ranks().map_or(u64::MAX, |ranks| ranks.steps_before_change(run))
    }
}
