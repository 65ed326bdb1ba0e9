//! How often each chunk has been offered to a tier.
//!
//! Follows the tracker of vLLM 0.33.0's `CPUOffloadingManager`, which counts the chunks that were offered last.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::{Chunk, Key};

/// Chunks whose offers are counted (`max_tracker_size` of `vllm/v1/kv_offload/cpu/manager.py`).
const MOST: usize = 64_000;

/// The offers of the chunks that were offered last.
#[derive(Debug)]
pub(super) struct Offers {
    threshold: u32,
    most: usize,
    /// When each was offered last, and how often it has been.
    counts: FxHashMap<Key, (u64, u32)>,
    by_time: BTreeMap<u64, Key>,
    time: u64,
}

impl Offers {
    pub(super) fn new(threshold: u32) -> Self {
        Self { threshold, most: MOST, counts: FxHashMap::default(), by_time: BTreeMap::new(), time: 0 }
    }

    /// Whether a chunk has been offered often enough.
    pub(super) fn suffice(&self, key: Key) -> bool {
        self.counts.get(&key).is_some_and(|&(_, count)| count >= self.threshold)
    }

    /// Counts an offer of chunks. None of them takes the place of another.
    pub(super) fn count(&mut self, offered: &[Chunk]) {
        let mut known = 0;
        for chunk in offered {
            if let Some((last, count)) = self.counts.get_mut(&chunk.key) {
                self.by_time.remove(last);
                self.time += 1;
                (*last, *count) = (self.time, *count + 1);
                self.by_time.insert(self.time, chunk.key);
                known += 1;
            }
        }
        let mut others = self.counts.len() - known;
        for chunk in offered {
            if self.counts.contains_key(&chunk.key) {
                continue;
            }
            if self.counts.len() >= self.most {
                if others == 0 {
                    continue;
                }
                if let Some((_, key)) = self.by_time.pop_first() {
                    self.counts.remove(&key);
                }
                others -= 1;
            }
            self.time += 1;
            self.counts.insert(chunk.key, (self.time, 1));
            self.by_time.insert(self.time, chunk.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chunk_that_was_offered_the_longest_ago_is_forgotten_first() {
        let mut offers = Offers { most: 2, ..Offers::new(2) };
        let offer = |offers: &mut Offers, keys: &[Key]| {
            let chunks: Vec<_> = keys.iter().map(|&key| Chunk { at: 0, key }).collect();
            offers.count(&chunks);
        };
        offer(&mut offers, &[1, 2]);
        offer(&mut offers, &[1]);
        offer(&mut offers, &[3]);
        offer(&mut offers, &[2]);
        assert_eq!([1, 2, 3].map(|key| offers.suffice(key)), [false, false, false]);
        offer(&mut offers, &[3, 2]);
        assert_eq!([1, 2, 3].map(|key| offers.suffice(key)), [false, true, true]);
        // None takes the place of another of the same offer.
        offer(&mut offers, &[2, 3, 4]);
        assert_eq!([2, 3, 4].map(|key| offers.suffice(key)), [true, true, false]);
        // One takes the place of the chunk that is not offered; for the next there is none.
        offer(&mut offers, &[3, 5, 6]);
        offer(&mut offers, &[5, 6]);
        assert_eq!([3, 5, 6].map(|key| offers.suffice(key)), [false, true, false]);
    }
}
