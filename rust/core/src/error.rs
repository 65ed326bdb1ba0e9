//! What can go wrong in the core.

use crate::time::{TICKS_PER_SECOND, Ticks};

/// An error of the core: the caller's input, or the end of the clock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A setting is not usable.
    #[error("{field}: {rule}")]
    Config {
        /// The setting.
        field: String,
        /// What it must be, and what it was.
        rule: String,
    },
    /// A row of the trace breaks a rule.
    #[error("row {row} of the trace: {rule}")]
    Trace {
        /// The row, from 0.
        row: usize,
        /// What it must be, and what it was.
        rule: String,
    },
    /// The clock cannot reach so far.
    #[error(
        "the simulated time ran past the clock's range of 186 days, at {seconds} s, on instance {instance}; \
         replay a shorter window, or bound it with `until`"
    )]
    ClockOverflow {
        /// Seconds at which the step that overran it began.
        seconds: u64,
        /// The instance that ran it.
        instance: usize,
    },
    /// Requests are left that never yield another token.
    #[error("instances[{instance}] makes no progress at {} s: {rule}", *.at as f64 / TICKS_PER_SECOND as f64)]
    NoProgress {
        /// The instance that holds them.
        instance: usize,
        /// When that was found.
        at: Ticks,
        /// What keeps them.
        rule: String,
    },
}

impl Error {
    /// A setting that breaks a rule.
    pub fn config(field: impl Into<String>, rule: impl Into<String>) -> Self {
        Self::Config { field: field.into(), rule: rule.into() }
    }

    pub(crate) fn trace(row: usize, rule: impl Into<String>) -> Self {
        Self::Trace { row, rule: rule.into() }
    }
}
