//! The stage that runs prefills one group of layers a step (layered prefill).

use super::Stages;
use crate::config::Stage;

impl Stages<'_> {
    /// Moves the batch under way to its next group of layers, or forms a new batch.
    #[inline(never)]
    pub(super) fn run_layer_group(&mut self, stage: usize) {
        if self.effects.advance_layers() {
            return;
        }
        // Decodes do not use up the budget of the batch.
        self.draft.charged = false;
        self.draft.tokens_left = self.draft.limits.tokens;
        self.continue_prefills();
        self.admit(true);
        let Stage::Layered { layers, groups } = self.effects.settings.scheduler.stages[stage].clone() else {
            return;
        };
        self.draft.new_batch |= self.effects.start_layers(layers, &groups);
    }
}
