//! How long a formed step takes, and for how many steps it certainly repeats.

use super::Stages;
use crate::cost::{Rise, StepShape};
use crate::error::Error;
use crate::hint::rare;
use crate::instance::reserve::OutputReserve;
use crate::instance::run::Run;
use crate::series::Series;
use crate::time::{HORIZON, Ticks};

impl Stages<'_> {
    /// Times the step that was formed, and the steps that it certainly repeats for.
    /// Returns the run, and the shape of its first step; and how its ticks rise with the context, where steps like it may be
    /// listed. `decodes`: whether the decode set runs. `waits`: for how long its forward pass waits for copies of a tier.
    ///
    /// # Errors
    ///
    /// If the first step would end after the clock's range.
    pub(super) fn time_step(
        &mut self,
        decodes: bool,
        waits: Ticks,
    ) -> Result<(Run, StepShape, Option<Rise>), Error> {
        let now = self.draft.now;
        let shape = self.effects.batch.shape(decodes, &self.effects.requests);
        let leaps = self.effects.settings.leap && self.effects.speculator.is_none();
        let mut rise = None;
        let (series, steps) = if leaps && !self.effects.batch.runs_chunks() {
            let most = self.certain_steps();
            let most = most.min(self.steps_within_limits());
            let timing = self.effects.settings.cost.run(&shape, most);
            (Series { first: timing.first, slope: timing.slope }, timing.steps)
        } else {
            if self.effects.lists_steps() {
                rise = self.effects.settings.step_rise(&shape);
            }
            let first =
                rise.map_or_else(|| self.effects.settings.step_ticks(&shape), |rise: Rise| rise.ticks);
            (Series { first, slope: 0 }, 1)
        };
        if self.effects.observers.log.reaches(now, steps) {
            rare();
            let record = self.record(decodes);
            self.effects.note_decisions(record);
        }
        let extrapolation = self.effects.settings.cost.extrapolation(&shape);
        let copying = self.effects.take_copy_ticks(series.first);
        let stall = self.effects.tiers.stall(series.first);
        let copying = copying.saturating_add(waits).saturating_add(stall);
        let mut run = Run { start: now, copying, series, steps, begun: true, extrapolation, decodes };
        if run.steps > 1 {
            run.steps = run.steps.min(self.effects.steps_before_rank_changes(&run));
        }
        if self.effects.tiers.chunks.is_some() {
            rare();
            if self.effects.settings.leap {
                self.effects.send_copies(&run);
            }
            run.steps = self.steps_before_copies_matter(&run);
        }
        run.steps = self.steps_before_tree_changes(&run);
        let ends = u128::from(now) + u128::from(copying) + series.total(run.steps);
        if ends > u128::from(HORIZON) {
            run.steps = self.steps_in_time(&run)?;
        }
        Ok((run, shape, rise))
    }

    /// Steps of a run that end within the clock's range.
    #[cold]
    fn steps_in_time(&self, run: &Run) -> Result<u64, Error> {
        let steps = run.steps_ended(HORIZON);
        if steps == 0 {
            return Err(Error::past_clock(run.start, self.effects.settings.index as usize));
        }
        Ok(steps)
    }

    /// For how many steps the decode-only step that was formed repeats if no request
    /// arrives: until an event, until blocks run out, or until the next step if that may
    /// admit what a preemption kept out of this one. A request that does not fit now fits
    /// no later in the run, as its blocks only become fewer, unless it may need fewer.
    pub(super) fn certain_steps(&mut self) -> u64 {
        // A request that was accepted in this step is no lone one in the next, of which a shorter chunk may fit.
        let limits = &self.draft.limits;
        if limits.chunk > self.chunk_limit(limits.threshold) && self.effects.waiting() > 0 {
            return 1;
        }
        if self.effects.settings.selects {
            return self.certain_steps_of_selected();
        }
        // Each step counts for how long prompts are held back.
        if self.draft.held_back.prompts || self.draft.held_back.padded {
            return 1;
        }
        // A request admitted in this step, whose rank its admission changed, is not
        // displaced in the same step, but may be in the next.
        let joined_late = !self.effects.batch.decode_set().late_joiners().is_empty();
        let changes = |inputs: &crate::instance::ranking::RankInputs| inputs.change_with_admission();
        let spared =
            joined_late && self.effects.ranking.as_deref().is_some_and(|ranking| changes(ranking.inputs()));
        // A request that was admitted in this step was held as offers were accepted; the next step may accept more.
        if self.effects.transfers.admitted.any() && self.effects.transfers.offered() > 0 {
            return 1;
        }
        // An admission that finds no room beside the reserve is the last one tried until a request leaves.
        let running = self.effects.admitted();
        let open = |reserve: &OutputReserve| reserve.is_open() || reserve.runs_fewer(running);
        if self.effects.waiting() > 0 && self.effects.reserve.as_deref().is_some_and(open) {
            return 1;
        }
        let rules = &self.effects.settings.scheduler;
        let seats = rules.max_num_seqs.min(self.draft.limits.tokens);
        // The first of the running requests, whose bucket others must be of, may be another in the next step.
        if joined_late && rules.joining.bucket.is_some() {
            return 1;
        }
        let spare = u64::from(rules.spare_block);
        if joined_late && self.effects.batch.decode_set().len() > seats {
            return 1;
        }
        if !self.effects.batch.outside().is_empty()
            || self.effects.queues.waiting().is_sorted_anew()
            || self.may_lose_hits()
            || ((self.draft.has_preempted() || spared) && self.may_admit_later())
        {
            return 1;
        }
        let set = self.effects.batch.decode_set();
        match self.effects.kv.free().checked_sub(spare) {
            Some(free) => {
                self.effects.steps_covered(free + set.blocks_for_next(), self.effects.steps_to_event()).max(1)
            }
            None => 1,
        }
    }

    /// For how many steps the decode-only step that was selected repeats if no request arrives and no rank changes:
    /// until an event, or until blocks run out for those selected. What did not fit now fits no later, as blocks only
    /// become fewer; but what was preempted may need fewer blocks than it held.
    fn certain_steps_of_selected(&self) -> u64 {
        let changes = |inputs: &crate::instance::ranking::RankInputs| inputs.change_with_admission();
        let reranked =
            self.draft.reseated && self.effects.ranking.as_deref().is_some_and(|one| changes(one.inputs()));
        let set = self.effects.batch.decode_set();
        let passes = self.draft.held_back.selection.passes_over != self.passes_prompts_over();
        if self.draft.has_preempted() || reranked || passes {
            return 1;
        }
        let (spare, most) = (self.effects.spare_blocks(set.len()), self.effects.steps_to_event());
        match self.effects.kv.free().checked_sub(spare + self.effects.selection_reserve()) {
            // With a spare block for each member, the blocks that a step takes count only after it.
            Some(free) if spare > 0 => {
                let covered = set.steps_covered(free + set.blocks_for_next(), most);
                if covered < most { covered + 1 } else { most }
            }
            Some(free) => set.steps_covered(free + set.blocks_for_next(), most),
            None => 1,
        }
    }
}
