//! The GPU memory of one instance's KV cache: the count of its blocks and, where
//! prefixes are cached, the blocks themselves.
//!
//! Without a prefix cache no scheduler can tell two blocks apart, and each
//! operation is a subtraction. With one, the decode set allocates blocks without
//! assigning them to requests (`allocate_unassigned`): a fresh block has no content
//! that a lookup could find, so the blocks are assigned when a request leaves the
//! set.

mod assigning;
mod caching;
mod hosted_tree;
mod names;
mod prefix_tree;
mod released;

use std::sync::Arc;

use super::block_table::BlockTable;
use super::cache::PrefixCache;
use super::chunks::Key;
use super::content::{Block, Content};
use super::eviction::Eviction;
use super::hits::Hits;
use super::pool::{BlockPool, OutOfBlocks};
use super::prefixes::Prefixes;
use crate::config::{PrefixCacheConfig, SpeculationConfig};
use crate::hint::rare;

use caching::Caching;
pub(crate) use names::ContentOwner;
use names::Names;
pub(crate) use released::Released;

/// The blocks of one instance's KV cache.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    /// The count of blocks.
    pool: BlockPool,
    caching: Caching,
    names: Names,
    /// Blocks of the decode set that are not assigned to requests.
    unassigned: Vec<Block>,
    /// Whether a lookup leaves out the last block that it finds.
    drops_last: bool,
    /// The blocks that requests were given since the list was last emptied; `None`: not listed.
    given: Option<Vec<Block>>,
}

crate::checkpoint::checkpointed!(Memory {
    values: pool, unassigned, given;
    parts: caching;
    fixed: names, drops_last;
});

impl Memory {
    /// A memory of `capacity` free blocks. `caching`: how prefixes are cached.
    pub(crate) fn new(
        capacity: u64,
        block_tokens: u32,
        caching: Option<&PrefixCacheConfig>,
        prefixes: Arc<Prefixes>,
    ) -> Self {
        Self {
            pool: BlockPool::new(capacity),
            caching: Caching::new(caching, capacity, prefixes.contents()),
            names: Names::new(prefixes, block_tokens),
            unassigned: Vec::new(),
            drops_last: false,
            given: None,
        }
    }

    /// The same memory, which lists the blocks that requests are given.
    pub(crate) fn listing_given(mut self) -> Self {
        self.given = Some(Vec::new());
        self
    }

    /// The same memory, which lists the contents that its prefix cache loses.
    pub(crate) fn listing_lost(mut self) -> Self {
        if let Some(cache) = self.caching.blocks_mut() {
            cache.lost.list();
        }
        self
    }

    /// The keys of the contents that the prefix cache has lost since the last call, in that order.
    pub(crate) fn take_lost(&mut self) -> Vec<Key> {
        self.caching.blocks_mut().map(|cache| cache.lost.take()).unwrap_or_default()
    }

    /// Empties the list of blocks that requests were given.
    pub(crate) fn forget_given(&mut self) {
        self.given.iter_mut().for_each(Vec::clear);
    }

    /// Lists all blocks of a request among those that were given.
    pub(crate) fn give_again(&mut self, table: &BlockTable) {
        self.given.iter_mut().for_each(|given| given.extend_from_slice(table.blocks()));
    }

    /// The blocks that requests were given and hold.
    pub(crate) fn given(&self) -> impl Iterator<Item = Block> {
        let cache = self.caching.blocks();
        let held = move |block: &Block| cache.is_some_and(|cache| !cache.is_free(*block));
        self.given.iter().flatten().copied().filter(held)
    }

    /// The key of what a request's block at `position` holds, and all blocks before.
    pub(crate) fn key(&self, owner: ContentOwner, position: u32) -> Key {
        self.names.content(owner, position).key()
    }

    /// The same memory, whose prefix cache is that of a model with a draft head.
    pub(crate) fn with_speculation(mut self, speculation: &SpeculationConfig) -> Self {
        self.names.set_speculation(speculation);
        self.drops_last = speculation.drops_last_block;
        self.grow();
        self
    }

