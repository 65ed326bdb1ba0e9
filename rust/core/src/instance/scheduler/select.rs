//! Selecting the requests of a step anew, by rank.
//!
//! Tokens and seats are given out in the order of ranks, whether requests run, wait or are swapped out. Then blocks are
//! made free for those selected: running requests that were left out are preempted, the worst first; if that is not
//! enough, the worst of those selected are dropped again. A request that is left out and not preempted keeps its memory.

use super::Stages;
use crate::instance::effects::{AdmissionOffer, Candidate, ChunkLoad};
use crate::instance::ranking::{List, RankKey};
use crate::instance::request::{Phase, Slot};
use crate::instance::{Instance, Part};

/// How a stage selects.
#[derive(Debug, Clone, Copy)]
pub(super) struct SelectRules {
    /// Whether the prompt of the last request may be cut.
    pub(super) chunked: bool,
    /// Whether decodes use up the budget.
    pub(super) charged: bool,
    /// Blocks that stay free, beside the watermark.
    pub(super) reserve_blocks: u64,
}

/// A request that is selected.
#[derive(Debug, Clone, Copy)]
struct Selected {
    slot: Slot,
    /// Tokens that it computes in the step.
    tokens: u64,
    /// Blocks that must be free for it.
    blocks: u64,
}

