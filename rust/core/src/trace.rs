//! The columns of a trace.

use crate::error::Error;
use crate::time::{HORIZON, Ticks};

/// No prompt and no output is as long as this.
const LIMIT: u32 = 1 << 30;

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
    /// Tokens of its output that are reasoning, before the answer starts.
    pub reasoning_tokens: Option<Vec<u32>>,
    /// Its rank where rank decides, smaller first; all 0 if there is none.
    pub priority: Option<Vec<i64>>,
    /// What a predictor said of it, where a policy looks at that.
    pub score: Option<Vec<f64>>,
    /// Who sent it, as a number, where a policy looks at that.
    pub tenant: Option<Vec<u32>>,
    /// What its prompt shares with others.
    pub prefix: Option<PrefixIds>,
    /// The conversation that it is a turn of, from 0; `u32::MAX`: none.
    pub session: Option<Vec<u32>>,
}

/// Ids of the prompts' blocks, one list after another.
#[derive(Debug, Clone, Default)]
pub struct PrefixIds {
    /// Where each request's ids end in `ids`.
    pub ends: Vec<usize>,
    /// Equal prefixes have equal ids from the start on.
    pub ids: Vec<u64>,
    /// Tokens in a block.
    pub block_tokens: u32,
}

impl Trace {
    /// The rank of a request where rank decides.
    #[inline]
    pub(crate) fn rank(&self, row: usize) -> i64 {
        self.priority.as_ref().map_or(0, |column| column[row])
    }

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
        if self.priority.as_ref().is_some_and(|column| column.len() != n)
            || self.reasoning_tokens.as_ref().is_some_and(|column| column.len() != n)
            || self.session.as_ref().is_some_and(|column| column.len() != n)
            || self.prefix.as_ref().is_some_and(|prefix| prefix.ends.len() != n)
        {
            return Err(Error::trace(n, "all columns have the same length"));
        }
        if let Some(prefix) = &self.prefix {
            let ordered =
                prefix.ends.is_sorted() && prefix.ends.last().is_none_or(|&end| end == prefix.ids.len());
            if !ordered || prefix.block_tokens == 0 {
                return Err(Error::trace(
                    n,
                    "prefix ids are one list a request, of blocks of 1 token or more",
                ));
            }
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
        for (name, column) in [("prompt_tokens", &self.prompt_tokens), ("output_tokens", &self.output_tokens)]
        {
            if let Some(row) = column.iter().position(|&n| n == 0 || n >= LIMIT) {
                return Err(Error::trace(row, format!("{name} is 1 to {}, was {}", LIMIT - 1, column[row])));
            }
        }
        Ok(())
    }
}
