//! Speculative decoding: the drafts of the requests of an instance.
//!
//! A request that has yielded a token has drafts proposed. Its next step computes them with its last token, and verifies
//! them: the accepted ones, and one token more, are yielded; the KV of the others is given up, and its slots stay with the
//! request. Where the number of tokens that a step yields depends on more than the request, the request runs outside the
//! decode set, by a chunk. Follows `Scheduler.schedule` and `update_from_output` in `vllm/v1/core/sched/scheduler.py` of
//! vLLM 0.33.0.
//!
//! The module does not model what the drafts say: a proposal is a number of tokens.

mod acceptance;
mod drafting;
mod rises;
mod settings;

use std::sync::Arc;

use acceptance::Verifier;
pub(in crate::instance) use settings::DraftSettings;

use super::batch::{Cycle, Periodic};
use super::request::{RequestState, Slot};
use crate::config::{DraftAcceptance, SpeculationConfig};

/// The proposals of an instance's requests, and which are accepted.
#[derive(Debug)]
pub(in crate::instance) struct Speculator {
    config: Arc<SpeculationConfig>,
    verifier: Verifier,
    /// Drafts that are proposed, by slot.
    proposals: Vec<u32>,
}

crate::checkpoint::checkpointed!(Speculator {
    values: proposals;
    fixed: config, verifier;
});

/// The outcome of the drafts of a step, and of the token after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::instance) struct Verified {
    /// Drafts that are accepted.
    pub(in crate::instance) accepted: u32,
    /// Tokens that are yielded: not those past the request's last one.
    pub(in crate::instance) yielded: u32,
    /// Of these, the tokens with KV beside the first.
    pub(in crate::instance) written: u32,
}

impl Speculator {
    pub(in crate::instance) fn new(config: Arc<SpeculationConfig>) -> Self {
        let verifier = Verifier::new(&config.acceptance);
        Self { config, verifier, proposals: Vec::new() }
    }

    /// The steps of requests all of whose drafts are proposed and verified, if these yield tokens in turn that no batch
    /// changes.
    pub(in crate::instance) fn periodic(&self) -> Option<Periodic> {
        let SpeculationConfig { tokens, .. } = *self.config;
        let DraftAcceptance::Periodic { yields } = &self.config.acceptance else { return None };
        let width = tokens + 1;
        let steady = self.config.by_batch.is_empty()
            && self.config.proposals.is_none()
            && yields.iter().all(|&yielded| yielded <= width)
            && yields.len() <= usize::from(Cycle::MAX);
        let slots = width + self.config.slots_past(true);
        steady.then(|| Periodic::new(yields, (width, slots)).with_last(self.config.commits_last()))
    }

    /// Drafts that are proposed for a request.
    pub(in crate::instance) fn proposed(&self, slot: Slot) -> u32 {
        self.proposals.get(slot as usize).copied().unwrap_or(0)
    }

    /// Forgets the drafts of a request that is preempted, or new in its slot.
    pub(in crate::instance) fn forget(&mut self, slot: Slot) {
        if let Some(drafts) = self.proposals.get_mut(slot as usize) {
            *drafts = 0;
        }
    }

    /// Proposes drafts for a request that yielded a token in a step of `requests` requests, and goes on. Returns how many.
    pub(in crate::instance) fn propose(&mut self, slot: Slot, state: &RequestState, requests: u64) -> u32 {
        let most = self.config.tokens_after(requests);
        let drafts = match &self.config.proposals {
            Some(listed) => listed.at(state.entry.row, state.generated).min(most),
            None => most,
        };
        let at = slot as usize;
        if at >= self.proposals.len() {
            self.proposals.resize(at + 1, 0);
        }
        self.proposals[at] = drafts;
        drafts
    }

