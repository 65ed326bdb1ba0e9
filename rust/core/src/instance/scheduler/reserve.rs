//! Admissions that leave room for outputs to come.
//!
//! Source: `sglang` 0.5.23, `PrefillAdder` in `srt/managers/schedule_policy.py` and `PrefillBudget` in
//! `srt/mem_cache/prefill_budget.py`. A prefill takes its tokens in whole blocks, one block more, and, with the last of
//! its prompt, its output.

use super::Stages;
use crate::instance::Instance;
use crate::instance::effects::{Candidate, Place};
use crate::instance::request::{Phase, Slot};
use crate::instance::reserve::{Demand, OutputReserve};
use crate::kv::Hits;

impl Instance {
    /// The running requests that decode, in the order of admission; those that have ended and that the step which is formed
    /// counts as running included.
    pub(in crate::instance) fn decoding_in_order(&self) -> Vec<Slot> {
        let decodes = |slot: &Slot| {
            let phase = self.requests[*slot].phase;
            phase.decodes() || phase.has_ended()
        };
        self.batch.order().counted(&self.requests).filter(decodes).collect()
    }

    /// Tokens that a request has generated, as far as the step that is formed knows.
    pub(in crate::instance) fn seen_generated(&self, slot: Slot) -> u32 {
        let state = &self.requests[slot];
        let unseen = self.unseen_outcome(slot).yielded;
        if state.phase == Phase::Decoding {
            let decoded = self.unseen.as_ref().is_some_and(|unseen| unseen.has_decoded());
            return self.batch.decode_set().generated(state) - unseen.max(u32::from(decoded));
        }
        state.generated - unseen
    }
}

