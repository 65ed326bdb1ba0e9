//! A memory whose prefix cache is a radix tree.
//!
//! Follows `sglang` 0.5.23: `UnifiedRadixCache` (`srt/mem_cache/unified_radix_cache.py`), `SchedulePolicy`
//! (`srt/managers/schedule_policy.py`) and `release_req` (`srt/managers/schedule_batch.py`). What a request computes is
//! inserted as its step ends, and as it leaves. The tree has the blocks of a prefix; a request has those of the path that
//! it locks, and others of its own. Blocks that are allocated while a step is formed are taken from the tree once it is
//! ([`Memory::make_room`]): until then more blocks may be free by count than the tree leaves.

use super::{ContentOwner, Memory};
use crate::config::PrefixTreeConfig;
use crate::hint::rare;
use crate::kv::block_table::BlockTable;
use crate::kv::hits::Hits;
use crate::kv::tree::{RadixTree, TreePlace};

/// The tree of a memory.
#[derive(Debug, Clone)]
pub(super) struct PrefixTree {
    pub(super) nodes: RadixTree,
    rules: PrefixTreeConfig,
    /// Passes over the queue so far, but those of a queue that is sorted by cached prefixes.
    passes: u64,
    /// Blocks that were evicted.
    pub(super) evictions: u64,
    /// The least and the greatest row of the batch so far.
    rows: (i64, i64),
}

impl PrefixTree {
    pub(super) fn new(rules: PrefixTreeConfig) -> Self {
        Self { nodes: RadixTree::default(), rules, passes: 0, evictions: 0, rows: (0, 0) }
    }

    /// Evicts a leaf. Returns whether there was one.
    fn evict(&mut self) -> bool {
        let evicted = self.nodes.evict();
        self.evictions += evicted.len() as u64;
        !evicted.is_empty()
    }
}

impl Memory {
    /// Whether the prefix cache is a tree.
    pub(crate) fn is_tree(&self) -> bool {
        self.tree.is_some()
    }

    /// Finds the blocks of a prefix of `tokens` tokens in the tree.
    pub(super) fn find_in_tree(&self, owner: ContentOwner, tokens: u32, hits: &mut Hits) {
        if let Some(tree) = &self.tree {
            hits.found =
                tree.nodes.find(tokens / self.block_tokens, |position| self.content(owner, position));
        }
    }

    /// Tokens of a sequence of `tokens` tokens that the prefix cache has, but its last.
    pub(crate) fn cached_tokens(&self, owner: ContentOwner, tokens: u32) -> u32 {
        if self.tree.is_none() {
            return self.matched(owner, tokens) * self.block_tokens;
        }
        let mut hits = Hits::default();
        self.find_in_tree(owner, tokens, &mut hits);
        (hits.len() * self.block_tokens).min(tokens - 1)
    }

    /// The content of a request's block that ends at its first `tokens` tokens or after; `None`: it has fewer.
    pub(crate) fn start(&self, owner: ContentOwner, length: u32, tokens: u32) -> Option<u64> {
        let blocks = tokens.div_ceil(self.block_tokens);
        (blocks * self.block_tokens <= length).then(|| self.content(owner, blocks - 1).key())
    }

    /// Notes a pass over the queue that does not sort it by cached prefixes. Returns how many requests at its front use
    /// their prefixes, the last of them first.
    pub(crate) fn count_pass(&mut self) -> u64 {
        let Some(tree) = &mut self.tree else { return 0 };
        let pass = tree.passes;
        tree.passes += 1;
        let uses = tree.rules.passes > 0 && pass.is_multiple_of(tree.rules.passes);
        if uses { tree.rules.most } else { 0 }
    }

    /// Uses the cached prefix of the first `tokens` tokens of a request.
    pub(crate) fn use_prefix(&mut self, owner: ContentOwner, tokens: u32) {
        let mut hits = Hits::default();
        self.find_in_tree(owner, tokens, &mut hits);
        self.use_found(&mut hits);
    }

