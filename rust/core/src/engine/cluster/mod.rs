//! The instances of a replay, and when their steps end.
//!
//! Everything that happens to an instance goes through the cluster, which keeps the calendar of steps and the counts of
//! requests up to date.

mod cancels;
mod handovers;
mod reporting;
mod requests;
mod steps;
mod streaming;

use serde::{Deserialize, Serialize};

use super::calendar::Calendar;
use super::known::Known;
use super::roles::{Cause, FlipRecord, Flipping, Roles};
use crate::collections::Column;
use crate::error::Error;
use crate::hint::rare;
use crate::instance::{Effects, Instance, StepColumns, TierLog};
use crate::metrics::{Columns, Event, EventKind, InstanceStats, Recorder, Sketch, StoreStats};
use crate::time::Ticks;
use crate::trace::{RequestNumber, Trace};

/// The instances of a replay, their calendar of steps, and the columns that they write.
#[derive(Debug)]
pub(super) struct Cluster {
    /// The instances, by index.
    instances: Vec<Instance>,
    /// The requests.
    trace: Trace,
    /// The result by request, which the instances write.
    recorder: Recorder,
    /// When the step or run of each instance ends.
    calendar: Calendar,
    /// The pool of each instance.
    roles: Roles,
    /// Instances that may start a step at this moment, once its other events have been handled.
    free: Vec<usize>,
    /// Instances that have accepted requests since the engine last asked.
    with_pulls: Vec<usize>,
    /// Instances that have started the last step of a prompt since the engine last asked.
    with_last_steps: Vec<usize>,
    /// Requests that arrived since the engine last asked, and were offered to their targets first.
    announced: Vec<Announced>,
    /// Requests sent to each instance and not finished.
    outstanding: Vec<u64>,
    /// Requests that finished, were rejected or cancelled, or gave up.
    settled: u64,
    /// Events so far.
    events: Events,
    /// The knowledge that routers have of the instances.
    known: Known,
}

crate::checkpoint::checkpointed!(Cluster {
    values: trace, calendar, free, with_pulls, with_last_steps, announced, outstanding, settled, events;
    parts: instances, recorder, roles, known;
});

/// A request that was offered to its target as it arrived, before its prompt is queued.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Announced {
    /// The request, by its row.
    pub(super) request: RequestNumber,
    /// The instance that computes its prompt.
    pub(super) source: usize,
    /// The instance to which it was offered.
    pub(super) target: usize,
    /// Its slot there.
    pub(super) slot: u32,
    /// When it was offered.
    pub(super) since: Ticks,
}

/// How many events there were.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Events {
    /// Of all kinds.
    all: u64,
    /// Runs of monitors.
    looks: u64,
}

/// The columns and counters of the instances of a replay.
pub(super) struct Recorded {
    /// The result by request.
    pub(super) columns: Columns,
    /// Gaps between consecutive tokens.
    pub(super) gaps: Sketch,
    /// Counters by instance.
    pub(super) stats: Vec<InstanceStats>,
    /// Steps by instance, if decisions were recorded.
    pub(super) decisions: Vec<StepColumns>,
    /// The actions of their steps on tiers.
    pub(super) tiers: Vec<Option<Box<TierLog>>>,
    /// The counters of the stores below those, by number.
    pub(super) stores: Vec<StoreStats>,
    /// The changes of roles, in order.
    pub(super) flips: Vec<FlipRecord>,
    /// The row in the trace of each request, by its number, where that is another.
    pub(super) origins: Option<Vec<u32>>,
}

impl Cluster {
    /// The trace, to number its requests anew before any has arrived.
    #[cfg(test)]
    pub(super) fn trace_mut(&mut self) -> &mut Trace {
        &mut self.trace
    }

    /// A cluster whose instances are idle.
    pub(super) fn new(
        instances: Vec<Instance>,
        roles: Roles,
        trace: Trace,
        mut recorder: Recorder,
        known: Known,
    ) -> Self {
        let n = instances.len();
        recorder.closed = known.keeps().then(Vec::new);
        Self {
            instances,
            trace,
            recorder,
            calendar: Calendar::new(n),
            roles,
            free: Vec::new(),
            with_pulls: Vec::new(),
            with_last_steps: Vec::new(),
            announced: Vec::new(),
            outstanding: vec![0; n],
            settled: 0,
            events: Events::default(),
            known,
        }
    }

    /// The instances and the trace.
    pub(super) fn into_instances(self) -> (Vec<Instance>, Trace) {
        (self.instances, self.trace)
    }

    /// Adds requests at the end of the trace. Nothing changes if they break a rule.
    pub(super) fn append(&mut self, more: Trace) -> Result<(), Error> {
        let n = more.len();
        self.trace.append(more)?;
        self.recorder.grow(n);
        self.known.grow_to(self.trace.len());
        self.change_contents(|contents, _, trace| contents.extend(trace))
    }

    /// Makes room for requests that are sent again.
    pub(super) fn follow_repeats(&mut self) {
        self.known.grow_to(self.trace.len());
    }

    /// Has the result in the order of `places`, by row of the trace.
    pub(super) fn order_by(&mut self, places: &[u32]) {
        for origin in self.trace.origins.iter_mut().flat_map(Column::as_mut_slice) {
            *origin = places[*origin as usize];
        }
    }

