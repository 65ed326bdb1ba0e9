//! Lookups and preemptions, and a tree of cached prefixes.
//!
//! Source: `sglang` 0.5.23, `srt/managers/schedule_policy.py` (`calc_priority`) and `srt/managers/schedule_batch.py`
//! (`retract_decode`).

use super::Stages;
use crate::hint::rare;
use crate::instance::Part;

impl Stages<'_> {
    /// Passes over the queue before requests are admitted, beside a tree if a seat is free or a prompt continues.
    pub(super) fn pass_queue(&mut self) {
        if self.effects.kv.gpu().is_tree() {
            rare();
            if self.seats_taken() >= self.effects.settings.scheduler.max_num_seqs && !self.continues_prompts()
            {
                return;
            }
            self.effects.use_queued_prefixes();
        }
        self.effects.sort_by_cached_prefix();
    }

    /// Evicts from the tree what the allocations of the step that was formed take. Where blocks have several tokens, an
    /// allocation evicts before it counts the blocks that it takes: for prompts as many as their tokens fill together, and
    /// one for each; for decodes one for each; for decodes with drafts, if they take any, one for each beside these.
    pub(super) fn settle_prefixes(&mut self, decodes: bool) {
        if !self.effects.kv.gpu().is_tree() {
            return;
        }
        rare();
        let block = self.effects.settings.block;
        if block.tokens() == 1 {
            self.effects.make_room(0);
            return;
        }
        let set = self.effects.batch.decode_set();
        let (mut decoding, mut grown) = if decodes { (set.len(), set.blocks_for_next()) } else { (0, 0) };
        let (mut prompts, mut tokens, mut taken) = (0, 0, 0);
        for chunk in self.effects.batch.scheduled() {
            let before = u64::from(self.effects.requests[chunk.slot].computed + chunk.given_up);
            let blocks = block.needed_for(before + u64::from(chunk.tokens)) - block.needed_for(before);
            if matches!(chunk.part, Part::Admitted | Part::Chunk) {
                (prompts, tokens, taken) = (prompts + 1, tokens + u64::from(chunk.tokens), taken + blocks);
            } else {
                (decoding, grown) = (decoding + 1, grown + blocks);
            }
        }
        let of_prompts = (block.needed_for(tokens) + prompts).saturating_sub(taken + grown);
        let of_decodes = if self.effects.speculator.is_some() {
            if self.draft.held_back.reserve.grown > 0 { decoding } else { 0 }
        } else {
            decoding.saturating_sub(grown)
        };
        self.effects.make_room(of_prompts.max(of_decodes));
    }

    /// Makes room for the coming tokens of the decodes that are left after a preemption, to which this step has given `grown`
    /// blocks already.
    pub(super) fn make_room_for_decodes(&mut self, grown: u64) {
        if !self.effects.kv.gpu().is_tree() {
            return;
        }
        rare();
        let Some(reserve) = self.effects.reserve.as_deref() else { return };
        let tokens = reserve.coming(self.effects.decoding_in_order().len() as u64);
        let block = u64::from(self.effects.settings.block.tokens());
        self.effects.make_room(tokens.div_ceil(block).saturating_sub(grown));
    }
}
