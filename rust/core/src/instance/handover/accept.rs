//! Accepting requests that are handed over, receiving their KV, and admitting them.

use super::transfers::{Offer, Origin, Pull};
use crate::instance::migration::MigratingRequest;
use crate::instance::observers::Fact;
use crate::instance::queues::Queued;
use crate::instance::request::{Phase, Slot};
use crate::instance::scheduler::StepDraft;
use crate::instance::{Instance, Recorder};
use crate::time::Ticks;
use crate::trace::Trace;

impl Instance {
    /// Offers a request to this instance, which holds its blocks at `origin`. Returns when the
    /// run in progress now ends, if that changed.
    #[inline(never)]
    pub(crate) fn offer(
        &mut self,
        migrating: &MigratingRequest,
        origin: Origin,
        now: Ticks,
        trace: &Trace,
        recorder: &mut Recorder,
    ) -> Option<Ticks> {
        self.apply_head(now, trace, recorder);
        let slot = self.insert_migrated(migrating, Phase::Offered, now, trace, recorder);
        recorder.columns.last_instance[migrating.request as usize] = self.settings.index;
        self.transfers.offer(self.offer_of(slot, origin));
        self.run.truncate(now)
    }

    /// The offer of a request in a slot.
    pub(super) fn offer_of(&self, slot: Slot, origin: Origin) -> Offer {
        let state = &self.requests[slot];
        let (tokens, answers) = (state.computed, state.answering);
        let blocks = self.settings.blocks_for(tokens + 1);
        Offer { slot, request: state.request, tokens, blocks, answers, origin }
    }

    /// Accepts the requests that were offered, in order, until one does not fit.
    pub(in crate::instance) fn accept_offers(&mut self, draft: &StepDraft, trace: &Trace) {
        if self.transfers.offered() > 0 {
            self.accept_each(draft, trace);
        }
    }

    #[inline(never)]
    fn accept_each(&mut self, draft: &StepDraft, trace: &Trace) {
        let Some(acceptance) = self.settings.handover else { return };
        let mut hits = std::mem::take(&mut self.scratch.hits);
        while let Some(offer) = self.transfers.first_offer() {
            if !self.sees(offer.origin.since)
                || self.seats_taken(draft) >= self.settings.scheduler.max_num_seqs
                || !self.transfers.may_accept(&acceptance)
            {
                break;
            }
            let state = &self.requests[offer.slot];
            let (owner, target) = (state.owner(), state.target());
            self.kv.find(owner, target, &mut hits);
            let hit = hits.len() as u32 * self.settings.block.tokens();
            let taken = offer.blocks - self.settings.blocks_for(hit) + self.kv.gpu().unheld(&hits);
            if taken + self.settings.watermark(self.admitted()) > self.kv.free() {
                break;
            }
            let state = &mut self.requests[offer.slot];
            self.kv.adopt(&hits, &mut state.blocks);
            self.kv.grow(offer.blocks, &mut state.blocks);
            let expected = state.phase.is_expected();
            state.phase = if expected { Phase::Reserved } else { Phase::Receiving };
            let lacking = state.computed.saturating_sub(hit.max(offer.origin.copied));
            self.transfers.accept(lacking);
            let nothing = lacking == 0 && !self.settings.has_states();
            if !expected && (acceptance.at_once || nothing) {
                self.receive_kv(offer.slot, draft.now, trace);
            }
        }
        self.scratch.hits = hits;
    }

    /// Receives the KV of an accepted request: it waits for its admission.
    fn receive_kv(&mut self, slot: Slot, now: Ticks, trace: &Trace) {
        let state = &mut self.requests[slot];
        state.phase = Phase::Received;
        state.times.out_since = now;
        self.kv.register(state.owner(), state.computed, &mut state.blocks);
        self.transfers.receive(slot, state.computed, state.blocks.count(), state.answering);
        let attained = state.times.attained;
        if let Some(mut ranks) = self.ranks(trace) {
            ranks.enter(slot, now, attained);
        }
    }

