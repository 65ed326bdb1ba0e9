//! The network between instances.
//!
//! A transfer crosses one or more media ([`Topology`]): the outgoing side of the sender's port and the incoming side of
//! the receiver's, and what their nodes share. It occupies all of them for as long as the slowest needs for its bytes.
//! When it is sent, it takes the earliest interval in which all its media are free for that long, so that the moment of
//! its delivery is known at once. Intervals that earlier transfers took do not move. So no transfer waits forever, and a
//! transfer to an idle receiver does not wait for a busy one. It is delivered a latency after its interval, the largest
//! latency of its media. Without links, every transfer is delivered at once.

mod free_time;
mod layers;
mod medium;
mod rate;
mod topology;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

pub(super) use self::layers::Layers;
use self::medium::Medium;
use self::topology::{Path, Topology};
use crate::config::Links;
use crate::metrics::NetworkStats;
use crate::time::{NEVER, Ticks};

/// Data on its way from one instance to another.
#[derive(Debug)]
pub(super) struct Transfer<T> {
    /// The sender.
    pub(super) source: usize,
    /// The receiver.
    pub(super) target: usize,
    /// The contents.
    pub(super) payload: T,
}

/// A transfer that is delivered.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Delivered<T> {
    /// The sender.
    pub(super) source: usize,
    /// The receiver.
    pub(super) target: usize,
    /// The contents.
    pub(super) payload: T,
    /// When its first byte was sent.
    pub(super) first_byte: Ticks,
}

/// When a transfer is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sent {
    /// When its first byte is sent.
    pub(super) first_byte: Ticks,
    /// When it is delivered.
    pub(super) delivered: Ticks,
}

/// How long a message takes on its path if nothing else is under way.
#[derive(Debug, Clone, Copy)]
struct Alone {
    /// The media.
    path: Path,
    /// The time in which it occupies them.
    duration: Ticks,
    /// The time from its last byte sent to its last byte received.
    latency: Ticks,
}

/// The media, and which transfers cross which.
#[derive(Debug)]
struct Wires {
    topology: Topology,
    media: Vec<Medium>,
}

crate::checkpoint::checkpointed!(Wires {
    parts: media;
    fixed: topology;
});

impl Wires {
    /// How long a message takes from `source` to `target` by itself.
    fn alone(&self, source: usize, target: usize, bytes: u64) -> Alone {
        let path = self.topology.path(source, target);
        let media = || path.media().iter().map(|&medium| &self.media[medium]);
        Alone {
            path,
            duration: media().map(|medium| medium.time(bytes)).max().unwrap_or(0),
            latency: media().map(|medium| medium.latency).max().unwrap_or(0),
        }
    }

    /// The earliest moment from `now` on at which all media of a path are free for a duration.
    fn earliest(&self, path: &Path, duration: Ticks, now: Ticks) -> Ticks {
        if duration == 0 {
            return now;
        }
        let mut start = now;
        let mut agreed = 0;
        for &medium in path.media().iter().cycle() {
            let earliest = self.media[medium].free.earliest(start, duration);
            agreed = if earliest > start { 1 } else { agreed + 1 };
            start = earliest;
            if agreed == path.media().len() {
                break;
            }
        }
        start
    }

    /// How long the layers of a transfer take from `source` to `target` by themselves, back to back, and the earliest
    /// moment from `now` on at which none of them has to wait for its KV.
    fn alone_by_layer(
        &self,
        (source, target): (usize, usize),
        layers: &Layers,
        now: Ticks,
    ) -> (Alone, Ticks) {
        let (less, more) = layers.sizes();
        let alone = self.alone(source, target, less);
        let times = (alone.duration, self.alone(source, target, more).duration);
        (Alone { duration: layers.duration(times), ..alone }, now.max(layers.earliest(times)))
    }

    /// Occupies the media of a transfer from a moment, which may be later than `now`, or after that.
    fn send(&mut self, alone: Alone, bytes: u64, from: Ticks, now: Ticks) -> Sent {
        let Alone { path, duration, latency } = alone;
        for &medium in path.media() {
            self.media[medium].free.forget(now);
        }
        let first_byte = self.earliest(&path, duration, from);
        for &medium in path.media() {
            self.media[medium].occupy(first_byte, duration, bytes);
        }
        Sent { first_byte, delivered: first_byte.saturating_add(duration).saturating_add(latency) }
    }
}

