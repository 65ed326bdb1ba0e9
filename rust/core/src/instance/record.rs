//! Decisions as they were made, for decision logs.

use serde::Serialize;

use super::flight::Flight;
use super::{Instance, Stage};
use crate::time::Ticks;

/// What one step ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StepRecord {
    /// When it started.
    pub start: Ticks,
    /// (request, tokens, tokens computed before), in the scheduler's order.
    pub scheduled: Vec<(u32, u32, u32)>,
    /// Requests preempted while it was formed, in order.
    pub preempted: Vec<u32>,
    /// Free blocks once it was formed.
    pub free_blocks: u64,
}

impl Instance {
    /// The step just formed, if decisions are kept.
    pub(super) fn describe(&self, start: Ticks) -> Option<StepRecord> {
        self.log.as_ref()?;
        let mut scheduled = Vec::new();
        for &(turn, slot) in &self.order {
            let active = &self.table[slot];
            if active.turn != turn {
                continue;
            }
            match active.stage {
                Stage::Decoding => scheduled.push((active.request, 1, self.decode.computed(active))),
                Stage::Prefilling => {
                    if let Some(chunk) = self.chunks.iter().find(|chunk| chunk.slot == slot) {
                        scheduled.push((active.request, chunk.tokens, active.computed));
                    }
                }
                Stage::Preempted | Stage::Vacant => {}
            }
        }
        let preempted = self.preempted.clone();
        Some(StepRecord { start, scheduled, preempted, free_blocks: self.pool.free() })
    }

    /// Writes the first `steps` steps of a flight down, one by one.
    #[inline]
    pub(super) fn record_steps(&mut self, flight: &Flight, steps: u64) {
        let (Some(log), Some(first)) = (self.log.as_mut(), flight.record.as_ref()) else { return };
        for i in 0..steps {
            let mut record = first.clone();
            if i > 0 {
                record.start = flight.start + flight.series.total(i) as Ticks;
                record.preempted.clear();
                record.scheduled.iter_mut().for_each(|(_, _, before)| *before += i as u32);
                let taken = self.decode.blocks_for(i + 1) - self.decode.blocks_for_next();
                record.free_blocks = first.free_blocks - taken;
            }
            log.push(record);
        }
    }
}
