//! Migrations and hand-overs of requests between the instances of a cluster.

use super::{Announced, Cluster};
use crate::instance::{MigratingRequest, Origin, Pull};
use crate::time::{NEVER, Ticks};
use crate::trace::RequestNumber;

impl Cluster {
    /// Removes a request from the batch of its instance. Its blocks stay allocated until [`Self::free_migrated`].
    pub(in crate::engine) fn migrate_out(&mut self, index: usize, slot: u32, now: Ticks) -> MigratingRequest {
        self.outstanding[index] -= 1;
        let migrating = self.at(index).migrate_out(slot, now);
        self.leave_if_done(index, now);
        migrating
    }

    /// Frees the blocks of a request whose KV has been read.
    pub(in crate::engine) fn free_migrated(&mut self, index: usize, slot: u32, now: Ticks) {
        let end = self.at(index).finish_transfer(slot, now);
        self.reschedule(index, end, now);
    }

    /// Releases the blocks of a request whose KV was read as steps started: the step of its source that starts now, too,
    /// was formed before that.
    pub(in crate::engine) fn free_read_at_once(&mut self, index: usize, slot: u32, now: Ticks) {
        self.at(index).begin_step(now);
        self.free_migrated(index, slot, now);
    }

    /// Begins the steps that start now within runs.
    #[inline(never)]
    pub(in crate::engine) fn begin_steps(&mut self, now: Ticks) {
        for instance in &mut self.instances {
            instance.effects(&self.trace, &mut self.recorder).begin_step(now);
        }
    }

    /// Queues a migrated request, with its KV, on an instance.
    pub(in crate::engine) fn migrate_in(&mut self, index: usize, migrating: &MigratingRequest, now: Ticks) {
        let end = self.at(index).migrate_in(migrating, now);
        self.outstanding[index] += 1;
        self.reschedule(index, end, now);
        self.leave_if_done(index, now);
    }

    /// Offers a request, whose blocks are held at `origin`, to an instance.
    pub(in crate::engine) fn offer(
        &mut self,
        index: usize,
        migrating: &MigratingRequest,
        origin: Origin,
        now: Ticks,
    ) {
        self.outstanding[index] += 1;
        let end = self.at(index).offer(migrating, origin, now);
        self.reschedule(index, end, now);
        self.leave_if_done(index, now);
    }

    /// Offers a request that has not left its source. `started`: steps that start now have started. Returns its slot here.
    pub(in crate::engine) fn expect(
        &mut self,
        index: usize,
        migrating: &MigratingRequest,
        origin: Origin,
        started: bool,
        now: Ticks,
    ) -> u32 {
        let (slot, end) = self.at(index).expect(migrating, origin, started, now);
        self.reschedule(index, end, now);
        self.leave_if_done(index, now);
        slot
    }

    /// Offers a request that arrives to its target, before its prompt is queued on `source`.
    pub(in crate::engine) fn announce(&mut self, row: usize, source: usize, target: usize, now: Ticks) {
        self.count_routed(row, source);
        self.recorder.columns.instance[row] = source as u32;
        let request = RequestNumber(row as u32);
        let migrating = MigratingRequest::to_come(request, self.trace.prompt_tokens[row]);
        let origin = Origin { instance: source, slot: u32::MAX, left: NEVER, since: now, copied: 0 };
        let slot = self.expect(target, &migrating, origin, false, now);
        self.announced.push(Announced { request, source, target, slot, since: now });
    }

    /// Removes and returns the requests that were announced.
    pub(in crate::engine) fn take_announced(&mut self) -> Vec<Announced> {
        std::mem::take(&mut self.announced)
    }

    /// Queues an announced request, for which its target holds blocks, on its source. Steps that start now have started.
    pub(in crate::engine) fn send_announced(
        &mut self,
        (request, index): (RequestNumber, usize),
        since: Ticks,
        now: Ticks,
    ) {
        self.recorder.columns.acceptance_wait[request.index()] = now - since;
        self.outstanding[index] += 1;
        self.at(index).begin_step(now);
        let end = self.at(index).arrive(request, true, now);
        self.reschedule(index, end, now);
        self.leave_if_done(index, now);
    }

