//! Clients that wait for answers: a source of requests that reacts to the ends of others.
//!
//! A request is ready at its arrival in the trace; or, if it waits for answers, some time after the last of them. Where
//! clients are limited, a ready request is sent once one of their slots is free, in the order in which requests became
//! ready.

mod graph;
mod sessions;
mod slots;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::arrivals::Source;
use crate::config::Clients as Rules;
use crate::error::Error;
use crate::metrics::Status;
use crate::time::{NEVER, Ticks};
use crate::trace::Trace;
use graph::Graph;
use sessions::Sessions;
use slots::Slots;

/// The clients that send the requests of a trace.
#[derive(Debug)]
pub(super) struct Clients {
    graph: Graph,
    /// The arrivals of the trace, of those that do not wait for an answer.
    arrivals: Vec<Ticks>,
    /// The first row from which on arrivals were not sent.
    next_arrival: usize,
    /// Rows whose answers have come and that are not sent.
    ready: BinaryHeap<Reverse<(Ticks, u32)>>,
    /// Those of them that need no slot, as their session has one.
    in_session: BinaryHeap<Reverse<(Ticks, u32)>>,
    slots: Option<Slots>,
    /// The sessions that take slots; `None`: each request takes one.
    sessions: Option<Sessions>,
    /// Rows that are sent, or may be.
    expected: u64,
}

/// The request that is sent next.
enum Next {
    /// The first arrival of the trace that was not sent.
    Arrival,
    /// The first request whose answers have come.
    Ready,
    /// The first such request of a session in flight.
    InSession,
}

impl Clients {
    /// The clients of a trace under these rules; `None` if the trace's arrivals are those of its requests.
    ///
    /// # Errors
    ///
    /// If sessions are counted and a later turn of one waits for no answer: it would need no slot.
    pub(super) fn of(rules: Option<Rules>, trace: &Trace) -> Result<Option<Self>, Error> {
        if rules.is_none() && trace.waits.is_empty() {
            return Ok(None);
        }
        let by_session = rules.is_some_and(|rules| rules.by_session && rules.most.is_some());
        let graph = Graph::of(trace);
        let sessions = by_session.then(|| Sessions::of(trace, &graph)).transpose()?;
        let mut clients = Self {
            graph,
            arrivals: trace.arrival.clone().into_vec(),
            next_arrival: 0,
            ready: BinaryHeap::new(),
            in_session: BinaryHeap::new(),
            slots: rules.and_then(|rules| Some(Slots::new(rules.most?, rules.gap))),
            sessions,
            expected: trace.len() as u64,
        };
        clients.skip_waiting();
        Ok(Some(clients))
    }

    /// Moves on to the next arrival of the trace that waits for no answer.
    fn skip_waiting(&mut self) {
        while self.next_arrival < self.arrivals.len() && self.graph.waits(self.next_arrival as u32) {
            self.next_arrival += 1;
        }
    }

    /// The request that is sent next, and when.
    fn choose(&self) -> (Ticks, Next) {
        let free = self.slots.as_ref().map_or(0, Slots::next);
        let arrival = (self.arrivals.get(self.next_arrival).copied(), self.next_arrival as u32);
        let ready = self.ready.peek().map(|ready| ready.0);
        // The request that was ready first has the slot, also where both wait for it.
        let (at, next) = match (arrival.0.map(|at| (at, arrival.1)), ready) {
            (Some(arrival), Some(ready)) if ready < arrival => (ready.0, Next::Ready),
            (Some(arrival), _) => (arrival.0, Next::Arrival),
            (None, Some(ready)) => (ready.0, Next::Ready),
            (None, None) => (NEVER, Next::Arrival),
        };
        let at = at.max(free);
        match self.in_session.peek() {
            Some(Reverse((moment, _))) if *moment <= at => (*moment, Next::InSession),
            _ => (at, next),
        }
    }

    /// Takes a slot for a row that is sent at `now`, if it needs one.
    fn take_slot(&mut self, row: u32, now: Ticks) {
        let Some(slots) = &mut self.slots else { return };
        if let Some(sessions) = &mut self.sessions {
            if !sessions.open(row) {
                return;
            }
            // Other requests of the session that wait for no answer need no slot from now on.
            for &(_, other) in sessions.arrivals(row) {
                if other != row && self.graph.take_out(other) {
                    self.in_session.push(Reverse((self.arrivals[other as usize].max(now), other)));
                }
            }
        }
        slots.take();
        self.skip_waiting();
    }

    /// A row has ended at `now`, or will never be sent: gives its slot back, if it is the last that needs it.
    fn leave_slot(&mut self, row: u32, now: Ticks) {
        let Some(slots) = &mut self.slots else { return };
        if self.sessions.as_mut().is_none_or(|sessions| sessions.end(row)) {
            slots.give_back(now);
        }
    }

    /// A row has its answers: it is sent from `at` on.
    fn push_ready(&mut self, at: Ticks, row: u32) {
        let open = self.sessions.as_ref().is_some_and(|sessions| sessions.has_slot(row));
        let ready = if open { &mut self.in_session } else { &mut self.ready };
        ready.push(Reverse((at, row)));
    }

    /// Gives up the rows that wait for the answer to a row which has none.
    fn cut_children(&mut self, row: u32, now: Ticks) {
        let mut unanswered = vec![row];
        while let Some(row) = unanswered.pop() {
            for place in self.graph.children(row) {
                let child = self.graph.edge(place).child;
                if self.graph.take_out(child) {
                    self.expected -= 1;
                    if self.sessions.is_some() {
                        self.leave_slot(child, now);
                    }
                    unanswered.push(child);
                }
            }
        }
    }
}

impl Source for Clients {
    fn next(&self) -> Ticks {
        self.choose().0
    }

    fn send(&mut self) -> u32 {
        let (now, next) = self.choose();
        let row = match next {
            Next::InSession => self.in_session.pop().map(|entry| entry.0.1),
            Next::Ready => self.ready.pop().map(|entry| entry.0.1),
            Next::Arrival => {
                let row = self.next_arrival as u32;
                self.next_arrival += 1;
                self.skip_waiting();
                Some(row)
            }
        };
        let row = row.expect("Invariant: a request is sent only if one is ready");
        self.take_slot(row, now);
        row
    }

    fn end(&mut self, row: u32, status: Status, now: Ticks) {
        if status == Status::Finished {
            for place in self.graph.children(row) {
                let edge = self.graph.edge(place);
                if let Some(at) = self.graph.answer(edge, now) {
                    self.push_ready(at, edge.child);
                }
            }
        } else {
            self.cut_children(row, now);
        }
        self.leave_slot(row, now);
    }

    fn expected(&self) -> u64 {
        self.expected
    }
}

#[cfg(test)]
mod tests;
