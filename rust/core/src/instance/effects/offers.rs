//! Accepting requests that are handed over, receiving their KV, and admitting them.

use super::Effects;
use super::MigratingRequest;
use crate::instance::Instance;
use crate::instance::handover::{Offer, Origin, Pull};
use crate::instance::observers::Fact;
use crate::instance::queues::Queued;
use crate::instance::request::{Phase, Slot};
use crate::kv::{Hits, Tier};
use crate::time::Ticks;
use crate::trace::RequestNumber;

impl Instance {
    /// Whether swapped-out requests resume as requests are accepted, before these, and all of them decode from the next step
    /// on: beside a reserve for those that run, and one for outputs to come.
    pub(in crate::instance) fn resumes_as_accepted(&self) -> bool {
        self.reserve.is_some() && self.settings.handover.is_some_and(|rules| rules.reserve.is_some())
    }

    /// Swapped-out requests that resume so.
    pub(in crate::instance) fn swapped_to_accept(&self) -> u64 {
        if self.resumes_as_accepted() { self.queues.swapped().len() as u64 } else { 0 }
    }

    /// These, and those that were offered.
    pub(in crate::instance) fn waits_for_acceptance(&self) -> u64 {
        self.transfers.offered() + self.swapped_to_accept()
    }
}

impl Effects<'_> {
    /// Offers a request to this instance, which holds its blocks at `origin`. Returns when the
    /// run in progress now ends, if that changed.
    #[inline(never)]
    pub(crate) fn offer(
        &mut self,
        migrating: &MigratingRequest,
        origin: Origin,
        now: Ticks,
    ) -> Option<Ticks> {
        self.apply_listed(now);
        let slot = self.insert_migrated(migrating, Phase::Offered, now);
        self.recorder.columns.last_instance[migrating.request.index()] = self.on.settings.index;
        self.on.transfers.offer(self.offer_of(slot, origin));
        self.on.run.truncate(now)
    }

    /// The offer of a request in a slot.
    pub(super) fn offer_of(&self, slot: Slot, origin: Origin) -> Offer {
        let state = &self.on.requests[slot];
        let (tokens, answers) = (state.computed, state.answering);
        let reserves = self.on.settings.handover.is_some_and(|rules| rules.reserve.is_some());
        let blocks = self.on.settings.blocks_for(tokens + u32::from(!reserves));
        Offer { slot, request: state.request, tokens, blocks, answers, origin }
    }

    /// Accepts the first request that was offered, of which the prefix cache has `hits`, and allocates its blocks.
    pub(in crate::instance) fn accept(&mut self, offer: Offer, hits: &Hits, now: Ticks) {
        let hit = hits.len() * self.on.settings.block.tokens();
        let state = &mut self.on.requests[offer.slot];
        self.on.kv.gpu_mut().adopt(hits, &mut state.blocks);
        self.on.kv.grow(offer.blocks, &mut state.blocks);
        self.make_room(0);
        let state = &mut self.on.requests[offer.slot];
        let expected = state.phase.is_expected();
        state.phase = if expected { Phase::Reserved } else { Phase::Receiving };
        let lacking = state.computed.saturating_sub(hit.max(offer.origin.copied));
        self.on.kv.enter(Tier::Arriving, state.computed, &state.blocks);
        self.on.transfers.accept(lacking);
        let nothing = lacking == 0 && !self.on.settings.has_states();
        let at_once = self.on.settings.handover.is_some_and(|acceptance| acceptance.at_once);
        if !expected && (at_once || nothing) {
            self.receive_kv(offer.slot, now);
        }
    }

    /// A decision sees all requests that were received.
    pub(in crate::instance) fn see_received(&mut self) {
        self.on.transfers.see_received();
    }

    /// Swaps the first swapped-out request in, to `blocks` blocks, in which it waits for its admission.
    pub(in crate::instance) fn restore(&mut self, slot: Slot, blocks: u64) {
        let state = &mut self.on.requests[slot];
        self.on.kv.swap_in(state.owner(), state.computed, blocks, &mut state.blocks);
        self.on.kv.enter(Tier::Ready, state.computed, &state.blocks);
        state.phase = Phase::Restored;
        self.on.queues.pop_swapped();
        self.on.transfers.restore(slot);
        self.make_room(0);
    }

    /// A step is formed, or tried: see [`Transfers::forget_finished`](crate::instance::handover::Transfers::forget_finished).
    pub(in crate::instance) fn forget_finished(&mut self, now: Ticks) -> bool {
        self.on.transfers.forget_finished(self.on.swapped_to_accept() > 0, now)
    }

    /// The first request in the order of receipt that waits to be admitted.
    pub(in crate::instance) fn first_received(&mut self) -> Option<Slot> {
        if self.on.transfers.received() == 0 {
            return None;
        }
        let requests = &self.on.requests;
        self.on.transfers.first_received(|slot| requests[slot].phase.holds_kv())
    }

    /// Receives the KV of an accepted request: it waits for its admission.
    fn receive_kv(&mut self, slot: Slot, now: Ticks) {
        let state = &mut self.on.requests[slot];
        state.phase = Phase::Received;
        state.times.out_since = now;
        self.on.kv.gpu_mut().register(state.owner(), state.computed, &mut state.blocks);
        self.on.kv.relocate(Tier::Arriving, Tier::Ready, state.computed, &state.blocks);
        self.on.transfers.receive(slot, state.answering);
        let attained = state.times.attained;
        self.enter_ranking(slot, now, attained);
    }

    /// Receives the KV of an accepted request at `now`. Returns when the run in progress now
    /// ends, if that changed.
    #[inline(never)]
    pub(crate) fn receive(&mut self, slot: Slot, now: Ticks) -> Option<Ticks> {
        self.apply_listed(now);
        self.on.observers.stats.occupancy.count_waiting(self.waiting(), now);
        self.receive_kv(slot, now);
        let waiting = self.waiting();
        self.on.observers.stats.occupancy.note_waiting(waiting);
        self.on.run.truncate(now)
    }

    /// Notes that a request was handed over. `sent`: when the first byte was sent, and when all
    /// was received.
    pub(crate) fn note_handover(&mut self, pull: &Pull, (sent, now): (Ticks, Ticks)) {
        let left = pull.origin.left;
        // What is sent before the end of the prefill delays nothing.
        let wait = sent.saturating_sub(left);
        let landed = Fact::Landed { transfer: now - left, wait, expired: false };
        self.observe(landed, pull.slot, now);
    }

    /// Gives up the KV of a request that was offered and not accepted: it is computed anew.
    /// Returns whether the request was not accepted, and when the run in progress now ends, if
    /// that changed.
    #[inline(never)]
    pub(crate) fn expire_offer(
        &mut self,
        request: RequestNumber,
        now: Ticks,
    ) -> Option<(Origin, Option<Ticks>)> {
        // It may be another offer of the request, which has been here since the one whose lease ends.
        let lease = self.on.settings.handover?.lease?;
        let due = |offer: &Offer| offer.request == request && offer.origin.left.saturating_add(lease) <= now;
        self.apply_listed(now);
        let waiting = self.waiting();
        let offer = self.on.transfers.withdraw(due)?;
        self.on.observers.stats.occupancy.count_waiting(waiting, now);
        let state = &mut self.on.requests[offer.slot];
        (state.phase, state.computed) = (Phase::Preempted, 0);
        state.times.out_since = now;
        let attained = state.times.attained;
        if self.on.ranking.is_some() {
            self.enter_ranking(offer.slot, now, attained);
        } else if self.on.settings.scheduler.holds_arrivals() {
            self.on.queues.ahead_mut().push(Queued { request, slot: Some(offer.slot) }, now);
        } else {
            self.on.queues.waiting_mut().push_migrated(request, offer.slot, self.trace);
        }
        let waiting = self.waiting();
        self.on.observers.stats.occupancy.note_waiting(waiting);
        let transfer = now - offer.origin.left;
        let landed = Fact::Landed { transfer, wait: transfer, expired: true };
        self.observe(landed, offer.slot, now);
        Some((offer.origin, self.on.run.truncate(now)))
    }
}
