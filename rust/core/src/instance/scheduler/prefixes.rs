//! Lookups and preemptions, and a tree of cached prefixes.
//!
//! Source: `sglang` 0.5.23, `srt/managers/schedule_policy.py` (`calc_priority`) and `srt/managers/schedule_batch.py`
//! (`retract_decode`).

use super::Stages;
use crate::hint::rare;
use crate::instance::Part;
use crate::instance::request::Phase;

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
    /// one for each; for decodes one for each.
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
        self.effects.make_room(of_prompts.max(decoding.saturating_sub(grown)));
    }

    /// Makes room for the coming tokens of the decodes that are left after a preemption. Those of the first `reached`
    /// requests have the blocks of this step already.
    pub(super) fn make_room_for_decodes(&mut self, reached: usize) {
        if !self.effects.kv.gpu().is_tree() {
            return;
        }
        rare();
        let Some(reserve) = self.effects.reserve.as_deref() else { return };
        let block = self.effects.settings.block.tokens();
        let decoding = self.effects.decoding_in_order();
        let tokens = reserve.coming(decoding.len() as u64);
        let order = self.effects.batch.order();
        let set = self.effects.batch.decode_set();
        let grown = (0..reached.min(order.len())).filter(|&at| {
            let state = &self.effects.requests[order.slot(at)];
            match state.phase {
                Phase::Decoding => set.needed_blocks(state) > 0,
                Phase::Stalled => state.computed.is_multiple_of(block),
                _ => false,
            }
        });
        let room = tokens.div_ceil(u64::from(block)).saturating_sub(grown.count() as u64);
        self.effects.make_room(room);
    }
}
