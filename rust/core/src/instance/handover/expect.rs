//! Requests that are offered while the last step of their prompt runs on another instance.

use super::transfers::Origin;
use crate::instance::migration::MigratingRequest;
use crate::instance::request::{Phase, Slot};
use crate::instance::{Instance, Recorder};
use crate::time::Ticks;
use crate::trace::Trace;

impl Instance {
    /// Reports the requests whose prompt ends with the step that starts, if transfers overlap with that step.
    pub(in crate::instance) fn report_last_steps(&mut self) {
        if self.settings.handover.is_some_and(|handover| handover.overlaps) {
            self.report_each_last_step();
        }
    }

    #[inline(never)]
    fn report_each_last_step(&mut self) {
        for chunk in self.batch.chunks() {
            let state = &self.requests[chunk.slot];
            let ends = state.computed + chunk.tokens == state.target();
            if ends && state.generated == 0 {
                self.observers.outbox.last_step_begins(chunk.slot, &self.requests);
            }
        }
    }

    /// Whether a prompt ends with the step in progress that the engine has not asked for.
    pub(crate) fn has_last_steps(&self) -> bool {
        self.observers.outbox.has_last_steps()
    }

    /// Removes and returns the requests whose prompts end with the step that has started, in the order of admission.
    pub(crate) fn take_last_steps(&mut self) -> Vec<Slot> {
        self.observers.outbox.take_last_steps()
    }

    /// When the step in progress started, and when it ends.
    pub(crate) fn current_step(&self) -> Option<(Ticks, Ticks)> {
        self.run.current().map(|run| (run.start, run.after(1)))
    }

    /// The state of a request that will leave at `left`, as its prompt has been computed.
    pub(crate) fn anticipate(&self, slot: Slot, left: Ticks) -> MigratingRequest {
        MigratingRequest::after_prefill(&self.requests[slot], left)
    }

    /// Offers a request to this instance, which has not left its source. Returns its slot here, and when the run in
    /// progress now ends, if that changed.
    pub(crate) fn expect(
        &mut self,
        migrating: &MigratingRequest,
        origin: Origin,
        now: Ticks,
        trace: &Trace,
        recorder: &mut Recorder,
    ) -> (Slot, Option<Ticks>) {
        // A step that starts now has started.
        self.begin_step(now, trace, recorder);
        let slot = self.place_migrated(migrating, Phase::Expected, now, trace);
        self.transfers.expect(self.offer_of(slot, origin));
        (slot, self.run.truncate(now))
    }

    /// An expected request has left its source: it counts here from now on.
    pub(crate) fn confirm(
        &mut self,
        slot: Slot,
        migrating: &MigratingRequest,
        now: Ticks,
        trace: &Trace,
        recorder: &mut Recorder,
    ) {
        self.apply_head(now, trace, recorder);
        recorder.columns.last_instance[migrating.request as usize] = self.settings.index;
        let state = &mut self.requests[slot];
        debug_assert_eq!(
            state.computed, migrating.kv_tokens,
            "Invariant: a prompt is computed in its last step"
        );
        state.phase = if state.phase == Phase::Reserved { Phase::Receiving } else { Phase::Offered };
        let answers = state.answering;
        self.transfers.confirm(answers);
        self.count_migrated(slot, migrating, now, trace, recorder);
    }

    /// An expected request has ended with its first token. If it was not accepted, its offer is withdrawn; else its KV is
    /// received first. Returns whether it was withdrawn, and when the run in progress now ends, if that changed.
    pub(crate) fn call_off(
        &mut self,
        slot: Slot,
        now: Ticks,
        trace: &Trace,
        recorder: &mut Recorder,
    ) -> (bool, Option<Ticks>) {
        if self.requests[slot].phase == Phase::Reserved {
            return (false, None);
        }
        self.apply_head(now, trace, recorder);
        self.transfers.withdraw_expected(slot);
        self.requests.release(slot);
        // The next offer may be accepted now.
        (true, self.run.truncate(now))
    }

    /// The KV has been received of an expected request that has ended with its first token: its blocks are released.
    /// Returns when the run in progress now ends, if that changed.
    pub(crate) fn release_reserved(
        &mut self,
        slot: Slot,
        now: Ticks,
        trace: &Trace,
        recorder: &mut Recorder,
    ) -> Option<Ticks> {
        self.apply_until(now, trace, recorder);
        let state = &mut self.requests[slot];
        self.kv.register(state.owner(), state.computed, &mut state.blocks);
        self.transfers.release_reserved(state.computed, state.blocks.count());
        self.free_or_defer(slot, false);
        self.run.truncate(now)
    }

    /// Whether the request in a slot, whose KV has been received, has ended with its first token elsewhere.
    pub(crate) fn is_called_off(&self, slot: Slot) -> bool {
        self.requests[slot].phase == Phase::Reserved
    }
}
