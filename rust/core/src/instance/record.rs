//! Decisions as they were made, for decision logs.

use serde::Serialize;

use super::flight::Flight;
use super::{Instance, Phase};
use crate::time::Ticks;

/// How a request came to run in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// It decodes.
    Decode,
    /// A prefill goes on.
    Chunk,
    /// It was let in from the queue.
    Admitted,
    /// It was swapped in, and decodes.
    SwappedInDecode,
    /// It was swapped in, and its prefill goes on.
    SwappedInChunk,
    /// It came from another instance, and decodes.
    Landed,
}

/// What one step ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StepRecord {
    /// When it started.
    pub start: Ticks,
    /// (request, tokens, tokens computed before, how it came to run), in the
    /// order of admission.
    pub scheduled: Vec<(u32, u32, u32, Part)>,
    /// Requests preempted while it was formed, in order.
    pub preempted: Vec<u32>,
    /// Blocks copied out to the CPU's memory and back.
    pub copied: (u64, u64),
    /// The group of layers that ran prefills, and how many groups there are.
    pub group: Option<(u32, u32)>,
    /// Free blocks once it was formed.
    pub free_blocks: u64,
}

impl StepRecord {
    /// Makes it what the same requests do `steps` steps later in the same run.
    pub(super) fn go_on(&mut self, steps: u64) {
        self.preempted.clear();
        self.copied = (0, 0);
        for (_, _, before, part) in &mut self.scheduled {
            *before += steps as u32;
            *part = Part::Decode;
        }
    }
}

impl Instance {
    /// Keeps what a step that starts was decided to do.
    #[cold]
    pub(super) fn begin_record(&mut self, start: Ticks, decodes: bool) {
        self.record = Some(Box::new(self.describe(start, decodes)));
    }

    /// The step just formed.
    fn describe(&self, start: Ticks, decodes: bool) -> StepRecord {
        let mut scheduled = Vec::new();
        for &(turn, slot) in &self.order {
            let active = &self.table[slot];
            if !self.table.holds(turn, slot) {
                continue;
            }
            if active.phase == Phase::Decoding {
                if decodes {
                    let newcomer = self.decode.newcomers().iter().find(|newcomer| newcomer.0 == slot);
                    let part = newcomer.map_or(Part::Decode, |newcomer| newcomer.1);
                    scheduled.push((active.request, 1, self.decode.computed(active), part));
                }
            } else if let Some(chunk) =
                self.chunks.iter().chain(&self.layers.batch).find(|chunk| chunk.slot == slot)
            {
                scheduled.push((active.request, chunk.tokens, active.computed, chunk.part));
            }
        }
        let group = self.layers.group.filter(|_| !self.layers.batch.is_empty());
        StepRecord {
            start,
            scheduled,
            preempted: self.preempted.clone(),
            copied: self.copied,
            group: group.map(|group| (group, self.layers.groups)),
            free_blocks: self.memory.free(),
        }
    }

    /// Writes the first `steps` steps of a flight down, one by one.
    #[inline(never)]
    pub(super) fn record_steps(&mut self, flight: &Flight, steps: u64) {
        let (Some(log), Some(first)) = (self.log.as_mut(), self.record.as_deref()) else { return };
        for i in 0..steps {
            let mut record = first.clone();
            if i > 0 {
                record.start = flight.after(i);
                record.go_on(i);
                let taken = self.decode.blocks_for(i + 1) - self.decode.blocks_for_next();
                record.free_blocks = first.free_blocks - taken;
            }
            log.push(record);
        }
    }
}
