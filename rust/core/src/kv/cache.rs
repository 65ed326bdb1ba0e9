//! Blocks with contents: the prefix cache.
//!
//! Follows vLLM's block pool (`vllm/v1/core/block_pool.py`, 0.33.0). A block
//! leaves the free queue at its front and only then loses what it held. Freed
//! blocks whose content is known join the back, so that the least recently
//! freed goes first; the others return to the front. A hit on a free block
//! takes it out of the middle. Equal contents are not merged: every copy stays,
//! and a lookup finds the one registered first.
//!
//! Block numbers mean nothing here beyond naming an entry; the null block is
//! not part of the capacity. All operations are O(1).
//!
//! At the start the free queue holds all blocks by number. Blocks that were
//! never taken always follow one another in it, so one entry, that of the first
//! of them, stands for them all, and the next gets its entry when that one is
//! taken. Memory is thus in proportion to the blocks that were ever used at
//! once, and not to the capacity; the same goes for the table of shared
//! contents, which is made in pages.

use rustc_hash::FxHashMap;

/// An entry of the cache.
pub type Block = u32;

const NONE: u32 = u32::MAX;

/// Contents on a page of the table of shared contents: 16 KiB.
const PAGE: usize = 4096;

/// What a full block holds, up to equality.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content(u64);

impl Content {
    const UNKNOWN: Self = Self(0);
    const OWN: u64 = 1 << 63;

    /// Tokens that several requests may have, by their number.
    #[inline]
    pub fn shared(number: u32) -> Self {
        Self(u64::from(number) + 1)
    }

    /// Tokens that nobody but one request has, by their place in it.
    #[inline]
    pub fn own(request: u32, position: u32) -> Self {
        Self(Self::OWN | u64::from(request) << 32 | u64::from(position))
    }

    #[inline]
    fn number(self) -> Option<usize> {
        (self.0 & Self::OWN == 0 && self.0 > 0).then(|| (self.0 - 1) as usize)
    }
}

#[derive(Debug, Clone)]
struct Entry {
    /// Neighbours in the free queue, while nobody holds the block.
    before: u32,
    after: u32,
    references: u32,
    content: Content,
    /// Whether a lookup can find it, and its neighbours among equal contents
    /// in order of registration (a ring, so that the first knows the last).
    listed: bool,
    twin_before: u32,
    twin_after: u32,
}

impl Entry {
    /// A block that was never taken, in front of `after` in the free queue.
    fn fresh(after: u32) -> Self {
        Self {
            before: NONE,
            after,
            references: 0,
            content: Content::UNKNOWN,
            listed: false,
            twin_before: NONE,
            twin_after: NONE,
        }
    }
}

/// The first copy of each shared content, by its number.
#[derive(Debug, Clone)]
struct Shared {
    pages: Vec<Option<Box<[u32; PAGE]>>>,
}

impl Shared {
    fn new(contents: usize) -> Self {
        Self { pages: vec![None; contents.div_ceil(PAGE)] }
    }

    #[inline]
    fn get(&self, number: usize) -> u32 {
        self.pages[number / PAGE].as_ref().map_or(NONE, |page| page[number % PAGE])
    }

    #[inline]
    fn get_mut(&mut self, number: usize) -> &mut u32 {
        let page = self.pages[number / PAGE].get_or_insert_with(|| Box::new([NONE; PAGE]));
        &mut page[number % PAGE]
    }
}

/// A pool of blocks that remember what they held until they are reused.
#[derive(Debug, Clone)]
pub struct PrefixCache {
    /// Of the blocks that were ever taken and, if there is one more, the next:
    /// it stands in the free queue for all that were not.
    entries: Vec<Entry>,
    capacity: u32,
    front: u32,
    back: u32,
    free: u64,
    shared: Shared,
    /// The first copy of own contents, of requests that have lost their memory.
    own: FxHashMap<u64, u32>,
    unknown_first: bool,
    evictions: u64,
}

impl PrefixCache {
    /// A cache of `capacity` free blocks, for `contents` shared contents.
    /// `unknown_first`: whether freed blocks without content are reused before
    /// all others, or queue up like them.
    pub fn new(capacity: u32, contents: usize, unknown_first: bool) -> Self {
        let (entries, first) = if capacity == 0 { (Vec::new(), NONE) } else { (vec![Entry::fresh(NONE)], 0) };
        Self {
            entries,
            capacity,
            front: first,
            back: first,
            free: u64::from(capacity),
            shared: Shared::new(contents),
            own: FxHashMap::default(),
            unknown_first,
            evictions: 0,
        }
    }

