//! Eviction of the least recently used chunk.
//!
//! Follows `vllm/v1/kv_offload/cpu/policies/lru.py` of vLLM 0.33.0. While a request runs, its chunks have its rank, and
//! those later in its sequence go first. When it has finished, its chunks get the highest rank, and go in the same order.

use std::collections::BTreeMap;

use super::{Access, Chunk, Key};
use crate::collections::PagedMap;

/// Lists that have fewer chunks are not compacted.
const LEAST_COMPACTED: usize = if cfg!(test) { 4 } else { 64 };

/// The place of a chunk in the order of eviction.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// Of the request that used it.
    rank: u64,
    /// In that request's sequence.
    at: u32,
    /// Whether it is not copied.
    idle: bool,
    /// Whether it is listed by this rank.
    listed: bool,
}

/// Chunks in the order of their use.
#[derive(Debug, Default)]
pub(super) struct Recency {
    places: PagedMap<Place>,
    /// The chunks of each rank in the order of the sequence: all that are not copied. Others are taken out where they are met.
    ranks: BTreeMap<u64, Vec<(u32, Key)>>,
    /// How many are listed, by ranks that they have no more too.
    listed: usize,
    latest: u64,
}

impl Recency {
    fn next(&mut self) -> u64 {
        self.latest += 1;
        self.latest
    }

    /// The rank of the chunks of a request that runs.
    fn of_request(&mut self, access: &mut Access) -> u64 {
        match access.rank {
            Some(rank) => rank,
            None => *access.rank.insert(self.next()),
        }
    }

    /// Adds a chunk that a request stores.
    pub(super) fn insert(&mut self, chunk: Chunk, access: &mut Access) {
        let rank = self.of_request(access);
        self.places.insert(chunk.key, Place { rank, at: chunk.at, idle: false, listed: false });
    }

    /// A request accesses a chunk for the first time; it may not be in the tier yet.
    pub(super) fn access(&mut self, chunk: Chunk, access: &mut Access) {
        let rank = self.of_request(access);
        if self.places.get(chunk.key).is_some_and(|place| place.rank < rank) {
            self.move_to(rank, chunk);
        }
    }

    /// A request has finished with these chunks, in the order of its sequence, of which some may be in the tier.
    pub(super) fn finish(&mut self, chunks: impl Iterator<Item = Chunk>) {
        let rank = self.next();
        chunks.for_each(|chunk| self.move_to(rank, chunk));
    }

    /// Gives a chunk another rank, if it is in the tier.
    fn move_to(&mut self, rank: u64, chunk: Chunk) {
        if let Some(place) = self.places.get_mut(chunk.key) {
            *place = Place { rank, at: chunk.at, listed: false, ..*place };
            self.listed += list(&mut self.ranks, place, chunk.key);
            self.compact();
        }
    }

    /// Notes whether a chunk is idle, and may be evicted.
    pub(super) fn set_idle(&mut self, key: Key, idle: bool) {
        if let Some(place) = self.places.get_mut(key) {
            place.idle = idle;
            self.listed += list(&mut self.ranks, place, key);
            self.compact();
        }
    }

    /// Takes out what is listed by a rank that it has no more, or is copied, once that is most of all.
    fn compact(&mut self) {
        if self.listed <= 2 * self.places.len() + LEAST_COMPACTED {
            return;
        }
        let places = &mut self.places;
        self.ranks.retain(|&rank, chunks| {
            chunks.retain(|&(_, key)| {
                let place = places.get_mut(key).filter(|place| place.rank == rank);
                place.is_some_and(|place| {
                    place.listed = place.idle;
                    place.idle
                })
            });
            !chunks.is_empty()
        });
        self.listed = self.ranks.values().map(Vec::len).sum();
    }

    /// Removes the first `count` chunks that may go, or none if there are fewer.
    pub(super) fn evict(&mut self, count: usize, may_go: impl Fn(Key) -> bool) -> Option<Vec<Key>> {
        let (places, mut gone) = (&mut self.places, Vec::new());
        for (&rank, chunks) in &mut self.ranks {
            for at in (0..chunks.len()).rev() {
                if gone.len() == count {
                    break;
                }
                let key = chunks[at].1;
                let place = places.get_mut(key).filter(|place| place.rank == rank);
                if place.as_ref().is_some_and(|place| place.idle) {
                    if may_go(key) {
                        gone.push((rank, at, key));
                    }
                } else if at + 1 == chunks.len() {
                    chunks.pop();
                    self.listed -= 1;
                    if let Some(place) = place {
                        place.listed = false;
                    }
                }
            }
            if gone.len() == count {
                break;
            }
        }
        if gone.len() < count {
            return None;
        }
        self.listed -= gone.len();
        for &(rank, at, key) in &gone {
            self.places.remove(key);
            self.ranks.entry(rank).and_modify(|chunks| _ = chunks.remove(at));
        }
        while let Some(first) = self.ranks.first_entry().filter(|first| first.get().is_empty()) {
            first.remove();
        }
        Some(gone.into_iter().map(|(.., key)| key).collect())
    }
}

