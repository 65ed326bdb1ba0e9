//! How a request that migrates takes memory on its target.

use serde::Deserialize;

use crate::time::Ticks;

/// Which part of a transfer overlaps with the prefill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// None: a request is offered to its target once its prefill has ended.
    #[default]
    None,
    /// A request whose target was picked as it arrived is offered when the last step of its prompt starts, and the KV of
    /// each layer may be sent once that step has computed it.
    Layers,
}

/// When a request is offered to its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offering {
    /// Once its prefill has ended, or as the last step of it starts: see [`Overlap`].
    #[default]
    Prefilled,
    /// As it arrives, to the target that is picked then. Its prompt is queued once the target has accepted it.
    Arrival,
}

/// Tokens that an acceptance leaves for the requests that run on a target or were accepted there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceptanceReserve {
    /// Tokens for each of them, and for the one that is accepted.
    pub tokens: u32,
    /// The most tokens that count of an output.
    pub clip: u32,
}

/// A target accepts requests that are handed over to it in order, between two steps, once it has blocks for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handover {
    /// The most transfers to one target at once; `None`: any number.
    pub most_transfers: Option<u64>,
    /// The share of a target's blocks below which those must be that accepted requests hold before their first step
    /// there, if one more is to be accepted; `None`: any.
    pub most_held: Option<f64>,
    /// Ticks after which the source frees the blocks of a request that was not accepted; its target computes the KV
    /// anew. `None`: never.
    pub lease: Option<Ticks>,
    /// Which part of a transfer overlaps with the prefill.
    #[serde(default)]
    pub overlap: Overlap,
    /// When a request is offered to its target.
    #[serde(default)]
    pub offer: Offering,
    /// The tokens that an acceptance leaves for others; `None`: none. An accepted request then takes a seat, and blocks for its KV
    /// alone.
    #[serde(default)]
    pub reserve: Option<AcceptanceReserve>,
}

impl Handover {
    /// The rule that is broken, with its field, if one is.
    pub(super) fn broken_rule(&self) -> Option<(&'static str, String)> {
        if self.most_transfers == Some(0) {
            return Some(("most_transfers", "must be at least 1, was 0".into()));
        }
        if let Some(share) = self.most_held
            && !(share > 0.0 && share <= 1.0)
        {
            return Some(("most_held", format!("must be above 0 and at most 1, was {share}")));
        }
        (self.lease == Some(0)).then(|| ("lease", "must be above 0, was 0".into()))
    }
}
