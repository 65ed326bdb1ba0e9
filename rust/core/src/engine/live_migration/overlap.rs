//! Transfers that overlap with the last step of a prompt.
//!
//! When that step starts on the source, the request is offered to the instance that was picked for its decode as it
//! arrived. If that accepts it before the step ends, the transfer is sent layer by layer. The request leaves its source
//! at the end of the step, and its KV is delivered then or later.

use super::{Delivery, Migrations, Payload};
use crate::engine::cluster::Cluster;
use crate::engine::network::{Layers, Sent, Transfer};
use crate::engine::transfer_log::TransferKind;
use crate::instance::{Origin, Pull};
use crate::time::Ticks;

/// The requests that were offered and have not left their source.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// The request, by its row, and its slot on its target.
    requests: Vec<(u32, u32)>,
}

impl Expected {
    /// Removes a request. Returns its slot on its target, if it was offered.
    pub(super) fn remove(&mut self, request: u32) -> Option<u32> {
        let at = self.requests.iter().position(|expected| expected.0 == request)?;
        Some(self.requests.swap_remove(at).1)
    }
}

impl Migrations {
    /// Offers the requests whose prompts end with the steps that have started to the instances that `target` gives, if it
    /// gives one. Returns whether an instance may start a step because of that.
    #[inline]
    pub(in crate::engine) fn offer_last_steps(
        &mut self,
        target: impl Fn(u32) -> Option<usize>,
        cluster: &mut Cluster,
        now: Ticks,
    ) -> bool {
        let mut any = false;
        while let Some((source, slots)) = cluster.next_last_steps() {
            let Some((since, left)) = cluster.instance(source).current_step() else { continue };
            for slot in slots {
                let request = cluster.instance(source).request_in(slot);
                let Some(target) = target(request).filter(|&target| target != source) else { continue };
                let migrating = cluster.instance(source).anticipate(slot, left);
                let origin = Origin { instance: source, slot, left, since, copied: 0 };
                let slot = cluster.expect(target, &migrating, origin, now);
                self.expected.requests.push((request, slot));
                any = true;
            }
        }
        any && cluster.has_free()
    }

    /// Sends the KV of an accepted request layer by layer; if the target lacks none of it, it is there as the request
    /// leaves its source.
    pub(super) fn send_by_layer(&mut self, delivery: Delivery, cluster: &Cluster, now: Ticks) {
        let Delivery { pull, target, request } = delivery;
        let Pull { tokens, origin: Origin { instance: source, since, left, .. }, .. } = pull;
        let transfer = Transfer { source, target, payload: Payload::Kv(pull) };
        if tokens == 0 && !self.network.is_instant() {
            self.network.announce(transfer, Sent { first_byte: left, delivered: left });
            return;
        }
        let (bytes, count) = (cluster.instance(source).kv_bytes(tokens), cluster.instance(source).kv_layers());
        let sent = self.network.send_layers(transfer, &Layers::new(bytes, count, (since, left)), now);
        self.log.add(request, (source, target), TransferKind::Accepted, bytes, sent, now);
    }
}
