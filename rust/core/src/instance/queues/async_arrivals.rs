//! The arrivals and freed blocks that a step that is decided ahead does not see yet.
//!
//! An engine that overlaps its scheduler with the GPU (vLLM's asynchronous
//! scheduling) decides step `k + 1` while `k` runs. Lengths are known, so the
//! decision knows the tokens that `k` adds. A request that arrives during `k`, and
//! blocks of a request that ends with `k`, are seen by the decision of `k + 2`. Here
//! the decision is taken at the end of `k`, and what it must not see is kept apart.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::super::request::Slot;
use super::Queued;
use crate::time::Ticks;
use crate::trace::RequestNumber;

/// The arrivals and the freed blocks that the step decided ahead does not see.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AsyncArrivals {
    /// Requests that arrived since the latest step started, with their arrivals.
    arrived: VecDeque<(Ticks, Queued)>,
    /// Requests that were offered elsewhere as they arrived and have come since the latest step was decided, and when.
    announced: Vec<(Ticks, RequestNumber)>,
    /// Requests whose blocks are freed once the next step is decided.
    deferred: Vec<Slot>,
    /// How many of them keep their seat until then, too: those that ended with the
    /// latest step.
    seats: u64,
    /// Requests whose prompts are through, and are inserted into a tree once the next step is decided.
    computed: Vec<Slot>,
    /// Requests whose prompts continue, and of which the step that ends has computed a chunk to insert.
    continuing: Vec<Slot>,
    /// When the latest step started; [`Ticks::MAX`] if none is in progress.
    started: Ticks,
}

impl Default for AsyncArrivals {
    fn default() -> Self {
        Self {
            arrived: VecDeque::new(),
            announced: Vec::new(),
            deferred: Vec::new(),
            seats: 0,
            computed: Vec::new(),
            continuing: Vec::new(),
            started: Ticks::MAX,
        }
    }
}

impl AsyncArrivals {
    /// Keeps a request that arrives now.
    pub(crate) fn push(&mut self, queued: Queued, now: Ticks) {
        self.arrived.push_back((now, queued));
    }

    /// Keeps a request that was offered elsewhere as it arrived, and comes now.
    pub(crate) fn push_announced(&mut self, request: RequestNumber, now: Ticks) {
        self.announced.push((now, request));
    }

    /// Whether such requests are kept.
    pub(crate) fn has_announced(&self) -> bool {
        !self.announced.is_empty()
    }

    /// Of such requests that had come when the latest step started, removes and returns the one that arrived first.
    pub(crate) fn pop_announced(&mut self) -> Option<RequestNumber> {
        let due = self.announced.iter().filter(|&&(came, _)| came <= self.started);
        let first = due.map(|&(_, request)| request).min()?;
        self.announced.retain(|&(_, request)| request != first);
        Some(first)
    }

    /// Notes that a step started.
    pub(crate) fn started(&mut self, start: Ticks) {
        self.started = start;
    }

    /// When the latest step started; [`Ticks::MAX`] if none is in progress.
    pub(crate) fn latest_start(&self) -> Ticks {
        self.started
    }

    /// Removes and returns the first request that had arrived when the latest step
    /// started.
    pub(crate) fn pop_due(&mut self) -> Option<Queued> {
        let started = self.started;
        let due = self.arrived.front().is_some_and(|&(arrival, _)| arrival <= started);
        if due { self.arrived.pop_front().map(|(_, queued)| queued) } else { None }
    }

    /// Removes a request that is cancelled. Returns whether it was kept.
    pub(crate) fn remove(&mut self, request: RequestNumber) -> bool {
        let kept = self.announced.len();
        self.announced.retain(|&(_, other)| other != request);
        if self.announced.len() < kept {
            return true;
        }
        let at = self.arrived.iter().position(|(_, queued)| queued.request == request);
        at.and_then(|at| self.arrived.remove(at)).is_some()
    }

