//! Requests that are preempted or left out of a step.

use super::Effects;
use crate::config::Preemption;
use crate::hint::rare;
use crate::instance::Instance;
use crate::instance::Part;
use crate::instance::observers::Fact;
use crate::instance::queues::Requeue;
use crate::instance::ranking::List;
use crate::instance::request::{Phase, Slot};
use crate::time::Ticks;

impl Effects<'_> {
    /// Preempts a request that is not scheduled in this step.
    #[inline(never)]
    pub(in crate::instance) fn preempt(&mut self, slot: Slot, now: Ticks) {
        let phase = self.on.requests[slot].phase;
        if phase == Phase::Decoding {
            self.set_aside(slot, now);
        } else {
            self.on.batch.remove(slot, &self.on.requests);
        }
        self.release_preempted(slot, phase != Phase::Prefilling, now);
    }

    /// Preempts a ranked request that may be scheduled in this step; a member of the
    /// decode set is. Returns the tokens that it was scheduled with.
    pub(in crate::instance) fn preempt_ranked(&mut self, slot: Slot, now: Ticks) -> u32 {
        let phase = self.on.requests[slot].phase;
        let tokens = if phase == Phase::Decoding {
            self.set_aside_with_next_block(slot, now);
            1
        } else {
            self.on.batch.remove(slot, &self.on.requests).tokens
        };
        self.release_preempted(slot, phase != Phase::Prefilling, now);
        tokens
    }

    /// Preempts a request in the queue's order that is scheduled in this step. The prefix
    /// cache knows its blocks by the tokens that were scheduled; a swap copies those that
    /// were computed. `charged`: decodes use up the budget. `new_batch`: prefills that run by groups of layers do, too.
    /// Returns the tokens that it has used up of the budget.
    pub(in crate::instance) fn preempt_scheduled(
        &mut self,
        slot: Slot,
        (charged, new_batch): (bool, bool),
        now: Ticks,
    ) -> u32 {
        let phase = self.on.requests[slot].phase;
        let known = self.on.settings.scheduler.preemption == Preemption::Recompute;
        let (tokens, counted) = if phase == Phase::Decoding {
            self.set_aside_with_next_block(slot, now);
            if known {
                self.on.requests[slot].computed += 1;
            } else {
                self.assign_scheduled(slot);
            }
            (1, charged)
        } else {
            let dropped = self.on.batch.remove(slot, &self.on.requests);
            let free_of_charge = dropped.layered && !new_batch || dropped.part == Part::Decode && !charged;
            // What a chunk computes is known since it was scheduled.
            (dropped.tokens, !free_of_charge)
        };
        self.release_preempted(slot, phase != Phase::Prefilling, now);
        if counted { tokens } else { 0 }
    }

    /// The running request that is preempted next where blocks for the decode set are lacking: the worst, or the last
    /// admitted, which leaves the order of admission.
    pub(in crate::instance) fn next_victim(&mut self) -> Option<Slot> {
        match &mut self.on.ranking {
            Some(ranking) => ranking.worst_running(),
            None => self.on.batch.order_mut().pop_current(&self.on.requests),
        }
    }

    /// Removes requests that have left from the order of admission.
    pub(in crate::instance) fn compact_order(&mut self) {
        self.on.batch.order_mut().compact(&self.on.requests);
    }

    /// Takes the request at a place out of the order of admission, which is compact.
    pub(in crate::instance) fn take_from_order(&mut self, at: usize) -> Slot {
        self.on.batch.order_mut().remove(at)
    }

    /// Moves a member of the decode set out of it that stays admitted, and does not run with the set in this step.
    pub(in crate::instance) fn stall(&mut self, slot: Slot, now: Ticks) {
        self.set_aside(slot, now);
        self.assign_blocks(slot);
        self.on.batch.keep_outside(slot, &self.on.requests);
    }

    /// Leaves a ranked request out of this step, which keeps its memory.
    pub(in crate::instance) fn leave_out(&mut self, slot: Slot, now: Ticks) {
        if self.on.requests[slot].phase == Phase::Decoding {
            self.stall(slot, now);
        }
        if let Some(mut ranks) = self.ranks() {
            ranks.move_to(slot, List::LeftOut, now);
        }
    }

    /// Moves a ranked request that was left out back among those that run.
    pub(in crate::instance) fn take_back(&mut self, slot: Slot, now: Ticks) {
        if let Some(mut ranks) = self.ranks() {
            ranks.move_to(slot, List::Running, now);
        }
    }

    /// Assigns a decode that was scheduled its blocks, which are known with the token that it would have computed.
    fn assign_scheduled(&mut self, slot: Slot) {
        let (owner, seen) = self.on.seen_content(slot);
        self.on.kv.gpu_mut().assign(owner, seen + 1, &mut self.on.requests[slot].blocks);
    }

    /// Removes a member of the decode set that has the blocks of its next step.
    fn set_aside_with_next_block(&mut self, slot: Slot, now: Ticks) {
        let held = self.on.batch.decode_set().held_blocks(&self.on.requests[slot], 1);
        self.set_aside(slot, now);
        if self.on.kv.gpu().lists_given() {
            rare();
            let before = self.on.batch.blocks_before(slot, &self.on.requests);
            let Instance { kv, requests, .. } = &mut *self.on;
            let blocks = &mut requests[slot].blocks;
            kv.gpu_mut().assign_given(before, held - blocks.count(), blocks);
        }
        self.on.requests[slot].blocks.set_count(held);
    }

    /// Swaps a request out that has left the batch; or releases its blocks and queues it
    /// again.
    #[inline(never)]
    fn release_preempted(&mut self, slot: Slot, decoding: bool, now: Ticks) {
        let ranked = self.on.ranking.is_some();
        self.forget_drafts(slot);
        let state = &mut self.on.requests[slot];
        state.preemptions += 1;
        state.times.out_since = now;
        state.times.attained += now - state.times.admitted_at;
        self.observe(Fact::Preempted, slot, now);
        let state = &mut self.on.requests[slot];
        self.on.transfers.admitted.preempt(state.request);
        if let Some(tier) = self.on.tiers.chunks.as_deref_mut() {
            tier.preempt(slot);
        }
        // The KV of a token that is lost is computed again.
        let computed = state.computed - u32::from(self.on.has_pending(slot));
        self.begin_release(slot, now);
        let seen = self.on.seen_content(slot);
        self.forget_outcome(slot);
        let computed_only = ranked || self.on.reserve.is_some();
        let state = &mut self.on.requests[slot];
        if self.on.kv.cpu().is_used() {
            state.computed = computed;
            // A ranked request's blocks are copied only if they were computed.
            let blocks =
                if computed_only { self.on.settings.blocks_for(computed) } else { state.blocks.count() };
            if self.on.kv.swap_out(seen, computed, blocks, &mut state.blocks) {
                state.phase = Phase::Swapped { decoding };
                self.on.queues.push_swapped(slot, ranked);
                if let Some(mut ranks) = self.ranks() {
                    ranks.move_to(slot, List::Queued, now);
                }
                return;
            }
        }
        self.on.kv.gpu_mut().release_preempted(seen, &mut state.blocks);
        state.computed = 0;
        state.phase = Phase::Preempted;
        if let Some(tree) = self.on.tiers.tree.as_deref_mut() {
            tree.join_queue_again(slot);
        }
        if let Some(mut ranks) = self.ranks() {
            ranks.move_to(slot, List::Queued, now);
        } else {
            let rules = &self.on.settings.scheduler;
            let place = Requeue { late: rules.requeue_late, last: rules.requeue_last };
            self.on.queues.push_preempted(slot, place, &self.on.requests, self.trace);
        }
    }
}
