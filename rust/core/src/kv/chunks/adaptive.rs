//! Adaptive replacement of chunks (ARC).
//!
//! Follows `vllm/v1/kv_offload/cpu/policies/arc.py` of vLLM 0.33.0. Chunks that were stored once and chunks that were
//! used again are two lists, each by recency. Chunks evicted from either are remembered. If a request stores one of those
//! again, the target for the chunks stored once moves: up if it came from their list, and down if from the other.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::Key;
use super::access::Uses;
use super::binary64::Binary64;

/// Keys in the order of their latest use.
#[derive(Debug, Default)]
struct ByUse {
    keys: BTreeMap<u64, Key>,
    times: FxHashMap<Key, u64>,
}

impl ByUse {
    fn len(&self) -> u64 {
        self.times.len() as u64
    }

    fn has(&self, key: Key) -> bool {
        self.times.contains_key(&key)
    }

    /// Adds a key behind all others, or moves it there.
    fn use_now(&mut self, key: Key, time: u64) {
        if let Some(before) = self.times.insert(key, time) {
            self.keys.remove(&before);
        }
        self.keys.insert(time, key);
    }

    /// Removes a key. Returns whether it was there.
    fn remove(&mut self, key: Key) -> bool {
        let Some(time) = self.times.remove(&key) else { return false };
        self.keys.remove(&time);
        true
    }

    /// Removes the keys used the longest ago, down to `most`.
    fn trim(&mut self, most: u64) {
        while self.len() > most {
            let Some((_, key)) = self.keys.pop_first() else { return };
            self.times.remove(&key);
        }
    }
}

/// Chunks in two lists, with a target for the first.
#[derive(Debug)]
pub(super) struct Adaptive {
    capacity: u64,
    target: Binary64,
    once: ByUse,
    again: ByUse,
    /// Evicted from `once` and from `again`.
    lost_once: ByUse,
    lost_again: ByUse,
    time: u64,
}

