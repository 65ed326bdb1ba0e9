//! Admitting queued requests, in the queue's order or by rank.

use super::StepDraft;
use super::displace::Wanted;
use crate::config::{Admission, Allocation, Gather, QueueOrder};
use crate::hint::rare;
use crate::instance::Part;
use crate::instance::effects::Effects;
use crate::instance::ranking::{BestQueued, List};
use crate::instance::request::{Phase, Slot};
use crate::kv::{Block, ContentOwner};
use crate::trace::Trace;

/// The request that is admitted next, if it fits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    request: u32,
    place: Place,
    pub(super) phase: Phase,
    /// The owner of the content of its blocks.
    owner: ContentOwner,
    /// Tokens to compute before its next token is yielded.
    pub(super) target: u32,
    /// Tokens whose KV exists.
    pub(super) computed: u32,
    /// Blocks of that KV.
    pub(super) blocks: u64,
}

impl Candidate {
    /// A request that was never admitted.
    fn new(request: u32, place: Place, trace: &Trace) -> Self {
        let prompt = trace.prompt_tokens[request as usize];
        let owner = ContentOwner { request: trace.origin(request), prompt };
        Self { request, place, phase: Phase::Preempted, owner, target: prompt, computed: 0, blocks: 0 }
    }

    /// Tokens that it lacks.
    pub(super) fn lacking(&self) -> u64 {
        u64::from(self.target - self.computed)
    }
}

/// Where the candidate for an admission is.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// It has a slot.
    Slot(Slot),
    /// It is new, and first in the queue's order.
    Front,
    /// It is new, and the best of those that are ranked without a slot.
    Arrival,
}

/// The tokens and blocks that an admission takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct AdmissionOffer {
    /// Tokens computed in this step.
    pub(super) tokens: u64,
    /// Blocks that must be free.
    pub(super) blocks: u64,
    /// Whether the budget suffices: for all tokens that are wanted, or for some if the
    /// prompt may be cut.
    pub(super) affordable: bool,
    pub(super) part: Part,
}

