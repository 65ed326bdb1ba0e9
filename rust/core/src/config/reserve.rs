//! Room that admissions leave for the outputs of running requests.

use serde::Deserialize;

/// The most steps, and tokens, of a reserve.
pub(super) const MOST: u64 = 1 << 20;
/// Parts of a share.
pub(crate) const SHARE_WHOLE: u64 = 1_000_000;

/// The share of the outputs to come that an admission leaves free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReserveConfig {
    /// The share of an instance that has run nothing, in millionths.
    pub first: u64,
    /// The least share that steps of decodes lower it to, in millionths.
    pub least: u64,
    /// Steps of decodes alone from the first share to the least.
    pub steps: u64,
    /// Tokens of each running request that are added to what it has generated, as the share is estimated after a
    /// preemption.
    pub after: u64,
    /// Tokens of a request that count, at most.
    pub clip: u32,
}
