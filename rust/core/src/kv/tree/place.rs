//! The place of a request in a tree.

use serde::{Deserialize, Serialize};

use super::NodeId;

/// The place of a request in a tree.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct TreePlace {
    /// The last node of the path that it locks.
    pub(in crate::kv) end: NodeId,
    /// Its computed tokens as they were inserted last.
    pub(in crate::kv) inserted: u32,
}
