//! Requests that return from the swap space, and KV that goes there from another instance.

use super::Effects;
use crate::instance::Part;
use crate::instance::request::{Phase, Slot};
use crate::time::Ticks;

impl Effects<'_> {
    /// Swaps in the first swapped-out request, which computes `tokens` in this step and then has `blocks`.
    pub(in crate::instance) fn swap_in(&mut self, slot: Slot, (tokens, blocks): (u32, u64), now: Ticks) {
        let state = &mut self.on.requests[slot];
        let decoding = state.phase == Phase::Swapped { decoding: true };
        self.on.kv.swap_in(state.owner(), state.computed, blocks, &mut state.blocks);
        state.phase = if decoding { Phase::Stalled } else { Phase::Prefilling };
        self.on.queues.pop_swapped();
        self.on.batch.admit(slot, &mut self.on.requests);
        self.schedule(slot, tokens, if decoding { Part::SwappedInDecode } else { Part::SwappedInChunk });
        self.note_admission(slot, false, 0, now);
    }

    /// Keeps the KV of ranked requests that were migrated in, and not admitted in the
    /// step that was formed, in the swap space. Returns whether KV was dropped for lack
    /// of room.
    #[inline(never)]
    pub(in crate::instance) fn store_migrated(&mut self, now: Ticks) -> bool {
        let mut dropped = false;
        let migrated = self.on.queues.take_migrated();
        for &slot in &migrated {
            let state = &mut self.on.requests[slot];
            if state.phase != Phase::MigratedIn || self.on.ranking.is_none() || !self.on.kv.cpu().is_used() {
                continue;
            }
            if self.on.kv.store_received(state.owner(), state.computed, &mut state.blocks) {
                state.phase = Phase::Swapped { decoding: true };
                self.on.queues.push_swapped(slot, true);
            } else {
                (state.computed, state.phase) = (0, Phase::Preempted);
                if let Some(mut ranks) = self.ranks() {
                    ranks.evaluate(slot, now, true);
                }
                dropped = true;
            }
        }
        self.on.queues.recycle_migrated(migrated);
        dropped
    }
}
