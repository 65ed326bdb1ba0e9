//! The end of a step's chunks, and of requests.

use super::batch::Chunk;
use super::observers::Fact;
use super::ranking::List;
use super::request::{Phase, Slot};
use crate::hint::rare;
use crate::instance::effects::Effects;
use crate::time::Ticks;

impl Effects<'_> {
    /// Ends the chunks of a step from `start` to `now`. A request with all its tokens
    /// computed yields one, and joins the decode set or finishes.
    pub(super) fn finish_chunks(&mut self, start: Ticks, now: Ticks) {
        let chunks = self.on.batch.take_chunks();
        for &Chunk { slot, tokens, .. } in &chunks {
            self.on.requests[slot].computed += tokens;
            self.observe(Fact::Computed { start }, slot, now);
            let state = &self.on.requests[slot];
            if state.computed < state.target() {
                if let Some(ranking) = &mut self.on.ranking {
                    rare();
                    ranking.count_silent_step(slot);
                }
                if let Some(mut ranks) = self.ranks() {
                    ranks.sink_level(slot, now);
                    ranks.evaluate_after_event(slot, now);
                }
                continue;
            }
            self.on.batch.complete_chunk(slot, &self.on.requests);
            self.yield_token(slot, (start, now));
            let state = &mut self.on.requests[slot];
            if state.generated == state.output {
                state.phase = Phase::Stalled;
                self.on.scratch.completed.push((state.seq, slot));
                continue;
            }
            let reasoning = self.trace.reasoning(state.request as usize);
            self.on.batch.join_decode_set(slot, reasoning, &mut self.on.requests);
            let joined = Fact::Joined { step: self.on.batch.decode_set().step() };
            self.observe(joined, slot, now);
            if let Some(mut ranks) = self.ranks() {
                ranks.sink_level(slot, now);
                ranks.evaluate_after_event(slot, now);
            }
        }
        self.on.batch.finish_chunks(chunks, &self.on.requests);
    }

    /// Tells observers of the prefills that a step from `start` to `now` computed a group of layers of, and that are not
    /// through all groups.
    pub(super) fn observe_layers(&mut self, (start, now): (Ticks, Ticks)) {
        for at in 0..self.on.batch.layers().chunks().len() {
            let slot = self.on.batch.layers().chunks()[at].slot;
            self.observe(Fact::Computed { start }, slot, now);
        }
    }

    /// A request outside the decode set yields a token in a step from `start` to `now`.
    fn yield_token(&mut self, slot: Slot, (start, now): (Ticks, Ticks)) {
        let state = &mut self.on.requests[slot];
        state.generated += 1;
        let gap = (state.generated > 1).then(|| now - state.times.last_token);
        state.times.max_gap = state.times.max_gap.max(gap.unwrap_or(0));
        state.times.last_token = now;
        let reasoning = self.trace.reasoning(state.request as usize).unwrap_or(0);
        state.answering |= state.generated == reasoning.max(1);
        self.observe(Fact::Yielded { start, gap }, slot, now);
    }

    /// Ends the requests that have yielded all their tokens, in the order of admission:
    /// with a prefix cache, blocks are reused in the order in which they are released.
    pub(super) fn complete(&mut self, now: Ticks) {
        let mut completed = std::mem::take(&mut self.on.scratch.completed);
        if self.on.kv.gpu().caches() {
            rare();
            completed.sort_unstable();
        }
        for (_, slot) in completed.drain(..) {
            if let Some(mut ranks) = self.ranks() {
                ranks.move_to(slot, List::Gone, now);
            }
            self.observe(Fact::Finished, slot, now);
            self.free_or_defer(slot, true);
        }
        self.on.scratch.completed = completed;
    }

    /// Drops a request that can never be admitted again.
    pub(super) fn drop_request(&mut self, slot: Slot, now: Ticks) {
        self.observe(Fact::Dropped, slot, now);
        self.on.requests.release(slot);
    }

    /// Frees the blocks and the slot of a request that has left; where steps are decided
    /// ahead, once the next step is decided. `seated`: the request keeps its seat until
    /// then.
    pub(super) fn free_or_defer(&mut self, slot: Slot, seated: bool) {
        if self.on.settings.scheduler.schedule_ahead {
            rare();
            self.on.requests[slot].phase = Phase::Deferred;
            self.on.queues.ahead_mut().defer_free(slot, seated);
        } else {
            self.free(slot);
        }
    }

    /// Frees the blocks and the slot of a request that has left.
    fn free(&mut self, slot: Slot) {
        let state = &mut self.on.requests[slot];
        // A request that was moved to another instance may return.
        let returns = state.generated < state.output;
        self.on.kv.release(state.owner(), state.computed, returns, &mut state.blocks);
        self.on.requests.release(slot);
    }

    /// Frees the blocks that a step decided ahead did not see.
    #[inline(never)]
    pub(super) fn free_deferred(&mut self) {
        let deferred = self.on.queues.ahead_mut().take_deferred();
        for &slot in &deferred {
            self.free(slot);
        }
        self.on.queues.ahead_mut().recycle(deferred);
    }

    /// Whether the step after the one just decided may see something that this one did not.
    /// `freed`: blocks were freed since.
    pub(super) fn has_news(&self, freed: bool) -> bool {
        self.on.transfers.offered() + self.on.transfers.received() > 0 || self.on.queues.has_news(freed)
    }

    /// Queues all arrivals and frees all blocks that a step decided ahead did not see: no
    /// step is in progress. Returns whether there were any.
    #[inline(never)]
    pub(super) fn release_all(&mut self) -> bool {
        let unseen = self.on.transfers.offered() + self.on.transfers.received() > 0
            && self.on.queues.ahead().latest_start() < Ticks::MAX;
        let any = unseen || self.on.queues.ahead().arrived() > 0 || self.on.queues.ahead().defers();
        self.on.queues.ahead_mut().started(Ticks::MAX);
        self.on.queues.release_due(self.trace);
        self.free_deferred();
        any
    }

    /// Removes a member of the decode set that stays with the instance. `now`: when the
    /// set's latest step ended.
    pub(super) fn set_aside(&mut self, slot: Slot, now: Ticks) {
        self.leave_decode_set(slot, Phase::Stalled, now);
        self.on.observers.readers.note_deadline(slot);
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
        self.on.kv.assign(state.owner(), state.computed, &mut state.blocks);
    }
}
