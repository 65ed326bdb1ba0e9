//! Prompts that wait until enough of them have gathered, while requests decode.
//!
//! They wait for other prompts of their instance, or for those of the instances that step together with it.
//!
//! Source: TensorRT-LLM 1.2, `_waiting_requests` and `_balance_adp_requests` of `PyExecutor` in `tensorrt_llm/_torch/pyexecutor/py_executor.py`. Its
//! scheduler selects the prompts that fit, and drops them from the step again.

use super::Stages;
use crate::config::{Allocation, PromptBatch};
use crate::hint::rare;
use crate::instance::effects::{Candidate, Effects, Place};
use crate::time::Ticks;

/// The work of an instance that those which step together with it know before a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prospect {
    /// Whether it has a prompt that fits beside the running requests.
    pub(crate) prompts: bool,
    /// Whether it runs requests. Without any requests it takes part with one token, and counts as if it did.
    pub(crate) decodes: bool,
}

impl Effects<'_> {
    /// The prospect of a step that is formed at `now`, by the blocks that are free before its decodes take theirs. Requests
    /// whose KV has been received run like those that do; those that are offered have no part in it.
    pub(crate) fn prospect(&mut self, now: Ticks) -> Prospect {
        self.receive_arrivals(now);
        let received = self.transfers.received();
        let running = self.admitted() + received;
        Prospect {
            prompts: Stages::new(self.again(), now).has_prompt_beside(running, received),
            decodes: running > 0 || self.queues.len() == 0,
        }
    }
}

impl Stages<'_> {
    /// Whether a queued prompt fits beside so many decodes, `received` of which take no seat yet.
    fn has_prompt_beside(&mut self, decodes: u64, received: u64) -> bool {
        self.open_draft();
        self.draft.tokens_left = self.draft.limits.tokens.saturating_sub(decodes);
        self.tokens_of_fitting_prompts(received) > 0
    }
}

impl Stages<'_> {
    /// Whether the stage that admits is left out, as the prompts that this step could admit are held back. A step without
    /// decodes holds none back. For other instances, prompts alone are held back, and not requests whose KV has been received.
    pub(super) fn holds_prompts(&mut self) -> bool {
        if self.effects.queues.held_together() {
            rare();
            let decodes = self.draft.tokens_left < self.draft.limits.tokens;
            self.draft.held_back.together = decodes || self.effects.transfers.received() > 0;
            return false;
        }
        let Some(rule) = self.effects.settings.scheduler.prompt_batch else { return false };
        self.is_held(rule)
    }

    #[inline(never)]
    fn is_held(&mut self, rule: PromptBatch) -> bool {
        let decodes = self.draft.limits.tokens - self.draft.tokens_left;
        if decodes == 0 {
            return false;
        }
        let prompts = self.tokens_of_fitting_prompts(0);
        if prompts == 0 {
            return false;
        }
        let held = decodes + prompts < rule.tokens && self.effects.queues.steps_held() < rule.steps;
        self.effects.note_prompts_held(held);
        self.draft.held_back.prompts = held;
        held
    }

    /// The tokens of the prompts that the step that is formed would admit beside `received` requests.
    fn tokens_of_fitting_prompts(&mut self, received: u64) -> u64 {
        let most = self.effects.settings.scheduler.max_num_seqs;
        let (mut tokens, mut blocks, mut seats) = (0, 0, self.seats_taken() + received);
        let queued: Vec<_> = self.effects.queues.waiting().by_arrival().take(most as usize).collect();
        for queued in queued {
            let candidate = match queued.slot {
                Some(slot) => self.candidate_in(slot),
                None => Candidate::new(queued.request, Place::Front, self.effects.trace),
            };
            if self.has_outgrown_budget(candidate) {
                continue;
            }
            let lacking = candidate.lacking();
            if seats >= most || tokens + lacking > self.budget() {
                break;
            }
            let needed = self.prompt_blocks(candidate.target, 0, candidate.target, 0)
                + self.blocks_to_come(&candidate, candidate.target);
            if blocks + needed > self.effects.kv.free() {
                break;
            }
            tokens += lacking;
            seats += 1;
            blocks += self.blocks_claimed(&candidate);
        }
        tokens
    }

    /// Blocks that the admission of a candidate leaves fewer for those behind it.
    fn blocks_claimed(&self, candidate: &Candidate) -> u64 {
        let taken = self.effects.settings.blocks_for(candidate.target);
        match self.effects.settings.scheduler.allocation {
            Allocation::ChunkIfOutputFits => taken.max(self.blocks_at_end(candidate.request)),
            _ => taken,
        }
    }
}
