//! The requests that an instance runs, and what its current step computes.
//!
//! A running request is either a member of the [`DecodeSet`], which runs as one,
//! or runs by itself, by a [`Chunk`]: prefills, and decodes that do not run at
//! every step. Both kinds share one [`AdmissionOrder`].

mod admission_order;
mod block_needs;
mod cyclic_needs;
mod decode_set;
#[cfg(test)]
mod decode_set_tests;
mod decodes_first;
mod discarded;
mod endings;
mod flights;
mod gaps;
mod layer_groups;
mod milestones;
mod progress;
mod rows;
mod shape;

use serde::{Deserialize, Serialize};

pub(crate) use admission_order::AdmissionOrder;
pub(crate) use decode_set::DecodeSet;
pub(crate) use flights::Flying;
pub(crate) use layer_groups::LayerGroups;
pub(crate) use progress::{Cycle, Periodic, Progress};
use rows::Rows;

use super::Part;
use super::request::{Phase, RequestTable, Slot};
use crate::config::GroupRule;
use crate::hint::rare;
use crate::kv::BlockSize;
use crate::metrics::{Drafts, Sketch};
use crate::series::Series;
use crate::time::Ticks;
use flights::Flights;

/// Tokens that a request outside the decode set computes in a step.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Chunk {
    pub(crate) slot: Slot,
    pub(crate) tokens: u32,
    /// How many of them are drafts.
    pub(crate) drafts: u32,
    /// Tokens that count as computed before it though the step ahead of it gives them up.
    pub(crate) given_up: u32,
    /// Why the request runs in the step.
    pub(crate) part: Part,
}

/// A chunk that was taken out of the step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dropped {
    /// Its tokens; 0 if the request had none in the step.
    pub(crate) tokens: u32,
    pub(crate) part: Part,
    /// Whether it was in the batch between two groups of layers.
    pub(crate) layered: bool,
}

/// The running requests of an instance, and the chunks of the step in progress.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Batch {
    decode: DecodeSet,
    /// Running requests outside the decode set, in admission order.
    outside: Vec<Slot>,
    /// Computed tokens of those, with the tokens of their chunks.
    outside_kv: u64,
    /// Tokens of the chunks that the step in progress computes.
    inflight_tokens: u64,
    /// The chunks of batches in a pipeline.
    flights: Flights,
    order: AdmissionOrder,
    chunks: Vec<Chunk>,
    /// Chunks of requests that have ended, whose tokens are discarded.
    discarded: Vec<Chunk>,
    layers: LayerGroups,
    /// When the decode set's latest step ended.
    decoded_at: Ticks,
    /// The rows of the requests that decode, where their order decides.
    rows: Option<Box<Rows>>,
}

impl Batch {
    /// An empty batch, whose decode set yields as many tokens a step as `progress` says. `keeps_longest`: whether the
    /// longest context is asked for.
    pub(crate) fn new(progress: Progress, block: BlockSize, keeps_longest: bool) -> Self {
        Self {
            decode: DecodeSet::new(progress, block, keeps_longest),
            outside: Vec::new(),
            outside_kv: 0,
            inflight_tokens: 0,
            flights: Flights::default(),
            order: AdmissionOrder::default(),
            chunks: Vec::new(),
            discarded: Vec::new(),
            layers: LayerGroups::default(),
            decoded_at: 0,
            rows: None,
        }
    }

    /// The same batch, which keeps the rows of the requests that decode if `keeps`.
    pub(crate) fn with_rows(mut self, keeps: bool) -> Self {
        self.rows = keeps.then(Box::default);
        self
    }

    /// The row of a request that decodes, where their order decides.
    pub(crate) fn row(&self, slot: Slot) -> i64 {
        self.rows.as_ref().map_or(0, |rows| rows.row(slot))
    }

    /// Gives requests that decode from now on their rows: behind the others, or before those that they ran `beside`.
    pub(crate) fn append_rows(&mut self, slots: &[Slot], beside: bool) {
        if let Some(rows) = &mut self.rows {
            rows.append(slots, beside);
        }
    }

    /// Number of running requests.
    pub(crate) fn running(&self) -> u64 {
        self.decode.len() + self.outside.len() as u64
    }

    /// The decode set, to read.
    pub(crate) fn decode_set(&self) -> &DecodeSet {
        &self.decode
    }

    /// Running requests outside the decode set, in admission order.
    pub(crate) fn outside(&self) -> &[Slot] {
        &self.outside
    }

    /// The chunks of the step, without those of the batch between two groups of
    /// layers.
    pub(crate) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// The batch between two groups of layers.
    pub(crate) fn layers(&self) -> &LayerGroups {
        &self.layers
    }

