//! The uses that one request has made of the chunks of a tier.

use super::{Chunk, Key};

/// How a request has used a chunk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that the request did")]
pub(crate) struct Uses {
    /// It was offered while it was there or to be stored, stored, or loaded.
    pub(super) seen: bool,
    /// The request stored it.
    pub(super) stored: bool,
    /// It was there, and the request had not stored it before.
    pub(super) reused: bool,
    /// It was to be stored, as it was not there.
    pub(super) missed: bool,
}

/// The chunks that one request has accessed, by their place in its sequence.
#[derive(Debug, Clone, Default)]
pub(crate) struct Access {
    chunks: Vec<(Key, Uses)>,
    /// The request's rank among others, where the least recently used chunk is evicted.
    pub(super) rank: Option<u64>,
}

impl Access {
    fn at(&mut self, at: u32) -> &mut (Key, Uses) {
        let needed = at as usize + 1;
        if self.chunks.len() < needed {
            self.chunks.resize(needed, (0, Uses::default()));
        }
        &mut self.chunks[at as usize]
    }

    /// Notes an access. Returns whether it is the first to that chunk.
    pub(super) fn see(&mut self, chunk: Chunk) -> bool {
        let (key, uses) = self.at(chunk.at);
        *key = chunk.key;
        !std::mem::replace(&mut uses.seen, true)
    }

    pub(super) fn store(&mut self, at: u32) {
        self.at(at).1.stored = true;
    }

    /// Notes that a chunk was there. One that the request stored itself is not used again by that.
    pub(super) fn reuse(&mut self, at: u32) {
        let uses = &mut self.at(at).1;
        uses.reused |= !uses.stored;
    }

    pub(super) fn miss(&mut self, at: u32) {
        self.at(at).1.missed = true;
    }

    pub(super) fn has_missed(&self, at: u32) -> bool {
        self.chunks.get(at as usize).is_some_and(|(_, uses)| uses.missed)
    }

    /// The chunks that it accessed, the last of its sequence first.
    pub(super) fn last_first(&self) -> impl DoubleEndedIterator<Item = (Chunk, Uses)> {
        let places = 0..self.chunks.len() as u32;
        let chunks = std::iter::zip(&self.chunks, places.collect::<Vec<_>>()).rev();
        chunks.filter(|((_, uses), _)| uses.seen).map(|(&(key, uses), at)| (Chunk { at, key }, uses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_that_the_request_stored_is_not_used_again_by_it() {
        let mut access = Access::default();
        for (at, key) in [(2, 9), (0, 7)] {
            assert!(access.see(Chunk { at, key }) && !access.see(Chunk { at, key }));
        }
        access.store(2);
        access.reuse(2);
        access.reuse(0);
        access.miss(0);
        assert_eq!([0, 1, 2, 3].map(|at| access.has_missed(at)), [true, false, false, false]);
        let seen: Vec<_> = access
            .last_first()
            .map(|(chunk, uses)| (chunk.at, chunk.key, uses.stored, uses.reused))
            .collect();
        assert_eq!(seen, [(2, 9, true, false), (0, 7, false, true)]);
    }
}
