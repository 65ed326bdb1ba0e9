//! The requests that an instance receives and sends.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Acceptance, Admitted};
use crate::instance::request::Slot;
use crate::time::Ticks;
use crate::trace::RequestNumber;

/// Where the KV of a request is that was handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// The instance.
    pub(crate) instance: usize,
    /// The slot of the request there.
    pub(crate) slot: Slot,
    /// When the request left the batch there, or leaves it.
    pub(crate) left: Ticks,
    /// When it was offered: as it left, or as the last step of its prompt started.
    pub(crate) since: Ticks,
    /// Tokens whose KV is at the target already.
    pub(crate) copied: u32,
}

/// An accepted request, whose KV the target asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pull {
    /// Its slot on the target.
    pub(crate) slot: Slot,
    /// Where its KV is.
    pub(crate) origin: Origin,
    /// Tokens whose KV the target lacks.
    pub(crate) tokens: u32,
}

/// Tokens of the requests that run on a target, which an acceptance leaves room for.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(in crate::instance) struct Committed {
    /// The requests.
    pub(in crate::instance) requests: u64,
    /// The tokens of their prompts, and those that they have generated.
    pub(in crate::instance) tokens: u64,
    /// The most that one of them has in the end, as far as its output counts.
    pub(in crate::instance) longest: u64,
}

impl Committed {
    /// Adds a request with a prompt, a number of generated tokens, and an output as far as it counts.
    pub(in crate::instance) fn add(&mut self, prompt: u32, generated: u32, output: u32) {
        self.requests += 1;
        self.tokens += u64::from(prompt) + u64::from(generated);
        self.longest = self.longest.max(u64::from(prompt) + u64::from(output));
    }
}

/// A request that was offered.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(in crate::instance) struct Offer {
    /// Its slot on the target.
    pub(in crate::instance) slot: Slot,
    /// Its row in the trace.
    pub(in crate::instance) request: RequestNumber,
    /// Tokens whose KV is to be received.
    pub(in crate::instance) tokens: u32,
    /// Blocks that it needs.
    pub(in crate::instance) blocks: u64,
    /// Whether it answers.
    pub(in crate::instance) answers: bool,
    /// Where its KV is.
    pub(in crate::instance) origin: Origin,
}

/// The requests that an instance receives, by how far their KV has come, and the KV that it sends.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Transfers {
    /// Requests that were offered and not accepted, in order.
    offered: VecDeque<Offer>,
    /// Tokens and blocks of these.
    wanted: (u64, u64),
    /// Requests whose KV is on its way.
    receiving: u64,
    /// Requests that answer and whose KV has not been received.
    answering: u64,
    /// Requests that were offered and are still in the last step of their prompt.
    expected: u64,
    /// Requests whose KV has been received and that were not admitted since, in order.
    received: VecDeque<Slot>,
    /// How many of these, the first, a decision has seen. Those that were swapped in come behind them.
    seen: usize,
    /// Accepted requests, until the engine asks for them.
    pulls: Vec<Pull>,
    /// The received requests that were admitted in the step in progress.
    pub(in crate::instance) admitted: Admitted,
    /// When the latest step ended, and the requests that finished with it, until a step is formed.
    finished: Option<(Ticks, Committed)>,
}

impl Transfers {
    /// A request finishes with a step that ends now, with a prompt, and an output as it is and as far as it counts.
    pub(in crate::instance) fn finish(&mut self, prompt: u32, (output, clipped): (u32, u32), now: Ticks) {
        let (at, finished) = self.finished.get_or_insert_default();
        if *at != now {
            (*at, *finished) = (now, Committed::default());
        }
        finished.add(prompt, output, clipped);
    }

    /// The requests that finished with a step that has ended just now, if none was formed since.
    pub(in crate::instance) fn just_finished(&self, now: Ticks) -> Committed {
        self.finished.filter(|&(at, _)| at == now).map(|(_, finished)| finished).unwrap_or_default()
    }

    /// A step is formed, or tried: those that finished count no more. Returns whether there were any, and requests that are
    /// handed over, or `swapped` out, wait.
    pub(in crate::instance) fn forget_finished(&mut self, swapped: bool, now: Ticks) -> bool {
        let finished = self.finished.take().is_some_and(|(at, _)| at == now);
        finished && (swapped || !(self.offered.is_empty() && self.received.is_empty()))
    }

