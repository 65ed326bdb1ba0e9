//! Admissions that leave the blocks free which the running requests will take until they end, so that none is preempted.
//!
//! Source: TensorRT-LLM 1.2, `NoEvictScheduledBlocksManager` in `cpp/tensorrt_llm/batch_manager/scheduledBlocksManager.h`,
//! and `getRemainingBlocksToCompletion` in `kvCacheManager.cpp`.

use super::Stages;
use crate::config::Allocation;
use crate::instance::effects::Candidate;
use crate::instance::request::{Phase, Slot};
use crate::trace::RequestNumber;

impl Stages<'_> {
    /// Blocks that must be free beside those of a prompt with `tokens` tokens computed: those that it and the running
    /// requests will take until they end.
    pub(super) fn blocks_to_come(&mut self, candidate: &Candidate, tokens: u32) -> u64 {
        if self.effects.settings.scheduler.allocation != Allocation::ChunkIfOutputFits {
            return 0;
        }
        let running = match self.draft.held_back.to_come {
            Some(known) => known,
            None => self
                .effects
                .batch
                .order()
                .counted(&self.effects.requests)
                .map(|slot| self.lacking_blocks(slot))
                .sum(),
        };
        self.draft.held_back.to_come = Some(running);
        let settings = &self.effects.settings;
        let taken = settings.blocks_with_lookahead(tokens, false).max(settings.blocks_for(candidate.target));
        running + self.blocks_at_end(candidate.request).saturating_sub(taken)
    }

    /// Counts the blocks that the request admitted last will take, if those of the running requests are counted.
    pub(super) fn add_to_come(&mut self) {
        if let Some(known) = self.draft.held_back.to_come
            && let Some(slot) = self.effects.batch.order().last()
        {
            self.draft.held_back.to_come = Some(known + self.lacking_blocks(slot));
        }
    }

    /// Blocks that a running request will take until it ends, beside those that it has in this step.
    fn lacking_blocks(&self, slot: Slot) -> u64 {
        let state = &self.effects.requests[slot];
        let held = match state.phase {
            Phase::Decoding => {
                self.effects.batch.decode_set().held_blocks(state, u64::from(self.draft.decoded))
            }
            _ => state.blocks.count(),
        };
        self.blocks_at_end(state.request).saturating_sub(held)
    }

    /// Blocks of a request with all tokens of its prompt and its output.
    pub(super) fn blocks_at_end(&self, request: RequestNumber) -> u64 {
        let (trace, row) = (self.effects.trace, request.index());
        self.effects.settings.blocks_with_lookahead(trace.prompt_tokens[row] + trace.output_tokens[row], true)
    }
}