    /// The order of admission, to read.
    pub(crate) fn order(&self) -> &AdmissionOrder {
        &self.order
    }

    /// The members of the decode set, in the order of admission.
    pub(crate) fn members<'a>(&'a self, requests: &'a RequestTable) -> impl Iterator<Item = Slot> + 'a {
        self.order.current(requests).filter(|&slot| requests[slot].phase == Phase::Decoding)
    }

    /// Blocks that the next step takes for the members that were admitted before a request.
    pub(crate) fn blocks_before(&self, slot: Slot, requests: &RequestTable) -> u64 {
        let seq = requests[slot].seq;
        let before = self.members(requests).take_while(|&member| requests[member].seq < seq);
        before.map(|member| self.decode_set().needed_blocks(&requests[member])).sum()
    }

    /// The order of admission, to take entries out. The request of an entry that
    /// is taken out must leave the batch.
    pub(crate) fn order_mut(&mut self) -> &mut AdmissionOrder {
        &mut self.order
    }

    /// When the decode set's latest step ended.
    pub(crate) fn decoded_at(&self) -> Ticks {
        self.decoded_at
    }

    /// All chunks that run in the step.
    pub(crate) fn scheduled(&self) -> impl Iterator<Item = &Chunk> + Clone {
        self.chunks.iter().chain(&self.discarded).chain(self.layers.chunks())
    }

    /// Whether a request has a chunk in the step.
    pub(crate) fn has_chunk(&self, slot: Slot) -> bool {
        self.scheduled().any(|chunk| chunk.slot == slot)
    }

    /// Whether the step computes anything beside the decode set.
    pub(crate) fn runs_chunks(&self) -> bool {
        !self.chunks.is_empty() || !self.discarded.is_empty() || self.layers.is_under_way()
    }

    /// Chunks of prefills in the step, without those of the batch between two
    /// groups of layers.
    pub(crate) fn prefills(&self, requests: &RequestTable) -> u64 {
        let prefills = |chunk: &&Chunk| requests[chunk.slot].phase == Phase::Prefilling;
        self.chunks.iter().filter(prefills).count() as u64
    }

    /// Whether the step runs prefills.
    pub(crate) fn runs_prefills(&self, requests: &RequestTable) -> bool {
        self.layers.is_under_way() || self.prefills(requests) > 0
    }

    /// Whether the step runs decodes outside the decode set.
    pub(crate) fn runs_lone_decodes(&self, requests: &RequestTable) -> bool {
        self.chunks.iter().any(|chunk| requests[chunk.slot].phase == Phase::Stalled)
    }

    /// Tokens in the cache over all running requests, with those of the chunks.
    pub(crate) fn kv_tokens(&self) -> u64 {
        self.decode.kv_tokens() + self.outside_kv
    }

    /// The same while a step runs. `decodes`: whether the decode set runs in it.
    pub(crate) fn kv_tokens_in_step(&self, decodes: bool) -> u64 {
        self.kv_tokens() + if decodes { self.decode.len() * self.decode.width() } else { 0 }
    }

    /// The same without tokens that no finished step computed.
    pub(crate) fn finished_kv_tokens(&self) -> u64 {
        self.kv_tokens() - self.inflight_tokens - self.layers.tokens()
    }

    /// Admits a request outside the decode set, at the end of the order.
    pub(crate) fn admit(&mut self, slot: Slot, requests: &mut RequestTable) {
        self.order.push(slot, self.running(), requests);
        self.outside_kv += u64::from(requests[slot].computed);
        self.outside.push(slot);
        if let Some(rows) = &mut self.rows {
            rare();
            rows.admit(slot);
        }
    }

    /// Admits a request that resumes with its KV as a member of the decode set,
    /// which runs in this step.
    pub(crate) fn admit_late(
        &mut self,
        slot: Slot,
        part: Part,
        reasoning: Option<u32>,
        requests: &mut RequestTable,
    ) {
        self.order.push(slot, self.running(), requests);
        self.decode.join(slot, &mut requests[slot], reasoning);
        self.decode.join_late(slot, part);
    }

    /// Has a running request compute a chunk in this step.
    pub(crate) fn schedule(&mut self, chunk: Chunk) {
        self.outside_kv += u64::from(chunk.tokens);
        self.chunks.push(chunk);
    }

