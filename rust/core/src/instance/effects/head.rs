//! The step at the head of planned runs.

use super::Effects;
use crate::time::Ticks;

impl Effects<'_> {
    /// Applies the step in progress if it has ended by `now`, so that the run planned to follow it has begun; and those of the
    /// list that have ended.
    pub(in crate::instance) fn apply_head(&mut self, now: Ticks) {
        if self.on.run.is_past_head(now) {
            if self.on.run.planned().is_some() { self.apply_planned_head() } else { self.apply_listed(now) }
        }
    }

    /// Applies those steps of the list that have ended by `now`, but for the last one.
    #[inline(never)]
    fn apply_listed(&mut self, now: Ticks) {
        let list = self.on.run.take_list();
        let run = self.on.run.end();
        self.on.batch.end_step();
        let ended = list.ended(now).min(list.len() - 1);
        self.apply_list(&run, list, ended);
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
    }

    /// Applies the step in progress, and starts the run that is planned to follow it.
    #[inline(never)]
    pub(in crate::instance) fn apply_planned_head(&mut self) {
        let head = self.on.run.end();
        self.on.batch.end_step();
        self.apply(&head, 1);
        if !self.on.batch.chunks().is_empty() {
            self.finish_chunks(head.start, head.end(), head.decodes);
        }
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
        self.on.run.start_planned();
        debug_assert_eq!(
            *self.on.run.shape(),
            self.on.batch.shape(true, &self.on.requests),
            "Invariant: a run is what it was planned to be"
        );
    }
}
