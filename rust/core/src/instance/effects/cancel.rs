//! Requests whose clients have cancelled them.
//!
//! A request that waits leaves at once. One that runs leaves at the end of the step under way, whose tokens count, as
//! vLLM handles aborts between two steps (`vllm/v1/engine/core.py`). What the prefix cache knows of it stays known. A
//! request that is between two instances leaves once its KV has arrived, and the blocks of one that waits for a load from a
//! tier are free once that has ended. Where steps are decided ahead, the blocks and the
//! seat of a request that leaves are those of one that finishes; that a real engine computes it once more, in the step that
//! it had decided, is not modelled.

use super::Effects;
use crate::hint::rare;
use crate::instance::handover::Origin;
use crate::instance::observers::Fact;
use crate::instance::ranking::List;
use crate::instance::request::{Phase, Slot};
use crate::kv::Tier;
use crate::time::Ticks;
use crate::trace::RequestNumber;

/// The way in which a cancelled request leaves its instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cancelled {
    /// It has left.
    Left,
    /// It has left; its KV was offered, and is where this says.
    Offered(Origin),
    /// It leaves at the end of the step in progress, or once its KV has arrived.
    Later,
}

impl Effects<'_> {
    /// Has a request leave that was cancelled. The run in progress has been truncated.
    pub(crate) fn cancel(&mut self, request: RequestNumber, now: Ticks) -> Cancelled {
        let Some(slot) = self.on.requests.find(request) else {
            if self.on.requests.is_read(request) {
                return Cancelled::Later;
            }
            self.cancel_arrival(request, now);
            return Cancelled::Left;
        };
        match self.on.requests[slot].phase {
            Phase::Prefilling | Phase::Decoding | Phase::Stalled if self.on.run.may_start() => {
                self.cancel_running(slot, now);
                Cancelled::Left
            }
            Phase::Preempted
            | Phase::Swapped { .. }
            | Phase::MigratedIn
            | Phase::Received
            | Phase::Restored
            | Phase::Loading
            | Phase::Loaded => {
                self.cancel_waiting(slot, now);
                Cancelled::Left
            }
            Phase::Offered => self.cancel_offered(slot, now),
            Phase::Prefilling | Phase::Decoding | Phase::Stalled => {
                self.on.observers.outbox.cancel_after_step(slot, &self.on.requests);
                Cancelled::Later
            }
            Phase::Expected
            | Phase::Reserved
            | Phase::Receiving
            | Phase::MigratingOut
            | Phase::Deferred
            | Phase::Ended { .. }
            | Phase::Vacant => Cancelled::Later,
        }
    }

    /// Has the requests leave that were cancelled during the step that has ended.
    #[inline(never)]
    pub(super) fn cancel_after_step(&mut self, now: Ticks) {
        for (slot, request) in self.on.observers.outbox.take_cancelled() {
            let state = &self.on.requests[slot];
            // It may have ended with its last token.
            if state.request == request && state.phase.is_admitted() {
                self.cancel_running(slot, now);
            }
        }
    }

    /// Whether a request that has yielded its last token was cancelled during that step, or is cancelled with that token.
    #[inline(never)]
    pub(super) fn is_cut_short(&self, slot: Slot) -> bool {
        let state = &self.on.requests[slot];
        let row = state.request.index();
        self.recorder.is_cancelled(row) || state.output < state.entry.output
    }

    /// Removes a request from the batch, between two steps.
    fn cancel_running(&mut self, slot: Slot, now: Ticks) {
        self.restart_standstill(now);
        self.count_pipeline(now);
        self.count_pending_of(slot);
        if self.on.requests[slot].phase == Phase::Decoding {
            self.leave_decode_set(slot, Phase::Stalled, now);
            self.note_decoded(slot);
        } else {
            self.on.batch.remove(slot, &self.on.requests);
            self.on.batch.forget_flying(slot);
        }
        if let Some(mut ranks) = self.ranks() {
            ranks.move_to(slot, List::Gone, now);
        }
        self.observe(Fact::Cancelled { ran: true }, slot, now);
        self.free_or_defer(slot, true, now);
    }

    /// Removes a request that waits and has no slot.
    fn cancel_arrival(&mut self, request: RequestNumber, now: Ticks) {
        self.on.observers.stats.occupancy.count_waiting(self.waiting(), now);
        let ranked = self.on.ranking.as_mut().is_some_and(|ranking| ranking.remove_arrival(request));
        if !ranked {
            self.on.queues.remove_waiting(request, None);
        }
        let slot = self.add_request(request);
        self.observe(Fact::Cancelled { ran: false }, slot, now);
        self.on.requests.release(slot);
    }

    /// Removes a request that waits.
    fn cancel_waiting(&mut self, slot: Slot, now: Ticks) {
        self.on.observers.stats.occupancy.count_waiting(self.waiting(), now);
        let ranked = self.on.ranking.is_some();
        let state = &mut self.on.requests[slot];
        let (phase, request) = (state.phase, state.request);
        match phase {
            Phase::Swapped { .. } => {
                self.on.kv.drop_swapped(state.owner(), state.computed, &mut state.blocks);
                self.on.queues.remove_swapped(slot, ranked);
            }
            Phase::Received | Phase::Restored => {
                self.on.kv.leave(Tier::Ready, state.computed, &state.blocks);
                self.on.transfers.remove_received(slot);
            }
            Phase::MigratedIn => {
                self.on.kv.drop_received(state.computed, &mut state.blocks);
                self.on.queues.remove_waiting(request, Some(slot));
            }
            Phase::Loading | Phase::Loaded => {}
            _ => self.on.queues.remove_waiting(request, Some(slot)),
        }
        if let Some(mut ranks) = self.ranks() {
            ranks.move_to(slot, List::Gone, now);
        }
        self.observe(Fact::Cancelled { ran: false }, slot, now);
        self.on.batch.forget_flying(slot);
        if self.on.tiers.chunks.is_some() {
            rare();
            self.leave_tier(slot, now);
        } else if phase.holds_kv() {
            self.free_or_defer(slot, false, now);
        } else {
            self.on.requests.release(slot);
        }
    }

    /// Withdraws the offer of a request.
    fn cancel_offered(&mut self, slot: Slot, now: Ticks) -> Cancelled {
        let offer = self.on.transfers.withdraw(|offer| offer.slot == slot);
        self.observe(Fact::Cancelled { ran: false }, slot, now);
        self.on.requests.release(slot);
        offer.map_or(Cancelled::Left, |offer| Cancelled::Offered(offer.origin))
    }
}
