//! The blocks that are free once some requests have released theirs, while that is only considered.

use rustc_hash::FxHashMap;

use super::Memory;
use crate::kv::{Block, BlockTable, Hits};

/// How many requests release each block, while that is only considered.
#[derive(Debug, Default)]
pub(crate) struct Released {
    /// By block: how many requests release it.
    times: FxHashMap<Block, u32>,
}

impl Memory {
    /// Blocks that become free if one more request releases its blocks, `count` by
    /// now, after those that `released` counts. A block that requests share becomes
    /// free with the last of them.
    pub(crate) fn freed_by(&self, table: &BlockTable, count: u64, released: &mut Released) -> u64 {
        let Some(cache) = self.caching.blocks() else { return count };
        let mut freed = count - table.blocks().len() as u64;
        for &block in table.blocks() {
            let times = released.times.entry(block).or_insert(0);
            *times += 1;
            freed += u64::from(*times == cache.holders(block));
        }
        freed
    }

    /// How many of these blocks are held now, and by no request once those that
    /// `released` counts are released.
    pub(crate) fn unheld_after(&self, hits: &Hits, released: &Released) -> u64 {
        let Some(cache) = self.caching.blocks() else { return 0 };
        let lost = |block: &&Block| released.times.get(*block) == Some(&cache.holders(**block));
        hits.blocks.iter().filter(lost).count() as u64
    }
}
