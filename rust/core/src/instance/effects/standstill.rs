//! Time in which requests are admitted and no step runs.

use super::Effects;
use crate::hint::rare;
use crate::time::Ticks;

impl Effects<'_> {
    /// Counts the time in which requests were admitted and no step could be formed.
    pub(in crate::instance) fn count_standstill(&mut self, now: Ticks) {
        if let Some(since) = self.on.run.take_standstill() {
            rare();
            let (running, tokens) = (self.on.batch.running(), self.on.batch.kv_tokens());
            self.on.observers.stats.occupancy.count_running(now - since, running, tokens);
        }
    }

    /// The same, before the batch changes while no step can be formed.
    pub(in crate::instance) fn restart_standstill(&mut self, now: Ticks) {
        let stands = self.on.run.stands_still();
        self.count_standstill(now);
        if stands {
            self.on.run.stand_still(now);
        }
    }
}
