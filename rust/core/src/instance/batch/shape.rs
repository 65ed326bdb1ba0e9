//! The shape of a step: what the cost models are told of it.

use super::super::request::{Phase, RequestTable};
use super::{Batch, Chunk};
use crate::cost::StepShape;

impl Batch {
    /// The shape of the step that is formed. `decodes`: whether the decode set runs.
    pub(crate) fn shape(&self, decodes: bool, requests: &RequestTable) -> StepShape {
        let mut shape = if decodes && self.decode.len() > 0 {
            self.shape_after(0)
        } else {
            let (prefill_layers, layers) = self.layers.share();
            StepShape { prefill_layers, layers, ..StepShape::default() }
        };
        for chunk in self.chunks.iter().chain(&self.discarded) {
            add_chunk(&mut shape, chunk, true, requests);
        }
        if self.layers.is_under_way() {
            self.add_layered(&mut shape, requests);
        }
        shape
    }

    /// Adds the batch that runs one group of layers a step.
    #[cold]
    #[inline(never)]
    fn add_layered(&self, shape: &mut StepShape, requests: &RequestTable) {
        for chunk in self.layers.chunks() {
            add_chunk(shape, chunk, self.layers.is_last(), requests);
        }
    }

    /// The longest context of the decode set in the step that comes `steps` steps later.
    pub(crate) fn longest_in_step(&self, steps: u64) -> u64 {
        self.decode.longest_after(steps) + self.decode.width()
    }

    /// The shape of the step of the decode set alone that comes `steps` steps later.
    pub(crate) fn shape_after(&self, steps: u64) -> StepShape {
        let (members, width) = (self.decode.len(), self.decode.width());
        let (prefill_layers, layers) = self.layers.share();
        StepShape {
            decode_requests: members,
            draft_tokens: members * (width - 1),
            decode_kv: self.decode.kv_tokens() + self.decode.gained(steps) + members * width,
            decode_max_kv: self.longest_in_step(steps),
            sampled: members * width,
            prefill_layers,
            layers,
            ..StepShape::default()
        }
    }
}

