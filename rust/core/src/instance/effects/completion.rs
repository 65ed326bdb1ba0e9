//! The end of a step's chunks, and of requests.

use super::Effects;
use crate::hint::rare;
use crate::instance::Instance;
use crate::instance::batch::Chunk;
use crate::instance::observers::Fact;
use crate::instance::ranking::List;
use crate::instance::request::{Phase, Slot};
use crate::time::Ticks;

impl Effects<'_> {
    /// Ends the chunks of a step from `start` to `now`. A request with all its tokens
    /// computed yields one, and joins the decode set or finishes. `decodes`: the decode set ran in the step.
    pub(super) fn finish_chunks(&mut self, start: Ticks, now: Ticks, decodes: bool) {
        let beside = decodes && self.on.batch.decode_set().len() > 0;
        let holds = self.on.settings.scheduler.drop_unseen && !beside && self.may_lose_tokens();
        let chunks = self.on.batch.take_chunks();
        for &Chunk { slot, tokens, drafts, .. } in &chunks {
            self.on.requests[slot].computed += tokens - drafts;
            self.observe(Fact::Computed { start }, slot, now);
            let state = &self.on.requests[slot];
            if state.computed < state.target() {
                if let Some(ranking) = &mut self.on.ranking {
                    rare();
                    ranking.count_step_of(slot, 0);
                }
                if let Some(mut ranks) = self.ranks() {
                    ranks.sink_level(slot, now);
                    ranks.evaluate_after_event(slot, now);
                }
                continue;
            }
            if self.on.speculator.is_some() {
                rare();
                let others = self.on.batch.layers().chunks().len() + self.on.batch.discarded().len();
                self.verify(slot, (drafts, (chunks.len() + others) as u64), (start, now));
                continue;
            }
            let known = state.generated + 1 == state.output && !self.on.settings.scheduler.unseen_ends;
            if holds && !known && !self.asks_with_next_token(slot) {
                rare();
                self.hold_token(slot, (start, now));
                continue;
            }
            self.on.batch.complete_chunk(slot, &self.on.requests);
            self.yield_token(slot, (start, now));
            self.note_yielded(slot);
            let state = &mut self.on.requests[slot];
            if state.generated == state.output {
                state.phase = Phase::Stalled;
                self.on.completed.push((state.seq, slot));
                continue;
            }
            self.join_decode_set(slot);
            let joined = Fact::Joined { step: self.on.batch.decode_set().step() };
            self.observe(joined, slot, now);
            if let Some(mut ranks) = self.ranks() {
                ranks.sink_level(slot, now);
                ranks.evaluate_after_event(slot, now);
            }
        }
        if self.on.kv.gpu().is_tree() {
            rare();
            self.insert_chunks(&chunks, beside);
            self.order_pending();
        }
        self.on.batch.finish_chunks(chunks, &self.on.requests);
    }

    /// Adds a request to the decode set whose tokens are all computed but the latest.
    pub(super) fn join_decode_set(&mut self, slot: Slot) {
        let reasoning = self.trace.reasoning(self.on.requests[slot].request.index());
        self.on.batch.join_decode_set(slot, reasoning, &mut self.on.requests);
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
    pub(super) fn yield_token(&mut self, slot: Slot, (start, now): (Ticks, Ticks)) {
        let state = &mut self.on.requests[slot];
        state.generated += 1;
        let gap = (state.generated > 1).then(|| now - state.times.last_token);
        state.times.max_gap = state.times.max_gap.max(gap.unwrap_or(0));
        state.times.last_token = now;
        let reasoning = self.trace.reasoning(state.request.index()).unwrap_or(0);
        state.answering |= state.generated == reasoning.max(1);
        self.observe(Fact::Yielded { start, gap }, slot, now);
    }

    /// Has a request count that finished, where acceptances leave room for those that run, until the next step is formed.
    pub(super) fn note_finished(&mut self, slot: Slot, now: Ticks) {
        if let Some(reserve) = self.on.settings.handover.and_then(|rules| rules.reserve) {
            rare();
            let state = &self.on.requests[slot];
            let outputs = (state.generated, state.output.min(reserve.clip));
            self.on.transfers.finish(state.prompt, outputs, now);
        }
    }

    /// Ends the requests that have yielded all their tokens, in the order of admission: with a prefix cache, blocks are reused
    /// in the order in which they are released, and with adapters, their slots. Where a tree has the prefixes, in that of the
    /// batch's rows.
    pub(super) fn complete(&mut self, now: Ticks) {
        if self.on.kv.gpu().caches() || self.on.observers.adapters.is_some() {
            rare();
            let Instance { completed, batch, kv, .. } = &mut *self.on;
            completed.sort_unstable();
            if kv.gpu().is_tree() {
                completed.sort_by_key(|&(_, slot)| batch.row(slot));
            }
        }
        self.complete_in_order(now);
    }

    /// Ends the requests that have yielded all their tokens, in the order in which they are listed.
    pub(super) fn complete_in_order(&mut self, now: Ticks) {
        let mut completed = std::mem::take(&mut self.on.completed);
        for (_, slot) in completed.drain(..) {
            if let Some(mut ranks) = self.ranks() {
                ranks.move_to(slot, List::Gone, now);
            }
            if !self.recorder.columns.cancelled_at.is_empty() && self.is_cut_short(slot) {
                rare();
                self.observe(Fact::Cancelled { ran: true }, slot, now);
            } else {
                self.observe(Fact::Finished, slot, now);
                if !self.on.settings.scheduler.schedule_ahead {
                    self.note_finished(slot, now);
                }
            }
            self.free_or_defer(slot, true, now);
        }
        self.on.completed = completed;
    }
}
