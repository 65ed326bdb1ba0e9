//! A store of chunks below the host's memory, of one instance or of several: the objects in it, its bandwidth, and which
//! objects are evicted.
//!
//! An object is a chunk by its key. It is written once, may be read from the end of that on, and is evicted neither while it
//! is written nor while it is read. The state of the store depends on what was asked of it before and on the moment, so
//! instances may share one as long as they ask in the order of the clock.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use rustc_hash::FxHashMap;

use super::chunks::Key;
use super::link::{Interval, Link};
use crate::config::{CopyTime, StoreConfig, StoreEviction};
use crate::metrics::StoreStats;
use crate::time::{NEVER, Ticks};

/// A store that instances of one replay share.
#[derive(Debug, Clone)]
pub(crate) struct SharedStore(Arc<Mutex<ObjectStore>>);

impl SharedStore {
    pub(crate) fn new(config: &StoreConfig) -> Self {
        Self(Arc::new(Mutex::new(ObjectStore::new(config))))
    }

    /// The store, to read and change. One thread runs a replay, so that no other holds it.
    pub(crate) fn get(&self) -> MutexGuard<'_, ObjectStore> {
        self.0.lock().expect("Invariant: no call of a store panics")
    }
}

/// The place of an object in the order of eviction: the end of its lease, and its latest use.
type Rank = (Ticks, u64);

/// A chunk in a store.
#[derive(Debug, Clone, Copy)]
struct Object {
    /// When it has been written.
    ready: Ticks,
    /// Until when it is read.
    read_until: Ticks,
    rank: Rank,
}

impl Object {
    /// Whether no copy of it is under way, and its lease has ended.
    fn is_free(&self, now: Ticks) -> bool {
        self.ready <= now && self.read_until <= now && self.rank.0 <= now
    }
}

/// A store of chunks.
#[derive(Debug)]
pub(crate) struct ObjectStore {
    capacity: u64,
    eviction: StoreEviction,
    objects: FxHashMap<Key, Object>,
    by_rank: BTreeSet<(Rank, Key)>,
    /// Its own bandwidth for writes and for reads, which all instances share.
    media: [Link; 2],
    /// Uses so far.
    uses: u64,
    stats: StoreStats,
}

impl ObjectStore {
    fn new(config: &StoreConfig) -> Self {
        let capacity = config.chunks.unwrap_or(u64::MAX);
        let medium = |block| Link::new(CopyTime { fixed: 0, block });
        Self {
            capacity,
            eviction: config.eviction,
            objects: FxHashMap::default(),
            by_rank: BTreeSet::new(),
            media: [config.write, config.read].map(medium),
            uses: 0,
            stats: StoreStats { capacity: config.chunks, ..StoreStats::default() },
        }
    }

    /// Objects in the store, those that are being written among them.
    pub(crate) fn used(&self) -> u64 {
        self.objects.len() as u64
    }

    /// The counters so far.
    pub(crate) fn stats(&self) -> StoreStats {
        StoreStats { chunks: self.used(), ..self.stats.clone() }
    }

    /// Whether an object may be read. One that may is protected by a lease from then on, where there are leases.
    pub(crate) fn look_up(&mut self, key: Key, now: Ticks) -> bool {
        let ready = self.objects.get(&key).is_some_and(|object| object.ready <= now);
        if ready && let StoreEviction::Lease { ttl, .. } = self.eviction {
            self.use_object(key, now.saturating_add(ttl));
        }
        ready
    }

    /// Whether it has all of some objects, or is being given them.
    pub(crate) fn holds(&self, keys: &[Key]) -> bool {
        keys.iter().all(|key| self.objects.contains_key(key))
    }

    /// Notes a use of an object, whose lease ends at `lease` or later.
    fn use_object(&mut self, key: Key, lease: Ticks) {
        self.uses += 1;
        let Some(object) = self.objects.get_mut(&key) else { return };
        self.by_rank.remove(&(object.rank, key));
        object.rank = (object.rank.0.max(lease), self.uses);
        self.by_rank.insert((object.rank, key));
    }

