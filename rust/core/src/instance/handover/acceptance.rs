//! How an instance accepts requests.

use crate::config::{AcceptanceReserve, Handover, Overlap};
use crate::time::Ticks;

/// How an instance accepts requests that are handed over to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Acceptance {
    /// The most transfers to it at once.
    pub(super) most_transfers: u64,
    /// The blocks below which those must be that accepted requests hold before their first step here.
    pub(super) held_below: u64,
    /// Ticks after which the source of a request that was not accepted frees its blocks.
    pub(crate) lease: Option<Ticks>,
    /// Whether transfers take no time.
    pub(crate) at_once: bool,
    /// Whether requests are offered, and their KV is sent, while the last step of their prompt runs.
    pub(crate) overlaps: bool,
    /// The tokens that an acceptance leaves for others.
    pub(crate) reserve: Option<AcceptanceReserve>,
}

impl Acceptance {
    /// The acceptance of an instance of `blocks` blocks.
    pub(crate) fn new(rules: &Handover, blocks: u64, at_once: bool) -> Self {
        // So many whole blocks are below the share as are below the next whole number.
        let held_below = rules.most_held.map_or(u64::MAX, |share| (share * blocks as f64).ceil() as u64);
        Self {
            most_transfers: rules.most_transfers.unwrap_or(u64::MAX),
            held_below,
            lease: rules.lease,
            at_once,
            overlaps: rules.overlap == Overlap::Layers,
            reserve: rules.reserve,
        }
    }
}