/// Adds a chunk to the shape of its step. `is_last`: whether it comes out of the last layer in this step.
fn add_chunk(shape: &mut StepShape, chunk: &Chunk, is_last: bool, requests: &RequestTable) {
    let state = &requests[chunk.slot];
    let (before, tokens) = (u64::from(state.computed) + u64::from(chunk.given_up), u64::from(chunk.tokens));
    let after = before + tokens;
    let drafts = u64::from(chunk.drafts);
    shape.draft_tokens += drafts;
    let yields = state.computed + chunk.tokens - chunk.drafts == state.target();
    // Each draft is verified by a row of its own.
    shape.sampled += u64::from(is_last && yields) + drafts;
    if matches!(state.phase, Phase::Stalled | Phase::Ended { .. }) {
        shape.decode_requests += 1;
        shape.decode_kv += after;
        shape.decode_max_kv = shape.decode_max_kv.max(after);
        return;
    }
    shape.prefill_requests += 1;
    let tokens = tokens - drafts;
    shape.prefill_tokens += tokens;
    shape.prefill_kv += after;
    shape.prefill_pairs += tokens * before + tokens * (tokens + 1) / 2;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::Part;
    use crate::instance::batch::progress::{Periodic, Progress};
    use crate::kv::BlockSize;

    /// A request of 10 prompt tokens that has computed some, with a chunk.
    fn add(requests: &mut RequestTable, phase: Phase, computed: u32, chunk: (u32, u32, u32)) -> Chunk {
        let slot = requests.insert(0, 10, 5);
        let state = &mut requests[slot];
        (state.phase, state.computed, state.generated) = (phase, computed, computed.saturating_sub(9));
        let (tokens, drafts, given_up) = chunk;
        Chunk { slot, tokens, drafts, given_up, part: Part::Admitted }
    }

    fn shape_of(chunks: &[(Phase, u32, (u32, u32, u32))], is_last: bool) -> StepShape {
        let (mut shape, mut requests) = (StepShape::default(), RequestTable::default());
        for &(phase, computed, chunk) in chunks {
            let chunk = add(&mut requests, phase, computed, chunk);
            add_chunk(&mut shape, &chunk, is_last, &requests);
        }
        shape
    }

    #[test]
    fn each_token_of_a_chunk_attends_those_before_it_and_itself() {
        let part = (Phase::Prefilling, 5, (3, 0, 0));
        let rest = (Phase::Prefilling, 4, (6, 0, 0));
        let shape = shape_of(&[part, rest], true);
        let pairs = (6..=8).sum::<u64>() + (5..=10).sum::<u64>();
        assert_eq!((shape.prefill_requests, shape.prefill_tokens, shape.prefill_kv), (2, 9, 8 + 10));
        assert_eq!((shape.prefill_pairs, shape.decode_requests, shape.draft_tokens), (pairs, 0, 0));
        assert_eq!(shape.sampled, 1, "the first prompt does not end");
        assert_eq!(shape_of(&[part, rest], false).sampled, 0, "no chunk comes out of the last layer");
    }

    #[test]
    fn tokens_that_are_given_up_are_in_the_context() {
        let shape = shape_of(&[(Phase::Prefilling, 1, (3, 0, 2))], true);
        assert_eq!((shape.prefill_kv, shape.prefill_pairs), (6, 4 + 5 + 6));
    }

    #[test]
    fn drafts_of_a_prompt_are_verified_and_are_none_of_its_tokens() {
        let shape = shape_of(&[(Phase::Prefilling, 4, (8, 2, 0))], true);
        assert_eq!((shape.prefill_tokens, shape.prefill_kv), (6, 12));
        assert_eq!((shape.prefill_pairs, shape.draft_tokens), ((5..=10).sum::<u64>(), 2));
        assert_eq!(shape.sampled, 1 + 2);
    }

    #[test]
    fn a_decode_outside_the_set_has_a_row_for_its_token_and_for_each_draft() {
        let longer = (Phase::Stalled, 13, (4, 3, 0));
        let shorter = (Phase::Stalled, 10, (1, 0, 0));
        let shape = shape_of(&[longer, shorter], true);
        assert_eq!((shape.decode_requests, shape.decode_kv), (2, 17 + 11));
        assert_eq!((shape.decode_max_kv, shape.draft_tokens, shape.sampled), (17, 3, 2 + 3));
        assert_eq!((shape.prefill_requests, shape.prefill_tokens, shape.prefill_pairs), (0, 0, 0));
    }

    #[test]
    fn a_step_of_the_set_has_the_contexts_that_its_members_then_have() {
        // A step computes five tokens of a member and keeps two.
        let progress = Progress::Periodic(Periodic::new(&[2], (5, 7)));
        let (mut batch, mut requests) =
            (Batch::new(progress, BlockSize::new(4, 0), true), RequestTable::default());
        for prompt in [12, 10] {
            let slot = requests.insert(0, prompt, 90);
            let state = &mut requests[slot];
            (state.phase, state.computed, state.generated) = (Phase::Prefilling, prompt, 1);
            state.blocks.set_count(u64::from((prompt + 1).div_ceil(4)));
            batch.admit(slot, &mut requests);
            batch.outside.retain(|&one| one != slot);
            batch.join_decode_set(slot, None, &mut requests);
        }
        for (steps, longest) in [(0, 12 + 5), (3, 12 + 6 + 5)] {
            let shape = batch.shape_after(steps);
            assert_eq!(shape.decode_kv, 22 + 2 * 2 * steps + 2 * 5, "after {steps} steps");
            assert_eq!(shape.decode_max_kv, longest, "after {steps} steps");
            assert_eq!((shape.decode_requests, shape.draft_tokens, shape.sampled), (2, 2 * 4, 2 * 5));
        }
        assert_eq!(batch.shape(true, &requests), batch.shape_after(0));
        for slot in 0..2 {
            batch.leave_decode_set(slot, Phase::Stalled, 0, &mut requests);
        }
        let shape = batch.shape(true, &requests);
        assert_eq!(shape, batch.shape(false, &requests), "a set without members runs no decode");
        assert_eq!(batch.shape(false, &requests).tokens(), 0);
    }
}