    /// Verifies `drafts` drafts of a request whose other tokens the step has computed. A padding is never accepted.
    pub(in crate::instance) fn verify(&self, slot: Slot, state: &RequestState, drafts: u32) -> Verified {
        let verified = drafts.min(self.proposed(slot));
        let accepted = match verified {
            0 => 0,
            _ => self.verifier.accepted(state.entry.row, state.generated).min(verified),
        };
        let yielded = (accepted + 1).min(state.output - state.generated);
        let last = u32::from(self.config.commits_last());
        Verified { accepted, yielded, written: accepted.min(yielded - 1 + last) }
    }

    /// Drafts with which a request is padded that is admitted with one token to compute.
    pub(in crate::instance) fn padding(&self) -> u32 {
        if self.config.pads { self.config.tokens } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DraftAcceptance, DraftSlots, Listed};
    use crate::instance::request::{Phase, RequestTable};

    fn speculator(by_batch: Vec<(u64, u32)>) -> Speculator {
        Speculator::new(Arc::new(SpeculationConfig {
            tokens: 4,
            by_batch,
            proposals: None,
            acceptance: DraftAcceptance::Listed(Listed { stride: 1, values: vec![2] }),
            lookahead: 0,
            slots: DraftSlots::default(),
            input_slots: 0,
            hash_lookahead: 0,
            drops_last_block: false,
            pads: true,
            draft: None,
        }))
    }

    fn decoding() -> RequestState {
        let mut table = RequestTable::default();
        let slot = table.insert(0, 10, 9);
        let state = &mut table[slot];
        (state.phase, state.generated) = (Phase::Stalled, 3);
        state.clone()
    }

    #[test]
    fn a_proposal_lasts_until_it_is_replaced_or_forgotten() {
        let (mut speculator, state) = (speculator(Vec::new()), decoding());
        assert_eq!(speculator.proposed(2), 0);
        speculator.propose(2, &state, 1);
        assert_eq!((speculator.proposed(2), speculator.proposed(1)), (4, 0));
        speculator.forget(2);
        speculator.forget(9);
        assert_eq!(speculator.proposed(2), 0);
    }

    #[test]
    fn the_requests_of_a_step_say_how_many_drafts_there_are() {
        let (mut speculator, state) = (speculator(vec![(1, 4), (3, 1), (9, 0)]), decoding());
        for (requests, drafts) in [(1, 4), (2, 4), (3, 1), (8, 1), (9, 0), (99, 0)] {
            speculator.propose(0, &state, requests);
            assert_eq!(speculator.proposed(0), drafts, "{requests} requests");
        }
    }

    #[test]
    fn accepted_drafts_are_cut_by_the_step_and_yielded_tokens_by_the_request() {
        let (mut speculator, mut state) = (speculator(Vec::new()), decoding());
        assert_eq!(
            speculator.verify(0, &state, 4),
            Verified { accepted: 0, yielded: 1, written: 0 },
            "they are a padding"
        );
        speculator.propose(0, &state, 1);
        assert_eq!(speculator.verify(0, &state, 4), Verified { accepted: 2, yielded: 3, written: 2 });
        assert_eq!(speculator.verify(0, &state, 1), Verified { accepted: 1, yielded: 2, written: 1 });
        state.generated = 8;
        assert_eq!(speculator.verify(0, &state, 4), Verified { accepted: 2, yielded: 1, written: 0 });
    }

    #[test]
    fn with_slots_for_two_steps_the_last_token_is_written_if_a_draft_past_it_is_accepted() {
        let config =
            SpeculationConfig { slots: DraftSlots::TwoSteps, ..(*speculator(Vec::new()).config).clone() };
        assert_eq!(
            [true, false].map(|decodes| config.slots_past(decodes)),
            [5, 0],
            "four drafts and a token"
        );
        let (mut speculator, mut state) = (Speculator::new(Arc::new(config)), decoding());
        speculator.propose(0, &state, 1);
        for (generated, yielded, written) in [(3, 3, 2), (6, 3, 2), (7, 2, 2), (8, 1, 1)] {
            state.generated = generated;
            let verified = speculator.verify(0, &state, 4);
            assert_eq!(verified, Verified { accepted: 2, yielded, written }, "after {generated} of 9");
        }
    }
}
