//! The chunks of batches that are on their way through a pipeline.
//!
//! The tokens of a batch count as computed once it is formed, so that the next batch may have the next chunk of a prompt.
//! A request of which a batch yields a token lacks no token until then, so that no other batch has it.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Batch, Chunk};
use crate::instance::request::{Phase, RequestTable, Slot};
use crate::time::Ticks;

/// The chunks of the batches in a pipeline, in the order in which the batches were formed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Flights {
    batches: VecDeque<Flight>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Flight {
    end: Ticks,
    chunks: Vec<Flying>,
}

/// A chunk of a batch in a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Flying {
    pub(crate) slot: Slot,
    /// From when on no other batch computes tokens of its request.
    pub(crate) alone_from: Ticks,
    /// Whether it is the last of its request, of which the batch yields a token.
    pub(crate) yields: bool,
}

impl Flights {
    /// Adds a batch from `start` to `end`, whose tokens count as computed from now on.
    fn add(&mut self, chunks: &[Chunk], (start, end): (Ticks, Ticks), requests: &mut RequestTable) {
        let of = |&Chunk { slot, tokens, .. }: &Chunk| {
            let state = &mut requests[slot];
            state.computed += tokens;
            let prefills = state.phase == Phase::Prefilling;
            let before = if prefills { self.last_end(slot) } else { None };
            let alone_from = before.map_or(start, |end| end.max(start));
            Flying { slot, alone_from, yields: state.lacking() == 0 }
        };
        let chunks = chunks.iter().map(of).collect();
        self.batches.push_back(Flight { end, chunks });
    }

    /// When the last batch ends that has a chunk of a request.
    fn last_end(&self, slot: Slot) -> Option<Ticks> {
        let has = |flight: &&Flight| flight.chunks.iter().any(|chunk| chunk.slot == slot);
        self.batches.iter().rev().find(has).map(|flight| flight.end)
    }
}

impl Batch {
    /// Has the chunks of the step, which lasts from `start` to `end`, enter a pipeline. Their tokens count as computed from
    /// now on.
    pub(crate) fn launch(&mut self, span: (Ticks, Ticks), requests: &mut RequestTable) {
        self.flights.add(&self.chunks, span, requests);
        self.chunks.clear();
    }

    /// Removes and returns the chunks of the batch that leaves the pipeline.
    pub(crate) fn land(&mut self) -> Vec<Flying> {
        self.flights.batches.pop_front().map_or_else(Vec::new, |flight| flight.chunks)
    }

    /// Whether a batch in the pipeline has a chunk of a request.
    pub(crate) fn is_flying(&self, slot: Slot) -> bool {
        self.flights.last_end(slot).is_some()
    }

    /// Removes the chunks in the pipeline of a request that leaves.
    pub(crate) fn forget_flying(&mut self, slot: Slot) {
        for flight in &mut self.flights.batches {
            flight.chunks.retain(|chunk| chunk.slot != slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::Part;
    use crate::instance::batch::Progress;
    use crate::kv::BlockSize;

    #[test]
    fn the_last_chunk_of_a_prompt_yields_and_overlaps_no_other() {
        let mut batch = Batch::new(Progress::Identity, BlockSize::new(4, 0), false);
        let mut requests = RequestTable::default();
        let (long, short) = (requests.insert(0, 10, 5), requests.insert(1, 4, 5));
        for slot in [long, short] {
            requests[slot].phase = Phase::Prefilling;
            batch.admit(slot, &mut requests);
        }
        let chunk = |slot, tokens| Chunk { slot, tokens, drafts: 0, given_up: 0, part: Part::Chunk };
        batch.schedule(chunk(long, 6));
        batch.schedule(chunk(short, 4));
        batch.launch((0, 20), &mut requests);
        batch.schedule(chunk(long, 4));
        batch.launch((0, 30), &mut requests);
        assert!(!batch.runs_chunks() && batch.is_flying(long) && batch.is_flying(short));
        assert_eq!((requests[long].lacking(), requests[short].lacking(), batch.kv_tokens()), (0, 0, 14));
        let flying = |slot, alone_from, yields| Flying { slot, alone_from, yields };
        assert_eq!(batch.land(), [flying(long, 0, false), flying(short, 0, true)]);
        assert_eq!(
            batch.land(),
            [flying(long, 20, true)],
            "the batch before computed tokens of it up to then"
        );
        requests[long].generated = 1;
        batch.schedule(chunk(long, 1));
        batch.launch((30, 40), &mut requests);
        batch.forget_flying(long);
        assert!(!batch.is_flying(long) && batch.land().is_empty() && batch.land().is_empty());
    }
}
