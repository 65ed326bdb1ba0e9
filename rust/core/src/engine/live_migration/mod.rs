//! Requests that migrate between instances.
//!
//! A request leaves the batch of its instance, its KV is transferred, and it queues on the target. In a live migration
//! its KV is copied in stages while it keeps running, so that only the last stage is transferred while it is in no
//! batch. The first stage copies all KV, each later one what the request has generated since.

mod overlap;
mod reserved;

use serde::{Deserialize, Serialize};

use self::overlap::Expected;
use self::reserved::Reservations;
use super::cluster::Cluster;
use super::network::{Delivered, Network, Sent, Transfer};
use super::transfer_log::{TransferKind, TransferLog, TransferRecord};
use std::collections::VecDeque;

use crate::config::{Handover, Links, Window};
use crate::hint::rare;
use crate::instance::{MigratingRequest, Origin, Pull, RequestView};
use crate::metrics::NetworkStats;
use crate::policy::Live;
use crate::time::{NEVER, Ticks};
use crate::trace::RequestNumber;

/// A migration, from the moment at which it is decided.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Migration {
    /// The request, by its row.
    pub(super) request: RequestNumber,
    /// The slot of the request on the source.
    pub(super) slot: u32,
    /// The instance that it leaves.
    pub(super) source: usize,
    /// The instance to which it migrates.
    pub(super) target: usize,
    /// Tokens whose KV is at the target already.
    copied: u32,
    /// Whether the request migrated elsewhere in the meantime.
    void: bool,
}

impl Migration {
    /// A migration of which nothing has been copied.
    pub(super) fn new(request: RequestNumber, slot: u32, source: usize, target: usize) -> Self {
        Self { request, slot, source, target, copied: 0, void: false }
    }
}

/// The contents of a transfer.
#[derive(Debug, Serialize, Deserialize)]
enum Payload {
    /// A request that has left the batch; the source frees its slot.
    Request { slot: u32, migrating: MigratingRequest },
    /// The KV of a request that its target has accepted.
    Kv(Pull),
    /// A copy of the KV that a running request has so far.
    Copy(Stage),
}

/// A stage of a live migration.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Stage {
    /// The migration, as it stands once this stage has been delivered.
    migration: Migration,
    /// How often the request had been preempted when copying began. Another preemption ends the migration.
    preemptions: u32,
    /// The number of this stage, from 1.
    number: u32,
    /// The rule of the live migration.
    live: Live,
}

/// A request that its target has accepted.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Delivery {
    /// Its KV.
    pull: Pull,
    /// Its target.
    target: usize,
    /// The request, by its row.
    request: RequestNumber,
}

/// All migrations that have not ended.
#[derive(Debug)]
pub(super) struct Migrations {
    /// Those whose request has not left its source.
    under_way: Vec<Migration>,
    /// Transfers of requests and of stages.
    network: Network<Payload>,
    /// How requests take memory on their targets, if they do before they are transferred.
    handover: Option<Handover>,
    /// When the sources of offered requests give up their KV, in order: the target and the request.
    leases: VecDeque<(Ticks, usize, RequestNumber)>,
    /// Requests that were offered while the last step of their prompt runs.
    expected: Expected,
    /// Requests that were offered as they arrived.
    reserved: Reservations,
    /// The transfers, where they are recorded.
    log: TransferLog,
    /// A list that is reused.
    pulls: Vec<Pull>,
}

crate::checkpoint::checkpointed!(Migrations {
    values: under_way, leases, expected, reserved, pulls;
    parts: network, log;
    fixed: handover;
});

impl Migrations {
    /// No migrations.
    pub(super) fn new(links: Option<&Links>, handover: Option<Handover>, instances: usize) -> Self {
        Self {
            under_way: Vec::new(),
            network: Network::new(links, instances),
            handover,
            leases: VecDeque::new(),
            expected: Expected::default(),
            reserved: Reservations::default(),
            log: TransferLog::new(None),
            pulls: Vec::new(),
        }
    }

