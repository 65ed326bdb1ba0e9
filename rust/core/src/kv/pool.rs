//! The number of allocated blocks of one instance's KV cache.
//!
//! The pool answers one question: can `n` more blocks be allocated? Contents and block numbers are not modelled here,
//! because without prefix caching no scheduler can tell two blocks apart. The null block that vLLM keeps for padding
//! is not part of the capacity.
//!
//! Upholds INV-4 (blocks are conserved): `used + free == capacity`, always.

use serde::{Deserialize, Serialize};

/// The pool has fewer free blocks than were requested. The scheduler reacts by waiting or preempting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfBlocks {
    /// Blocks that were requested.
    pub wanted: u64,
    /// Blocks that are free.
    pub free: u64,
}

/// A count of the blocks allocated out of a fixed capacity.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BlockPool {
    /// All blocks.
    capacity: u64,
    /// Allocated blocks.
    used: u64,
}

impl BlockPool {
    /// A pool with every block free.
    pub fn new(capacity: u64) -> Self {
        Self { capacity, used: 0 }
    }

    /// Blocks in all.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Blocks that are free.
    pub fn free(&self) -> u64 {
        self.capacity - self.used
    }

    /// Blocks that are allocated.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Allocates `wanted` blocks, or none.
    ///
    /// # Errors
    ///
    /// Returns [`OutOfBlocks`] and leaves the pool unchanged if fewer than
    /// `wanted` blocks are free.
    pub fn take(&mut self, wanted: u64) -> Result<(), OutOfBlocks> {
        let free = self.free();
        if wanted > free {
            return Err(OutOfBlocks { wanted, free });
        }
        self.used += wanted;
        Ok(())
    }

    /// Gives `blocks` back.
    ///
    /// # Panics
    ///
    /// If fewer were taken: the caller has counted.
    pub fn give_back(&mut self, blocks: u64) {
        assert!(blocks <= self.used, "Invariant: only allocated blocks are freed");
        self.used -= blocks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_all_or_nothing() {
        let mut pool = BlockPool::new(3);
        assert_eq!(pool.take(2), Ok(()));
        assert_eq!(pool.take(2), Err(OutOfBlocks { wanted: 2, free: 1 }));
        assert_eq!((pool.free(), pool.used(), pool.capacity()), (1, 2, 3));
        pool.give_back(2);
        assert_eq!(pool.free(), 3);
    }
}
