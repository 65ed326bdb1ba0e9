//! Events of requests, as a caller is told of them that drives a replay from outside.

use serde::{Deserialize, Serialize};

use super::{NO_INSTANCE, Recorder};
use crate::time::{NEVER, Ticks};
use crate::trace::{RequestNumber, Trace};

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum EventKind {
    /// The request was admitted for the first time.
    Admitted = 0,
    /// It yielded its first token.
    FirstToken = 1,
    /// It was preempted.
    Preempted = 2,
    /// It was admitted again.
    Readmitted = 3,
    /// Its KV has come from another instance.
    Migrated = 4,
    /// It yielded its last token.
    Finished = 5,
    /// It was rejected, or dropped.
    Rejected = 6,
    /// It left its router, which held it for too long.
    GaveUp = 7,
    /// Its client cancelled it.
    Cancelled = 8,
}

impl EventKind {
    /// The names of the kinds, in order of their codes.
    pub const NAMES: [&'static str; 9] = [
        "admitted",
        "first_token",
        "preempted",
        "readmitted",
        "migrated",
        "finished",
        "rejected",
        "gave_up",
        "cancelled",
    ];
}

/// Something that happened to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub at: Ticks,
    /// Its kind.
    pub kind: EventKind,
    /// The row of the request in the trace, in the order of submission.
    pub request: u32,
    /// The instance that it is on; [`NO_INSTANCE`] if it is on none.
    pub instance: u32,
}

impl Recorder {
    /// Notes an event, if events are kept.
    pub(crate) fn note(&mut self, kind: EventKind, row: usize, at: Ticks) {
        if let Some(events) = &mut self.events {
            events.push(Event { at, kind, request: row as u32, instance: NO_INSTANCE });
        }
    }

    /// Takes the events since the last call, with the rows that the requests have in the trace.
    pub(crate) fn take_events(&mut self, trace: &Trace) -> Vec<Event> {
        let mut events = self.events.as_mut().map(std::mem::take).unwrap_or_default();
        for event in &mut events {
            let row = event.request as usize;
            event.instance = self.columns.place(row);
            if event.at == NEVER {
                // At its arrival at the routers, or when they let it go.
                event.at = trace.arrival[row] + self.columns.held.get(row).copied().unwrap_or(0);
            }
            event.request = trace.origin(RequestNumber(event.request)).0;
        }
        events
    }
}
