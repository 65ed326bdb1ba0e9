//! Deciding a step when the one before it starts.
//!
//! An engine that overlaps its scheduler with the GPU (vLLM's asynchronous
//! scheduling) decides step `k + 1` while `k` runs. Lengths are known, so it
//! knows which tokens `k` will add; but whoever arrives during `k`, and the
//! memory of whoever ends with it, come into play only at `k + 2`. Here the
//! decision is taken at the end of `k`, with what was not known yet kept aside.

use std::collections::VecDeque;

use super::Instance;
use super::active::{Phase, Slot};
use super::queue::Waiter;
use crate::time::Ticks;
use crate::trace::Trace;

/// What a decision taken ahead does not know yet.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Requests that came since the latest step started, and when.
    arrived: VecDeque<(Ticks, Waiter)>,
    /// Requests whose memory came free since a step was decided.
    lingering: Vec<Slot>,
    /// How many of them have a seat, too: those that ended with the latest step.
    seated: u64,
    /// When the latest step started.
    started: Ticks,
}

impl Ahead {
    /// Keeps a request aside that comes now.
    pub(super) fn arrive(&mut self, waiter: Waiter, now: Ticks) {
        self.arrived.push_back((now, waiter));
    }

    #[inline]
    pub(super) fn started(&mut self, start: Ticks) {
        self.started = start;
    }

    #[inline]
    pub(super) fn arrived(&self) -> u64 {
        self.arrived.len() as u64
    }

    /// The requests that came, in order.
    pub(super) fn waiters(&self) -> impl Iterator<Item = Waiter> + '_ {
        self.arrived.iter().map(|&(_, waiter)| waiter)
    }

    /// Whether memory came free that the step being decided does not know of.
    #[inline]
    pub(super) fn holds_memory(&self) -> bool {
        !self.lingering.is_empty()
    }

    /// Seats that came free likewise.
    #[inline]
    pub(super) fn seated(&self) -> u64 {
        self.seated
    }
}

impl Instance {
    /// Keeps the memory of a request that is done here until a step is decided,
    /// and its seat, if it has one.
    pub(super) fn linger(&mut self, slot: Slot, seated: bool) {
        self.table[slot].phase = Phase::Lingering;
        self.ahead.lingering.push(slot);
        self.ahead.seated += u64::from(seated);
    }

    /// Queues those who had arrived when the latest step started.
    #[inline(never)]
    pub(super) fn learn(&mut self, trace: &Trace) {
        let started = self.ahead.started;
        while let Some(&(arrival, waiter)) = self.ahead.arrived.front()
            && arrival <= started
        {
            self.ahead.arrived.pop_front();
            match waiter.slot {
                None => drop(self.waiting.arrive(waiter.request, trace)),
                Some(slot) => self.waiting.come_back(waiter.request, slot, trace),
            }
        }
    }

    /// Learns all there is to know: nothing runs, so nothing was decided ahead.
    /// Returns whether there was anything.
    #[inline(never)]
    pub(super) fn catch_up(&mut self, trace: &Trace) -> bool {
        let news = !self.ahead.arrived.is_empty() || !self.ahead.lingering.is_empty();
        self.ahead.started = Ticks::MAX;
        self.learn(trace);
        self.settle_lingering();
        news
    }

    /// Frees what requests held that ended with the latest step.
    #[inline(never)]
    pub(super) fn settle_lingering(&mut self) {
        let mut lingering = std::mem::take(&mut self.ahead.lingering);
        for slot in lingering.drain(..) {
            self.let_go(slot);
        }
        self.ahead.lingering = lingering;
        self.ahead.seated = 0;
    }

    /// Whether the step after the one just decided may know of something that
    /// this one did not. `freed`: memory came free since.
    pub(super) fn has_news(&self, freed: bool) -> bool {
        !self.ahead.arrived.is_empty() || (freed && (self.waiting.len() > 0 || !self.swapped.is_empty()))
    }
}
