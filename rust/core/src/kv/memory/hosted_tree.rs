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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::{PrefixCacheConfig, PrefixTreeConfig};
    use crate::kv::prefixes::Prefixes;
    use crate::trace::TraceRow;

    /// A prompt of five blocks of four tokens, and one more token.
    const PROMPT: ContentOwner = ContentOwner { row: TraceRow(0), prompt: 21, known: 21 };

    /// A memory that has computed the first two blocks; `written`: the host has them, too.
    fn memory(written: bool) -> Memory {
        let tree = Some(PrefixTreeConfig { passes: 32, most: 128, least_load: 0 });
        let caching = PrefixCacheConfig { unknown_first: true, evict: None, tree };
        let memory = Memory::new(10, 4, Some(&caching), Arc::new(Prefixes::none()));
        let mut memory = memory.with_host(9, Some(if written { 1 } else { 2 }));
        let mut table = BlockTable::default();
        memory.adopt(&Hits::default(), &mut table);
        memory.allocate(2, &mut table).expect("blocks are free");
        memory.release(PROMPT, 8, true, &mut table);
        for (node, _) in memory.take_written(0) {
            memory.end_write(node);
        }
        memory
    }

    #[test]
    fn a_read_asks_for_the_whole_blocks_after_the_prefix_if_they_have_tokens_enough() {
        // The third block to the fifth have 12 tokens.
        for (tokens, least, reads) in [(21, 12, true), (21, 13, false), (20, 8, true), (20, 9, false)] {
            let begun = memory(true).begin_read(PROMPT, tokens, least);
            let asked = begun.map(|(_, first, contents)| (first, contents.len() as u32));
            assert_eq!(
                asked,
                reads.then_some((2, (tokens - 1) / 4 - 2)),
                "{tokens} tokens, {least} at least"
            );
        }
        assert!(memory(true).begin_read(PROMPT, 12, 0).is_none(), "the last token is computed");
    }

    #[test]
    fn no_read_begins_below_a_node_that_the_host_lacks() {
        assert!(memory(false).begin_read(PROMPT, 21, 1).is_none());
    }

    /// A memory of four blocks that has computed a prompt of two and given it to the host, and then one of two.
    fn memory_with_two_prompts() -> (Memory, [ContentOwner; 2]) {
        let tree = Some(PrefixTreeConfig { passes: 32, most: 128, least_load: 0 });
        let caching = PrefixCacheConfig { unknown_first: true, evict: None, tree };
        let memory = Memory::new(4, 4, Some(&caching), Arc::new(Prefixes::none()));
        let mut memory = memory.with_host(2, None);
        let owners = [0, 1].map(|row| ContentOwner { row: TraceRow(row), prompt: 9, known: 9 });
        for owner in owners {
            memory.make_room(4);
            let mut table = BlockTable::default();
            memory.adopt(&Hits::default(), &mut table);
            memory.allocate(2, &mut table).expect("blocks are free");
            memory.release(owner, 8, true, &mut table);
        }
        memory.open_step();
        (memory, owners)
    }

    /// Blocks of a prompt that the GPU has, and others that the host has.
    fn places(memory: &Memory, owner: ContentOwner) -> (u32, u32) {
        let mut hits = Hits::default();
        memory.find(owner, 9, &mut hits);
        (hits.len(), hits.on_host())
    }

    #[test]
    fn a_load_evicts_nothing_for_what_the_step_has_given_and_not_allocated_yet() {
        let (mut memory, owners) = memory_with_two_prompts();
        assert_eq!(owners.map(|owner| places(&memory, owner)), [(0, 2), (2, 0)]);
        let (mut given, mut table, mut hits) =
            (BlockTable::default(), BlockTable::default(), Hits::default());
        memory.adopt(&Hits::default(), &mut given);
        memory.allocate(1, &mut given).expect("two blocks hold nothing");
        memory.find(owners[0], 9, &mut hits);
        memory.use_found(&mut hits);
        memory.adopt(&hits, &mut table);
        memory.load_prefix(&hits, &mut table);
        // The two blocks that hold nothing take the load; the step evicts for the other one as it is formed.
        assert_eq!(places(&memory, owners[1]), (2, 0));
        memory.make_room(0);
        assert_eq!(places(&memory, owners[1]).0, 0);
    }

    #[test]
    fn a_request_holds_nothing_on_the_host_that_is_not_loaded() {
        let (mut memory, owners) = memory_with_two_prompts();
        let (mut table, mut hits) = (BlockTable::default(), Hits::default());
        memory.find(owners[0], 9, &mut hits);
        memory.use_found(&mut hits);
        memory.adopt(&hits, &mut table);
        assert_eq!(table.count(), 0, "the GPU has none of its blocks");
        // The host has room for two blocks, so that it takes the other prompt's for them.
        memory.evict_unheld();
        assert_eq!(owners.map(|owner| places(&memory, owner)), [(0, 0), (0, 2)]);
    }
}
