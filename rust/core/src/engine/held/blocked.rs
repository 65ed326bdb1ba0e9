//! Which requests wait behind others that are held, without being asked about.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::queue::Queue;
use crate::policy::{Blocks, Kind};

/// The held requests that wait behind others.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Blocked {
    /// The routers all of whose later requests wait.
    routers: BTreeSet<usize>,
    /// The tenants and sessions, by router, whose later requests wait.
    groups: BTreeSet<(usize, Blocks, u64)>,
}

impl Blocked {
    /// Notes a request that is held, behind which those wait that `blocks` says.
    pub(super) fn add(&mut self, blocks: Blocks, kind: &Kind) {
        if blocks == Blocks::All {
            self.routers.insert(kind.router());
        }
        if let Some(group) = kind.group(blocks) {
            self.groups.insert((kind.router(), blocks, group));
        }
    }

    /// Whether a later request waits.
    pub(super) fn cover(&self, kind: &Kind) -> bool {
        let of_group = |blocks| {
            kind.group(blocks).is_some_and(|group| self.groups.contains(&(kind.router(), blocks, group)))
        };
        let any_group = !self.groups.is_empty() && (of_group(Blocks::Tenant) || of_group(Blocks::Session));
        any_group || !self.routers.is_empty() && self.routers.contains(&kind.router())
    }

    /// Whether all routers that hold requests wait: the first that is held of each blocks all others.
    pub(super) fn cover_all(&self, queue: &Queue) -> bool {
        self.routers.len() == queue.routers()
    }
}