    /// Blocks that nobody holds.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// Known contents that were lost to reuse.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Whether nobody holds the block.
    #[inline]
    pub fn is_free(&self, block: Block) -> bool {
        self.entries.get(block as usize).is_none_or(|entry| entry.references == 0)
    }

    /// How many requests hold the block.
    #[inline]
    pub fn holders(&self, block: Block) -> u32 {
        self.entries[block as usize].references
    }

    /// The first registered copy of a content.
    #[inline]
    pub fn find(&self, content: Content) -> Option<Block> {
        let first = match content.number() {
            Some(number) => self.shared.get(number),
            None => self.own.get(&content.0).copied().unwrap_or(NONE),
        };
        (first != NONE).then_some(first)
    }

    /// Takes the block at the front of the free queue.
    ///
    /// # Panics
    ///
    /// If there is none: the caller has counted.
    pub fn take(&mut self) -> Block {
        let block = self.front;
        assert!(block != NONE, "Invariant: blocks are counted before they are taken");
        if block as usize + 1 == self.entries.len() && block + 1 < self.capacity {
            self.enter_next(block);
        }
        self.unqueue(block);
        let entry = &mut self.entries[block as usize];
        entry.references = 1;
        if entry.content != Content::UNKNOWN {
            self.evictions += 1;
            self.forget(block);
        }
        block
    }

    /// Enters the block after `block`, which is the first that was never taken,
    /// behind it in the free queue.
    #[inline(never)]
    fn enter_next(&mut self, block: Block) {
        let after = std::mem::replace(&mut self.entries[block as usize].after, block + 1);
        match after {
            NONE => self.back = block + 1,
            _ => self.entries[after as usize].before = block + 1,
        }
        self.entries.push(Entry { before: block, ..Entry::fresh(after) });
    }

    /// Adds a holder to a block that was found.
    pub fn touch(&mut self, block: Block) {
        if self.is_free(block) {
            self.unqueue(block);
        }
        self.entries[block as usize].references += 1;
    }

    /// Says what a held block holds. A content of one request's own cannot be
    /// found until [`Self::publish`].
    pub fn register(&mut self, block: Block, content: Content) {
        debug_assert!(!self.entries[block as usize].listed, "Invariant: a block has one content");
        self.entries[block as usize].content = content;
        if content.number().is_some() {
            self.list(block);
        }
    }

    /// Lets a lookup find a content of one request's own.
    pub fn publish(&mut self, block: Block) {
        let entry = &self.entries[block as usize];
        if !entry.listed && entry.content != Content::UNKNOWN {
            self.list(block);
        }
    }

    /// Lets go of blocks, in the order in which they shall be reused. Returns
    /// how many nobody holds now.
    pub fn release(&mut self, blocks: impl DoubleEndedIterator<Item = Block> + Clone) -> u64 {
        let mut freed = 0;
        for block in blocks.clone() {
            let entry = &mut self.entries[block as usize];
            debug_assert!(entry.references > 0, "Invariant: only held blocks are released");
            entry.references -= 1;
            if entry.references == 0 && !(self.unknown_first && entry.content == Content::UNKNOWN) {
                self.queue_at_back(block);
                freed += 1;
            }
        }
        if self.unknown_first {
            for block in blocks.rev() {
                let entry = &self.entries[block as usize];
                if entry.references == 0 && entry.content == Content::UNKNOWN {
                    self.queue_at_front(block);
                    freed += 1;
                }
            }
        }
        self.free += freed;
        freed
    }

    fn queue_at_back(&mut self, block: Block) {
        let last = self.back;
        let entry = &mut self.entries[block as usize];
        (entry.before, entry.after) = (last, NONE);
        match last {
            NONE => self.front = block,
            _ => self.entries[last as usize].after = block,
        }
        self.back = block;
    }

    fn queue_at_front(&mut self, block: Block) {
        let first = self.front;
        let entry = &mut self.entries[block as usize];
        (entry.before, entry.after) = (NONE, first);
        match first {
            NONE => self.back = block,
            _ => self.entries[first as usize].before = block,
        }
        self.front = block;
    }

    fn unqueue(&mut self, block: Block) {
        let Entry { before, after, .. } = self.entries[block as usize];
        match before {
            NONE => self.front = after,
            _ => self.entries[before as usize].after = after,
        }
        match after {
            NONE => self.back = before,
            _ => self.entries[after as usize].before = before,
        }
        self.free -= 1;
    }

    fn first_of(&mut self, content: Content) -> &mut u32 {
        match content.number() {
            Some(number) => self.shared.get_mut(number),
            None => self.own.entry(content.0).or_insert(NONE),
        }
    }

