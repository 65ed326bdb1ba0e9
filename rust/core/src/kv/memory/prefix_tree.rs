//! A memory whose prefix cache is a radix tree.
//!
//! Follows `sglang` 0.5.23: `UnifiedRadixCache` (`srt/mem_cache/unified_radix_cache.py`), `SchedulePolicy`
//! (`srt/managers/schedule_policy.py`) and `release_req` (`srt/managers/schedule_batch.py`). What a request computes is
//! inserted as its step ends, and as it leaves. The tree has the blocks of a prefix; a request has those of the path that
//! it locks, and others of its own. Blocks that are allocated while a step is formed are taken from the tree once it is
//! ([`Memory::make_room`]): until then more blocks may be free by count than the tree leaves.

use super::caching::Caching;
use super::{ContentOwner, Memory};
use crate::hint::rare;
use crate::kv::block_table::BlockTable;
use crate::kv::hits::Hits;
use crate::kv::tree::{NodeId, TreePlace};

impl Memory {
    /// Whether the prefix cache is a tree.
    pub(crate) fn is_tree(&self) -> bool {
        matches!(self.caching, Caching::Tree(_))
    }

    /// Finds the blocks of a prefix of `tokens` tokens in the tree.
    pub(super) fn find_in_tree(&self, owner: ContentOwner, tokens: u32, hits: &mut Hits) {
        if let Caching::Tree(tree) = &self.caching {
            hits.found = tree.nodes.find(self.names.named(tokens) / self.names.block_tokens, |position| {
                self.names.content(owner, position)
            });
        }
    }

    /// Tokens of a sequence of `tokens` tokens that the prefix cache has on the GPU, but its last, and those that the host's
    /// part of a tree has, too.
    pub(crate) fn cached_tokens(&self, owner: ContentOwner, tokens: u32) -> (u32, u32) {
        if !self.is_tree() {
            let cached = self.matched(owner, tokens) * self.names.block_tokens;
            return (cached, cached);
        }
        let mut hits = Hits::default();
        self.find_in_tree(owner, tokens, &mut hits);
        let cached = |blocks: u32| (blocks * self.names.block_tokens).min(tokens - 1);
        (cached(hits.len()), cached(hits.len() + hits.on_host()))
    }

    /// The nodes of the tree that the cached prefix of the first `tokens` tokens of a request has, from the root down, each with
    /// its place among those below the same one.
    pub(crate) fn path_in_tree(&self, owner: ContentOwner, tokens: u32) -> Vec<(NodeId, u64)> {
        let Caching::Tree(tree) = &self.caching else { return Vec::new() };
        let mut hits = Hits::default();
        self.find_in_tree(owner, tokens, &mut hits);
        tree.nodes.path_down(&hits.found)
    }

    /// The content of a request's block that ends at its first `tokens` tokens or after; `None`: it has fewer.
    pub(crate) fn start(&self, owner: ContentOwner, length: u32, tokens: u32) -> Option<u64> {
        let blocks = tokens.div_ceil(self.names.block_tokens);
        (blocks * self.names.block_tokens <= length)
            .then(|| self.names.content_alone(owner, blocks - 1).key())
    }

    /// Uses the cached prefix of the first `tokens` tokens of a request.
    pub(crate) fn use_prefix(&mut self, owner: ContentOwner, tokens: u32) {
        let mut hits = Hits::default();
        self.find_in_tree(owner, tokens, &mut hits);
        self.use_found(&mut hits);
    }

    /// Uses the cached prefix that a lookup found just now.
    pub(crate) fn use_found(&mut self, hits: &mut Hits) {
        if let Caching::Tree(tree) = &mut self.caching {
            tree.nodes.use_prefix(&mut hits.found);
        }
    }

    /// Gives a request the prefix that its lookup found in the tree.
    pub(super) fn adopt_from_tree(&mut self, hits: &Hits, table: &mut BlockTable) {
        let Caching::Tree(tree) = &mut self.caching else { return };
        let (before, mut found) = (tree.nodes.locked(), hits.found);
        let end = tree.nodes.use_prefix(&mut found);
        let end = if found.on_host == 0 { end } else { tree.nodes.end_on_gpu(end) };
        tree.nodes.lock(end);
        let locked = tree.nodes.locked() - before;
        self.pool.take(locked).expect("Invariant: free blocks that are hit are counted");
        let listed = table.listed_mut();
        listed.registered = hits.len();
        listed.place = TreePlace { end, inserted: 0 };
        table.count = u64::from(hits.len());
    }

