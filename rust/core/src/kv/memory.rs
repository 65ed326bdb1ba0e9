//! One instance's KV memory: the count of its blocks and, where prefixes are
//! cached, the blocks themselves.
//!
//! Without a prefix cache nobody can tell two blocks apart, and everything here
//! is a subtraction. With one, requests in the decode set take blocks without
//! saying whose they are (`allocate_unassigned`): a fresh block holds nothing that a
//! lookup could find, so who has which is settled when a request lets go.

use rustc_hash::FxHashMap;

use super::cache::{Block, Content, PrefixCache};
use super::pool::{BlockPool, OutOfBlocks};
use super::prefixes::Prefixes;

/// The blocks of one request, where prefixes are cached.
#[derive(Debug, Clone, Default)]
pub(crate) struct BlockTable {
    pub(crate) blocks: Vec<Block>,
    /// Full blocks, from the start, whose content the cache knows.
    registered: u32,
}

/// How many holders let go of each block, while that is only considered.
#[derive(Debug, Default)]
pub(crate) struct Released {
    times: FxHashMap<Block, u32>,
}

/// Whose content a request's blocks have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContentOwner {
    pub(crate) request: u32,
    pub(crate) prompt: u32,
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    pool: BlockPool,
    block_tokens: u32,
    cache: Option<Box<PrefixCache>>,
    loose: Vec<Block>,
}

impl Memory {
    pub(crate) fn new(capacity: u64, block_tokens: u32, cache: Option<PrefixCache>) -> Self {
        Self { pool: BlockPool::new(capacity), block_tokens, cache: cache.map(Box::new), loose: Vec::new() }
    }

    #[inline]
    pub(crate) fn free(&self) -> u64 {
        self.pool.free()
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.pool.capacity()
    }

    #[inline]
    pub(crate) fn used(&self) -> u64 {
        self.pool.used()
    }

    /// Known contents that were lost to reuse.
    pub(crate) fn evictions(&self) -> u64 {
        self.cache.as_ref().map_or(0, |cache| cache.evictions())
    }

    #[inline]
    pub(crate) fn caches(&self) -> bool {
        self.cache.is_some()
    }

    /// Takes blocks for members of the decode set, or none at all.
    #[inline]
    pub(crate) fn allocate_unassigned(&mut self, blocks: u64) -> Result<(), OutOfBlocks> {
        self.pool.take(blocks)?;
        if let Some(cache) = &mut self.cache {
            self.loose.extend((0..blocks).map(|_| cache.take()));
        }
        self.check();
        Ok(())
    }

    /// Takes blocks for one request, or none at all.
    #[inline]
    pub(crate) fn take(&mut self, blocks: u64, held: &mut BlockTable) -> Result<(), OutOfBlocks> {
        self.pool.take(blocks)?;
        if let Some(cache) = &mut self.cache {
            held.blocks.extend((0..blocks).map(|_| cache.take()));
        }
        self.check();
        Ok(())
    }

    /// Blocks of the longest known prefix, up to `most` of them, into `hits`;
    /// returns how many of those nobody holds.
    pub(crate) fn find(
        &self,
        owner: ContentOwner,
        most: u32,
        prefixes: &Prefixes,
        hits: &mut Vec<Block>,
    ) -> u64 {
        hits.clear();
        let Some(cache) = &self.cache else { return 0 };
        let mut unheld = 0;
        for position in 0..most {
            let Some(block) = cache.find(content(owner, position, prefixes)) else { break };
            unheld += u64::from(cache.is_free(block));
            hits.push(block);
        }
        unheld
    }

    /// How many full blocks of a request's prefix a lookup would find.
    pub(crate) fn matched(&self, owner: ContentOwner, most: u32, prefixes: &Prefixes) -> u32 {
        let Some(cache) = &self.cache else { return 0 };
        (0..most).take_while(|&position| cache.find(content(owner, position, prefixes)).is_some()).count()
            as u32
    }

    /// How many of these blocks nobody holds.
    pub(crate) fn unheld(&self, hits: &[Block]) -> u64 {
        let Some(cache) = &self.cache else { return 0 };
        hits.iter().filter(|&&block| cache.is_free(block)).count() as u64
    }

    /// Blocks that come free if one more request lets go of its `count` blocks,
    /// after those that `released` counts by block; a block that requests share
    /// comes free with the last of them.
    pub(crate) fn freed_by(&self, held: &BlockTable, count: u64, released: &mut Released) -> u64 {
        let Some(cache) = &self.cache else { return count };
        let mut freed = count - held.blocks.len() as u64;
        for &block in &held.blocks {
            let times = released.times.entry(block).or_insert(0);
            *times += 1;
            freed += u64::from(*times == cache.holders(block));
        }
        freed
    }

