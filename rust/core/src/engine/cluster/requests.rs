//! The requests of a cluster: sent, ended and read.

use std::collections::BTreeMap;

use super::{Cluster, Recorded};
use crate::collections::Column;
use crate::instance::{Asking, Instance, MigratingRequest, PhaseChange, RequestView};
use crate::metrics::{Notice, Reason, Status};
use crate::policy::InstField;
use crate::time::Ticks;
use crate::timeline::Reading;
use crate::trace::RequestNumber;

/// Requests.
impl Cluster {
    /// Rejects a request.
    pub(in crate::engine) fn reject(&mut self, row: usize, reason: Reason) {
        self.recorder.reject(row, reason);
        self.settled += 1;
    }

    /// Writes for how long a router held a request.
    pub(in crate::engine) fn note_held(&mut self, row: usize, now: Ticks) {
        self.recorder.held(row, now - self.trace.arrival[row]);
    }

    /// Ends a request that gave up waiting at its router.
    pub(in crate::engine) fn give_up(&mut self, row: usize, now: Ticks) {
        self.note_held(row, now);
        self.recorder.not_routed(row, Status::GaveUp);
        self.settled += 1;
    }

    /// Writes that a router holds a request as the replay stops.
    pub(in crate::engine) fn halt_held(&mut self, row: usize, now: Ticks) {
        self.note_held(row, now);
        self.recorder.not_routed(row, Status::Held);
    }

    /// Sends an arriving request to an instance.
    pub(in crate::engine) fn send(&mut self, row: usize, index: usize, now: Ticks) {
        self.outstanding[index] += 1;
        self.count_routed(row, index);
        let end = self.at(index).arrive(RequestNumber(row as u32), false, now);
        self.reschedule(index, end, now);
        self.leave_if_done(index, now);
    }

    /// Lists the free instances on which a request changed its phase, by index.
    pub(in crate::engine) fn list_phase_changes(&mut self, changed: &mut Vec<usize>) {
        changed.clear();
        if self.free.len() > 1 {
            self.free.sort_unstable();
        }
        changed.extend(self.free.iter().filter(|&&index| self.instances[index].outbox().has_phase_changes()));
        for &index in &*changed {
            self.instances[index].outbox_mut().sort_phase_changes();
        }
    }

    /// The next phase change on an instance, in order of admission: of which request in which slot.
    pub(in crate::engine) fn next_phase_change(
        &mut self,
        index: usize,
    ) -> Option<(PhaseChange, u32, RequestNumber)> {
        let instance = &mut self.instances[index];
        while let Some((change, slot)) = instance.outbox_mut().pop_phase_change() {
            let request = instance.request_in(slot);
            if instance.still_runs(slot, request) {
                return Some((change, slot, request));
            }
        }
        None
    }

    /// The view that policies have of a request on an instance.
    pub(in crate::engine) fn view(&self, index: usize, slot: u32, now: Ticks) -> RequestView {
        self.instances[index].view(slot, now)
    }

    /// A field of an instance at this moment, if that is read without applying anything and in few instructions.
    pub(in crate::engine) fn field_at_once(
        &self,
        index: usize,
        (field, class): (InstField, u32),
        now: Ticks,
    ) -> Option<f64> {
        self.instances[index].field_at_once(field, class, now)
    }

    /// A field of an instance, for a request, at this moment.
    pub(in crate::engine) fn field(
        &mut self,
        index: usize,
        (field, class): (InstField, u32),
        request: &Asking,
        now: Ticks,
    ) -> f64 {
        if field == InstField::Role {
            return f64::from(self.roles.of(index));
        }
        self.at(index).field((field, class), now, request)
    }

    /// A field of an instance at this moment, which does not depend on a request.
    pub(in crate::engine) fn state(&mut self, index: usize, field: InstField, now: Ticks) -> f64 {
        let view = RequestView::arriving(RequestNumber(0), now, &self.trace);
        self.field(index, (field, 0), &Asking { view: &view, place: None }, now)
    }

