//! The queue of requests that wait for admission, where they are not ranked.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use serde::{Deserialize, Serialize};

use super::super::request::Slot;
use crate::config::QueueOrder;
use crate::hint::rare;
use crate::trace::{RequestNumber, Trace};

/// A request in the waiting queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Queued {
    /// Row in the trace.
    pub(crate) request: RequestNumber,
    /// Its slot, if it was scheduled before, here or on another instance.
    pub(crate) slot: Option<Slot>,
}

/// The queued requests, in the order in which they are admitted.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WaitingQueue {
    order: Order,
    len: u64,
    /// Whether requests of equal priority are in the order in which they were queued, or by row.
    by_entry: bool,
    /// The places of the first and of the last request that was queued, where the order is by entry.
    places: (i64, i64),
}

#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// By arrival.
    Fifo(VecDeque<Queued>),
    /// By priority, then by place: the row, which is the order of arrival, or that in which they were queued.
    Priority(BinaryHeap<Reverse<(i64, i64, Queued)>>),
    /// By arrival, sorted anew by another key at each step.
    Sorted(VecDeque<Queued>),
}

impl WaitingQueue {
    pub(crate) fn new(order: &QueueOrder) -> Self {
        let order = match order {
            // Ranked requests are queued in the ranking.
            QueueOrder::Arrival | QueueOrder::Ranked(_) => Order::Fifo(VecDeque::new()),
            QueueOrder::Priority => Order::Priority(BinaryHeap::new()),
            QueueOrder::LongestPrefix { .. } | QueueOrder::SharedPrefix => Order::Sorted(VecDeque::new()),
        };
        Self { order, len: 0, by_entry: false, places: (0, 0) }
    }

    /// The same queue, in which requests of equal priority are in the order in which they were queued.
    pub(crate) fn by_entry(mut self, by_entry: bool) -> Self {
        self.by_entry = by_entry;
        self
    }

    /// The place of a request behind those of its priority, or before them, unless rows say it.
    fn place(&mut self, request: RequestNumber, behind: bool) -> i64 {
        let (first, last) = &mut self.places;
        match (self.by_entry, behind) {
            (false, _) => i64::from(request.0),
            (true, true) => {
                *last += 1;
                *last
            }
            (true, false) => {
                *first -= 1;
                *first
            }
        }
    }

    /// Number of requests.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Queues a new request. Returns whether it may be the first.
    pub(crate) fn push_arrival(&mut self, request: RequestNumber, trace: &Trace) -> bool {
        let queued = Queued { request, slot: None };
        self.len += 1;
        let place = self.place(request, true);
        match &mut self.order {
            Order::Fifo(queue) => {
                queue.push_back(queued);
                queue.len() == 1
            }
            Order::Sorted(queue) => {
                queue.push_back(queued);
                true
            }
            Order::Priority(heap) => {
                rare();
                heap.push(Reverse((trace.priority_of(request.index()), place, queued)));
                heap.peek().is_some_and(|Reverse((.., first))| *first == queued)
            }
        }
    }

    /// Queues a request preempted by recompute: ahead of all, or by its priority.
    pub(crate) fn push_preempted(&mut self, request: RequestNumber, slot: Slot, trace: &Trace) {
        self.put_back(Queued { request, slot: Some(slot) }, trace);
    }

    /// Puts a request back that was removed as the first one.
    pub(crate) fn put_back(&mut self, queued: Queued, trace: &Trace) {
        let request = queued.request;
        self.len += 1;
        let place = self.place(request, false);
        match &mut self.order {
            Order::Fifo(queue) | Order::Sorted(queue) => queue.push_front(queued),
            Order::Priority(heap) => {
                heap.push(Reverse((trace.priority_of(request.index()), place, queued)));
            }
        }
    }

    /// Queues a request that was migrated in: behind all, or by its priority.
    pub(crate) fn push_migrated(&mut self, request: RequestNumber, slot: Slot, trace: &Trace) {
        let queued = Queued { request, slot: Some(slot) };
        self.len += 1;
        let place = self.place(request, true);
        match &mut self.order {
            Order::Fifo(queue) | Order::Sorted(queue) => queue.push_back(queued),
            Order::Priority(heap) => {
                heap.push(Reverse((trace.priority_of(request.index()), place, queued)));
            }
        }
    }

    /// The first request.
    pub(crate) fn front(&self) -> Option<Queued> {
        match &self.order {
            Order::Fifo(queue) | Order::Sorted(queue) => queue.front().copied(),
            Order::Priority(heap) => heap.peek().map(|&Reverse((.., queued))| queued),
        }
    }

    /// The requests in order, where that is of arrival, or was sorted anew.
    pub(crate) fn by_arrival(&self) -> impl Iterator<Item = Queued> {
        let listed = match &self.order {
            Order::Fifo(queue) | Order::Sorted(queue) => Some(queue),
            Order::Priority(_) => None,
        };
        listed.into_iter().flatten().copied()
    }

    /// Removes the first request.
    pub(crate) fn pop(&mut self) {
        let gone = match &mut self.order {
            Order::Fifo(queue) | Order::Sorted(queue) => queue.pop_front(),
            Order::Priority(heap) => {
                rare();
                heap.pop().map(|Reverse((.., queued))| queued)
            }
        };
        self.len -= u64::from(gone.is_some());
    }

    /// Removes a request that is cancelled. Returns whether it was queued.
    pub(crate) fn remove(&mut self, request: RequestNumber) -> bool {
        let is_it = |queued: &Queued| queued.request == request;
        let removed = match &mut self.order {
            Order::Fifo(queue) | Order::Sorted(queue) => {
                queue.iter().position(is_it).and_then(|at| queue.remove(at)).is_some()
            }
            Order::Priority(heap) => {
                let before = heap.len();
                heap.retain(|Reverse((.., queued))| !is_it(queued));
                heap.len() < before
            }
        };
        self.len -= u64::from(removed);
        removed
    }

