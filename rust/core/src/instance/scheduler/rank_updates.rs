//! Keeping the ranks of an instance's requests current.

use crate::config::Admission;
use crate::hint::rare;
use crate::instance::Instance;
use crate::instance::ranking::{BestQueued, Evaluation, List, Membership, Ranking};
use crate::instance::request::{Phase, Slot};
use crate::instance::run::Run;
use crate::instance::view::OfInstance;
use crate::policy::{ReqField, holds_now};
use crate::time::Ticks;
use crate::trace::Trace;

impl Instance {
    /// Evaluates the rank of a request, if requests are ranked. `keys`: whether the keys
    /// of its class are evaluated too.
    #[inline]
    pub(in crate::instance) fn evaluate_rank(&mut self, slot: Slot, now: Ticks, keys: bool, trace: &Trace) {
        if self.ranking.is_some() {
            self.evaluate_behind(slot, now, None, keys, trace);
        }
    }

    /// Evaluates the rank of a request after an event of its own, if that may change it.
    #[inline]
    pub(in crate::instance) fn evaluate_after_event(&mut self, slot: Slot, now: Ticks, trace: &Trace) {
        if let Some(ranking) = &self.ranking {
            let runs = ranking.list(slot) == List::Running;
            if !(runs && ranking.inputs().stay_while_running()) {
                let keys = ranking.evaluates_always();
                self.evaluate_behind(slot, now, None, keys, trace);
            }
        }
    }

    /// Evaluates the rank of a request; of a member of the decode set that stays one, as
    /// it was `behind` of the set's steps ago. Returns whether the rank changed.
    #[inline(never)]
    pub(super) fn evaluate_behind(
        &mut self,
        slot: Slot,
        now: Ticks,
        behind: Option<u64>,
        keys: bool,
        trace: &Trace,
    ) -> bool {
        let Some(ranking) = self.ranking.as_deref().filter(|ranking| !ranking.is_settled(slot)) else {
            return false;
        };
        let inputs = *ranking.inputs();
        let continues = behind.is_some();
        let behind = behind.unwrap_or(0);
        let mut view = self.base_view(slot, now, behind);
        if inputs.read(ReqField::Blocks) {
            view.blocks = self.seen_blocks(slot, view.computed, now);
        }
        if inputs.read(ReqField::SlackS) {
            view.deadline = self.deadline(slot);
        }
        let resumes = self.waits_to_decode(slot);
        view.decoding |= resumes;
        let steps =
            if view.decoding { self.batch.decode_set().step() - behind } else { self.observers.stats.steps };
        let member = match (continues, resumes) {
            (true, _) => Membership::Continues,
            (false, true) => Membership::Resumes,
            (false, false) => Membership::New,
        };
        let Some(ranking) = &mut self.ranking else { return false };
        ranking.evaluate(slot, &mut view, Evaluation { keys, steps, member }, trace)
    }

    /// Whether a queued request resumes as a member of the decode set, and its rank does
    /// not change until it has more tokens.
    #[inline]
    fn waits_to_decode(&self, slot: Slot) -> bool {
        let queued =
            matches!(self.requests[slot].phase, Phase::MigratedIn | Phase::Swapped { decoding: true });
        queued && self.ranking.as_deref().is_some_and(|ranking| ranking.inputs().depend_on_tokens_only())
    }

    /// Moves a request to another list of the ranking, if there is one, and evaluates its
    /// rank.
    pub(in crate::instance) fn move_in_ranking(&mut self, slot: Slot, to: List, now: Ticks, trace: &Trace) {
        let steps = self.observers.stats.steps;
        let step = self.batch.decode_set().step();
        let waits = to == List::Queued && self.waits_to_decode(slot);
        let Some(ranking) = &mut self.ranking else { return };
        rare();
        if to == List::Running && !ranking.inputs().change_with_admission() {
            ranking.admit(slot, now, steps);
            return;
        }
        if waits && ranking.suspend(slot, step, now, steps) {
            return;
        }
        ranking.move_to(slot, to, now, steps);
        if to != List::Gone
            && !self.evaluate_behind(slot, now, None, true, trace)
            && let Some(ranking) = &mut self.ranking
        {
            ranking.place(slot);
        }
    }

