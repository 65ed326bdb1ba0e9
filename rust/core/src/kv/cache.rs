//! Blocks with contents: the prefix cache.
//!
//! Follows vLLM's block pool (`vllm/v1/core/block_pool.py`, 0.33.0). Blocks are allocated from the front of the free
//! queue, and lose their content only then. Freed blocks whose content is known are appended to the back, so that the
//! least recently freed is reused first; the others are returned to the front. A hit on a free block removes it from
//! the middle of the queue. Equal contents are not merged: every copy stays, and a lookup finds the one registered
//! first.
//!
//! A block number only names an entry. The null block is not part of the capacity. All operations are O(1).
//!
//! At the start the free queue has all blocks in order of their number. Blocks that were never allocated always follow
//! one another in it, so the entry of the first of them represents all, and the next one gets its entry when the first
//! is allocated. Memory is thus in proportion to the most blocks that were ever allocated, not to the capacity. The
//! table of shared contents likewise allocates its pages as they are used.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::content::{Block, Content};
use super::eviction::Eviction;
use super::first_copies::{FirstCopies, NONE};
use super::lost::Lost;
use crate::config::EvictionConfig;
use crate::hint::rare;

/// The state of a block.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Neighbours in the free queue, while the block is free.
    before: u32,
    after: u32,
    /// Requests that hold the block.
    references: u32,
    /// Its content.
    pub(super) content: Content,
    /// Whether a lookup can find it.
    listed: bool,
    /// Neighbours among the blocks of equal content, in order of registration: a ring, so that the first has the last
    /// as a neighbour.
    twin_before: u32,
    twin_after: u32,
}

impl Entry {
    /// A block that was never allocated, before `after` in the free queue.
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

/// A pool of blocks that keep their content until they are reused.
#[derive(Debug, Clone)]
pub struct PrefixCache {
    /// Entries of the blocks that were ever allocated and, if there are more, of the next one, which represents all
    /// others in the free queue.
    pub(super) entries: Vec<Entry>,
    /// Blocks of the pool.
    capacity: u32,
    /// The first block of the free queue, or `NONE`.
    front: u32,
    /// The last block of the free queue, or `NONE`.
    back: u32,
    /// Blocks of the free queue.
    free: u64,
    /// Blocks of those whose content is known.
    known_free: u64,
    /// The first copy of shared contents.
    shared: FirstCopies,
    /// The first copy of contents that belong to one request, if the request was preempted.
    own: FxHashMap<u64, u32>,
    /// See [`Self::new`].
    pub(super) unknown_first: bool,
    /// Known contents that were lost as their blocks were reused.
    pub(super) lost: Lost,
    /// The free blocks whose content is known, if they are not in the free queue.
    eviction: Option<Box<Eviction>>,
}

crate::checkpoint::checkpointed!(PrefixCache {
    values: entries, capacity, front, back, free, known_free, shared, own, lost;
    parts: eviction;
    fixed: unknown_first;
});

impl PrefixCache {
    /// A cache of `capacity` free blocks, for `contents` shared contents. `unknown_first`: whether freed blocks whose
    /// content is unknown are reused before all others, or queued like them.
    pub fn new(capacity: u32, contents: usize, unknown_first: bool) -> Self {
        let (entries, first) = if capacity == 0 { (Vec::new(), NONE) } else { (vec![Entry::fresh(NONE)], 0) };
        Self {
            entries,
            capacity,
            front: first,
            back: first,
            free: u64::from(capacity),
            known_free: 0,
            shared: FirstCopies::new(contents),
            own: FxHashMap::default(),
            unknown_first,
            lost: Lost::default(),
            eviction: None,
        }
    }

    /// The same cache, which evicts known contents in this order once all other blocks are in use.
    pub(crate) fn with_eviction(mut self, config: Option<&EvictionConfig>) -> Self {
        self.eviction = config.map(|config| Box::new(Eviction::new(config)));
        self
    }

