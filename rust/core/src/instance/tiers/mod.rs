//! The KV that an instance keeps in the host's memory and in a store below it.
//!
//! The [transfers](transfers) between the GPU and the host are one engine, with one account, log and counters. It has two users:
//! the [chunks](chunks) of prefixes that requests store and load, and the nodes of a [radix tree](tree) that is on the GPU and on
//! the host.

mod chunks;
mod transfers;
mod tree;

pub(in crate::instance) use chunks::{ChunkTier, Wanted};
use transfers::StoreLinks;
pub use transfers::{TierJob, TierLog, TierStep};
pub(in crate::instance) use tree::TreeTier;

use crate::config::InstanceConfig;
use crate::kv::{Memory, SharedStore};
use crate::metrics::{StoreCopies, StoreStats, TierStats};
use crate::time::Ticks;

/// The host's memory of an instance, which has chunks or nodes of a tree, or nothing.
#[derive(Debug)]
pub(in crate::instance) struct Tiers {
    pub(in crate::instance) chunks: Option<Box<ChunkTier>>,
    pub(in crate::instance) tree: Option<Box<TreeTier>>,
}

crate::checkpoint::checkpointed!(Tiers {
    absent: chunks, tree;
});

impl Tiers {
    /// `recorded`: whether steps and copies are.
    pub(super) fn new(config: &InstanceConfig, drops_last: bool, recorded: bool) -> Self {
        let (tier, scheduler) = (config.tier.as_ref(), &config.scheduler);
        let tree = scheduler.has_prefix_tree();
        let order = (drops_last, scheduler.schedule_ahead);
        let chunks = |tier| Box::new(ChunkTier::new(tier, config.block_tokens, order, recorded));
        Self {
            chunks: tier.filter(|_| !tree).map(chunks),
            tree: tier.filter(|_| tree).map(|tier| Box::new(TreeTier::new(tier, recorded))),
        }
    }

    /// Has the stores be below the tier, if its settings have one.
    pub(super) fn set_store(&mut self, config: &InstanceConfig, stores: &[SharedStore]) {
        if let Some(chunks) = self.chunks.as_deref_mut() {
            chunks.set_store(stores);
        }
        if let (Some(tree), Some(tier)) = (self.tree.as_deref_mut(), &config.tier) {
            tree.set_store(tier, config.block_tokens, stores);
        }
    }

    fn store_links(&self) -> Option<&StoreLinks> {
        let of_chunks = self.chunks.as_deref().and_then(ChunkTier::store_links);
        of_chunks.or_else(|| self.tree.as_deref().and_then(TreeTier::store_links))
    }

    /// For how long the loads of the step that was formed hold up its forward pass, which takes `compute` ticks by itself.
    pub(super) fn stall(&self, compute: Ticks) -> Ticks {
        self.chunks.as_deref().map_or(0, |chunks| chunks.stall(compute))
            + self.tree.as_deref().map_or(0, |tree| tree.stall(compute))
    }

    /// Chunks or blocks of nodes in the host's memory.
    pub(super) fn held(&self, memory: &Memory) -> u64 {
        self.chunks.as_deref().map_or_else(|| memory.on_host(), ChunkTier::chunks)
    }

    /// Chunks in the store below, those that are being written among them.
    pub(super) fn held_below(&self) -> u64 {
        self.store_links().map_or(0, StoreLinks::used)
    }

    /// The counters so far.
    pub(super) fn stats(&self, memory: &Memory) -> Option<TierStats> {
        let of_chunks = self.chunks.as_deref().map(ChunkTier::stats);
        of_chunks.or_else(|| self.tree.as_deref().map(|tree| tree.stats(memory)))
    }

    /// The counters of copies to the store and back.
    pub(super) fn store_copies(&self) -> Option<StoreCopies> {
        self.store_links().map(|links| links.stats.clone())
    }

    /// The number of the store below, and the counters of all its copies.
    pub(super) fn store_stats(&self) -> Option<(u32, StoreStats)> {
        self.store_links().map(StoreLinks::totals)
    }

    /// The recorded steps and copies, and forgets them.
    pub(super) fn take_log(&mut self) -> Option<Box<TierLog>> {
        let of_chunks = self.chunks.as_deref_mut().and_then(ChunkTier::take_log);
        of_chunks.or_else(|| self.tree.as_deref_mut().and_then(TreeTier::take_log))
    }
}