    /// Takes the contents that requests share, of which there may be more, and returns those that it had.
    pub(crate) fn share(&mut self, prefixes: Arc<Prefixes>) -> Arc<Prefixes> {
        let before = std::mem::replace(&mut self.names.prefixes, prefixes);
        self.grow();
        before
    }

    /// The contents that requests share.
    pub(crate) fn prefixes(&self) -> &Arc<Prefixes> {
        &self.names.prefixes
    }

    /// Has the cache know all contents that requests share.
    fn grow(&mut self) {
        if let Some(cache) = self.caching.blocks_mut() {
            cache.grow(self.names.shared());
        }
    }

    /// The numbers of the shared contents that blocks have, and the most there are.
    pub(crate) fn shared_contents(&self) -> (usize, impl Iterator<Item = u32>) {
        let (most, contents) = self.caching.contents();
        (most, contents.filter_map(Content::number).map(|number| number as u32))
    }

    /// Whether cached blocks are evicted in another order than that of the free queue.
    pub(crate) fn orders_eviction(&self) -> bool {
        self.caching.blocks().is_some_and(PrefixCache::orders_eviction)
    }

    /// Whether a block that is freed may be allocated before those that are free already.
    pub(crate) fn takes_freed_first(&self) -> bool {
        self.caching.blocks().is_some_and(|cache| cache.unknown_first || cache.orders_eviction())
    }

    /// The order of eviction, if it is not that of the free queue.
    pub(super) fn eviction(&mut self) -> Option<&mut Eviction> {
        self.caching.blocks_mut()?.eviction()
    }

    /// Blocks that no request holds.
    pub(crate) fn free(&self) -> u64 {
        self.pool.free()
    }

    /// Blocks that a request holds.
    pub(crate) fn used(&self) -> u64 {
        self.pool.used()
    }

    /// Known contents that were lost to reuse.
    pub(crate) fn evictions(&self) -> u64 {
        self.caching.evictions()
    }

    /// Free blocks whose content the prefix cache keeps.
    pub(crate) fn cached_free(&self) -> u64 {
        self.caching.unheld()
    }

    /// Free blocks that are certainly reused before the prefix cache loses a content.
    pub(crate) fn free_without_content(&self) -> u64 {
        if self.takes_freed_first() { self.free() - self.cached_free() } else { 0 }
    }

    /// Whether prefixes are cached.
    pub(crate) fn caches(&self) -> bool {
        !matches!(self.caching, Caching::None)
    }

    /// Allocates blocks for the decode set, or none at all.
    pub(crate) fn allocate_unassigned(&mut self, blocks: u64) -> Result<(), OutOfBlocks> {
        self.pool.take(blocks)?;
        if let Caching::Blocks(cache) = &mut self.caching {
            rare();
            let before = self.unassigned.len();
            cache.take(blocks, &mut self.unassigned);
            self.given.iter_mut().for_each(|given| given.extend_from_slice(&self.unassigned[before..]));
        }
        self.check();
        Ok(())
    }

    /// Allocates `blocks` more blocks for one request, or none at all.
    pub(crate) fn allocate(&mut self, blocks: u64, table: &mut BlockTable) -> Result<(), OutOfBlocks> {
        self.pool.take(blocks)?;
        table.count += blocks;
        if let Caching::Tree(tree) = &mut self.caching {
            rare();
            tree.pending += blocks;
        }
        if let Caching::Blocks(cache) = &mut self.caching {
            rare();
            let listed = table.listed_mut();
            let before = listed.blocks.len();
            cache.take(blocks, &mut listed.blocks);
            self.given.iter_mut().for_each(|given| given.extend_from_slice(&listed.blocks[before..]));
        }
        self.check();
        Ok(())
    }

