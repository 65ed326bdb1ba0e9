//! Transfers that overlap with the last step of a prompt.
//!
//! When that step starts on the source, the request is offered to the instance that was picked for its decode as it
//! arrived. If that accepts it before the step ends, the transfer is sent layer by layer. The request leaves its source
//! at the end of the step, and its KV is delivered then or later. If that token is its last, which nothing knows before,
//! its hand-over is called off: the target keeps the blocks until the KV that is on its way has arrived.

use serde::{Deserialize, Serialize};

use super::{Delivery, Migrations, Payload};
use crate::config::Overlap;
use crate::engine::cluster::Cluster;
use crate::engine::network::{Layers, Sent, Transfer};
use crate::engine::transfer_log::TransferKind;
use crate::instance::{Origin, Pull};
use crate::time::{NEVER, Ticks};
use crate::trace::RequestNumber;

/// A request that was offered while the last step of its prompt runs.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct ExpectedRequest {
    /// The request, by its row.
    request: RequestNumber,
    /// When the step ends.
    end: Ticks,
    /// The instance to which it was offered.
    target: usize,
    /// Its slot there.
    pub(super) slot: u32,
}

/// The requests that were offered and have not left their source.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Expected {
    requests: Vec<ExpectedRequest>,
    /// When the first of their steps ends; [`NEVER`] if there is none.
    next_end: Ticks,
}

impl Default for Expected {
    fn default() -> Self {
        Self { requests: Vec::new(), next_end: NEVER }
    }
}

impl Expected {
    /// When the first of their steps ends; [`NEVER`] if there is none.
    pub(super) fn next_end(&self) -> Ticks {
        self.next_end
    }

    fn add(&mut self, expected: ExpectedRequest) {
        self.next_end = self.next_end.min(expected.end);
        self.requests.push(expected);
    }

    /// Removes and returns a request, if it was offered.
    pub(super) fn remove(&mut self, request: RequestNumber) -> Option<ExpectedRequest> {
        self.remove_first(|expected| expected.request == request)
    }

    fn remove_first(&mut self, wanted: impl Fn(&ExpectedRequest) -> bool) -> Option<ExpectedRequest> {
        let at = self.requests.iter().position(wanted)?;
        let removed = self.requests.remove(at);
        self.next_end = self.requests.iter().map(|expected| expected.end).min().unwrap_or(NEVER);
        Some(removed)
    }
}

impl Migrations {
    /// Offers the requests whose prompts end with the steps that have started to the instances that `target` gives, if it
    /// gives one. Returns whether an instance may start a step because of that.
    pub(in crate::engine) fn offer_last_steps(
        &mut self,
        target: impl Fn(RequestNumber) -> Option<usize>,
        cluster: &mut Cluster,
        now: Ticks,
    ) -> bool {
        let mut any = false;
        while let Some((source, slots)) = cluster.next_last_steps() {
            let Some((since, left)) = cluster.instance(source).current_step() else { continue };
            for slot in slots {
                let request = cluster.instance(source).request_in(slot);
                let Some(target) = target(request).filter(|&target| target != source) else { continue };
                any = true;
                if let Some((target, slot)) =
                    self.send_last_layers(request, slot, (since, left), cluster, now)
                {
                    self.expected.add(ExpectedRequest { request, end: left, target, slot });
                    continue;
                }
                let migrating = cluster.instance(source).anticipate(slot, left);
                let origin = Origin { instance: source, slot, left, since, copied: 0 };
                let slot = cluster.expect(target, &migrating, origin, true, now);
                self.expected.add(ExpectedRequest { request, end: left, target, slot });
            }
        }
        any && cluster.has_free()
    }

    /// Calls the hand-overs off of the requests that ended with the last step of their prompt. KV that is on its way
    /// arrives first.
    pub(super) fn call_off_ended(&mut self, cluster: &mut Cluster, now: Ticks) {
        if self.expected.next_end() > now {
            return;
        }
        while let Some(expected) = self.expected.remove_first(|expected| expected.end <= now) {
            cluster.call_off(expected.target, expected.slot, now);
        }
    }

    /// Whether KV that is handed over is sent layer by layer.
    pub(super) fn sends_by_layer(&self) -> bool {
        self.handover.is_some_and(|rules| rules.overlap == Overlap::Layers)
    }

    /// Sends the KV of an accepted request layer by layer; if the target lacks none of it, it is there as the request
    /// leaves its source.
    pub(super) fn send_by_layer(&mut self, delivery: Delivery, cluster: &Cluster, now: Ticks) {
        let Delivery { pull, target, request } = delivery;
        let Pull { tokens, origin: Origin { instance: source, since, left, .. }, .. } = pull;
        let transfer = Transfer { source, target, payload: Payload::Kv(pull) };
        if tokens == 0 && !cluster.instance(target).settings().has_states() && !self.network.is_instant() {
            self.network.announce(transfer, Sent { first_byte: left, delivered: left });
            return;
        }
        let (bytes, count) = (
            cluster.instance(source).settings().moved_bytes(tokens),
            cluster.instance(source).settings().bytes.layers,
        );
        let sent = self.network.send_layers(transfer, &Layers::new(bytes, count, (since, left)), now);
        self.log.add(request, (source, target), TransferKind::Accepted, bytes, sent, now);
    }
}
