//! A memory whose prefix cache is a radix tree on the GPU and on the host.
//!
//! Follows `sglang` 0.5.23: `load_back` of `srt/mem_cache/unified_radix_cache.py`. What is loaded has its blocks at once, and
//! evicts for them. Other blocks are allocated once the step is formed.

use super::caching::Caching;
use super::{ContentOwner, Memory};
use crate::kv::block_table::BlockTable;
use crate::kv::content::Content;
use crate::kv::hits::Hits;
use crate::kv::tree::{HostCounters, HostLock, NodeId, RadixTree};

impl Memory {
    /// The same memory, whose tree is on the host, too. See [`RadixTree::with_host`].
    pub(crate) fn with_host(mut self, capacity: u64, least: Option<u32>) -> Self {
        if let Caching::Tree(tree) = &mut self.caching {
            tree.nodes = RadixTree::default().with_host(capacity, least);
        }
        self
    }

    /// Begins to form a step, which has allocated no blocks.
    pub(crate) fn open_step(&mut self) {
        if let Caching::Tree(tree) = &mut self.caching {
            tree.pending = 0;
        }
    }

    /// Blocks that hold nothing.
    pub(crate) fn empty(&self) -> u64 {
        self.pool.free().saturating_sub(self.cached_free())
    }

    /// Gives a request that has its prefix on the GPU the blocks into which the rest of its prefix is loaded. Returns the last
    /// node of the load.
    pub(crate) fn load_prefix(&mut self, hits: &Hits, table: &mut BlockTable) -> NodeId {
        let (end, blocks) = (hits.found.end(), u64::from(hits.on_host()));
        let Caching::Tree(tree) = &mut self.caching else { return end };
        let before = tree.nodes.locked();
        tree.nodes.lock(end);
        // What the step has given to others is not allocated yet.
        while self.pool.free() + tree.pending < tree.nodes.unlocked() + blocks && tree.evict() {}
        tree.nodes.load(end);
        let listed = table.listed_mut();
        tree.nodes.unlock(listed.place.end);
        listed.place.end = end;
        listed.registered += hits.on_host();
        table.count += blocks;
        let taken = self.pool.take(tree.nodes.locked() - before);
        taken.expect("Invariant: the blocks of a load are free when its request is admitted");
        end
    }

    /// A load has ended.
    pub(crate) fn end_load(&mut self, end: NodeId) {
        self.unlock_with(|nodes| nodes.end_load(end));
    }

    /// A node has been copied to the host.
    pub(crate) fn end_write(&mut self, node: NodeId) {
        self.unlock_with(|nodes| nodes.unlock(node));
    }

    fn unlock_with(&mut self, unlock: impl FnOnce(&mut RadixTree)) {
        let Caching::Tree(tree) = &mut self.caching else { return };
        let before = tree.nodes.locked();
        unlock(&mut tree.nodes);
        self.pool.give_back(before - tree.nodes.locked());
    }

    /// Removes and returns the nodes that are to be copied to the host, but the first `kept`, and their blocks.
    pub(crate) fn take_written(&mut self, kept: usize) -> Vec<(NodeId, u64)> {
        if let Caching::Tree(tree) = &mut self.caching { tree.nodes.take_written(kept) } else { Vec::new() }
    }

    /// How many nodes are to be copied to the host.
    pub(crate) fn written(&self) -> usize {
        self.caching.tree().map_or(0, RadixTree::written)
    }

    /// Removes and returns the blocks of each node that was copied to the host as it was evicted.
    pub(crate) fn take_at_once(&mut self) -> Vec<u64> {
        if let Caching::Tree(tree) = &mut self.caching { tree.nodes.take_at_once() } else { Vec::new() }
    }

    /// The part of a tree that is on the GPU and on the host, to change.
    pub(crate) fn hosted_mut(&mut self) -> Option<&mut RadixTree> {
        if let Caching::Tree(tree) = &mut self.caching { Some(&mut tree.nodes) } else { None }
    }

    /// Uses the prefix of `tokens` tokens of a request, but the last, and locks its end on the host. Returns the lock, how many
    /// blocks the prefix has, and the contents of those after it; `None`: the host lacks the end.
    pub(crate) fn begin_read(
        &mut self,
        owner: ContentOwner,
        tokens: u32,
        least: u32,
    ) -> Option<(HostLock, u32, Vec<Content>)> {
        let blocks = (tokens - 1) / self.names.block_tokens;
        let mut hits = Hits::default();
        self.find(owner, tokens, &mut hits);
        let Caching::Tree(tree) = &mut self.caching else { return None };
        let end = tree.nodes.use_prefix(&mut hits.found);
        let first = hits.len() + hits.on_host();
        let asked = (blocks - first) * self.names.block_tokens;
        if asked < least.max(1) || !tree.nodes.reads_below(end) {
            return None;
        }
        let contents = (first..blocks).map(|position| self.names.content(owner, position)).collect();
        Some((tree.nodes.lock_on_host(end), first, contents))
    }

    /// Checks the accounts of a tree. See [`RadixTree::check_accounts`].
    pub(crate) fn check_accounts(&self) {
        self.caching.tree().into_iter().for_each(RadixTree::check_accounts);
    }

    /// Blocks in the host's memory.
    pub(crate) fn on_host(&self) -> u64 {
        self.caching.tree().map_or(0, RadixTree::on_host)
    }

    /// The counters of the host's memory.
    pub(crate) fn host_counters(&self) -> HostCounters {
        self.caching.tree().map(RadixTree::host_counters).unwrap_or_default()
    }
}
