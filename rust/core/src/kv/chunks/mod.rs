//! Chunks of KV in a tier below the GPU: which are there, which are copied, and which are evicted next.
//!
//! Follows vLLM 0.33.0 (`vllm/v1/kv_offload/cpu/manager.py`, `cpu/policies/`). A chunk is some consecutive blocks of a
//! prefix, and its key stands for the whole prefix up to its end. A chunk that is stored is pending until its copy has
//! ended, and may then be read by any number of loads. It can be evicted while it is neither pending nor read. Instances
//! and requests are not known here: a request is what it has done with chunks, its [`Access`].

mod access;
mod adaptive;
mod binary64;
mod offers;
mod recency;

pub(crate) use access::Access;

use self::adaptive::Adaptive;
use self::offers::Offers;
use self::recency::Recency;
use crate::collections::PagedMap;
use crate::config::Eviction;

/// The content of a chunk and of all before it, as a number that is equal for equal prefixes.
pub(crate) type Key = u64;

/// A chunk of a request: its place in the request's sequence, and its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) at: u32,
    pub(crate) key: Key,
}

/// The answer of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The chunk is not there.
    Missing,
    /// It is being stored.
    Pending,
    /// It is there. `loading`: a load reads it.
    Ready { loading: bool },
}

/// The state of a chunk in the tier.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    /// Loads that read it; [`PENDING`] while it is stored.
    readers: i32,
    /// Of these, the loads for which requests wait.
    awaited: i32,
    /// The latest call in which the chunk was offered: it is not evicted for others of that call.
    call: u64,
}

const PENDING: i32 = -1;

/// Which chunks are evicted first.
#[derive(Debug)]
enum Order {
    Recency(Recency),
    Adaptive(Adaptive),
}

/// The chunks of a tier.
#[derive(Debug)]
pub(crate) struct ChunkStore {
    capacity: u64,
    entries: PagedMap<Entry>,
    order: Order,
    /// Counts of offers, if a chunk is stored only after several.
    offers: Option<Offers>,
    /// Chunks that could be evicted.
    idle: u64,
    /// Calls of [`Self::store`] so far.
    calls: u64,
    /// Chunks evicted so far.
    evicted: u64,
}

impl ChunkStore {
    /// An empty tier with room for `capacity` chunks. `threshold`: the offers of a chunk before it is stored.
    pub(crate) fn new(capacity: u64, eviction: Eviction, threshold: u32) -> Self {
        let order = match eviction {
            Eviction::Lru => Order::Recency(Recency::default()),
            Eviction::Arc => Order::Adaptive(Adaptive::new(capacity)),
        };
        Self {
            capacity,
            entries: PagedMap::default(),
            order,
            offers: (threshold > 1).then(|| Offers::new(threshold)),
            idle: 0,
            calls: 0,
            evicted: 0,
        }
    }

