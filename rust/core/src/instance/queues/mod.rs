//! The queues of an instance whose requests are not ranked, and what of the others
//! is not in the ranking.

mod async_arrivals;
mod fifo;
mod receipts;

use serde::{Deserialize, Serialize};

pub(crate) use async_arrivals::AsyncArrivals;
pub(crate) use fifo::{Queued, WaitingQueue};
pub(crate) use receipts::Receipts;

use super::request::{RequestTable, Slot};
use crate::config::{PrefixTreeConfig, QueueOrder};
use crate::time::Ticks;
use crate::trace::{RequestNumber, Trace};

/// When and where a preempted request is queued.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Requeue {
    /// Once the present step is formed, and not at once.
    pub(crate) late: bool,
    /// Behind all other requests, and not before them.
    pub(crate) last: bool,
}

/// The queues of one instance.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Queues {
    waiting: WaitingQueue,
    /// Swapped-out requests, in the order in which they resume.
    swapped: Vec<Slot>,
    /// Swapped-out requests that are in the ranking.
    ranked_swapped: u64,
    /// Ranked requests migrated in since the last scheduling pass.
    migrated_in: Vec<Slot>,
    /// Requests preempted while the present step is formed, and queued once it is.
    requeued_after_step: Vec<Slot>,
    /// Whether preempted requests are queued behind all others.
    requeue_last: bool,
    ahead: AsyncArrivals,
    receipts: Receipts,
    /// Steps in which prompts were held back for others since some were admitted.
    steps_held: u64,
    /// Whether the instances that step together hold prompts back in the step to form.
    held_together: bool,
    /// Passes over the queue in which waiting requests may use their cached prefixes.
    passes: u64,
}

impl Queues {
    pub(crate) fn new(order: &QueueOrder, requeue_last: bool, receive_interval: u64) -> Self {
        Self {
            waiting: WaitingQueue::new(order).by_entry(requeue_last),
            swapped: Vec::new(),
            ranked_swapped: 0,
            migrated_in: Vec::new(),
            requeued_after_step: Vec::new(),
            requeue_last: false,
            ahead: AsyncArrivals::default(),
            receipts: Receipts::new(receive_interval),
            steps_held: 0,
            held_together: false,
            passes: 0,
        }
    }

    /// Counts a pass over the queue. Returns how many requests at its front use their cached prefixes.
    pub(crate) fn count_pass(&mut self, rules: PrefixTreeConfig) -> u64 {
        let pass = self.passes;
        self.passes += 1;
        let uses = rules.passes > 0 && pass.is_multiple_of(rules.passes);
        if uses { rules.most } else { 0 }
    }

    /// Queued requests, without those in the ranking.
    pub(crate) fn len(&self) -> u64 {
        self.waiting.len() + self.ahead.arrived() + self.swapped.len() as u64
    }

    /// Swapped-out requests, those in the ranking included.
    pub(crate) fn swapped_out(&self) -> u64 {
        self.swapped.len() as u64 + self.ranked_swapped
    }

    /// The waiting queue, to read.
    pub(crate) fn waiting(&self) -> &WaitingQueue {
        &self.waiting
    }

    /// The waiting queue.
    pub(crate) fn waiting_mut(&mut self) -> &mut WaitingQueue {
        &mut self.waiting
    }

    /// The requests that arrived and were not received yet, and the blocks that were freed since a step was decided ahead.
    pub(crate) fn ahead(&self) -> &AsyncArrivals {
        &self.ahead
    }

    /// The same, to change.
    pub(crate) fn ahead_mut(&mut self) -> &mut AsyncArrivals {
        &mut self.ahead
    }

    /// When arrivals are received next.
    pub(crate) fn receipts(&self) -> &Receipts {
        &self.receipts
    }

    /// The same, to change.
    pub(crate) fn receipts_mut(&mut self) -> &mut Receipts {
        &mut self.receipts
    }

    /// Steps in which prompts were held back for others since the rule let some pass.
    pub(crate) fn steps_held(&self) -> u64 {
        self.steps_held
    }

    /// Notes that a step holds prompts back, or lets them pass.
    pub(crate) fn note_prompts_held(&mut self, held: bool) {
        self.steps_held = if held { self.steps_held + 1 } else { 0 };
    }