    /// Uses the cached prefix that a lookup found just now.
    pub(crate) fn use_found(&mut self, hits: &mut Hits) {
        if let Some(tree) = &mut self.tree {
            tree.nodes.use_prefix(&mut hits.found);
        }
    }

    /// Gives a request the prefix that its lookup found in the tree.
    pub(super) fn adopt_from_tree(&mut self, hits: &Hits, table: &mut BlockTable) {
        let Some(tree) = &mut self.tree else { return };
        let (before, mut found) = (tree.nodes.locked(), hits.found);
        let end = tree.nodes.use_prefix(&mut found);
        tree.nodes.lock(end);
        let locked = tree.nodes.locked() - before;
        self.pool.take(locked).expect("Invariant: free blocks that are hit are counted");
        let listed = table.listed_mut();
        listed.registered = hits.len();
        listed.place = TreePlace { end, inserted: 0, row: i64::MAX };
        table.count = u64::from(hits.len());
    }

    /// Inserts what a request has computed of its sequence. Its output is apart from its prompt, so that it is evicted
    /// alone.
    pub(crate) fn insert(&mut self, owner: ContentOwner, computed: u32, table: &mut BlockTable) {
        let blocks = self.known_blocks(owner, computed);
        let prompt = owner.prompt / self.block_tokens;
        let Some(mut tree) = self.tree.take() else { return };
        let before = tree.nodes.locked();
        let end = tree.nodes.insert(blocks, |position| self.content(owner, position));
        if 0 < prompt && prompt < blocks {
            tree.nodes.insert(prompt, |position| self.content(owner, position));
        }
        let listed = table.listed_mut();
        tree.nodes.unlock(listed.place.end);
        tree.nodes.lock(end);
        // Its own blocks are the tree's now, or free where the tree has others for their contents.
        self.pool.give_back(u64::from(blocks - listed.registered));
        let taken = self.pool.take(tree.nodes.locked() - before);
        taken.expect("Invariant: a request locks no more than it had of its own and others have");
        (listed.registered, listed.place.end, listed.place.inserted) = (blocks, end, computed);
        self.tree = Some(tree);
    }

    /// The first of the rows of `many` requests that decode from now on: behind the others; if they ran `beside` these,
    /// before them.
    pub(crate) fn take_rows(&mut self, many: i64, beside: bool) -> i64 {
        let Some(tree) = &mut self.tree else { return 0 };
        let rows = &mut tree.rows;
        if beside {
            rows.0 -= many;
            return rows.0;
        }
        rows.1 += many;
        rows.1 + 1 - many
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
        let Some(tree) = &mut self.tree else { return };
        let listed = table.listed_mut();
        let before = tree.nodes.locked();
        tree.nodes.unlock(listed.place.end);
        let own = table.count - u64::from(table.registered());
        self.pool.give_back(own + before - tree.nodes.locked());
    }

    /// Releases the blocks of a request that is preempted. `seen`: its content and computed tokens, as far as they are known.
    pub(crate) fn release_preempted(&mut self, seen: (ContentOwner, u32), table: &mut BlockTable) {
        if self.tree.is_some() {
            rare();
            self.release_to_tree(seen.0, seen.1, false, table);
            table.clear();
        } else {
            self.release(seen.0, seen.1, true, table);
        }
    }

    /// Evicts until so many blocks hold nothing, or nothing is left to evict.
    pub(crate) fn make_room(&mut self, blocks: u64) {
        let Some(tree) = &mut self.tree else { return };
        while self.pool.free() < tree.nodes.unlocked() + blocks && tree.evict() {}
    }

    /// Evicts all that no request holds.
    pub(crate) fn evict_unheld(&mut self) {
        if let Some(tree) = &mut self.tree {
            while tree.evict() {}
        }
    }
}
