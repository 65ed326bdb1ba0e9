//! The host's memory for KV of requests that are not on the GPU.

use super::copies::{Copies, Timing};
use super::pool::BlockPool;
use super::shared_copies::SharedCopies;
use crate::config::{CopyTime, Preemption};
use crate::time::Ticks;

/// Blocks of the host's memory, and the copies to and from them.
#[derive(Debug, Clone)]
pub(crate) struct SwapSpace {
    pool: BlockPool,
    copies: Copies,
    /// The blocks that requests share, where prefixes are cached.
    shared: SharedCopies,
    /// Whether preempted requests are swapped out.
    is_used: bool,
    /// Requests for which there was no room.
    overflows: u64,
}

crate::checkpoint::checkpointed!(SwapSpace {
    values: pool, shared, is_used, overflows;
    parts: copies;
});

impl SwapSpace {
    /// The swap space of a preemption; empty if that does not swap.
    pub(crate) fn new(preemption: Preemption) -> Self {
        let (blocks, timing, is_used) = match preemption {
            Preemption::Recompute => (0, Timing::default(), false),
            Preemption::Swap { blocks, out, back, overlapped } => {
                let time = |block| CopyTime { fixed: 0, block };
                (blocks, Timing { out: time(out), back: time(back), overlapped }, true)
            }
        };
        let (pool, copies) = (BlockPool::new(blocks), Copies::new(timing));
        Self { pool, copies, shared: SharedCopies::default(), is_used, overflows: 0 }
    }

    /// Whether preempted requests are swapped out, if there is room.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }

    /// Blocks that fit.
    pub(crate) fn capacity(&self) -> u64 {
        self.pool.capacity()
    }

    /// Blocks in use.
    pub(crate) fn used(&self) -> u64 {
        self.pool.used()
    }

    /// Free blocks.
    pub(crate) fn free(&self) -> u64 {
        self.pool.free()
    }

    /// Takes blocks without a copy, of which the first have the contents `shared`. Returns whether all were free: a
    /// block that another request shares counts too.
    pub(crate) fn reserve(&mut self, blocks: u64, shared: impl Iterator<Item = u32>) -> bool {
        let taken = self.pool.take(blocks).is_ok();
        if taken {
            self.pool.give_back(self.shared.add(shared));
        }
        self.overflows += u64::from(!taken);
        taken
    }

    /// Frees blocks without a copy, but those that other requests share.
    pub(crate) fn give_back(&mut self, blocks: u64, shared: impl Iterator<Item = u32>) {
        self.pool.give_back(blocks - self.shared.remove(shared));
    }

    /// Copies blocks from the GPU, as [`Self::reserve`] takes them. Returns whether there was room; if not, nothing
    /// is copied.
    pub(crate) fn copy_out(&mut self, blocks: u64, shared: impl Iterator<Item = u32>) -> bool {
        let taken = self.reserve(blocks, shared);
        if taken {
            self.copies.copy_out(blocks);
        }
        taken
    }

    /// Copies blocks to the GPU, and frees them as [`Self::give_back`] does.
    pub(crate) fn copy_in(&mut self, blocks: u64, shared: impl Iterator<Item = u32>) {
        self.give_back(blocks, shared);
        self.copies.copy_in(blocks);
    }

    /// Blocks copied out and in in the step being formed.
    pub(crate) fn copied(&self) -> (u64, u64) {
        self.copies.pending()
    }

    /// Forgets the copies made while a step was formed, and returns what they add to
    /// it; it takes `step` ticks without them.
    pub(crate) fn take_copy_ticks(&mut self, step: Ticks) -> Ticks {
        self.copies.take_ticks(step)
    }

    /// Blocks copied out and in.
    pub(crate) fn total_copied(&self) -> (u64, u64) {
        self.copies.total()
    }

    /// Requests for which there was no room.
    pub(crate) fn overflows(&self) -> u64 {
        self.overflows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter::empty;

    fn space(overlapped: bool) -> SwapSpace {
        SwapSpace::new(Preemption::Swap { blocks: 5, out: 3, back: 2, overlapped })
    }

    #[test]
    fn a_swap_without_room_is_counted_and_copies_nothing() {
        let mut space = space(false);
        assert!(space.reserve(4, empty()) && !space.copy_out(2, empty()));
        assert_eq!((space.used(), space.free(), space.overflows(), space.copied()), (4, 1, 1, (0, 0)));
        assert!(!SwapSpace::new(Preemption::Recompute).is_used());
    }

    #[test]
    fn every_swap_without_room_is_counted() {
        let mut space = space(false);
        let taken = [2; 5].map(|blocks| space.reserve(blocks, empty()));
        assert_eq!(taken, [true, true, false, false, false]);
        assert_eq!((space.overflows(), space.free(), space.capacity()), (3, 1, 5));
    }

    #[test]
    fn requests_with_equal_blocks_share_them_and_each_copies_its_own() {
        let mut space = space(false);
        assert!(space.copy_out(3, [1, 2].into_iter()) && space.copy_out(2, [1, 2].into_iter()));
        assert_eq!((space.used(), space.copied()), (3, (5, 0)));
        assert!(
            !space.copy_out(3, [1, 2, 3].into_iter()),
            "the blocks that are shared count as if they were not"
        );
        space.copy_in(3, [1, 2].into_iter());
        assert_eq!((space.used(), space.copied()), (2, (5, 3)));
        space.give_back(2, [1, 2].into_iter());
        assert_eq!(space.used(), 0);
    }
}