    /// Whether the instances that step together hold prompts back in the step to form.
    pub(crate) fn held_together(&self) -> bool {
        self.held_together
    }

    /// Has the step to form hold prompts back, or not.
    pub(crate) fn hold_together(&mut self, held: bool) {
        self.held_together = held;
    }

    /// Swapped-out requests, in the order in which they resume.
    pub(crate) fn swapped(&self) -> &[Slot] {
        &self.swapped
    }

    /// Queues a request that was swapped out. `ranked`: the ranking orders it.
    pub(crate) fn push_swapped(&mut self, slot: Slot, ranked: bool) {
        if ranked {
            self.ranked_swapped += 1;
        } else {
            self.swapped.push(slot);
        }
    }

    /// A swapped-out request in the ranking resumes.
    pub(crate) fn pop_ranked_swapped(&mut self) {
        self.ranked_swapped -= 1;
    }

    /// The first swapped-out request resumes.
    pub(crate) fn pop_swapped(&mut self) {
        self.swapped.remove(0);
    }

    /// Removes a request that is cancelled while it waits without KV, or with KV that was migrated in.
    pub(crate) fn remove_waiting(&mut self, request: RequestNumber, slot: Option<Slot>) {
        self.migrated_in.retain(|&other| Some(other) != slot);
        if !self.waiting.remove(request) {
            self.ahead.remove(request);
        }
    }

    /// Removes a swapped-out request that is cancelled. `ranked`: the ranking orders it.
    pub(crate) fn remove_swapped(&mut self, slot: Slot, ranked: bool) {
        if ranked {
            self.ranked_swapped -= 1;
        } else {
            self.swapped.retain(|&other| other != slot);
        }
    }

    /// Queues a preempted request: ahead of all or behind them, or by its priority; where `late`,
    /// once the present step is formed.
    pub(crate) fn push_preempted(
        &mut self,
        slot: Slot,
        place: Requeue,
        requests: &RequestTable,
        trace: &Trace,
    ) {
        self.requeue_last = place.last;
        if place.late {
            self.requeued_after_step.push(slot);
        } else {
            self.requeue(slot, requests, trace);
        }
    }

    fn requeue(&mut self, slot: Slot, requests: &RequestTable, trace: &Trace) {
        let request = requests[slot].request;
        if self.requeue_last {
            self.waiting.push_migrated(request, slot, trace);
        } else {
            self.waiting.push_preempted(request, slot, trace);
        }
    }

    /// Queues the requests that were preempted while the step was formed. The last
    /// one goes before the one before it, or behind it where they are queued last.
    #[inline(never)]
    pub(crate) fn requeue_after_step(&mut self, requests: &RequestTable, trace: &Trace) {
        for slot in std::mem::take(&mut self.requeued_after_step) {
            self.requeue(slot, requests, trace);
        }
    }

    /// Notes that a ranked request was migrated in.
    pub(crate) fn push_migrated(&mut self, slot: Slot) {
        self.migrated_in.push(slot);
    }

    /// Whether ranked requests were migrated in since the last scheduling pass.
    pub(crate) fn has_migrated_in(&self) -> bool {
        !self.migrated_in.is_empty()
    }

