//! The instances of a replay, and when their steps end.
//!
//! Everything that happens to an instance goes through the cluster, which keeps the calendar of steps and the counts of
//! requests up to date.

mod handovers;
mod reporting;

use std::hint::select_unpredictable;

use super::calendar::Calendar;
use super::roles::{Cause, FlipRecord, Flipping, Roles};
use super::router::Known;
use crate::error::Error;
use crate::hint::rare;
use crate::instance::{Asking, Instance, MigratingRequest, PhaseChange, RequestView, StepColumns};
use crate::metrics::{Columns, InstanceStats, Notice, Reason, Recorder, Sketch, Status};
use crate::policy::InstField;
use crate::time::{HORIZON, NEVER, TICKS_PER_SECOND, Ticks};
use crate::timeline::Reading;
use crate::trace::Trace;

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
    /// Requests sent to each instance and not finished.
    outstanding: Vec<u64>,
    /// Requests that finished, were rejected or gave up.
    settled: u64,
    /// Events so far.
    events: Events,
    /// The knowledge that routers have of the instances.
    known: Known,
}

/// How many events there were.
#[derive(Debug, Clone, Copy, Default)]
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
    /// The changes of roles, in order.
    pub(super) flips: Vec<FlipRecord>,
}

impl Cluster {
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
            outstanding: vec![0; n],
            settled: 0,
            events: Events::default(),
            known,
        }
    }

    /// The number of instances.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.instances.len()
    }

    /// An instance.
    #[inline]
    pub(super) fn instance(&self, index: usize) -> &Instance {
        &self.instances[index]
    }

    /// All instances.
    #[inline]
    pub(super) fn instances(&self) -> &[Instance] {
        &self.instances
    }

    /// The trace.
    #[inline]
    pub(super) fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Requests sent to an instance and not finished.
    #[inline]
    pub(super) fn outstanding(&self, index: usize) -> u64 {
        self.outstanding[index]
    }

    /// The first instance with the fewest requests that were sent to it and are not finished.
    #[inline]
    pub(super) fn fewest_outstanding(&self) -> Option<usize> {
        let (mut least, mut first) = (*self.outstanding.first()?, 0);
        for (index, &count) in self.outstanding.iter().enumerate().skip(1) {
            let is_less = count < least;
            least = select_unpredictable(is_less, count, least);
            first = select_unpredictable(is_less, index, first);
        }
        Some(first)
    }

    /// The knowledge that routers have of the instances.
    #[inline]
    pub(super) fn known(&self) -> &Known {
        &self.known
    }

    /// First tokens, and requests that left their instance for good, so far.
    #[inline]
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

    /// Whether every request of the trace finished, was rejected or gave up.
    #[inline]
    pub(super) fn all_settled(&self) -> bool {
        self.settled == self.trace.len() as u64
    }

    /// Whether a request has finished.
    pub(super) fn has_finished(&self, request: u32) -> bool {
        self.recorder.columns.status[request as usize] == Status::Finished as u8
    }

    /// Events so far: ends of steps, arrivals, deliveries and runs of monitors.
    #[inline]
    pub(super) fn events(&self) -> u64 {
        self.events.all
    }

    /// Events so far that may have changed what instances report: all but the runs of monitors that changed no role.
    pub(super) fn happenings(&self) -> u64 {
        self.events.all - self.events.looks + self.roles.changes()
    }

    /// Counts an event that is not the end of a step.
    #[inline]
    pub(super) fn count_event(&mut self) {
        self.events.all += 1;
    }

    /// Counts a run of a monitor.
    pub(super) fn count_look(&mut self) {
        self.events.all += 1;
        self.events.looks += 1;
    }
}

/// Steps.
impl Cluster {
    /// When the next step or run ends, and on which instance.
    #[inline]
    pub(super) fn next_end(&self) -> (Ticks, usize) {
        self.calendar.first()
    }

    /// Whether no other step ends at the moment at which a step of this instance has ended, and no request changed its
    /// phase in it.
    #[inline]
    pub(super) fn is_alone(&self, index: usize, now: Ticks) -> bool {
        !self.instances[index].has_phase_changes() && self.calendar.others_are_after(index, now)
    }

    /// Ends the step or run of an instance.
    #[inline]
    pub(super) fn end_step(&mut self, index: usize, now: Ticks) {
        self.events.all += 1;
        let finished = self.instances[index].finish(now, &self.trace, &mut self.recorder);
        self.outstanding[index] -= finished;
        self.settled += finished;
        self.leave_if_done(index, now);
    }

    /// Ends all steps that end now, by index, and marks their instances as free. Then ends the delays that end now.
    #[inline]
    pub(super) fn end_steps(&mut self, now: Ticks) {
        while let (time, index) = self.calendar.first()
            && time == now
        {
            self.end_step(index, now);
            self.free(index);
        }
        while let Some(index) = self.roles.end_delay(now) {
            rare();
            self.events.all += 1;
            self.settle_role(index);
        }
    }

    /// Marks an instance as free to start a step at this moment.
    #[inline]
    pub(super) fn free(&mut self, index: usize) {
        self.calendar.clear(index);
        self.free.push(index);
    }

