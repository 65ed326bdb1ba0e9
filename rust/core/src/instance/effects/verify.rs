//! The end of a step of a request whose tokens are drafted.

use super::Effects;
use crate::hint::rare;
use crate::instance::ahead::Outcome;
use crate::instance::observers::Fact;
use crate::instance::request::{Phase, Slot};
use crate::time::Ticks;

impl Effects<'_> {
    /// Forgets the drafts of a request that is preempted, or new in its slot.
    pub(super) fn forget_drafts(&mut self, slot: Slot) {
        if let Some(speculator) = &mut self.on.speculator {
            rare();
            speculator.forget(slot);
        }
    }

    /// Proposes drafts for a request that has ended, which the step decided ahead does not know.
    fn propose_ahead(&mut self, slot: Slot, requests: u64) {
        if self.on.unseen.is_some()
            && let Some(speculator) = &mut self.on.speculator
        {
            rare();
            speculator.propose(slot, &self.on.requests[slot], requests);
        }
    }

    /// Verifies the drafts of a request in a step of `requests` requests, from `start` to `now`: it yields the accepted ones
    /// and one token more, and finishes or has new drafts proposed.
    #[inline(never)]
    pub(super) fn verify(
        &mut self,
        slot: Slot,
        (drafts, requests): (u32, u64),
        (start, now): (Ticks, Ticks),
    ) {
        let Some(speculator) = &self.on.speculator else { return };
        let verified = speculator.verify(slot, &self.on.requests[slot], drafts);
        self.on.observers.stats.count_drafts(drafts, verified.accepted, verified.yielded);
        self.on.batch.give_up(drafts - verified.written);
        let state = &mut self.on.requests[slot];
        state.computed += verified.written;
        state.phase = Phase::Stalled;
        for at in 0..verified.yielded {
            self.yield_token(slot, (if at == 0 { start } else { now }, now));
        }
        let state = &mut self.on.requests[slot];
        let given_up = drafts - (verified.yielded - 1);
        if let Some(unseen) = &mut self.on.unseen {
            rare();
            unseen.note(slot, Outcome { yielded: verified.yielded, given_up });
        } else {
            self.on.kv.gpu_mut().register(state.owner(), state.computed, &mut state.blocks);
        }
        if state.generated == state.output {
            self.propose_ahead(slot, requests);
            self.on.batch.complete_chunk(slot, &self.on.requests);
            self.on.completed.push((self.on.requests[slot].seq, slot));
            return;
        }
        self.on.observers.readers.note_deadline(slot);
        if let Some(speculator) = &mut self.on.speculator {
            let drafts = speculator.propose(slot, &self.on.requests[slot], requests);
            self.on.observers.stats.count_proposal(drafts);
        }
        self.observe(Fact::Verified { yielded: verified.yielded }, slot, now);
        if self.is_steady(slot) {
            self.on.batch.complete_chunk(slot, &self.on.requests);
            self.join_decode_set(slot);
        }
        if verified.yielded > 1
            && let Some(ranking) = &mut self.on.ranking
        {
            rare();
            ranking.count_step_of(slot, verified.yielded);
        }
        if let Some(mut ranks) = self.ranks() {
            ranks.sink_level(slot, now);
            ranks.evaluate_after_event(slot, now);
        }
    }

    /// Whether a request may go on in the decode set: in each of its next steps, all its drafts are computed, and yield the
    /// number of tokens that is next in turn; and no other request finds its output while it runs.
    fn is_steady(&self, slot: Slot) -> bool {
        let state = &self.on.requests[slot];
        let set = self.on.batch.decode_set();
        let Some(ahead) = set.blocks_ahead(state) else { return false };
        let reasoning = self.trace.reasoning(state.request.index());
        state.blocks.count() <= ahead
            && self.on.settings.limits.never_cuts(state)
            && !self.on.kv.gpu().shares_output(state.owner())
            && set.plain_steps(state, reasoning) > 0
    }
}