impl Stages<'_> {
    /// Admits requests again if one has left since an admission failed, if a prompt continues, or if none decodes. Notes the
    /// free blocks of the step that is opened, and the tokens of decodes that are taken before prefills.
    #[inline(never)]
    pub(super) fn open_reserve(&mut self) {
        if self.effects.reserve.as_deref().is_some_and(|reserve| !reserve.is_open()) {
            self.reopen();
        }
        self.draft.held_back.reserve.free = self.effects.kv.free();
        if self.effects.settings.scheduler.decodes_sit_out() {
            let decodes = self.effects.decoding_in_order().len() as u64;
            self.draft.held_back.reserve.taken = decodes;
            self.draft.tokens_left = self.draft.tokens_left.saturating_sub(decodes);
        }
    }

    /// Whether a prompt continues.
    pub(super) fn continues_prompts(&self) -> bool {
        let outside = self.effects.batch.outside();
        outside.iter().any(|&slot| self.effects.requests[slot].phase == Phase::Prefilling)
    }

    fn reopen(&mut self) {
        let reopens = self.continues_prompts() || self.outputs_to_come().1 == 0;
        let running = self.effects.admitted();
        if reopens || self.effects.reserve.as_deref().is_some_and(|reserve| reserve.runs_fewer(running)) {
            self.effects.open_admissions();
        }
    }

    /// Whether the queue is looked at: if requests may be admitted, or a prompt continues.
    pub(super) fn passes_queue(&self) -> bool {
        self.may_admit() || self.continues_prompts()
    }

    /// Whether the first queued request ends the admissions though no tokens are left, as nothing is left beside the reserve.
    pub(super) fn ends_admissions(&mut self) -> bool {
        if self.effects.reserve.is_none() {
            return false;
        }
        let demand = self.demand(0);
        self.effects.reserve.as_deref().is_some_and(|reserve| !reserve.has_left(demand))
    }

    /// Whether requests may be admitted: not between an admission that failed and one that leaves.
    pub(super) fn may_admit(&self) -> bool {
        self.effects.reserve.as_deref().is_none_or(OutputReserve::is_open)
    }

    /// Whether a candidate fits beside the outputs to come. If not, no other is tried. `hits`: cached blocks of it.
    pub(super) fn fits_reserve(&mut self, candidate: &Candidate, hits: &Hits) -> bool {
        let Some(reserve) = self.effects.reserve.as_deref() else { return true };
        let block = u64::from(self.effects.settings.block.tokens());
        let lacking = candidate.lacking() - u64::from(hits.len()) * block;
        let unheld = self.effects.kv.gpu().unheld(hits);
        let left = reserve.clip(self.output_left(candidate));
        let demand = self.demand(lacking + left + (1 + unheld) * block);
        let fits = self.effects.reserve.as_deref().is_none_or(|reserve| reserve.has_left(demand));
        if !fits {
            self.close();
        }
        fits
    }

    /// The output tokens that a candidate has left, as far as the step that is formed knows.
    fn output_left(&self, candidate: &Candidate) -> u32 {
        let output = self.effects.trace.output_tokens[candidate.request.index()];
        match candidate.place {
            Place::Slot(slot) => output - self.effects.seen_generated(slot),
            _ => output,
        }
    }

    /// Charges a request's tokens of the step. `unheld`: cached blocks of it that were held by no request, and blocks into which
    /// chunks of it are loaded.
    pub(super) fn charge_reserve(&mut self, slot: Slot, tokens: u32, unheld: u64) {
        let Some(reserve) = self.effects.reserve.as_deref() else { return };
        let settings = &self.effects.settings;
        let block = u64::from(settings.block.tokens());
        let state = &self.effects.requests[slot];
        let output = self.effects.trace.output_tokens[state.request.index()];
        let output = if tokens >= state.lacking() { reserve.clip(output) } else { 0 };
        let decodes = state.phase.decodes();
        self.draft.held_back.reserve.taken += (settings.token_blocks(tokens) + 1 + unheld) * block + output;
        if decodes {
            self.draft.held_back.reserve.to_come = None;
        }
    }

    /// As [`Self::charge_reserve`], of the request that was admitted last. Returns whether there is room for others; if not, no
    /// other is tried.
    pub(super) fn charge_last_admitted(&mut self, tokens: u32, unheld: u64) -> bool {
        if let Some(slot) = self.effects.batch.order().last() {
            self.charge_reserve(slot, tokens, unheld);
        }
        let ends = self.ends_admissions();
        if ends {
            self.close();
        }
        !ends
    }

    /// The most tokens of a prompt that continues; `None` if there is no limit.
    pub(super) fn chunk_room(&mut self) -> Option<u64> {
        self.effects.reserve.as_ref()?;
        let demand = self.demand(0);
        let left = self.effects.reserve.as_deref()?.left(demand);
        (left > 0).then_some(left)
    }

    /// Whether decodes leave the step to its prefills, as not all find blocks.
    pub(super) fn decodes_sit_out(&self) -> bool {
        self.effects.batch.runs_prefills(&self.effects.requests)
            && self.blocks_of_decodes() > self.effects.kv.free()
    }

    /// Whether no step of decodes is decided ahead, as not all find blocks and requests that have ended hold some: the step is
    /// decided once their blocks are free (`update_running_batch` in `srt/managers/scheduler.py`).
    pub(super) fn awaits_departures(&self) -> bool {
        self.effects.reserve.is_some()
            && !self.effects.settings.scheduler.unseen_ends
            && self.effects.queues.ahead().seats() > 0
            && self.blocks_of_decodes() > self.effects.kv.free()
    }

    /// Blocks that the next tokens of all decodes need.
    pub(super) fn blocks_of_decodes(&self) -> u64 {
        let requests = &self.effects.requests;
        let stalled =
            self.effects.batch.outside().iter().filter(|&&slot| requests[slot].phase == Phase::Stalled);
        let needed = |&slot: &Slot| {
            let state = &requests[slot];
            let after = state.computed + self.wanted(slot) as u32;
            self.effects.settings.blocks_with_lookahead(after, true).saturating_sub(state.blocks.count())
        };
        self.effects.batch.decode_set().blocks_for_next() + stalled.map(needed).sum::<u64>()
    }

    /// Ends a round of forming a step.
    #[inline(never)]
    pub(super) fn end_round_of_reserve(&mut self, decodes: bool) {
        let preempted = self.draft.has_preempted();
        self.effects.end_round_of_reserve(preempted);
        if preempted {
            self.effects.sort_rows();
        }
        let batch = &self.effects.batch;
        let ran = decodes && batch.decode_set().len() > 0 || batch.runs_lone_decodes(&self.effects.requests);
        if ran && batch.runs_prefills(&self.effects.requests) {
            self.effects.open_admissions();
        }
    }

    fn close(&mut self) {
        if self.outputs_to_come().1 > 0 {
            self.effects.close_admissions();
        }
    }

    /// The output tokens that running requests may still generate, and how many requests decode.
    fn outputs_to_come(&mut self) -> (u64, usize) {
        if let Some(known) = self.draft.held_back.reserve.to_come {
            return known;
        }
        let Some(reserve) = self.effects.reserve.as_deref() else { return (0, 0) };
        let decoding = self.effects.decoding_in_order();
        let left = |slot: &Slot| {
            let output = self.effects.trace.output_tokens[self.effects.requests[*slot].request.index()];
            reserve.clip(output - self.effects.seen_generated(*slot))
        };
        let known = (decoding.iter().map(left).sum(), decoding.len());
        self.draft.held_back.reserve.to_come = Some(known);
        known
    }

    /// The free tokens of the step, with `more` taken.
    fn demand(&mut self, more: u64) -> Demand {
        let block = u64::from(self.effects.settings.block.tokens());
        let to_come = self.outputs_to_come().0;
        let draft = &self.draft.held_back.reserve;
        Demand { free: draft.free * block, taken: draft.taken + more, to_come }
    }
}
