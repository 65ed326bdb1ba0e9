//! Resuming running requests.
//!
//! Tokens and blocks are given out in the order of admission. If they suffice for all
//! requests, the order cannot matter, and the decode set resumes as one. If not, the
//! requests are visited one by one. Without leaping they are visited at every step,
//! which the short cut is tested against.

use super::Stages;
use crate::config::Victim;
use crate::hint::rare;
use crate::instance::Part;
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

impl Stages<'_> {
    /// Resumes running requests as far as tokens and blocks suffice.
    pub(super) fn resume_running(&mut self, rules: ResumeRules) {
        // Drafts of a step decided ahead depend on outcomes that it does not know, request by request.
        let unlike = self.effects.unseen.is_some() && self.effects.speculator.is_some();
        // The next decision may drop tokens of this step, request by request.
        let drops = self.effects.settings.scheduler.drop_unseen;
        let apart = drops && (self.may_preempt_next() || self.accepts_tightly());
        if !self.effects.settings.leap || unlike || apart || !self.resume_all(rules) {
            rare();
            self.resume_in_order(rules, apart);
        }
        (self.draft.decoded, self.draft.charged) = (true, rules.charged);
    }

    /// Resumes all requests at once, if the order does not matter. Returns whether it
    /// did.
    fn resume_all(&mut self, rules: ResumeRules) -> bool {
        let set = self.effects.batch.decode_set();
        let decodes = set.len();
        if decodes > rules.limit
            || (decodes > 0 && set.width() > self.draft.limits.chunk.min(self.budget().max(1)))
            || (rules.charged && self.effects.charge_of_decodes() > self.draft.tokens_left)
        {
            return false;
        }
        if rules.prefills && !self.effects.batch.outside().is_empty() {
            rare();
            return self.effects.batch.chunks().is_empty() && self.resume_with_prefills();
        }
        if self
            .effects
            .batch
            .outside()
            .iter()
            .any(|&slot| self.effects.requests[slot].phase == Phase::Stalled)
        {
            return false;
        }
        let spare = u64::from(self.effects.settings.scheduler.spare_block && decodes > 0);
        // A request that has ended may be the victim, or run once more.
        let ended = self.effects.queues.ahead().seats() > 0;
        if ended && self.effects.settings.scheduler.unseen_ends {
            return false;
        }
        if self.effects.batch.decode_set().blocks_for_next() + spare > self.effects.kv.free()
            && (spare > 0 || ended || !self.preempts_in_order() || !self.effects.batch.outside().is_empty())
        {
            return false;
        }
        self.preempt_for_decodes();
        let blocks = self.effects.batch.decode_set().blocks_for_next();
        self.effects.allocate_for_decodes(blocks);
        self.draft.held_back.reserve.grown = blocks;
        if rules.charged {
            self.draft.tokens_left -= self.effects.charge_of_decodes();
        }
        true
    }

    /// Whether preempting the worst members of the decode set until the rest has its
    /// blocks is the same as visiting the requests one by one.
    fn preempts_in_order(&self) -> bool {
        let rules = &self.effects.settings.scheduler;
        if self.effects.kv.gpu().takes_freed_first() {
            // A request before the victim may get a block of it, and leave one of those that were free.
            return false;
        }
        if self.effects.tiers.chunks.is_some() && self.effects.unseen.is_some() {
            // Blocks of a victim may not be free before the step in flight has ended.
            return false;
        }
        if self.effects.ranking.is_none() {
            return rules.victim == Victim::Latest;
        }
        // The worst request is not always the last: the requests behind it may not resume
        // in this step, and its tokens may be lost to the budget.
        !rules.stop_at_own_preemption && rules.refund
    }

    /// Preempts members of the decode set until the rest has its blocks: the worst, or
    /// the last admitted.
    fn preempt_for_decodes(&mut self) {
        if self.effects.batch.decode_set().blocks_for_next() <= self.effects.kv.free() {
            return;
        }
        rare();
        self.effects.evaluate_running_ranks(self.draft.now);
        while self.effects.batch.decode_set().blocks_for_next() > self.effects.kv.free() {
            self.effects.evict_unheld();
            let victim = self.effects.next_victim();
            let Some(slot) = victim else { break };
            self.preempt(slot);
            self.make_room_for_decodes(0);
        }
    }

    /// Schedules decodes and prefills at once, if tokens and blocks suffice in any order.
    fn resume_with_prefills(&mut self) -> bool {
        let set = self.effects.batch.decode_set();
        let mut left = self.draft.tokens_left - self.effects.charge_of_decodes();
        let slots = self.effects.settings.drafts.input_slots();
        let mut blocks = set.blocks_for_next() + u64::from(self.effects.settings.scheduler.spare_block);
        let outside = self.effects.batch.outside();
        for (i, &slot) in outside.iter().enumerate() {
            let state = &self.effects.requests[slot];
            let (wanted, room) = (self.wanted(slot), left.saturating_sub(slots));
            // Only the very last request in the order may have its chunk cut by the budget.
            let last =
                i + 1 == outside.len() && self.effects.batch.order().is_last(slot, &self.effects.requests);
            let tokens = if last { self.cut(wanted, room) } else { wanted };
            if tokens > room || tokens == 0 {
                return false;
            }
            left -= tokens + slots;
            let decodes = state.phase == Phase::Stalled;
            let grown = self.effects.settings.blocks_with_lookahead(state.computed + tokens as u32, decodes);
            blocks += grown.saturating_sub(state.blocks.count());
        }
        if blocks > self.effects.kv.free() {
            return false;
        }
        let blocks = self.effects.batch.decode_set().blocks_for_next();
        self.effects.allocate_for_decodes(blocks);
        self.draft.tokens_left -= self.effects.charge_of_decodes();
        for i in 0..self.effects.batch.outside().len() {
            let slot = self.effects.batch.outside()[i];
            let state = &self.effects.requests[slot];
            let tokens = self.cut(self.wanted(slot), self.budget()) as u32;
            let part = if state.phase == Phase::Stalled { Part::Decode } else { Part::Chunk };
            self.schedule_chunk(slot, tokens, part);
        }
        true
    }

    /// Prefills under way take what is left of the budget, in order.
    #[inline(never)]
    pub(super) fn continue_prefills(&mut self) {
        for i in 0..self.effects.batch.outside().len() {
            let slot = self.effects.batch.outside()[i];
            let state = &self.effects.requests[slot];
            let wanted = self.wanted(slot);
            if wanted == 0 {
                // A batch that is under way computes its last tokens.
                rare();
                continue;
            }
            if self.budget() == 0 {
                break;
            }
            let tokens = self.cut(wanted, self.budget());
            if state.phase != Phase::Prefilling || self.effects.batch.has_chunk(slot) {
                continue;
            }
            let reserves = self.effects.reserve.is_some();
            let most = if reserves { self.chunk_room().unwrap_or(u64::MAX) } else { u64::MAX };
            let tokens = self.cut(tokens, most) as u32;
            if tokens == 0 {
                rare();
                continue;
            }
            let state = &self.effects.requests[slot];
            // No request is preempted for a prefill: it waits until blocks are free.
            let grown = self.effects.settings.blocks_with_lookahead(state.computed + tokens, false);
            if grown.saturating_sub(state.blocks.count()) > self.effects.kv.free() {
                break;
            }
            self.schedule_chunk(slot, tokens, Part::Chunk);
            if reserves {
                self.charge_reserve(slot, tokens, 0);
            }
        }
    }

    /// Visits the running requests in the order of admission, and preempts where blocks
    /// are lacking. `apart`: none as a member of the decode set.
    #[inline(never)]
    fn resume_in_order(&mut self, rules: ResumeRules, apart: bool) {
        self.effects.evaluate_running_ranks(self.draft.now);
        self.effects.compact_order();
        if self.effects.speculator.is_some() || apart {
            // A member computes all its drafts; here, each request computes as many as fit.
            self.stall_from(0);
        }
        // Requests that earlier stages admitted have their tokens.
        let earlier: Vec<Slot> = self.effects.batch.chunks().iter().map(|chunk| chunk.slot).collect();
        let skipped = |slot: Slot, phase: Phase| {
            phase == Phase::Prefilling && !rules.prefills || earlier.contains(&slot)
        };
        let mut resumed = 0;
        let mut i = 0;
        let mut grown = self.grown_blocks();
        'requests: while i < self.effects.batch.order().len() && resumed < rules.limit {
            if self.budget() == 0 && (rules.charged || rules.prefills) {
                break;
            }
            let slot = self.effects.batch.order().slot(i);
            let state = &self.effects.requests[slot];
            let phase = state.phase;
            if skipped(slot, phase) {
                i += 1;
                continue;
            }
            let (tokens, blocks) = if phase == Phase::Decoding {
                (1, self.effects.batch.decode_set().needed_blocks(state))
            } else {
                let wanted = self.wanted(slot);
                if wanted == 0 {
                    rare();
                    i += 1;
                    continue;
                }
                let tokens = self.cut(wanted, self.budget().max(1)) as u32;
                if tokens == 0 {
                    rare();
                    i += 1;
                    continue;
                }
                let given_up = self.effects.unseen_outcome(slot).given_up;
                let after = state.computed + given_up + tokens;
                let decodes = phase != Phase::Prefilling;
                let grown = self.effects.settings.blocks_with_lookahead(after, decodes);
                (tokens, grown.saturating_sub(state.blocks.count()))
            };
            while blocks.max(u64::from(self.effects.settings.scheduler.spare_block)) > self.effects.kv.free()
            {
                self.effects.evict_unheld();
                let Some(victim) = self.choose_victim(rules.preempts_prefills) else {
                    break 'requests;
                };
                let other = self.effects.batch.order().slot(victim);
                if self.effects.is_written(other) {
                    rare();
                    break 'requests;
                }
                let phase = self.effects.requests[other].phase;
                let counted = !phase.has_ended() && !skipped(other, phase);
                self.preempt_at(victim, i, rules.charged);
                if victim < i {
                    i -= 1;
                    resumed -= u64::from(counted);
                }
                grown.remove(victim);
                self.make_room_for_decodes(grown.total());
                if other == slot {
                    if self.effects.settings.scheduler.stop_at_own_preemption {
                        break 'requests;
                    }
                    continue 'requests;
                }
            }
            grown.add(i, if phase == Phase::Prefilling { 0 } else { blocks });
            if phase == Phase::Decoding {
                self.effects.allocate_for_decodes(blocks);
                self.draft.tokens_left -= u64::from(rules.charged);
            } else {
                let left = self.draft.tokens_left;
                let decodes = matches!(phase, Phase::Stalled | Phase::Ended { .. });
                let part = if decodes { Part::Decode } else { Part::Chunk };
                self.schedule_chunk(slot, tokens, part);
                if !rules.charged && phase == Phase::Stalled {
                    self.draft.tokens_left = left;
                }
            }
            resumed += 1;
            i += 1;
        }
        self.draft.held_back.reserve.grown = grown.total();
        self.stall_from(i);
    }

    /// Whether the step after the one that is formed may have to preempt decodes for others: blocks for two further tokens of
    /// each may not be free.
    #[inline(never)]
    fn may_preempt_next(&self) -> bool {
        let (batch, requests) = (&self.effects.batch, &self.effects.requests);
        let outside = |&slot: &Slot| {
            let stalled = requests[slot].phase == Phase::Stalled;
            if stalled { 2 } else { u64::from(batch.has_chunk(slot)) }
        };
        let outside: u64 = batch.outside().iter().map(outside).sum();
        let past_end = self.effects.settings.scheduler.unseen_ends;
        let outside = outside + if past_end { self.effects.queues.ahead().seats() } else { 0 };
        let received = if self.effects.resumes_as_accepted() { self.effects.transfers.received() } else { 0 };
        let outside = outside + received;
        batch.decode_set().blocks_for(2) + outside > self.effects.kv.free()
    }

    /// Moves members of the decode set that were not reached, from the `from`th request
    /// on, out of it: the set has the requests that run at every step.
    fn stall_from(&mut self, from: usize) {
        for i in from..self.effects.batch.order().len() {
            let slot = self.effects.batch.order().slot(i);
            if self.effects.requests[slot].phase == Phase::Decoding {
                self.effects.stall(slot, self.draft.now);
            }
        }
    }

    /// Has a running request outside the decode set compute `tokens` in this step, whose
    /// blocks are free.
    pub(super) fn schedule_chunk(&mut self, slot: Slot, tokens: u32, part: Part) {
        self.effects.schedule(slot, tokens, part);
        self.charge_part(u64::from(tokens), part);
    }
}
