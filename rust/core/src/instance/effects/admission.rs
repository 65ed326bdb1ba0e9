//! Requests that are admitted to the batch, or given up for good.

use super::{AdmissionOffer, Candidate, Effects, Place};
use crate::hint::rare;
use crate::instance::Part;
use crate::instance::batch::Chunk;
use crate::instance::observers::Fact;
use crate::instance::queues::Queued;
use crate::instance::ranking::List;
use crate::instance::request::{Phase, Slot};
use crate::instance::tiers::Wanted;
use crate::kv::{ContentOwner, Hits, Tier};
use crate::time::Ticks;
use crate::trace::RequestNumber;

impl Effects<'_> {
    /// Admits a request with the tokens and blocks of its offer, and the blocks that the prefix cache has of it. `joins`:
    /// a decode joins the decode set, which runs in this step; else it runs by itself.
    pub(in crate::instance) fn admit(
        &mut self,
        candidate: &Candidate,
        offer: &AdmissionOffer,
        hits: &Hits,
        joins: bool,
        now: Ticks,
    ) {
        let slot = self.take_out(candidate);
        let first = self.on.requests[slot].times.out_since == Ticks::MAX;
        let computes = if candidate.phase == Phase::Preempted {
            self.admit_prompt(slot, offer, hits, now);
            self.on.requests[slot].lacking()
        } else if candidate.phase == Phase::Loaded {
            rare();
            self.admit_loaded(slot, offer);
            0
        } else {
            self.admit_with_kv(slot, offer, joins);
            // Beside a tree, other requests with KV are swapped in, or refused.
            if self.on.kv.gpu().is_tree() {
                rare();
                self.insert_received(slot);
            }
            0
        };
        self.note_admission(slot, candidate.phase == Phase::Received, computes, now);
        if self.on.tiers.chunks.is_some() {
            rare();
            self.observe_load(slot, first, now);
        }
        self.note_loaded_prefix((slot, first), offer, hits, now);
        if let Some(mut ranks) = self.ranks() {
            match candidate.place {
                Place::Arrival => ranks.admit_arrival(slot, now),
                _ => ranks.admit(slot, now),
            }
        }
    }

    /// Drops a queued request that no step could ever admit.
    #[inline(never)]
    pub(in crate::instance) fn drop_queued(&mut self, candidate: &Candidate, now: Ticks) {
        let slot = self.take_out(candidate);
        if let Some(mut ranks) = self.ranks() {
            if matches!(candidate.place, Place::Arrival) {
                ranks.admit_arrival(slot, now);
            }
            ranks.move_to(slot, List::Gone, now);
        }
        self.observe(Fact::Dropped, slot, now);
        self.on.requests.release(slot);
    }

    /// Takes a request out of the queue, if it is not ranked. Returns its slot.
    pub(super) fn take_out(&mut self, candidate: &Candidate) -> Slot {
        match candidate.place {
            Place::Slot(slot) => {
                let has_blocks = candidate.phase.holds_kv() || candidate.phase == Phase::Loaded;
                if self.on.ranking.is_none() && !has_blocks {
                    self.on.queues.waiting_mut().pop();
                }
                slot
            }
            Place::Front => {
                self.on.queues.waiting_mut().pop();
                self.add_request(candidate.request)
            }
            Place::Arrival => self.add_request(candidate.request),
        }
    }

    /// Takes the first request out of the queue, until [`Self::put_back_first`].
    pub(in crate::instance) fn take_first_queued(&mut self) {
        self.on.queues.waiting_mut().pop();
    }

    /// Puts a request back before those in the queue that it was before.
    pub(in crate::instance) fn put_back_first(&mut self, queued: Queued) {
        self.on.queues.waiting_mut().put_back(queued, self.trace);
    }

    /// Adds a request that has not run.
    pub(super) fn add_request(&mut self, request: RequestNumber) -> Slot {
        let arrival = self.trace.arrival[request.index()];
        let slot = self.on.requests.enter(request, self.trace);
        self.cut_output(slot);
        self.forget_drafts(slot);
        self.on.requests[slot].times.came_at = arrival;
        self.on.observers.readers.open(slot, arrival);
        slot
    }

    /// Has a request end with the token after which its client cancels it, if it does.
    pub(super) fn cut_output(&mut self, slot: Slot) {
        if self.trace.waits.cancels.tokens.is_some() {
            rare();
            let state = &mut self.on.requests[slot];
            state.output = self.trace.last_token(state.request);
        }
    }

    /// Admits a request without KV, with the blocks that the prefix cache has of it.
    fn admit_prompt(&mut self, slot: Slot, offer: &AdmissionOffer, hits: &Hits, now: Ticks) {
        let state = &mut self.on.requests[slot];
        let hit = hits.len() * self.on.settings.block.tokens();
        let loaded = offer.load.tokens();
        self.on.kv.count_lookup(state.target(), hit);
        self.on.kv.gpu_mut().adopt(hits, &mut state.blocks);
        (state.computed, state.phase) = (hit + loaded, Phase::Prefilling);
        self.load_prefix(slot, offer, hits);
        self.on.batch.admit(slot, &mut self.on.requests);
        self.schedule(slot, offer.tokens as u32, offer.part);
        if self.on.tiers.chunks.is_some() {
            rare();
            self.admit_to_tier(slot, Wanted { cached: hit, loaded, sync: true }, now);
        }
    }

    /// Admits a request whose KV was swapped out, or migrated in.
    #[inline(never)]
    fn admit_with_kv(&mut self, slot: Slot, offer: &AdmissionOffer, joins: bool) {
        let tokens = offer.tokens as u32;
        let state = &mut self.on.requests[slot];
        let (phase, computed) = (state.phase, state.computed);
        let decodes = offer.part != Part::SwappedInChunk;
        // One that computes nothing in the step that admits it takes no block.
        let grown =
            if tokens > 0 { self.on.settings.blocks_with_lookahead(computed + tokens, decodes) } else { 0 };
        let blocks = grown.max(state.blocks.count());
        if phase.holds_kv() {
            self.on.kv.leave(Tier::Ready, computed, &state.blocks);
            self.on.kv.grow(blocks, &mut state.blocks);
            self.on.transfers.remove_received(slot);
            if phase == Phase::Received {
                self.on.transfers.admitted.note(state.request);
            }
        } else if phase.is_swapped() {
            self.on.kv.swap_in(state.owner(), computed, blocks, &mut state.blocks);
            self.on.queues.pop_ranked_swapped();
        } else {
            self.on.kv.load(computed, blocks, &mut state.blocks);
        }
        self.receive_in_tier(slot);
        if decodes && joins {
            self.join_late(slot, offer.part);
            return;
        }
        self.on.requests[slot].phase = if decodes { Phase::Stalled } else { Phase::Prefilling };
        self.on.batch.admit(slot, &mut self.on.requests);
        if tokens > 0 {
            self.schedule(slot, tokens, offer.part);
        }
    }

    /// Adds a decode whose KV is on the GPU to the decode set, which runs in this step.
    fn join_late(&mut self, slot: Slot, part: Part) {
        let reasoning = self.trace.reasoning(self.on.requests[slot].request.index());
        self.on.batch.admit_late(slot, part, reasoning, &mut self.on.requests);
        let state = &mut self.on.requests[slot];
        self.on.kv.gpu_mut().register(state.owner(), state.computed + 1, &mut state.blocks);
    }

    /// Has an admitted request outside the decode set compute `tokens` in this step, whose blocks are free.
    pub(in crate::instance) fn schedule(&mut self, slot: Slot, tokens: u32, part: Part) {
        let all = part == Part::Admitted && self.on.settings.allocates_sequence();
        let unseen = self.on.unseen_outcome(slot);
        let state = &mut self.on.requests[slot];
        let after = state.computed + unseen.given_up + tokens;
        let allocated = self.on.settings.blocks_with_lookahead(after, part.decodes());
        let allocated =
            if all { allocated.max(self.on.settings.blocks_for(state.target())) } else { allocated };
        self.on.kv.grow(allocated, &mut state.blocks);
        let owner = state.owner();
        let owner = ContentOwner { known: owner.known - unseen.yielded, ..owner };
        self.on.kv.gpu_mut().register(owner, after, &mut state.blocks);
        let drafts = (state.computed + tokens).saturating_sub(state.target());
        let drafts = if self.on.speculator.is_some() { drafts } else { 0 };
        let chunk = Chunk { slot, tokens, drafts, given_up: unseen.given_up, part };
        if state.phase.has_ended() {
            rare();
            self.on.batch.schedule_discarded(chunk);
        } else {
            self.on.batch.schedule(chunk);
        }
    }

    /// Notes that a request was admitted. `received`: with KV that another instance had sent; `computes`: the tokens
    /// that it computes if it has no KV.
    pub(super) fn note_admission(&mut self, slot: Slot, received: bool, computes: u32, now: Ticks) {
        let state = &mut self.on.requests[slot];
        self.on.transfers.admitted.admit_again(state.request);
        let times = &mut state.times;
        times.admitted_at = now;
        let since = std::mem::replace(&mut times.out_since, Ticks::MAX);
        let since = (since != Ticks::MAX).then_some(since);
        self.observe(Fact::Admitted { since, received, computes }, slot, now);
    }
}