    /// Applies the steps of an instance's run that have ended by now.
    pub(in crate::engine) fn catch_up(&mut self, index: usize, now: Ticks) {
        self.at(index).apply_until(now);
    }

    /// Takes what happened to requests since the last call, by row, where it is kept.
    pub(in crate::engine) fn take_notices(&mut self) -> Vec<Notice> {
        self.recorder.notices.as_mut().map_or_else(Vec::new, std::mem::take)
    }

    /// Output tokens of a request that has finished or was dropped.
    pub(in crate::engine) fn tokens_yielded(&self, row: u32) -> u32 {
        self.recorder.columns.generated_tokens[row as usize]
    }

    /// Takes the requests that have ended since the last call, and how, where they are listed.
    pub(in crate::engine) fn take_ends(&mut self) -> Vec<(u32, Status)> {
        self.recorder.ends.as_mut().map_or_else(Vec::new, std::mem::take)
    }

    /// Whether requests have ended that are listed.
    pub(in crate::engine) fn has_ends(&self) -> bool {
        self.recorder.ends.as_ref().is_some_and(|ends| !ends.is_empty())
    }

    /// Whether there is anything to take.
    pub(in crate::engine) fn has_notices(&self) -> bool {
        self.recorder.notices.as_ref().is_some_and(|notices| !notices.is_empty())
    }

    /// Ends the run of an instance with the step in progress.
    pub(in crate::engine) fn truncate_run(&mut self, index: usize, now: Ticks) {
        let end = self.instances[index].truncate_run(now);
        self.reschedule(index, end, now);
    }

    /// Makes a request ask to leave once the step in progress has ended.
    pub(in crate::engine) fn request_departure(&mut self, index: usize, slot: u32) {
        self.instances[index].request_departure(slot);
    }

    /// Stops all instances at the end of the simulated time.
    pub(in crate::engine) fn halt<'a>(
        &mut self,
        in_transfer: impl Iterator<Item = &'a MigratingRequest>,
        now: Ticks,
    ) {
        for instance in &mut self.instances {
            instance.effects(&self.trace, &mut self.recorder).halt(now);
        }
        for migrating in in_transfer {
            migrating.write_unfinished(&mut self.recorder);
        }
    }

    /// Writes that requests wait for their targets to accept them as the replay stops.
    pub(in crate::engine) fn halt_announced(&mut self, waiting: impl Iterator<Item = RequestNumber>) {
        for request in waiting {
            self.recorder.columns.status[request.index()] = Status::Waiting as u8;
        }
    }

    /// A reading of each instance at `now`, all events of which have been handled.
    pub(in crate::engine) fn readings(&mut self, now: Ticks) -> impl Iterator<Item = Reading> + '_ {
        let Self { instances, roles, trace, recorder, .. } = self;
        let of = move |(index, instance): (usize, &mut Instance)| {
            instance.effects(trace, recorder).reading(now, roles.of(index))
        };
        instances.iter_mut().enumerate().map(of)
    }

    /// The columns and counters of the instances.
    pub(in crate::engine) fn into_recorded(mut self) -> Recorded {
        let stats = self.instances.iter().map(Instance::stats).collect();
        let stores: BTreeMap<_, _> = self.instances.iter().filter_map(Instance::store_stats).collect();
        let mut decisions: Vec<_> = self.instances.iter_mut().map(Instance::take_log).collect();
        let mut tiers: Vec<_> = self.instances.iter_mut().map(Instance::take_tier_log).collect();
        let mut columns = self.recorder.columns;
        let origins = self.trace.origins.map(Column::into_vec);
        if let Some(origins) = &origins {
            columns.restore(origins);
            for steps in &mut decisions {
                steps.restore(origins);
            }
            tiers.iter_mut().flatten().for_each(|tier| tier.restore(origins));
        }
        Recorded {
            stats,
            decisions,
            tiers,
            stores: stores.into_values().collect(),
            flips: self.roles.into_history(origins.as_deref()),
            columns,
            gaps: self.recorder.gaps,
            origins,
        }
    }
}