    /// Removes and returns those requests, to be given back by
    /// [`Self::recycle_migrated`].
    pub(crate) fn take_migrated(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.migrated_in)
    }

    /// Gives a list back for reuse.
    pub(crate) fn recycle_migrated(&mut self, mut list: Vec<Slot>) {
        list.clear();
        self.migrated_in = list;
    }

    /// Queues the requests that the step which is formed at `now` receives: if a receipt is due, those that had arrived by
    /// the start of the latest step where steps are decided `ahead`, else all.
    #[inline(never)]
    pub(crate) fn receive(&mut self, ahead: bool, now: Ticks, trace: &Trace) {
        if !self.receipts.is_due() {
            return;
        }
        if !ahead {
            self.ahead.started(now);
        }
        self.release_due(trace);
    }

    /// Queues the requests that had arrived by the start of the latest step.
    #[inline(never)]
    pub(crate) fn release_due(&mut self, trace: &Trace) {
        while let Some(queued) = self.ahead.pop_due() {
            match queued.slot {
                None => drop(self.waiting.push_arrival(queued.request, trace)),
                Some(slot) => self.waiting.push_migrated(queued.request, slot, trace),
            }
        }
        while let Some(request) = self.ahead.pop_announced() {
            self.waiting.push_arrival(request, trace);
        }
    }

    /// For how many steps, up to `most`, the step just decided ahead or between two receipts sees all that the steps after
    /// it may see. `freed`: blocks were freed since.
    pub(crate) fn steps_without_news(&self, freed: bool, most: u64) -> u64 {
        if freed && (self.waiting.len() > 0 || !self.swapped.is_empty()) {
            return 1;
        }
        if self.ahead.arrived() > 0 { most.min(self.receipts.steps_to_next(1)) } else { most }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(rows: u32) -> (Queues, RequestTable, Trace) {
        let mut requests = RequestTable::default();
        for row in 0..rows {
            requests.insert(row, 1, 1);
        }
        let trace = Trace { arrival: vec![0; rows as usize].into(), ..Trace::default() };
        (Queues::new(&QueueOrder::Arrival, false, 1), requests, trace)
    }

    fn drain(queues: &mut Queues) -> Vec<u32> {
        let waiting = queues.waiting_mut();
        std::iter::from_fn(|| waiting.front().inspect(|_| waiting.pop()))
            .map(|queued| queued.request.0)
            .collect()
    }

    #[test]
    fn of_requests_preempted_in_one_step_the_last_is_queued_first_or_last() {
        for (late, last) in [(false, false), (true, false), (false, true), (true, true)] {
            let (mut queues, requests, trace) = queues(4);
            queues.waiting_mut().push_arrival(RequestNumber(3), &trace);
            for slot in 0..3 {
                queues.push_preempted(slot, Requeue { late, last }, &requests, &trace);
            }
            assert_eq!(queues.waiting().len(), if late { 1 } else { 4 });
            queues.requeue_after_step(&requests, &trace);
            let order = if last { [3, 0, 1, 2] } else { [2, 1, 0, 3] };
            assert_eq!(drain(&mut queues), order);
        }
    }

    #[test]
    fn an_arrival_is_queued_once_a_step_has_started_after_it() {
        let (mut queues, _, trace) = queues(3);
        queues.ahead_mut().started(10);
        for (request, arrival) in [(0, 10), (1, 11)] {
            queues.ahead_mut().push(Queued { request: RequestNumber(request), slot: None }, arrival);
        }
        queues.ahead_mut().push(Queued { request: RequestNumber(2), slot: Some(2) }, 12);
        queues.release_due(&trace);
        assert_eq!((queues.waiting().len(), queues.len(), queues.steps_without_news(false, 9)), (1, 3, 1));
        queues.ahead_mut().started(12);
        queues.release_due(&trace);
        assert_eq!((drain(&mut queues), queues.steps_without_news(true, 9)), (vec![0, 1, 2], 9));
    }

    #[test]
    fn an_arrival_between_two_receipts_waits_for_the_next() {
        let trace = Trace { arrival: vec![0; 2].into(), ..Trace::default() };
        let mut queues = Queues::new(&QueueOrder::Arrival, false, 4);
        queues.ahead_mut().push(Queued { request: RequestNumber(0), slot: None }, 3);
        queues.receive(false, 3, &trace);
        assert_eq!((drain(&mut queues), queues.steps_without_news(false, 9)), (vec![0], 9));
        queues.receipts_mut().advance(1, false);
        queues.ahead_mut().push(Queued { request: RequestNumber(1), slot: None }, 5);
        queues.receive(false, 6, &trace);
        assert_eq!((drain(&mut queues), queues.steps_without_news(false, 9)), (vec![], 3));
        queues.receipts_mut().advance(3, false);
        queues.receive(false, 9, &trace);
        assert_eq!(drain(&mut queues), [1]);
    }

    #[test]
    fn swapped_requests_resume_in_the_order_of_their_preemption() {
        let (mut queues, ..) = queues(0);
        for slot in [5, 3, 4] {
            queues.push_swapped(slot, false);
        }
        queues.push_swapped(9, true);
        queues.pop_swapped();
        assert_eq!((queues.swapped(), queues.swapped_out(), queues.len()), (&[3, 4][..], 3, 2));
    }
}
