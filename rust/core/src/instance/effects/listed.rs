//! Steps that were listed, and have ended.

use super::Effects;
use crate::time::Ticks;

impl Effects<'_> {
    /// Applies those listed steps that have ended by `now`, but for the last one.
    pub(in crate::instance) fn apply_listed(&mut self, now: Ticks) {
        if self.on.run.is_past_head(now) {
            self.apply_ended(now);
        }
    }

    /// See [`Self::apply_listed`].
    #[inline(never)]
    fn apply_ended(&mut self, now: Ticks) {
        let Some(list) = self.on.run.take_list() else { return };
        let run = self.on.run.end();
        self.on.batch.end_step();
        let ended = list.ended(now).min(list.len() - 1);
        self.apply_list(&run, list, ended);
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
    }
}
