//! Accepting requests that are handed over, and those whose KV has been received.

use super::Stages;
use crate::config::AcceptanceReserve;
use crate::hint::rare;
use crate::instance::handover::{Acceptance, Committed, Offer};
use crate::instance::request::Slot;
use crate::kv::{Hits, Tier};
use crate::time::Ticks;

impl Stages<'_> {
    /// Whether the stage that admits accepts requests: if tokens of the budget are left; beside a reserve for those that run,
    /// unless the step was decided as the one before it started, and requests were accepted then.
    pub(super) fn accepts_in_stage(&self) -> bool {
        if !self.reserves_for_accepted() {
            return self.budget() > 0;
        }
        !self.effects.settings.scheduler.schedule_ahead
            || self.effects.queues.ahead().latest_start() == Ticks::MAX
    }

    /// Accepts the requests that were offered, in order, until one does not fit. `formed`: the step is formed that starts now,
    /// and the next one is decided.
    /// Returns whether any was accepted.
    pub(super) fn accept_offers(&mut self, formed: bool) -> bool {
        let waiting = self.effects.waits_for_acceptance();
        if formed && self.effects.resumes_as_accepted() {
            rare();
            self.restore_swapped();
        }
        if self.effects.swapped_to_accept() == 0 {
            if self.effects.transfers.offered() > 0 {
                self.accept_each(formed);
            }
            self.effects.see_received();
        }
        self.effects.waits_for_acceptance() < waiting
    }

    /// Swaps requests in, in order, until one does not fit beside the tokens that are left for each request that runs or was
    /// accepted. While one is left, none is accepted, and none of those that have been received since is admitted.
    ///
    /// Source: `sglang` 0.5.23, `resume_retracted_reqs` and `process_decode_queue` in `srt/disaggregation/decode.py`.
    pub(super) fn restore_swapped(&mut self) {
        let Some(acceptance) = self.effects.settings.handover else { return };
        let Some(reserve) = acceptance.reserve else { return };
        let block = u64::from(self.effects.settings.block.tokens());
        while let Some(&slot) = self.effects.queues.swapped().first() {
            let blocks = self.effects.settings.blocks_for(self.effects.requests[slot].computed);
            let wanted = blocks * block + u64::from(reserve.tokens) * (self.active(reserve.clip).0 + 1);
            if self.seats_to_accept(&acceptance) >= self.effects.settings.scheduler.max_num_seqs
                || wanted > self.effects.kv.free() * block
            {
                break;
            }
            self.effects.restore(slot, blocks);
        }
    }

    /// The requests that run or were accepted, and the tokens of those that run.
    fn active(&self, clip: u32) -> (u64, Committed) {
        let running = self.committed(clip);
        let transfers = &self.effects.transfers;
        (running.requests + transfers.receiving() + transfers.received(), running)
    }

    #[inline(never)]
    fn accept_each(&mut self, formed: bool) {
        let Some(acceptance) = self.effects.settings.handover else { return };
        let mut hits = Hits::default();
        while let Some(offer) = self.effects.transfers.first_offer() {
            let settings = &self.effects.settings;
            let seen = formed || self.sees(offer.origin.since);
            if !seen
                || self.seats_to_accept(&acceptance) >= settings.scheduler.max_num_seqs
                || !self.effects.transfers.may_accept(&acceptance, self.accepted_blocks())
            {
                break;
            }
            let (state, kv) = (&self.effects.requests[offer.slot], &self.effects.kv);
            kv.find(state.owner(), state.target(), &mut hits);
            let hit = hits.len() * settings.block.tokens();
            let unheld = kv.gpu().unheld(&hits);
            let taken = offer.blocks - settings.blocks_for(hit) + unheld;
            let kept = settings.watermark(self.effects.admitted()) + self.kept_for_decodes();
            let reserved = acceptance.reserve.is_none_or(|reserve| {
                let new = offer.blocks - settings.blocks_for(hit);
                self.leaves_reserve(reserve, &offer, (hit, new), kv.free().saturating_sub(unheld))
            });
            let fits = taken + kept <= kv.free() && reserved;
            self.effects.use_found(&mut hits);
            if !fits {
                break;
            }
            self.effects.accept(offer, &hits, self.draft.now);
        }
    }

    /// Seats that are taken as a request is accepted: beside a reserve those included of requests that were accepted.
    fn seats_to_accept(&self, acceptance: &Acceptance) -> u64 {
        let transfers = &self.effects.transfers;
        if acceptance.reserve.is_none() {
            return self.seats_taken();
        }
        self.effects.admitted() + transfers.receiving() + transfers.received()
    }

    /// Whether an acceptance leaves tokens for each request that runs or was accepted, and enough for the longest of those that
    /// run to finish once the others have given theirs. `hit`: cached tokens of the request, and `new`: blocks that it takes,
    /// of `free`.
    ///
    /// Source: `sglang` 0.5.23, `pop_preallocated` and `_allocatable_token_budgets` in `srt/disaggregation/decode.py`.
    fn leaves_reserve(
        &self,
        reserve: AcceptanceReserve,
        offer: &Offer,
        (hit, new): (u32, u64),
        free: u64,
    ) -> bool {
        let (active, running) = self.active(reserve.clip);
        let block = u64::from(self.effects.settings.block.tokens());
        let longest = running.longest.saturating_sub(running.tokens);
        let left = (u64::from(reserve.tokens) * active).max(longest);
        let output = self.effects.trace.output_tokens[offer.request.index()].min(reserve.clip);
        let alone = u64::from(offer.tokens - hit) + u64::from(output);
        let wanted = (new * block + u64::from(reserve.tokens)).max(alone.saturating_sub(running.tokens));
        wanted + left <= free * block
    }

    /// The tokens of the requests that run, those included that finished with the latest step and were not left out of one since.
    fn committed(&self, clip: u32) -> Committed {
        let mut running = self.effects.transfers.just_finished(self.draft.now);
        for slot in self.effects.batch.order().counted(&self.effects.requests) {
            let state = &self.effects.requests[slot];
            running.add(state.prompt, self.effects.seen_generated(slot), state.output.min(clip));
        }
        running
    }

    /// Admits requests whose KV has been received, beside a reserve for outputs to come: they hold their blocks, and leave none
    /// for others.
    pub(super) fn admit_received(&mut self) {
        let mut hits = Hits::default();
        let finished = self.effects.transfers.just_finished(self.draft.now).requests;
        while self.budget() > 0
            && self.seats_taken() + finished < self.effects.settings.scheduler.max_num_seqs
            && let Some(slot) = self.first_received()
        {
            let candidate = self.candidate_in(slot);
            let offer = self.admission_offer(candidate, true, &mut hits);
            if !offer.affordable || offer.blocks > self.effects.kv.free() {
                break;
            }
            self.admit_candidate(&candidate, &offer, &hits);
            self.draft.held_back.reserve.to_come = None;
        }
    }

    /// Whether an acceptance as the step starts that is formed may leave too few blocks for the next tokens of decodes: it leaves
    /// fewer tokens than a block has for each of them.
    pub(super) fn accepts_tightly(&self) -> bool {
        let reserve = self.effects.settings.handover.and_then(|rules| rules.reserve);
        reserve.is_some_and(|reserve| reserve.tokens < self.effects.settings.block.tokens())
            && self.effects.waits_for_acceptance() > 0
    }

    /// Blocks that an acceptance leaves for the next tokens of decodes, where a decision that preempts one drops a token.
    fn kept_for_decodes(&self) -> u64 {
        // Beside a reserve decodes are preempted as if none had been accepted.
        if !self.effects.settings.scheduler.drop_unseen || self.reserves_for_accepted() {
            return 0;
        }
        self.blocks_of_decodes()
    }

    /// Blocks of the requests that were accepted and not admitted since.
    fn accepted_blocks(&self) -> u64 {
        let account = self.effects.kv.account();
        account.held(Tier::Arriving).blocks + account.held(Tier::Ready).blocks
    }

    /// The received request that is admitted next, if the step that is formed sees one.
    pub(super) fn first_received(&mut self) -> Option<Slot> {
        let slot = self.effects.first_received()?;
        if self.effects.resumes_as_accepted() {
            return self.effects.transfers.has_seen().then_some(slot);
        }
        self.sees(self.effects.requests[slot].times.out_since).then_some(slot)
    }

    /// Whether the step that is formed sees what happened at `moment`: all of it, unless steps
    /// are decided ahead.
    fn sees(&self, moment: Ticks) -> bool {
        let ahead = self.effects.settings.scheduler.schedule_ahead;
        !ahead || moment <= self.effects.queues.ahead().latest_start()
    }
}