    /// Number of requests that are kept.
    pub(crate) fn arrived(&self) -> u64 {
        (self.arrived.len() + self.announced.len()) as u64
    }

    /// The requests that are kept, by arrival.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Queued> + '_ {
        let announced = self.announced.iter().map(|&(_, request)| Queued { request, slot: None });
        self.arrived.iter().map(|&(_, queued)| queued).chain(announced)
    }

    /// Keeps the blocks of a request until the next step is decided, and its seat, if
    /// it has one.
    pub(crate) fn defer_free(&mut self, slot: Slot, seated: bool) {
        self.deferred.push(slot);
        self.seats += u64::from(seated);
    }

    /// Removes a request with a seat whose blocks are freed before the step is decided.
    pub(crate) fn cancel_deferral(&mut self, slot: Slot) {
        self.deferred.retain(|&other| other != slot);
        self.seats -= 1;
    }

    /// Keeps a request whose prompt is through until the next step is decided.
    pub(crate) fn defer_insertion(&mut self, slot: Slot) {
        self.computed.push(slot);
    }

    /// Removes a request whose prompt is not inserted, as it is preempted or leaves.
    pub(crate) fn cancel_insertion(&mut self, slot: Slot) {
        self.computed.retain(|&other| other != slot);
    }

    /// Removes and returns the requests whose prompts are to be inserted now.
    pub(crate) fn take_computed(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.computed)
    }

    /// Keeps a request whose prompt continues until all others of the step that ends are through.
    pub(crate) fn defer_chunk(&mut self, slot: Slot) {
        self.continuing.push(slot);
    }

    /// Removes and returns the requests of which a chunk is to be inserted now.
    pub(crate) fn take_continuing(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.continuing)
    }

    /// Whether blocks are kept, or may be freed by an insertion.
    pub(crate) fn defers(&self) -> bool {
        !(self.deferred.is_empty() && self.computed.is_empty())
    }

    /// Seats that are kept.
    pub(crate) fn seats(&self) -> u64 {
        self.seats
    }

    /// Removes and returns the requests whose blocks are to be freed now, to be given
    /// back by [`Self::recycle`].
    pub(crate) fn take_deferred(&mut self) -> Vec<Slot> {
        self.seats = 0;
        std::mem::take(&mut self.deferred)
    }

    /// Gives a list back for reuse.
    pub(crate) fn recycle(&mut self, mut list: Vec<Slot>) {
        list.clear();
        list.append(&mut self.deferred);
        self.deferred = list;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_seen_by_the_first_step_decided_after_a_start_that_follows_it() {
        let mut ahead = AsyncArrivals::default();
        ahead.started(5);
        ahead.push(Queued { request: RequestNumber(0), slot: None }, 5);
        ahead.push(Queued { request: RequestNumber(1), slot: None }, 6);
        assert_eq!(ahead.pop_due().map(|queued| queued.request.0), Some(0));
        assert_eq!((ahead.pop_due(), ahead.arrived()), (None, 1));
    }

    #[test]
    fn a_cancelled_request_is_not_kept() {
        let mut ahead = AsyncArrivals::default();
        for request in 0..3 {
            ahead.push(Queued { request: RequestNumber(request), slot: None }, 5);
        }
        assert!(ahead.remove(RequestNumber(1)) && !ahead.remove(RequestNumber(1)));
        assert_eq!(ahead.iter().map(|queued| queued.request.0).collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn seats_are_kept_with_the_blocks() {
        let mut ahead = AsyncArrivals::default();
        ahead.defer_free(3, true);
        ahead.defer_free(4, false);
        assert!(ahead.defers() && ahead.seats() == 1);
        let deferred = ahead.take_deferred();
        assert_eq!(deferred, [3, 4]);
        ahead.recycle(deferred);
        assert!(!ahead.defers() && ahead.seats() == 0);
        ahead.defer_free(3, true);
        ahead.cancel_deferral(3);
        assert!(!ahead.defers() && ahead.seats() == 0);
    }
}
