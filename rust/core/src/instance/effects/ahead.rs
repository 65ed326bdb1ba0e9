//! Steps that are decided ahead: requests that have ended, and outcomes that the decision does not know.

use super::Effects;
use crate::hint::rare;
use crate::instance::Instance;
use crate::instance::ahead::Outcome;
use crate::instance::request::{Phase, RequestState, Slot};
use crate::kv::ContentOwner;
use crate::time::Ticks;

impl Instance {
    /// The outcome of the latest step for a request, if the step that is formed does not know it.
    pub(in crate::instance) fn unseen_outcome(&self, slot: Slot) -> Outcome {
        match &self.unseen {
            None => Outcome::default(),
            Some(unseen) => {
                rare();
                unseen.of(slot)
            }
        }
    }

    /// Whether the step in flight writes to the blocks of a running request, which are not freed before it has ended.
    ///
    /// With a KV connector that loads blocks, vLLM frees none that a step in flight writes to (`defer_block_free` and
    /// `_request_blocks_can_be_freed` in `vllm/v1/core/sched/scheduler.py`, 0.33.0).
    pub(in crate::instance) fn is_written(&self, slot: Slot) -> bool {
        let decodes = self.requests[slot].phase == Phase::Decoding;
        self.tiers.chunks.is_some()
            && self.unseen.as_ref().is_some_and(|unseen| unseen.has_run(slot, decodes))
    }

    /// The content of a request's blocks, and its computed tokens, as far as the step that is formed knows them.
    pub(in crate::instance) fn seen_content(&self, slot: Slot) -> (ContentOwner, u32) {
        let (state, unseen) = (&self.requests[slot], self.unseen_outcome(slot).yielded);
        let owner = state.owner();
        (ContentOwner { known: owner.known - unseen, ..owner }, state.computed.saturating_sub(unseen))
    }
}

impl Instance {
    /// Whether a token of a request counts once the step is decided that is formed.
    pub(in crate::instance) fn has_pending(&self, slot: Slot) -> bool {
        self.settings.scheduler.drop_unseen
            && self.unseen.as_ref().is_some_and(|unseen| unseen.pending.has(slot))
    }

    /// Whether a request has ended with its last token, and the step that is formed computes one more of it.
    pub(in crate::instance) fn runs_past_end(&self, slot: Slot) -> bool {
        let state = &self.requests[slot];
        self.settings.scheduler.unseen_ends && state.phase.has_ended() && state.generated == state.output
    }

    /// Whether the step after the one that ends may preempt requests, which then lose the token that this one yields: not all
    /// decodes find blocks for the next one. The tokens of its chunks are not counted as computed yet; the decode set has not
    /// run.
    pub(super) fn may_lose_tokens(&self) -> bool {
        let (settings, requests) = (&self.settings, &self.requests);
        let past_end = settings.scheduler.unseen_ends;
        let chunks = self.batch.chunks();
        let decodes = self.batch.outside().iter().filter_map(|&slot| {
            let state = &requests[slot];
            let tokens = chunks.iter().find(|chunk| chunk.slot == slot).map_or(0, |chunk| chunk.tokens);
            let ends = tokens > 0 && state.generated + 1 == state.output;
            let decodes = state.phase == Phase::Stalled || tokens == state.lacking();
            (decodes && (past_end || !ends)).then_some((state, tokens))
        });
        let needed = |(state, tokens): (&RequestState, u32)| {
            settings.blocks_for(state.computed + tokens + 1).saturating_sub(state.blocks.count())
        };
        let needed: u64 = decodes.map(needed).sum();
        let received = if self.resumes_as_accepted() { self.transfers.received() } else { 0 };
        needed + received + self.batch.decode_set().blocks_for_next() > self.kv.free()
    }
}