    /// Inserts what a request has computed of its sequence. Its output is apart from its prompt, so that it is evicted
    /// alone.
    pub(crate) fn insert(&mut self, owner: ContentOwner, computed: u32, table: &mut BlockTable) {
        let blocks = self.names.named(computed.min(owner.known)) / self.names.block_tokens;
        let prompt = self.names.named(owner.prompt) / self.names.block_tokens;
        let Caching::Tree(tree) = &mut self.caching else { return };
        let before = tree.nodes.locked();
        let listed = table.listed_mut();
        let inserted = listed.place.inserted / self.names.block_tokens;
        let end = tree.nodes.insert(blocks, inserted, |position| self.names.content(owner, position));
        if 0 < prompt && prompt < blocks {
            tree.nodes.insert(prompt, prompt, |position| self.names.content(owner, position));
        }
        tree.nodes.unlock(listed.place.end);
        tree.nodes.lock(end);
        // Its own blocks are the tree's now, or free where the tree has others for their contents.
        self.pool.give_back(u64::from(blocks - listed.registered));
        let taken = self.pool.take(tree.nodes.locked() - before);
        taken.expect("Invariant: a request locks no more than it had of its own and others have");
        (listed.registered, listed.place.end, listed.place.inserted) =
            (blocks, end, self.names.named(computed));
    }

    /// Releases the blocks of a request. `inserts`: what it has computed is inserted before, which uses what the tree has of it.
    pub(super) fn release_to_tree(
        &mut self,
        owner: ContentOwner,
        computed: u32,
        inserts: bool,
        table: &mut BlockTable,
    ) {
        if inserts {
            self.insert(owner, computed, table);
        }
        let Caching::Tree(tree) = &mut self.caching else { return };
        let listed = table.listed_mut();
        let before = tree.nodes.locked();
        tree.nodes.unlock(listed.place.end);
        let own = table.count - u64::from(table.registered());
        self.pool.give_back(own + before - tree.nodes.locked());
    }

    /// Releases the blocks of a request that has ended, as [`Self::release`] does. In a tree, one that ends with its prompt was
    /// inserted with it, in its place among others, and uses nothing once more (`process_batch_result_prefill` of `sglang`
    /// 0.5.23).
    pub(crate) fn release_ended(
        &mut self,
        owner: ContentOwner,
        tokens: u32,
        returns: bool,
        table: &mut BlockTable,
    ) {
        if self.is_tree() && table.listed_mut().place.inserted == self.names.named(tokens) {
            rare();
            self.release_to_tree(owner, tokens, false, table);
            table.clear();
        } else {
            self.release(owner, tokens, returns, table);
        }
    }

    /// Releases the blocks of a request that is preempted. `seen`: its content and computed tokens, as far as they are known.
    pub(crate) fn release_preempted(&mut self, seen: (ContentOwner, u32), table: &mut BlockTable) {
        if self.is_tree() {
            rare();
            self.release_to_tree(seen.0, seen.1, false, table);
            table.clear();
        } else {
            self.release(seen.0, seen.1, true, table);
        }
    }

