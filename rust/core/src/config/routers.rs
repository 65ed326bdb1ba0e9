//! How the routers of a cluster know its instances, and what becomes of requests that they hold.

use serde::Deserialize;

use crate::time::Ticks;

/// The routers of a cluster. They all follow the same rules, each with state of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Routers {
    /// How many there are; request i is routed by router i modulo this number.
    pub count: u32,
    /// Ticks from one report of the instances to the next; `None`: routers see instances as they are.
    pub report_every: Option<Ticks>,
    /// The relay through which instances report, so that `report_every` is its longest gap; `None`: all of them report to
    /// the routers at each multiple of `report_every`.
    #[serde(default)]
    pub relay: Option<Relay>,
    /// Ticks from its arrival after which a request that is held leaves; `None`: it waits without limit.
    pub give_up_after: Option<Ticks>,
    /// The seed of random choices.
    pub seed: u64,
}

impl Default for Routers {
    fn default() -> Self {
        Self { count: 1, report_every: None, relay: None, give_up_after: None, seed: 0 }
    }
}

/// A relay to which instances tell their fields when their counts change, and which publishes them to the routers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Relay {
    /// Ticks from one publication to the next, if anything was told since.
    pub gap: Ticks,
    /// The unit in which it counts the time since the latest publication.
    pub unit: Ticks,
    /// Whether instances tell their fields before steps too, and not only after them.
    pub before: bool,
    /// The ticks for which it waits at least while it has no copy of the fields of a step; `None`: it keeps no copies.
    #[serde(default)]
    pub copies: Option<Ticks>,
}