    /// Finds the blocks of the longest cached prefix of a sequence of `tokens`
    /// tokens, without its last token.
    pub(crate) fn find(&self, owner: ContentOwner, tokens: u32, hits: &mut Hits) {
        hits.clear();
        let Caching::Blocks(cache) = &self.caching else {
            self.find_in_tree(owner, tokens - 1, hits);
            return;
        };
        self.find_blocks(cache, (owner, tokens), |blocks| hits.blocks.extend_from_slice(blocks));
        if self.drops_last {
            hits.blocks.pop();
        }
    }

    /// Blocks that [`Self::find`] would find.
    pub(crate) fn matched(&self, owner: ContentOwner, tokens: u32) -> u32 {
        let Caching::Blocks(cache) = &self.caching else {
            let mut hits = Hits::default();
            self.find_in_tree(owner, tokens - 1, &mut hits);
            return hits.len();
        };
        self.find_blocks(cache, (owner, tokens), |_| {}).saturating_sub(u32::from(self.drops_last))
    }

    /// Finds the blocks of the longest cached prefix of a sequence of so many tokens, without its last one. Returns how many
    /// there are, and tells of each of them.
    fn find_blocks(
        &self,
        cache: &PrefixCache,
        (owner, tokens): (ContentOwner, u32),
        mut tell: impl FnMut(&[Block]),
    ) -> u32 {
        let (mut position, end) = (0, (tokens - 1) / self.names.block_tokens);
        while position < end {
            let contents = self.names.contents(owner, position, end);
            let found = cache.find(contents, &mut tell);
            position += found;
            if found < contents.count {
                break;
            }
        }
        position
    }

