//! Evaluating ranks that have expired: with the steps of a run, before a step is formed, and when they are read late.

use super::Ranks;
use crate::config::Admission;
use crate::instance::ranking::Ranking;
use crate::instance::request::{Phase, Slot};
use crate::instance::run::Run;
use crate::time::Ticks;

/// Ranks of running requests.
impl Ranks<'_> {
    /// Whether ranks of running requests need not be current while no request is queued.
    pub(in crate::instance) fn can_be_deferred(&self) -> bool {
        self.ranking.inputs().can_be_deferred()
    }

    /// Whether ranks of running requests are not read now, before blocks run out or a stage selects by rank: both evaluate
    /// deferred ranks first.
    fn are_deferred(&self) -> bool {
        let waits = matches!(self.reader.settings.scheduler.admission, Admission::Wait);
        self.can_be_deferred() && (self.idle() == 0 || waits)
    }

    /// Whether ranks may have changed with the decode set's latest step.
    pub(in crate::instance) fn are_due(&self) -> bool {
        let reached = self.step();
        let deferred = || self.are_deferred() && self.ranking.next_class() > reached;
        self.ranking.next_step() <= reached && !deferred() || !self.reader.settings.leap
    }

    /// Evaluates the ranks of the decode set's members that were deferred, if ranks may be.
    #[inline(never)]
    pub(in crate::instance) fn evaluate_deferred(&mut self, now: Ticks) {
        if self.can_be_deferred() {
            let (reached, keys) = (self.step(), self.ranking.evaluates_always());
            while let Some((_, slot)) = self.due_member(reached) {
                self.evaluate_behind(slot, now, Some(0), keys);
            }
        }
    }

    /// Evaluates the ranks of the decode set's members that may have changed in the `steps` steps of a run that were just
    /// applied.
    #[inline(never)]
    pub(in crate::instance) fn refresh_expired(&mut self, run: &Run, steps: u64) {
        let (keys, now) = (self.ranking.evaluates_always(), run.after(steps));
        if !self.reader.settings.leap {
            for slot in self.ranking.slots() {
                if self.reader.requests[slot].phase == Phase::Decoding {
                    self.sink_level(slot, now);
                    self.evaluate_behind(slot, now, None, keys);
                }
            }
            return;
        }
        let reached = self.step();
        while let Some((step, slot)) = self.due_member(reached) {
            // While the class stays the same, only the latest rank counts.
            let behind = reached - self.ranking.same_class_until(slot, step, reached, now);
            if behind == 0 {
                let generated = self.reader.batch.decode_set().generated(&self.reader.requests[slot]);
                if self.ranking.count_quanta(slot, generated, reached, now) {
                    continue;
                }
                self.sink_level(slot, now);
            }
            let when = run.after(steps.saturating_sub(behind));
            self.evaluate_behind(slot, when, Some(behind), keys);
        }
    }

    /// Evaluates the ranks of the decode set's members that may have changed in the `steps` steps of a run that were just
    /// applied, if time may have changed classes and levels by the end of them. Rules may read these before the next step.
    #[inline(never)]
    fn refresh_by_time(&mut self, run: &Run, steps: u64) {
        if self.are_due() {
            self.refresh_expired(run, steps);
        }
        let now = run.after(steps);
        let requests = self.reader.requests;
        let running = self.reader.batch.order().current(requests);
        let members: Vec<Slot> = running.filter(|&slot| requests[slot].phase == Phase::Decoding).collect();
        for slot in members {
            let due = self.ranking.class_is_due(slot, now);
            if self.sink_level(slot, now) || due {
                self.evaluate_after_event(slot, now);
            }
        }
    }

    /// Evaluates the ranks that may have changed in the `steps` steps of a run that were just applied. `members`: whether
    /// the decode set has any.
    pub(in crate::instance) fn refresh_after(&mut self, run: &Run, steps: u64, members: bool) {
        if members && self.ranking.is_due_by_time(run.after(steps)) {
            self.refresh_by_time(run, steps);
        } else if run.decodes && self.are_due() {
            self.refresh_expired(run, steps);
        }
    }

    /// Moves a request to its next level, if it is due, at the end of a step that ran it. Returns whether it was.
    pub(in crate::instance) fn sink_level(&mut self, slot: Slot, now: Ticks) -> bool {
        self.ranking.sink(slot, now)
    }

    /// A member of the decode set whose rank may have changed by the set's step `reached`, and at which step that was.
    fn due_member(&mut self, reached: u64) -> Option<(u64, Slot)> {
        while let Some((step, slot)) = self.ranking.due_by_step(reached) {
            if self.reader.requests[slot].phase == Phase::Decoding {
                return Some((step, slot));
            }
            self.ranking.forget_step(slot);
        }
        None
    }
}

/// All ranks, before a step is formed.
impl Ranks<'_> {
    /// Whether ranks may have to be evaluated before a step starts.
    pub(in crate::instance) fn may_refresh(&self) -> bool {
        let current = self.ranking.inputs().are_current_after_steps();
        debug_assert!(!(current && self.ranking.may_drift()), "Invariant: a rank that drifts is not current");
        !(current && self.reader.settings.leap)
    }

    /// Makes all ranks current for a step that starts now.
    #[inline(never)]
    pub(in crate::instance) fn refresh_for_step(&mut self, now: Ticks) {
        if !self.are_deferred() {
            self.evaluate_deferred(now);
        }
        if !self.reader.settings.leap || self.ranking.may_drift() {
            self.forms = true;
            if self.ranking.may_promote(self.steps()) {
                self.promote_idle(now);
            }
            self.refresh_drifting(now);
            self.forms = false;
        }
    }

    /// Makes all ranks current for a step that is formed again, as every running request was preempted. Nothing is promoted
    /// twice.
    pub(in crate::instance) fn refresh_for_round(&mut self, now: Ticks) {
        self.forms = true;
        self.refresh_drifting(now);
        self.forms = false;
    }

    #[inline(never)]
    fn refresh_drifting(&mut self, now: Ticks) {
        let steps = self.steps();
        let refreshes = self.ranking.refreshes(now, steps);
        let keys = self.ranking.evaluates_always();
        if refreshes || !self.reader.settings.leap {
            for slot in self.ranking.slots() {
                self.evaluate(slot, now, refreshes || keys);
            }
            return;
        }
        self.evaluate_each(now, keys, |ranking| ranking.due_by_time(now));
        self.refresh_arrivals(now);
        self.evaluate_each(now, keys, |ranking| ranking.due_by_idle(steps));
    }

    /// Evaluates the ranks of the requests that `due` returns, until it returns none.
    fn evaluate_each(&mut self, now: Ticks, keys: bool, due: impl Fn(&Ranking) -> Option<Slot>) {
        while let Some(slot) = due(self.ranking) {
            self.evaluate(slot, now, keys);
        }
    }

    /// Moves the requests that do not run and have a right to it to the first level.
    #[inline(never)]
    fn promote_idle(&mut self, now: Ticks) {
        let keys = self.ranking.evaluates_always();
        for slot in self.ranking.idle_below_first() {
            let view = self.view(slot, now, 0);
            if self.ranking.promote(slot, &view, self.trace) {
                self.evaluate(slot, now, keys);
            }
        }
    }
}
