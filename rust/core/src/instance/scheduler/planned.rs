//! Runs that are known without forming a step stage by stage.
//!
//! A step that ends prompts is mostly followed by a run of the decode set with the
//! requests that joined it. If no request is queued, that run is known when the step
//! starts. It is planned then, and to the engine both are one. Once the step has ended,
//! it is applied before the instance is read or given a request. An event before that
//! cancels the plan.

use super::Stages;
use crate::cost::StepShape;
use crate::hint::rare;
use crate::instance::batch::Chunk;
use crate::instance::run::Run;
use crate::series::Series;
use crate::time::{HORIZON, Ticks};

impl Stages<'_> {
    /// Starts a run of the decode set if no request is queued and none runs outside it:
    /// the same run that its stages would form. Returns when it ends.
    pub(super) fn start_decode_run(&mut self, now: Ticks) -> Option<Ticks> {
        if self.effects.batch.decode_set().width() > 1 {
            rare();
            return self.start_list(now);
        }
        let (mut run, shape) = self.plan(now, false)?;
        // An attempt that forms no step leaves a request in the queue or outside the decode set.
        debug_assert!(
            !self.effects.queues.has_migrated_in() && self.effects.kv.cpu().copied() == (0, 0),
            "Invariant: no step is due for a migrated request or copies"
        );
        run.begun = true;
        self.effects.begin_round(false);
        run.steps = run.steps.min(self.effects.steps_before_rank_changes(&run));
        self.effects.start_decodes(run, shape);
        Some(run.end())
    }

    /// The run after the step that starts, if it is known, and the shape of its first step.
    pub(super) fn plan_after(&self, head: &Run) -> Option<(Run, StepShape)> {
        let known = self.effects.ranking.as_deref().is_none_or(|ranking| {
            rare();
            ranking.inputs().end_no_run()
        });
        if self.effects.queued() > 0 || !known || self.effects.observers.outbox.awaits_prefills() {
            return None;
        }
        self.plan(head.end(), head.decodes)
    }

    /// The run that begins at `start` while no request is queued, if it is known: every
    /// chunk ends its prompt before, no request finishes with it, and no rule is asked.
    /// `ran`: whether the decode set takes a step before.
    fn plan(&self, start: Ticks, ran: bool) -> Option<(Run, StepShape)> {
        let (chunks, set) = (self.effects.batch.chunks(), self.effects.batch.decode_set());
        let plans = self.effects.settings.plans && self.effects.speculator.is_none();
        if !plans || chunks.len() != self.effects.batch.outside().len() {
            return None;
        }
        let taken = u64::from(ran && set.len() > 0);
        let mut most = u64::MAX;
        if set.len() > 0 {
            most = self.steps_to_event().checked_sub(taken)?;
        }
        for chunk in chunks {
            most = most.min(self.steps_after(chunk)?);
        }
        let joining = chunks.len() as u64;
        let all = set.len() + joining;
        let rules = &self.effects.settings.scheduler;
        if most == 0
            || all == 0
            || all > rules.max_num_seqs
            || all > self.effects.settings.limits.least_tokens
        {
            return None;
        }
        let shape = self.effects.batch.planned_shape(ran, &self.effects.requests);
        let timing = self.effects.settings.cost.run(&shape, most);
        let steps = self.steps_with_blocks(timing.steps, joining, taken)?;
        let series = Series { first: timing.first, slope: timing.slope };
        if u128::from(start) + series.total(steps) > u128::from(HORIZON) {
            return None;
        }
        let extrapolation = self.effects.settings.cost.extrapolation(&shape);
        let run = Run { start, copying: 0, series, steps, begun: false, extrapolation, decodes: true };
        Some((run, shape))
    }

    /// Steps that the request of a chunk takes in the decode set before an event of its
    /// own; `None` if it does not join the set, or a rule is asked first.
    fn steps_after(&self, chunk: &Chunk) -> Option<u64> {
        let state = &self.effects.requests[chunk.slot];
        let generated = state.generated + 1;
        let reports = self.effects.observers.outbox.reports();
        let asks = reports.prefilled && generated == 1;
        if state.computed + chunk.tokens < state.target() || generated >= state.output || asks {
            return None;
        }
        let mut most = u64::from(state.output - generated);
        if reports.answering
            && let Some(reasoning) = self
                .effects
                .trace
                .reasoning(state.request.index())
                .filter(|reasoning| *reasoning >= generated)
        {
            most = most.min(u64::from(reasoning - generated));
        }
        Some(most)
    }

    /// For how many steps, up to `most`, blocks surely suffice for the decode set, after
    /// `taken` steps whose blocks it has, and for `joining` more requests. Mostly that is
    /// as long as they suffice.
    fn steps_with_blocks(&self, most: u64, joining: u64, taken: u64) -> Option<u64> {
        let set = self.effects.batch.decode_set();
        let reserve = if self.effects.settings.selects {
            rare();
            self.spare_blocks(set.len() + joining) + self.selection_reserve()
        } else {
            u64::from(self.effects.settings.scheduler.spare_block)
        };
        let free = self.effects.kv.free().checked_sub(reserve)?;
        let filled = self.effects.settings.block.filled_by(most);
        // Mostly the blocks suffice even if every request needs the most it can.
        if (filled + 2).saturating_mul(set.len() + joining) <= free {
            return Some(most);
        }
        let rest = free.checked_sub(joining.saturating_mul(filled + 1))?;
        let held = if taken > 0 { set.blocks_for_next() } else { 0 };
        let steps = if set.len() > 0 {
            set.steps_covered(rest + held, most + taken).checked_sub(taken)?
        } else {
            most
        };
        (steps > 0).then_some(steps)
    }
}