impl Effects<'_> {
    /// Whether enough requests have gathered to start a batch. If not, the step is formed
    /// again when the first has waited long enough.
    #[inline(never)]
    pub(super) fn has_gathered(&self, gather: Gather, draft: &mut StepDraft) -> bool {
        if self.admitted() > 0 {
            return false;
        }
        if self.on.transfers.offered() + self.on.transfers.received() > 0 {
            return true;
        }
        let Some(first) = self.on.queues.waiting().front() else { return false };
        let deadline = self.trace.arrival[first.request as usize].saturating_add(gather.wait);
        if self.on.queues.waiting().len() >= gather.size || deadline <= draft.now || first.slot.is_some() {
            return true;
        }
        draft.retry_at = Some(deadline);
        false
    }

    /// Admits queued requests until one does not fit. `chunked`: a prompt may be cut to
    /// the tokens that are left.
    pub(super) fn admit(&mut self, chunked: bool, draft: &mut StepDraft) {
        if draft.tokens_left > 0 {
            self.accept_offers(draft);
        }
        self.sort_by_cached_prefix();
        while draft.tokens_left > 0 {
            let Some(candidate) = self.next_candidate(draft) else { break };
            if !chunked && candidate.lacking() > self.on.settings.scheduler.max_num_batched_tokens {
                rare();
                self.drop_candidate(candidate, draft);
                continue;
            }
            let mut hits = std::mem::take(&mut self.on.scratch.hits);
            let offer = self.admission_offer(candidate, chunked, draft, &mut hits);
            let fits = offer.affordable && self.has_room(candidate, &offer, &hits, draft);
            if fits {
                let slot = self.take_candidate(&candidate);
                self.admit_candidate((candidate, slot), &offer, &hits, draft);
            }
            self.on.scratch.hits = hits;
            if !fits {
                break;
            }
        }
    }

    /// Admits a request that has its slot.
    pub(super) fn admit_candidate(
        &mut self,
        (candidate, slot): (Candidate, Slot),
        offer: &AdmissionOffer,
        hits: &[Block],
        draft: &mut StepDraft,
    ) {
        if candidate.phase == Phase::Preempted {
            self.admit_prompt(slot, offer, hits, draft);
        } else {
            self.admit_with_kv(slot, offer, draft);
        }
        self.note_admission(slot, candidate.phase == Phase::Received, draft.now);
        if let Some(mut ranks) = self.ranks() {
            match candidate.place {
                Place::Arrival => ranks.admit_arrival(slot, draft.now),
                _ => ranks.admit(slot, draft.now),
            }
        }
    }

    /// Sorts the queue by the tokens that the prefix cache has of each request, if it is
    /// in that order.
    fn sort_by_cached_prefix(&mut self) {
        let QueueOrder::LongestPrefix { most } = self.on.settings.scheduler.order else { return };
        let gpu = self.on.kv.gpu();
        self.on.queues.waiting_mut().sort_by_key(most, |queued| {
            let prompt = self.trace.prompt_tokens[queued.request as usize];
            let owner = ContentOwner { request: self.trace.origin(queued.request), prompt };
            u32::MAX - gpu.matched(owner, prompt)
        });
    }

    /// The request to admit next: one whose KV has been received, as it holds its blocks
    /// already. In the queue's order there is none without a free seat;
    /// a ranked request may displace another, and is not admitted in the step that
    /// preempted it.
    fn next_candidate(&mut self, draft: &StepDraft) -> Option<Candidate> {
        let seated = self.seats_taken(draft) < self.on.settings.scheduler.max_num_seqs;
        if seated && let Some(slot) = self.first_received() {
            rare();
            return Some(self.candidate_in(slot));
        }
        match &self.on.ranking {
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

    /// The first request in the queue's order.
    fn first_queued(&self) -> Option<Candidate> {
        let queued = self.on.queues.waiting().front()?;
        if let Some(slot) = queued.slot {
            return Some(self.candidate_in(slot));
        }
        Some(Candidate::new(queued.request, Place::Front, self.trace))
    }

    /// The best queued request of the ranking.
    fn candidate_by_rank(&self, best: BestQueued) -> Candidate {
        match best {
            BestQueued::Arrival(row) => Candidate::new(row, Place::Arrival, self.trace),
            BestQueued::Slot(slot) => self.candidate_in(slot),
        }
    }

    pub(super) fn candidate_in(&self, slot: Slot) -> Candidate {
        let state = &self.on.requests[slot];
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
    fn admission_offer(
        &self,
        candidate: Candidate,
        chunked: bool,
        draft: &StepDraft,
        hits: &mut Vec<Block>,
    ) -> AdmissionOffer {
        hits.clear();
        let Candidate { owner, target, .. } = candidate;
        let limit = if chunked { draft.chunk_limit } else { u64::MAX };
        let resume = |tokens: u64, next: u32, part: Part| {
            rare();
            let blocks = self.blocks_to_resume(candidate, next);
            AdmissionOffer { tokens, blocks, affordable: tokens <= draft.tokens_left, part }
        };
        match candidate.phase {
            Phase::Received => AdmissionOffer {
                tokens: candidate.lacking(),
                blocks: 0,
                affordable: candidate.lacking() <= draft.tokens_left,
                part: Part::MigratedIn,
            },
            Phase::MigratedIn => resume(candidate.lacking(), 1, Part::MigratedIn),
            Phase::Swapped { decoding: true } => resume(candidate.lacking(), 1, Part::SwappedInDecode),
            Phase::Swapped { decoding: false } => {
                let wanted = candidate.lacking().min(limit);
                let tokens = if chunked { wanted.min(draft.tokens_left) } else { wanted };
                resume(tokens, tokens as u32, Part::SwappedInChunk)
            }
            _ => {
                self.on.kv.find(owner, target, hits);
                let hit = hits.len() as u32 * self.on.settings.block.tokens();
                let wanted = u64::from(target - hit).min(limit);
                let tokens = wanted.min(draft.tokens_left);
                let blocks = self.prompt_blocks(target, hit, tokens as u32, self.on.kv.gpu().unheld(hits));
                AdmissionOffer {
                    tokens,
                    blocks,
                    affordable: chunked || tokens == wanted,
                    part: Part::Admitted,
                }
            }
        }
    }

    /// Blocks that must be free to admit a request whose KV exists, and which takes its `next` tokens.
    #[inline(never)]
    fn blocks_to_resume(&self, candidate: Candidate, next: u32) -> u64 {
        // A ranked request resumes only if the spare block is free, too.
        let spare = u64::from(self.on.settings.scheduler.spare_block && self.on.ranking.is_some());
        let blocks = self.on.settings.blocks_for(candidate.computed + next).max(candidate.blocks);
        blocks + self.on.settings.watermark(self.admitted()) + spare
    }

    /// Blocks that must be free to admit a prompt: of `target` tokens, of which `hit` are
    /// cached and `tokens` computed in this step. `unheld`: cached blocks that no request
    /// holds.
    pub(super) fn prompt_blocks(&self, target: u32, hit: u32, tokens: u32, unheld: u64) -> u64 {
        let reserved = match self.on.settings.scheduler.allocation {
            Allocation::Chunk => hit + tokens,
            Allocation::ChunkIfAllFits | Allocation::Sequence => target,
        };
        let blocks = self.on.settings.blocks_for(reserved) - self.on.settings.blocks_for(hit);
        blocks + unheld + self.on.settings.watermark(self.admitted())
    }

    /// Whether a seat and the blocks for a request are free, or can be made free by
    /// displacing others.
    fn has_room(
        &mut self,
        candidate: Candidate,
        offer: &AdmissionOffer,
        hits: &[Block],
        draft: &mut StepDraft,
    ) -> bool {
        let seated = self.seats_taken(draft) < self.on.settings.scheduler.max_num_seqs;
        if seated && offer.blocks <= self.on.kv.free() {
            return true;
        }
        rare();
        let Some(ranking) = self.on.ranking.as_deref().filter(|ranking| ranking.may_displace()) else {
            return false;
        };
        let rank = match candidate.place {
            Place::Slot(slot) => Some(ranking.rank(slot)),
            Place::Arrival | Place::Front => ranking.best_rank(),
        };
        let Some(rank) = rank else { return false };
        self.displace_for(Wanted { rank, blocks: offer.blocks, hits }, draft)
    }

    /// Takes a request out of the queue, if it is not ranked. Returns its slot.
    fn take_candidate(&mut self, candidate: &Candidate) -> Slot {
        if self.on.ranking.is_none() && candidate.phase != Phase::Received {
            self.on.queues.waiting_mut().pop();
        }
        match candidate.place {
            Place::Slot(slot) => slot,
            Place::Front | Place::Arrival => self.add_request(candidate.request),
        }
    }

    /// Adds a request that has not run.
    pub(in crate::instance) fn add_request(&mut self, request: u32) -> Slot {
        let row = request as usize;
        let arrival = self.trace.arrival[row];
        let slot =
            self.on.requests.insert(request, self.trace.prompt_tokens[row], self.trace.output_tokens[row]);
        self.on.requests[slot].contents = self.trace.origin(request);
        self.on.requests[slot].times.came_at = arrival;
        self.on.observers.readers.open(slot, arrival);
        slot
    }

    /// Admits a request without KV, with the blocks that the prefix cache has of it.
    fn admit_prompt(&mut self, slot: Slot, offer: &AdmissionOffer, hits: &[Block], draft: &mut StepDraft) {
        let state = &mut self.on.requests[slot];
        let hit = hits.len() as u32 * self.on.settings.block.tokens();
        self.on.kv.count_lookup(state.target(), hit);
        self.on.kv.adopt(hits, &mut state.blocks);
        (state.computed, state.phase) = (hit, Phase::Prefilling);
        self.on.batch.admit(slot, &mut self.on.requests);
        self.schedule_chunk(slot, offer.tokens as u32, offer.part, draft);
    }

    /// Admits a request whose KV was swapped out, or migrated in.
    #[inline(never)]
    fn admit_with_kv(&mut self, slot: Slot, offer: &AdmissionOffer, draft: &mut StepDraft) {
        let tokens = offer.tokens as u32;
        let state = &mut self.on.requests[slot];
        let (phase, computed) = (state.phase, state.computed);
        let blocks = self.on.settings.blocks_for(computed + tokens).max(state.blocks.count());
        if phase == Phase::Received {
            self.on.transfers.admit(slot, state.request, computed, state.blocks.count());
        } else if phase.is_swapped() {
            self.on.kv.swap_in(computed, blocks, &mut state.blocks);
            self.on.queues.pop_ranked_swapped();
        } else {
            self.on.kv.load(computed, blocks, &mut state.blocks);
        }
        if offer.part == Part::SwappedInChunk {
            self.on.requests[slot].phase = Phase::Prefilling;
            self.on.batch.admit(slot, &mut self.on.requests);
            self.schedule_chunk(slot, tokens, offer.part, draft);
        } else {
            self.resume_decode(slot, tokens, offer.part, draft);
        }
    }

    /// Resumes a decode whose KV is on the GPU: in the decode set, if that runs in this
    /// step; else by itself.
    #[inline(never)]
    fn resume_decode(&mut self, slot: Slot, tokens: u32, part: Part, draft: &mut StepDraft) {
        debug_assert_eq!(tokens, 1, "Invariant: a request that has yielded a token lacks its latest only");
        let joins = draft.decoded && draft.charged && !self.on.settings.scheduler.decodes_first;
        if !joins {
            self.on.requests[slot].phase = Phase::Stalled;
            self.on.batch.admit(slot, &mut self.on.requests);
            self.schedule_chunk(slot, tokens, part, draft);
            return;
        }
        let reasoning = self.trace.reasoning(self.on.requests[slot].request as usize);
        self.on.batch.admit_late(slot, part, reasoning, &mut self.on.requests);
        let state = &mut self.on.requests[slot];
        self.on.kv.register(state.owner(), state.computed + 1, &mut state.blocks);
        draft.tokens_left -= 1;
    }

    /// Drops a preempted request that has grown past the budget of a step where prompts
    /// are not cut: no step could ever admit it. (vLLM 0.6.1 ignores such a request, too.)
    #[inline(never)]
    pub(super) fn drop_candidate(&mut self, candidate: Candidate, draft: &StepDraft) {
        let slot = self.take_candidate(&candidate);
        if let Some(mut ranks) = self.ranks() {
            if matches!(candidate.place, Place::Arrival) {
                ranks.admit_arrival(slot, draft.now);
            }
            ranks.move_to(slot, List::Gone, draft.now);
        }
        self.drop_request(slot, draft.now);
    }

    /// Whether a stage that was left out because of a preemption in this step could admit
    /// a request at a coming step, before any request leaves.
    #[inline(never)]
    pub(in crate::instance) fn may_admit_later(&mut self, draft: &StepDraft) -> bool {
        if self.seats_taken(draft) >= self.on.settings.scheduler.max_num_seqs && self.on.ranking.is_none() {
            return false;
        }
        if self.on.transfers.offered() + self.on.transfers.received() > 0 {
            return true;
        }
        // The answer is exact only where it is often asked for: without a prefix cache, for
        // the first request of the queue.
        if !self.on.queues.swapped().is_empty() || self.on.kv.gpu().caches() {
            return true;
        }
        let displaces = matches!(self.on.settings.scheduler.admission, Admission::Displace { .. });
        let candidate = match &mut self.on.ranking {
            None => self.first_queued(),
            Some(ranking) => {
                let Some(best) = ranking.best_queued() else { return false };
                let worst = if displaces { ranking.worst_running() } else { None };
                if worst.is_some_and(|worst| Some(ranking.rank(worst)) > ranking.best_rank()) {
                    return true;
                }
                Some(self.candidate_by_rank(best))
            }
        };
        let Some(candidate) = candidate else { return false };
        // A whole prompt that has outgrown the budget is dropped at the next step.
        let rules = &self.on.settings.scheduler;
        if !rules.cuts_prompts() && candidate.lacking() > rules.max_num_batched_tokens {
            return true;
        }
        self.admission_offer(candidate, true, draft, &mut Vec::new()).blocks <= self.on.kv.free()
    }
}
