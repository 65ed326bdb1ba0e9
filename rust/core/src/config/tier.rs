//! A tier of KV in the host's memory, which keeps chunks of prefixes.

use serde::Deserialize;

use super::limits::{MOST, on_clock, within};
use super::{Allocation, InstanceConfig, Stage, StoreLink};
use crate::error::Error;
use crate::time::Ticks;

/// The most blocks of a chunk: a chunk of real engines has some thousand tokens at most.
const MOST_CHUNK_BLOCKS: u64 = 1 << 16;

/// The most layers: a thousand times those of real models.
const MOST_LAYERS: u64 = 1 << 16;

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
    /// When chunks are stored.
    #[serde(default)]
    pub write: Write,
    /// Offers of a chunk before it is stored; 0 and 1: it is stored at the first.
    pub store_threshold: u32,
    /// The most tokens that a step loads before its forward pass.
    pub sync_tokens: u64,
    /// Layers of a model that computes each as soon as its loads have ended, so that a request need not wait for them; 0:
    /// it waits.
    #[serde(default)]
    pub overlap_layers: u32,
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

/// When chunks are stored in a tier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Write {
    /// After the step that completes them, those of the output among them.
    #[default]
    Completed,
    /// As a request inserts them into the prefix cache: those of its prompt after the step that completes them, and those
    /// of its output once it has ended.
    Through,
    /// As [`Self::Through`], those that a second request inserts while the GPU has them.
    Selective,
    /// As the prefix cache of the GPU loses them; the step that reuses their blocks waits for the copies.
    Back,
}

impl Write {
    /// The insertions of a chunk before it is stored; `None`: insertions do not matter.
    pub(crate) fn insertions(self) -> Option<u32> {
        match self {
            Self::Completed | Self::Back => None,
            Self::Through => Some(1),
            Self::Selective => Some(2),
        }
    }

    /// Whether it matters which contents the prefix cache of the GPU loses.
    pub(crate) fn heeds_lost_blocks(self) -> bool {
        matches!(self, Self::Selective | Self::Back)
    }
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
        within(|| field("overlap_layers"), 0, MOST_LAYERS, u64::from(self.overlap_layers))?;
        self.check_write(field)?;
        self.check_beside_tree(field, instance.scheduler.has_prefix_tree())?;
        if self.overlap_layers > 0 && self.sync_tokens > 0 {
            let rule = format!("must be 0 where loads overlap with layers, was {}", self.sync_tokens);
            return Err(Error::config(field("sync_tokens"), rule));
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
        if !self.composes_with(&scheduler.stages) {
            return refused(
                "unless the stages are running and admit, which cuts prompts and is left out after a preemption; or, where \
                 loads overlap with layers, prefills, admit, which cuts prompts, and decodes, which preempt no prefill",
            );
        }
        let by_chunk = matches!(scheduler.allocation, Allocation::Chunk | Allocation::ChunkIfAllFits);
        if scheduler.decodes_first || scheduler.requeue_late || !by_chunk {
            return refused(
                "with decodes_first, requeue_late, or the allocation of whole sequences or if the output fits, was given",
            );
        }
        Ok(())
    }

    /// Whether requests may be admitted from the tier by these stages. Decodes may come last only where loads overlap with the
    /// step of a request: nothing holds back blocks for one that waits.
    fn composes_with(&self, stages: &[Stage]) -> bool {
        let admits_after_running = |stage: &Stage| {
            matches!(
                stage,
                Stage::Running | Stage::Admit { chunked: true, unless_preempted: true, gather: None, .. }
            )
        };
        match stages {
            [
                Stage::Prefills,
                Stage::Admit { chunked: true, gather: None, .. },
                Stage::Decodes { over_prefills: false, .. },
            ] => self.overlap_layers > 0,
            [Stage::Running, others @ ..] => others.iter().all(admits_after_running),
            _ => false,
        }
    }

    /// Refuses settings of single chunks beside a tree, whose nodes are stored and evicted whole.
    fn check_beside_tree(&self, field: impl Fn(&str) -> String, tree: bool) -> Result<(), Error> {
        let rules = [
            ("chunk_blocks", self.chunk_blocks == 1, "be 1"),
            ("eviction", self.eviction == Eviction::Lru, "be \"lru\""),
            ("prompts_only", !self.prompts_only, "be false"),
            ("write", self.write != Write::Completed, "not be \"completed\""),
            ("overlap_layers", self.overlap_layers > 0, "be 1 or more"),
            ("polls_at_end", self.polls_at_end, "be true"),
            ("below.prefetch", self.below.is_none_or(|below| below.prefetch.is_some()), "be given"),
            ("write", self.below.is_none() || self.write != Write::Back, "not be \"back\" above a store"),
        ];
        let broken = rules.into_iter().find(|&(_, kept, _)| tree && !kept);
        broken.map_or(Ok(()), |(name, _, must)| {
            let rule = format!(
                "must {must} where a radix tree has the cached prefixes (prefix_cache.tree), was not"
            );
            Err(Error::config(field(name), rule))
        })
    }

