//! Instances that start their steps together.
//!
//! The data-parallel ranks of a mixture of experts schedule by themselves, but
//! meet in every layer, where they exchange tokens for the experts that they
//! share: none starts a step before all have ended theirs, and a step lasts as
//! long as the slowest rank's part beside what the tokens of all take. A rank
//! without work takes part with one token.
//!
//! Follows vLLM 0.19: `core.py` (`DPEngineCoreProc.run_busy_loop`, which runs
//! idle ranks along) and `dp_utils.py` (`coordinate_batch_across_dp`, which pads
//! all ranks to the longest where it runs CUDA graphs). Layers are not followed
//! one by one: that the slowest rank is another in each is not modelled.

use super::Simulation;
use crate::error::Error;
use crate::instance::Instance;
use crate::time::{HORIZON, TICKS_PER_SECOND, Ticks};

impl Simulation {
    /// Starts a step of all that have work, unless somebody is still in one.
    #[inline(never)]
    pub(super) fn start_together(&mut self, now: Ticks) -> Result<(), Error> {
        if self.instances.iter().any(|instance| !instance.is_idle()) {
            return Ok(());
        }
        let mut starting = std::mem::take(&mut self.starting);
        starting.sort_unstable();
        starting.dedup();
        for index in starting.drain(..) {
            self.start_step(index, now)?;
        }
        self.starting = starting;
        let Some(lockstep) = &self.lockstep else { return Ok(()) };
        let tokens = self.instances.iter().map(|instance| instance.step_tokens().unwrap_or(1));
        let (total, most) =
            tokens.fold((0_u64, 0), |(total, most), n| (total.saturating_add(n), most.max(n)));
        let computed = if most <= lockstep.padded { most * self.instances.len() as u64 } else { total };
        let alone = self.instances.iter().filter_map(Instance::step_ticks).max();
        let Some(alone) = alone else { return Ok(()) };
        let together = alone.saturating_add(lockstep.shared.at(computed));
        for (index, instance) in self.instances.iter_mut().enumerate() {
            if let Some(end) = instance.stretch_step(together) {
                if end > HORIZON {
                    return Err(Error::ClockOverflow { seconds: now / TICKS_PER_SECOND, instance: index });
                }
                self.calendar.set(index, end);
            }
        }
        Ok(())
    }
}
