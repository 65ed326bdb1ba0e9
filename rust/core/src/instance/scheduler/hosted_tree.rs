//! Admissions that load what the host has of a tree, and how long a run lasts before its copies change anything.

use super::Stages;
use crate::hint::rare;
use crate::instance::effects::ChunkLoad;
use crate::instance::run::Run;
use crate::kv::Hits;

impl Stages<'_> {
    /// The load of a candidate's prefix that the host has after that on the GPU, if it is long enough.
    pub(super) fn look_up_on_host(&self, hits: &Hits) -> ChunkLoad {
        let tokens = hits.on_host() * self.effects.settings.block.tokens();
        let cache = self.effects.settings.scheduler.prefix_cache.as_ref();
        let least = cache.and_then(|cache| cache.tree).map_or(0, |tree| tree.least_load);
        if tokens >= least.max(1) { ChunkLoad::Before(tokens) } else { ChunkLoad::None }
    }

    /// Where no step could be formed, has it be tried again as a copy of a tree ends, or a request stops waiting for one.
    /// Returns whether it is to be tried again at once.
    pub(super) fn await_copies(&mut self) -> bool {
        let Some(tree) = self.effects.tiers.tree.as_deref() else { return false };
        rare();
        // What has ended and was not seen as the step in flight began is seen now.
        let seen = self.effects.seen_copies(self.draft.now);
        if tree.has_news(self.draft.now) || tree.next_end().is_some_and(|end| end <= seen) {
            return true;
        }
        let next = [tree.next_end(), tree.next_stop(), self.draft.retry_at];
        self.draft.retry_at = next.into_iter().flatten().min();
        false
    }

    /// For how many steps of a run the copies of a tree change nothing: up to the one after which a step sees the end of one,
    /// and before one that would have to copy to the host what it evicts.
    pub(super) fn steps_before_tree_changes(&self, run: &Run) -> u64 {
        let Some(copies) = self.effects.tiers.tree.as_deref() else { return run.steps };
        if self.draft.loads.looked_up || copies.has_news(run.start) {
            return 1;
        }
        // What has been inserted is copied as the step ends.
        let mut steps = if self.effects.kv.gpu().written() > 0 { 1 } else { run.steps };
        if copies.writes_evicted() {
            steps = steps.min(self.steps_before_evictions(steps));
        }
        let ahead = self.effects.settings.scheduler.schedule_ahead;
        match copies.next_end() {
            None => steps,
            Some(end) if ahead && end <= run.start => 1,
            // A step that is decided ahead sees the end once the step before it has started.
            Some(end) => steps.min(run.steps_to_reach(end) + u64::from(ahead)),
        }
    }

    /// For how many steps, up to `most`, no allocation of the decode set evicts from a tree. Where blocks have several tokens,
    /// a step needs a block for each decode that holds nothing before it.
    fn steps_before_evictions(&self, most: u64) -> u64 {
        let set = self.effects.batch.decode_set();
        let spare = if self.effects.settings.block.tokens() > 1 { set.len() } else { 0 };
        match self.effects.kv.gpu().empty().checked_sub(spare) {
            None => 1,
            Some(empty) => set.steps_covered(empty + set.blocks_for_next(), most).max(1),
        }
    }
}
