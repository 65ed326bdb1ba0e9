//! A request's number, and its row in the trace.

use serde::{Deserialize, Serialize};

/// A request's number: how many requests have arrived before it. While a replay runs, it is the request's place in the columns
/// of the trace and of the result, and it settles all ties between requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestNumber(pub u32);

/// A request's row in the trace, as it was given. Where requests arrive in an order of their own, or again, it is not their
/// number. The contents of its blocks, its drafts and the tokens after which its client cancels it are named by it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TraceRow(pub u32);

impl RequestNumber {
    /// The request's place in a column.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl TraceRow {
    /// The row's place in a column of the trace as it was given.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