    /// Takes what has happened to requests since the last call, with their rows in the trace, in the order of the moments.
    pub(super) fn take_events(&mut self) -> Vec<Event> {
        let mut events = self.recorder.take_events(&self.trace);
        events.sort_by_key(|event| event.at);
        events
    }

    /// How many events have been noted since they were taken.
    pub(super) fn told(&self) -> usize {
        self.recorder.events.as_ref().map_or(0, Vec::len)
    }

    /// Whether a request was rejected after so many events had been noted.
    pub(super) fn rejects_after(&self, told: usize) -> bool {
        let later = self.recorder.events.iter().flat_map(|events| &events[told..]);
        later.into_iter().any(|event| matches!(event.kind, EventKind::Rejected | EventKind::GaveUp))
    }

    /// The number of instances.
    pub(super) fn len(&self) -> usize {
        self.instances.len()
    }

    /// An instance.
    pub(super) fn instance(&self, index: usize) -> &Instance {
        &self.instances[index]
    }

    /// All instances.
    pub(super) fn instances(&self) -> &[Instance] {
        &self.instances
    }

    /// The trace.
    pub(super) fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The requests, and the result that is written of them.
    pub(super) fn recording(&mut self) -> (&mut Trace, &mut Recorder) {
        (&mut self.trace, &mut self.recorder)
    }

    /// Requests sent to an instance and not finished.
    pub(super) fn outstanding(&self, index: usize) -> u64 {
        self.outstanding[index]
    }

    /// The first instance with the fewest requests that were sent to it and are not finished.
    pub(super) fn fewest_outstanding(&self) -> Option<usize> {
        (0..self.outstanding.len()).min_by_key(|&index| self.outstanding[index])
    }

    /// The knowledge that routers have of the instances.
    pub(super) fn known(&self) -> &Known {
        &self.known
    }

    /// First tokens, and requests that left their instance for good, so far.
    pub(super) fn changes(&self) -> u64 {
        self.recorder.changes
    }

    /// The error of more recorded steps than there was room for, if there were.
    pub(super) fn record_full(&self) -> Option<Error> {
        let room = self.recorder.room;
        room.ended().map(|at| Error::RecordFull { most: room.most(), at })
    }

    /// Requests that finished, were rejected or gave up.
    pub(super) fn settled(&self) -> u64 {
        self.settled
    }

    /// Events so far: ends of steps, arrivals, deliveries and runs of monitors.
    pub(super) fn events(&self) -> u64 {
        self.events.all
    }

    /// Events so far that may have changed what instances report: all but the runs of monitors that changed no role.
    pub(super) fn happenings(&self) -> u64 {
        self.events.all - self.events.looks + self.roles.changes()
    }

    /// Counts an event that is not the end of a step.
    pub(super) fn count_event(&mut self) {
        self.events.all += 1;
    }

    /// Counts a run of a monitor.
    pub(super) fn count_look(&mut self) {
        self.events.all += 1;
        self.events.looks += 1;
    }
}

/// Roles.
impl Cluster {
    /// The pool of each instance.
    pub(super) fn roles(&self) -> &Roles {
        &self.roles
    }

    /// When the next delay of an instance that changes its pool ends.
    pub(super) fn next_role(&self) -> Ticks {
        self.roles.next_due()
    }

    /// The effects on an instance.
    fn at(&mut self, index: usize) -> Effects<'_> {
        self.instances[index].effects(&self.trace, &mut self.recorder)
    }

    /// Has an instance change its pool to `flip.to`: at once, unless it has to leave its own first. Returns whether it is
    /// in that pool then, or on its way: if not, too few instances would have stayed.
    #[inline(never)]
    pub(super) fn flip(&mut self, index: usize, flip: Flipping, now: Ticks) -> bool {
        if self.roles.destination(index) == flip.to {
            return true;
        }
        if !self.roles.can_spare(index, flip.keep) {
            return false;
        }
        let instance = &mut self.instances[index];
        let role = self
            .roles
            .way(index, flip.to, |done| !instance.effects(&self.trace, &mut self.recorder).meets(done, now));
        self.roles.change(index, role, flip.cause, now);
        self.settle_role();
        true
    }

    /// Changes the pool of an instance that leaves its own, if the condition for that holds. Called whenever anything has
    /// changed that such a condition may read.
    fn leave_if_done(&mut self, index: usize, now: Ticks) {
        if self.roles.any_waits() {
            rare();
            self.try_to_leave(index, now);
        }
    }

    /// As [`Self::leave_if_done`], if an instance waits for its condition.
    #[inline(never)]
    fn try_to_leave(&mut self, index: usize, now: Ticks) {
        let Some(done) = self.roles.condition(index) else { return };
        if self.instances[index].effects(&self.trace, &mut self.recorder).meets(done, now) {
            self.roles.change(index, self.roles.destination(index), Cause::Done, now);
            self.settle_role();
        }
    }

    /// Notes that a role has changed.
    fn settle_role(&mut self) {
        // Requests that are held may go to the pool that the instance is in now.
        self.recorder.changes += 1;
    }
}

#[cfg(test)]
mod tests;