    /// Adds a request that is offered.
    pub(in crate::instance) fn offer(&mut self, offer: Offer) {
        self.answering += u64::from(offer.answers);
        self.add_offer(offer);
    }

    /// Adds a request that is offered while the last step of its prompt runs.
    pub(in crate::instance) fn expect(&mut self, offer: Offer) {
        self.expected += 1;
        self.add_offer(offer);
    }

    fn add_offer(&mut self, offer: Offer) {
        self.wanted.0 += u64::from(offer.tokens);
        self.wanted.1 += offer.blocks;
        self.offered.push_back(offer);
    }

    /// The last step of an expected request has ended. `answers`: whether it answers.
    pub(in crate::instance) fn confirm(&mut self, answers: bool) {
        self.expected -= 1;
        self.answering += u64::from(answers);
    }

    /// The request that was offered first.
    pub(in crate::instance) fn first_offer(&self) -> Option<Offer> {
        self.offered.front().copied()
    }

    /// Withdraws the first request that was offered, not accepted, and of which `due` holds. Returns its offer.
    pub(in crate::instance) fn withdraw(&mut self, due: impl Fn(&Offer) -> bool) -> Option<Offer> {
        let at = self.offered.iter().position(due)?;
        let offer = self.remove_offer(at)?;
        self.answering -= u64::from(offer.answers);
        Some(offer)
    }

    /// Withdraws an expected request that was not accepted.
    pub(in crate::instance) fn withdraw_expected(&mut self, slot: Slot) {
        if let Some(at) = self.offered.iter().position(|offer| offer.slot == slot) {
            self.remove_offer(at);
            self.expected -= 1;
        }
    }

    /// Releases an expected request that was accepted and received.
    pub(in crate::instance) fn release_reserved(&mut self) {
        self.expected -= 1;
        self.receiving -= 1;
    }

    /// Removes and returns an offer.
    fn remove_offer(&mut self, at: usize) -> Option<Offer> {
        let offer = self.offered.remove(at)?;
        self.wanted.0 -= u64::from(offer.tokens);
        self.wanted.1 -= offer.blocks;
        Some(offer)
    }

    /// Whether the rules allow one more request to be accepted, where those that were accepted and not admitted since hold
    /// `blocks`.
    pub(in crate::instance) fn may_accept(&self, rules: &Acceptance, blocks: u64) -> bool {
        self.receiving < rules.most_transfers && blocks < rules.held_below
    }

    /// Accepts the request that was offered first, which now holds its blocks. Its target
    /// lacks the KV of `lacking` tokens.
    pub(in crate::instance) fn accept(&mut self, lacking: u32) {
        let Some(offer) = self.remove_offer(0) else { return };
        self.receiving += 1;
        self.pulls.push(Pull { slot: offer.slot, origin: offer.origin, tokens: lacking });
    }

    /// Adds a request whose KV has been received. `answers`: whether it answers.
    pub(in crate::instance) fn receive(&mut self, slot: Slot, answers: bool) {
        self.receiving -= 1;
        self.answering -= u64::from(answers);
        self.received.push_back(slot);
    }

    /// The request that was received first, of those that `waits` holds of.
    pub(crate) fn first_received(&mut self, waits: impl Fn(Slot) -> bool) -> Option<Slot> {
        while let Some(&slot) = self.received.front() {
            if waits(slot) {
                return Some(slot);
            }
            self.remove_at(0);
        }
        None
    }

    /// Whether a decision has seen the first received request.
    pub(in crate::instance) fn has_seen(&self) -> bool {
        self.seen > 0
    }

    /// A decision sees all that were received.
    pub(in crate::instance) fn see_received(&mut self) {
        self.seen = self.received.len();
    }

    /// Adds a request that was swapped in, which the decision sees.
    pub(in crate::instance) fn restore(&mut self, slot: Slot) {
        self.received.insert(self.seen, slot);
        self.seen += 1;
    }

    /// A received request waits no more: it is admitted, or cancelled.
    pub(crate) fn remove_received(&mut self, slot: Slot) {
        if let Some(at) = self.received.iter().position(|&other| other == slot) {
            self.remove_at(at);
        }
    }

    fn remove_at(&mut self, at: usize) {
        self.received.remove(at);
        self.seen -= usize::from(at < self.seen);
    }

    /// Requests that were offered and not accepted.
    pub(crate) fn offered(&self) -> u64 {
        self.offered.len() as u64
    }

    /// Requests that were offered and are still in the last step of their prompt.
    pub(crate) fn expected(&self) -> u64 {
        self.expected
    }

