//! Counts of the requests that have come to an instance, and of those that finished there.

use serde::{Deserialize, Serialize};

use super::fact::{Fact, Subject};

/// Requests that arrived, and the tokens of those that arrived and finished; how many finished is among the statistics.
/// None of these numbers ever falls, so the difference of two readings is the traffic between them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Flow {
    arrived: u64,
    arrived_tokens: u64,
    finished_tokens: u64,
}

impl Flow {
    /// Requests that arrived.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// The prompt tokens of the requests that arrived.
    pub(crate) fn arrived_tokens(&self) -> u64 {
        self.arrived_tokens
    }

    /// The output tokens of the requests that yielded their last one.
    pub(crate) fn finished_tokens(&self) -> u64 {
        self.finished_tokens
    }

    /// Adds a new request.
    pub(crate) fn add_arrival(&mut self, prompt: u32) {
        self.arrived += 1;
        self.arrived_tokens += u64::from(prompt);
    }

    /// Counts the end of a request.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the fact is known where it is told")]
    pub(super) fn observe(&mut self, fact: Fact, of: Subject) {
        if let Fact::Finished = fact {
            self.finished_tokens += u64::from(of.state.output);
        }
    }
}