/// The media between the instances, and all transfers that have not been delivered.
#[derive(Debug)]
pub(super) struct Network<T> {
    /// The media; `None`: transfers take no time.
    wires: Option<Wires>,
    /// (when it is delivered, order of sending, its place in `in_transit`).
    deliveries: BinaryHeap<Reverse<(Ticks, u64, usize)>>,
    /// Transfers that have not been delivered, in places that deliveries refer to.
    in_transit: Vec<Option<Delivered<T>>>,
    /// Empty places in `in_transit`.
    vacant: Vec<usize>,
    /// Deliveries so far, and those to come.
    announced: u64,
    /// The number of transfers sent so far.
    sent: u64,
    /// Their bytes.
    bytes: u64,
}

crate::checkpoint::checkpointed!(Network<T> {
    values: deliveries, in_transit, vacant, announced, sent, bytes;
    parts: wires;
});

impl<T> Network<T> {
    /// A network without transfers.
    pub(super) fn new(links: Option<&Links>, instances: usize) -> Self {
        Self {
            wires: links.map(|links| {
                let (topology, media) = Topology::new(links, instances);
                Wires { topology, media }
            }),
            deliveries: BinaryHeap::new(),
            in_transit: Vec::new(),
            vacant: Vec::new(),
            announced: 0,
            sent: 0,
            bytes: 0,
        }
    }

    /// Whether transfers take no time.
    pub(super) fn is_instant(&self) -> bool {
        self.wires.is_none()
    }

    /// When the next transfer is delivered; [`NEVER`] if there is none.
    pub(super) fn next(&self) -> Ticks {
        self.deliveries.peek().map_or(NEVER, |&Reverse((time, _, _))| time)
    }

    /// Counts a transfer of `bytes` bytes that takes no time and crosses no medium.
    pub(super) fn count(&mut self, bytes: u64) {
        self.sent += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Sends a transfer of `bytes` bytes. `now` is no earlier than that of any transfer before.
    pub(super) fn send(&mut self, transfer: Transfer<T>, bytes: u64, now: Ticks) -> Sent {
        let sent = match &mut self.wires {
            None => Sent { first_byte: now, delivered: now },
            Some(wires) => {
                let alone = wires.alone(transfer.source, transfer.target, bytes);
                wires.send(alone, bytes, now, now)
            }
        };
        debug_assert!(sent.first_byte >= now, "nothing is sent in the past");
        self.count(bytes);
        self.announce(transfer, sent);
        sent
    }

    /// Sends a transfer layer by layer: as one transfer, whose layers follow each other without a gap, as early as none
    /// has to wait for its KV. `now` is no earlier than that of any transfer before.
    pub(super) fn send_layers(&mut self, transfer: Transfer<T>, layers: &Layers, now: Ticks) -> Sent {
        let sent = match &mut self.wires {
            None => {
                let ready = now.max(layers.ready());
                Sent { first_byte: ready, delivered: ready }
            }
            Some(wires) => {
                let ends = (transfer.source, transfer.target);
                let (alone, from) = wires.alone_by_layer(ends, layers, now);
                wires.send(alone, layers.bytes(), from, now)
            }
        };
        self.count(layers.bytes());
        self.announce(transfer, sent);
        sent
    }

    /// Has a message delivered that crosses no medium and is not counted.
    pub(super) fn announce(&mut self, transfer: Transfer<T>, sent: Sent) {
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.in_transit.push(None);
            self.in_transit.len() - 1
        });
        let Transfer { source, target, payload } = transfer;
        self.in_transit[place] = Some(Delivered { source, target, payload, first_byte: sent.first_byte });
        self.deliveries.push(Reverse((sent.delivered, self.announced, place)));
        self.announced += 1;
    }

    /// Removes the first transfer that is delivered by `now`. If several are delivered at the same moment, the one sent
    /// first is first.
    pub(super) fn deliver(&mut self, now: Ticks) -> Option<Delivered<T>> {
        let &Reverse((time, _, place)) = self.deliveries.peek()?;
        if time > now {
            return None;
        }
        self.deliveries.pop();
        self.vacant.push(place);
        self.in_transit[place].take()
    }

    /// The payloads of all transfers that have not been delivered.
    pub(super) fn in_transit(&self) -> impl Iterator<Item = &T> {
        self.in_transit.iter().flatten().map(|transfer| &transfer.payload)
    }

    /// The bytes that were sent by `end`, the end of the replay.
    pub(super) fn stats(&self, end: Ticks) -> NetworkStats {
        let media = self.wires.iter().flat_map(|wires| &wires.media);
        NetworkStats {
            transfers: self.sent,
            bytes: self.bytes,
            media: media.map(|medium| medium.stats(end)).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
