//! Runs that are known without forming a step stage by stage.
//!
//! If no request is queued and none runs outside the decode set, the next run is known: the set runs until a member
//! finishes, a rule is asked, or blocks may run out.

use crate::cost::StepShape;
use crate::hint::rare;
use crate::instance::Instance;
use crate::instance::effects::Effects;
use crate::instance::run::Run;
use crate::series::Series;
use crate::time::{HORIZON, Ticks};

impl Effects<'_> {
    /// Starts a run of the decode set if no request is queued and none runs outside it:
    /// the same run that its stages would form. Returns when it ends.
    pub(super) fn start_decode_run(&mut self, now: Ticks) -> Option<Ticks> {
        if self.batch.decode_set().width() > 1 {
            rare();
            return self.start_list(now);
        }
        let (mut run, shape) = self.decode_run(now)?;
        // An attempt that forms no step leaves a request in the queue or outside the decode set.
        debug_assert!(
            !self.queues.has_migrated_in() && self.kv.cpu().copied() == (0, 0),
            "Invariant: no step is due for a migrated request or copies"
        );
        self.begin_round(false);
        run.steps = run.steps.min(self.steps_before_rank_changes(&run));
        self.start_decodes(run, shape);
        Some(run.end())
    }
}

impl Instance {
    /// The run that begins at `start` while no request is queued, if it is known, and the shape of its first step.
    fn decode_run(&self, start: Ticks) -> Option<(Run, StepShape)> {
        let (settings, set) = (&self.settings, self.batch.decode_set());
        let known = settings.skips_stages
            && self.speculator.is_none()
            && self.batch.outside().is_empty()
            && set.len() > 0
            && set.len() <= settings.scheduler.max_num_seqs
            && set.len() <= settings.limits.least_tokens;
        let most = if known { self.steps_to_event() } else { 0 };
        if most == 0 {
            return None;
        }
        let shape = self.batch.shape_after(0);
        let timing = settings.cost.run(&shape, most);
        let steps = self.steps_with_blocks(timing.steps)?;
        let series = Series { first: timing.first, slope: timing.slope };
        if u128::from(start) + series.total(steps) > u128::from(HORIZON) {
            return None;
        }
        let extrapolation = settings.cost.extrapolation(&shape);
        Some((Run { start, copying: 0, series, steps, begun: true, extrapolation, decodes: true }, shape))
    }

    /// For how many steps, up to `most`, blocks suffice for the decode set; `None`: not for one. Mostly that is as long as
    /// they suffice.
    fn steps_with_blocks(&self, most: u64) -> Option<u64> {
        let (settings, set) = (&self.settings, self.batch.decode_set());
        let reserve = if settings.selects {
            rare();
            self.spare_blocks(set.len()) + self.selection_reserve()
        } else {
            u64::from(settings.scheduler.spare_block)
        };
        let free = self.kv.free().checked_sub(reserve)?;
        // Mostly the blocks suffice even if every request needs the most it can.
        if (settings.block.filled_by(most) + 2).saturating_mul(set.len()) <= free {
            return Some(most);
        }
        Some(self.steps_covered(free, most)).filter(|&steps| steps > 0)
    }

    /// For how many steps, up to `most`, `free` blocks suffice for the decode set; for one step more, if the one after them
    /// must not preempt.
    pub(in crate::instance) fn steps_covered(&self, free: u64, most: u64) -> u64 {
        let set = self.batch.decode_set();
        if !self.settings.scheduler.drop_unseen {
            return set.steps_covered(free, most);
        }
        rare();
        set.steps_covered(free, most.saturating_add(1)).saturating_sub(1)
    }

    /// Steps of the decode set until a member finishes, or a rule is asked about one.
    pub(in crate::instance) fn steps_to_event(&self) -> u64 {
        let set = self.batch.decode_set();
        let most = set.steps_to_departure();
        if self.observers.outbox.reports().answering { most.min(set.steps_to_reasoning_end()) } else { most }
    }

    /// Tokens of the budget that a step of the decode set takes.
    pub(in crate::instance) fn charge_of_decodes(&self) -> u64 {
        let set = self.batch.decode_set();
        set.len() * (set.width() + self.settings.drafts.input_slots())
    }
}
