//! Which request is preempted when blocks run out, and what becomes of its KV.

use super::StepDraft;
use crate::config::{Preemption, Victim};
use crate::instance::observers::Fact;
use crate::instance::ranking::List;
use crate::instance::request::{Phase, Slot};
use crate::instance::{Instance, Part, Recorder};
use crate::trace::Trace;

impl Instance {
    /// Position in the admission order of the request that is preempted next.
    /// `prefills`: whether prefills can be preempted.
    pub(super) fn choose_victim(&self, prefills: bool, trace: &Trace) -> Option<usize> {
        let order = self.batch.order();
        let eligible = |&i: &usize| prefills || self.requests[order.slot(i)].phase != Phase::Prefilling;
        let mut candidates = (0..order.len()).filter(eligible);
        if let Some(ranking) = &self.ranking {
            return candidates.max_by_key(|&i| ranking.rank(order.slot(i)));
        }
        match self.settings.scheduler.victim {
            Victim::Latest => candidates.next_back(),
            // Two requests of equal priority must not preempt each other forever, so the
            // row, which is the order of arrival, decides.
            Victim::Worst => candidates.max_by_key(|&i| {
                let request = self.requests[order.slot(i)].request;
                (trace.priority_of(request as usize), request)
            }),
            Victim::FewestGenerated => candidates.min_by_key(|&i| {
                let state = &self.requests[order.slot(i)];
                let decoding = state.phase == Phase::Decoding;
                let generated =
                    if decoding { self.batch.decode_set().generated(state) } else { state.generated };
                (generated, std::cmp::Reverse((state.prompt, state.request)))
            }),
        }
    }

    /// Preempts the request at `victim` in the admission order. Members of the decode set
    /// before `reached` have their token and its block for this step already.
    pub(super) fn preempt_at(
        &mut self,
        victim: usize,
        reached: usize,
        charged: bool,
        draft: &mut StepDraft,
        trace: &Trace,
        recorder: &mut Recorder,
    ) {
        let slot = self.batch.order_mut().remove(victim);
        let decoding = self.requests[slot].phase == Phase::Decoding;
        let scheduled = if decoding { victim < reached } else { self.batch.has_chunk(slot) };
        if !scheduled {
            self.preempt(slot, draft, trace, recorder);
        } else if self.ranking.is_some() {
            self.preempt_ranked(slot, draft, trace, recorder);
        } else {
            self.preempt_scheduled(slot, charged, draft, trace, recorder);
        }
    }

    /// Preempts a request that is not scheduled in this step.
    #[inline(never)]
    pub(super) fn preempt(
        &mut self,
        slot: Slot,
        draft: &mut StepDraft,
        trace: &Trace,
        recorder: &mut Recorder,
    ) {
        let phase = self.requests[slot].phase;
        if phase == Phase::Decoding {
            self.set_aside(slot, draft.now);
        } else {
            self.batch.remove(slot, &self.requests);
        }
        self.release_preempted(slot, phase != Phase::Prefilling, draft, trace, recorder);
    }

    /// Preempts a ranked request that may be scheduled in this step; a member of the
    /// decode set is.
    pub(super) fn preempt_ranked(
        &mut self,
        slot: Slot,
        draft: &mut StepDraft,
        trace: &Trace,
        recorder: &mut Recorder,
    ) {
        let phase = self.requests[slot].phase;
        let tokens = if phase == Phase::Decoding {
            self.set_aside_with_next_block(slot, draft);
            1
        } else {
            self.batch.remove(slot, &self.requests).tokens
        };
        if self.settings.scheduler.refund {
            draft.tokens_left += u64::from(tokens);
        }
        self.release_preempted(slot, phase != Phase::Prefilling, draft, trace, recorder);
    }

    /// Preempts a request in the queue's order that is scheduled in this step. The prefix
    /// cache knows its blocks by the tokens that were scheduled; a swap copies those that
    /// were computed.
    fn preempt_scheduled(
        &mut self,
        slot: Slot,
        charged: bool,
        draft: &mut StepDraft,
        trace: &Trace,
        recorder: &mut Recorder,
    ) {
        let phase = self.requests[slot].phase;
        let known = self.settings.scheduler.preemption == Preemption::Recompute;
        let (tokens, refunded) = if phase == Phase::Decoding {
            self.set_aside_with_next_block(slot, draft);
            (1, charged)
        } else {
            let dropped = self.batch.remove(slot, &self.requests);
            let free_of_charge =
                dropped.layered && !draft.new_batch || dropped.part == Part::Decode && !charged;
            (dropped.tokens, !free_of_charge)
        };
        self.requests[slot].computed += if known { tokens } else { 0 };
        if self.settings.scheduler.refund && refunded {
            draft.tokens_left += u64::from(tokens);
        }
        self.release_preempted(slot, phase != Phase::Prefilling, draft, trace, recorder);
    }

    /// Removes a member of the decode set that has the block of its next token.
    fn set_aside_with_next_block(&mut self, slot: Slot, draft: &StepDraft) {
        self.set_aside(slot, draft.now);
        let state = &mut self.requests[slot];
        state.blocks.set_count(self.settings.blocks_for(state.computed + 1));
    }

    /// Swaps a request out that has left the batch; or releases its blocks and queues it
    /// again.
    #[inline(never)]
    fn release_preempted(
        &mut self,
        slot: Slot,
        decoding: bool,
        draft: &mut StepDraft,
        trace: &Trace,
        recorder: &mut Recorder,
    ) {
        let now = draft.now;
        let ranked = self.ranking.is_some();
        let state = &mut self.requests[slot];
        state.preemptions += 1;
        state.times.out_since = now;
        state.times.attained += now - state.times.admitted_at;
        draft.preempted.push(state.request);
        self.observe(Fact::Preempted, slot, now, trace, recorder);
        let state = &mut self.requests[slot];
        if self.transfers.has_admitted() {
            self.transfers.preempt(state.request);
        }
        let (owner, computed) = (state.owner(), state.computed);
        if self.kv.cpu().is_used() {
            // A ranked request's blocks are copied only if they were computed.
            let blocks = if ranked { self.settings.blocks_for(computed) } else { state.blocks.count() };
            if self.kv.swap_out(owner, computed, blocks, &mut state.blocks) {
                state.phase = Phase::Swapped { decoding };
                self.queues.push_swapped(slot, ranked);
                if let Some(mut ranks) = self.ranks(trace) {
                    ranks.move_to(slot, List::Queued, now);
                }
                return;
            }
        }
        self.kv.release(owner, computed, true, &mut state.blocks);
        state.computed = 0;
        state.phase = Phase::Preempted;
        if let Some(mut ranks) = self.ranks(trace) {
            ranks.move_to(slot, List::Queued, now);
        } else {
            let late = self.settings.scheduler.requeue_late;
            self.queues.push_preempted(slot, late, &self.requests, trace);
        }
    }
}
