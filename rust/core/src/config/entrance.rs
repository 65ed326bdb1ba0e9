//! The way of requests to the routers.

use serde::Deserialize;

use crate::time::Ticks;

/// The stages that a request passes before a router sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entrance {
    /// Ticks in the front end: the API server, its tokenizer, and the way to the routers.
    #[serde(default)]
    pub frontend: Ticks,
    /// The predictor that scores its prompt after that; `None` if there is none.
    #[serde(default)]
    pub prediction: Option<Prediction>,
}

/// A predictor of output lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    /// Ticks for each prompt of a batch.
    pub each: Ticks,
    /// Ticks for a batch, whatever its size.
    pub once: Ticks,
    /// The most prompts in a batch of a serial predictor.
    pub batch: u32,
    /// Whether one predictor scores all prompts, first come first served; if not, each is scored at once.
    pub serial: bool,
}