    /// Starts a step on an instance, if it has one to run.
    #[inline]
    pub(super) fn start_step(&mut self, index: usize, now: Ticks) -> Result<(), Error> {
        let instance = &mut self.instances[index];
        let end = instance.begin(now, &self.trace, &mut self.recorder)?;
        if instance.has_pulls() {
            rare();
            self.with_pulls.push(index);
        }
        if instance.has_last_steps() {
            rare();
            self.with_last_steps.push(index);
        }
        let dropped = instance.take_dropped();
        if dropped > 0 {
            rare();
            self.outstanding[index] -= dropped;
            self.settled += dropped;
        }
        self.calendar.set(index, end.unwrap_or(NEVER));
        self.leave_if_done(index, now);
        Ok(())
    }

    /// Starts a step on every free instance.
    #[inline]
    pub(super) fn start_steps(&mut self, now: Ticks) -> Result<(), Error> {
        for at in 0..self.free.len() {
            self.start_step(self.free[at], now)?;
        }
        self.free.clear();
        Ok(())
    }

    /// Whether an instance is free to start a step at this moment.
    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Sorts the free instances by index and removes duplicates.
    pub(super) fn sort_free(&mut self) {
        self.free.sort_unstable();
        self.free.dedup();
    }

    /// Whether no instance runs a step.
    pub(super) fn is_idle(&self) -> bool {
        self.instances.iter().all(Instance::is_idle)
    }

    /// Makes the step in progress of every instance take `ticks`.
    ///
    /// # Errors
    ///
    /// If a step would end past the range of the clock.
    pub(super) fn stretch_steps(&mut self, ticks: Ticks, now: Ticks) -> Result<(), Error> {
        for (index, instance) in self.instances.iter_mut().enumerate() {
            if let Some(end) = instance.stretch_step(ticks) {
                if end > HORIZON {
                    return Err(Error::ClockOverflow { seconds: now / TICKS_PER_SECOND, instance: index });
                }
                self.calendar.set(index, end);
            }
        }
        Ok(())
    }

    /// Updates the calendar after something happened to an instance: its run now ends at `end`, or where it did before.
    fn reschedule(&mut self, index: usize, end: Option<Ticks>, now: Ticks) {
        match end {
            Some(end) if end > now => self.calendar.set(index, end),
            Some(_) => {
                // A step of the run ends at this very moment, and the run with it.
                self.end_step(index, now);
                self.free(index);
            }
            None => {
                if self.instances[index].is_idle() && !self.free.contains(&index) {
                    self.free.push(index);
                }
            }
        }
    }

    /// The error of a replay in which nothing can happen any more although requests are left, `held` of them at routers.
    #[cold]
    pub(super) fn no_progress(&self, held: usize, now: Ticks) -> Error {
        let left = self.trace.len() as u64 - self.settled;
        let blocked = self.instances.iter().find_map(|instance| instance.blockage(now));
        let rule = if held > 0 {
            format!(
                "the router holds {held} requests, and every instance is idle; routing.on_arrival must let a \
                request go once no other is left"
            )
        } else {
            format!("{left} requests are on no instance and not in transfer")
        };
        blocked.unwrap_or(Error::NoProgress { instance: 0, at: now, rule })
    }
}

/// Roles.
impl Cluster {
    /// The pool of each instance.
    #[inline]
    pub(super) fn roles(&self) -> &Roles {
        &self.roles
    }

    /// When the next delay of an instance that changes its pool ends.
    #[inline]
    pub(super) fn next_role(&self) -> Ticks {
        self.roles.next_due()
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
            .way(index, flip.to, |done| !instance.meets(done, now, &self.trace, &mut self.recorder));
        self.roles.change(index, role, flip.cause, now);
        self.settle_role(index);
        if self.roles.condition(index).is_some() {
            // The end of a prefill is to be an event from now on: a run that was planned beyond it ends there.
            self.truncate_run(index, now);
        }
        true
    }

    /// Changes the pool of an instance that leaves its own, if the condition for that holds. Called whenever anything has
    /// changed that such a condition may read.
    #[inline]
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
        if self.instances[index].meets(done, now, &self.trace, &mut self.recorder) {
            self.roles.change(index, self.roles.destination(index), Cause::Done, now);
            self.settle_role(index);
        }
    }

    /// Updates what an instance has to report, once its role has changed.
    fn settle_role(&mut self, index: usize) {
        // Requests that are held may go to the pool that the instance is in now.
        self.recorder.changes += 1;
        let waits = self.roles.condition(index).is_some();
        self.instances[index].await_prefills(waits);
    }
}

/// Requests.
impl Cluster {
    /// Rejects a request.
    pub(super) fn reject(&mut self, row: usize, reason: Reason) {
        self.recorder.reject(row, reason);
        self.settled += 1;
    }

    /// Writes for how long a router held a request.
    pub(super) fn note_held(&mut self, row: usize, now: Ticks) {
        self.recorder.held(row, now - self.trace.arrival[row]);
    }

