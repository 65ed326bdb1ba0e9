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

use crate::config::EvictionConfig;
use crate::hint::rare;
use crate::kv::content::{Block, Content, Contents};
use crate::kv::eviction::Eviction;
use crate::kv::first_copies::{FirstCopies, NONE};
use crate::kv::lost::Lost;

/// The state of a block.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::kv) struct Entry {
    /// Neighbours in the free queue, while the block is free.
    before: u32,
    after: u32,
    /// Requests that hold the block.
    references: u32,
    /// Its content.
    pub(in crate::kv) content: Content,
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
    pub(in crate::kv) entries: Vec<Entry>,
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
    pub(in crate::kv) unknown_first: bool,
    /// Known contents that were lost as their blocks were reused.
    pub(in crate::kv) lost: Lost,
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
    pub(in crate::kv) fn orders_eviction(&self) -> bool {
        self.eviction.is_some()
    }

    /// The order of eviction, if it is not that of the free queue.
    pub(in crate::kv) fn eviction(&mut self) -> Option<&mut Eviction> {
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

    /// Finds the blocks with the first registered copies of contents, up to the first content without one. Returns how many
    /// it found, and tells of each of them.
    pub(in crate::kv) fn find(&self, contents: Contents, mut tell: impl FnMut(&[Block])) -> u32 {
        let Some(number) = contents.first.number() else {
            // No other request has them, and few were published.
            let copies = contents.iter().map_while(|content| self.own.get(&content.key()));
            return copies.inspect(|copy| tell(std::slice::from_ref(copy))).count() as u32;
        };
        let mut found = 0;
        while found < contents.count as usize {
            let firsts = self.shared.firsts(number + found, contents.count as usize - found);
            let known = firsts.iter().position(|&first| first == NONE).unwrap_or(firsts.len());
            tell(&firsts[..known]);
            found += known;
            if known < firsts.len() || known == 0 {
                break;
            }
        }
        found as u32
    }

    /// Allocates blocks from the front of the free queue, and then in the order of eviction.
    ///
    /// # Panics
    ///
    /// If fewer are free. Callers check the count first.
    pub(in crate::kv) fn take(&mut self, count: u64, into: &mut Vec<Block>) {
        let ordered = if self.eviction.is_some() { self.known_free } else { 0 };
        let queued = count.min(self.free - ordered);
        self.take_queued(queued, into);
        for _ in queued..count {
            rare();
            let block = self.first_known();
            assert!(block != NONE, "Invariant: free blocks are counted before one is allocated");
            self.unqueue(block);
            self.allot(block);
            into.push(block);
        }
    }

    /// Allocates blocks from the front of the free queue.
    fn take_queued(&mut self, count: u64, into: &mut Vec<Block>) {
        let (mut next, mut known) = (self.front, 0);
        for _ in 0..count {
            let block = next;
            if block as usize + 1 == self.entries.len() && block + 1 < self.capacity {
                self.enter_next(block);
            }
            next = self.entries[block as usize].after;
            known += u64::from(self.allot(block));
            into.push(block);
        }
        (self.free, self.known_free) = (self.free - count, self.known_free - known);
        self.front = next;
        match next {
            NONE => self.back = NONE,
            _ => self.entries[next as usize].before = NONE,
        }
    }

    /// Gives a block that has left the free queue its holder, and drops its content. Returns whether it was known.
    fn allot(&mut self, block: Block) -> bool {
        if let Some(eviction) = &mut self.eviction {
            rare();
            eviction.allocate(block);
        }
        let entry = &mut self.entries[block as usize];
        entry.references = 1;
        let content = std::mem::replace(&mut entry.content, Content::UNKNOWN);
        let known = content != Content::UNKNOWN;
        if known {
            self.lost.add(content);
            self.unlist(block, content);
        }
        known
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

    /// Adds a holder to blocks that were found.
    pub(in crate::kv) fn touch(&mut self, blocks: &[Block]) {
        for &block in blocks {
            if self.is_free(block) {
                self.unqueue(block);
            }
            if let Some(eviction) = &mut self.eviction {
                rare();
                eviction.hit(block);
            }
            self.entries[block as usize].references += 1;
        }
    }

    /// Sets the contents of held blocks. A lookup finds contents that belong to one request only after [`Self::publish`].
    pub(in crate::kv) fn register(&mut self, blocks: &[Block], contents: Contents) {
        for (&block, content) in blocks.iter().zip(contents.iter()) {
            let entry = &mut self.entries[block as usize];
            debug_assert!(!entry.listed, "Invariant: a block has one content");
            entry.content = content;
        }
        let Some(mut number) = contents.first.number() else { return };
        let mut rest = blocks;
        while !rest.is_empty() {
            let firsts = self.shared.firsts_mut(number, rest.len());
            let (here, behind) = rest.split_at(firsts.len());
            for (first, &block) in firsts.iter_mut().zip(here) {
                list(&mut self.entries, first, block);
            }
            number += here.len();
            rest = behind;
        }
    }

    /// Makes the contents of blocks findable that belong to one request.
    pub(in crate::kv) fn publish(&mut self, blocks: &[Block]) {
        for &block in blocks {
            let entry = &self.entries[block as usize];
            if !entry.listed && entry.content != Content::UNKNOWN {
                let first = self.own.entry(entry.content.key()).or_insert(NONE);
                list(&mut self.entries, first, block);
            }
        }
    }

    /// Releases one holder of each block, in the order in which blocks are to be reused: the last of a sequence first.
    /// Returns how many are free now.
    pub fn release(&mut self, blocks: impl ExactSizeIterator<Item = Block>) -> u64 {
        let (mut freed, mut unknown) = (0, Vec::new());
        let mut position = blocks.len() as u32;
        for block in blocks {
            position -= 1;
            let entry = &mut self.entries[block as usize];
            debug_assert!(entry.references > 0, "Invariant: only held blocks are released");
            entry.references -= 1;
            if entry.references > 0 {
                continue;
            }
            freed += 1;
            if self.unknown_first && entry.content == Content::UNKNOWN {
                unknown.push(block);
            } else {
                self.queue_known(block, position);
            }
        }
        unknown.into_iter().rev().for_each(|block| self.queue_at_front(block));
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

    /// Has no lookup find a block, which had this content.
    fn unlist(&mut self, block: Block, content: Content) {
        let Entry { listed, twin_before, twin_after, .. } = self.entries[block as usize];
        if !listed {
            return;
        }
        self.entries[block as usize].listed = false;
        let alone = twin_after == block;
        if !alone {
            self.entries[twin_before as usize].twin_after = twin_after;
            self.entries[twin_after as usize].twin_before = twin_before;
        }
        let after = if alone { NONE } else { twin_after };
        let first = match content.number() {
            Some(number) => self.shared.firsts_mut(number, 1).first_mut(),
            None if alone => {
                self.own.remove(&content.key());
                return;
            }
            None => self.own.get_mut(&content.key()),
        };
        if let Some(first) = first.filter(|first| **first == block) {
            *first = after;
        }
    }
}

/// Makes a block findable, behind the other copies of its content. `first`: the place for the first of them.
fn list(entries: &mut [Entry], first: &mut u32, block: Block) {
    if *first == NONE {
        *first = block;
        let entry = &mut entries[block as usize];
        (entry.listed, entry.twin_before, entry.twin_after) = (true, block, block);
        return;
    }
    let last = entries[*first as usize].twin_before;
    let entry = &mut entries[block as usize];
    (entry.listed, entry.twin_before, entry.twin_after) = (true, last, *first);
    entries[last as usize].twin_after = block;
    entries[*first as usize].twin_before = block;
}

#[cfg(test)]
mod tests;
