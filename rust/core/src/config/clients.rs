//! Clients: how many requests are in flight, for how long each is waited for, and how often it is sent again.

use serde::Deserialize;

use crate::error::Error;
use crate::time::Ticks;

/// The most times that a request is sent again.
const MOST_RETRIES: u32 = 1000;

/// Clients that wait for answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clients {
    /// The most requests, or sessions, in flight; `None`: any number.
    pub most: Option<u64>,
    /// Ticks from the end of one to the start of the next in its place.
    #[serde(default)]
    pub gap: Ticks,
    /// Whether sessions are counted, from their first request to the end of their last.
    #[serde(default)]
    pub by_session: bool,
    /// For how long they wait, and when they send again; `None`: they wait for ever.
    #[serde(default)]
    pub patience: Option<Patience>,
}

/// For how long clients wait for an answer, and when they send a request again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patience {
    /// Ticks from when a request is sent after which its client cancels it; `None`: it does not.
    pub timeout: Option<Ticks>,
    /// How often a request is sent again that timed out, was rejected by the policy, or gave up at its router.
    pub retries: u32,
    /// Ticks from its end to the first time that it is sent again.
    pub backoff: Ticks,
    /// The factor of each later wait to the one before.
    pub growth: u32,
    /// The longest wait.
    pub longest: Ticks,
    /// The part of a wait, in millionths, of which a random share is left out.
    pub jitter: u32,
    /// The seed of the shares.
    pub seed: u64,
}

impl Clients {
    /// Checks the rules that the engine relies on.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.most == Some(0) {
            return Err(Error::config("clients.most", "must be 1 or more, was 0"));
        }
        let Some(patience) = self.patience else { return Ok(()) };
        let most = [
            ("retries", patience.retries, 0, MOST_RETRIES),
            ("growth", patience.growth, 1, 1000),
            ("jitter", patience.jitter, 0, 1_000_000),
        ];
        for (name, value, from, to) in most {
            if value < from || value > to {
                let rule = format!("must be {from} to {to}, was {value}");
                return Err(Error::config(format!("clients.patience.{name}"), rule));
            }
        }
        Ok(())
    }
}
