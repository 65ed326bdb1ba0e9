//! A tier of KV in the host's memory, which keeps chunks of prefixes.

use serde::Deserialize;

use super::limits::{MOST, on_clock, within};
use super::{Allocation, InstanceConfig, QueueOrder, Stage, StoreLink};
use crate::error::Error;
use crate::time::Ticks;

/// The most blocks of a chunk: a chunk of real engines has some thousand tokens at most.
const MOST_CHUNK_BLOCKS: u64 = 1 << 16;

/// The most offers of a chunk before it is stored.
const MOST_OFFERS: u64 = 1 << 16;

/// The chunks that an instance keeps in the host's memory, and its copies to it and back, as the `OffloadingConnector` of
/// vLLM 0.33.0 makes them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierConfig {
    /// Chunks that fit.
    pub chunks: u64,
    /// Blocks that are stored and loaded as one.
    pub chunk_blocks: u32,
    /// Which chunk is evicted first.
    pub eviction: Eviction,
    /// Whether blocks that the output fills are not stored.
    pub prompts_only: bool,
    /// Offers of a chunk before it is stored; 0 and 1: it is stored at the first.
    pub store_threshold: u32,
    /// The most tokens that a step loads before its forward pass.
    pub sync_tokens: u64,
    /// Whether the end of a copy is looked for as a step ends, and not as its forward pass begins.
    pub polls_at_end: bool,
    /// The time of a copy to the tier.
    pub store: CopyTime,
    /// The time of a copy back.
    pub load: CopyTime,
    /// The store below it; `None`: there is none.
    #[serde(default)]
    pub below: Option<StoreLink>,
}

/// Which chunk is evicted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Eviction {
    /// The least recently used one.
    Lru,
    /// As adaptive replacement says.
    Arc,
}

/// How long a copy takes: a fixed time, and a time for each block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyTime {
    /// Ticks of each copy.
    pub fixed: Ticks,
    /// Ticks of each block.
    pub block: Ticks,
}

impl CopyTime {
    /// The ticks of a copy of so many blocks.
    pub(crate) fn of(self, blocks: u64) -> Ticks {
        self.fixed.saturating_add(blocks.saturating_mul(self.block))
    }
}

impl TierConfig {
    /// Checks the numbers of the tier, and that the instance has what a tier is modelled with. `at`: the instance's field.
    pub(super) fn check(&self, at: &str, instance: &InstanceConfig) -> Result<(), Error> {
        let field = |name: &str| format!("{at}.tier.{name}");
        within(|| field("chunks"), 1, MOST, self.chunks)?;
        within(|| field("chunk_blocks"), 1, MOST_CHUNK_BLOCKS, u64::from(self.chunk_blocks))?;
        within(|| field("store_threshold"), 0, MOST_OFFERS, u64::from(self.store_threshold))?;
        within(|| field("sync_tokens"), 0, MOST, self.sync_tokens)?;
        for (name, time) in [("store", self.store), ("load", self.load)] {
            on_clock(|| field(&format!("{name}.fixed")), time.fixed)?;
            on_clock(|| field(&format!("{name}.block")), time.block)?;
        }
        let refused = |rule: &str| Err(Error::config(format!("{at}.tier"), format!("must be null {rule}")));
        let scheduler = &instance.scheduler;
        if scheduler.prefix_cache.is_none() {
            return refused("without a prefix cache, was given: chunks are parts of cached prefixes");
        }
        if instance.speculation.as_ref().is_some_and(|drafts| drafts.hash_lookahead > 0) {
            return refused(
                "unless hash_lookahead of speculation is 0, was given: a chunk is named by its own tokens",
            );
        }
        if matches!(scheduler.order, QueueOrder::Ranked(_)) {
            return refused("where requests are ranked, was given");
        }
        let plain = |stage: &Stage| {
            matches!(stage, Stage::Running)
                || matches!(stage, Stage::Admit { chunked: true, unless_preempted: true, gather: None, .. })
        };
        if !scheduler.stages.iter().all(plain) || scheduler.stages.first() != Some(&Stage::Running) {
            return refused(
                "unless the stages are running and admit, which cuts prompts and is left out after a preemption",
            );
        }
        let by_chunk = matches!(scheduler.allocation, Allocation::Chunk | Allocation::ChunkIfAllFits);
        if scheduler.decodes_first || scheduler.requeue_late || !by_chunk {
            return refused(
                "with decodes_first, requeue_late, or the allocation of whole sequences or if the output fits, was given",
            );
        }
        if scheduler.joining.is_limited() {
            return refused("where prompts are limited by joining, was given");
        }
        Ok(())
    }
}