    /// Whether known contents are evicted in another order than that of the free queue.
    pub(super) fn orders_eviction(&self) -> bool {
        self.eviction.is_some()
    }

    /// The order of eviction, if it is not that of the free queue.
    pub(super) fn eviction(&mut self) -> Option<&mut Eviction> {
        self.eviction.as_deref_mut()
    }

    /// Makes room for so many shared contents in all.
    pub(crate) fn grow(&mut self, contents: usize) {
        self.shared.grow(contents);
    }

    /// Blocks that are free.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// Free blocks whose content is known.
    pub fn known_free(&self) -> u64 {
        self.known_free
    }

    /// Whether a block is free.
    pub fn is_free(&self, block: Block) -> bool {
        self.entries.get(block as usize).is_none_or(|entry| entry.references == 0)
    }

    /// The number of requests that hold a block.
    pub fn holders(&self, block: Block) -> u32 {
        self.entries[block as usize].references
    }

    /// The block with the first registered copy of a content.
    pub fn find(&self, content: Content) -> Option<Block> {
        let first = match content.number() {
            Some(number) => self.shared.get(number),
            None => self.own.get(&content.key()).copied().unwrap_or(NONE),
        };
        (first != NONE).then_some(first)
    }

    /// Allocates the block at the front of the free queue, or the first in the order of eviction.
    ///
    /// # Panics
    ///
    /// If no block is free. Callers check the count first.
    pub fn take(&mut self) -> Block {
        let block = if self.front == NONE { self.first_known() } else { self.front };
        assert!(block != NONE, "Invariant: free blocks are counted before one is allocated");
        if block as usize + 1 == self.entries.len() && block + 1 < self.capacity {
            self.enter_next(block);
        }
        self.unqueue(block);
        if let Some(eviction) = &mut self.eviction {
            rare();
            eviction.allocate(block);
        }
        let entry = &mut self.entries[block as usize];
        entry.references = 1;
        if entry.content != Content::UNKNOWN {
            self.lost.add(entry.content);
            self.forget(block);
        }
        block
    }

    /// The first block in the order of eviction, or `NONE`.
    #[inline(never)]
    fn first_known(&self) -> Block {
        self.eviction.as_ref().and_then(|eviction| eviction.first()).unwrap_or(NONE)
    }

    /// Adds the entry of the block after `block`, the first that was never allocated, behind it in the free queue.
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
        if let Some(eviction) = &mut self.eviction {
            rare();
            eviction.hit(block);
        }
        self.entries[block as usize].references += 1;
    }

    /// Sets the content of a held block. A lookup finds a content that belongs to one request only after
    /// [`Self::publish`].
    pub fn register(&mut self, block: Block, content: Content) {
        debug_assert!(!self.entries[block as usize].listed, "Invariant: a block has one content");
        self.entries[block as usize].content = content;
        if content.number().is_some() {
            self.list(block);
        }
    }

    /// Makes the content of a block findable that belongs to one request.
    pub fn publish(&mut self, block: Block) {
        let entry = &self.entries[block as usize];
        if !entry.listed && entry.content != Content::UNKNOWN {
            self.list(block);
        }
    }

