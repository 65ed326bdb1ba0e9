//! Accepting requests that are handed over, and those whose KV has been received.

use super::Stages;
use crate::instance::request::Slot;
use crate::kv::{Hits, Tier};
use crate::time::Ticks;

impl Stages<'_> {
    /// Accepts the requests that were offered, in order, until one does not fit.
    pub(super) fn accept_offers(&mut self) {
        if self.effects.transfers.offered() > 0 {
            self.accept_each();
        }
    }

    #[inline(never)]
    fn accept_each(&mut self) {
        let Some(acceptance) = self.effects.settings.handover else { return };
        let mut hits = Hits::default();
        while let Some(offer) = self.effects.transfers.first_offer() {
            let settings = &self.effects.settings;
            if !self.sees(offer.origin.since)
                || self.seats_taken() >= settings.scheduler.max_num_seqs
                || !self.effects.transfers.may_accept(&acceptance, self.accepted_blocks())
            {
                break;
            }
            let (state, kv) = (&self.effects.requests[offer.slot], &self.effects.kv);
            kv.find(state.owner(), state.target(), &mut hits);
            let hit = hits.len() * settings.block.tokens();
            let taken = offer.blocks - settings.blocks_for(hit) + kv.gpu().unheld(&hits);
            let kept = settings.watermark(self.effects.admitted()) + self.kept_for_decodes();
            let fits = taken + kept <= kv.free();
            self.effects.use_found(&mut hits);
            if !fits {
                break;
            }
            self.effects.accept(offer, &hits, self.draft.now);
        }
    }

    /// Admits requests whose KV has been received, beside a reserve for outputs to come: they hold their blocks, and leave none
    /// for others.
    pub(super) fn admit_received(&mut self) {
        let mut hits = Hits::default();
        while self.budget() > 0
            && self.seats_taken() < self.effects.settings.scheduler.max_num_seqs
            && let Some(slot) = self.first_received()
        {
            let candidate = self.candidate_in(slot);
            let offer = self.admission_offer(candidate, true, &mut hits);
            if !offer.affordable {
                break;
            }
            self.admit_candidate(&candidate, &offer, &hits);
            self.draft.held_back.reserve.to_come = None;
        }
    }

    /// Blocks that an acceptance leaves for the next tokens of decodes, where a decision that preempts one drops a token.
    fn kept_for_decodes(&self) -> u64 {
        if !self.effects.settings.scheduler.drop_unseen {
            return 0;
        }
        self.blocks_of_decodes() + u64::from(self.effects.settings.scheduler.spare_block)
    }

    /// Blocks of the requests that were accepted and not admitted since.
    fn accepted_blocks(&self) -> u64 {
        let account = self.effects.kv.account();
        account.held(Tier::Arriving).blocks + account.held(Tier::Ready).blocks
    }

    /// The received request that is admitted next, if the step that is formed sees one.
    pub(super) fn first_received(&mut self) -> Option<Slot> {
        let slot = self.effects.first_received()?;
        self.sees(self.effects.requests[slot].times.out_since).then_some(slot)
    }

    /// Whether the step that is formed sees what happened at `moment`: all of it, unless steps
    /// are decided ahead.
    fn sees(&self, moment: Ticks) -> bool {
        let ahead = self.effects.settings.scheduler.schedule_ahead;
        !ahead || moment <= self.effects.queues.ahead().latest_start()
    }
}