/// Lists a chunk by its rank, if it is idle and is not listed. Returns how many chunks it listed.
fn list(ranks: &mut BTreeMap<u64, Vec<(u32, Key)>>, place: &mut Place, key: Key) -> usize {
    if !place.idle || std::mem::replace(&mut place.listed, true) {
        return 0;
    }
    let chunks = ranks.entry(place.rank).or_default();
    let index = match chunks.last() {
        Some(last) if last.0 > place.at => chunks.partition_point(|&(at, _)| at < place.at),
        _ => chunks.len(),
    };
    chunks.insert(index, (place.at, key));
    1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
    fn the_chunks_of_a_request_that_has_finished_last_go_last() {
        let (mut order, mut first, mut second) = (Recency::default(), Access::default(), Access::default());
        let chunks = [1, 2, 3, 4].map(|key| Chunk { at: key as u32, key });
        for chunk in chunks {
            order.insert(chunk, if chunk.key < 3 { &mut first } else { &mut second });
            order.set_idle(chunk.key, true);
        }
        order.finish(chunks[2..].iter().copied());
        order.finish(chunks[..2].iter().copied().chain([Chunk { at: 9, key: 9 }]));
        assert_eq!(order.evict(4, |_| true), Some(vec![4, 3, 2, 1]));
    }

    #[test]
    fn chunks_that_are_used_again_and_again_are_not_listed_again_and_again() {
        let (mut order, mut access) = (Recency::default(), Access::default());
        let chunks = [1, 2, 3].map(|key| Chunk { at: key as u32, key });
        for chunk in chunks {
            order.insert(chunk, &mut access);
            order.set_idle(chunk.key, true);
        }
        order.set_idle(2, false);
        for _ in 0..1000 {
            order.finish(chunks.into_iter());
        }
        assert!(order.listed <= LEAST_COMPACTED + 6, "{} are listed", order.listed);
        order.set_idle(2, true);
        assert_eq!(order.evict(3, |_| true), Some(vec![3, 2, 1]));
        assert_eq!((order.listed, order.ranks.len()), (0, 0));
    }

    /// Chunks by what is documented: each has a rank, and those of equal rank go by their place.
    #[derive(Default)]
    struct Naive {
        chunks: Vec<(u64, u32, Key, bool)>,
    }

    proptest! {
        #[test]
        fn the_order_is_by_rank_and_then_from_the_end_of_the_sequence(
            actions in prop::collection::vec((0u8..5, 0usize..3, 0u32..6, 0usize..4), 0..80),
        ) {
            let (mut order, mut naive, mut latest) = (Recency::default(), Naive::default(), 0);
            let mut accesses: Vec<Access> = (0..3).map(|_| Access::default()).collect();
            let rank_of = |access: &Access, latest: &mut u64| access.rank.unwrap_or_else(|| { *latest += 1; *latest });
            for (action, request, at, count) in actions {
                let chunk = Chunk { at, key: u64::from(at) };
                let known = naive.chunks.iter().position(|known| known.2 == chunk.key);
                let access = &mut accesses[request];
                match (action, known) {
                    (0, None) => {
                        naive.chunks.push((rank_of(access, &mut latest), at, chunk.key, false));
                        order.insert(chunk, access);
                    }
                    (1, _) => {
                        let rank = rank_of(access, &mut latest);
                        if let Some(known) = known {
                            naive.chunks[known].0 = naive.chunks[known].0.max(rank);
                        }
                        order.access(chunk, access);
                    }
                    (2, Some(known)) => {
                        naive.chunks[known].3 ^= true;
                        order.set_idle(chunk.key, naive.chunks[known].3);
                    }
                    (3, _) => {
                        latest += 1;
                        let finished = at..at + count as u32;
                        for known in naive.chunks.iter_mut().filter(|known| finished.contains(&known.1)) {
                            known.0 = latest;
                        }
                        order.finish(finished.map(|at| Chunk { at, key: u64::from(at) }));
                        *access = Access::default();
                    }
                    (4, _) => {
                        naive.chunks.sort_by_key(|&(rank, at, ..)| (rank, u32::MAX - at));
                        let may_go = |key: Key| key != chunk.key;
                        let able = naive.chunks.iter().filter(|known| known.3 && may_go(known.2));
                        let gone: Vec<Key> = able.take(count).map(|known| known.2).collect();
                        let all = gone.len() == count;
                        prop_assert_eq!(order.evict(count, may_go), all.then(|| gone.clone()));
                        naive.chunks.retain(|known| !all || !gone.contains(&known.2));
                    }
                    _ => {}
                }
            }
        }
    }
}