    /// Has the transfers recorded that are sent within a window.
    pub(super) fn record(&mut self, window: Window) {
        self.log = TransferLog::new(Some(window));
    }

    /// The recorded transfers. `origins`: the row in the trace of each request, by its number, where that is another.
    pub(super) fn into_records(self, origins: Option<&[u32]>) -> Vec<TransferRecord> {
        self.log.into_records(origins)
    }

    /// When the next transfer is delivered, or the KV of a request is given up.
    pub(super) fn next_delivery(&self) -> Ticks {
        let delivery = self.network.next();
        if !self.hand_over() {
            return delivery;
        }
        rare();
        let lease = self.leases.front().map_or(NEVER, |lease| lease.0);
        delivery.min(lease).min(self.expected.next_end())
    }

    /// Whether requests take memory on their targets before they are transferred.
    pub(super) fn hand_over(&self) -> bool {
        self.handover.is_some()
    }

    /// Requests that have left their source and not reached their target.
    pub(super) fn in_transfer(&self) -> impl Iterator<Item = &MigratingRequest> {
        self.network.in_transit().filter_map(|payload| match payload {
            Payload::Request { migrating, .. } => Some(migrating),
            Payload::Kv(_) | Payload::Copy(_) => None,
        })
    }

    /// The bytes that the network has carried by `end`.
    pub(super) fn network_stats(&self, end: Ticks) -> NetworkStats {
        self.network.stats(end)
    }

    /// Whether a request is about to leave its instance.
    pub(super) fn is_under_way(&self, request: RequestNumber) -> bool {
        self.under_way.iter().any(|migration| migration.request == request)
    }

    /// Forgets migrations whose request finished, or was cancelled, before it left.
    pub(super) fn forget_finished(&mut self, cluster: &Cluster) {
        self.under_way.retain(|migration| !cluster.has_ended(migration.request));
    }

    /// Removes the migration of a request that was asked to leave, and migrates it now.
    pub(super) fn leave_as_asked(
        &mut self,
        slot: u32,
        request: RequestNumber,
        cluster: &mut Cluster,
        now: Ticks,
    ) {
        if let Some(at) = self.under_way.iter().position(|migration| migration.request == request) {
            let migration = Migration { slot, ..self.under_way.swap_remove(at) };
            self.leave(&migration, cluster, now);
        }
    }

    /// Migrates a request now, and voids a live migration of it that is under way.
    pub(super) fn leave_at_once(&mut self, migration: &Migration, cluster: &mut Cluster, now: Ticks) {
        for other in &mut self.under_way {
            other.void |= other.request == migration.request;
        }
        self.leave(migration, cluster, now);
    }

    /// Begins the migration of a running request: in stages while it keeps running if `live` allows any, else once the
    /// step in progress has ended.
    pub(super) fn begin(
        &mut self,
        migration: Migration,
        view: &RequestView,
        live: Option<Live>,
        cluster: &mut Cluster,
        now: Ticks,
    ) {
        match live.filter(|live| live.stages > 0) {
            None => self.leave_after_step(migration, cluster, now),
            Some(live) => {
                self.under_way.push(migration);
                let stage = Stage { migration, preemptions: view.preemptions, number: 0, live };
                self.copy(stage, view, cluster, now);
            }
        }
    }

    /// Delivers all transfers that are delivered by `now`.
    pub(super) fn deliver(&mut self, cluster: &mut Cluster, now: Ticks) {
        self.release_ended(cluster, now);
        if self.next_delivery() <= now {
            self.call_off_ended(cluster, now);
            self.deliver_some(cluster, now);
            self.end_leases(cluster, now);
        }
    }

