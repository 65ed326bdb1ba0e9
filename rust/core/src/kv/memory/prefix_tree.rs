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
            hits.found = tree
                .nodes
                .find(tokens / self.names.block_tokens, |position| self.names.content(owner, position));
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
        (blocks * self.names.block_tokens <= length).then(|| self.names.content(owner, blocks - 1).key())
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
        let blocks = self.known_blocks(owner, computed);
        let prompt = owner.prompt / self.names.block_tokens;
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
        (listed.registered, listed.place.end, listed.place.inserted) = (blocks, end, computed);
    }

    /// Releases the blocks of a request. `inserts`: what it has computed since its last insertion is inserted before.
    pub(super) fn release_to_tree(
        &mut self,
        owner: ContentOwner,
        computed: u32,
        inserts: bool,
        table: &mut BlockTable,
    ) {
        if inserts && computed > table.listed_mut().place.inserted {
            self.insert(owner, computed, table);
        }
        let Caching::Tree(tree) = &mut self.caching else { return };
        let listed = table.listed_mut();
        let before = tree.nodes.locked();
        tree.nodes.unlock(listed.place.end);
        let own = table.count - u64::from(table.registered());
        self.pool.give_back(own + before - tree.nodes.locked());
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
