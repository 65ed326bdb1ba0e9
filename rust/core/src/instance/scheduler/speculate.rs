//! Speculative decoding in a step that is formed: wider decodes, their part of the budget, and paddings.

use super::Stages;
use crate::hint::rare;
use crate::instance::Part;
use crate::instance::batch::Chunk;
use crate::instance::effects::Candidate;
use crate::instance::request::{Phase, Slot};

impl Stages<'_> {
    /// Tokens that a running request outside the decode set asks for: those that it lacks and its drafts, as far as the
    /// limit of a chunk and the longest sequence allow.
    pub(super) fn wanted(&self, slot: Slot) -> u64 {
        let state = &self.effects.requests[slot];
        let ahead = self.effects.unseen.is_some() && self.effects.speculator.is_some();
        if ahead || state.phase.has_ended() {
            rare();
            return self.wanted_ahead(slot);
        }
        let lacking = u64::from(state.lacking());
        match &self.effects.speculator {
            None if lacking == 0 && self.effects.has_pending(slot) => 1,
            None => self.cut(lacking, self.draft.limits.chunk),
            Some(speculator) => {
                rare();
                let drafts = u64::from(speculator.proposed(slot));
                let most = self.effects.settings.limits.most_tokens(state.computed).max(lacking);
                (lacking + drafts).min(self.draft.limits.chunk).min(most)
            }
        }
    }

    /// The same where steps are decided ahead and tokens are drafted, or of a request that has ended.
    ///
    /// The decision does not know the outcome of the step before: a request that may have ended with it still asks for
    /// tokens, one that is sure to have does not.
    fn wanted_ahead(&self, slot: Slot) -> u64 {
        let state = &self.effects.requests[slot];
        let Some(speculator) = &self.effects.speculator else {
            return u64::from(self.effects.runs_past_end(slot));
        };
        let unseen = self.effects.unseen_outcome(slot);
        let drafts = u64::from(speculator.proposed(slot));
        let most = self.effects.settings.limits.most_tokens(state.computed + unseen.given_up);
        if unseen.yielded == 0 {
            // Not in the step before, whose outcome is unknown; or cancelled.
            let lacking = u64::from(state.lacking());
            let ended = state.phase.has_ended();
            let wanted = (lacking + drafts).min(most.max(lacking));
            return if ended { 0 } else { wanted.min(self.draft.limits.chunk) };
        }
        if state.generated - unseen.yielded + 1 >= state.output {
            return 0;
        }
        (1 + drafts).min(self.draft.limits.chunk).min(most)
    }

    /// Tokens that the next request may compute in the step.
    pub(super) fn budget(&self) -> u64 {
        self.draft.tokens_left.saturating_sub(self.effects.settings.drafts.input_slots())
    }

    /// Charges the budget with a scheduled request of `tokens` tokens.
    pub(super) fn charge(&mut self, tokens: u64) {
        let charged = tokens + self.effects.settings.drafts.input_slots();
        self.draft.tokens_left = self.draft.tokens_left.saturating_sub(charged);
    }

    /// Drafts with which a prompt of `target` tokens is padded, of which the prefix cache has `hit`, so that all requests
    /// of a step that only decodes are equally wide: if it has one token to compute, no prefill continues in the step, and
    /// another request runs or a part was cached.
    pub(super) fn padding(&self, target: u32, hit: u32) -> u64 {
        let Some(speculator) = &self.effects.speculator else { return 0 };
        rare();
        let padding = u64::from(speculator.padding());
        let mut running = self.effects.batch.scheduled().map(|chunk| chunk.part);
        let decodes = self.draft.decoded && self.effects.batch.decode_set().len() > 0;
        let resumed = decodes || running.clone().any(|part| matches!(part, Part::Chunk | Part::Decode));
        let pads = target == hit + 1
            && (resumed || hit > 0)
            && !running.any(|part| part == Part::Chunk)
            && padding < self.effects.settings.limits.most_tokens(hit);
        if pads { padding } else { 0 }
    }

    /// The outcome of the drafts of each scheduled request, in the order of admission, where tokens are drafted. `decodes`:
    /// whether the decode set runs.
    pub(super) fn drafted(&self, decodes: bool) -> Vec<(u32, i32, u32)> {
        let Some(speculator) = &self.effects.speculator else { return Vec::new() };
        let (batch, requests) = (&self.effects.batch, &self.effects.requests);
        let set = batch.decode_set();
        let of_chunk = |chunk: &Chunk| {
            let state = &requests[chunk.slot];
            if state.phase.has_ended() || state.computed + chunk.tokens < state.target() {
                return (chunk.drafts, -1, 0);
            }
            let verified = speculator.verify(chunk.slot, state, chunk.drafts);
            (chunk.drafts, verified.accepted as i32, verified.yielded)
        };
        let of = |slot: Slot| {
            let state = &requests[slot];
            if state.phase == Phase::Decoding {
                let (yielded, left) = (set.next_yield(state), state.output - set.generated(state));
                return decodes.then_some((set.width() as u32 - 1, yielded as i32 - 1, yielded.min(left)));
            }
            batch.scheduled().find(|chunk| chunk.slot == slot).map(of_chunk)
        };
        batch.order().counted(requests).filter_map(of).collect()
    }

    /// Blocks that a request lacks whose KV was received, for its next token and its lookahead.
    pub(super) fn lookahead_of_received(&self, candidate: Candidate) -> u64 {
        let next = candidate.computed + candidate.lacking() as u32;
        self.effects.settings.blocks_with_lookahead(next, true).saturating_sub(candidate.blocks)
    }
}