    /// As [`Self::deliver`], if there is one.
    #[inline(never)]
    fn deliver_some(&mut self, cluster: &mut Cluster, now: Ticks) {
        while let Some(Delivered { source, target, payload, first_byte }) = self.network.deliver(now) {
            cluster.count_event();
            match payload {
                Payload::Request { slot, migrating } => {
                    cluster.free_migrated(source, slot, now);
                    cluster.migrate_in(target, &migrating, now);
                    leave_if_cancelled(migrating.request, cluster, now);
                }
                Payload::Kv(pull) if cluster.release_if_called_off(target, pull.slot, now) => {}
                Payload::Kv(pull) => {
                    cluster.free_migrated(source, pull.origin.slot, now);
                    cluster.note_handover(target, &pull, first_byte, now);
                    cluster.receive(target, pull.slot, now);
                    let request = cluster.instance(target).request_in(pull.slot);
                    leave_if_cancelled(request, cluster, now);
                }
                Payload::Copy(stage) => self.follow(stage, cluster, now),
            }
        }
    }

    /// An offer was accepted: nothing happens when its time is over.
    fn forget_lease(&mut self, target: usize, request: RequestNumber) {
        // Mostly the oldest offers are accepted first.
        let place = self.leases.iter().position(|lease| (lease.1, lease.2) == (target, request));
        if let Some(place) = place {
            self.leases.remove(place);
        }
    }

    /// Frees the KV of a request that was offered to `target` and has been cancelled.
    pub(super) fn withdraw(
        &mut self,
        target: usize,
        request: RequestNumber,
        origin: &Origin,
        cluster: &mut Cluster,
        now: Ticks,
    ) {
        self.forget_lease(target, request);
        cluster.free_migrated(origin.instance, origin.slot, now);
    }

    /// Gives up the KV of the requests that were not accepted in time.
    fn end_leases(&mut self, cluster: &mut Cluster, now: Ticks) {
        while let Some(&(end, target, request)) = self.leases.front()
            && end <= now
        {
            self.leases.pop_front();
            if let Some(origin) = cluster.expire_offer(target, request, now) {
                cluster.count_event();
                cluster.free_migrated(origin.instance, origin.slot, now);
            }
        }
    }

    /// Sends the KV of the requests that were accepted in the steps which start now. What a target lacks none of is
    /// there already.
    /// Returns whether an instance may start a step because of that.
    pub(super) fn send_accepted(&mut self, cluster: &mut Cluster, now: Ticks) -> bool {
        let mut any = false;
        while let Some(target) = cluster.next_with_pulls() {
            self.send_to(target, cluster, now);
            any = true;
        }
        if any {
            self.queue_accepted(cluster, now);
        }
        any && cluster.has_free()
    }

    #[inline(never)]
    fn send_to(&mut self, target: usize, cluster: &mut Cluster, now: Ticks) {
        let mut pulls = std::mem::take(&mut self.pulls);
        cluster.take_pulls(target, &mut pulls);
        for pull in pulls.drain(..) {
            let source = pull.origin.instance;
            let request = cluster.instance(target).request_in(pull.slot);
            if self.reserved.accept(request, pull) {
                continue;
            }
            self.forget_lease(target, request);
            let bytes = cluster.instance(source).settings().moved_bytes(pull.tokens);
            let nothing = pull.tokens == 0 && !cluster.instance(target).settings().has_states();
            let kind = TransferKind::Accepted;
            if pull.origin.left > now || self.sends_by_layer() && !nothing && !self.network.is_instant() {
                self.send_by_layer(Delivery { pull, target, request }, cluster, now);
                continue;
            }
            if self.network.is_instant() || nothing {
                if self.network.is_instant() {
                    self.network.count(bytes);
                    let sent = Sent { first_byte: now, delivered: now };
                    self.log.add(request, (source, target), kind, bytes, sent, now);
                }
                cluster.free_read_at_once(source, pull.origin.slot, now);
                cluster.note_handover(target, &pull, now, now);
                continue;
            }
            let sent = self.network.send(Transfer { source, target, payload: Payload::Kv(pull) }, bytes, now);
            self.log.add(request, (source, target), kind, bytes, sent, now);
        }
        self.pulls = pulls;
    }