    /// How many of these blocks are held now, and by no request once those are
    /// released that `released` counts.
    pub(crate) fn unheld_after(&self, hits: &[Block], released: &Released) -> u64 {
        let Some(cache) = &self.cache else { return 0 };
        let lost = |block: &&Block| released.times.get(*block) == Some(&cache.holders(**block));
        hits.iter().filter(lost).count() as u64
    }

    /// Gives a request the blocks that its lookup found, `unheld` of them free
    /// until now.
    #[inline]
    pub(crate) fn adopt(&mut self, hits: &[Block], unheld: u64, held: &mut BlockTable) {
        if self.caches() {
            self.adopt_cached(hits, unheld, held);
        }
    }

    #[inline(never)]
    fn adopt_cached(&mut self, hits: &[Block], unheld: u64, held: &mut BlockTable) {
        let Some(cache) = &mut self.cache else { return };
        for &block in hits {
            cache.touch(block);
        }
        self.pool.take(unheld).expect("Invariant: free blocks that are hit are counted");
        held.blocks.extend_from_slice(hits);
        held.registered = hits.len() as u32;
        self.check();
    }

    /// Makes a request's full blocks known, up to `tokens` tokens.
    #[inline]
    pub(crate) fn register(
        &mut self,
        owner: ContentOwner,
        tokens: u32,
        prefixes: &Prefixes,
        held: &mut BlockTable,
    ) {
        if self.caches() {
            self.register_cached(owner, tokens, prefixes, held);
        }
    }

    #[inline(never)]
    fn register_cached(
        &mut self,
        owner: ContentOwner,
        tokens: u32,
        prefixes: &Prefixes,
        held: &mut BlockTable,
    ) {
        let Some(cache) = &mut self.cache else { return };
        let full = tokens / self.block_tokens;
        for position in held.registered..full {
            cache.register(held.blocks[position as usize], content(owner, position, prefixes));
        }
        held.registered = held.registered.max(full);
    }

    /// Says which blocks are a request's that has left the decode set with
    /// `count` of them, and makes the full ones known.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        owner: ContentOwner,
        count: u64,
        tokens: u32,
        prefixes: &Prefixes,
        held: &mut BlockTable,
    ) {
        if self.caches() {
            self.settle_cached(owner, count, tokens, prefixes, held);
        }
    }

    #[inline(never)]
    fn settle_cached(
        &mut self,
        owner: ContentOwner,
        count: u64,
        tokens: u32,
        prefixes: &Prefixes,
        held: &mut BlockTable,
    ) {
        let missing = count as usize - held.blocks.len();
        let from = self.loose.len() - missing;
        held.blocks.extend(self.loose.drain(from..));
        self.register(owner, tokens, prefixes, held);
    }

    /// Takes back the `count` blocks of a request with `tokens` tokens. The end
    /// of its chain is reused before its start. `returns`: it will be back, and
    /// may find them again.
    #[inline]
    pub(crate) fn release(
        &mut self,
        owner: ContentOwner,
        count: u64,
        tokens: u32,
        returns: bool,
        prefixes: &Prefixes,
        held: &mut BlockTable,
    ) {
        if self.caches() {
            self.release_cached(owner, count, tokens, returns, prefixes, held);
        } else {
            self.pool.give_back(count);
        }
    }

    #[inline(never)]
    fn release_cached(
        &mut self,
        owner: ContentOwner,
        count: u64,
        tokens: u32,
        returns: bool,
        prefixes: &Prefixes,
        held: &mut BlockTable,
    ) {
        self.settle(owner, count, tokens, prefixes, held);
        if let Some(cache) = &mut self.cache {
            if returns {
                for &block in &held.blocks {
                    cache.publish(block);
                }
            }
            let freed = cache.release(held.blocks.iter().rev().copied());
            self.pool.give_back(freed);
        }
        held.blocks.clear();
        held.registered = 0;
        self.check();
    }

    #[inline]
    fn check(&self) {
        if let Some(cache) = &self.cache {
            debug_assert_eq!(cache.free(), self.pool.free(), "Invariant: used + free is the capacity");
        }
    }
}

#[inline]
fn content(owner: ContentOwner, position: u32, prefixes: &Prefixes) -> Content {
    match prefixes.shared(owner.request, owner.prompt, position) {
        Some(number) => Content::shared(number),
        None => Content::own(owner.request, position),
    }
}