    /// Chunks in the tier, pending ones among them.
    pub(crate) fn used(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Chunks evicted so far.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Looks a chunk up.
    pub(crate) fn find(&self, key: Key) -> Found {
        match self.entries.get(key) {
            None => Found::Missing,
            Some(entry) if entry.readers == PENDING => Found::Pending,
            Some(entry) => Found::Ready { loading: entry.awaited > 0 },
        }
    }

    /// Stores those of a request's chunks that are not in the tier, and returns them; `None` if they lack room, and nothing
    /// is stored. Chunks of the same call are not evicted for each other.
    pub(crate) fn store(&mut self, offered: &[Chunk], access: &mut Access) -> Option<Vec<Chunk>> {
        self.calls += 1;
        if let Some(offers) = &mut self.offers {
            offers.count(offered);
        }
        let (mut stored, mut touched) = (Vec::new(), Vec::new());
        for &chunk in offered {
            match self.entries.get_mut(chunk.key) {
                Some(entry) => {
                    entry.call = self.calls;
                    if entry.readers != PENDING {
                        touched.push((chunk, true));
                    }
                }
                None => {
                    if self.offers.as_ref().is_none_or(|offers| offers.suffice(chunk.key)) {
                        stored.push(chunk);
                        touched.push((chunk, false));
                    }
                }
            }
        }
        if let Order::Adaptive(order) = &mut self.order {
            for chunk in stored.iter().rev().filter(|chunk| !access.has_missed(chunk.at)) {
                order.adapt(chunk.key);
            }
        }
        for chunk in &stored {
            access.miss(chunk.at);
        }
        self.touch(&touched, access);
        let excess = (self.used() + stored.len() as u64).saturating_sub(self.capacity);
        if excess > 0 && !self.evict(excess) {
            return None;
        }
        for &chunk in &stored {
            self.entries.insert(chunk.key, Entry { readers: PENDING, awaited: 0, call: self.calls });
            match &mut self.order {
                Order::Recency(order) => order.insert(chunk, access),
                Order::Adaptive(order) => order.insert(chunk.key),
            }
            access.store(chunk.at);
        }
        Some(stored)
    }

    /// Evicts so many chunks, or none. Returns whether there were as many.
    fn evict(&mut self, count: u64) -> bool {
        if count > self.idle {
            return false;
        }
        let (entries, calls) = (&self.entries, self.calls);
        let may_go =
            |key: Key| entries.get(key).is_some_and(|entry| entry.readers == 0 && entry.call != calls);
        let gone = match &mut self.order {
            Order::Recency(order) => order.evict(count as usize, may_go),
            Order::Adaptive(order) => order.evict(count as usize, may_go),
        };
        let Some(gone) = gone else { return false };
        for key in gone {
            self.entries.remove(key);
        }
        self.idle -= count;
        self.evicted += count;
        true
    }

    /// Notes the access of a request to chunks, and whether each was ready.
    fn touch(&mut self, touched: &[(Chunk, bool)], access: &mut Access) {
        for &(chunk, ready) in touched {
            if access.see(chunk)
                && let Order::Recency(order) = &mut self.order
            {
                order.access(chunk, access);
            }
            if ready {
                access.reuse(chunk.at);
            }
        }
    }

    /// The copy of chunks to the tier has ended.
    pub(crate) fn end_store(&mut self, keys: &[Key]) {
        for &key in keys {
            self.change(key, |entry| entry.readers = 0);
        }
    }

    /// Begins to load chunks that are ready. `awaited`: a request waits for that.
    pub(crate) fn load(&mut self, chunks: &[Chunk], awaited: bool, access: &mut Access) {
        let touched: Vec<_> = chunks.iter().map(|&chunk| (chunk, true)).collect();
        for chunk in chunks {
            self.change(chunk.key, |entry| {
                debug_assert!(entry.readers != PENDING, "Invariant: only chunks that are ready are loaded");
                entry.readers += 1;
                entry.awaited += i32::from(awaited);
            });
        }
        self.touch(&touched, access);
    }

    /// Keeps chunks that are ready until as many loads of them have ended: they are copied to a tier below, which is no use
    /// by a request.
    pub(crate) fn hold(&mut self, chunks: &[Chunk]) {
        for chunk in chunks {
            self.change(chunk.key, |entry| entry.readers += 1);
        }
    }

    /// Ends the load of chunks.
    pub(crate) fn end_load(&mut self, keys: &[Key], awaited: bool) {
        for &key in keys {
            self.change(key, |entry| {
                entry.readers -= 1;
                entry.awaited -= i32::from(awaited);
            });
        }
    }

    /// Changes the readers of a chunk, and whether it can be evicted.
    fn change(&mut self, key: Key, change: impl FnOnce(&mut Entry)) {
        let Some(entry) = self.entries.get_mut(key) else {
            debug_assert!(false, "Invariant: a chunk that is copied is in the tier");
            return;
        };
        let before = entry.readers == 0;
        change(entry);
        let now = entry.readers == 0;
        if before == now {
            return;
        }
        self.idle = if now { self.idle + 1 } else { self.idle - 1 };
        if let Order::Recency(order) = &mut self.order {
            order.set_idle(key, now);
        }
    }

    /// A request has finished. Its chunks are ordered anew, the last of its sequence to be evicted first.
    pub(crate) fn finish(&mut self, access: &Access) {
        match &mut self.order {
            Order::Recency(order) => order.finish(access.last_first().rev().map(|(chunk, _)| chunk)),
            Order::Adaptive(order) => {
                access.last_first().for_each(|(chunk, uses)| order.finish(chunk.key, uses));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Chunks of one sequence, whose keys are those numbers.
    fn chunks(keys: &[Key]) -> Vec<Chunk> {
        keys.iter().zip(0..).map(|(&key, at)| Chunk { at, key }).collect()
    }

    fn store_at_once(store: &mut ChunkStore, keys: &[Key], access: &mut Access) -> Option<Vec<Key>> {
        let stored: Option<Vec<Key>> =
            store.store(&chunks(keys), access).map(|stored| stored.iter().map(|chunk| chunk.key).collect());
        store.end_store(stored.as_deref().unwrap_or_default());
        stored
    }

    #[test]
    fn the_tail_of_a_request_is_evicted_before_its_head() {
        let mut store = ChunkStore::new(3, Eviction::Lru, 0);
        let (mut first, mut second) = (Access::default(), Access::default());
        assert_eq!(store_at_once(&mut store, &[10, 11], &mut first), Some(vec![10, 11]));
        assert_eq!(store_at_once(&mut store, &[20], &mut second), Some(vec![20]));
        store.finish(&second);
        store.finish(&first);
        // The chunk of the second request was used the longest ago; then the tail of the first goes.
        assert_eq!(store_at_once(&mut store, &[30], &mut Access::default()), Some(vec![30]));
        assert_eq!((store.find(20), store.find(11)), (Found::Missing, Found::Ready { loading: false }));
        assert_eq!(store_at_once(&mut store, &[31], &mut Access::default()), Some(vec![31]));
        assert_eq!((store.find(11), store.find(10)), (Found::Missing, Found::Ready { loading: false }));
    }

    #[test]
    fn a_chunk_that_lacked_room_moves_the_target_once_for_a_request() {
        let mut store = ChunkStore::new(2, Eviction::Arc, 0);
        for keys in [[1, 2], [3, 4]] {
            assert!(store_at_once(&mut store, &keys, &mut Access::default()).is_some());
        }
        store.load(&chunks(&[3, 4]), false, &mut Access::default());
        let target = |store: &ChunkStore| match &store.order {
            Order::Adaptive(order) => order.whole_target(),
            Order::Recency(_) => unreachable!(),
        };
        let mut requests = [Access::default(), Access::default()];
        for (request, moved) in [(0, 1), (0, 1), (1, 2)] {
            let access = &mut requests[request];
            assert_eq!(store.store(&chunks(&[1]), access), None, "both chunks are read");
            assert_eq!(target(&store), moved);
        }
    }

    #[test]
    fn chunks_that_are_copied_are_not_evicted() {
        for eviction in [Eviction::Lru, Eviction::Arc] {
            let (mut store, mut access) = (ChunkStore::new(2, eviction, 0), Access::default());
            let pending = store.store(&chunks(&[1, 2]), &mut access).expect("the tier is empty");
            assert_eq!(store.find(1), Found::Pending);
            assert_eq!(store_at_once(&mut store, &[3], &mut Access::default()), None);
            store.end_store(&[1, 2]);
            store.load(&pending[..1], true, &mut access);
            assert_eq!(store.find(1), Found::Ready { loading: true });
            assert_eq!(store_at_once(&mut store, &[3], &mut Access::default()), Some(vec![3]));
            assert_eq!((store.find(2), store.used(), store.evicted()), (Found::Missing, 2, 1));
            // No chunk is evicted for others of the same call.
            store.end_load(&[1], true);
            assert_eq!(store_at_once(&mut store, &[1, 8, 9], &mut Access::default()), None);
            assert_eq!(store.find(1), Found::Ready { loading: false });
        }
    }

    #[test]
    fn a_chunk_is_stored_once_it_was_offered_often_enough() {
        let mut store = ChunkStore::new(4, Eviction::Lru, 2);
        assert_eq!(store_at_once(&mut store, &[1], &mut Access::default()), Some(vec![]));
        assert_eq!(store_at_once(&mut store, &[1, 2], &mut Access::default()), Some(vec![1]));
        assert_eq!(store_at_once(&mut store, &[1, 2], &mut Access::default()), Some(vec![2]));
    }

    #[test]
    fn a_chunk_that_needs_one_offer_is_stored_however_many_are_offered() {
        // Of chunks that need more, a limited number is remembered (`offers.rs`).
        let keys: Vec<Key> = (0..70_000).collect();
        let mut store = ChunkStore::new(70_000, Eviction::Lru, 1);
        assert_eq!(store_at_once(&mut store, &keys, &mut Access::default()), Some(keys));
    }

    #[test]
    fn chunks_that_a_request_found_outlive_those_that_were_stored_once() {
        let (mut store, mut access) = (ChunkStore::new(2, Eviction::Arc, 0), Access::default());
        store_at_once(&mut store, &[1], &mut access);
        store.finish(&access);
        let mut again = Access::default();
        assert_eq!(store_at_once(&mut store, &[1], &mut again), Some(vec![]), "it is there");
        store.finish(&again);
        store_at_once(&mut store, &[2], &mut Access::default());
        // Chunk 1 was used again, and chunk 2 is newer.
        assert_eq!(store_at_once(&mut store, &[3], &mut Access::default()), Some(vec![3]));
        assert_eq!((store.find(2), store.find(1)), (Found::Missing, Found::Ready { loading: false }));
    }

    proptest! {
        #[test]
        fn a_tier_holds_no_more_than_fits_and_counts_what_can_be_evicted(
            adaptive in any::<bool>(),
            capacity in 1u64..8,
            actions in prop::collection::vec((0u8..4, 0usize..4, 0u64..12, 1u64..4), 0..60),
        ) {
            let eviction = if adaptive { Eviction::Arc } else { Eviction::Lru };
            let mut store = ChunkStore::new(capacity, eviction, 0);
            let mut accesses: Vec<Access> = (0..4).map(|_| Access::default()).collect();
            for (action, request, first, count) in actions {
                let keys: Vec<Key> = (first..first + count).collect();
                let offered: Vec<Chunk> = keys.iter().map(|&key| Chunk { at: key as u32, key }).collect();
                match action {
                    0 => {
                        let before = store.used();
                        let stored = store.store(&offered, &mut accesses[request]);
                        prop_assert!(stored.is_some() || store.used() == before);
                    }
                    1 => {
                        let pending: Vec<Key> =
                            keys.into_iter().filter(|&key| store.find(key) == Found::Pending).collect();
                        store.end_store(&pending);
                    }
                    2 => {
                        let ready = offered.into_iter();
                        let ready: Vec<Chunk> =
                            ready.filter(|chunk| matches!(store.find(chunk.key), Found::Ready { .. })).collect();
                        store.load(&ready, true, &mut accesses[request]);
                        let keys: Vec<Key> = ready.iter().map(|chunk| chunk.key).collect();
                        store.end_load(&keys, true);
                    }
                    _ => store.finish(&std::mem::take(&mut accesses[request])),
                }
                prop_assert!(store.used() <= capacity);
                let idle = (0..16).filter_map(|key| store.entries.get(key)).filter(|entry| entry.readers == 0).count();
                prop_assert_eq!(idle as u64, store.idle);
            }
        }
    }
}
