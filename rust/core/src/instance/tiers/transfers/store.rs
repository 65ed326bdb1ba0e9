//! The copies between the host's memory and a store below it, as one instance makes them.

use crate::config::StoreLink;
use crate::kv::{Link, SharedStore};
use crate::metrics::{StoreCopies, StoreStats};
use crate::time::Ticks;

/// A store below the host's memory, with the links of an instance to it and back.
#[derive(Debug)]
pub(in crate::instance::tiers) struct StoreLinks {
    store: SharedStore,
    links: [Link; 2],
    chunk_blocks: u64,
    pub(in crate::instance::tiers) stats: StoreCopies,
}

impl StoreLinks {
    /// `chunk_blocks`: blocks of a chunk.
    pub(in crate::instance::tiers) fn new(
        config: StoreLink,
        chunk_blocks: u32,
        stores: &[SharedStore],
    ) -> Self {
        Self {
            store: stores[config.store as usize].clone(),
            links: [config.write, config.read].map(Link::new),
            chunk_blocks: u64::from(chunk_blocks),
            stats: StoreCopies { store: config.store, ..StoreCopies::default() },
        }
    }

    /// Whether the store has a chunk that may be read.
    pub(in crate::instance::tiers) fn has(&self, key: u64, now: Ticks) -> bool {
        self.store.get().look_up(key, now)
    }

    /// Writes those of some chunks that the store lacks and has room for. Returns their keys, and when they are written.
    pub(in crate::instance::tiers) fn write(&mut self, keys: &[u64], now: Ticks) -> (Vec<u64>, Ticks) {
        let mut store = self.store.get();
        let taken = store.put(keys, now);
        if taken.is_empty() {
            return (taken, self.links[0].free().max(now));
        }
        let blocks = taken.len() as u64 * self.chunk_blocks;
        let ends = store.write(&taken, blocks, &mut self.links[0], now).ends;
        self.stats.written_blocks += blocks;
        (taken, ends)
    }

    /// Reads chunks in one copy. Returns when it ends.
    pub(in crate::instance::tiers) fn read(&mut self, keys: &[u64], now: Ticks) -> Ticks {
        let blocks = keys.len() as u64 * self.chunk_blocks;
        self.stats.read_blocks += blocks;
        self.store.get().read(keys, blocks, &mut self.links[1], now).ends
    }

    /// Whether the store has all of some chunks, or is being given them.
    pub(in crate::instance::tiers) fn holds(&self, keys: &[u64]) -> bool {
        self.store.get().holds(keys)
    }

    /// Chunks in the store, those that are being written among them.
    pub(in crate::instance::tiers) fn used(&self) -> u64 {
        self.store.get().used()
    }

    /// The number of the store, and the counters of the copies of all instances.
    pub(in crate::instance::tiers) fn totals(&self) -> (u32, StoreStats) {
        (self.stats.store, self.store.get().stats())
    }
}
