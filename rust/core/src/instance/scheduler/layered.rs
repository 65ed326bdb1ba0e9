//! The stage that runs prefills one group of layers a step (layered prefill).

use super::StepDraft;
use crate::config::Stage;
use crate::instance::effects::Effects;

impl Effects<'_> {
    /// Moves the batch under way to its next group of layers, or forms a new batch.
    #[inline(never)]
    pub(super) fn run_layer_group(&mut self, stage: usize, draft: &mut StepDraft) {
        if self.on.batch.advance_layers() {
            return;
        }
        // Decodes do not use up the budget of the batch.
        draft.charged = false;
        draft.tokens_left = self.on.settings.scheduler.max_num_batched_tokens;
        self.continue_prefills(draft);
        self.admit(true, draft);
        let Stage::Layered { layers, groups } = &self.on.settings.scheduler.stages[stage] else { return };
        draft.new_batch |= self.on.batch.start_layers(*layers, groups, &self.on.requests);
    }
}
