//! Ending a replay while steps are in progress.

use super::Effects;
use crate::instance::request::Phase;
use crate::metrics::Status;
use crate::time::Ticks;

impl Effects<'_> {
    /// Stops at `now`. Steps that have ended count. The step in progress yields nothing,
    /// but its time until now counts.
    pub(crate) fn halt(&mut self, now: Ticks) {
        self.apply_listed(now);
        self.count_standstill(now);
        self.on.observers.stats.occupancy.count_waiting(self.waiting(), now);
        self.count_pipeline(now);
        let mut latest = now;
        if !self.on.run.is_idle() {
            let run = self.on.run.end();
            let ended = run.steps_ended(now);
            if ended > 0 {
                self.apply(&run, ended);
            }
            if ended > 0 || !run.begun {
                // The step in progress holds its blocks.
                self.allocate_next_step();
            }
            latest = run.after(ended);
            if ended == 0 && self.on.batch.runs_discarded_only() {
                // It was decided before its requests had ended.
                self.on.observers.log.write(&run, 1, &mut self.recorder.room, |_| 0);
            }
            let held = self.on.batch.kv_tokens_in_step(run.decodes);
            let stats = &mut self.on.observers.stats;
            stats.work.busy_ticks += now - latest;
            stats.occupancy.count_running(now - latest, self.on.batch.running(), held);
        }
        self.write_unfinished(latest);
    }

    /// Writes the final columns of the unfinished requests. The decode set's latest step
    /// ended at `latest`.
    fn write_unfinished(&mut self, latest: Ticks) {
        self.release_all(latest);
        for queued in self.on.queues.waiting().iter().filter(|queued| queued.slot.is_none()) {
            self.recorder.columns.status[queued.request.index()] = Status::Waiting as u8;
        }
        if let Some(ranking) = &self.on.ranking {
            for request in ranking.without_slots() {
                self.recorder.columns.status[request.index()] = Status::Waiting as u8;
            }
        }
        let running: Vec<_> = self.on.batch.order().current(&self.on.requests).collect();
        for slot in running {
            if self.on.requests[slot].phase == Phase::Decoding {
                self.leave_decode_set(slot, Phase::Stalled, latest);
            }
        }
        let elsewhere =
            |phase: Phase| matches!(phase, Phase::MigratingOut | Phase::Ended { .. }) || phase.is_expected();
        for state in self.on.requests.iter().filter(|state| !elsewhere(state.phase)) {
            let status = if state.phase.is_admitted() { Status::Running } else { Status::Waiting };
            self.recorder.close(state.request, status, state.totals());
        }
    }
}
