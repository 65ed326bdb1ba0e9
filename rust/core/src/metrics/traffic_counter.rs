//! The bytes and operations of one instance, counted as its steps end.

use super::InstanceStats;
use crate::cost::{Moved, StepShape, Traffic, Work};

/// The sums over an instance's steps, and the coefficients that turn them into bytes and FLOPs.
#[derive(Debug)]
pub(crate) struct TrafficCounter {
    /// The coefficients.
    traffic: Traffic,
    /// The sums.
    work: Work,
    /// Tokens in a block.
    block_tokens: u32,
}

crate::checkpoint::checkpointed!(TrafficCounter {
    values: work;
    fixed: traffic, block_tokens;
});

impl TrafficCounter {
    /// A counter without steps. `depth`: the layers of the model, if prefills run by groups of them; else 1.
    pub(crate) fn new(traffic: Traffic, depth: u32, block_tokens: u32) -> Self {
        Self { traffic, work: Work::new(depth), block_tokens }
    }

    /// Adds `steps` steps, see [`Work::add`].
    pub(crate) fn add(&mut self, shape: &StepShape, steps: u64) {
        self.work.add(&self.traffic, shape, steps);
    }

    /// The bytes and FLOPs of all steps, and of the blocks that were swapped according to `stats`.
    pub(crate) fn moved(&self, stats: &InstanceStats) -> Moved {
        let blocks = stats.memory.swapped_out_blocks + stats.memory.swapped_in_blocks;
        self.traffic.of(&self.work, blocks * u64::from(self.block_tokens), stats.work.busy_ticks)
    }
}
