//! Resuming running requests.
//!
//! Tokens and blocks are given out in the order of admission. If they suffice for all
//! requests, the order cannot matter, and the decode set resumes as one. If not, the
//! requests are visited one by one. Without leaping they are visited at every step,
//! which the short cut is tested against.

use super::StepDraft;
use crate::config::Victim;
use crate::hint::rare;
use crate::instance::Part;
use crate::instance::batch::Chunk;
use crate::instance::effects::Effects;
use crate::instance::request::{Phase, Slot};

/// Which running requests resume, and at whose cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResumeRules {
    /// Whether prefills resume too.
    pub(super) prefills: bool,
    /// Whether prefills can be preempted.
    pub(super) preempts_prefills: bool,
    /// Whether decodes use up the budget.
    pub(super) charged: bool,
    /// The most requests that resume.
    pub(super) limit: u64,
}

impl Effects<'_> {
    /// Resumes running requests as far as tokens and blocks suffice.
    pub(super) fn resume_running(&mut self, rules: ResumeRules, draft: &mut StepDraft) {
        if !self.on.settings.leap || !self.resume_all(rules, draft) {
            rare();
            self.resume_in_order(rules, draft);
        }
        (draft.decoded, draft.charged) = (true, rules.charged);
    }

    /// Resumes all requests at once, if the order does not matter. Returns whether it
    /// did.
    fn resume_all(&mut self, rules: ResumeRules, draft: &mut StepDraft) -> bool {
        let decodes = self.on.batch.decode_set().len();
        if decodes > rules.limit || (rules.charged && decodes > draft.tokens_left) {
            return false;
        }
        if rules.prefills && !self.on.batch.outside().is_empty() {
            rare();
            return self.on.batch.chunks().is_empty() && self.resume_with_prefills(draft);
        }
        if self.on.batch.outside().iter().any(|&slot| self.on.requests[slot].phase == Phase::Stalled) {
            return false;
        }
        let spare = u64::from(self.on.settings.scheduler.spare_block && decodes > 0);
        if self.on.batch.decode_set().blocks_for_next() + spare > self.on.kv.free()
            && (spare > 0 || !self.preempts_in_order() || !self.on.batch.outside().is_empty())
        {
            return false;
        }
        self.preempt_for_decodes(draft);
        self.on.kv.allocate_unassigned(self.on.batch.decode_set().blocks_for_next());
        if rules.charged {
            draft.tokens_left -= self.on.batch.decode_set().len();
        }
        true
    }

    /// Whether preempting the worst members of the decode set until the rest has its
    /// blocks is the same as visiting the requests one by one.
    fn preempts_in_order(&self) -> bool {
        let rules = &self.on.settings.scheduler;
        if self.on.ranking.is_none() {
            return rules.victim == Victim::Latest;
        }
        // The worst request is not always the last: the requests behind it may not resume
        // in this step, and its tokens may be lost to the budget.
        !rules.stop_at_own_preemption && rules.refund
    }

    /// Preempts members of the decode set until the rest has its blocks: the worst, or
    /// the last admitted.
    fn preempt_for_decodes(&mut self, draft: &mut StepDraft) {
        if self.on.batch.decode_set().blocks_for_next() <= self.on.kv.free() {
            return;
        }
        rare();
        if let Some(mut ranks) = self.ranks() {
            ranks.evaluate_deferred(draft.now);
        }
        while self.on.batch.decode_set().blocks_for_next() > self.on.kv.free() {
            let victim = match &mut self.on.ranking {
                Some(ranking) => ranking.worst_running(),
                None => self.on.batch.order_mut().pop_current(&self.on.requests),
            };
            let Some(slot) = victim else { break };
            self.preempt(slot, draft);
        }
    }

    /// Schedules decodes and prefills at once, if tokens and blocks suffice in any order.
    fn resume_with_prefills(&mut self, draft: &mut StepDraft) -> bool {
        let set = self.on.batch.decode_set();
        let mut left = draft.tokens_left - set.len();
        let mut blocks = set.blocks_for_next() + u64::from(self.on.settings.scheduler.spare_block);
        let outside = self.on.batch.outside();
        for (i, &slot) in outside.iter().enumerate() {
            let state = &self.on.requests[slot];
            let wanted = u64::from(state.lacking()).min(draft.chunk_limit);
            // Only the very last request in the order may have its chunk cut by the budget.
            let last = i + 1 == outside.len() && self.on.batch.order().is_last(slot, &self.on.requests);
            let tokens = if wanted > left && last { left } else { wanted };
            if tokens > left || tokens == 0 {
                return false;
            }
            left -= tokens;
            let grown = self.on.settings.blocks_for(state.computed + tokens as u32);
            blocks += grown.saturating_sub(state.blocks.count());
        }
        if blocks > self.on.kv.free() {
            return false;
        }
        self.on.kv.allocate_unassigned(self.on.batch.decode_set().blocks_for_next());
        draft.tokens_left -= self.on.batch.decode_set().len();
        for i in 0..self.on.batch.outside().len() {
            let slot = self.on.batch.outside()[i];
            let state = &self.on.requests[slot];
            let wanted = u64::from(state.lacking()).min(draft.chunk_limit);
            let tokens = wanted.min(draft.tokens_left) as u32;
            let part = if state.phase == Phase::Stalled { Part::Decode } else { Part::Chunk };
            self.schedule_chunk(slot, tokens, part, draft);
        }
        true
    }

    /// Prefills under way take what is left of the budget, in order.
    #[inline(never)]
    pub(super) fn continue_prefills(&mut self, draft: &mut StepDraft) {
        for i in 0..self.on.batch.outside().len() {
            let slot = self.on.batch.outside()[i];
            let state = &self.on.requests[slot];
            let wanted = u64::from(state.lacking()).min(draft.chunk_limit);
            let tokens = wanted.min(draft.tokens_left) as u32;
            if tokens == 0 {
                break;
            }
            if state.phase != Phase::Prefilling || self.on.batch.has_chunk(slot) {
                continue;
            }
            // No request is preempted for a prefill: it waits until blocks are free.
            let grown = self.on.settings.blocks_for(state.computed + tokens);
            if grown.saturating_sub(state.blocks.count()) > self.on.kv.free() {
                break;
            }
            self.schedule_chunk(slot, tokens, Part::Chunk, draft);
        }
    }

    /// Visits the running requests in the order of admission, and preempts where blocks
    /// are lacking.
    #[inline(never)]
    fn resume_in_order(&mut self, rules: ResumeRules, draft: &mut StepDraft) {
        if let Some(mut ranks) = self.ranks() {
            ranks.evaluate_deferred(draft.now);
        }
        self.on.batch.order_mut().compact(&self.on.requests);
        // Requests that earlier stages admitted have their tokens.
        let earlier: Vec<Slot> = self.on.batch.chunks().iter().map(|chunk| chunk.slot).collect();
        let skipped = |slot: Slot, phase: Phase| {
            phase == Phase::Prefilling && !rules.prefills || earlier.contains(&slot)
        };
        let mut resumed = 0;
        let mut i = 0;
        'requests: while i < self.on.batch.order().len() && resumed < rules.limit {
            if draft.tokens_left == 0 && (rules.charged || rules.prefills) {
                break;
            }
            let slot = self.on.batch.order().slot(i);
            let state = &self.on.requests[slot];
            let phase = state.phase;
            if skipped(slot, phase) {
                i += 1;
                continue;
            }
            let (tokens, blocks) = if phase == Phase::Decoding {
                (1, u64::from(self.on.batch.decode_set().needs_block(state)))
            } else {
                let wanted = u64::from(state.lacking()).min(draft.chunk_limit);
                let tokens = wanted.min(draft.tokens_left.max(1)) as u32;
                let grown = self.on.settings.blocks_for(state.computed + tokens);
                (tokens, grown.saturating_sub(state.blocks.count()))
            };
            while blocks.max(u64::from(self.on.settings.scheduler.spare_block)) > self.on.kv.free() {
                let Some(victim) = self.choose_victim(rules.preempts_prefills) else {
                    break 'requests;
                };
                let other = self.on.batch.order().slot(victim);
                let counted = !skipped(other, self.on.requests[other].phase);
                self.preempt_at(victim, i, rules.charged, draft);
                if victim < i {
                    i -= 1;
                    resumed -= u64::from(counted);
                }
                if other == slot {
                    if self.on.settings.scheduler.stop_at_own_preemption {
                        break 'requests;
                    }
                    continue 'requests;
                }
            }
            if phase == Phase::Decoding {
                self.on.kv.allocate_unassigned(blocks);
                draft.tokens_left -= u64::from(rules.charged);
            } else {
                let left = draft.tokens_left;
                let part = if phase == Phase::Stalled { Part::Decode } else { Part::Chunk };
                self.schedule_chunk(slot, tokens, part, draft);
                if !rules.charged && phase == Phase::Stalled {
                    draft.tokens_left = left;
                }
            }
            resumed += 1;
            i += 1;
        }
        self.stall_from(i, draft);
    }

    /// Moves members of the decode set that were not reached, from the `from`th request
    /// on, out of it: the set has the requests that run at every step.
    fn stall_from(&mut self, from: usize, draft: &StepDraft) {
        for i in from..self.on.batch.order().len() {
            let slot = self.on.batch.order().slot(i);
            if self.on.requests[slot].phase == Phase::Decoding {
                self.set_aside(slot, draft.now);
                self.assign_blocks(slot);
                self.on.batch.keep_outside(slot, &self.on.requests);
            }
        }
    }

    /// Has a running request outside the decode set compute `tokens` in this step, whose
    /// blocks are free.
    pub(super) fn schedule_chunk(&mut self, slot: Slot, tokens: u32, part: Part, draft: &mut StepDraft) {
        let all = part == Part::Admitted && self.on.settings.allocates_sequence();
        let state = &mut self.on.requests[slot];
        let after = state.computed + tokens;
        let allocated = if all { state.target() } else { after };
        self.on.kv.grow(self.on.settings.blocks_for(allocated), &mut state.blocks);
        self.on.kv.register(state.owner(), after, &mut state.blocks);
        draft.tokens_left = draft.tokens_left.saturating_sub(u64::from(tokens));
        self.on.batch.schedule(Chunk { slot, tokens, part });
    }
}
