//! Which request is preempted when blocks run out, and what becomes of its KV.

use super::Stages;
use crate::config::Victim;
use crate::hint::rare;
use crate::instance::request::{Phase, Slot};

impl Stages<'_> {
    /// Position in the admission order of the request that is preempted next.
    /// `prefills`: whether prefills can be preempted.
    pub(super) fn choose_victim(&self, prefills: bool) -> Option<usize> {
        let order = self.effects.batch.order();
        let eligible = |&i: &usize| {
            let phase = self.effects.requests[order.slot(i)].phase;
            prefills || !matches!(phase, Phase::Prefilling | Phase::Ended { decoding: false })
        };
        let mut candidates = (0..order.len()).filter(eligible);
        if let Some(ranking) = &self.effects.ranking {
            return candidates.max_by_key(|&i| ranking.rank(order.slot(i)));
        }
        match self.effects.settings.scheduler.victim {
            Victim::Latest => candidates.next_back(),
            // Two requests of equal priority must not preempt each other forever, so the
            // row, which is the order of arrival, decides.
            Victim::Worst => candidates.max_by_key(|&i| {
                let request = self.effects.requests[order.slot(i)].request;
                (self.effects.trace.priority_of(request.index()), request)
            }),
            Victim::FewestGenerated => candidates.min_by_key(|&i| {
                let state = &self.effects.requests[order.slot(i)];
                let decoding = state.phase == Phase::Decoding;
                let generated =
                    if decoding { self.effects.batch.decode_set().generated(state) } else { state.generated };
                // Of equal ones the last in the order of the rows, or of admission.
                let row = self.effects.batch.row(order.slot(i));
                (generated, std::cmp::Reverse((state.prompt, row, i)))
            }),
        }
    }

    /// Preempts the request at `victim` in the admission order. Members of the decode set
    /// before `reached` have their token and its block for this step already.
    pub(super) fn preempt_at(&mut self, victim: usize, reached: usize, charged: bool) {
        let slot = self.effects.take_from_order(victim);
        if self.effects.requests[slot].phase.has_ended() {
            rare();
            self.note_preempted(slot);
            let tokens = self.effects.preempt_ended(slot, self.draft.now);
            self.refund(tokens);
            return;
        }
        let decoding = self.effects.requests[slot].phase == Phase::Decoding;
        let scheduled = if decoding { victim < reached } else { self.effects.batch.has_chunk(slot) };
        if !scheduled {
            self.preempt(slot);
        } else if self.effects.ranking.is_some() {
            self.preempt_ranked(slot);
        } else {
            self.note_preempted(slot);
            let charges = (charged, self.draft.new_batch);
            let tokens = self.effects.preempt_scheduled(slot, charges, self.draft.now);
            self.refund(tokens);
        }
    }

    /// Preempts a request that is not scheduled in this step.
    pub(super) fn preempt(&mut self, slot: Slot) {
        self.note_preempted(slot);
        self.effects.preempt(slot, self.draft.now);
    }

    /// Preempts a ranked request that may be scheduled in this step; a member of the
    /// decode set is.
    pub(super) fn preempt_ranked(&mut self, slot: Slot) {
        self.note_preempted(slot);
        let tokens = self.effects.preempt_ranked(slot, self.draft.now);
        self.refund(tokens);
    }

    fn note_preempted(&mut self, slot: Slot) {
        self.draft.preempted.push(self.effects.requests[slot].request.0);
    }

    /// Returns the tokens of a preempted request to the budget, where schedulers do.
    fn refund(&mut self, tokens: u32) {
        if self.effects.settings.scheduler.refund {
            let slots = if tokens > 0 { self.effects.settings.drafts.input_slots() } else { 0 };
            self.draft.tokens_left += u64::from(tokens) + slots;
        }
    }
}
