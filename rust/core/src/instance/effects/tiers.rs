//! Chunks that are stored in the host's memory, and loaded from there.

use super::{AdmissionOffer, Candidate, Effects, Place};
use crate::hint::rare;
use crate::instance::observers::Fact;
use crate::instance::request::{Phase, Slot};
use crate::instance::run::Run;
use crate::instance::tiers::{ChunkTier, Wanted};
use crate::kv::{ContentOwner, Hits, Tier};
use crate::time::Ticks;
use crate::trace::RequestNumber;

/// The event after a step without tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::instance) enum AfterStep {
    /// Another step, at the same moment.
    Step,
    /// Nothing before the moment, if there is one, or another event.
    Rest(Option<Ticks>),
    /// Nothing before the moment, whatever happens.
    Wait(Ticks),
}

impl Effects<'_> {
    /// Ends the step without tokens that waits for copies, if it has ended. Returns when it ends, if it has not.
    pub(in crate::instance) fn wake_tier(&mut self, now: Ticks) -> Option<Ticks> {
        let ends = self.on.tiers.chunks.as_deref_mut()?.wake(now);
        self.free_unloaded(now);
        ends
    }

    /// Begins to form a step of an instance with a tier.
    pub(in crate::instance) fn open_tier_step(&mut self, now: Ticks) {
        self.open_copies(now);
        if let Some(tier) = self.on.tiers.chunks.as_deref_mut() {
            self.on.kv.gpu_mut().forget_given();
            tier.open(&self.on.kv.gpu_mut().take_lost(), now);
            for request in tier.take_joined() {
                let tokens = self.trace.prompt_tokens[request.index()];
                let owner = ContentOwner::of_prompt(self.trace.origin(request), tokens);
                let cached = self.on.kv.gpu().matched(owner, tokens) * self.on.settings.block.tokens();
                tier.prefetch((request, owner), (tokens, cached), self.on.kv.gpu());
            }
        }
    }

    /// Begins to read what the store below a tier has of a candidate after the `cached` tokens in the prefix cache, and the
    /// tier has not. Returns whether there is anything.
    pub(in crate::instance) fn fetch(&mut self, candidate: &Candidate, cached: u32) -> bool {
        let Some(tier) = self.on.tiers.chunks.as_deref_mut() else { return false };
        let slot = match candidate.place {
            Place::Slot(slot) => Some(slot),
            Place::Front | Place::Arrival => None,
        };
        let of = (slot, candidate.request, candidate.owner);
        tier.fetch(of, (candidate.target, cached), self.on.kv.gpu())
    }

    /// Notes that a request is passed over, as the lookup of its chunks has no answer yet.
    pub(in crate::instance) fn put_off(&mut self, request: RequestNumber) {
        if let Some(tier) = self.on.tiers.chunks.as_deref_mut() {
            tier.put_off(request);
        }
    }

    /// Has a request wait until chunks of its prefix are loaded, with the blocks that they are loaded into, and those that
    /// the prefix cache has.
    pub(in crate::instance) fn begin_load(
        &mut self,
        candidate: &Candidate,
        offer: &AdmissionOffer,
        hits: &Hits,
        now: Ticks,
    ) {
        let slot = self.take_out(candidate);
        let cached = hits.len() * self.on.settings.block.tokens();
        let loaded = offer.load.tokens();
        let state = &mut self.on.requests[slot];
        self.on.kv.count_lookup(state.target(), cached);
        self.on.kv.gpu_mut().adopt(hits, &mut state.blocks);
        (state.computed, state.phase) = (cached + loaded, Phase::Loading);
        self.on.kv.grow(self.on.settings.blocks_for(state.computed), &mut state.blocks);
        self.on.kv.enter(Tier::Loading, state.computed, &state.blocks);
        self.admit_to_tier(slot, Wanted { cached, loaded, sync: false }, now);
    }

    /// Notes that a request is admitted, or begins to wait, with these tokens in the prefix cache and to be loaded.
    pub(super) fn admit_to_tier(&mut self, slot: Slot, wanted: Wanted, now: Ticks) {
        let Some(tier) = self.on.tiers.chunks.as_deref_mut() else { return };
        let state = &self.on.requests[slot];
        tier.admit((slot, state.request, state.owner()), wanted, self.on.kv.gpu());
        tier.note_load(slot, wanted, now);
    }

    /// Has the prefix cache know the blocks of a request whose load has ended. If that are all its tokens, it computes the
    /// last one again.
    pub(in crate::instance) fn promote(&mut self, slot: Slot) {
        let Some(tier) = self.on.tiers.chunks.as_deref_mut() else { return };
        let state = &mut self.on.requests[slot];
        tier.promote(slot, state.computed == state.target());
        self.on.kv.gpu_mut().register(state.owner(), state.computed, &mut state.blocks);
        self.on.kv.leave(Tier::Loading, state.computed, &state.blocks);
        state.computed = state.computed.min(state.target() - 1);
        state.phase = Phase::Loaded;
        self.on.kv.enter(Tier::Loaded, state.computed, &state.blocks);
    }

    /// Admits a request whose load has ended.
    pub(super) fn admit_loaded(&mut self, slot: Slot, offer: &AdmissionOffer) {
        let Some(tier) = self.on.tiers.chunks.as_deref_mut() else { return };
        tier.admit_loaded(slot);
        let state = &mut self.on.requests[slot];
        self.on.kv.leave(Tier::Loaded, state.computed, &state.blocks);
        self.on.kv.gpu_mut().give_again(&state.blocks);
        state.phase = Phase::Prefilling;
        self.on.batch.admit(slot, &mut self.on.requests);
        self.schedule(slot, offer.tokens as u32, offer.part);
    }

    /// Tells observers of the tokens that an admitted request has from the prefix cache and from the tier.
    pub(super) fn observe_load(&mut self, slot: Slot, first: bool, now: Ticks) {
        let Some(load) = self.on.tiers.chunks.as_deref_mut().and_then(|tier| tier.take_load(slot)) else {
            return;
        };
        let Wanted { cached, loaded, .. } = load.wanted;
        let (fetched, wait) = (load.fetched, now - load.since);
        self.observe(Fact::Loaded { first, cached, loaded, fetched, wait }, slot, now);
    }

    /// Ends a request in the tier that has finished, or was cancelled, before its blocks are freed.
    pub(super) fn finish_in_tier(&mut self, slot: Slot) {
        self.assign_blocks(slot);
        let state = &self.on.requests[slot];
        if let Some(tier) = self.on.tiers.chunks.as_deref_mut() {
            tier.finish(slot, state.computed, state.blocks.blocks());
        }
    }

    /// Ends a request in the tier that moves to another instance. Its blocks are freed once they have been read.
    pub(super) fn depart_from_tier(&mut self, slot: Slot) {
        let runs = !self.on.run.is_idle();
        let Some(tier) = self.on.tiers.chunks.as_deref_mut() else { return };
        rare();
        let state = &self.on.requests[slot];
        tier.depart(slot, state.computed, state.blocks.blocks(), runs);
    }

    /// Has a request enter the tier that is admitted with KV which another instance has sent.
    pub(super) fn receive_in_tier(&mut self, slot: Slot) {
        let Some(tier) = self.on.tiers.chunks.as_deref_mut() else { return };
        rare();
        let state = &self.on.requests[slot];
        self.on.kv.gpu_mut().give_again(&state.blocks);
        tier.receive(slot, state.request, state.owner());
    }

    /// Has a request leave that was cancelled while it waited. Its blocks are free once its load has ended.
    pub(super) fn leave_tier(&mut self, slot: Slot, now: Ticks) {
        let runs = !self.on.run.is_idle();
        let Some(tier) = self.on.tiers.chunks.as_deref_mut() else { return };
        let state = &mut self.on.requests[slot];
        let loads = matches!(state.phase, Phase::Loading | Phase::Loaded);
        if let Some(at) = state.residency().filter(|_| loads) {
            self.on.kv.leave(at.tier, state.computed, &state.blocks);
            state.computed = tier.cancel_load(slot, state.computed);
        } else if state.blocks.count() == 0 {
            // Its KV was on no GPU.
            state.computed = 0;
        }
        state.phase = Phase::Deferred;
        if tier.is_decided_ahead(runs) {
            self.on.queues.ahead_mut().defer_free(slot, false);
        } else {
            self.free(slot, now);
        }
    }

    /// Has a request that was cancelled keep its blocks until its load has ended. Returns whether it does.
    pub(super) fn keeps_loaded_blocks(&mut self, slot: Slot) -> bool {
        let keeps = self.on.tiers.chunks.as_deref_mut().is_some_and(|tier| tier.keeps_blocks(slot));
        if keeps {
            self.finish_in_tier(slot);
        }
        keeps
    }

    /// Frees the blocks of requests that were cancelled, and whose load has ended since.
    pub(super) fn free_unloaded(&mut self, now: Ticks) {
        let Some(tier) = self.on.tiers.chunks.as_deref_mut() else { return };
        for slot in tier.take_unloaded() {
            self.free(slot, now);
        }
    }

    /// Makes the stores of the step that was formed. `decodes`: whether the decode set runs. Returns for how long its
    /// forward pass waits for copies.
    pub(in crate::instance) fn close_tier_step(&mut self, decodes: bool, now: Ticks) -> Ticks {
        let Some(tier) = self.on.tiers.chunks.as_deref() else { return 0 };
        rare();
        let scheduled = self.scheduled(tier, decodes);
        let Some(tier) = self.on.tiers.chunks.as_deref_mut() else { return 0 };
        let lost = self.on.kv.gpu_mut().take_lost();
        let begins = tier.close(&scheduled, &lost, self.on.kv.gpu());
        tier.write_step();
        begins - now
    }

    /// The requests of the step that was formed which may store chunks, in the order of admission, and their known tokens
    /// once it is done.
    fn scheduled(&self, tier: &ChunkTier, decodes: bool) -> Vec<(Slot, u32)> {
        let (batch, requests) = (&self.on.batch, &self.on.requests);
        let after = |slot: Slot| {
            let chunk = batch.scheduled().find(|chunk| chunk.slot == slot);
            // Drafts are not known.
            let known = requests[slot].target() - self.on.unseen_outcome(slot).yielded;
            chunk.map(|chunk| (requests[slot].computed + chunk.given_up + chunk.tokens).min(known))
        };
        let set = batch.decode_set();
        let ahead = self.on.unseen.as_deref();
        // A step that is decided ahead knows the token that fills a block as its request needs the next one.
        let fills = || {
            let next = set.blocks_for_next();
            set.width() > 1 || set.blocks_for(2) > next || ahead.is_some() && next > 0
        };
        if !(decodes && set.len() > 0 && (tier.is_behind() || !tier.stores_no_decodes() && fills())) {
            let mut slots: Vec<Slot> = batch.scheduled().map(|chunk| chunk.slot).collect();
            slots.sort_unstable_by_key(|&slot| requests[slot].seq);
            return slots.into_iter().filter_map(|slot| Some((slot, after(slot)?))).collect();
        }
        let scheduled = batch.order().counted(requests).filter_map(|slot| {
            let state = &requests[slot];
            let decodes = state.phase == Phase::Decoding;
            let unseen = u32::from(decodes && ahead.is_some_and(|ahead| ahead.has_run(slot, true)));
            let decoded = decodes.then(|| set.computed(state) + 1 - unseen);
            Some((slot, decoded.or_else(|| after(slot))?))
        });
        scheduled.collect()
    }

    /// Sends the copies that begin once the first step of a run has ended, where its length is known as it starts.
    pub(in crate::instance) fn send_copies(&mut self, run: &Run) {
        if let Some(tier) = self.on.tiers.chunks.as_deref_mut() {
            tier.send_others(run.after(1));
        }
    }

    /// Notes when the last steps of a run began that are applied, where steps are decided ahead.
    pub(super) fn note_launches(&mut self, run: &Run, steps: u64) {
        let Some(tier) = self.on.tiers.chunks.as_deref_mut() else { return };
        let begins = |step: u64| if step == 0 { tier.begins(run.start) } else { run.after(step) };
        let (before, latest) = ((steps > 1).then(|| begins(steps - 2)), begins(steps - 1));
        tier.note_launches(before, latest);
    }

    /// Ends the last step of a run in the tier.
    pub(super) fn end_tier_step(&mut self, run: &Run, now: Ticks) {
        let leap = self.on.settings.leap;
        let Some(tier) = self.on.tiers.chunks.as_deref_mut() else { return };
        let start = run.after(run.steps - 1);
        if !leap {
            tier.send_others(now);
        }
        tier.end_step(start, now);
        self.free_unloaded(now);
    }

    /// Ends a step without tokens. Returns what follows.
    pub(in crate::instance) fn pass_tier_step(&mut self, preempted: &[u32], now: Ticks) -> AfterStep {
        let free = self.on.kv.free();
        let Some(tier) = self.on.tiers.chunks.as_deref_mut() else { return AfterStep::Rest(None) };
        tier.note_passed(preempted, free);
        let lost = self.on.kv.gpu_mut().take_lost();
        let begins = tier.close(&[], &lost, self.on.kv.gpu());
        let again = tier.pass_step(begins);
        let next = tier.next_end();
        self.free_unloaded(now);
        if begins > now {
            AfterStep::Wait(begins)
        } else if again {
            AfterStep::Step
        } else {
            AfterStep::Rest(next)
        }
    }
}