    /// Sorts by a key, stably, if the order is by one.
    pub(crate) fn sort_by_key<K: Ord>(&mut self, key: impl FnMut(&Queued) -> K) {
        if let Order::Sorted(queue) = &mut self.order {
            queue.make_contiguous().sort_by_cached_key(key);
        }
    }

    /// Whether the first request may change though none is queued or removed.
    pub(crate) fn is_sorted_anew(&self) -> bool {
        self.len > 1 && matches!(self.order, Order::Sorted(_))
    }

    /// Whether requests are queued by priority.
    pub(crate) fn is_by_priority(&self) -> bool {
        matches!(self.order, Order::Priority(_))
    }

    /// All requests, in the order in which they are admitted.
    pub(crate) fn in_order(&self) -> Vec<Queued> {
        match &self.order {
            Order::Fifo(queue) | Order::Sorted(queue) => queue.iter().copied().collect(),
            Order::Priority(heap) => {
                let mut all: Vec<_> = heap.iter().map(|&Reverse(entry)| entry).collect();
                all.sort_unstable();
                all.into_iter().map(|(.., queued)| queued).collect()
            }
        }
    }

    /// All requests, in no particular order.
    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = Queued> + '_> {
        match &self.order {
            Order::Fifo(queue) | Order::Sorted(queue) => Box::new(queue.iter().copied()),
            Order::Priority(heap) => Box::new(heap.iter().map(|&Reverse((.., queued))| queued)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(queue: &mut WaitingQueue) -> Vec<u32> {
        std::iter::from_fn(|| queue.front().inspect(|_| queue.pop())).map(|queued| queued.request.0).collect()
    }

    #[test]
    fn a_preempted_request_goes_first_and_a_migrated_one_last() {
        let (mut queue, trace) = (WaitingQueue::new(&QueueOrder::Arrival), Trace::default());
        assert!(queue.push_arrival(RequestNumber(1), &trace), "the queue was empty");
        assert!(!queue.push_arrival(RequestNumber(2), &trace));
        queue.push_preempted(RequestNumber(0), 7, &trace);
        queue.push_migrated(RequestNumber(5), 8, &trace);
        queue.push_arrival(RequestNumber(3), &trace);
        assert_eq!((queue.len(), drain(&mut queue)), (5, vec![0, 1, 2, 5, 3]));
    }

    #[test]
    fn priorities_order_requests_however_they_came() {
        let trace = Trace { priority: Some(vec![2, 1, 2, 0, 1, 2].into()), ..Trace::default() };
        let mut queue = WaitingQueue::new(&QueueOrder::Priority);
        assert!(queue.push_arrival(RequestNumber(0), &trace) && queue.push_arrival(RequestNumber(1), &trace));
        assert!(!queue.push_arrival(RequestNumber(2), &trace));
        queue.push_preempted(RequestNumber(5), 7, &trace);
        queue.push_migrated(RequestNumber(3), 8, &trace);
        assert_eq!((queue.front().map(|queued| queued.slot), queue.len()), (Some(Some(8)), 4 + 1));
        assert_eq!(drain(&mut queue), [3, 1, 0, 2, 5]);
    }

    #[test]
    fn requests_of_equal_priority_are_in_the_order_of_their_entry() {
        let trace = Trace { priority: Some(vec![1, 1, 1, 0].into()), ..Trace::default() };
        let mut queue = WaitingQueue::new(&QueueOrder::Priority).by_entry(true);
        queue.push_arrival(RequestNumber(1), &trace);
        queue.push_migrated(RequestNumber(0), 7, &trace);
        queue.push_arrival(RequestNumber(2), &trace);
        queue.push_arrival(RequestNumber(3), &trace);
        queue.pop();
        let first = queue.front().expect("three are left");
        queue.pop();
        queue.put_back(first, &trace);
        assert_eq!(drain(&mut queue), [1, 0, 2]);
    }

    #[test]
    fn a_cancelled_request_leaves_from_any_place() {
        let trace = Trace { priority: Some(vec![2, 1, 0].into()), ..Trace::default() };
        for order in
            [QueueOrder::Arrival, QueueOrder::Priority, QueueOrder::LongestPrefix { most: 9, shares: 0 }]
        {
            let mut queue = WaitingQueue::new(&order);
            for request in 0..3 {
                queue.push_arrival(RequestNumber(request), &trace);
            }
            assert!(queue.remove(RequestNumber(1)) && !queue.remove(RequestNumber(1)));
            let left = drain(&mut queue);
            assert!(left == [0, 2] || left == [2, 0]);
            assert_eq!(queue.len(), 0);
        }
    }

    #[test]
    fn a_queue_is_sorted_by_a_key() {
        let (order, trace) = (QueueOrder::LongestPrefix { most: 3, shares: 0 }, Trace::default());
        let mut queue = WaitingQueue::new(&order);
        for request in 0..3 {
            assert!(
                queue.push_arrival(RequestNumber(request), &trace),
                "any request may be sorted to the front"
            );
        }
        assert!(queue.is_sorted_anew());
        queue.sort_by_key(|queued| u32::MAX - queued.request.0);
        assert_eq!(drain(&mut queue), [2, 1, 0]);
        assert!(order.sorts(3) && !order.sorts(4), "a long queue is not sorted");
        assert!(QueueOrder::SharedPrefix.sorts(9) && !QueueOrder::Arrival.sorts(0));
    }
}