    /// Requests whose KV is on its way.
    pub(crate) fn receiving(&self) -> u64 {
        self.receiving
    }

    /// Requests whose KV has been received and that were not admitted since.
    pub(crate) fn received(&self) -> u64 {
        self.received.len() as u64
    }

    /// Requests that answer and whose KV has not been received.
    pub(crate) fn answering(&self) -> u64 {
        self.answering
    }

    /// Tokens and blocks of the requests that were offered and not accepted.
    pub(crate) fn wanted(&self) -> (u64, u64) {
        self.wanted
    }

    /// Blocks that the requests need that were offered and not accepted: the first, and all.
    pub(crate) fn wanted_blocks(&self) -> (u64, u64) {
        (self.offered.front().map_or(0, |offer| offer.blocks), self.wanted.1)
    }

    /// Whether requests were accepted that the engine has not asked for.
    pub(crate) fn has_pulls(&self) -> bool {
        !self.pulls.is_empty()
    }

    /// Moves the accepted requests to `pulls`, which is empty.
    pub(crate) fn take_pulls(&mut self, pulls: &mut Vec<Pull>) {
        std::mem::swap(&mut self.pulls, pulls);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Handover;

    fn offer(slot: Slot, tokens: u32, blocks: u64) -> Offer {
        let origin = Origin { instance: 3, slot: 7, left: 5, since: 5, copied: 0 };
        Offer { slot, request: RequestNumber(slot + 10), tokens, blocks, answers: true, origin }
    }

    #[test]
    fn requests_are_accepted_and_admitted_in_the_order_of_their_offers() {
        let mut transfers = Transfers::default();
        transfers.offer(offer(0, 30, 2));
        transfers.offer(offer(1, 50, 4));
        assert_eq!(
            (transfers.offered(), transfers.wanted(), transfers.wanted_blocks()),
            (2, (80, 6), (2, 6))
        );
        transfers.accept(20);
        assert_eq!((transfers.offered(), transfers.receiving(), transfers.wanted()), (1, 1, (50, 4)));
        assert_eq!(transfers.wanted_blocks(), (4, 4));
        let mut pulls = Vec::new();
        transfers.take_pulls(&mut pulls);
        assert_eq!(pulls, [Pull { slot: 0, origin: offer(0, 30, 2).origin, tokens: 20 }]);
        assert!(!transfers.has_pulls());
        transfers.receive(0, true);
        assert_eq!((transfers.receiving(), transfers.wanted().0, transfers.received()), (0, 50, 1));
        assert_eq!(transfers.first_received(|_| true), Some(0));
        transfers.remove_received(0);
        assert_eq!(transfers.received(), 0);
        assert_eq!(transfers.first_offer().map(|offer| offer.request.0), Some(11));
    }

    #[test]
    fn a_received_request_that_was_admitted_by_rank_is_not_the_first_any_more() {
        let mut transfers = Transfers::default();
        for slot in 0..2 {
            transfers.offer(offer(slot, 10, 1));
            transfers.accept(10);
            transfers.receive(slot, true);
        }
        transfers.remove_received(0);
        assert_eq!((transfers.first_received(|_| true), transfers.received()), (Some(1), 1));
        assert_eq!(transfers.first_received(|slot| slot != 1), None);
    }

    #[test]
    fn requests_answer_on_their_target_from_their_offer_on() {
        let mut transfers = Transfers::default();
        for slot in 0..3 {
            transfers.offer(Offer { answers: slot != 1, ..offer(slot, 10, 1) });
        }
        transfers.accept(10);
        assert_eq!(transfers.answering(), 2);
        transfers.receive(0, true);
        assert!(transfers.withdraw(|offer| offer.request == RequestNumber(10)).is_none(), "it was accepted");
        assert_eq!(
            transfers.withdraw(|offer| offer.request == RequestNumber(12)).map(|offer| offer.slot),
            Some(2)
        );
        assert_eq!((transfers.answering(), transfers.wanted_blocks()), (0, (1, 1)));
        transfers.withdraw(|_| true);
        assert_eq!((transfers.answering(), transfers.offered()), (0, 0));
    }

    #[test]
    fn an_expected_request_answers_on_its_target_once_its_prompt_is_computed() {
        let mut transfers = Transfers::default();
        transfers.expect(offer(0, 30, 2));
        transfers.expect(offer(1, 10, 1));
        assert_eq!((transfers.expected(), transfers.answering(), transfers.wanted().1), (2, 0, 3));
        transfers.accept(30);
        assert_eq!((transfers.expected(), transfers.receiving(), transfers.wanted().0), (2, 1, 10));
        transfers.confirm(true);
        transfers.confirm(true);
        assert_eq!((transfers.expected(), transfers.answering()), (0, 2));
        transfers.receive(0, true);
        transfers.withdraw(|_| true);
        assert_eq!((transfers.answering(), transfers.offered()), (0, 0));
    }

    #[test]
    fn an_expected_request_that_ends_leaves_nothing_behind() {
        let mut transfers = Transfers::default();
        transfers.expect(offer(0, 30, 2));
        transfers.expect(offer(1, 10, 1));
        transfers.accept(30);
        transfers.withdraw_expected(1);
        assert_eq!((transfers.expected(), transfers.offered(), transfers.wanted().1), (1, 0, 0));
        transfers.release_reserved();
        assert_eq!((transfers.expected(), transfers.receiving(), transfers.wanted().0), (0, 0, 0));
        assert_eq!((transfers.answering(), transfers.wanted().0), (0, 0));
    }

    #[test]
    fn a_request_that_was_swapped_in_comes_behind_those_that_were_seen() {
        let mut transfers = Transfers::default();
        for slot in 0..3 {
            transfers.offer(offer(slot, 10, 1));
            transfers.accept(10);
        }
        transfers.receive(0, true);
        assert!(!transfers.has_seen());
        transfers.see_received();
        transfers.receive(1, true);
        transfers.restore(7);
        transfers.restore(8);
        let mut order = Vec::new();
        while transfers.has_seen() {
            let first = transfers.first_received(|_| true).expect("one was seen");
            order.push(first);
            transfers.remove_received(first);
        }
        assert_eq!((order, transfers.received()), (vec![0, 7, 8], 1));
        transfers.see_received();
        transfers.remove_received(1);
        assert!(!transfers.has_seen() && transfers.received() == 0);
    }

    #[test]
    fn swapped_out_requests_wait_for_those_that_finish() {
        let mut transfers = Transfers::default();
        transfers.finish(10, (8, 8), 5);
        assert!(transfers.forget_finished(true, 5));
    }

    #[test]
    fn requests_that_finish_with_a_step_count_until_one_is_formed() {
        let mut transfers = Transfers::default();
        assert_eq!(transfers.just_finished(5).requests, 0);
        transfers.finish(30, (4, 3), 4);
        transfers.finish(10, (8, 8), 5);
        transfers.finish(2, (20, 7), 5);
        let Committed { requests, tokens, longest } = transfers.just_finished(5);
        assert_eq!(
            (requests, tokens, longest),
            (2, 10 + 8 + 2 + 20, 10 + 8),
            "those of the step before do not count"
        );
        assert_eq!(transfers.just_finished(6).requests, 0, "the instance was idle in between");
        assert!(!transfers.forget_finished(false, 5), "no request waits for them");
        transfers.finish(10, (8, 8), 5);
        transfers.offer(offer(0, 10, 1));
        assert!(transfers.forget_finished(false, 5) && !transfers.forget_finished(false, 5));
        assert_eq!(transfers.just_finished(5).requests, 0);
    }

    #[test]
    fn rules_limit_the_transfers_and_the_blocks_before_the_first_step() {
        let mut transfers = Transfers::default();
        let one = Acceptance::new(&Handover { most_transfers: Some(1), ..Handover::default() }, 8, false);
        let [half, half_of_9] = [8, 9].map(|blocks| {
            Acceptance::new(&Handover { most_held: Some(0.5), ..Handover::default() }, blocks, false)
        });
        let any = Acceptance::new(&Handover::default(), 1, false);
        for slot in 0..2 {
            transfers.offer(offer(slot, 10, 4));
        }
        assert!(transfers.may_accept(&one, 0) && transfers.may_accept(&half, 0));
        transfers.accept(10);
        assert!(!transfers.may_accept(&one, 4), "a transfer is on its way");
        assert!(!transfers.may_accept(&half, 4), "half of the blocks are not below half");
        assert!(transfers.may_accept(&half_of_9, 4) && transfers.may_accept(&any, 4));
        transfers.receive(0, true);
        assert!(transfers.may_accept(&one, 4) && !transfers.may_accept(&half, 4));
        transfers.remove_received(0);
        assert!(transfers.may_accept(&half, 0));
    }
}
