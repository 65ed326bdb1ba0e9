//! Who waits, and who is next.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::active::Slot;
use crate::config::QueueOrder;
use crate::trace::Trace;

/// Someone in the waiting queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Waiter {
    pub(super) request: u32,
    /// Its slot, if it was scheduled before.
    pub(super) slot: Option<Slot>,
}

/// The waiting requests of an instance.
#[derive(Debug)]
pub(super) struct Queue {
    line: Line,
    len: u64,
}

#[derive(Debug)]
enum Line {
    /// In the order in which they came.
    Fifo(VecDeque<Waiter>),
    /// By rank, then by row, which is the order of arrival.
    Ranked(BinaryHeap<Reverse<(i64, Waiter)>>),
    /// In the order in which they came, sorted when they are looked at.
    Sorted(VecDeque<Waiter>),
}

impl Queue {
    pub(super) fn new(order: &QueueOrder) -> Self {
        let line = match order {
            // Where requests are ranked they are queued with their ranks.
            QueueOrder::Arrival | QueueOrder::Ranked(_) => Line::Fifo(VecDeque::new()),
            QueueOrder::Priority => Line::Ranked(BinaryHeap::new()),
            QueueOrder::LongestPrefix { .. } => Line::Sorted(VecDeque::new()),
        };
        Self { line, len: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Takes in a newcomer. Returns whether it may be next.
    pub(super) fn arrive(&mut self, request: u32, trace: &Trace) -> bool {
        let waiter = Waiter { request, slot: None };
        self.len += 1;
        match &mut self.line {
            Line::Fifo(queue) => {
                queue.push_back(waiter);
                queue.len() == 1
            }
            Line::Sorted(queue) => {
                queue.push_back(waiter);
                true
            }
            Line::Ranked(heap) => {
                heap.push(Reverse((trace.rank(request as usize), waiter)));
                heap.peek().is_some_and(|Reverse((_, first))| *first == waiter)
            }
        }
    }

    /// Takes back someone who lost its memory: ahead of all, or by its rank.
    pub(super) fn put_back(&mut self, request: u32, slot: Slot, trace: &Trace) {
        let waiter = Waiter { request, slot: Some(slot) };
        self.len += 1;
        match &mut self.line {
            Line::Fifo(queue) | Line::Sorted(queue) => queue.push_front(waiter),
            Line::Ranked(heap) => heap.push(Reverse((trace.rank(request as usize), waiter))),
        }
    }

    /// Takes in somebody who comes from another instance: behind all, or by its rank.
    pub(super) fn come_back(&mut self, request: u32, slot: Slot, trace: &Trace) {
        let waiter = Waiter { request, slot: Some(slot) };
        self.len += 1;
        match &mut self.line {
            Line::Fifo(queue) | Line::Sorted(queue) => queue.push_back(waiter),
            Line::Ranked(heap) => heap.push(Reverse((trace.rank(request as usize), waiter))),
        }
    }

    /// Who is next.
    #[inline]
    pub(super) fn front(&self) -> Option<Waiter> {
        match &self.line {
            Line::Fifo(queue) | Line::Sorted(queue) => queue.front().copied(),
            Line::Ranked(heap) => heap.peek().map(|&Reverse((_, waiter))| waiter),
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) {
        let gone = match &mut self.line {
            Line::Fifo(queue) | Line::Sorted(queue) => queue.pop_front(),
            Line::Ranked(heap) => heap.pop().map(|Reverse((_, waiter))| waiter),
        };
        self.len -= u64::from(gone.is_some());
    }

    /// Sorts by a key, stably, where the order is one that is looked at anew.
    pub(super) fn sort_by_key(&mut self, most: u64, key: impl FnMut(&Waiter) -> u32) {
        if let Line::Sorted(queue) = &mut self.line
            && queue.len() as u64 <= most
        {
            queue.make_contiguous().sort_by_cached_key(key);
        }
    }

    /// Whether who is next may change without an arrival or a departure.
    #[inline]
    pub(super) fn is_sorted_anew(&self) -> bool {
        self.len > 1 && matches!(self.line, Line::Sorted(_))
    }

    /// Everyone, in no order that matters.
    pub(super) fn iter(&self) -> Box<dyn Iterator<Item = Waiter> + '_> {
        match &self.line {
            Line::Fifo(queue) | Line::Sorted(queue) => Box::new(queue.iter().copied()),
            Line::Ranked(heap) => Box::new(heap.iter().map(|&Reverse((_, waiter))| waiter)),
        }
    }
}