    /// Removes a running request that is not in the decode set, and its chunk.
    pub(crate) fn remove(&mut self, slot: Slot, requests: &RequestTable) -> Dropped {
        let own = self.chunks.iter().position(|chunk| chunk.slot == slot);
        let (chunk, layered) = match own {
            Some(at) => (Some(self.chunks.remove(at)), false),
            None => (self.layers.remove(slot), true),
        };
        let tokens = chunk.map_or(0, |chunk| chunk.tokens);
        let part = chunk.map_or(Part::Chunk, |chunk| chunk.part);
        self.outside.retain(|&other| other != slot);
        self.outside_kv -= u64::from(requests[slot].computed + tokens);
        Dropped { tokens, part, layered }
    }

    /// Removes a member of the decode set. `now`: when the set's latest step ended,
    /// if it ran in the last step.
    pub(crate) fn leave_decode_set(
        &mut self,
        slot: Slot,
        phase: Phase,
        now: Ticks,
        requests: &mut RequestTable,
    ) {
        self.decode.leave(slot, &mut requests[slot], phase, now);
    }

    /// Keeps a request as a running one that has just left the decode set, at its
    /// place in the order.
    pub(crate) fn keep_outside(&mut self, slot: Slot, requests: &RequestTable) {
        self.outside_kv += u64::from(requests[slot].computed);
        let seq = requests[slot].seq;
        let at = self.outside.partition_point(|&other| requests[other].seq < seq);
        self.outside.insert(at, slot);
    }

    /// Leaves the decode set out of a step that starts at `now`, when its latest
    /// step ended.
    pub(crate) fn pause_decode_set(&mut self, now: Ticks) {
        self.decode.pause(now);
    }

    /// Moves the batch under way to its next group of layers. Returns whether
    /// there was one.
    pub(crate) fn advance_layers(&mut self) -> bool {
        self.layers.advance()
    }

    /// Starts a batch of the step's prefills, to run in groups of layers. Decodes
    /// outside the set run all layers. Returns whether there were any prefills.
    pub(crate) fn start_layers(&mut self, depth: u32, rule: &GroupRule, requests: &RequestTable) -> bool {
        let prefills = |chunk: &mut Chunk| requests[chunk.slot].phase == Phase::Prefilling;
        let batch = self.chunks.extract_if(.., prefills).collect();
        self.layers.start(batch, depth, rule)
    }

    /// Notes that the step of these chunks is in progress.
    pub(crate) fn begin_chunks(&mut self) {
        self.inflight_tokens = self.chunks.iter().map(|chunk| u64::from(chunk.tokens)).sum();
    }

    /// Notes that no step is in progress.
    pub(crate) fn end_step(&mut self) {
        self.inflight_tokens = 0;
    }

    /// Adds the chunks that come out of the last group of layers to the step's.
    pub(crate) fn finish_layers(&mut self) {
        self.layers.finish(&mut self.chunks);
    }

    /// The chunks of the step that ended, to be given back by [`Self::finish_chunks`].
    pub(crate) fn take_chunks(&mut self) -> Vec<Chunk> {
        std::mem::take(&mut self.chunks)
    }

    /// Gives up the KV of tokens that a request outside the decode set has computed.
    pub(crate) fn give_up(&mut self, tokens: u32) {
        self.outside_kv -= u64::from(tokens);
    }

    /// Notes that a request outside the decode set has all its tokens computed.
    pub(crate) fn complete_chunk(&mut self, slot: Slot, requests: &RequestTable) {
        self.outside_kv -= u64::from(requests[slot].computed);
    }

    /// Adds a request whose last chunk ended to the decode set.
    pub(crate) fn join_decode_set(
        &mut self,
        slot: Slot,
        reasoning: Option<u32>,
        requests: &mut RequestTable,
    ) {
        self.decode.join(slot, &mut requests[slot], reasoning);
    }

    /// Ends the step's chunks: requests that joined the decode set, or finished,
    /// are no longer outside it.
    pub(crate) fn finish_chunks(&mut self, mut chunks: Vec<Chunk>, requests: &RequestTable) {
        self.outside.retain(|&slot| {
            let state = &requests[slot];
            state.phase != Phase::Decoding && state.generated < state.output
        });
        chunks.clear();
        self.chunks = chunks;
    }

    /// Applies `k` steps of the decode set, the first of which starts at `start` and
    /// whose lengths are `series`, with their drafts.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of applying a run, the engine's innermost work")]
    pub(crate) fn advance(
        &mut self,
        start: Ticks,
        series: &Series,
        (k, drafts): (u64, Option<Drafts>),
        requests: &mut RequestTable,
        gaps: &mut Sketch,
    ) {
        self.decode.advance(start, series, (k, drafts), requests, gaps);
        self.decoded_at = start + series.total(k) as Ticks;
    }

