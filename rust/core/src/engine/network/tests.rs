//! The network against a naive model, and cases worked out by hand.

use super::*;
use crate::config::{Pair, Port, Speed};
use crate::time::TICKS_PER_SECOND;
use proptest::prelude::*;

/// Bytes a tick, and a latency.
fn speed(bytes_per_tick: f64, latency: Ticks) -> Speed {
    Speed { bytes_per_s: bytes_per_tick * TICKS_PER_SECOND as f64, latency, curve: Vec::new() }
}

/// A byte a tick, and a latency of 3 ticks.
fn links() -> Links {
    Links::ports(TICKS_PER_SECOND as f64, 3)
}

/// A transfer: source, target, bytes, when it is sent.
type Send = (usize, usize, u64, Ticks);

/// Sends transfers in a cluster of four instances, and returns when each starts and is delivered.
fn sent(links: &Links, sends: &[Send]) -> Vec<(Ticks, Ticks)> {
    let mut network = Network::new(Some(links), 4);
    let send = |(payload, &(source, target, bytes, now)): (usize, &Send)| {
        let sent = network.send(Transfer { source, target, payload }, bytes, now);
        (sent.first_byte, sent.delivered)
    };
    sends.iter().enumerate().map(send).collect()
}

/// Sends transfers and returns when each is delivered, in order of delivery.
fn delivered(links: Option<&Links>, sends: &[Send]) -> Vec<(Ticks, usize)> {
    let mut network = Network::new(links, 4);
    for (payload, &(source, target, bytes, now)) in sends.iter().enumerate() {
        network.send(Transfer { source, target, payload }, bytes, now);
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
    assert_eq!(delivered(Some(&links()), &[(0, 1, 10, 5)]), [(18, 0)]);
    assert_eq!(delivered(None, &[(0, 1, 10, 5)]), [(5, 0)]);
}

#[test]
fn layers_follow_each_other_as_early_as_none_waits_for_its_kv() {
    let mut network = Network::new(Some(&links()), 4);
    let mut send = |source, target, step, now| {
        let transfer = Transfer { source, target, payload: 0 };
        let sent = network.send_layers(transfer, &Layers::new(10, 4, step), now);
        (sent.first_byte, sent.delivered)
    };
    // Layers of 3, 3, 2 and 2 bytes are ready at 10, 20, 30 and 40: the last is sent from 40, after 8 ticks.
    assert_eq!(send(0, 1, (0, 40), 0), (32, 32 + 10 + 3));
    // Between two ports of which one is taken until 42.
    assert_eq!(send(0, 2, (0, 40), 5), (42, 55));
    assert_eq!(send(3, 1, (0, 4), 5), (5, 18), "all layers were ready before, and the port is free until 32");
    assert_eq!(
        send(3, 1, (0, 30), 20),
        (22, 35),
        "the last layer is ready at 30, after 8 ticks, and the port taken from 32"
    );
    assert_eq!(network.stats(100).bytes, 40);
    let mut instant = Network::new(None, 4);
    let sent =
        instant.send_layers(Transfer { source: 0, target: 1, payload: 1 }, &Layers::new(10, 4, (0, 40)), 7);
    assert_eq!((sent.first_byte, sent.delivered), (40, 40));
    instant.announce(Transfer { source: 0, target: 1, payload: 2 }, Sent { first_byte: 9, delivered: 9 });
    assert_eq!(instant.deliver(39).map(|delivered| delivered.payload), Some(2));
    assert_eq!(instant.stats(100).transfers, 1, "what is only announced is not counted");
}

#[test]
fn transfers_wait_for_both_ports_and_pass_in_both_directions() {
    // 0 to 1 and 0 to 2 share a sender, 3 to 2 and 0 to 2 a receiver; 1 to 0 shares nothing with 0 to 1.
    let sends = [(0, 1, 10, 0), (0, 2, 10, 0), (3, 2, 5, 0), (1, 0, 10, 0)];
    assert_eq!(delivered(Some(&links()), &sends), [(8, 2), (13, 0), (13, 3), (23, 1)]);
}

#[test]
fn a_short_transfer_to_an_idle_receiver_does_not_wait_for_a_busy_one() {
    // Instance 1 receives from 3 for 6 s; a transfer of 6 s from 0 to it waits until then. The port of 0 is free for
    // those 6 s, in which it sends for 1 s to 2.
    let s = TICKS_PER_SECOND;
    let links = Links::ports(1.0, 0);
    let sends = [(3, 1, 6, 0), (0, 1, 6, 0), (0, 2, 1, 0), (0, 2, 6, 0), (0, 2, 5, 0)];
    assert_eq!(
        sent(&links, &sends),
        [(0, 6 * s), (6 * s, 12 * s), (0, s), (12 * s, 18 * s), (s, 6 * s)],
        "a transfer takes the earliest interval that is long enough"
    );
}

#[test]
fn instances_of_a_node_use_their_inner_ports_and_share_the_uplink_and_the_fabric() {
    let links = Links {
        nodes: vec![0, 0, 1, 1],
        inner: Some(speed(10.0, 0)),
        uplink: Some(speed(2.0, 5)),
        fabric: Some(speed(4.0, 4)),
        ..Links::ports(TICKS_PER_SECOND as f64, 3)
    };
    // 0 to 1 takes a tick inside the node, beside what 0 sends to 2. 1 to 3 shares no port with that, but the uplinks;
    // 2 to 0 shares the fabric, and waits for both. Each takes 10 ticks on its port, the slowest medium.
    let sends = [(0, 2, 10, 0), (0, 1, 10, 0), (1, 3, 10, 0), (2, 0, 10, 0)];
    assert_eq!(sent(&links, &sends), [(0, 15), (0, 1), (10, 25), (20, 35)]);
    let mut network = Network::new(Some(&links), 4);
    for (payload, &(source, target, bytes, now)) in sends.iter().enumerate() {
        network.send(Transfer { source, target, payload }, bytes, now);
    }
    let stats = network.stats(25);
    assert_eq!((stats.transfers, stats.bytes), (4, 40), "bytes count once, however many media they cross");
    let of = |name: &str| {
        let medium = stats.media.iter().find(|medium| medium.medium == name).unwrap();
        (medium.transfers, medium.bytes, medium.busy_ticks)
    };
    assert_eq!(of("port 0 out"), (1, 10, 10));
    assert_eq!(of("inner port 0 out"), (1, 10, 1));
    assert_eq!(of("uplink 0 out"), (2, 20, 20));
    assert_eq!(of("fabric"), (3, 30, 25), "the last transfer ends after the replay");
    assert_eq!(of("inner port 3 in"), (0, 0, 0));
}

#[test]
fn an_instance_or_a_pair_may_differ_from_the_others() {
    let links = Links {
        ports: vec![Port { instance: 3, inner: None, outer: Some(speed(0.5, 9)) }],
        pairs: vec![Pair { source: 0, target: 1, speed: speed(5.0, 1) }],
        ..links()
    };
    // The pair's medium is free while the port of 0 is busy, and is of one direction.
    let sends = [(0, 2, 10, 0), (0, 1, 10, 0), (0, 1, 10, 0), (1, 0, 10, 0), (3, 1, 10, 0)];
    assert_eq!(sent(&links, &sends), [(0, 13), (0, 3), (2, 5), (0, 13), (0, 29)]);
}

#[test]
fn a_transfer_without_bytes_takes_only_the_latency() {
    assert_eq!(sent(&links(), &[(0, 1, 10, 0), (0, 1, 0, 4)]), [(0, 13), (4, 7)]);
}

/// The networks that the model is compared on.
fn networks() -> [Links; 4] {
    let curve = vec![(3, 5), (8, 6), (12, 20)];
    let nodes = Links { nodes: vec![0, 0, 1, 1], ..links() };
    [
        links(),
        Links { curve: curve.clone(), inner: Some(speed(3.0, 0)), ..nodes.clone() },
        Links {
            uplink: Some(speed(2.0, 1)),
            pairs: vec![Pair { source: 0, target: 2, speed: Speed { curve, ..speed(1.0, 2) } }],
            ..nodes.clone()
        },
        Links {
            fabric: Some(speed(3.0, 8)),
            ports: vec![Port { instance: 1, inner: Some(speed(2.0, 2)), outer: Some(speed(0.4, 0)) }],
            ..nodes
        },
    ]
}

proptest! {
    /// Every tick of every medium is written down, and every start is tried.
    #[test]
    fn a_transfer_takes_the_earliest_interval_in_which_all_its_media_are_free(
        sends in prop::collection::vec((0usize..4, 0usize..4, 0u64..20, 0u64..5), 1..60),
        which in 0usize..4,
    ) {
        let links = &networks()[which];
        let mut now = 0;
        let sends: Vec<_> = sends.into_iter().map(|(source, target, bytes, after)| {
            now += after;
            (source, target, bytes, now)
        }).collect();
        let (topology, media) = Topology::new(links, 4);
        let mut busy = vec![vec![false; 8_000]; media.len()];
        let expected: Vec<_> = sends.iter().map(|&(source, target, bytes, now)| {
            let path = topology.path(source, target);
            let duration = path.media().iter().map(|&medium| media[medium].time(bytes)).max().unwrap();
            let latency = path.media().iter().map(|&medium| media[medium].latency).max().unwrap();
            let wanted = |start: Ticks| start as usize..(start + duration) as usize;
            let free = |start: &Ticks| path.media().iter().all(|&of| !busy[of][wanted(*start)].contains(&true));
            let start = (now..8_000).find(free).unwrap();
            for &medium in path.media() {
                busy[medium][wanted(start)].fill(true);
            }
            (start, start + duration + latency)
        }).collect();
        prop_assert_eq!(sent(links, &sends), expected.clone());
        let mut in_order: Vec<_> = expected.into_iter().map(|(_, delivered)| delivered).zip(0..).collect();
        in_order.sort_unstable();
        prop_assert_eq!(delivered(Some(links), &sends), in_order);
    }

    /// Busy time of media, by the end of any replay.
    #[test]
    fn busy_time_is_counted_up_to_the_end(
        sends in prop::collection::vec((0usize..4, 0usize..4, 0u64..20), 1..40),
        end in 0u64..300,
    ) {
        let mut network = Network::new(Some(&links()), 4);
        let mut busy = 0;
        for (payload, (source, target, bytes)) in sends.into_iter().enumerate() {
            let first = network.send(Transfer { source, target, payload }, bytes, 0).first_byte;
            busy += 2 * (first + bytes).min(end).saturating_sub(first);
        }
        let found: Ticks = network.stats(end).media.iter().map(|medium| medium.busy_ticks).sum();
        prop_assert_eq!(found, busy);
    }
}