impl Effects<'_> {
    /// Frees the blocks that a step decided ahead did not see, and makes known what it did not know. `runs`: the step runs.
    #[inline(never)]
    pub(super) fn end_decision(&mut self, runs: bool, now: Ticks) {
        self.count_pending(now);
        self.learn_outcomes();
        self.insert_deferred();
        let deferred = self.on.queues.ahead_mut().take_deferred();
        for &slot in &deferred {
            self.give_up_seat(slot);
            if !self.on.batch.discarded().iter().any(|chunk| chunk.slot == slot) {
                self.free(slot, now);
            } else if runs && self.on.tiers.chunks.is_some() {
                self.keep_written(slot);
            } else {
                // The slot is read until the step has ended.
                self.release_blocks(slot, now);
            }
        }
        self.on.queues.ahead_mut().recycle(deferred);
        if let Some(tier) = self.on.tiers.chunks.as_deref_mut() {
            rare();
            tier.learn_reports();
            self.free_unloaded(now);
        }
    }

    /// Keeps the blocks of a request that has ended until the step has ended that was formed and computes tokens of it.
    #[inline(never)]
    fn keep_written(&mut self, slot: Slot) {
        self.finish_in_tier(slot);
        let state = &mut self.on.requests[slot];
        self.on.kv.gpu_mut().register(state.owner(), state.computed, &mut state.blocks);
        self.on.queues.ahead_mut().defer_free(slot, false);
    }

    /// Makes the outcomes of the latest step known: the KV of accepted drafts is cached.
    fn learn_outcomes(&mut self) {
        while let Some(slot) = self.on.unseen.as_mut().and_then(|unseen| unseen.pop()) {
            let state = &mut self.on.requests[slot];
            if self.on.speculator.is_some() && state.phase.is_admitted() {
                self.on.kv.gpu_mut().register(state.owner(), state.computed, &mut state.blocks);
            }
        }
    }

    /// Notes a step that has ended, where the next one does not know its outcome. `decoded`: the decode set took it.
    pub(super) fn note_step(&mut self, decoded: bool) {
        let Instance { unseen, tiers, batch, .. } = &mut *self.on;
        if let Some(unseen) = unseen {
            rare();
            unseen.begin(decoded);
            if tiers.chunks.is_some() {
                unseen.note_ran(batch.scheduled().map(|chunk| chunk.slot));
            }
        }
    }

    /// Notes a request without drafts that the latest step yielded a token of.
    pub(super) fn note_yielded(&mut self, slot: Slot) {
        if let Some(unseen) = &mut self.on.unseen {
            rare();
            unseen.note(slot, Outcome { yielded: 1, given_up: 0 });
        }
    }

    /// Makes the outcome of the latest step known for a request that leaves with its KV.
    pub(super) fn learn_outcome(&mut self, slot: Slot) {
        if self.on.unseen_outcome(slot) == Outcome::default() {
            return;
        }
        // What it has computed is inserted in a tree as if it had stayed.
        if let Some(unseen) = &mut self.on.unseen {
            unseen.forget(slot);
            unseen.pending.remove(slot);
        }
        if self.on.speculator.is_some() {
            let state = &mut self.on.requests[slot];
            self.on.kv.gpu_mut().register(state.owner(), state.computed, &mut state.blocks);
        }
    }

    /// Forgets the outcome of a request that is preempted.
    pub(super) fn forget_outcome(&mut self, slot: Slot) {
        if let Some(unseen) = &mut self.on.unseen {
            rare();
            unseen.forget(slot);
            unseen.pending.remove(slot);
        }
        if self.on.kv.gpu().is_tree() {
            rare();
            self.on.queues.ahead_mut().cancel_insertion(slot);
        }
    }

    /// Whether the next token of a request ends a phase, and a rule is asked then whether the request leaves.
    pub(super) fn asks_with_next_token(&self, slot: Slot) -> bool {
        let (state, reports) = (&self.on.requests[slot], self.on.observers.outbox.reports());
        let next = state.generated + 1;
        let ends = reports.prefilled && next == 1
            || reports.answering && self.trace.reasoning(state.request.index()) == Some(next);
        ends && next < state.output
    }

    /// Has the token of a request count once the next step is decided, if that does not preempt the request.
    pub(super) fn hold_token(&mut self, slot: Slot, step: (Ticks, Ticks)) {
        self.on.requests[slot].phase = Phase::Stalled;
        if let Some(unseen) = &mut self.on.unseen {
            unseen.pending.hold(slot, step);
        }
    }

    /// Has the requests whose tokens do not count yet end in the order of the batch's rows as the step ends.
    pub(super) fn order_pending(&mut self) {
        let Instance { unseen, batch, .. } = &mut *self.on;
        if let Some(unseen) = unseen {
            unseen.pending.sort_by_key(|slot| batch.row(slot));
        }
    }

    /// Counts the tokens of the latest step that did not count before the next one was decided.
    fn count_pending(&mut self, now: Ticks) {
        if !self.on.settings.scheduler.drop_unseen {
            return;
        }
        let (slots, step) = self.on.unseen.as_mut().map(|unseen| unseen.pending.take()).unwrap_or_default();
        for slot in slots {
            self.count_token(slot, step);
            let state = &self.on.requests[slot];
            if state.generated == state.output {
                // Its token of the step that was formed is discarded.
                self.on.completed.push((state.seq, slot));
                self.on.batch.discard(slot, &self.on.requests);
            }
        }
        if !self.on.completed.is_empty() {
            let before = self.ended();
            if self.on.kv.gpu().is_tree() {
                // The decision may have sorted the rows since the step ended.
                self.complete_in_order(now);
            } else {
                self.complete(now);
            }
            let ended = self.ended() - before;
            self.on.observers.outbox.note_ended(ended);
        }
    }

    /// Counts the token of a request that does not count yet, if there is one.
    pub(super) fn count_pending_of(&mut self, slot: Slot) {
        if let Some(step) = self.on.unseen.as_mut().and_then(|unseen| unseen.pending.remove(slot)) {
            rare();
            self.count_token(slot, step);
        }
    }

    /// Counts a token that a step has yielded of a request, which stays outside the decode set.
    fn count_token(&mut self, slot: Slot, step: (Ticks, Ticks)) {
        self.yield_token(slot, step);
        self.on.observers.readers.note_deadline(slot);
    }

    /// The same of a request that leaves the decode set, if that took the step.
    pub(super) fn note_decoded(&mut self, slot: Slot) {
        if self.on.unseen.as_ref().is_some_and(|unseen| unseen.has_decoded()) {
            self.note_yielded(slot);
        }
    }

    /// A request that has ended runs no longer.
    fn give_up_seat(&mut self, slot: Slot) {
        let state = &self.on.requests[slot];
        if state.phase.has_ended()
            && let Some(adapters) = &mut self.on.observers.adapters
        {
            rare();
            adapters.end(self.trace.adapter_of(state.request.index()));
        }
    }

    /// Preempts a request that has ended: its blocks are free for the step that is formed. Returns the tokens that it was
    /// scheduled with.
    ///
    /// vLLM counts the preemption when it reads the events of the request's last output (`update_from_output` in
    /// `vllm/v1/core/sched/scheduler.py`, `IterationStats.update_from_events` in `vllm/v1/metrics/stats.py`, 0.33.0); a
    /// request that was cancelled has no such output.
    pub(in crate::instance) fn preempt_ended(&mut self, slot: Slot, now: Ticks) -> u32 {
        let tokens = self.on.batch.remove_discarded(slot);
        self.on.queues.ahead_mut().cancel_deferral(slot);
        self.give_up_seat(slot);
        self.begin_release(slot, now);
        if let Some(tier) = self.on.tiers.chunks.as_deref_mut() {
            tier.finish_preempted(slot);
        }
        let (owner, computed) = self.on.seen_content(slot);
        if !self.is_cut_short(slot) {
            self.on.observers.stats.requests.preemptions += 1;
            self.recorder.count_preemption(self.on.requests[slot].request);
        }
        let state = &mut self.on.requests[slot];
        self.on.kv.gpu_mut().release_ended(owner, computed, false, &mut state.blocks);
        self.forget_outcome(slot);
        self.on.requests.release(slot);
        tokens
    }

    /// Discards the tokens that a step computed of requests that had ended.
    #[inline(never)]
    pub(super) fn discard_chunks(&mut self, now: Ticks) {
        while let Some(chunk) = self.on.batch.pop_discarded() {
            self.note_finished(chunk.slot, now);
            if self.on.tiers.chunks.is_some() {
                // Its blocks are freed with the slot, once the next step is decided.
                self.on.requests[chunk.slot].phase = Phase::Deferred;
            } else {
                self.on.requests.release(chunk.slot);
            }
        }
    }
}