    /// Number of different blocks in these tables.
    pub(crate) fn distinct<'a>(&self, tables: impl Iterator<Item = &'a BlockTable>) -> u64 {
        if self.is_tree() {
            return self.distinct_in_tree(tables);
        }
        let (mut listed, mut unlisted) = (Vec::new(), 0);
        for table in tables {
            unlisted += table.count - table.blocks().len() as u64;
            listed.extend_from_slice(table.blocks());
        }
        listed.sort_unstable();
        listed.dedup();
        listed.len() as u64 + unlisted
    }

    /// How many of these blocks no request holds.
    pub(crate) fn unheld(&self, hits: &Hits) -> u64 {
        match &self.caching {
            Caching::None => 0,
            Caching::Blocks(cache) => {
                hits.blocks.iter().filter(|&&block| cache.is_free(block)).count() as u64
            }
            Caching::Tree(tree) => tree.nodes.unlocked_of(&hits.found),
        }
    }

    /// Gives a request the blocks that its lookup found.
    pub(crate) fn adopt(&mut self, hits: &Hits, table: &mut BlockTable) {
        if self.caches() {
            self.adopt_cached(hits, table);
        }
    }

    /// As [`Self::adopt`], with a prefix cache.
    #[inline(never)]
    fn adopt_cached(&mut self, hits: &Hits, table: &mut BlockTable) {
        let unheld = self.unheld(hits);
        let Caching::Blocks(cache) = &mut self.caching else {
            self.adopt_from_tree(hits, table);
            return;
        };
        cache.touch(&hits.blocks);
        self.pool.take(unheld).expect("Invariant: free blocks that are hit are counted");
        let listed = table.listed_mut();
        listed.blocks.extend_from_slice(&hits.blocks);
        self.given.iter_mut().for_each(|given| given.extend_from_slice(&hits.blocks));
        listed.registered = hits.len();
        table.count = u64::from(hits.len());
        self.check();
    }

    /// Makes a request's full blocks known to the cache, up to `tokens` tokens, as far as their content is known.
    pub(crate) fn register(&mut self, owner: ContentOwner, tokens: u32, table: &mut BlockTable) {
        if matches!(self.caching, Caching::Blocks(_)) {
            self.register_cached(owner, tokens, table);
        }
    }

    /// As [`Self::register`], with a prefix cache.
    #[inline(never)]
    fn register_cached(&mut self, owner: ContentOwner, tokens: u32, table: &mut BlockTable) {
        let full = self.known_blocks(owner, tokens);
        let listed = table.listed_mut();
        let Caching::Blocks(cache) = &mut self.caching else { return };
        while listed.registered < full {
            let at = listed.registered;
            let contents = self.names.contents(owner, at, full);
            listed.registered += contents.count;
            cache.register(&listed.blocks[at as usize..listed.registered as usize], contents);
        }
    }

    /// Assigns blocks to a request that has left the decode set, up to the table's
    /// count, and makes the full ones known, up to `tokens` tokens.
    pub(crate) fn assign(&mut self, owner: ContentOwner, tokens: u32, table: &mut BlockTable) {
        if matches!(self.caching, Caching::Blocks(_)) {
            self.assign_cached(owner, tokens, table);
        }
    }

    /// As [`Self::assign`], with a prefix cache.
    #[inline(never)]
    fn assign_cached(&mut self, owner: ContentOwner, tokens: u32, table: &mut BlockTable) {
        let missing = table.count as usize - table.blocks().len();
        let from = self.unassigned.len() - missing;
        table.listed_mut().blocks.extend(self.unassigned.drain(from..));
        self.register(owner, tokens, table);
    }

    /// Releases the blocks of a request with `tokens` computed tokens. The end of
    /// its sequence is evicted before its start. `returns`: the request will be
    /// admitted again, and may find its blocks.
    pub(crate) fn release(
        &mut self,
        owner: ContentOwner,
        tokens: u32,
        returns: bool,
        table: &mut BlockTable,
    ) {
        match self.caching {
            Caching::None => self.pool.give_back(table.count),
            Caching::Blocks(_) => self.release_cached(owner, tokens, returns, table),
            Caching::Tree(_) => {
                rare();
                // Of blocks that were reserved for a request it has computed none.
                self.release_to_tree(owner, tokens, tokens > 0, table);
            }
        }
        table.clear();
    }

    /// As [`Self::release`], with a prefix cache.
    #[inline(never)]
    fn release_cached(&mut self, owner: ContentOwner, tokens: u32, returns: bool, table: &mut BlockTable) {
        self.assign(owner, tokens, table);
        if let Caching::Blocks(cache) = &mut self.caching {
            if returns {
                cache.publish(table.blocks());
            }
            let freed = cache.release(table.blocks().iter().rev().copied());
            self.pool.give_back(freed);
        }
        self.check();
    }

    /// Whether the prefix cache may find blocks of a request's output for other requests.
    pub(crate) fn shares_output(&self, owner: ContentOwner) -> bool {
        let ContentOwner { row, prompt, .. } = owner;
        self.caches() && self.names.prefixes.shared(row, prompt, prompt / self.names.block_tokens).is_some()
    }

    /// Full blocks at the start of a request's sequence of `tokens` tokens whose content is known.
    pub(super) fn known_blocks(&self, owner: ContentOwner, tokens: u32) -> u32 {
        if self.caches() { self.names.known_blocks(owner, tokens) } else { 0 }
    }

    /// Sets the number of blocks of a request whose KV is in the CPU's memory, and of its first ones with a known content.
    pub(super) fn set_count_on_host(&self, table: &mut BlockTable, blocks: u64, known: u32) {
        table.set_count(blocks);
        if self.caches() {
            table.listed_mut().registered = known;
        }
    }

    /// The contents of a request's first blocks, `blocks` of them, that other requests may have too.
    pub(super) fn shared_of(&self, owner: ContentOwner, blocks: u32) -> impl Iterator<Item = u32> {
        let number = move |position| self.names.content(owner, position).number();
        (0..blocks).filter_map(number).map(|number| number as u32)
    }

    /// Checks that the count and the cache agree (INV-4).
    fn check(&self) {
        if let Caching::Blocks(cache) = &self.caching {
            debug_assert_eq!(cache.free(), self.pool.free(), "Invariant: used + free is the capacity");
        }
    }
}

#[cfg(test)]
mod tests;
