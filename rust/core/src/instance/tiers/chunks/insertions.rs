//! How often requests have inserted chunks into the prefix cache, while the GPU has them.

use rustc_hash::FxHashMap;

use crate::config::Write;
use crate::kv::StoredChunk;

/// The insertions of chunks, and the contents that the GPU has lost.
#[derive(Debug)]
pub(super) struct Insertions {
    /// Insertions of a chunk before it is stored.
    least: u32,
    /// Those of the chunks that the GPU has, where more than one is needed.
    counts: FxHashMap<u64, u32>,
    /// The contents that the GPU has lost and that are to be stored, where these are.
    lost: Option<Vec<u64>>,
}

impl Insertions {
    pub(super) fn new(write: Write) -> Self {
        Self {
            least: write.insertions().unwrap_or(0),
            counts: FxHashMap::default(),
            lost: (write == Write::Back).then(Vec::new),
        }
    }

    /// The GPU has lost these contents: their insertions do not count any more.
    pub(super) fn lose(&mut self, keys: &[u64]) {
        for key in keys {
            self.counts.remove(key);
        }
        self.lost.iter_mut().for_each(|lost| lost.extend_from_slice(keys));
    }

    /// The contents that the GPU has lost and that are to be stored, in that order, once.
    pub(super) fn take_lost(&mut self) -> Vec<u64> {
        self.lost.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// A request inserts consecutive chunks. Returns how many of the first are to be stored: all up to the last one that was
    /// inserted often enough.
    pub(super) fn insert(&mut self, chunks: &[StoredChunk]) -> usize {
        if self.least < 2 {
            return chunks.len();
        }
        let mut last = 0;
        for (chunk, place) in std::iter::zip(chunks, 1..) {
            let count = self.counts.entry(chunk.key).or_insert(0);
            *count = count.saturating_add(1);
            if *count >= self.least {
                last = place;
            }
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(keys: &[u64]) -> Vec<StoredChunk> {
        std::iter::zip(keys, 0..).map(|(&key, at)| StoredChunk { at, key }).collect()
    }

    #[test]
    fn the_second_insertion_counts_while_the_gpu_has_a_chunk() {
        let mut insertions = Insertions::new(Write::Selective);
        assert_eq!(insertions.insert(&chunks(&[1, 2, 3])), 0);
        insertions.lose(&[1, 3]);
        assert_eq!(insertions.insert(&chunks(&[1, 2, 3, 4])), 2, "the first is stored with the second");
        assert_eq!(insertions.insert(&chunks(&[1, 2, 3, 5])), 3);
        assert_eq!(insertions.take_lost(), [0; 0], "lost chunks are not stored");
    }

    #[test]
    fn what_the_gpu_loses_is_stored_once() {
        let mut insertions = Insertions::new(Write::Back);
        insertions.lose(&[4]);
        insertions.lose(&[2]);
        assert_eq!(insertions.take_lost(), [4, 2]);
        assert_eq!(insertions.take_lost(), [0; 0]);
        assert_eq!(Insertions::new(Write::Through).insert(&chunks(&[1, 2])), 2);
    }
}
