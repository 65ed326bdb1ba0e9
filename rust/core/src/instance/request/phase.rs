//! The states of a request on an instance.

use serde::{Deserialize, Serialize};

/// State of a request on its instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Phase {
    /// Admitted, with prompt tokens (or recomputed tokens) left to compute.
    Prefilling,
    /// Member of the decode set: one token at each step of the set.
    Decoding,
    /// Admitted and decoding, but outside the decode set: it does not run at every step.
    Stalled,
    /// Queued without KV: new, or preempted by recompute.
    Preempted,
    /// Queued with its KV in the CPU's memory.
    Swapped {
        /// Whether the request was decoding when it was swapped out.
        decoding: bool,
    },
    /// Queued after a migration: its KV has arrived and is not on the GPU yet.
    MigratedIn,
    /// In the last step of its prompt on another instance: to be handed over to this one, which has not accepted it.
    Expected,
    /// As [`Self::Expected`], and accepted, with blocks.
    Reserved,
    /// Handed over to this instance, which has not accepted it.
    Offered,
    /// Accepted, with blocks; its KV is on its way.
    Receiving,
    /// Queued with its KV in its blocks, since it was received.
    Received,
    /// Queued with its KV in its blocks, since it was swapped in beside a reserve for requests that are accepted.
    Restored,
    /// Queued with blocks, into which chunks of its prefix are loaded from the host's memory.
    Loading,
    /// As [`Self::Loading`], and a step has seen that the load has ended.
    Loaded,
    /// Migrated out; the transfer still reads its blocks.
    MigratingOut,
    /// Has left; its blocks are freed once the step that was decided ahead is known.
    Deferred,
    /// Has ended with the latest step; the step that was decided ahead still counts it as running.
    Ended {
        /// Whether it had yielded a token since its prompt was last computed.
        decoding: bool,
    },
    /// The slot is free.
    Vacant,
}

impl Phase {
    /// Whether the request is admitted: it has a place in the admission order.
    pub(crate) fn is_admitted(self) -> bool {
        matches!(self, Self::Prefilling | Self::Decoding | Self::Stalled)
    }

    /// Whether the request is admitted and past its prefill.
    pub(crate) fn decodes(self) -> bool {
        matches!(self, Self::Decoding | Self::Stalled)
    }

    /// Whether the request is still in the last step of its prompt on another instance, which writes what becomes of it.
    pub(crate) fn is_expected(self) -> bool {
        matches!(self, Self::Expected | Self::Reserved)
    }

    /// Whether it has ended, and the step that is formed still counts it as running.
    pub(crate) fn has_ended(self) -> bool {
        matches!(self, Self::Ended { .. })
    }

    /// Whether the request is queued with its KV in its blocks, behind others in the order of receipt.
    pub(crate) fn holds_kv(self) -> bool {
        matches!(self, Self::Received | Self::Restored)
    }

    /// Whether the request is swapped out.
    pub(crate) fn is_swapped(self) -> bool {
        matches!(self, Self::Swapped { .. })
    }
}
