//! The media of a cluster, and which of them a transfer crosses.

use std::collections::BTreeMap;

use super::medium::Medium;
use crate::config::{Links, Speed};

/// The most media on a path: two ports, two uplinks and the fabric.
const LONGEST: usize = 5;

/// The media that a transfer crosses, by their places among all.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    media: [usize; LONGEST],
    length: usize,
}

impl Path {
    /// A path over some media.
    fn over(media: &[usize]) -> Self {
        let mut path = Self { media: [0; LONGEST], length: media.len() };
        path.media[..media.len()].copy_from_slice(media);
        path
    }

    /// The media.
    pub(super) fn media(&self) -> &[usize] {
        &self.media[..self.length]
    }
}

/// Two media in a row: the outgoing and the incoming direction.
#[derive(Debug, Clone, Copy)]
struct Duplex(usize);

impl Duplex {
    fn out(self) -> usize {
        self.0
    }

    fn inward(self) -> usize {
        self.0 + 1
    }
}

/// The ports of one instance.
#[derive(Debug)]
struct Ports {
    node: u32,
    inner: Option<Duplex>,
    outer: Duplex,
}

/// Where the media are.
#[derive(Debug)]
pub(super) struct Topology {
    /// By instance.
    ports: Vec<Ports>,
    /// By node; empty if nodes have none.
    uplinks: Vec<Duplex>,
    /// The medium that all transfers between nodes cross.
    fabric: Option<usize>,
    /// The medium of a pair, by sender and receiver.
    pairs: BTreeMap<(u32, u32), usize>,
}

impl Topology {
    /// The topology of a cluster, and its media.
    pub(super) fn new(links: &Links, instances: usize) -> (Self, Vec<Medium>) {
        let mut media = Vec::new();
        let mut duplex = |kind: &str, index: usize, speed: &Speed| {
            media.push(Medium::new(format!("{kind} {index} out"), speed));
            media.push(Medium::new(format!("{kind} {index} in"), speed));
            Duplex(media.len() - 2)
        };
        let port =
            Speed { bytes_per_s: links.bytes_per_s, latency: links.latency, curve: links.curve.clone() };
        let mut own = vec![None; instances];
        for port in &links.ports {
            own[port.instance as usize] = Some(port);
        }
        let ports = (0..instances)
            .map(|i| {
                let outer = own[i].and_then(|own| own.outer.as_ref()).unwrap_or(&port);
                let inner = own[i].and_then(|own| own.inner.as_ref()).or(links.inner.as_ref());
                Ports {
                    node: links.nodes.get(i).copied().unwrap_or(i as u32),
                    outer: duplex("port", i, outer),
                    inner: inner.map(|speed| duplex("inner port", i, speed)),
                }
            })
            .collect::<Vec<_>>();
        let nodes = ports.iter().map(|ports| ports.node as usize + 1).max().unwrap_or(0);
        let uplinks = links
            .uplink
            .as_ref()
            .map_or(Vec::new(), |speed| (0..nodes).map(|node| duplex("uplink", node, speed)).collect());
        let mut single = |name: String, speed: &Speed| {
            media.push(Medium::new(name, speed));
            media.len() - 1
        };
        let fabric = links.fabric.as_ref().map(|speed| single("fabric".into(), speed));
        let pairs = links.pairs.iter().map(|pair| {
            let name = format!("pair {} to {}", pair.source, pair.target);
            ((pair.source, pair.target), single(name, &pair.speed))
        });
        let pairs = pairs.collect();
        (Self { ports, uplinks, fabric, pairs }, media)
    }

    /// The path of transfers from one instance to another.
    pub(super) fn path(&self, source: usize, target: usize) -> Path {
        if !self.pairs.is_empty()
            && let Some(&medium) = self.pairs.get(&(source as u32, target as u32))
        {
            return Path::over(&[medium]);
        }
        let (from, to) = (&self.ports[source], &self.ports[target]);
        if from.node == to.node {
            return match (from.inner, to.inner) {
                (Some(from), Some(to)) => Path::over(&[from.out(), to.inward()]),
                _ => Path::over(&[from.outer.out(), to.outer.inward()]),
            };
        }
        let mut path = Path::over(&[from.outer.out(), to.outer.inward()]);
        let mut push = |medium| {
            path.media[path.length] = medium;
            path.length += 1;
        };
        if !self.uplinks.is_empty() {
            push(self.uplinks[from.node as usize].out());
            push(self.uplinks[to.node as usize].inward());
        }
        self.fabric.into_iter().for_each(push);
        path
    }
}