impl Adaptive {
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            capacity,
            target: Binary64::ZERO,
            once: ByUse::default(),
            again: ByUse::default(),
            lost_once: ByUse::default(),
            lost_again: ByUse::default(),
            time: 0,
        }
    }

    #[cfg(test)]
    pub(super) fn whole_target(&self) -> u64 {
        self.target.floor()
    }

    fn tick(&mut self) -> u64 {
        self.time += 1;
        self.time
    }

    /// A chunk is to be stored that is not there: moves the target, if the chunk was evicted.
    pub(super) fn adapt(&mut self, key: Key) {
        let time = self.tick();
        let (once, again) = (self.lost_once.len(), self.lost_again.len());
        let share = |of: u64, by: u64| Binary64::quotient(of, by).max(Binary64::whole(1));
        if self.lost_once.has(key) {
            self.target = self.target.plus(share(again, once)).min(Binary64::whole(self.capacity));
            self.lost_once.use_now(key, time);
        } else if self.lost_again.has(key) {
            self.target = self.target.minus(share(once, again));
            self.lost_again.use_now(key, time);
        }
    }

    /// Adds a chunk that is stored.
    pub(super) fn insert(&mut self, key: Key) {
        let time = self.tick();
        self.once.use_now(key, time);
        self.lost_once.remove(key);
        self.lost_again.remove(key);
    }

    /// A request has finished that used a chunk.
    pub(super) fn finish(&mut self, key: Key, uses: Uses) {
        let time = self.tick();
        if uses.stored && !uses.reused {
            for part in [&mut self.once, &mut self.again] {
                if part.has(key) {
                    part.use_now(key, time);
                }
            }
        } else if uses.reused && (self.once.remove(key) || self.again.has(key)) {
            self.again.use_now(key, time);
        }
    }

    /// Removes `count` chunks that may go, or none if there are fewer. A chunk stored once goes while there are as many as
    /// the target says, else one that was used again; if the one list has none, one of the other.
    pub(super) fn evict(&mut self, count: usize, may_go: impl Fn(Key) -> bool) -> Option<Vec<Key>> {
        let target = self.target.floor();
        let mut left = self.once.len();
        let mut once = self.once.keys.values().copied().filter(|&key| may_go(key)).peekable();
        let mut again = self.again.keys.values().copied().filter(|&key| may_go(key)).peekable();
        let mut gone = Vec::with_capacity(count);
        for _ in 0..count {
            let first = if left >= target { once.next() } else { None };
            let (key, was_once) = match first {
                Some(key) => (key, true),
                None => match again.next() {
                    Some(key) => (key, false),
                    None => (once.next()?, true),
                },
            };
            left -= u64::from(was_once);
            gone.push((key, was_once));
        }
        for &(key, was_once) in &gone {
            let time = self.tick();
            let (part, lost) = if was_once {
                (&mut self.once, &mut self.lost_once)
            } else {
                (&mut self.again, &mut self.lost_again)
            };
            part.remove(key);
            lost.use_now(key, time);
        }
        self.lost_once.trim(self.capacity);
        self.lost_again.trim(self.capacity);
        Some(gone.into_iter().map(|(key, _)| key).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(stored: bool, reused: bool) -> Uses {
        Uses { seen: true, stored, reused, ..Uses::default() }
    }

    #[test]
    fn an_evicted_chunk_that_is_stored_again_moves_the_target() {
        let mut order = Adaptive::new(4);
        (0..4).for_each(|key| order.insert(key));
        for key in [2, 3] {
            order.finish(key, uses(false, true));
        }
        // With a target of 0, chunks stored once go first.
        assert_eq!(order.evict(2, |_| true), Some(vec![0, 1]));
        order.adapt(0);
        order.insert(0);
        assert_eq!(order.target.floor(), 1);
        order.insert(5);
        // Two are stored once, and the target is one: 0 goes. Then one is, as the target says, and it goes too.
        assert_eq!(order.evict(2, |_| true), Some(vec![0, 5]));
        // Below the target, a chunk that was used again goes.
        assert_eq!(order.evict(1, |_| true), Some(vec![2]));
        order.adapt(2);
        assert_eq!(order.target, Binary64::ZERO, "three lost of one list by one of the other is more than 1");
        assert_eq!(order.evict(2, |_| true), None);
    }

    #[test]
    fn each_chunk_that_goes_leaves_one_fewer_for_the_target() {
        let mut order = Adaptive::new(4);
        (0..4).for_each(|key| order.insert(key));
        assert_eq!(order.evict(2, |_| true), Some(vec![0, 1]));
        (0..2).for_each(|key| order.adapt(key));
        // Stored and used again later, it is in the other list; what was neither stays where it is.
        order.finish(3, uses(true, true));
        order.finish(2, uses(false, false));
        order.insert(5);
        assert_eq!((order.whole_target(), order.once.len(), order.again.len()), (2, 2, 1));
        assert_eq!(
            order.evict(2, |_| true),
            Some(vec![2, 3]),
            "one stored once is left, fewer than the target"
        );
    }

    #[test]
    fn as_many_evicted_chunks_are_remembered_as_the_tier_has() {
        let mut order = Adaptive::new(2);
        (0..3).for_each(|key| order.insert(key));
        assert_eq!(order.evict(3, |_| true), Some(vec![0, 1, 2]));
        assert_eq!([0, 1, 2].map(|key| order.lost_once.has(key)), [false, true, true]);
    }

    #[test]
    fn a_chunk_that_was_only_stored_stays_in_its_list() {
        let mut order = Adaptive::new(2);
        order.insert(1);
        order.insert(2);
        order.finish(1, uses(true, false));
        assert_eq!((order.once.len(), order.again.len()), (2, 0));
        assert_eq!(order.evict(1, |_| true), Some(vec![2]), "the other was used later");
    }
}