    /// Ends a request that gave up waiting at its router.
    pub(super) fn give_up(&mut self, row: usize, now: Ticks) {
        self.note_held(row, now);
        self.recorder.not_routed(row, Status::GaveUp);
        self.settled += 1;
    }

    /// Writes that a router holds a request as the replay stops.
    pub(super) fn halt_held(&mut self, row: usize, now: Ticks) {
        self.note_held(row, now);
        self.recorder.not_routed(row, Status::Held);
    }

    /// Sends an arriving request to an instance.
    pub(super) fn send(&mut self, row: usize, index: usize, now: Ticks) {
        self.outstanding[index] += 1;
        self.count_routed(row, index);
        let end = self.instances[index].arrive(row as u32, now, &self.trace, &mut self.recorder);
        self.reschedule(index, end, now);
        self.leave_if_done(index, now);
    }

    /// Lists the free instances on which a request changed its phase, by index.
    pub(super) fn list_phase_changes(&mut self, changed: &mut Vec<usize>) {
        changed.clear();
        if self.free.len() > 1 {
            self.free.sort_unstable();
        }
        changed.extend(self.free.iter().filter(|&&index| self.instances[index].has_phase_changes()));
        for &index in &*changed {
            self.instances[index].sort_phase_changes();
        }
    }

    /// The next phase change on an instance, in order of admission: of which request in which slot.
    pub(super) fn next_phase_change(&mut self, index: usize) -> Option<(PhaseChange, u32, u32)> {
        let instance = &mut self.instances[index];
        while let Some((change, slot)) = instance.pop_phase_change() {
            let request = instance.request_in(slot);
            if instance.still_runs(slot, request) {
                return Some((change, slot, request));
            }
        }
        None
    }

    /// The view that policies have of a request on an instance.
    pub(super) fn view(&self, index: usize, slot: u32, now: Ticks) -> RequestView {
        self.instances[index].view(slot, now)
    }

    /// A field of an instance at this moment, if that is read without booking anything and in few instructions.
    #[inline]
    pub(super) fn field_at_once(
        &self,
        index: usize,
        (field, class): (InstField, u32),
        now: Ticks,
    ) -> Option<f64> {
        self.instances[index].field_at_once(field, class, now)
    }

    /// A field of an instance, for a request, at this moment.
    pub(super) fn field(
        &mut self,
        index: usize,
        (field, class): (InstField, u32),
        request: &Asking,
        now: Ticks,
    ) -> f64 {
        if field == InstField::Role {
            return f64::from(self.roles.of(index));
        }
        self.instances[index].field((field, class), now, request, &self.trace, &mut self.recorder)
    }

    /// Books the steps of an instance's run that have ended by now.
    pub(super) fn catch_up(&mut self, index: usize, now: Ticks) {
        self.instances[index].apply_until(now, &self.trace, &mut self.recorder);
    }

    /// Takes what happened to requests since the last call, by row, where it is kept.
    #[inline]
    pub(super) fn take_notices(&mut self) -> Vec<Notice> {
        self.recorder.notices.as_mut().map_or_else(Vec::new, std::mem::take)
    }

    /// Output tokens of a request that has finished or was dropped.
    pub(super) fn tokens_yielded(&self, row: u32) -> u32 {
        self.recorder.columns.generated_tokens[row as usize]
    }

    /// Whether there is anything to take.
    #[inline]
    pub(super) fn has_notices(&self) -> bool {
        self.recorder.notices.as_ref().is_some_and(|notices| !notices.is_empty())
    }

    /// Ends the run of an instance with the step in progress.
    pub(super) fn truncate_run(&mut self, index: usize, now: Ticks) {
        let end = self.instances[index].truncate_run(now);
        self.reschedule(index, end, now);
    }

    /// Makes a request ask to leave once the step in progress has ended.
    pub(super) fn request_departure(&mut self, index: usize, slot: u32) {
        self.instances[index].request_departure(slot);
    }

    /// Stops all instances at the end of the simulated time.
    pub(super) fn halt<'a>(&mut self, in_transfer: impl Iterator<Item = &'a MigratingRequest>, now: Ticks) {
        for instance in &mut self.instances {
            instance.halt(now, &self.trace, &mut self.recorder);
        }
        for migrating in in_transfer {
            migrating.write_unfinished(&mut self.recorder);
        }
    }

    /// A reading of each instance at `now`, all events of which have been handled.
    pub(super) fn readings(&mut self, now: Ticks) -> impl Iterator<Item = Reading> + '_ {
        let Self { instances, roles, trace, recorder, .. } = self;
        let of = move |(index, instance): (usize, &mut Instance)| {
            instance.reading(now, roles.of(index), trace, recorder)
        };
        instances.iter_mut().enumerate().map(of)
    }

    /// The columns and counters of the instances.
    pub(super) fn into_recorded(mut self) -> Recorded {
        Recorded {
            stats: self.instances.iter().map(Instance::stats).collect(),
            decisions: self.instances.iter_mut().map(Instance::take_log).collect(),
            flips: self.roles.into_history(),
            columns: self.recorder.columns,
            gaps: self.recorder.gaps,
        }
    }
}

#[cfg(test)]
mod tests;
