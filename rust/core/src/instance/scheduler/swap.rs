//! Resuming swapped-out requests, and requests that were migrated in.

use super::StepDraft;
use crate::instance::Part;
use crate::instance::effects::Effects;
use crate::instance::observers::Fact;
use crate::instance::request::{Phase, Slot};
use crate::time::Ticks;

impl Effects<'_> {
    /// Swaps requests in, in order, until the blocks, tokens or seats for one are
    /// lacking.
    #[inline(never)]
    pub(super) fn swap_in(&mut self, draft: &mut StepDraft) {
        let mut resumed = 0;
        while resumed < self.on.queues.swapped().len() {
            let slot = self.on.queues.swapped()[resumed];
            let state = &self.on.requests[slot];
            let Phase::Swapped { decoding } = state.phase else { break };
            let Some((tokens, blocks)) = self.swap_in_offer(slot, decoding, draft) else { break };
            let computed = state.computed;
            let state = &mut self.on.requests[slot];
            self.on.kv.swap_in(computed, blocks, &mut state.blocks);
            state.phase = if decoding { Phase::Stalled } else { Phase::Prefilling };
            self.on.batch.admit(slot, &mut self.on.requests);
            let part = if decoding { Part::SwappedInDecode } else { Part::SwappedInChunk };
            self.schedule_chunk(slot, tokens, part, draft);
            self.note_admission(slot, false, draft.now);
            resumed += 1;
        }
        self.on.queues.pop_swapped(resumed);
    }

    /// The tokens and blocks with which a swapped-out request resumes, if it can.
    fn swap_in_offer(&self, slot: Slot, decoding: bool, draft: &StepDraft) -> Option<(u32, u64)> {
        let rules = &self.on.settings.scheduler;
        let state = &self.on.requests[slot];
        // A prefill resumes with all that it lacks, uncut; unless it lacks more than the
        // budget, which vLLM 0.6.1 would never resume.
        let lacking = u64::from(state.lacking());
        let cut = lacking > rules.max_num_batched_tokens;
        let tokens = if cut { lacking.min(draft.tokens_left) } else { lacking };
        let held = state.blocks.count();
        let grown = self.on.settings.blocks_for(state.computed + tokens as u32).max(held);
        // The spare block may be the one that a decode's next token fills.
        let spare = u64::from(rules.spare_block);
        let wanted = if decoding { grown.max(held + spare) } else { grown + spare };
        let decodes = || {
            draft.decoded && self.on.batch.decode_set().len() > 0
                || self.on.batch.runs_lone_decodes(&self.on.requests)
        };
        let excluded = rules.exclusive_prefill && !decoding && decodes();
        let resumes = wanted + self.on.settings.watermark(self.admitted()) <= self.on.kv.free()
            && !excluded
            && tokens > 0
            && tokens <= draft.tokens_left
            && self.admitted() < rules.max_num_seqs;
        resumes.then_some((tokens as u32, grown))
    }

    /// Keeps the KV of ranked requests that were migrated in, and not admitted in the
    /// step that was formed, in the swap space. Returns whether KV was dropped for lack
    /// of room.
    #[inline(never)]
    pub(super) fn store_migrated(&mut self, now: Ticks) -> bool {
        let mut dropped = false;
        let migrated = self.on.queues.take_migrated();
        for &slot in &migrated {
            let state = &mut self.on.requests[slot];
            if state.phase != Phase::MigratedIn || self.on.ranking.is_none() || !self.on.kv.cpu().is_used() {
                continue;
            }
            if self.on.kv.store_received(state.computed, &mut state.blocks) {
                state.phase = Phase::Swapped { decoding: true };
                self.on.queues.push_swapped(slot, true);
            } else {
                (state.computed, state.phase) = (0, Phase::Preempted);
                if let Some(mut ranks) = self.ranks() {
                    ranks.evaluate(slot, now, true);
                }
                dropped = true;
            }
        }
        self.on.queues.recycle_migrated(migrated);
        dropped
    }

    /// Notes that a request was admitted. `received`: with KV that another instance had sent.
    pub(super) fn note_admission(&mut self, slot: Slot, received: bool, now: Ticks) {
        let times = &mut self.on.requests[slot].times;
        times.admitted_at = now;
        let since = std::mem::replace(&mut times.out_since, Ticks::MAX);
        let since = (since != Ticks::MAX).then_some(since);
        self.observe(Fact::Admitted { since, received }, slot, now);
    }
}