    /// Releases one holder of each block, in the order in which blocks are to be reused: the last of a sequence first.
    /// Returns how many are free now.
    pub fn release(
        &mut self,
        blocks: impl DoubleEndedIterator<Item = Block> + ExactSizeIterator + Clone,
    ) -> u64 {
        let mut freed = 0;
        let mut position = blocks.len() as u32;
        for block in blocks.clone() {
            position -= 1;
            let entry = &mut self.entries[block as usize];
            debug_assert!(entry.references > 0, "Invariant: only held blocks are released");
            entry.references -= 1;
            if entry.references == 0 && !(self.unknown_first && entry.content == Content::UNKNOWN) {
                self.queue_known(block, position);
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

    /// Queues a free block by its content: its eviction loses that. It was at `position` of its sequence.
    fn queue_known(&mut self, block: Block, position: u32) {
        match &mut self.eviction {
            None => self.queue_at_back(block),
            Some(eviction) => {
                rare();
                self.known_free += 1;
                eviction.add(block, position);
            }
        }
    }

    /// Appends a block to the back of the free queue.
    fn queue_at_back(&mut self, block: Block) {
        let last = self.back;
        let entry = &mut self.entries[block as usize];
        (entry.before, entry.after) = (last, NONE);
        self.known_free += u64::from(entry.content != Content::UNKNOWN);
        match last {
            NONE => self.front = block,
            _ => self.entries[last as usize].after = block,
        }
        self.back = block;
    }

    /// Puts a block whose content is unknown at the front of the free queue.
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

    /// Removes a block from the free queue, or from the order of eviction.
    fn unqueue(&mut self, block: Block) {
        let Entry { before, after, content, .. } = self.entries[block as usize];
        self.free -= 1;
        self.known_free -= u64::from(content != Content::UNKNOWN);
        if let Some(eviction) = &mut self.eviction
            && content != Content::UNKNOWN
        {
            rare();
            eviction.remove(block);
            return;
        }
        match before {
            NONE => self.front = after,
            _ => self.entries[before as usize].after = after,
        }
        match after {
            NONE => self.back = before,
            _ => self.entries[after as usize].before = before,
        }
    }

    /// The place that has the first copy of a content.
    fn first_of(&mut self, content: Content) -> &mut u32 {
        match content.number() {
            Some(number) => self.shared.get_mut(number),
            None => self.own.entry(content.key()).or_insert(NONE),
        }
    }

    /// Makes a block findable, behind the other copies of its content.
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

    /// Drops the content of a block.
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
            self.own.remove(&content.key());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::first_copies::PAGE;
    use super::*;
    use crate::trace::TraceRow;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// A naive model of the pool.
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
    fn memory_is_in_proportion_to_used_blocks() {
        let mut cache = PrefixCache::new(u32::MAX - 1, u32::MAX as usize - 1, true);
        let blocks: Vec<_> = (0..3).map(|_| cache.take()).collect();
        assert_eq!(blocks, [0, 1, 2]);
        cache.register(0, Content::shared(u32::MAX - 2));
        cache.release(blocks.into_iter());
        // Unknown blocks are reused first, known ones after all that were never allocated.
        assert_eq!((0..4).map(|_| cache.take()).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(cache.find(Content::shared(u32::MAX - 2)), Some(0));
        assert_eq!(cache.entries.len(), 6);
        assert_eq!(cache.shared.pages_in_use(), 1);
    }

    #[test]
    fn the_last_content_of_a_full_page_is_found() {
        let mut cache = PrefixCache::new(1, PAGE, false);
        let (block, last) = (cache.take(), Content::shared(PAGE as u32 - 1));
        cache.register(block, last);
        assert_eq!(cache.find(last), Some(block));
    }

    #[test]
    fn a_copy_of_own_content_is_found_once_the_first_is_reused() {
        let (mut cache, own) = (PrefixCache::new(2, 0, false), Content::own(TraceRow(3), 0));
        let blocks = [cache.take(), cache.take()];
        for block in blocks {
            cache.register(block, own);
            cache.publish(block);
            cache.release([block].into_iter());
        }
        assert_eq!(cache.find(own), Some(blocks[0]));
        assert_eq!(cache.take(), blocks[0], "it was freed first");
        assert_eq!((cache.find(own), cache.known_free()), (Some(blocks[1]), 1));
    }

    proptest! {
        #[test]
        fn a_cache_equals_a_naive_model(
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
                let known = naive.queue.iter().filter(|&&block| naive.holds(block).is_some()).count();
                prop_assert_eq!(cache.known_free(), known as u64);
                for block in 0..capacity {
                    prop_assert_eq!(cache.is_free(block), naive.references[block as usize] == 0);
                }
            }
        }
    }
}
