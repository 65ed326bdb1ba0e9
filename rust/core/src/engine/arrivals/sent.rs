//! A request on its way to the routers.

use serde::{Deserialize, Serialize};

use crate::time::Ticks;

/// A request that its source has sent, and that has not reached the routers.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Sent {
    /// Its row in the trace.
    pub(super) row: u32,
    /// When it was sent.
    pub(super) at: Ticks,
    /// When it had passed the front end.
    pub(super) entered: Ticks,
}