    /// Releases the blocks that are reserved for a request of which no KV was sent.
    pub(in crate::engine) fn release_unsent(&mut self, index: usize, slot: u32, now: Ticks) {
        let end = self.at(index).release_unsent(slot, now);
        self.reschedule(index, end, now);
        self.leave_if_done(index, now);
    }

    /// An expected request, in a slot of an instance, has left its source. Returns whether its offer is still to be accepted.
    pub(in crate::engine) fn confirm(
        &mut self,
        index: usize,
        slot: u32,
        migrating: &MigratingRequest,
        now: Ticks,
    ) -> bool {
        self.outstanding[index] += 1;
        let waits = self.at(index).confirm(slot, migrating, now);
        self.leave_if_done(index, now);
        waits
    }

    /// An expected request has ended with its first token. Withdraws its offer if that was not accepted.
    pub(in crate::engine) fn call_off(&mut self, index: usize, slot: u32, now: Ticks) {
        let (withdrawn, end) = self.at(index).call_off(slot, now);
        if withdrawn {
            self.reschedule(index, end, now);
            self.leave_if_done(index, now);
        }
    }

    /// Releases the blocks of a request that has ended elsewhere with its first token, if that is so, now that its KV has
    /// been received. Returns whether it is.
    pub(in crate::engine) fn release_if_called_off(&mut self, index: usize, slot: u32, now: Ticks) -> bool {
        if !self.instances[index].is_called_off(slot) {
            return false;
        }
        let end = self.at(index).release_reserved(slot, now);
        self.reschedule(index, end, now);
        self.leave_if_done(index, now);
        true
    }

    /// The requests whose prompts end with the steps that have started, in slots of the first instance that has started
    /// such a step and that this has not returned since.
    pub(in crate::engine) fn next_last_steps(&mut self) -> Option<(usize, Vec<u32>)> {
        let first = (0..self.with_last_steps.len()).min_by_key(|&at| self.with_last_steps[at])?;
        let index = self.with_last_steps.swap_remove(first);
        Some((index, self.instances[index].outbox_mut().take_last_steps()))
    }

    /// The first of the instances that have accepted requests and that this has not returned since.
    pub(in crate::engine) fn next_with_pulls(&mut self) -> Option<usize> {
        let first = (0..self.with_pulls.len()).min_by_key(|&at| self.with_pulls[at])?;
        Some(self.with_pulls.swap_remove(first))
    }

    /// Moves the requests that an instance has accepted to `pulls`, which is empty.
    pub(in crate::engine) fn take_pulls(&mut self, index: usize, pulls: &mut Vec<Pull>) {
        self.instances[index].take_pulls(pulls);
    }

    /// Notes that a request was handed over to an instance; the first byte was sent at `sent`.
    pub(in crate::engine) fn note_handover(&mut self, index: usize, pull: &Pull, sent: Ticks, now: Ticks) {
        self.at(index).note_handover(pull, (sent, now));
    }

    /// The KV of an accepted request has been received.
    pub(in crate::engine) fn receive(&mut self, index: usize, slot: u32, now: Ticks) {
        let end = self.at(index).receive(slot, now);
        self.reschedule(index, end, now);
        self.leave_if_done(index, now);
    }

    /// Gives up the KV of a request that was offered to an instance, if it was not accepted. Returns where the KV is.
    pub(in crate::engine) fn expire_offer(
        &mut self,
        index: usize,
        request: RequestNumber,
        now: Ticks,
    ) -> Option<Origin> {
        let (origin, end) = self.at(index).expire_offer(request, now)?;
        self.reschedule(index, end, now);
        self.leave_if_done(index, now);
        Some(origin)
    }
}
