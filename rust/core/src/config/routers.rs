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
    /// Ticks from its arrival after which a request that is held leaves; `None`: it waits without limit.
    pub give_up_after: Option<Ticks>,
    /// The seed of random choices.
    pub seed: u64,
}

impl Default for Routers {
    fn default() -> Self {
        Self { count: 1, report_every: None, give_up_after: None, seed: 0 }
    }
}
