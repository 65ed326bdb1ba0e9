//! The leaves that may be evicted, in the order of their last use.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::NodeId;

/// The unlocked leaves of a tree.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Leaves {
    /// By when they were used last; no two nodes were used at one time.
    by_use: BTreeMap<u64, NodeId>,
}

impl Leaves {
    /// Adds a leaf.
    pub(super) fn add(&mut self, used: u64, leaf: NodeId) {
        self.by_use.insert(used, leaf);
    }

    /// Removes a node, if it is one of them.
    pub(super) fn remove(&mut self, used: u64) {
        self.by_use.remove(&used);
    }

    /// Notes that a node is used again, if it is one of them.
    pub(super) fn reuse(&mut self, before: u64, now: u64) {
        if let Some(leaf) = self.by_use.remove(&before) {
            self.by_use.insert(now, leaf);
        }
    }

    /// Removes the leaf that was used the longest ago.
    pub(super) fn pop(&mut self) -> Option<NodeId> {
        self.by_use.pop_first().map(|(_, leaf)| leaf)
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_use.len()
    }
}
