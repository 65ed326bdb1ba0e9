//! The network between instances: ports, nodes, and what they share.

use serde::Deserialize;

use super::limits::on_clock;
use crate::error::Error;
use crate::time::Ticks;

/// The lowest rate of a medium, in bytes a second: 2⁻²⁰. The time of a message is computed in 128 bits.
pub const LEAST_RATE: f64 = 1.0 / (1 << 20) as f64;

/// The highest rate of a medium: 2¹⁰⁰ bytes a second.
pub const MOST_RATE: f64 = (1_u128 << 100) as f64;

/// How long a medium takes for a message.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speed {
    /// Bytes a second, in one direction.
    pub bytes_per_s: f64,
    /// Ticks from the last byte sent to the last byte received.
    pub latency: Ticks,
    /// Measured times: bytes, rising, and ticks, not falling. Below the first point its time holds, between two points
    /// the time is linear, and past the last one each further byte takes its time at `bytes_per_s`.
    #[serde(default)]
    pub curve: Vec<(u64, Ticks)>,
}

/// The ports of an instance that differ from those of the others.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// The instance.
    pub instance: u32,
    /// Its port to instances of its node; `None`: that of the others.
    #[serde(default)]
    pub inner: Option<Speed>,
    /// Its port to all other instances; `None`: that of the others.
    #[serde(default)]
    pub outer: Option<Speed>,
}

/// A medium that only transfers from one instance to another cross, in place of their ports.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// The sender.
    pub source: u32,
    /// The receiver.
    pub target: u32,
    /// The medium.
    pub speed: Speed,
}

/// The network between instances. Each has a port, which sends and receives at the same time.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Links {
    /// Bytes a second of a port, in each direction.
    pub bytes_per_s: f64,
    /// Ticks from the last byte sent to the last byte received.
    pub latency: Ticks,
    /// Measured times of a port: see [`Speed::curve`].
    #[serde(default)]
    pub curve: Vec<(u64, Ticks)>,
    /// The node of each instance, counted from 0; empty: each instance is a node.
    #[serde(default)]
    pub nodes: Vec<u32>,
    /// A second port of each instance, to instances of its node; `None`: transfers inside a node use the one port.
    #[serde(default)]
    pub inner: Option<Speed>,
    /// The medium that the instances of a node share on the way to other nodes, in each direction.
    #[serde(default)]
    pub uplink: Option<Speed>,
    /// The medium that all transfers between nodes share.
    #[serde(default)]
    pub fabric: Option<Speed>,
    /// Instances with ports of their own.
    #[serde(default)]
    pub ports: Vec<Port>,
    /// Pairs with a medium of their own.
    #[serde(default)]
    pub pairs: Vec<Pair>,
}

impl Links {
    /// One equal port for every instance.
    #[must_use]
    pub fn ports(bytes_per_s: f64, latency: Ticks) -> Self {
        Self {
            bytes_per_s,
            latency,
            curve: Vec::new(),
            nodes: Vec::new(),
            inner: None,
            uplink: None,
            fabric: None,
            ports: Vec::new(),
            pairs: Vec::new(),
        }
    }

    /// Checks every rule that the network relies on.
    pub(super) fn check(&self, instances: usize) -> Result<(), Error> {
        check_speed("links", self.bytes_per_s, self.latency, &self.curve)?;
        self.check_nodes(instances)?;
        let shared = [("inner", &self.inner), ("uplink", &self.uplink), ("fabric", &self.fabric)];
        for (name, speed) in shared {
            speed.as_ref().map_or(Ok(()), |speed| speed.check(&format!("links.{name}")))?;
        }
        let mut named = vec![false; instances];
        for (i, port) in self.ports.iter().enumerate() {
            let at = format!("links.ports[{i}]");
            check_instance(&format!("{at}.instance"), port.instance, instances)?;
            if std::mem::replace(&mut named[port.instance as usize], true) {
                let rule = format!("must be named once, {} was named twice", port.instance);
                return Err(Error::config(format!("{at}.instance"), rule));
            }
            for (name, speed) in [("inner", &port.inner), ("outer", &port.outer)] {
                speed.as_ref().map_or(Ok(()), |speed| speed.check(&format!("{at}.{name}")))?;
            }
        }
        let mut known = std::collections::BTreeSet::new();
        for (i, pair) in self.pairs.iter().enumerate() {
            let at = format!("links.pairs[{i}]");
            check_instance(&format!("{at}.source"), pair.source, instances)?;
            check_instance(&format!("{at}.target"), pair.target, instances)?;
            if pair.source == pair.target || !known.insert((pair.source, pair.target)) {
                let rule = format!(
                    "must be two instances that no other pair has, were {} and {}",
                    pair.source, pair.target
                );
                return Err(Error::config(at, rule));
            }
            pair.speed.check(&format!("{at}.speed"))?;
        }
        Ok(())
    }

    /// Checks that each instance has a node.
    fn check_nodes(&self, instances: usize) -> Result<(), Error> {
        if !self.nodes.is_empty() && self.nodes.len() != instances {
            let rule = format!("must be one for each of {instances} instances, had {}", self.nodes.len());
            return Err(Error::config("links.nodes", rule));
        }
        match self.nodes.iter().find(|&&node| node as usize >= instances) {
            None => Ok(()),
            Some(node) => {
                let rule = format!("must be below the number of instances, {instances}, was {node}");
                Err(Error::config("links.nodes", rule))
            }
        }
    }
}

impl Speed {
    /// Checks the numbers.
    fn check(&self, field: &str) -> Result<(), Error> {
        check_speed(field, self.bytes_per_s, self.latency, &self.curve)
    }
}

/// Checks that an index names an instance.
fn check_instance(field: &str, index: u32, instances: usize) -> Result<(), Error> {
    if (index as usize) < instances {
        return Ok(());
    }
    Err(Error::config(field, format!("must be below the number of instances, {instances}, was {index}")))
}

/// Checks the numbers of a medium.
fn check_speed(field: &str, bytes_per_s: f64, latency: Ticks, curve: &[(u64, Ticks)]) -> Result<(), Error> {
    if !(LEAST_RATE..=MOST_RATE).contains(&bytes_per_s) {
        let rule = format!("must be {LEAST_RATE:e} to {MOST_RATE:e}, was {bytes_per_s}");
        return Err(Error::config(format!("{field}.bytes_per_s"), rule));
    }
    on_clock(|| format!("{field}.latency"), latency)?;
    for &(_, ticks) in curve {
        on_clock(|| format!("{field}.curve"), ticks)?;
    }
    let falls = |pair: &&[(u64, Ticks)]| pair[1].0 <= pair[0].0 || pair[1].1 < pair[0].1;
    if let Some([one, other]) = curve.windows(2).find(falls) {
        let rule =
            format!("must have sizes that rise and times that do not fall, had {one:?} then {other:?}");
        return Err(Error::config(format!("{field}.curve"), rule));
    }
    Ok(())
}
