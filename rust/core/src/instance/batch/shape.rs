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
