//! Steps that certainly follow one another where each yields several tokens.
//!
//! The lengths of such steps are no arithmetic series, as the tokens that they yield alternate. So they are listed, twice as
//! many as the time before while all are taken, and to the engine all are one.

use super::Stages;
use crate::cost::{Extrapolation, Rise};
use crate::instance::Instance;
use crate::instance::effects::Effects;
use crate::instance::run::Run;
use crate::series::Series;
use crate::time::{HORIZON, Ticks};

impl Stages<'_> {
    /// Lists steps of the decode set that certainly follow the one that starts. `rise`: how they rise with the context, if
    /// that is along a straight line. Returns when the last of them ends.
    pub(super) fn list_steps(&mut self, head: &Run, rise: Option<Rise>) -> Ticks {
        if head.copying > 0 || !self.effects.lists_steps() {
            return head.end();
        }
        let certain = self.certain_steps().min(self.steps_within_limits());
        let most = certain.saturating_sub(1).min(self.effects.look_ahead());
        self.effects.list_steps(rise, most)
    }
}

impl Instance {
    /// Whether steps like the one that is formed may be listed: only the decode set runs, and yields several tokens a step; and
    /// arrivals are received at each step, as a list knows no receipts.
    pub(in crate::instance) fn lists_steps(&self) -> bool {
        let batch = &self.batch;
        batch.decode_set().width() > 1
            && !batch.runs_chunks()
            && !self.observers.log.is_kept()
            && self.settings.scheduler.receive_interval == 1
            && self.tiers.chunks.is_none()
    }
}

impl Effects<'_> {
    /// Starts and lists steps of the decode set if no request is queued and none runs outside it: those that its stages would
    /// form. Returns when the last of them ends.
    pub(super) fn start_list(&mut self, now: Ticks) -> Option<Ticks> {
        let (settings, set) = (&self.settings, self.batch.decode_set());
        let rules = &settings.scheduler;
        let (requests, width, threshold) = (set.len(), set.width(), rules.long_prefill_token_threshold);
        let runs = settings.skips_stages
            && settings.limits.varying.is_none()
            && self.batch.outside().is_empty()
            && requests > 0
            && requests <= rules.max_num_seqs
            && self.charge_of_decodes() <= rules.max_num_batched_tokens
            && (threshold == 0 || width <= threshold);
        if !runs {
            return None;
        }
        let free = self.kv.free().checked_sub(u64::from(rules.spare_block))?;
        let certain = set.steps_covered(free, self.steps_to_event());
        let shape = self.batch.shape_after(0);
        let rise = settings.step_rise(&shape)?;
        if certain == 0 || now.saturating_add(rise.ticks) > HORIZON {
            return None;
        }
        let run = Run {
            start: now,
            copying: 0,
            series: Series { first: rise.ticks, slope: 0 },
            steps: 1,
            begun: true,
            extrapolation: Extrapolation::default(),
            decodes: true,
        };
        self.start_decodes(run, shape);
        let most = (certain - 1).min(self.look_ahead());
        Some(self.list_steps(Some(rise), most))
    }
}
