//! Admissions that begin with chunks of a tier, and how long a run lasts before its copies change anything.
//!
//! Follows the waiting loop of vLLM 0.33.0 with a KV connector (`vllm/v1/core/sched/scheduler.py`): the chunks after the
//! prefix that the GPU has are looked up, and a hit is loaded before the step, if that fits the step's budget, or the
//! request waits for it.

use super::Stages;
use super::joining::Joins;
use crate::config::Allocation;
use crate::hint::rare;
use crate::instance::Part;
use crate::instance::effects::{AdmissionOffer, AfterStep, Candidate, ChunkLoad, Place};
use crate::instance::request::{Phase, Slot};
use crate::instance::run::Run;
use crate::instance::tiers::ChunkTier;
use crate::time::Ticks;

impl Stages<'_> {
    /// The chunks that a tier has of a candidate after the `cached` tokens in the prefix cache.
    pub(super) fn look_up(&mut self, candidate: &Candidate, cached: u32) -> ChunkLoad {
        let tier = self.effects.tiers.chunks.as_deref();
        if tier.is_some_and(|tier| tier.awaits_reads(candidate.request)) {
            return ChunkLoad::Unknown;
        }
        if tier.is_some_and(ChunkTier::reads_on_lookup) {
            rare();
            // The store may have more by the next step: other instances and copies that end change it.
            self.draft.loads.looked_up = true;
            if self.effects.fetch(candidate, cached) {
                return ChunkLoad::Unknown;
            }
        }
        let Some(tier) = self.effects.tiers.chunks.as_deref() else { return ChunkLoad::None };
        let slot = match candidate.place {
            Place::Slot(slot) => Some(slot),
            Place::Front | Place::Arrival => None,
        };
        let tokens = candidate.target;
        match tier.look_up(slot, (candidate.owner, tokens, cached), self.effects.kv.gpu()) {
            None => ChunkLoad::Unknown,
            Some(0) => ChunkLoad::None,
            Some(loaded) => {
                let within = self.draft.loads.sync_tokens + u64::from(loaded) <= tier.sync_tokens();
                // One token at least is computed in the step.
                if tier.overlaps() || within && cached + loaded < tokens {
                    ChunkLoad::Before(loaded)
                } else {
                    ChunkLoad::Wait(loaded)
                }
            }
        }
    }

    /// The blocks that a load takes for which the candidate waits: no prefill under way will lack them.
    pub(super) fn offer_of_load(
        &self,
        candidate: &Candidate,
        (cached, unheld): (u32, u64),
        load: ChunkLoad,
    ) -> AdmissionOffer {
        let settings = &self.effects.settings;
        let all = match settings.scheduler.allocation {
            Allocation::Chunk => cached,
            _ => candidate.target,
        };
        let loaded = settings.blocks_for(cached + load.tokens());
        let drafts = settings.blocks_for(settings.drafts.slots());
        let most = settings.blocks_for(all).max(loaded + self.blocks_of_prefills() + drafts);
        let watermark = settings.watermark(self.effects.admitted());
        let blocks = most - settings.blocks_for(cached) + unheld + watermark;
        AdmissionOffer { tokens: 0, blocks, affordable: true, part: Part::Admitted, load }
    }

    /// Blocks that the prefills under way lack for all their tokens and the drafts after them, and the requests that wait
    /// for loads.
    fn blocks_of_prefills(&self) -> u64 {
        let slots = self.effects.settings.drafts.slots();
        let requests = &self.effects.requests;
        let loading = self.effects.tiers.chunks.as_deref().map_or(&[][..], |tier| tier.loading());
        let prefills =
            self.effects.batch.outside().iter().filter(|&&slot| requests[slot].phase == Phase::Prefilling);
        let lacking = prefills.chain(loading).map(|&slot| {
            let state = &requests[slot];
            self.effects.settings.blocks_for(state.target() + slots).saturating_sub(state.blocks.count())
        });
        lacking.sum()
    }

    /// The tokens and blocks that the admission of a request takes whose load has ended.
    pub(super) fn offer_of_loaded(&self, candidate: &Candidate, limit: u64) -> AdmissionOffer {
        let settings = &self.effects.settings;
        let padding = self.padding(candidate.target, candidate.computed);
        let wanted = (candidate.lacking() + padding).min(limit);
        let tokens = wanted.min(self.budget());
        // A padding is not cut.
        let affordable = padding == 0 || tokens == wanted;
        let blocks = self.prompt_blocks(candidate.target, 0, candidate.computed + tokens as u32, 0);
        let watermark = settings.watermark(self.effects.admitted());
        let blocks = (blocks - watermark).saturating_sub(candidate.blocks) + watermark;
        AdmissionOffer { tokens, blocks, affordable, part: Part::Admitted, load: ChunkLoad::None }
    }

    /// The first request, in the queue's order, whose load has ended. The step sees that of all before it.
    pub(super) fn first_loaded(&mut self) -> Option<Slot> {
        let tier = self.effects.tiers.chunks.as_deref()?;
        let requests = &self.effects.requests;
        let ready = tier.loading().iter().copied().filter(|&slot| tier.is_loaded(slot));
        let slot = if self.effects.queues.waiting().is_by_priority() {
            let request = |slot: Slot| requests[slot].request;
            ready.min_by_key(|&slot| (self.effects.trace.priority_of(request(slot).index()), request(slot)))
        } else {
            { ready }.next()
        }?;
        if tier.is_new(slot) {
            self.effects.promote(slot);
        }
        Some(slot)
    }

    /// Ends a step that computes no tokens in the tier, if there is one. Returns whether another step follows at once.
    pub(super) fn passes_step(&mut self) -> bool {
        if self.effects.tiers.chunks.is_none() {
            return self.await_copies();
        }
        rare();
        let (next, waits) = match self.effects.pass_tier_step(&self.draft.preempted, self.draft.now) {
            AfterStep::Step => return true,
            AfterStep::Rest(next) => (next, false),
            AfterStep::Wait(ends) => (Some(ends), true),
        };
        self.draft.loads.waits = waits;
        self.draft.retry_at = [next, self.draft.retry_at].into_iter().flatten().min();
        false
    }

    /// Whether a candidate may be admitted, or begin to load, before those behind it. `hit`: tokens of it that are cached.
    pub(super) fn may_join(&mut self, candidate: Candidate, offer: &AdmissionOffer, hit: u32) -> Joins {
        match offer.load {
            ChunkLoad::None => {}
            ChunkLoad::Before(tokens) => self.draft.loads.sync_tokens += u64::from(tokens),
            ChunkLoad::Wait(_) => self.draft.loads.looked_up = true,
            ChunkLoad::Unknown => {
                self.draft.loads.looked_up = true;
                self.effects.put_off(candidate.request);
                return Joins::Later;
            }
        }
        if self.effects.settings.limits.prompts { self.joins(candidate, hit) } else { Joins::Yes }
    }

    /// For how many steps of a run its copies change nothing: up to the step that learns of the end of one, and before the
    /// one that stores a chunk, reuses a block that is still to be copied, or may decide otherwise on a load.
    pub(super) fn steps_before_copies_matter(&self, run: &Run) -> u64 {
        let Some(tier) = self.effects.tiers.chunks.as_deref() else { return run.steps };
        if self.draft.loads.looked_up || tier.is_behind() || tier.has_news() {
            return 1;
        }
        let set = self.effects.batch.decode_set();
        let mut steps = run.steps;
        if tier.has_fences() {
            steps = steps.min(set.steps_covered(set.blocks_for_next(), steps));
        }
        if tier.stores_lost_blocks() {
            let unlost = self.effects.kv.gpu().free_without_content();
            steps = steps.min(set.steps_covered(set.blocks_for_next() + unlost, steps));
        }
        let begins = tier.begins(run.start);
        let looks = tier.looks_ahead(begins);
        if !tier.stores_no_decodes() && looks.is_some() {
            steps = steps.min(set.steps_covered(set.blocks_for_next(), steps));
        } else if !tier.stores_no_decodes() {
            // A block is full one step before its request needs the next.
            steps = steps.min(set.steps_covered(set.blocks_for(2), steps + 1) - 1);
        }
        match tier.next_end() {
            None => steps,
            Some(end) if tier.polls_at_end() => steps.min(run.steps_to_reach(end)),
            Some(end) => steps.min(steps_to_learn(run, end, looks)),
        }
    }
}

/// The first step of a run that learns of the end of a copy: each looks for it as its forward pass begins. `looks`: when the
/// first step looks for it, where each other one does as the forward pass of the step before it begins.
fn steps_to_learn(run: &Run, end: Ticks, looks: Option<Ticks>) -> u64 {
    if looks.is_some_and(|looks| looks >= end) {
        return 1;
    }
    let behind = u64::from(looks.is_some());
    if run.start + run.copying >= end { 1 + behind } else { run.steps_to_reach(end) + 1 + behind }
}