    /// Adds a request to the ranking that has come to this instance, where it has been
    /// admitted for `attained` before. Returns whether it is the best queued one.
    pub(in crate::instance) fn queue_in_ranking(
        &mut self,
        slot: Slot,
        now: Ticks,
        attained: Ticks,
        trace: &Trace,
    ) -> bool {
        let Some(ranking) = &mut self.ranking else { return false };
        let idle = ranking.idle();
        let counts_idle = ranking.inputs().read(ReqField::IdleSteps);
        // A step in progress does not count as one for which the request was queued.
        let begun = self.run.current().filter(|_| counts_idle).map_or(0, |run| {
            let ended = run.steps_ended(now);
            ended + u64::from(run.after(ended) < now)
        });
        ranking.enter(slot, now, self.observers.stats.steps + begun, attained);
        self.evaluate_rank(slot, now, true, trace);
        if self.settings.selects {
            return self.may_select(slot, idle);
        }
        let best = self.ranking.as_deref().and_then(Ranking::best_queued);
        best == Some(BestQueued::Slot(slot))
    }

    /// Whether ranks of running requests need not be current while no request is queued.
    #[inline]
    pub(in crate::instance) fn can_defer_ranks(&self) -> bool {
        self.ranking.as_deref().is_some_and(|ranking| {
            rare();
            ranking.inputs().can_be_deferred()
        })
    }

    /// Whether ranks of running requests are not read now, before blocks run out or a stage selects by rank: both evaluate
    /// deferred ranks first.
    #[inline]
    fn defers_ranks(&self) -> bool {
        self.can_defer_ranks()
            && (self.idle() == 0 || matches!(self.settings.scheduler.admission, Admission::Wait))
    }

    /// Whether ranks may have changed with the decode set's latest step.
    #[inline]
    pub(in crate::instance) fn has_ranks_due(&self) -> bool {
        let reached = self.batch.decode_set().step();
        self.ranking.as_deref().is_some_and(|ranking| {
            let deferred = || self.defers_ranks() && ranking.next_class() > reached;
            ranking.next_step() <= reached && !deferred() || !self.settings.leap
        })
    }

    /// Evaluates the ranks of the decode set's members that were deferred.
    #[inline(never)]
    pub(super) fn evaluate_deferred(&mut self, now: Ticks, trace: &Trace) {
        let reached = self.batch.decode_set().step();
        let keys = self.ranking.as_deref().is_some_and(Ranking::evaluates_always);
        while let Some((_, slot)) = self.due_member(reached) {
            self.evaluate_behind(slot, now, Some(0), keys, trace);
        }
    }

    /// Evaluates the ranks of the decode set's members that may have changed in the
    /// `steps` steps of a run that were just booked.
    #[inline(never)]
    pub(in crate::instance) fn refresh_expired(&mut self, run: &Run, steps: u64, trace: &Trace) {
        let Some(ranking) = &mut self.ranking else { return };
        let (keys, now) = (ranking.evaluates_always(), run.after(steps));
        if !self.settings.leap {
            for slot in ranking.slots() {
                if self.requests[slot].phase == Phase::Decoding {
                    self.sink_level(slot, now);
                    self.evaluate_behind(slot, now, None, keys, trace);
                }
            }
            return;
        }
        let reached = self.batch.decode_set().step();
        while let Some((step, slot)) = self.due_member(reached) {
            let Some(ranking) = &mut self.ranking else { return };
            // While the class stays the same, only the latest rank counts.
            let behind = reached - ranking.same_class_until(slot, step, reached, now);
            if behind == 0 {
                let generated = self.batch.decode_set().generated(&self.requests[slot]);
                if ranking.count_quanta(slot, generated, reached, now) {
                    continue;
                }
                self.sink_level(slot, now);
            }
            let when = run.after(steps.saturating_sub(behind));
            self.evaluate_behind(slot, when, Some(behind), keys, trace);
        }
    }

    /// Moves a request to its next level, if it is due, at the end of a step that ran it. Returns whether it was.
    #[inline]
    pub(in crate::instance) fn sink_level(&mut self, slot: Slot, now: Ticks) -> bool {
        self.ranking.as_mut().is_some_and(|ranking| {
            rare();
            ranking.sink(slot, now)
        })
    }

    /// Evaluates the ranks of the decode set's members that may have changed in the `steps` steps of a run that were just
    /// booked, at the end of which time may have changed classes and levels. Rules may read these before the next step.
    #[inline(never)]
    pub(in crate::instance) fn refresh_by_time(&mut self, run: &Run, steps: u64, trace: &Trace) {
        if self.has_ranks_due() {
            self.refresh_expired(run, steps, trace);
        }
        let now = run.after(steps);
        let running = self.batch.order().current(&self.requests);
        let members: Vec<Slot> =
            running.filter(|&slot| self.requests[slot].phase == Phase::Decoding).collect();
        for slot in members {
            let due = self.ranking.as_deref().is_some_and(|ranking| ranking.class_is_due(slot, now));
            if self.sink_level(slot, now) || due {
                self.evaluate_after_event(slot, now, trace);
            }
        }
    }

