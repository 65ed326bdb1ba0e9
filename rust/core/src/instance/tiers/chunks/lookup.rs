//! Looking up which chunks of a request the tier has.

use super::ChunkTier;
use crate::instance::request::Slot;
use crate::kv::{ContentOwner, Found, Memory};

impl ChunkTier {
    /// The tokens that the tier has of a request of `tokens` tokens, after those in the prefix cache; `None`: that is known
    /// only later, as a chunk is being stored or loaded, or the request's own copies have not ended.
    pub(in crate::instance) fn look_up(
        &self,
        slot: Option<Slot>,
        (owner, tokens, cached): (ContentOwner, u32, u32),
        memory: &Memory,
    ) -> Option<u32> {
        if slot.and_then(|slot| self.uses.of(slot)).is_some_and(|used| !used.jobs.is_empty()) {
            return None;
        }
        let size = self.rules.chunk_tokens();
        let (chunks, first) = (self.rules.chunks_sought(tokens), cached / size);
        if (chunks * size).saturating_sub(cached) < size {
            return Some(0);
        }
        let (mut last, mut pending) = (first, false);
        let mut loading = None;
        while last < chunks {
            match self.store.find(self.rules.chunk(owner, last, memory).key) {
                Found::Missing => break,
                // What has not been read by now is not waited for.
                Found::Pending if self.prefetches() => break,
                Found::Pending => pending = true,
                Found::Ready { loading: awaited } => loading = loading.or(awaited.then_some(last)),
            }
            last += 1;
        }
        if last == first {
            return Some(0);
        }
        if pending {
            return None;
        }
        last -= u32::from(self.rules.drops_last);
        let found = (last * size).saturating_sub(cached);
        if found < size {
            return Some(0);
        }
        loading.is_none_or(|at| at >= last).then_some(found)
    }
}
