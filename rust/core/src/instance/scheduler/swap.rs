//! Resuming swapped-out requests, and requests that were migrated in.

use super::Stages;
use crate::instance::request::{Phase, Slot};

impl Stages<'_> {
    /// Swaps requests in, in order, until the blocks, tokens or seats for one are
    /// lacking.
    #[inline(never)]
    pub(super) fn swap_in(&mut self) {
        while let Some(&slot) = self.effects.queues.swapped().first()
            && let Phase::Swapped { decoding } = self.effects.requests[slot].phase
            && let Some((tokens, blocks)) = self.swap_in_offer(slot, decoding)
        {
            self.effects.swap_in(slot, (tokens, blocks), self.draft.now);
            self.charge(u64::from(tokens));
        }
    }

    /// The tokens and blocks with which a swapped-out request resumes, if it can.
    fn swap_in_offer(&self, slot: Slot, decoding: bool) -> Option<(u32, u64)> {
        let rules = &self.effects.settings.scheduler;
        let state = &self.effects.requests[slot];
        // A prefill resumes with all that it lacks, uncut; unless it lacks more than the
        // budget, which vLLM 0.6.1 would never resume.
        let lacking = u64::from(state.lacking());
        let cut = lacking > self.draft.limits.tokens;
        let tokens = if cut { lacking.min(self.budget()) } else { lacking };
        let held = state.blocks.count();
        let grown =
            self.effects.settings.blocks_with_lookahead(state.computed + tokens as u32, decoding).max(held);
        // The spare block may be the one that a decode's next token fills.
        let spare = u64::from(rules.spare_block);
        let wanted = if decoding { grown.max(held + spare) } else { grown + spare };
        let decodes = || {
            self.draft.decoded && self.effects.batch.decode_set().len() > 0
                || self.effects.batch.runs_lone_decodes(&self.effects.requests)
        };
        let excluded = rules.exclusive_prefill && !decoding && decodes();
        let resumes = wanted + self.effects.settings.watermark(self.effects.admitted())
            <= self.effects.kv.free()
            && !excluded
            && tokens > 0
            && tokens <= self.budget()
            && self.effects.admitted() < rules.max_num_seqs;
        resumes.then_some((tokens as u32, grown))
    }
}
