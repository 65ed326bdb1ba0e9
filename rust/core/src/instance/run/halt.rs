//! Ending a replay while steps are in progress.

use crate::instance::request::Phase;
use crate::instance::{Instance, Recorder};
use crate::metrics::Status;
use crate::time::Ticks;
use crate::trace::Trace;

impl Instance {
    /// Stops at `now`. Steps that have ended count. The step in progress yields nothing,
    /// but its time until now counts.
    pub(crate) fn halt(&mut self, now: Ticks, trace: &Trace, recorder: &mut Recorder) {
        self.apply_head(now, trace, recorder);
        self.book_standstill(now);
        self.observers.stats.book_waiting(self.waiting(), now);
        let mut latest = now;
        if let Some(run) = self.run.take() {
            let ended = run.steps_ended(now);
            let members = if run.decodes { self.batch.decode_set().len() } else { 0 };
            if ended > 0 {
                self.apply(&run, ended, trace, recorder);
            }
            if ended > 0 || !run.begun {
                // The step in progress holds its blocks.
                self.allocate_next_step();
            }
            latest = run.after(ended);
            let since = u128::from(now - latest);
            let held = self.batch.kv_tokens() + members;
            self.observers.stats.busy_ticks += since as u64;
            self.observers.stats.running_ticks += since * u128::from(self.batch.running());
            self.observers.stats.kv_token_ticks += since * u128::from(held);
        }
        self.write_unfinished(latest, trace, recorder);
    }

    /// Writes the final columns of the unfinished requests. The decode set's latest step
    /// ended at `latest`.
    fn write_unfinished(&mut self, latest: Ticks, trace: &Trace, recorder: &mut Recorder) {
        self.release_all(trace);
        for queued in self.queues.waiting().iter().filter(|queued| queued.slot.is_none()) {
            recorder.columns.status[queued.request as usize] = Status::Waiting as u8;
        }
        if let Some(ranking) = &self.ranking {
            for row in ranking.rows_without_slot() {
                recorder.columns.status[row as usize] = Status::Waiting as u8;
            }
        }
        let running: Vec<_> = self.batch.order().current(&self.requests).collect();
        for slot in running {
            if self.requests[slot].phase == Phase::Decoding {
                self.leave_decode_set(slot, Phase::Stalled, latest);
            }
        }
        let elsewhere = |phase: Phase| phase == Phase::MigratingOut || phase.is_expected();
        for state in self.requests.iter().filter(|state| !elsewhere(state.phase)) {
            let status = if state.phase.is_admitted() { Status::Running } else { Status::Waiting };
            recorder.close(state.request, status, state.totals());
        }
    }
}