    /// Continues a migration of which a stage has been delivered: with another stage, or with the request itself.
    #[inline(never)]
    fn follow(&mut self, stage: Stage, cluster: &mut Cluster, now: Ticks) {
        let Migration { request, slot, source, copied, .. } = stage.migration;
        cluster.catch_up(source, now);
        let view = cluster.view(source, slot, now);
        let void = self.under_way.iter().any(|other| other.request == request && other.void);
        let stays =
            cluster.instance(source).still_runs(slot, request) && view.preemptions == stage.preemptions;
        if void || !stays {
            self.under_way.retain(|other| other.request != request);
            return;
        }
        let left = cluster.instance(source).settings().token_blocks(view.computed - copied);
        if stage.number >= stage.live.stages || left <= stage.live.last_blocks {
            self.under_way.retain(|other| other.request != request);
            self.leave_after_step(stage.migration, cluster, now);
            return;
        }
        self.copy(stage, &view, cluster, now);
    }

    /// Sends the next stage: the KV that the request has and the target has not.
    fn copy(&mut self, last: Stage, view: &RequestView, cluster: &Cluster, now: Ticks) {
        let Migration { source, target, copied, .. } = last.migration;
        let bytes = cluster.instance(source).settings().kv_bytes(view.computed - copied);
        let migration = Migration { copied: view.computed, ..last.migration };
        let payload = Payload::Copy(Stage { migration, number: last.number + 1, ..last });
        let sent = self.network.send(Transfer { source, target, payload }, bytes, now);
        self.log.add(migration.request, (source, target), TransferKind::Stage, bytes, sent, now);
    }

    /// Migrates a request once the step in progress on its source has ended: now if there is none.
    fn leave_after_step(&mut self, migration: Migration, cluster: &mut Cluster, now: Ticks) {
        let source = migration.source;
        cluster.truncate_run(source, now);
        if cluster.instance(source).is_idle() {
            self.leave(&migration, cluster, now);
        } else {
            cluster.request_departure(source, migration.slot);
            self.under_way.push(migration);
        }
    }

    /// Removes a request from the batch of its source. Offers it to its target, or sends the KV that the target has not.
    fn leave(&mut self, migration: &Migration, cluster: &mut Cluster, now: Ticks) {
        let &Migration { slot, source, target, copied, .. } = migration;
        let migrating = cluster.migrate_out(source, slot, now);
        cluster.count_routed(migration.request.index(), target);
        if let Some(reservation) = self.reserved.remove(migration.request) {
            self.send_reserved(&reservation, slot, &migrating, cluster, now);
            return;
        }
        if let Some(rules) = self.handover {
            let waits = if let Some(expected) = self.expected.remove(migrating.request) {
                cluster.confirm(target, expected.slot, &migrating, now)
            } else {
                let origin = Origin { instance: source, slot, left: now, since: now, copied };
                cluster.offer(target, &migrating, origin, now);
                true
            };
            if let Some(lease) = rules.lease.filter(|_| waits) {
                self.leases.push_back((now.saturating_add(lease), target, migrating.request));
            }
            return;
        }
        // States change with every token, so that earlier stages copy none of them.
        let bytes =
            cluster.instance(source).settings().moved_bytes(migrating.kv_tokens.saturating_sub(copied));
        let payload = Payload::Request { slot, migrating };
        let sent = self.network.send(Transfer { source, target, payload }, bytes, now);
        self.log.add(migration.request, (source, target), TransferKind::Request, bytes, sent, now);
    }
}

/// Removes a request that was cancelled while it was in transfer.
fn leave_if_cancelled(request: RequestNumber, cluster: &mut Cluster, now: Ticks) {
    if cluster.is_cancelled(request) {
        rare();
        cluster.remove_cancelled(request, now);
    }
}

#[cfg(test)]
mod tests;
