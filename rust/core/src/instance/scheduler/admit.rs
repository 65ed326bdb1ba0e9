//! Admitting queued requests, in the queue's order or by rank.

use super::Stages;
use super::displace::Wanted;
use super::joining::{Joins, PassedOver};
use crate::config::{Admission, Allocation, Gather};
use crate::hint::rare;
use crate::instance::Part;
use crate::instance::effects::{AdmissionOffer, Candidate, ChunkLoad, Place};
use crate::instance::observers::Accumulators;
use crate::instance::ranking::{BestQueued, Ranking};
use crate::instance::request::{Phase, Slot};
use crate::instance::tiers::TreeTier;
use crate::kv::Hits;

impl Stages<'_> {
    /// Whether enough requests have gathered to start a batch. If not, the step is formed
    /// again when the first has waited long enough.
    #[inline(never)]
    pub(super) fn has_gathered(&mut self, gather: Gather) -> bool {
        if self.effects.admitted() > 0 {
            return false;
        }
        if self.effects.transfers.offered() + self.effects.transfers.received() > 0 {
            return true;
        }
        let Some(first) = self.effects.queues.waiting().front() else { return false };
        let deadline = self.effects.trace.arrival[first.request.index()].saturating_add(gather.wait);
        if self.effects.queues.waiting().len() >= gather.size
            || deadline <= self.draft.now
            || first.slot.is_some()
        {
            return true;
        }
        self.draft.retry_at = Some(deadline);
        false
    }

    /// Admits queued requests until one does not fit. `chunked`: a prompt may be cut to
    /// the tokens that are left.
    pub(super) fn admit(&mut self, chunked: bool) {
        if self.accepts_in_stage() {
            self.accept_offers(false);
        }
        if self.effects.reserve.is_some() {
            rare();
            self.admit_received();
        }
        if !self.passes_queue() {
            rare();
            return;
        }
        self.pass_queue();
        if !self.may_admit() {
            rare();
            return;
        }
        let (mut hits, mut admitted) = (Hits::default(), false);
        let tiers = &self.effects.tiers;
        let reads = tiers.tree.as_deref().is_some_and(TreeTier::reads);
        let passes = self.effects.settings.limits.prompts || tiers.chunks.is_some() || reads;
        let mut passed = passes.then(PassedOver::default);
        let ends = self.ends_admissions();
        while self.budget() > 0 || ends {
            let Some(candidate) = self.next_candidate() else {
                let none_passed = passed.as_ref().is_none_or(PassedOver::is_empty);
                if !admitted && none_passed && self.add_quanta() {
                    continue;
                }
                break;
            };
            if !chunked && self.has_outgrown_budget(candidate) {
                rare();
                self.drop_queued(&candidate);
                continue;
            }
            let offer = self.admission_offer(candidate, chunked, &mut hits);
            self.effects.use_found(&mut hits);
            if let Some(passed) = &mut passed {
                rare();
                let hit = hits.len() * self.effects.settings.block.tokens();
                match self.may_join(candidate, &offer, hit) {
                    Joins::Yes => {}
                    Joins::Later => {
                        self.pass_over(candidate, passed);
                        continue;
                    }
                    Joins::None => break,
                }
            }
            if !self.admit_if_it_fits(candidate, &offer, &hits) {
                break;
            }
            admitted = true;
        }
        if let Some(passed) = passed {
            rare();
            self.put_back_passed(passed);
        }
    }

    /// Admits a request if its tokens and blocks are left. Returns whether others may be tried after it.
    fn admit_if_it_fits(&mut self, candidate: Candidate, offer: &AdmissionOffer, hits: &Hits) -> bool {
        let reserves = self.effects.reserve.is_some();
        if reserves && !self.fits_reserve(&candidate, hits) {
            return false;
        }
        if !(offer.affordable && self.has_room(candidate, offer, hits)) {
            return false;
        }
        let unheld = if reserves { self.effects.kv.gpu().unheld(hits) } else { 0 };
        let taken = unheld + self.effects.settings.token_blocks(offer.load.tokens());
        self.admit_candidate(&candidate, offer, hits);
        !reserves || self.charge_last_admitted(offer.tokens as u32, taken)
    }

    /// Whether a preempted request has grown past the budget of a step where prompts are not cut: no step could ever admit
    /// it. (vLLM 0.6.1 ignores such a request, too.)
    pub(super) fn has_outgrown_budget(&self, candidate: Candidate) -> bool {
        let most = self.effects.settings.scheduler.max_num_batched_tokens;
        candidate.lacking() > most && !self.is_under_way(candidate)
    }

    /// Drops a queued request that no step could ever admit.
    pub(super) fn drop_queued(&mut self, candidate: &Candidate) {
        self.effects.drop_queued(candidate, self.draft.now);
        self.draft.removed.dropped = true;
    }

    /// Adds quanta to accumulators, if a seat is free and no queued request may be admitted. Returns whether one may be then.
    fn add_quanta(&mut self) -> bool {
        let Some(ranking) = self.effects.ranking.as_deref().filter(|ranking| ranking.shares_keys()) else {
            return false;
        };
        let closed = ranking.waiting() > 0 && ranking.best_queued().is_none();
        closed
            && self.seats_taken() < self.effects.settings.scheduler.max_num_seqs
            && self.effects.add_quanta()
    }

    /// Admits a request, or begins the load for which it waits.
    pub(super) fn admit_candidate(&mut self, candidate: &Candidate, offer: &AdmissionOffer, hits: &Hits) {
        if matches!(offer.load, ChunkLoad::Wait(_)) {
            rare();
            self.effects.begin_load(candidate, offer, hits, self.draft.now);
            return;
        }
        let decodes_first = self.effects.settings.scheduler.decodes_first;
        // A request whose tokens are drafted runs by itself.
        let drafts = self.effects.settings.drafts.config().is_some();
        let joins = self.draft.decoded && self.draft.charged && !decodes_first && !drafts;
        self.effects.admit(candidate, offer, hits, joins, self.draft.now);
        self.add_to_come();
        self.charge_part(offer.tokens, offer.part);
    }

    /// The request to admit next: one whose KV has been received, as it holds its blocks
    /// already. In the queue's order there is none without a free seat;
    /// a ranked request may displace another, and is not admitted in the step that
    /// preempted it.
    fn next_candidate(&mut self) -> Option<Candidate> {
        let seated = self.seats_taken() < self.effects.settings.scheduler.max_num_seqs;
        // Beside a reserve they have been admitted by now.
        if seated
            && self.effects.reserve.is_none()
            && let Some(slot) = self.first_received()
        {
            rare();
            return Some(self.candidate_in(slot));
        }
        if seated
            && self.effects.tiers.chunks.is_some()
            && let Some(slot) = self.first_loaded()
        {
            rare();
            return Some(self.candidate_in(slot));
        }
        if self.draft.held_back.together {
            rare();
            return None;
        }
        match &self.effects.ranking {
            Some(ranking) => {
                rare();
                let best = ranking.best_queued()?;
                let waits = matches!(best, BestQueued::Slot(slot) if ranking.moved_in_round(slot));
                if waits { None } else { Some(self.candidate_by_rank(best)) }
            }
            None if !seated => None,
            None => self.first_queued(),
        }
    }

    /// The queued request that is admitted first, in the queue's order or by rank.
    fn first_waiting(&self) -> Option<Candidate> {
        match self.effects.ranking.as_deref() {
            None => self.first_queued(),
            Some(ranking) => ranking.best_queued().map(|best| self.candidate_by_rank(best)),
        }
    }

    /// Whether the prefix cache may lose, or has lost in this step, more of a queued prompt to a decode than the block that the
    /// decode takes, so that a chunk of it fits that did not. In the order of the free queue, the last block of a prefix is
    /// evicted first.
    pub(super) fn may_lose_hits(&self) -> bool {
        let rules = &self.effects.settings.scheduler;
        self.effects.kv.gpu().orders_eviction()
            && rules.allocation == Allocation::Chunk
            && self.effects.waiting() > 0
            && (self.effects.ranking.is_some() || self.seats_taken() < rules.max_num_seqs)
    }

    /// The first request in the queue's order.
    fn first_queued(&self) -> Option<Candidate> {
        let queued = self.effects.queues.waiting().front()?;
        if let Some(slot) = queued.slot {
            return Some(self.candidate_in(slot));
        }
        Some(Candidate::new(queued.request, Place::Front, self.effects.trace))
    }

    /// The best queued request of the ranking.
    fn candidate_by_rank(&self, best: BestQueued) -> Candidate {
        match best {
            BestQueued::Arrival(request) => Candidate::new(request, Place::Arrival, self.effects.trace),
            BestQueued::Slot(slot) => self.candidate_in(slot),
        }
    }

    pub(super) fn candidate_in(&self, slot: Slot) -> Candidate {
        let state = &self.effects.requests[slot];
        Candidate {
            request: state.request,
            place: Place::Slot(slot),
            phase: state.phase,
            owner: state.owner(),
            target: state.target(),
            computed: state.computed,
            blocks: state.blocks.count(),
        }
    }

    /// The tokens and blocks that the admission of a request takes. `hits`: becomes the blocks that the prefix
    /// cache has of it.
    pub(super) fn admission_offer(
        &mut self,
        candidate: Candidate,
        chunked: bool,
        hits: &mut Hits,
    ) -> AdmissionOffer {
        hits.clear();
        let limit = if chunked { self.draft.limits.chunk } else { u64::MAX };
        let resume = |tokens: u64, next: u32, part: Part| {
            rare();
            let blocks = self.blocks_to_resume(candidate, next, part.decodes());
            AdmissionOffer {
                tokens,
                blocks,
                affordable: tokens <= self.budget(),
                part,
                load: ChunkLoad::None,
            }
        };
        match candidate.phase {
            // Its next token is that of a decode.
            Phase::Received | Phase::Restored if self.effects.resumes_as_accepted() => AdmissionOffer {
                tokens: 0,
                blocks: 0,
                affordable: true,
                part: Part::MigratedIn,
                load: ChunkLoad::None,
            },
            Phase::Received | Phase::Restored => AdmissionOffer {
                tokens: candidate.lacking(),
                blocks: self.lookahead_of_received(candidate),
                affordable: candidate.lacking() <= self.budget(),
                part: Part::MigratedIn,
                load: ChunkLoad::None,
            },
            Phase::Loaded => self.offer_of_loaded(&candidate, limit),
            Phase::MigratedIn => resume(candidate.lacking(), 1, Part::MigratedIn),
            Phase::Swapped { decoding: true } => resume(candidate.lacking(), 1, Part::SwappedInDecode),
            Phase::Swapped { decoding: false } => {
                let wanted = candidate.lacking().min(limit);
                let tokens = if chunked { wanted.min(self.budget()) } else { wanted };
                resume(tokens, tokens as u32, Part::SwappedInChunk)
            }
            _ => self.offer_of_prompt(&candidate, chunked, limit, hits),
        }
    }

    /// The offer for a request without KV. `limit`: the most tokens of a chunk.
    fn offer_of_prompt(
        &mut self,
        candidate: &Candidate,
        chunked: bool,
        limit: u64,
        hits: &mut Hits,
    ) -> AdmissionOffer {
        let &Candidate { owner, target, .. } = candidate;
        if self.effects.tiers.tree.is_some() && self.effects.awaits_read(candidate.request, self.draft.now) {
            rare();
            return AdmissionOffer {
                tokens: 0,
                blocks: 0,
                affordable: false,
                part: Part::Admitted,
                load: ChunkLoad::Unknown,
            };
        }
        self.effects.kv.find(owner, target, hits);
        let hit = hits.len() * self.effects.settings.block.tokens();
        let load = if self.effects.tiers.tree.is_some() {
            self.look_up_on_host(hits)
        } else {
            self.look_up(candidate, hit)
        };
        let unheld = self.effects.kv.gpu().unheld(hits);
        if matches!(load, ChunkLoad::Wait(_)) {
            rare();
            return self.offer_of_load(candidate, (hit, unheld), load);
        }
        let computed = hit + load.tokens();
        let padding = self.padding(target, computed);
        self.draft.held_back.padded |= padding > 0;
        let wanted = self.cut(u64::from(target - computed) + padding, limit);
        let tokens = if chunked { self.cut_first(wanted, self.budget()) } else { wanted.min(self.budget()) };
        let blocks = self.prompt_blocks(target, hit, load.tokens() + tokens as u32, unheld)
            + self.blocks_to_come(candidate, computed + tokens as u32);
        AdmissionOffer {
            tokens,
            blocks,
            affordable: chunked && padding == 0 && tokens > 0 || tokens == wanted,
            part: Part::Admitted,
            load,
        }
    }

    /// Blocks that must be free to admit a request whose KV exists, and which takes its `next` tokens.
    #[inline(never)]
    fn blocks_to_resume(&self, candidate: Candidate, next: u32, decodes: bool) -> u64 {
        // A ranked request resumes only if the spare block is free, too.
        let spare = u64::from(self.effects.settings.scheduler.spare_block && self.effects.ranking.is_some());
        let grown = self.effects.settings.blocks_with_lookahead(candidate.computed + next, decodes);
        let blocks = grown.max(candidate.blocks);
        blocks + self.effects.settings.watermark(self.effects.admitted()) + spare
    }

    /// Blocks that must be free to admit a prompt: of `target` tokens, of which `hit` are
    /// cached and `tokens` computed in this step. `unheld`: cached blocks that no request
    /// holds.
    pub(super) fn prompt_blocks(&self, target: u32, hit: u32, tokens: u32, unheld: u64) -> u64 {
        let settings = &self.effects.settings;
        let taken = settings.blocks_with_lookahead(hit + tokens, false);
        let reserved = match settings.scheduler.allocation {
            Allocation::Chunk => taken,
            _ => taken.max(settings.blocks_for(target)),
        };
        let blocks = reserved - settings.blocks_for(hit);
        blocks + unheld + self.effects.settings.watermark(self.effects.admitted())
    }

    /// Whether a seat and the blocks for a request are free, or can be made free by
    /// displacing others.
    fn has_room(&mut self, candidate: Candidate, offer: &AdmissionOffer, hits: &Hits) -> bool {
        let seated = self.seats_taken() < self.effects.settings.scheduler.max_num_seqs;
        if seated && offer.blocks <= self.effects.kv.free() {
            return true;
        }
        rare();
        let Some(ranking) = self.effects.ranking.as_deref().filter(|ranking| ranking.may_displace()) else {
            return false;
        };
        let rank = match candidate.place {
            Place::Slot(slot) => Some(ranking.rank(slot)),
            Place::Arrival | Place::Front => ranking.best_rank(),
        };
        let Some(rank) = rank else { return false };
        self.displace_for(Wanted { rank, blocks: offer.blocks, hits })
    }

    /// Whether a stage that was left out because of a preemption in this step could admit
    /// a request at a coming step, before any request leaves.
    #[inline(never)]
    pub(super) fn may_admit_later(&mut self) -> bool {
        if self.seats_taken() >= self.effects.settings.scheduler.max_num_seqs
            && self.effects.ranking.is_none()
        {
            return false;
        }
        if self.effects.transfers.offered() + self.effects.transfers.received() > 0 {
            return true;
        }
        if self.effects.settings.limits.prompts || self.effects.reserve.is_some() {
            return true;
        }
        // The answer is exact only where it is often asked for: without a prefix cache, for
        // the first request of the queue.
        if !self.effects.queues.swapped().is_empty() || self.effects.kv.gpu().caches() {
            return true;
        }
        // The next step may add quanta.
        if self.effects.observers.accumulators.as_deref().is_some_and(Accumulators::refill) {
            return true;
        }
        let displaces = matches!(self.effects.settings.scheduler.admission, Admission::Displace { .. });
        let worst = if displaces { self.effects.worst_running() } else { None };
        let Some(candidate) = self.first_waiting() else { return false };
        let displaced = |one: &Ranking| worst.is_some_and(|worst| Some(one.rank(worst)) > one.best_rank());
        if self.effects.ranking.as_deref().is_some_and(displaced) {
            return true;
        }
        // A whole prompt that has outgrown the budget is dropped at the next step.
        let rules = &self.effects.settings.scheduler;
        if !rules.cuts_prompts() && candidate.lacking() > rules.max_num_batched_tokens {
            return true;
        }
        self.draft.held_back.to_come = None;
        self.admission_offer(candidate, true, &mut Hits::default()).blocks <= self.effects.kv.free()
    }
}
