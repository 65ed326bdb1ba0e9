//! Counters of the network between instances.

use serde::Serialize;

use crate::time::Ticks;

/// The counters of one medium.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MediumStats {
    /// The name of the medium.
    pub medium: String,
    /// Transfers sent over it.
    pub transfers: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The time in which transfers occupied it, up to the end of the replay.
    pub busy_ticks: Ticks,
}

/// The counters of the whole network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NetworkStats {
    /// Transfers sent, of requests and of copies.
    pub transfers: u64,
    /// Their bytes, each counted once, however many media it crosses.
    pub bytes: u64,
    /// One entry a medium; none if transfers take no time.
    pub media: Vec<MediumStats>,
}