    /// Makes room for those of some chunks that the store does not have. Returns them, up to the first that finds none.
    pub(crate) fn put(&mut self, keys: &[Key], now: Ticks) -> Vec<Key> {
        let (mut taken, mut refused) = (Vec::new(), 0);
        for &key in keys {
            if self.objects.contains_key(&key) {
                continue;
            }
            if refused > 0 || !self.has_room(now) {
                refused += 1;
                continue;
            }
            // Until it is written, which is its first use, it is not evicted.
            let object = Object { ready: NEVER, read_until: 0, rank: (0, 0) };
            self.objects.insert(key, object);
            self.by_rank.insert((object.rank, key));
            taken.push(key);
        }
        self.stats.refused_chunks += refused;
        self.stats.peak_chunks = self.stats.peak_chunks.max(self.used());
        self.keep_below_watermark(refused > 0, now);
        taken
    }

    /// Whether one object more fits, once another one was evicted if need be.
    fn has_room(&mut self, now: Ticks) -> bool {
        if self.used() < self.capacity {
            return true;
        }
        if self.eviction != StoreEviction::Lru {
            return false;
        }
        let oldest = self.by_rank.iter().find(|(_, key)| self.objects[key].is_free(now)).copied();
        oldest.map(|entry| self.evict(entry)).is_some()
    }

    fn evict(&mut self, entry: (Rank, Key)) {
        self.by_rank.remove(&entry);
        self.objects.remove(&entry.1);
        self.stats.evicted_chunks += 1;
    }

    /// Evicts some objects without a lease, if the store is used above its watermark or had no room.
    fn keep_below_watermark(&mut self, lacked_room: bool, now: Ticks) {
        let StoreEviction::Lease { watermark, share, .. } = self.eviction else { return };
        let (used, capacity, whole) = (u128::from(self.used()), u128::from(self.capacity), 1_000_000);
        let above = (used * whole).saturating_sub(capacity * u128::from(watermark));
        if above == 0 && !lacked_room {
            return;
        }
        // The share of the objects, and that of the store by which it is above the watermark, rounded up.
        let parts = used * (above + capacity * u128::from(share));
        let count = parts.div_ceil(whole * capacity) as usize;
        let free = self.by_rank.iter().filter(|(_, key)| self.objects[key].is_free(now));
        let gone: Vec<_> = free.take(count).copied().collect();
        for entry in gone {
            self.evict(entry);
        }
    }

    /// Writes chunks that there is room for, of `blocks` blocks, over the link of an instance.
    pub(crate) fn write(&mut self, keys: &[Key], blocks: u64, link: &mut Link, now: Ticks) -> Interval {
        let interval = link.send_through(&mut self.media[0], blocks, now);
        // The lease of a chunk that was written ends at once, which is its place among the others.
        let lease = if matches!(self.eviction, StoreEviction::Lease { .. }) { interval.ends } else { 0 };
        for &key in keys {
            self.use_object(key, lease);
            if let Some(object) = self.objects.get_mut(&key) {
                object.ready = interval.ends;
            }
        }
        self.stats.written_blocks += blocks;
        interval
    }

