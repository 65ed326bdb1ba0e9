//! Blocks and slots that are freed, and members that leave the decode set.

use super::Effects;
use crate::hint::rare;
use crate::instance::request::{Phase, Slot};
use crate::instance::tiers::ChunkTier;
use crate::instance::view::RequestView;
use crate::policy::{Field, Validity};
use crate::time::Ticks;

impl Effects<'_> {
    /// Frees the blocks and the slot of a request that has left; where steps are decided
    /// ahead, once the next step is decided. `seated`: the request keeps its seat until
    /// then.
    pub(super) fn free_or_defer(&mut self, slot: Slot, seated: bool, now: Ticks) {
        if self.on.settings.scheduler.schedule_ahead {
            rare();
            let phase = &mut self.on.requests[slot].phase;
            let decoding = *phase != Phase::Prefilling;
            *phase = if seated { Phase::Ended { decoding } } else { Phase::Deferred };
            self.on.queues.ahead_mut().defer_free(slot, seated);
        } else {
            self.free(slot, now);
        }
    }

    /// Frees the blocks and the slot of a request that has left.
    pub(super) fn free(&mut self, slot: Slot, now: Ticks) {
        if self.on.tiers.chunks.is_some() && self.keeps_loaded_blocks(slot) {
            return;
        }
        self.release_blocks(slot, now);
        self.on.requests.release(slot);
    }

    /// Frees the blocks of a request that has left.
    pub(super) fn release_blocks(&mut self, slot: Slot, now: Ticks) {
        self.begin_release(slot, now);
        if self.on.tiers.chunks.is_some() {
            rare();
            self.finish_in_tier(slot);
        }
        let state = &mut self.on.requests[slot];
        // A request that was moved to another instance may return, and a cancelled one may be sent again.
        let returns = state.generated < state.output || self.recorder.is_cancelled(state.request.index());
        let (owner, computed) = (state.owner(), state.computed);
        if state.generated == state.output {
            self.on.kv.gpu_mut().release_ended(owner, computed, returns, &mut state.blocks);
        } else {
            self.on.kv.gpu_mut().release(owner, computed, returns, &mut state.blocks);
        }
    }

    /// Tells the KV cache which request is going to release its blocks.
    pub(super) fn begin_release(&mut self, slot: Slot, now: Ticks) {
        let (request, trace) = (self.on.requests[slot].request, self.trace);
        self.on.kv.begin_release(now, |field| match field {
            Field::Req(field) => {
                RequestView::arriving(request, now, trace)
                    .field(field, trace, &mut Validity::EVER.clone())
                    .value
            }
            Field::Column(column) => trace.number(column, request.index()),
            _ => 0.0,
        });
    }

    /// Queues all arrivals and frees all blocks that a step decided ahead did not see: no
    /// step is in progress. Returns whether there were any.
    #[inline(never)]
    pub(in crate::instance) fn release_all(&mut self, now: Ticks) -> bool {
        let unseen = self.on.waits_for_acceptance() + self.on.transfers.received() > 0
            && self.on.queues.ahead().latest_start() < Ticks::MAX;
        let any = unseen
            || self.on.queues.ahead().arrived() > 0
            || self.on.queues.ahead().defers()
            || self.on.tiers.chunks.as_deref().is_some_and(ChunkTier::has_launched)
            || self.on.speculator.is_some()
                && self.on.unseen.as_ref().is_some_and(|unseen| !unseen.is_empty());
        self.receive_all();
        self.end_decision(false, now);
        if let Some(tier) = self.on.tiers.chunks.as_deref_mut() {
            rare();
            tier.land();
        }
        any
    }

    /// Queues all arrivals: no step is in progress. Returns whether there were any.
    #[inline(never)]
    pub(in crate::instance) fn receive_all(&mut self) -> bool {
        let any = self.on.queues.ahead().arrived() > 0;
        self.on.queues.ahead_mut().started(Ticks::MAX);
        self.on.queues.release_due(self.trace);
        self.on.queues.receipts_mut().reset();
        any
    }

    /// Removes a member of the decode set that stays with the instance. `now`: when the
    /// set's latest step ended.
    pub(super) fn set_aside(&mut self, slot: Slot, now: Ticks) {
        self.leave_decode_set(slot, Phase::Stalled, now);
        self.note_decoded(slot);
        self.on.observers.readers.note_deadline(slot);
        self.on.kv.gpu_mut().assign_held(&mut self.on.requests[slot].blocks);
    }

    /// Removes a member of the decode set. `now`: when the set's latest step ended.
    pub(super) fn leave_decode_set(&mut self, slot: Slot, phase: Phase, now: Ticks) {
        let set = self.on.batch.decode_set();
        self.on.observers.readers.leave(slot, set.step(), set.len() - 1);
        self.on.batch.leave_decode_set(slot, phase, now, &mut self.on.requests);
    }

    /// Assigns its blocks to a request that has left the decode set.
    pub(super) fn assign_blocks(&mut self, slot: Slot) {
        let state = &mut self.on.requests[slot];
        self.on.kv.gpu_mut().assign(state.owner(), state.computed, &mut state.blocks);
    }

    /// Allocates blocks for the next tokens of members of the decode set.
    pub(in crate::instance) fn allocate_for_decodes(&mut self, blocks: u64) {
        self.on.kv.allocate_unassigned(blocks);
    }
}
