//! Chunks of requests that have ended, in a step that was decided before their end was known.

use super::super::request::{RequestTable, Slot};
use super::{Batch, Chunk};

impl Batch {
    /// The chunks of requests that have ended, whose tokens are discarded.
    pub(crate) fn discarded(&self) -> &[Chunk] {
        &self.discarded
    }

    /// The requests of these chunks, and their tokens.
    pub(crate) fn count_discarded(&self) -> (u64, u64) {
        let tokens = self.discarded.iter().map(|chunk| u64::from(chunk.tokens)).sum();
        (self.discarded.len() as u64, tokens)
    }

    /// Whether the step computes nothing else.
    pub(crate) fn runs_discarded_only(&self) -> bool {
        !self.discarded.is_empty() && self.chunks.is_empty() && self.decode.len() == 0
    }

    /// Has a request that has ended compute a chunk in this step.
    pub(crate) fn schedule_discarded(&mut self, chunk: Chunk) {
        self.discarded.push(chunk);
    }

    /// Removes a request that ends once the step is formed, and discards the tokens of its chunk.
    pub(crate) fn discard(&mut self, slot: Slot, requests: &RequestTable) {
        let own = self.chunks.iter().find(|chunk| chunk.slot == slot).copied();
        self.remove(slot, requests);
        self.discarded.extend(own);
    }

    /// Removes the chunk of a request that has ended. Returns its tokens.
    pub(crate) fn remove_discarded(&mut self, slot: Slot) -> u32 {
        let at = self.discarded.iter().position(|chunk| chunk.slot == slot);
        at.map_or(0, |at| self.discarded.remove(at).tokens)
    }

    /// Removes and returns one of these chunks.
    pub(crate) fn pop_discarded(&mut self) -> Option<Chunk> {
        self.discarded.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::Part;
    use crate::instance::batch::Progress;
    use crate::kv::BlockSize;

    #[test]
    fn a_discarded_chunk_runs_and_counts_for_no_kv() {
        let mut batch = Batch::new(Progress::Identity, BlockSize::new(4, 0), false);
        let chunk = Chunk { slot: 2, tokens: 3, drafts: 2, given_up: 1, part: Part::Decode };
        batch.schedule_discarded(chunk);
        assert!(batch.runs_chunks() && batch.runs_discarded_only() && batch.has_chunk(2));
        assert_eq!((batch.running(), batch.kv_tokens()), (0, 0));
        assert_eq!(batch.count_discarded(), (1, 3));
        assert_eq!((batch.remove_discarded(5), batch.remove_discarded(2)), (0, 3));
        assert!(!batch.runs_chunks() && batch.pop_discarded().is_none());
        assert!(!batch.runs_discarded_only(), "the step computes nothing");
    }

    #[test]
    fn a_step_with_another_chunk_or_a_decode_runs_more_than_discarded_ones() {
        for decodes in [false, true] {
            let (mut batch, mut requests) =
                (Batch::new(Progress::Identity, BlockSize::new(4, 0), false), RequestTable::default());
            let slot = requests.insert(0, 10, 5);
            batch.admit(slot, &mut requests);
            let chunk = Chunk { slot, tokens: 1, drafts: 0, given_up: 0, part: Part::Decode };
            batch.schedule_discarded(Chunk { slot: 7, ..chunk });
            assert!(batch.runs_discarded_only());
            if decodes {
                (requests[slot].computed, requests[slot].generated) = (10, 1);
                batch.outside.clear();
                batch.join_decode_set(slot, None, &mut requests);
            } else {
                batch.schedule(chunk);
            }
            assert!(!batch.runs_discarded_only());
        }
    }

    #[test]
    fn a_request_that_ends_once_the_step_is_formed_leaves_its_chunk_behind() {
        let (mut batch, mut requests) =
            (Batch::new(Progress::Identity, BlockSize::new(4, 0), false), RequestTable::default());
        for row in 0..2 {
            let slot = requests.insert(row, 10, 5);
            requests[slot].computed = 12;
            batch.admit(slot, &mut requests);
        }
        batch.schedule(Chunk { slot: 1, tokens: 1, drafts: 0, given_up: 0, part: Part::Decode });
        for slot in 0..2 {
            batch.discard(slot, &requests);
        }
        assert_eq!((batch.running(), batch.kv_tokens(), batch.count_discarded()), (0, 0, (1, 1)));
        assert!(batch.runs_discarded_only(), "the first had no chunk");
    }
}
