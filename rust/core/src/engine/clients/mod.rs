//! Clients that wait for answers: a source of requests that reacts to the ends of others.
//!
//! A request is ready at its arrival in the trace; or, if it waits for an answer, some time after that. Where clients are
//! limited, a ready request is sent once one of their slots is free, in the order in which requests became ready.

mod graph;
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
use slots::Slots;

/// The clients that send the requests of a trace.
#[derive(Debug)]
pub(super) struct Clients {
    graph: Graph,
    /// The arrivals of the trace, of those that do not wait for an answer.
    arrivals: Vec<Ticks>,
    /// The first row from which on arrivals were not sent.
    next_arrival: usize,
    /// The earliest moments of rows that wait for answers, where the trace has such.
    not_before: Option<Vec<Ticks>>,
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

/// Sessions, each of which takes a slot from its first request to the end of its last.
#[derive(Debug)]
struct Sessions {
    /// By row: its session.
    of: Vec<u32>,
    /// By session: its requests that have not ended.
    left: Vec<u32>,
    /// By session: whether it has a slot.
    open: Vec<bool>,
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
    /// If sessions are counted and a later turn of one does not wait for the turn before it: it would need no slot.
    pub(super) fn of(rules: Option<Rules>, trace: &Trace) -> Result<Option<Self>, Error> {
        if rules.is_none() && trace.think.is_none() {
            return Ok(None);
        }
        let by_session = rules.is_some_and(|rules| rules.by_session);
        if by_session && let Some(row) = Graph::ignores_session(trace) {
            let rule =
                "a later turn of a session has a think time where clients are limited by sessions, had none";
            return Err(Error::trace(row, rule));
        }
        let sessions = by_session.then(|| Sessions::of(trace));
        let mut clients = Self {
            graph: Graph::of(trace),
            arrivals: trace.arrival.clone(),
            next_arrival: 0,
            not_before: trace.not_before.clone(),
            ready: BinaryHeap::new(),
            in_session: BinaryHeap::new(),
            slots: rules.map(|rules| Slots::new(rules.most, rules.gap)),
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

    /// Takes a slot for a row, if it needs one.
    fn take_slot(&mut self, row: u32) {
        let Some(slots) = &mut self.slots else { return };
        if let Some(sessions) = &mut self.sessions {
            let open = &mut sessions.open[sessions.of[row as usize] as usize];
            if std::mem::replace(open, true) {
                return;
            }
        }
        slots.take();
    }

    /// A row has ended at `now`, or will never be sent: gives its slot back, if it is the last that needs it.
    fn leave_slot(&mut self, row: u32, now: Ticks) {
        let Some(slots) = &mut self.slots else { return };
        if let Some(sessions) = &mut self.sessions {
            let session = sessions.of[row as usize] as usize;
            sessions.left[session] -= 1;
            if sessions.left[session] > 0 {
                return;
            }
        }
        slots.give_back(now);
    }

    /// A row has its answers: it is sent from `at` on.
    fn push_ready(&mut self, at: Ticks, row: u32) {
        let earliest = self.not_before.as_ref().map_or(0, |column| column[row as usize]);
        let entry = Reverse((at.max(earliest), row));
        let open = self.sessions.as_ref().is_some_and(|sessions| sessions.has_slot(row));
        if open { self.in_session.push(entry) } else { self.ready.push(entry) }
    }

    /// Gives up the rows that wait for the answer to a row which has none.
    fn cut_children(&mut self, row: u32, now: Ticks) {
        let mut unanswered = vec![row];
        while let Some(row) = unanswered.pop() {
            for place in self.graph.children(row) {
                let child = self.graph.child(place);
                if self.graph.cut(child) {
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

impl Sessions {
    fn of(trace: &Trace) -> Self {
        // A request without a session is one of its own, numbered after all others.
        let rows = trace.len() as u32;
        let own =
            |(row, session): (u32, Option<u32>)| session.filter(|&one| one != u32::MAX).unwrap_or(rows + row);
        let given = |row: u32| trace.session.as_ref().map(|column| column[row as usize]);
        let of: Vec<u32> = (0..rows).map(|row| own((row, given(row)))).collect();
        let mut left = vec![0; 2 * rows as usize];
        for &session in &of {
            left[session as usize] += 1;
        }
        Self { open: vec![false; left.len()], of, left }
    }

    fn has_slot(&self, row: u32) -> bool {
        self.open[self.of[row as usize] as usize]
    }
}

impl Source for Clients {
    fn next(&self) -> Ticks {
        self.choose().0
    }

    fn send(&mut self) -> u32 {
        let row = match self.choose().1 {
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
        self.take_slot(row);
        row
    }

    fn end(&mut self, row: u32, status: Status, now: Ticks) {
        if status == Status::Finished {
            for place in self.graph.children(row) {
                let child = self.graph.child(place);
                if let Some(delay) = self.graph.answer(child) {
                    self.push_ready(now.saturating_add(delay), child);
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
