//! The decisions of one step.

use serde::{Deserialize, Serialize};

use crate::instance::batch::Batch;
use crate::instance::request::{Phase, RequestTable};
use crate::time::Ticks;

/// Why a request runs in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// It decodes.
    Decode,
    /// Its prefill continues.
    Chunk,
    /// It was admitted from the queue.
    Admitted,
    /// It was swapped in, and decodes.
    SwappedInDecode,
    /// It was swapped in, and its prefill continues.
    SwappedInChunk,
    /// It was migrated in, and decodes.
    #[serde(rename = "landed")]
    MigratedIn,
}

impl Part {
    /// Whether it decodes.
    pub(crate) fn decodes(self) -> bool {
        !matches!(self, Self::Chunk | Self::Admitted | Self::SwappedInChunk)
    }
}

/// The decisions of one step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StepRecord {
    /// When it started.
    pub start: Ticks,
    /// When it was decided, where steps are decided ahead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided: Option<Ticks>,
    /// How long it took, the copies before it included.
    pub ticks: Ticks,
    /// (number of the request, tokens, tokens computed before, why it ran), in the order of
    /// admission.
    pub scheduled: Vec<(u32, u32, u32, Part)>,
    /// By scheduled request: its drafts, those of them that are accepted, -1 if the step yields no token of it, and the
    /// tokens that are kept. Empty where tokens are not drafted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drafted: Vec<(u32, i32, u32)>,
    /// Requests preempted while it was formed, in order.
    pub preempted: Vec<u32>,
    /// Blocks copied to the CPU's memory and back.
    pub copied: (u64, u64),
    /// The group of layers that ran prefills, and the number of groups.
    pub group: Option<(u32, u32)>,
    /// Free blocks once it was formed.
    pub free_blocks: u64,
}

impl StepRecord {
    /// The step that `batch` runs. `decodes`: whether the decode set does.
    pub(in crate::instance) fn of(batch: &Batch, decodes: bool, requests: &RequestTable) -> Self {
        let mut scheduled = Vec::new();
        let set = batch.decode_set();
        for slot in batch.order().counted(requests) {
            let state = &requests[slot];
            if state.phase == Phase::Decoding {
                if decodes {
                    let late = set.late_joiners().iter().find(|joiner| joiner.0 == slot);
                    let part = late.map_or(Part::Decode, |joiner| joiner.1);
                    scheduled.push((state.request.0, set.width() as u32, set.computed(state), part));
                }
            } else if let Some(chunk) = batch.scheduled().find(|chunk| chunk.slot == slot) {
                scheduled.push((state.request.0, chunk.tokens, state.computed + chunk.given_up, chunk.part));
            }
        }
        Self { scheduled, group: batch.layers().position(), ..Self::default() }
    }

    /// Makes it the record of the step that comes `steps` later in the same run.
    pub(super) fn advance(&mut self, steps: u64) {
        self.preempted.clear();
        self.copied = (0, 0);
        for (_, _, before, part) in &mut self.scheduled {
            *before += steps as u32;
            *part = Part::Decode;
        }
    }
}
