//! The network between instances.
//!
//! Each instance has a port that sends and receives at the same time. A transfer starts once the sender's outgoing and
//! the receiver's incoming side are both free, in order of sending. It occupies both until its last byte is sent, and
//! is delivered a latency later. Without links, every transfer is delivered at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::config::Links;
use crate::time::{NEVER, TICKS_PER_SECOND, Ticks};

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

/// The ports of the instances, and all transfers that have not been delivered.
#[derive(Debug)]
pub(super) struct Network<T> {
    /// The ports; `None`: transfers take no time.
    links: Option<Links>,
    /// Whole bytes a second.
    rate: u128,
    /// By instance: when its outgoing side is free.
    out_free: Vec<Ticks>,
    /// By instance: when its incoming side is free.
    in_free: Vec<Ticks>,
    /// (when it is delivered, order of sending, its place in `in_transit`).
    deliveries: BinaryHeap<Reverse<(Ticks, u64, usize)>>,
    /// Transfers that have not been delivered, in places that deliveries refer to.
    in_transit: Vec<Option<Transfer<T>>>,
    /// Empty places in `in_transit`.
    vacant: Vec<usize>,
    /// The number of transfers sent so far.
    sent: u64,
}

impl<T> Network<T> {
    /// A network without transfers.
    pub(super) fn new(links: Option<Links>, instances: usize) -> Self {
        Self {
            rate: links.map_or(1, |links| links.bytes_per_s.round().max(1.0) as u128),
            links,
            out_free: vec![0; instances],
            in_free: vec![0; instances],
            deliveries: BinaryHeap::new(),
            in_transit: Vec::new(),
            vacant: Vec::new(),
            sent: 0,
        }
    }

    /// Whether transfers take no time.
    #[inline]
    pub(super) fn is_instant(&self) -> bool {
        self.links.is_none()
    }

    /// When the next transfer is delivered; [`NEVER`] if there is none.
    #[inline]
    pub(super) fn next(&self) -> Ticks {
        self.deliveries.peek().map_or(NEVER, |&Reverse((time, _, _))| time)
    }

    /// Sends a transfer of `bytes` bytes. `payload` makes its contents, given when the first byte is sent.
    pub(super) fn send(&mut self, transfer: Transfer<impl FnOnce(Ticks) -> T>, bytes: u64, now: Ticks) {
        let (first, delivered) = match self.links {
            None => (now, now),
            Some(links) => {
                let (out, inward) = (&mut self.out_free[transfer.source], &mut self.in_free[transfer.target]);
                let start = now.max(*out).max(*inward);
                let ticks = (u128::from(bytes) * u128::from(TICKS_PER_SECOND)).div_ceil(self.rate);
                let end = start.saturating_add(u64::try_from(ticks).unwrap_or(Ticks::MAX));
                (*out, *inward) = (end, end);
                (start, end.saturating_add(links.latency))
            }
        };
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.in_transit.push(None);
            self.in_transit.len() - 1
        });
        let Transfer { source, target, payload } = transfer;
        self.in_transit[place] = Some(Transfer { source, target, payload: payload(first) });
        self.deliveries.push(Reverse((delivered, self.sent, place)));
        self.sent += 1;
    }

    /// Removes the first transfer that is delivered by `now`. If several are delivered at the same moment, the one sent
    /// first is first.
    pub(super) fn deliver(&mut self, now: Ticks) -> Option<Transfer<T>> {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A byte a tick, and a latency of 3 ticks.
    fn links() -> Links {
        Links { bytes_per_s: TICKS_PER_SECOND as f64, latency: 3 }
    }

    /// Sends (source, target, bytes, when) and returns when each is delivered, in order of delivery.
    fn delivered(links: Option<Links>, sends: &[(usize, usize, u64, Ticks)]) -> Vec<(Ticks, usize)> {
        let mut network = Network::new(links, 4);
        for (payload, &(source, target, bytes, now)) in sends.iter().enumerate() {
            network.send(Transfer { source, target, payload: |_| payload }, bytes, now);
        }
        let mut found = Vec::new();
        while network.next() < NEVER {
            let time = network.next();
            assert!(time == 0 || network.deliver(time - 1).is_none(), "nothing is delivered early");
            found.push((time, network.deliver(time).unwrap().payload));
        }
        assert_eq!(network.in_transit().count(), 0);
        found
    }

    #[test]
    fn a_transfer_takes_its_bytes_and_the_latency() {
        assert_eq!(delivered(Some(links()), &[(0, 1, 10, 5)]), [(18, 0)]);
        assert_eq!(delivered(None, &[(0, 1, 10, 5)]), [(5, 0)]);
    }

    #[test]
    fn transfers_wait_for_both_ports_and_pass_in_both_directions() {
        // 0 to 1 and 0 to 2 share a sender, 3 to 2 and 0 to 2 a receiver; 1 to 0 shares nothing with 0 to 1.
        let sends = [(0, 1, 10, 0), (0, 2, 10, 0), (3, 2, 5, 0), (1, 0, 10, 0)];
        assert_eq!(delivered(Some(links()), &sends), [(13, 0), (13, 3), (23, 1), (28, 2)]);
    }

    proptest! {
        #[test]
        fn ports_carry_one_transfer_at_a_time_in_order_of_sending(
            sends in prop::collection::vec((0usize..4, 0usize..4, 0u64..20, 0u64..5), 1..30),
        ) {
            let mut now = 0;
            let sends: Vec<_> = sends.into_iter().map(|(source, target, bytes, after)| {
                now += after;
                (source, target, bytes, now)
            }).collect();
            // Each starts when every earlier transfer over the same sender or to the same receiver has been sent.
            let mut ends: Vec<Ticks> = Vec::new();
            for (i, &(source, target, bytes, now)) in sends.iter().enumerate() {
                let before = (0..i).filter(|&j| sends[j].0 == source || sends[j].1 == target).map(|j| ends[j]);
                ends.push(before.max().unwrap_or(0).max(now) + bytes);
            }
            let mut expected: Vec<_> = ends.iter().map(|end| end + 3).zip(0..).collect();
            expected.sort_unstable();
            prop_assert_eq!(delivered(Some(links()), &sends), expected);
        }
    }
}