    /// Refuses settings that have no meaning beside the moment at which chunks are stored.
    fn check_write(&self, field: impl Fn(&str) -> String) -> Result<(), Error> {
        if self.write != Write::Completed && self.store_threshold > 1 {
            let rule = format!("must be 0 or 1 unless write is \"completed\", was {}", self.store_threshold);
            return Err(Error::config(field("store_threshold"), rule));
        }
        if self.write == Write::Back && self.chunk_blocks > 1 {
            let rule = format!(
                "must be 1 where write is \"back\", was {}: the GPU's cache loses one block at a time",
                self.chunk_blocks
            );
            return Err(Error::config(field("chunk_blocks"), rule));
        }
        if self.write == Write::Back && self.prompts_only {
            let rule =
                "must be false where write is \"back\", was true: a block that is lost may be of the output";
            return Err(Error::config(field("prompts_only"), rule));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Prefetch, PrefetchStop};

    /// A tier of one chunk.
    fn tier(write: Write, store_threshold: u32, chunk_blocks: u32, prompts_only: bool) -> TierConfig {
        let time = CopyTime::default();
        TierConfig {
            chunks: 1,
            chunk_blocks,
            eviction: Eviction::Lru,
            prompts_only,
            write,
            store_threshold,
            sync_tokens: 0,
            overlap_layers: 0,
            polls_at_end: false,
            store: time,
            load: time,
            below: None,
        }
    }

    #[test]
    fn rules_of_single_chunks_are_refused_beside_a_tree() {
        let whole = TierConfig { overlap_layers: 4, polls_at_end: true, ..tier(Write::Through, 0, 1, false) };
        let refused = |tier: &TierConfig, tree| {
            let error = tier.check_beside_tree(str::to_owned, tree).err();
            error.map(|error| error.to_string().split(':').next().unwrap_or_default().to_owned())
        };
        assert_eq!(refused(&whole, true), None);
        let time = CopyTime { fixed: 0, block: 0 };
        let prefetch = Some(Prefetch { least: 0, stop: PrefetchStop::BestEffort });
        let below = StoreLink { store: 0, write: time, read: time, prefetch };
        let others = [
            ("chunk_blocks", TierConfig { chunk_blocks: 2, ..whole.clone() }),
            ("eviction", TierConfig { eviction: Eviction::Arc, ..whole.clone() }),
            ("prompts_only", TierConfig { prompts_only: true, ..whole.clone() }),
            ("write", TierConfig { write: Write::Completed, ..whole.clone() }),
            ("overlap_layers", TierConfig { overlap_layers: 0, ..whole.clone() }),
            ("polls_at_end", TierConfig { polls_at_end: false, ..whole.clone() }),
            (
                "below.prefetch",
                TierConfig { below: Some(StoreLink { prefetch: None, ..below }), ..whole.clone() },
            ),
            ("write", TierConfig { write: Write::Back, below: Some(below), ..whole.clone() }),
        ];
        assert_eq!(refused(&TierConfig { below: Some(below), ..whole }, true), None);
        for (field, other) in others {
            assert_eq!(refused(&other, true).as_deref(), Some(field));
            assert_eq!(refused(&other, false), None);
        }
    }

    #[test]
    fn what_has_no_meaning_beside_a_write_is_refused() {
        let said = |tier: TierConfig| tier.check_write(str::to_owned).err().map(|error| error.to_string());
        assert_eq!(said(tier(Write::Completed, 3, 2, true)), None);
        assert_eq!(said(tier(Write::Selective, 1, 2, true)), None);
        assert_eq!(said(tier(Write::Back, 0, 1, false)), None);
        for (refused, field) in [
            (tier(Write::Through, 2, 1, true), "store_threshold"),
            (tier(Write::Back, 0, 2, false), "chunk_blocks"),
            (tier(Write::Back, 0, 1, true), "prompts_only"),
        ] {
            assert!(said(refused).is_some_and(|message| message.starts_with(field)), "{field}");
        }
    }
}