    /// Reads chunks that may be read, of `blocks` blocks, over the link of an instance.
    pub(crate) fn read(&mut self, keys: &[Key], blocks: u64, link: &mut Link, now: Ticks) -> Interval {
        let interval = link.send_through(&mut self.media[1], blocks, now);
        for &key in keys {
            let lease = match self.eviction {
                StoreEviction::Lease { ttl, .. } => now.saturating_add(ttl),
                StoreEviction::None | StoreEviction::Lru => 0,
            };
            self.use_object(key, lease);
            if let Some(object) = self.objects.get_mut(&key) {
                object.read_until = object.read_until.max(interval.ends);
            }
        }
        self.stats.read_blocks += blocks;
        interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEASE: StoreEviction = StoreEviction::Lease { ttl: 50, watermark: 800_000, share: 100_000 };

    fn store(chunks: u64, eviction: StoreEviction) -> ObjectStore {
        ObjectStore::new(&StoreConfig { chunks: Some(chunks), eviction, write: 0, read: 0 })
    }

    fn link(block: Ticks) -> Link {
        Link::new(CopyTime { fixed: 0, block })
    }

    /// Writes chunks in a tick each.
    fn write(store: &mut ObjectStore, keys: &[Key], now: Ticks) -> Vec<Key> {
        let taken = store.put(keys, now);
        store.write(&taken, taken.len() as u64, &mut link(1), now);
        taken
    }

    fn present(store: &mut ObjectStore, keys: impl Iterator<Item = Key>) -> Vec<Key> {
        keys.filter(|key| store.objects.contains_key(key)).collect()
    }

    #[test]
    fn a_chunk_is_read_once_it_has_been_written() {
        let mut store = store(9, StoreEviction::None);
        assert_eq!(write(&mut store, &[1, 2], 10), [1, 2]);
        assert_eq!([11, 12].map(|now| store.look_up(1, now)), [false, true]);
        assert!(store.holds(&[2, 1]) && !store.holds(&[2, 3, 1]), "it has no third");
        assert_eq!(write(&mut store, &[2, 3], 11), [3], "no chunk is written twice");
        store.read(&[1, 2], 7, &mut link(1), 12);
        assert_eq!((store.stats().written_blocks, store.stats().read_blocks), (3, 7));
    }

    #[test]
    fn a_chunk_may_be_evicted_at_the_moment_at_which_its_copies_and_its_lease_end() {
        let mut lru = store(1, StoreEviction::Lru);
        assert_eq!(write(&mut lru, &[1], 0), [1]);
        assert_eq!([0, 1].map(|now| lru.objects[&1].is_free(now)), [false, true]);
        lru.read(&[1], 1, &mut link(10), 5);
        assert_eq!([14, 15].map(|now| lru.objects[&1].is_free(now)), [false, true]);
        let mut leased = store(1, LEASE);
        assert_eq!(write(&mut leased, &[1], 0), [1]);
        assert!(leased.look_up(1, 3));
        assert_eq!([52, 53].map(|now| leased.objects[&1].is_free(now)), [false, true]);
    }

    #[test]
    fn a_full_store_takes_no_more_unless_it_evicts() {
        let mut full = store(2, StoreEviction::None);
        assert_eq!(write(&mut full, &[1, 2, 3], 0), [1, 2]);
        assert_eq!((full.stats.refused_chunks, full.stats.evicted_chunks), (1, 0));
        let mut lru = store(2, StoreEviction::Lru);
        assert_eq!(write(&mut lru, &[1, 2, 3], 0), [1, 2], "none is evicted for another of the same call");
        lru.read(&[1], 1, &mut link(10), 5);
        assert_eq!(write(&mut lru, &[4], 6), [4]);
        assert_eq!(present(&mut lru, 1..5), [1, 4], "the other one was used the longest ago");
        assert_eq!(write(&mut lru, &[5, 6], 6), [0; 0], "one is read, and one written");
        assert_eq!(write(&mut lru, &[5, 6], 20), [5, 6]);
    }

    #[test]
    fn chunks_without_a_lease_are_evicted_above_the_watermark() {
        // Above 8 of 10 chunks, a tenth of the chunks goes, and what is above 8 tenths of the store.
        let mut store = store(10, LEASE);
        assert_eq!(write(&mut store, &[1, 2, 3, 4, 5, 6, 7, 8], 0).len(), 8);
        assert!(store.look_up(1, 10) && store.look_up(2, 11));
        assert_eq!(write(&mut store, &[9], 20), [9]);
        // Of 9 chunks, 9 * (0.1 + 0.1) = 1.8. The two that were looked up have a lease until 60 and 61.
        assert_eq!(present(&mut store, 1..10), [1, 2, 5, 6, 7, 8, 9]);
        assert_eq!(store.stats.evicted_chunks, 2);
        for key in 5..10 {
            assert!(store.look_up(key, 30));
        }
        assert_eq!(write(&mut store, &[11, 12, 13, 14], 31), [11, 12, 13], "none may go");
        assert_eq!((store.stats.refused_chunks, store.stats.evicted_chunks), (1, 2));
        // The lack of room evicts 10 * (0.2 + 0.1) = 3 chunks. Those that were written by 34 go before 1 and 2.
        assert_eq!(write(&mut store, &[14], 61), [0; 0]);
        assert_eq!(present(&mut store, 1..15), [1, 2, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn the_chunk_that_was_written_first_is_evicted_first() {
        let mut lru = store(2, StoreEviction::Lru);
        for key in [2, 1] {
            assert_eq!(write(&mut lru, &[key], 0), [key]);
        }
        assert_eq!(write(&mut lru, &[3], 9), [3]);
        assert_eq!(present(&mut lru, 1..4), [1, 3]);
    }

    #[test]
    fn a_chunk_may_be_evicted_for_one_that_is_offered_before_it() {
        let mut lru = store(2, StoreEviction::Lru);
        assert_eq!(write(&mut lru, &[1, 2], 0), [1, 2]);
        assert_eq!(write(&mut lru, &[3, 1], 9), [3, 1], "1 leaves for 3, and then 2 for 1");
        assert_eq!((present(&mut lru, 1..4), lru.stats.evicted_chunks), (vec![1, 3], 2));
    }

    #[test]
    fn a_lack_of_room_evicts_below_the_watermark_too() {
        let mut store = store(4, StoreEviction::Lease { ttl: 50, watermark: 1_000_000, share: 250_000 });
        assert_eq!(write(&mut store, &[1, 2, 3, 4], 0), [1, 2, 3, 4]);
        assert_eq!(write(&mut store, &[5], 10), [0; 0]);
        assert_eq!(present(&mut store, 1..6), [2, 3, 4], "a quarter goes");
    }

    #[test]
    fn instances_share_the_bandwidth_of_a_store() {
        let config = StoreConfig { chunks: None, eviction: StoreEviction::None, write: 0, read: 6 };
        let mut store = ObjectStore::new(&config);
        let (mut one, mut other) = (link(10), link(10));
        let mut read = |link: &mut Link, now| store.read(&[], 5, link, now).ends;
        // Alone, the link of the instance limits: 5 * 10. The store gives 10 blocks out in 60.
        assert_eq!((read(&mut one, 0), read(&mut other, 0)), (50, 60));
        // The copies of one instance follow one another; the store has given 15 blocks out by 90.
        assert_eq!(read(&mut one, 0), 100);
    }

    proptest! {
        #[test]
        fn a_store_holds_no_more_than_fits_and_loses_nothing_under_way(
            rule in 0usize..3,
            capacity in 1u64..8,
            actions in prop::collection::vec((0u8..3, 0u64..12, 1u64..4, 0u64..30), 0..60),
        ) {
            let mut store = store(capacity, [StoreEviction::None, StoreEviction::Lru, LEASE][rule]);
            let (mut now, mut links, mut held) = (0, [link(3), link(2)], Vec::new());
            for (action, first, count, later) in actions {
                now += later;
                let keys: Vec<Key> = (first..first + count).collect();
                match action {
                    0 => {
                        let taken = store.put(&keys, now);
                        let ends = store.write(&taken, taken.len() as u64, &mut links[0], now).ends;
                        held.extend(taken.into_iter().map(|key| (key, ends)));
                    }
                    1 => {
                        let ready: Vec<Key> = keys.into_iter().filter(|&key| store.look_up(key, now)).collect();
                        let ends = store.read(&ready, ready.len() as u64, &mut links[1], now).ends;
                        held.extend(ready.into_iter().map(|key| (key, ends)));
                    }
                    _ => {}
                }
                prop_assert!(store.used() <= capacity);
                prop_assert_eq!(store.by_rank.len() as u64, store.used());
                held.retain(|&(_, ends)| ends > now);
                prop_assert!(held.iter().all(|(key, _)| store.objects.contains_key(key)));
            }
        }
    }
}
