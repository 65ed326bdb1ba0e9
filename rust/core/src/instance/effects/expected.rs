//! Requests that are offered before their prompt is computed on another instance: as they arrive, or while the last step of
//! it runs.

use super::Effects;
use super::MigratingRequest;
use crate::instance::handover::Origin;
use crate::instance::request::{Phase, Slot};
use crate::kv::Tier;
use crate::time::Ticks;

impl Effects<'_> {
    /// Offers a request to this instance, which has not left its source. `started`: a step that starts now has started.
    /// Returns its slot here, and when the run in progress now ends, if that changed.
    pub(crate) fn expect(
        &mut self,
        migrating: &MigratingRequest,
        origin: Origin,
        started: bool,
        now: Ticks,
    ) -> (Slot, Option<Ticks>) {
        if started {
            self.begin_step(now);
        }
        self.apply_listed(now);
        let slot = self.place_migrated(migrating, Phase::Expected, now);
        self.on.transfers.expect(self.offer_of(slot, origin));
        (slot, self.on.run.truncate(now))
    }

    /// An expected request has left its source: it counts here from now on. Returns whether its offer is still to be accepted.
    pub(crate) fn confirm(&mut self, slot: Slot, migrating: &MigratingRequest, now: Ticks) -> bool {
        self.apply_listed(now);
        self.recorder.columns.last_instance[migrating.request.index()] = self.on.settings.index;
        let state = &mut self.on.requests[slot];
        debug_assert_eq!(
            state.computed, migrating.kv_tokens,
            "Invariant: a prompt is computed in its last step"
        );
        let accepted = state.phase == Phase::Reserved;
        state.phase = if accepted { Phase::Receiving } else { Phase::Offered };
        (state.preemptions, state.times.max_gap) = (migrating.totals.preemptions, migrating.totals.max_gap);
        let answers = state.answering;
        self.on.transfers.confirm(answers);
        self.count_migrated(slot, migrating, now);
        !accepted
    }

    /// An expected request has ended with its first token. If it was not accepted, its offer is withdrawn; else its KV is
    /// received first. Returns whether it was withdrawn, and when the run in progress now ends, if that changed.
    pub(crate) fn call_off(&mut self, slot: Slot, now: Ticks) -> (bool, Option<Ticks>) {
        if self.on.requests[slot].phase == Phase::Reserved {
            return (false, None);
        }
        self.apply_listed(now);
        self.on.transfers.withdraw_expected(slot);
        self.on.requests.release(slot);
        // The next offer may be accepted now.
        (true, self.on.run.truncate(now))
    }

    /// An expected request that was accepted, and of which no KV was sent, has ended: its blocks are released. Returns when the
    /// run in progress now ends, if that changed.
    pub(crate) fn release_unsent(&mut self, slot: Slot, now: Ticks) -> Option<Ticks> {
        self.apply_until(now);
        let state = &mut self.on.requests[slot];
        self.on.kv.leave(Tier::Arriving, state.computed, &state.blocks);
        // Its blocks have no content that could be found.
        state.computed = 0;
        self.on.transfers.release_reserved();
        self.free_or_defer(slot, false, now);
        self.on.run.truncate(now)
    }

    /// The KV has been received of an expected request that has ended with its first token: its blocks are released.
    /// Returns when the run in progress now ends, if that changed.
    pub(crate) fn release_reserved(&mut self, slot: Slot, now: Ticks) -> Option<Ticks> {
        self.apply_until(now);
        let state = &mut self.on.requests[slot];
        self.on.kv.gpu_mut().register(state.owner(), state.computed, &mut state.blocks);
        self.on.kv.leave(Tier::Arriving, state.computed, &state.blocks);
        self.on.transfers.release_reserved();
        self.free_or_defer(slot, false, now);
        self.on.run.truncate(now)
    }
}
