//! The columns of a trace.

use crate::error::Error;
use crate::time::{HORIZON, Ticks};

/// What arrives: one entry a request, ordered by arrival.
///
/// `output_tokens` is what a request turns out to need. The engine ends a
/// request by it; nothing that decides may read it.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// When each request arrives.
    pub arrival: Vec<Ticks>,
    /// Tokens of its prompt, at least 1.
    pub prompt_tokens: Vec<u32>,
    /// Tokens of its output, at least 1.
    pub output_tokens: Vec<u32>,
}

impl Trace {
    /// Requests in the trace.
    pub fn len(&self) -> usize {
        self.arrival.len()
    }

    /// Whether there is nothing to replay.
    pub fn is_empty(&self) -> bool {
        self.arrival.is_empty()
    }

    /// Checks what the engine relies on.
    ///
    /// # Errors
    ///
    /// Names the first row that breaks a rule.
    pub fn validate(&self) -> Result<(), Error> {
        let n = self.len();
        if n > i32::MAX as usize {
            return Err(Error::trace(n, "a trace holds at most 2147483647 requests"));
        }
        if self.prompt_tokens.len() != n || self.output_tokens.len() != n {
            return Err(Error::trace(n, "all columns have the same length"));
        }
        let mut before = 0;
        for (row, &arrival) in self.arrival.iter().enumerate() {
            if arrival < before {
                return Err(Error::trace(row, "arrivals are in order of time"));
            }
            if arrival > HORIZON {
                return Err(Error::trace(row, "arrivals lie within 186 days"));
            }
            before = arrival;
        }
        const LIMIT: u32 = 1 << 30;
        for (name, column) in [("prompt_tokens", &self.prompt_tokens), ("output_tokens", &self.output_tokens)]
        {
            if let Some(row) = column.iter().position(|&n| n == 0 || n >= LIMIT) {
                return Err(Error::trace(row, format!("{name} is 1 to {}, was {}", LIMIT - 1, column[row])));
            }
        }
        Ok(())
    }
}