    fn list(&mut self, block: Block) {
        let content = self.entries[block as usize].content;
        let first = self.first_of(content);
        if *first == NONE {
            *first = block;
            let entry = &mut self.entries[block as usize];
            (entry.listed, entry.twin_before, entry.twin_after) = (true, block, block);
            return;
        }
        let first = *first;
        let last = self.entries[first as usize].twin_before;
        let entry = &mut self.entries[block as usize];
        (entry.listed, entry.twin_before, entry.twin_after) = (true, last, first);
        self.entries[last as usize].twin_after = block;
        self.entries[first as usize].twin_before = block;
    }

    fn forget(&mut self, block: Block) {
        let Entry { content, listed, twin_before, twin_after, .. } = self.entries[block as usize];
        let entry = &mut self.entries[block as usize];
        (entry.content, entry.listed) = (Content::UNKNOWN, false);
        if !listed {
            return;
        }
        let alone = twin_after == block;
        if !alone {
            self.entries[twin_before as usize].twin_after = twin_after;
            self.entries[twin_after as usize].twin_before = twin_before;
        }
        let first = self.first_of(content);
        if *first == block {
            *first = if alone { NONE } else { twin_after };
        }
        if alone && content.number().is_none() {
            self.own.remove(&content.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// The same pool, written for clarity.
    struct Naive {
        queue: VecDeque<u32>,
        references: Vec<u32>,
        copies: Vec<Vec<u32>>,
    }

    impl Naive {
        fn holds(&self, block: u32) -> Option<usize> {
            self.copies.iter().position(|copies| copies.contains(&block))
        }
    }

    #[test]
    fn memory_is_taken_as_blocks_are_used() {
        let mut cache = PrefixCache::new(u32::MAX - 1, u32::MAX as usize - 1, true);
        let blocks: Vec<_> = (0..3).map(|_| cache.take()).collect();
        assert_eq!(blocks, [0, 1, 2]);
        cache.register(0, Content::shared(u32::MAX - 2));
        cache.release(blocks.into_iter());
        // Unknown blocks are reused first, known ones after all that were never taken.
        assert_eq!((0..4).map(|_| cache.take()).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(cache.find(Content::shared(u32::MAX - 2)), Some(0));
        assert_eq!(cache.entries.len(), 6);
        assert_eq!(cache.shared.pages.iter().flatten().count(), 1);
    }

    proptest! {
        #[test]
        fn it_decides_as_the_plain_one(
            capacity in 1u32..12,
            unknown_first in any::<bool>(),
            actions in prop::collection::vec((0u8..4, 0u32..6, 0usize..12), 0..80),
        ) {
            const CONTENTS: usize = 6;
            let mut cache = PrefixCache::new(capacity, CONTENTS, unknown_first);
            let mut naive = Naive {
                queue: (0..capacity).collect(),
                references: vec![0; capacity as usize],
                copies: vec![Vec::new(); CONTENTS],
            };
            let mut held: Vec<u32> = Vec::new();
            for (action, content, pick) in actions {
                match action {
                    0 if cache.free() > 0 => {
                        let block = naive.queue.pop_front().unwrap();
                        naive.copies.iter_mut().for_each(|copies| copies.retain(|&b| b != block));
                        naive.references[block as usize] = 1;
                        prop_assert_eq!(cache.take(), block);
                        held.push(block);
                    }
                    1 => {
                        let found = naive.copies[content as usize].first().copied();
                        prop_assert_eq!(cache.find(Content::shared(content)), found);
                        if let Some(block) = found {
                            naive.queue.retain(|&b| b != block);
                            naive.references[block as usize] += 1;
                            cache.touch(block);
                            held.push(block);
                        }
                    }
                    2 if !held.is_empty() => {
                        let block = held[pick % held.len()];
                        if naive.holds(block).is_none() {
                            naive.copies[content as usize].push(block);
                            cache.register(block, Content::shared(content));
                        }
                    }
                    3 if !held.is_empty() => {
                        let leaving = held.split_off(pick % held.len());
                        cache.release(leaving.iter().copied());
                        let mut unknown = Vec::new();
                        for &block in &leaving {
                            naive.references[block as usize] -= 1;
                            if naive.references[block as usize] > 0 {
                                continue;
                            }
                            if unknown_first && naive.holds(block).is_none() {
                                unknown.push(block);
                            } else {
                                naive.queue.push_back(block);
                            }
                        }
                        unknown.iter().rev().for_each(|&block| naive.queue.push_front(block));
                    }
                    _ => {}
                }
                prop_assert_eq!(cache.free(), naive.queue.len() as u64);
                for block in 0..capacity {
                    prop_assert_eq!(cache.is_free(block), naive.references[block as usize] == 0);
                }
            }
        }
    }
}
