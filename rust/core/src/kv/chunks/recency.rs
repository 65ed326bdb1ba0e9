//! Eviction of the least recently used chunk.
//!
//! Follows `vllm/v1/kv_offload/cpu/policies/lru.py` of vLLM 0.33.0. While a request runs, its chunks have its rank, and
//! those later in its sequence go first. When it has finished, each chunk gets a rank of its own, the last one first.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::{Access, Chunk, Key};

/// The place of a chunk in the order of eviction: its rank, and how far it is from the end of the longest sequence.
type Rank = (u64, u32);

/// Chunks in the order of their use.
#[derive(Debug, Default)]
pub(super) struct Recency {
    ranks: FxHashMap<Key, Rank>,
    /// The chunks that are not copied, by rank.
    idle: BTreeSet<(Rank, Key)>,
    latest: u64,
}

impl Recency {
    fn next(&mut self) -> u64 {
        self.latest += 1;
        self.latest
    }

    /// The rank of a chunk by the request that uses it.
    fn by_request(&mut self, at: u32, access: &mut Access) -> Rank {
        let rank = match access.rank {
            Some(rank) => rank,
            None => *access.rank.insert(self.next()),
        };
        (rank, u32::MAX - at)
    }

    /// Adds a chunk that a request stores.
    pub(super) fn insert(&mut self, chunk: Chunk, access: &mut Access) {
        let rank = self.by_request(chunk.at, access);
        self.ranks.insert(chunk.key, rank);
    }

    /// A request accesses a chunk for the first time; it may not be in the tier yet.
    pub(super) fn access(&mut self, chunk: Chunk, access: &mut Access) {
        let rank = self.by_request(chunk.at, access);
        if self.ranks.get(&chunk.key).is_some_and(|&before| before < rank) {
            self.move_to(chunk.key, rank);
        }
    }

    /// Gives a chunk a rank of its own, if it is in the tier.
    pub(super) fn renew(&mut self, key: Key) {
        if self.ranks.contains_key(&key) {
            let rank = (self.next(), 0);
            self.move_to(key, rank);
        }
    }

    fn move_to(&mut self, key: Key, rank: Rank) {
        if let Some(before) = self.ranks.insert(key, rank)
            && self.idle.remove(&(before, key))
        {
            self.idle.insert((rank, key));
        }
    }

    /// Notes whether a chunk is idle, and may be evicted.
    pub(super) fn set_idle(&mut self, key: Key, idle: bool) {
        let Some(&rank) = self.ranks.get(&key) else { return };
        if idle {
            self.idle.insert((rank, key));
        } else {
            self.idle.remove(&(rank, key));
        }
    }

    /// Removes the first `count` chunks that may go, or none if there are fewer.
    pub(super) fn evict(&mut self, count: usize, may_go: impl Fn(Key) -> bool) -> Option<Vec<Key>> {
        let able = self.idle.iter().filter(|(_, key)| may_go(*key)).take(count);
        let gone: Vec<(Rank, Key)> = able.copied().collect();
        if gone.len() < count {
            return None;
        }
        for entry in &gone {
            self.idle.remove(entry);
            self.ranks.remove(&entry.1);
        }
        Some(gone.into_iter().map(|(_, key)| key).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_a_running_request_have_its_rank() {
        let (mut order, mut old, mut new) = (Recency::default(), Access::default(), Access::default());
        for at in 0..3 {
            order.insert(Chunk { at, key: u64::from(at) }, &mut old);
            order.set_idle(u64::from(at), true);
        }
        order.insert(Chunk { at: 1, key: 7 }, &mut new);
        order.set_idle(7, true);
        // The newer request also uses the first chunk of the older one.
        order.access(Chunk { at: 0, key: 0 }, &mut new);
        assert_eq!(order.evict(5, |_| true), None, "there are four");
        assert_eq!(
            order.evict(2, |key| key != 2),
            Some(vec![1, 7]),
            "one of equal rank that came later goes first"
        );
        assert_eq!(order.evict(2, |_| true), Some(vec![2, 0]));
    }

    #[test]
    fn a_finished_request_gives_each_chunk_a_rank() {
        let (mut order, mut access) = (Recency::default(), Access::default());
        for key in [1, 2] {
            order.insert(Chunk { at: key as u32, key }, &mut access);
            order.set_idle(key, true);
        }
        order.renew(1);
        order.renew(2);
        assert_eq!(order.evict(1, |_| true), Some(vec![1]));
    }
}
