//! Which request is preempted when blocks run out, and what becomes of its KV.

use super::StepDraft;
use crate::config::{Preemption, Victim};
use crate::instance::Part;
use crate::instance::effects::Effects;
use crate::instance::observers::Fact;
use crate::instance::ranking::List;
use crate::instance::request::{Phase, Slot};

impl Effects<'_> {
    /// Position in the admission order of the request that is preempted next.
    /// `prefills`: whether prefills can be preempted.
    pub(super) fn choose_victim(&self, prefills: bool) -> Option<usize> {
        let order = self.on.batch.order();
        let eligible = |&i: &usize| prefills || self.on.requests[order.slot(i)].phase != Phase::Prefilling;
        let mut candidates = (0..order.len()).filter(eligible);
        if let Some(ranking) = &self.on.ranking {
            return candidates.max_by_key(|&i| ranking.rank(order.slot(i)));
        }
        match self.on.settings.scheduler.victim {
            Victim::Latest => candidates.next_back(),
            // Two requests of equal priority must not preempt each other forever, so the
            // row, which is the order of arrival, decides.
            Victim::Worst => candidates.max_by_key(|&i| {
                let request = self.on.requests[order.slot(i)].request;
                (self.trace.priority_of(request as usize), request)
            }),
            Victim::FewestGenerated => candidates.min_by_key(|&i| {
                let state = &self.on.requests[order.slot(i)];
                let decoding = state.phase == Phase::Decoding;
                let generated =
                    if decoding { self.on.batch.decode_set().generated(state) } else { state.generated };
                (generated, std::cmp::Reverse((state.prompt, state.request)))
            }),
        }
    }

    /// Preempts the request at `victim` in the admission order. Members of the decode set
    /// before `reached` have their token and its block for this step already.
    pub(super) fn preempt_at(&mut self, victim: usize, reached: usize, charged: bool, draft: &mut StepDraft) {
        let slot = self.on.batch.order_mut().remove(victim);
        let decoding = self.on.requests[slot].phase == Phase::Decoding;
        let scheduled = if decoding { victim < reached } else { self.on.batch.has_chunk(slot) };
        if !scheduled {
            self.preempt(slot, draft);
        } else if self.on.ranking.is_some() {
            self.preempt_ranked(slot, draft);
        } else {
            self.preempt_scheduled(slot, charged, draft);
        }
    }

    /// Preempts a request that is not scheduled in this step.
    #[inline(never)]
    pub(super) fn preempt(&mut self, slot: Slot, draft: &mut StepDraft) {
        let phase = self.on.requests[slot].phase;
        if phase == Phase::Decoding {
            self.set_aside(slot, draft.now);
        } else {
            self.on.batch.remove(slot, &self.on.requests);
        }
        self.release_preempted(slot, phase != Phase::Prefilling, draft);
    }

    /// Preempts a ranked request that may be scheduled in this step; a member of the
    /// decode set is.
    pub(super) fn preempt_ranked(&mut self, slot: Slot, draft: &mut StepDraft) {
        let phase = self.on.requests[slot].phase;
        let tokens = if phase == Phase::Decoding {
            self.set_aside_with_next_block(slot, draft);
            1
        } else {
            self.on.batch.remove(slot, &self.on.requests).tokens
        };
        if self.on.settings.scheduler.refund {
            draft.tokens_left += u64::from(tokens);
        }
        self.release_preempted(slot, phase != Phase::Prefilling, draft);
    }

    /// Preempts a request in the queue's order that is scheduled in this step. The prefix
    /// cache knows its blocks by the tokens that were scheduled; a swap copies those that
    /// were computed.
    fn preempt_scheduled(&mut self, slot: Slot, charged: bool, draft: &mut StepDraft) {
        let phase = self.on.requests[slot].phase;
        let known = self.on.settings.scheduler.preemption == Preemption::Recompute;
        let (tokens, refunded) = if phase == Phase::Decoding {
            self.set_aside_with_next_block(slot, draft);
            (1, charged)
        } else {
            let dropped = self.on.batch.remove(slot, &self.on.requests);
            let free_of_charge =
                dropped.layered && !draft.new_batch || dropped.part == Part::Decode && !charged;
            (dropped.tokens, !free_of_charge)
        };
        self.on.requests[slot].computed += if known { tokens } else { 0 };
        if self.on.settings.scheduler.refund && refunded {
            draft.tokens_left += u64::from(tokens);
        }
        self.release_preempted(slot, phase != Phase::Prefilling, draft);
    }

    /// Removes a member of the decode set that has the block of its next token.
    fn set_aside_with_next_block(&mut self, slot: Slot, draft: &StepDraft) {
        self.set_aside(slot, draft.now);
        let state = &mut self.on.requests[slot];
        state.blocks.set_count(self.on.settings.blocks_for(state.computed + 1));
    }

    /// Swaps a request out that has left the batch; or releases its blocks and queues it
    /// again.
    #[inline(never)]
    fn release_preempted(&mut self, slot: Slot, decoding: bool, draft: &mut StepDraft) {
        let now = draft.now;
        let ranked = self.on.ranking.is_some();
        let state = &mut self.on.requests[slot];
        state.preemptions += 1;
        state.times.out_since = now;
        state.times.attained += now - state.times.admitted_at;
        draft.preempted.push(state.request);
        self.observe(Fact::Preempted, slot, now);
        let state = &mut self.on.requests[slot];
        if self.on.transfers.has_admitted() {
            self.on.transfers.preempt(state.request);
        }
        let (owner, computed) = (state.owner(), state.computed);
        if self.on.kv.cpu().is_used() {
            // A ranked request's blocks are copied only if they were computed.
            let blocks = if ranked { self.on.settings.blocks_for(computed) } else { state.blocks.count() };
            if self.on.kv.swap_out(owner, computed, blocks, &mut state.blocks) {
                state.phase = Phase::Swapped { decoding };
                self.on.queues.push_swapped(slot, ranked);
                if let Some(mut ranks) = self.ranks() {
                    ranks.move_to(slot, List::Queued, now);
                }
                return;
            }
        }
        self.on.kv.release(owner, computed, true, &mut state.blocks);
        state.computed = 0;
        state.phase = Phase::Preempted;
        if let Some(mut ranks) = self.ranks() {
            ranks.move_to(slot, List::Queued, now);
        } else {
            let late = self.on.settings.scheduler.requeue_late;
            self.on.queues.push_preempted(slot, late, &self.on.requests, self.trace);
        }
    }
}
