//! Requests for which their target reserves blocks before their prompt is queued.
//!
//! A request is offered as it arrives to the instance that was picked for its decode. Once that has accepted it, in a
//! step that starts, the request is queued where its prompt is computed, and its KV is sent when it leaves there. If it
//! ends before, the blocks are released. Requests that are accepted at one moment are queued in the order of arrival, once
//! all steps of that moment have started.

use serde::{Deserialize, Serialize};

use super::{Delivery, Migrations, Payload};
use crate::engine::cluster::{Announced, Cluster};
use crate::engine::network::{Sent, Transfer};
use crate::engine::transfer_log::TransferKind;
use crate::instance::{MigratingRequest, Origin, Pull};
use crate::time::Ticks;
use crate::trace::RequestNumber;

/// A request that was offered as it arrived, and has not left its source.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Reservation {
    /// The request and its two instances.
    of: Announced,
    /// The KV that the target asked for as it accepted it; `None`: it waits for that.
    accepted: Option<Pull>,
}

impl Reservation {
    /// The KV to send from a slot of the source, which the request leaves as `origin` says.
    pub(super) fn pull(&self, slot: u32, (since, left): (Ticks, Ticks)) -> Option<Pull> {
        let origin = Origin { instance: self.of.source, slot, left, since, copied: 0 };
        self.accepted.map(|pull| Pull { origin, ..pull })
    }
}

/// The requests that were offered as they arrived and have not left their source.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Reservations {
    /// By request.
    list: Vec<Reservation>,
    /// Those that were accepted since they were queued last.
    accepted: Vec<RequestNumber>,
    /// How many requests had ended when this was last searched for those that have.
    ended: u64,
}

impl Reservations {
    fn place(&self, request: RequestNumber) -> Result<usize, usize> {
        self.list.binary_search_by_key(&request, |one| one.of.request)
    }

    fn add(&mut self, reservation: Reservation) {
        if let Err(at) = self.place(reservation.of.request) {
            self.list.insert(at, reservation);
        }
    }

    /// Notes that the target of a request has accepted it. Returns whether it was offered as it arrived.
    pub(super) fn accept(&mut self, request: RequestNumber, pull: Pull) -> bool {
        let Ok(at) = self.place(request) else { return false };
        self.list[at].accepted = Some(pull);
        self.accepted.push(request);
        true
    }

    /// Removes and returns a request, if it was offered as it arrived.
    pub(super) fn remove(&mut self, request: RequestNumber) -> Option<Reservation> {
        if self.list.is_empty() {
            return None;
        }
        self.place(request).ok().map(|at| self.list.remove(at))
    }

    /// Whether a request waits for its target to accept it.
    pub(super) fn waits(&self, request: RequestNumber) -> bool {
        self.place(request).is_ok_and(|at| self.list[at].accepted.is_none())
    }

    /// The requests that wait for their targets to accept them.
    pub(super) fn waiting(&self) -> impl Iterator<Item = RequestNumber> + '_ {
        self.list.iter().filter(|one| one.accepted.is_none()).map(|one| one.of.request)
    }
}

impl Migrations {
    /// Adds the requests that were offered as they arrived.
    pub(in crate::engine) fn reserve(&mut self, cluster: &mut Cluster) {
        for reservation in cluster.take_announced() {
            self.reserved.add(Reservation { of: reservation, accepted: None });
        }
    }

    /// Whether a request waits for its target to accept it, on no instance.
    pub(in crate::engine) fn awaits_acceptance(&self, request: RequestNumber) -> bool {
        self.reserved.waits(request)
    }

    /// The requests that wait for their targets to accept them.
    pub(in crate::engine) fn awaiting_acceptance(&self) -> impl Iterator<Item = RequestNumber> + '_ {
        self.reserved.waiting()
    }

    /// Queues the requests that were accepted on the instances that compute their prompts, in the order of arrival.
    pub(super) fn queue_accepted(&mut self, cluster: &mut Cluster, now: Ticks) {
        let mut accepted = std::mem::take(&mut self.reserved.accepted);
        accepted.sort_unstable();
        for request in accepted.drain(..) {
            if let Ok(at) = self.reserved.place(request) {
                let Announced { source, since, .. } = self.reserved.list[at].of;
                cluster.send_announced((request, source), since, now);
            }
        }
        self.reserved.accepted = accepted;
    }

    /// Whether a request may have ended for which its target holds blocks.
    pub(in crate::engine) fn may_release(&self, cluster: &Cluster) -> bool {
        !self.reserved.list.is_empty() && self.reserved.ended != cluster.settled()
    }

    /// Releases what is reserved for requests that have ended before they left their source. Returns whether there were any.
    pub(in crate::engine) fn release_ended(&mut self, cluster: &mut Cluster, now: Ticks) -> bool {
        if !self.may_release(cluster) {
            return false;
        }
        self.reserved.ended = cluster.settled();
        let mut ended = Vec::new();
        self.reserved.list.retain(|one| {
            let stays = !cluster.is_settled(one.of.request);
            if !stays {
                ended.push(*one);
            }
            stays
        });
        for &Reservation { of: Announced { target, slot, .. }, accepted } in &ended {
            if accepted.is_some() {
                cluster.release_unsent(target, slot, now);
            } else {
                cluster.call_off(target, slot, now);
            }
        }
        !ended.is_empty()
    }

    /// Sends the KV of a request that leaves its source, and for which its target holds blocks.
    pub(super) fn send_reserved(
        &mut self,
        reservation: &Reservation,
        slot: u32,
        migrating: &MigratingRequest,
        cluster: &mut Cluster,
        now: Ticks,
    ) {
        let Announced { request, source, target, slot: reserved, .. } = reservation.of;
        cluster.confirm(target, reserved, migrating, now);
        let Some(pull) = reservation.pull(slot, (now, now)) else { return };
        if self.sends_by_layer() {
            // All layers are ready.
            self.send_by_layer(Delivery { pull, target, request }, cluster, now);
            return;
        }
        let transfer = Transfer { source, target, payload: Payload::Kv(pull) };
        if pull.tokens == 0 && !cluster.instance(target).settings().has_states() && !self.network.is_instant()
        {
            self.network.announce(transfer, Sent { first_byte: now, delivered: now });
            return;
        }
        let bytes = cluster.instance(source).settings().moved_bytes(pull.tokens);
        let sent = self.network.send(transfer, bytes, now);
        self.log.add(request, (source, target), TransferKind::Accepted, bytes, sent, now);
    }

    /// Sends the KV of a request layer by layer whose last step has started, if its target holds blocks for it. Returns its
    /// target and its slot there.
    pub(super) fn send_last_layers(
        &mut self,
        request: RequestNumber,
        slot: u32,
        times: (Ticks, Ticks),
        cluster: &Cluster,
        now: Ticks,
    ) -> Option<(usize, u32)> {
        let reservation = self.reserved.remove(request)?;
        let pull = reservation.pull(slot, times)?;
        self.send_by_layer(Delivery { pull, target: reservation.of.target, request }, cluster, now);
        Some((reservation.of.target, reservation.of.slot))
    }
}
