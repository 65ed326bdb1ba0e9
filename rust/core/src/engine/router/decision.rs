//! The decision of a rule about a request.

use crate::policy::Blocks;

/// The decision of a rule about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum Decision {
    /// Nothing: it picks no instance.
    None,
    /// The request is sent to an instance.
    Send(usize),
    /// The request stays at the router, and those wait behind it that this says.
    Hold(Blocks),
    /// The request is rejected.
    Reject,
}

impl Decision {
    /// The instance that was picked, if one was.
    pub(super) fn picked(self) -> Option<usize> {
        if let Self::Send(picked) = self { Some(picked) } else { None }
    }

    /// To send the request to the instance that was picked.
    pub(super) fn of(picked: Option<usize>) -> Self {
        picked.map_or(Self::None, Self::Send)
    }
}
