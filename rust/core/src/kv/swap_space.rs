//! The CPU's memory, to which preemption may swap KV.
//!
//! Copies are counted while a step is formed and timed when it starts.

use super::pool::BlockPool;
use crate::config::Preemption;
use crate::time::Ticks;

/// The blocks of KV in the CPU's memory, and the copies of the step that is formed.
#[derive(Debug, Clone)]
pub(crate) struct SwapSpace {
    /// The count of blocks.
    pool: BlockPool,
    /// How long copies take; `None` if preemption recomputes.
    timing: Option<Timing>,
    /// Blocks copied out and in since the latest step was formed.
    copied: (u64, u64),
    /// Blocks copied out and in over the replay.
    total_copied: (u64, u64),
    /// Swaps for which there was no room.
    overflows: u64,
}

/// How long copies take.
#[derive(Debug, Clone, Copy)]
struct Timing {
    /// Ticks to copy out a block.
    out: Ticks,
    /// Ticks to copy in a block.
    back: Ticks,
    /// Whether copies overlap with the step.
    overlapped: bool,
}

impl SwapSpace {
    /// The swap space of a preemption, all blocks free.
    pub(crate) fn new(preemption: Preemption) -> Self {
        let (blocks, timing) = match preemption {
            Preemption::Recompute => (0, None),
            Preemption::Swap { blocks, out, back, overlapped } => {
                (blocks, Some(Timing { out, back, overlapped }))
            }
        };
        Self { pool: BlockPool::new(blocks), timing, copied: (0, 0), total_copied: (0, 0), overflows: 0 }
    }

    /// Whether preemption swaps.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.timing.is_some()
    }

    /// Blocks in all.
    pub(crate) fn capacity(&self) -> u64 {
        self.pool.capacity()
    }

    /// Blocks that hold KV.
    pub(crate) fn used(&self) -> u64 {
        self.pool.used()
    }

    /// Blocks that hold none.
    pub(crate) fn free(&self) -> u64 {
        self.pool.free()
    }

    /// Takes blocks for KV that is in the CPU's memory already. Returns whether
    /// there was room, and counts where there was none.
    pub(crate) fn reserve(&mut self, blocks: u64) -> bool {
        let taken = self.pool.take(blocks).is_ok();
        self.overflows += u64::from(!taken);
        taken
    }

    /// Copies blocks out. Returns whether there was room, and counts where there was
    /// none.
    pub(crate) fn copy_out(&mut self, blocks: u64) -> bool {
        let taken = self.reserve(blocks);
        if taken {
            self.copied.0 += blocks;
            self.total_copied.0 += blocks;
        }
        taken
    }

    /// Copies blocks in, which frees them.
    pub(crate) fn copy_in(&mut self, blocks: u64) {
        self.pool.give_back(blocks);
        self.copied.1 += blocks;
        self.total_copied.1 += blocks;
    }

    /// Blocks copied out and in since the latest step was formed.
    #[inline]
    pub(crate) fn copied(&self) -> (u64, u64) {
        self.copied
    }

    /// Forgets those copies, and returns what they add to a step of `step` ticks.
    #[inline]
    pub(crate) fn take_copy_ticks(&mut self, step: Ticks) -> Ticks {
        if self.copied == (0, 0) { 0 } else { self.time_copies(step) }
    }

    /// As [`Self::take_copy_ticks`], if there are copies.
    #[inline(never)]
    fn time_copies(&mut self, step: Ticks) -> Ticks {
        let (outward, inward) = std::mem::take(&mut self.copied);
        let Some(Timing { out, back, overlapped }) = self.timing else { return 0 };
        let copies = outward.saturating_mul(out).saturating_add(inward.saturating_mul(back));
        if overlapped { copies.saturating_sub(step) } else { copies }
    }

    /// Blocks copied out and in over the replay.
    pub(crate) fn total_copied(&self) -> (u64, u64) {
        self.total_copied
    }

    /// Swaps for which there was no room.
    pub(crate) fn overflows(&self) -> u64 {
        self.overflows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(overlapped: bool) -> SwapSpace {
        SwapSpace::new(Preemption::Swap { blocks: 5, out: 3, back: 2, overlapped })
    }

    #[test]
    fn copies_are_timed_once() {
        for (overlapped, added) in [(false, 3 * 4 + 2 * 4), (true, 3 * 4 + 2 * 4 - 15)] {
            let mut space = space(overlapped);
            assert!(space.copy_out(4));
            space.copy_in(4);
            assert_eq!(space.take_copy_ticks(15), added);
            assert_eq!((space.take_copy_ticks(15), space.total_copied()), (0, (4, 4)));
        }
    }

    #[test]
    fn copies_that_fit_beside_the_step_add_nothing() {
        let mut space = space(true);
        assert!(space.copy_out(2));
        assert_eq!(space.take_copy_ticks(6), 0);
    }

    #[test]
    fn a_swap_without_room_is_counted_and_copies_nothing() {
        let mut space = space(false);
        assert!(space.reserve(4) && !space.copy_out(2));
        assert_eq!((space.used(), space.free(), space.overflows(), space.copied()), (4, 1, 1, (0, 0)));
        assert!(!SwapSpace::new(Preemption::Recompute).is_used());
    }

    #[test]
    fn every_swap_without_room_is_counted() {
        let mut space = space(false);
        let taken = [2; 5].map(|blocks| space.reserve(blocks));
        assert_eq!(taken, [true, true, false, false, false]);
        assert_eq!((space.overflows(), space.free(), space.capacity()), (3, 1, 5));
    }
}