impl Stages<'_> {
    /// Selects the requests of the step, and schedules or admits them.
    #[inline(never)]
    pub(super) fn select(&mut self, rules: SelectRules) {
        self.effects.evaluate_running_ranks(self.draft.now);
        self.draft.held_back.selection.reserve =
            self.effects.settings.watermark(self.effects.batch.running()) + rules.reserve_blocks;
        self.draft.held_back.selection.passes_over = self.passes_prompts_over();
        let mut selected = self.select_by_rank(rules);
        self.make_room(&mut selected);
        self.leave_out_others(&selected);
        self.run_selected(&selected, rules);
    }

    /// Gives out tokens and seats in the order of ranks.
    fn select_by_rank(&mut self, rules: SelectRules) -> Vec<Selected> {
        let seats = self.effects.settings.scheduler.max_num_seqs as usize;
        let mut running =
            self.effects.ranking.as_ref().map_or_else(Vec::new, |ranking| ranking.running_worst_first());
        let mut taken = Vec::new();
        let mut selected = Vec::new();
        while selected.len() < seats && self.draft.tokens_left > 0 {
            let Some(slot) = self.next_by_rank(&mut running, &mut taken) else { break };
            let candidate = self.candidate_in(slot);
            if candidate.phase == Phase::Preempted {
                if !rules.chunked
                    && candidate.lacking() > self.effects.settings.scheduler.max_num_batched_tokens
                {
                    taken.retain(|&other| other != slot);
                    self.drop_queued(&candidate);
                    continue;
                }
                if self.draft.held_back.selection.passes_over {
                    continue;
                }
            }
            let Some(one) = self.tokens_by_rank(slot, candidate, rules.chunked) else { break };
            let decodes =
                matches!(Self::part_of(candidate), Part::Decode | Part::SwappedInDecode | Part::MigratedIn);
            if rules.charged || !decodes {
                self.draft.tokens_left -= one.tokens;
            }
            selected.push(one);
        }
        self.effects.put_back(taken);
        selected
    }

    /// The best request that was not looked at yet: of the running ones, which are `running` with the best last, or
    /// of the others, which are taken out of their order.
    fn next_by_rank(&mut self, running: &mut Vec<(RankKey, Slot)>, taken: &mut Vec<Slot>) -> Option<Slot> {
        let idle = self.effects.ranking.as_ref()?.best_idle();
        if let Some(&(rank, slot)) = running.last()
            && idle.is_none_or(|(other, _)| rank < other)
        {
            running.pop();
            return Some(slot);
        }
        let (_, slot) = idle?;
        self.effects.take_out_of_order(slot);
        taken.push(slot);
        Some(slot)
    }

    /// As which part of a step a request would run.
    fn part_of(candidate: Candidate) -> Part {
        match candidate.phase {
            Phase::Decoding | Phase::Stalled => Part::Decode,
            Phase::Prefilling => Part::Chunk,
            Phase::Swapped { decoding: true } => Part::SwappedInDecode,
            Phase::Swapped { decoding: false } => Part::SwappedInChunk,
            Phase::MigratedIn => Part::MigratedIn,
            _ => Part::Admitted,
        }
    }

    /// The tokens and blocks of a request, if the budget suffices for it.
    fn tokens_by_rank(&self, slot: Slot, candidate: Candidate, chunked: bool) -> Option<Selected> {
        let spare = self.effects.spare_blocks(1);
        if candidate.phase == Phase::Decoding {
            let grown = self.effects.batch.decode_set().needed_blocks(&self.effects.requests[slot]);
            return Some(Selected { slot, tokens: 1, blocks: grown.max(spare) });
        }
        let part = Self::part_of(candidate);
        let decodes = matches!(part, Part::Decode | Part::SwappedInDecode | Part::MigratedIn);
        let cuts = chunked && !decodes;
        let wanted = candidate.lacking().min(if cuts { self.draft.limits.chunk } else { u64::MAX });
        let tokens = if cuts { wanted.min(self.draft.tokens_left) } else { wanted };
        if tokens > self.draft.tokens_left {
            return None;
        }
        let filled = self.effects.settings.blocks_for(candidate.computed + tokens as u32);
        let held = candidate.blocks;
        let blocks = match part {
            Part::Decode | Part::Chunk => filled.saturating_sub(held).max(spare),
            Part::Admitted => {
                self.prompt_blocks(candidate.target, 0, tokens as u32, 0) - self.watermark_now()
            }
            _ => filled.max(held + spare),
        };
        Some(Selected { slot, tokens, blocks })
    }

    /// The watermark that [`Self::prompt_blocks`] includes.
    fn watermark_now(&self) -> u64 {
        self.effects.settings.watermark(self.effects.admitted())
    }

    /// Makes the blocks of the selected requests free. Drops from the end of `selected` those for which that fails.
    fn make_room(&mut self, selected: &mut Vec<Selected>) {
        let mut needed: u64 =
            self.draft.held_back.selection.reserve + selected.iter().map(|one| one.blocks).sum::<u64>();
        if needed <= self.effects.kv.free() {
            return;
        }
        for slot in self.left_out_by_rank(selected) {
            self.preempt(slot);
            if needed <= self.effects.kv.free() {
                return;
            }
        }
        while needed > self.effects.kv.free()
            && let Some(dropped) = selected.pop()
        {
            needed -= dropped.blocks;
            if self.effects.requests[dropped.slot].phase.is_admitted() {
                self.preempt(dropped.slot);
            }
        }
    }

    /// The running requests that are not selected, the worst first.
    fn left_out_by_rank(&self, selected: &[Selected]) -> Vec<Slot> {
        let Some(ranking) = &self.effects.ranking else { return Vec::new() };
        let mut chosen: Vec<Slot> = selected.iter().map(|one| one.slot).collect();
        chosen.sort_unstable();
        let running = self.effects.batch.order().current(&self.effects.requests);
        let mut others: Vec<Slot> = running.filter(|slot| chosen.binary_search(slot).is_err()).collect();
        others.sort_unstable_by_key(|&slot| std::cmp::Reverse(ranking.rank(slot)));
        others
    }

    /// Leaves the running requests out of the step that are not selected; they keep their memory.
    fn leave_out_others(&mut self, selected: &[Selected]) {
        let listed =
            |slot: Slot| self.effects.ranking.as_ref().map_or(List::Gone, |ranking| ranking.list(slot));
        let running = self.effects.ranking.as_ref().map_or(0, |ranking| ranking.running());
        let stay = selected.iter().filter(|one| listed(one.slot) == List::Running).count() as u64;
        if stay == running {
            return;
        }
        for slot in self.left_out_by_rank(selected) {
            if self.effects.ranking.as_ref().is_none_or(|ranking| ranking.list(slot) != List::Running) {
                continue;
            }
            self.effects.leave_out(slot, self.draft.now);
            self.draft.reseated = true;
        }
    }

    /// Schedules or admits the selected requests, whose blocks are free.
    fn run_selected(&mut self, selected: &[Selected], rules: SelectRules) {
        (self.draft.decoded, self.draft.charged) = (true, rules.charged);
        // The tokens have been given out.
        self.draft.tokens_left = u64::MAX;
        let blocks = self.effects.batch.decode_set().blocks_for_next();
        self.effects.allocate_for_decodes(blocks);
        for one in selected {
            let (slot, tokens) = (one.slot, one.tokens as u32);
            let candidate = self.candidate_in(slot);
            let part = Self::part_of(candidate);
            match part {
                Part::Decode if candidate.phase == Phase::Decoding => {}
                Part::Decode | Part::Chunk => {
                    self.schedule_chunk(slot, tokens, part);
                    if self
                        .effects
                        .ranking
                        .as_ref()
                        .is_some_and(|ranking| ranking.list(slot) == List::LeftOut)
                    {
                        self.effects.take_back(slot, self.draft.now);
                        self.draft.reseated = true;
                    }
                }
                _ => {
                    let offer = AdmissionOffer {
                        tokens: one.tokens,
                        blocks: one.blocks,
                        affordable: true,
                        part,
                        load: ChunkLoad::None,
                    };
                    self.admit_candidate(&candidate, &offer, &crate::kv::Hits::default());
                    self.draft.reseated = true;
                }
            }
        }
    }

    /// Whether prompts without KV are passed over, as the swap space is nearly full.
    pub(in crate::instance) fn passes_prompts_over(&self) -> bool {
        self.effects.kv.cpu().free() < self.effects.settings.scheduler.selection_reserves().1
    }
}

impl Instance {
    /// Blocks that `requests` with KV need at least, whether or not their tokens need one.
    pub(in crate::instance) fn spare_blocks(&self, requests: u64) -> u64 {
        if self.settings.scheduler.spare_block { requests } else { 0 }
    }

    /// Blocks that a selection leaves free while a request runs.
    pub(in crate::instance) fn selection_reserve(&self) -> u64 {
        let reserved = self.settings.scheduler.selection_reserves().0;
        self.settings.scheduler.watermark_blocks + reserved
    }
}