    /// As [`Self::distinct`], with a tree.
    pub(super) fn distinct_in_tree<'a>(&self, tables: impl Iterator<Item = &'a BlockTable>) -> u64 {
        let Caching::Tree(tree) = &self.caching else { return 0 };
        let (mut ends, mut own) = (Vec::new(), 0);
        for table in tables {
            own += table.count - u64::from(table.registered());
            ends.extend(table.listed.as_ref().map(|listed| listed.place.end));
        }
        own + tree.nodes.blocks_of_paths(ends.into_iter())
    }

    /// Evicts until so many blocks hold nothing, or nothing is left to evict.
    pub(crate) fn make_room(&mut self, blocks: u64) {
        let Caching::Tree(tree) = &mut self.caching else { return };
        while self.pool.free() < tree.nodes.unlocked() + blocks && tree.evict() {}
    }

    /// Evicts all that no request holds.
    pub(crate) fn evict_unheld(&mut self) {
        if let Caching::Tree(tree) = &mut self.caching {
            while tree.evict() {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::{
        DraftAcceptance, DraftSlots, PrefixCacheConfig, PrefixTreeConfig, SpeculationConfig,
    };
    use crate::kv::prefixes::Prefixes;
    use crate::trace::{Trace, TraceRow};

    /// A request with a prompt of three blocks of four tokens.
    const FIRST: ContentOwner = ContentOwner { row: TraceRow(0), prompt: 12, known: 99 };

    fn memory(tree: Option<PrefixTreeConfig>) -> Memory {
        let caching = PrefixCacheConfig { unknown_first: true, evict: None, tree };
        Memory::new(10, 4, Some(&caching), Arc::new(Prefixes::none()))
    }

    fn tree() -> Memory {
        memory(Some(PrefixTreeConfig { passes: 32, most: 128, least_load: 0 }))
    }

    /// Has the memory keep what a request computed.
    fn keep(memory: &mut Memory, owner: ContentOwner, computed: u32) {
        let mut table = BlockTable::default();
        memory.allocate(u64::from(computed.div_ceil(4)), &mut table).expect("blocks are free");
        memory.release(owner, computed, true, &mut table);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn a_tree_has_whole_blocks_of_a_sequence_and_not_its_last_token() {
        let mut memory = tree();
        keep(&mut memory, FIRST, 10);
        for (tokens, cached) in [(3, 0), (4, 3), (7, 4), (8, 7), (9, 8), (12, 8)] {
            assert_eq!(memory.cached_tokens(FIRST, tokens), (cached, cached), "{tokens} tokens");
            // A lookup leaves out the block of the last token.
            assert_eq!(memory.matched(FIRST, tokens), (tokens - 1).min(8) / 4, "{tokens} tokens");
        }
    }

    #[test]
    fn beside_a_draft_head_a_tree_keeps_the_blocks_whose_next_token_is_written() {
        let drafts = SpeculationConfig {
            tokens: 2,
            by_batch: Vec::new(),
            proposals: None,
            acceptance: DraftAcceptance::Periodic { yields: vec![2] },
            lookahead: 0,
            slots: DraftSlots::TwoSteps,
            input_slots: 0,
            hash_lookahead: 1,
            drops_last_block: false,
            pads: false,
            draft: None,
        };
        // Of nine tokens the first eight are followed by another, which is two blocks; of eight tokens one block is.
        for (computed, cached) in [(9, 8), (8, 4), (5, 4), (4, 0)] {
            let mut memory = tree().with_speculation(&drafts);
            keep(&mut memory, FIRST, computed);
            assert_eq!(memory.cached_tokens(FIRST, 12), (cached, cached), "{computed} tokens");
        }
        // A lookup leaves out the last token, and settles the block before the one with the token after it.
        let mut memory = tree().with_speculation(&drafts);
        keep(&mut memory, FIRST, 9);
        for (tokens, blocks) in [(5, 0), (6, 1), (9, 1), (10, 2)] {
            assert_eq!(memory.matched(FIRST, tokens), blocks, "{tokens} tokens");
        }
    }

    #[test]
    fn without_a_tree_the_block_with_the_last_token_is_not_cached() {
        let mut memory = memory(None);
        keep(&mut memory, FIRST, 10);
        for (tokens, cached) in [(4, 0), (7, 4), (8, 4), (9, 8), (12, 8)] {
            assert_eq!(memory.cached_tokens(FIRST, tokens), (cached, cached), "{tokens} tokens");
        }
    }

    #[test]
    fn a_start_is_the_content_of_a_whole_block() {
        let memory = tree();
        let key = |position| Some(memory.names.content(FIRST, position).key());
        for (length, tokens, start) in
            [(8, 8, key(1)), (7, 8, None), (8, 5, key(1)), (7, 5, None), (4, 4, key(0)), (3, 1, None)]
        {
            assert_eq!(memory.start(FIRST, length, tokens), start, "{tokens} of {length} tokens");
        }
    }

    #[test]
    fn an_output_is_evicted_apart_from_its_prompt() {
        let mut memory = tree();
        keep(&mut memory, FIRST, 20);
        assert_eq!((memory.cached_free(), memory.free()), (5, 10));
        memory.make_room(6);
        assert_eq!((memory.cached_free(), memory.evictions()), (3, 2), "two blocks of output make room");
        memory.evict_unheld();
        assert_eq!((memory.cached_free(), memory.evictions()), (0, 5));
    }

    #[test]
    fn contents_that_requests_share_are_counted_and_listed() {
        // Two requests with a prompt of three blocks, of which they share the first two.
        let ids = crate::trace::PrefixIds {
            ends: vec![3, 6].into(),
            ids: vec![5, 6, 7, 5, 6, 8].into(),
            block_tokens: 4,
            outputs: None,
        };
        let trace = Trace {
            arrival: vec![0, 0].into(),
            prompt_tokens: vec![12, 12].into(),
            output_tokens: vec![9, 9].into(),
            prefix: Some(ids),
            ..Trace::default()
        };
        let prefixes = Arc::new(Prefixes::new(&trace, 4).expect("few contents"));
        let tree = Some(PrefixTreeConfig { passes: 32, most: 128, least_load: 0 });
        for (tree, blocks) in [(tree, 4), (None, 6)] {
            let caching = PrefixCacheConfig { unknown_first: true, evict: None, tree };
            let mut memory = Memory::new(10, 4, Some(&caching), Arc::clone(&prefixes));
            for row in [0, 1] {
                keep(&mut memory, ContentOwner { row: TraceRow(row), ..FIRST }, 12);
            }
            // A tree has equal blocks once; without one each request keeps its own.
            let (most, shared) = memory.shared_contents();
            assert_eq!(shared.count(), blocks);
            assert!(if memory.is_tree() { most == blocks } else { most >= blocks }, "{most}");
            assert_eq!(memory.cached_free(), blocks as u64);
            assert_eq!(memory.free_without_content(), if memory.is_tree() { 0 } else { 4 });
        }
    }
}