    /// As [`Self::advance`], of steps that end at `ends`, where each yields several tokens.
    pub(crate) fn advance_listed(
        &mut self,
        (start, ends): (Ticks, &[Ticks]),
        drafts: Drafts,
        requests: &mut RequestTable,
        gaps: &mut Sketch,
    ) {
        self.decode.advance_listed((start, ends), drafts, requests, gaps);
        self.decoded_at = ends.last().copied().unwrap_or(start);
    }

    /// Removes and returns the first milestone of the last `k` steps; see
    /// [`DecodeSet::pop_milestone`].
    pub(crate) fn pop_milestone(&mut self, requests: &RequestTable, k: u64) -> Option<(Slot, u64, u32)> {
        self.decode.pop_milestone(requests, k)
    }

    /// Makes late joiners members like all others: their first step is applied.
    pub(crate) fn forget_late_joiners(&mut self) {
        self.decode.forget_late_joiners();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_prefills(count: u32) -> (Batch, RequestTable) {
        let (mut batch, mut requests) =
            (Batch::new(Progress::Identity, BlockSize::new(4, 0), false), RequestTable::default());
        for row in 0..count {
            let slot = requests.insert(row, 10, 5);
            requests[slot].phase = Phase::Prefilling;
            batch.admit(slot, &mut requests);
        }
        (batch, requests)
    }

    #[test]
    fn a_removed_request_takes_its_chunk_and_its_tokens_along() {
        let (mut batch, mut requests) = with_prefills(2);
        requests[0].computed = 0;
        batch.schedule(Chunk { slot: 0, tokens: 6, drafts: 0, given_up: 0, part: Part::Admitted });
        batch.schedule(Chunk { slot: 1, tokens: 4, drafts: 0, given_up: 0, part: Part::Admitted });
        assert_eq!(batch.kv_tokens(), 10);
        let dropped = batch.remove(0, &requests);
        assert_eq!((dropped.tokens, dropped.layered), (6, false));
        assert_eq!((batch.kv_tokens(), batch.outside(), batch.chunks().len()), (4, &[1][..], 1));
        let dropped = batch.remove(1, &requests);
        assert_eq!((dropped.tokens, batch.running(), batch.runs_chunks()), (4, 0, false));
    }

    #[test]
    fn a_member_that_misses_a_step_keeps_its_place_in_the_order() {
        let (mut batch, mut requests) = with_prefills(3);
        let state = &mut requests[1];
        (state.computed, state.generated) = (10, 1);
        batch.outside.retain(|&slot| slot != 1);
        batch.join_decode_set(1, None, &mut requests);
        assert_eq!((batch.outside(), batch.decode_set().len()), (&[0, 2][..], 1));
        batch.leave_decode_set(1, Phase::Stalled, 5, &mut requests);
        batch.keep_outside(1, &requests);
        assert_eq!((batch.outside(), batch.running(), batch.kv_tokens()), (&[0, 1, 2][..], 3, 10));
    }

    #[test]
    fn blocks_of_the_next_step_are_counted_of_the_members_before_a_request() {
        let (mut batch, mut requests) = with_prefills(5);
        // In blocks of 4 tokens, all but the second take one for their next token. The last is no member.
        for (slot, generated) in [(0, 3), (1, 1), (2, 3), (3, 3)] {
            let state = &mut requests[slot];
            (state.computed, state.generated) = (9 + generated, generated);
            batch.outside.retain(|&other| other != slot);
            batch.join_decode_set(slot, None, &mut requests);
        }
        let before: Vec<_> = (0..5).map(|slot| batch.blocks_before(slot, &requests)).collect();
        assert_eq!(before, [0, 1, 1, 2, 3]);
    }

    #[test]
    fn tokens_of_chunks_in_progress_are_not_finished() {
        let (mut batch, mut requests) = with_prefills(1);
        batch.schedule(Chunk { slot: 0, tokens: 6, drafts: 0, given_up: 0, part: Part::Admitted });
        batch.begin_chunks();
        assert_eq!((batch.kv_tokens(), batch.finished_kv_tokens()), (6, 0));
        batch.end_step();
        let chunks = batch.take_chunks();
        requests[0].computed += 6;
        batch.finish_chunks(chunks, &requests);
        assert_eq!((batch.finished_kv_tokens(), batch.outside()), (6, &[0][..]));
    }

    #[test]
    fn a_set_has_decoded_at_the_end_of_its_latest_step() {
        let (mut batch, mut requests) =
            (Batch::new(Progress::Identity, BlockSize::new(4, 0), false), RequestTable::default());
        let mut gaps = Sketch::default();
        batch.advance(100, &Series { first: 7, slope: 2 }, (3, None), &mut requests, &mut gaps);
        assert_eq!(batch.decoded_at(), 100 + 7 + 9 + 11);
    }
}