    /// A member of the decode set whose rank may have changed by the set's step `reached`,
    /// and at which step that was.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "each run ends with two or three calls")]
    fn due_member(&mut self, reached: u64) -> Option<(u64, Slot)> {
        let ranking = self.ranking.as_mut()?;
        while let Some((step, slot)) = ranking.due_by_step(reached) {
            if self.requests[slot].phase == Phase::Decoding {
                return Some((step, slot));
            }
            ranking.forget_step(slot);
        }
        None
    }

    /// Whether ranks may have to be evaluated before a step starts.
    #[inline]
    pub(super) fn may_refresh(&self) -> bool {
        let current = |ranking: &Ranking| ranking.inputs().are_current_after_steps();
        debug_assert!(
            !self.ranking.as_deref().is_some_and(|ranking| current(ranking) && ranking.may_drift()),
            "Invariant: a rank that drifts is not current"
        );
        self.ranking.as_deref().is_some_and(|ranking| !(current(ranking) && self.settings.leap))
    }

    /// Makes all ranks current for a step that starts now.
    #[inline(never)]
    pub(super) fn refresh_for_step(&mut self, now: Ticks, trace: &Trace) {
        if self.can_defer_ranks() && !self.defers_ranks() {
            self.evaluate_deferred(now, trace);
        }
        if !self.settings.leap || self.ranking.as_deref().is_some_and(Ranking::may_drift) {
            self.refresh_drifting(now, trace);
        }
    }

    #[inline(never)]
    fn refresh_drifting(&mut self, now: Ticks, trace: &Trace) {
        let steps = self.observers.stats.steps;
        if self.ranking.as_ref().is_some_and(|ranking| ranking.may_promote(steps)) {
            self.promote_idle(now, trace);
        }
        let Some(ranking) = &mut self.ranking else { return };
        let refreshes = ranking.refreshes(now, steps);
        let keys = ranking.evaluates_always();
        if refreshes || !self.settings.leap {
            for slot in ranking.slots() {
                self.evaluate_rank(slot, now, refreshes || keys, trace);
            }
            return;
        }
        while let Some(slot) = self.ranking.as_ref().and_then(|ranking| ranking.due_by_time(now)) {
            self.evaluate_rank(slot, now, keys, trace);
        }
        self.refresh_arrivals(now, trace);
        while let Some(slot) = self.ranking.as_ref().and_then(|ranking| ranking.due_by_idle(steps)) {
            self.evaluate_rank(slot, now, keys, trace);
        }
    }

    /// Moves the requests that do not run and have a right to it to the first level.
    #[inline(never)]
    fn promote_idle(&mut self, now: Ticks, trace: &Trace) {
        let Some(ranking) = &self.ranking else { return };
        let (keys, inputs) = (ranking.evaluates_always(), *ranking.inputs());
        for slot in ranking.idle_below_first() {
            let mut view = self.base_view(slot, now, 0);
            if inputs.read(ReqField::Blocks) {
                view.blocks = self.seen_blocks(slot, view.computed, now);
            }
            if inputs.read(ReqField::SlackS) {
                view.deadline = self.deadline(slot);
            }
            if self.ranking.as_mut().is_some_and(|ranking| ranking.promote(slot, &view, trace)) {
                self.evaluate_rank(slot, now, keys, trace);
            }
        }
    }

    /// Starts to form a step: no request has been admitted or preempted in it.
    #[inline]
    pub(super) fn begin_round(&mut self, now: Ticks, trace: &Trace) {
        let may_displace = match &self.settings.scheduler.admission {
            Admission::Wait => false,
            Admission::Displace { when: None, .. } => true,
            Admission::Displace { .. } => self.displacement_condition_holds(now, trace),
        };
        if let Some(ranking) = &mut self.ranking {
            ranking.begin_round(may_displace);
        }
    }

    /// Whether the condition of displacement holds of the instance.
    #[inline(never)]
    fn displacement_condition_holds(&mut self, now: Ticks, trace: &Trace) -> bool {
        let Some(condition) = self.settings.displaces_when.clone() else { return true };
        holds_now(&condition, &mut OfInstance { instance: self, now, trace })
    }
}