    /// Whether the step that is formed sees what happened at `moment`: all of it, unless steps
    /// are decided ahead.
    pub(in crate::instance) fn sees(&self, moment: Ticks) -> bool {
        !self.settings.scheduler.schedule_ahead || moment <= self.queues.ahead().latest_start()
    }

    /// The received request that is admitted next, if the step that is formed sees one.
    pub(in crate::instance) fn first_received(&mut self) -> Option<Slot> {
        if self.transfers.received() == 0 {
            return None;
        }
        let requests = &self.requests;
        let slot = self.transfers.first_received(|slot| requests[slot].phase == Phase::Received)?;
        self.sees(self.requests[slot].times.out_since).then_some(slot)
    }

    /// Receives the KV of an accepted request at `now`. Returns when the run in progress now
    /// ends, if that changed.
    #[inline(never)]
    pub(crate) fn receive(
        &mut self,
        slot: Slot,
        now: Ticks,
        trace: &Trace,
        recorder: &mut Recorder,
    ) -> Option<Ticks> {
        self.apply_head(now, trace, recorder);
        self.observers.stats.book_waiting(self.waiting(), now);
        self.receive_kv(slot, now, trace);
        self.observers.stats.peak_waiting = self.observers.stats.peak_waiting.max(self.waiting());
        self.run.truncate(now)
    }

    /// Books that a request was handed over. `sent`: when the first byte was sent, and when all
    /// was received.
    pub(crate) fn book_handover(
        &mut self,
        pull: &Pull,
        (sent, now): (Ticks, Ticks),
        trace: &Trace,
        recorder: &mut Recorder,
    ) {
        let left = pull.origin.left;
        // What is sent before the end of the prefill delays nothing.
        let wait = sent.saturating_sub(left);
        let landed = Fact::Landed { transfer: now - left, wait, expired: false };
        self.observe(landed, pull.slot, now, trace, recorder);
    }

    /// Gives up the KV of a request that was offered and not accepted: it is computed anew.
    /// Returns whether the request was not accepted, and when the run in progress now ends, if
    /// that changed.
    #[inline(never)]
    pub(crate) fn expire_offer(
        &mut self,
        request: u32,
        now: Ticks,
        trace: &Trace,
        recorder: &mut Recorder,
    ) -> Option<(Origin, Option<Ticks>)> {
        // It may be another offer of the request, which has been here since the one whose lease ends.
        let lease = self.settings.handover?.lease?;
        let due = |offer: &Offer| offer.request == request && offer.origin.left.saturating_add(lease) <= now;
        self.apply_head(now, trace, recorder);
        let waiting = self.waiting();
        let offer = self.transfers.withdraw(due)?;
        self.observers.stats.book_waiting(waiting, now);
        let state = &mut self.requests[offer.slot];
        (state.phase, state.computed) = (Phase::Preempted, 0);
        state.times.out_since = now;
        let attained = state.times.attained;
        if self.ranking.is_some() {
            if let Some(mut ranks) = self.ranks(trace) {
                ranks.enter(offer.slot, now, attained);
            }
        } else if self.settings.scheduler.schedule_ahead {
            self.queues.ahead_mut().push(Queued { request, slot: Some(offer.slot) }, now);
        } else {
            self.queues.waiting_mut().push_migrated(request, offer.slot, trace);
        }
        self.observers.stats.peak_waiting = self.observers.stats.peak_waiting.max(self.waiting());
        let transfer = now - offer.origin.left;
        let landed = Fact::Landed { transfer, wait: transfer, expired: true };
        self.observe(landed, offer.slot, now, trace, recorder);
        Some((offer.origin, self.run.truncate(now)))
    }

    /// Accepted requests that the engine has not asked for.
    pub(crate) fn has_pulls(&self) -> bool {
        self.transfers.has_pulls()
    }

    /// Moves the accepted requests to `pulls`, which is empty.
    pub(crate) fn take_pulls(&mut self, pulls: &mut Vec<Pull>) {
        self.transfers.take_pulls(pulls);
    }
}
