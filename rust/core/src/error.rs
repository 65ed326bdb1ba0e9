//! The errors of the core.

use crate::time::{TICKS_PER_SECOND, Ticks};

/// An error of the core: in the caller's input, at the end of the clock, or of a replay that cannot finish.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A setting breaks a rule.
    #[error("{field}: {rule}")]
    Config {
        /// The setting.
        field: String,
        /// The rule for its value, and the value that it was.
        rule: String,
    },
    /// A row of the trace breaks a rule.
    #[error("row {row} of the trace: {rule}")]
    Trace {
        /// The row, from 0.
        row: usize,
        /// The rule for its value, and the value that it was.
        rule: String,
    },
    /// The clock would pass the end of its range.
    #[error(
        "the simulated time ran past the clock's range of 186 days, at {seconds} s, on instance {instance}; \
         replay a shorter window, or bound it with `until`"
    )]
    ClockOverflow {
        /// Seconds at which the step began that would pass it.
        seconds: u64,
        /// The instance of that step.
        instance: usize,
    },
    /// A request would reach the routers after the end of the clock's range.
    #[error(
        "row {row} reaches the routers after the clock's range of 186 days, at {seconds} s; replay fewer requests, or \
         predict faster"
    )]
    LateArrival {
        /// The row, from 0.
        row: usize,
        /// When it would.
        seconds: u64,
    },
    /// More steps are to be recorded than there is room for.
    #[error(
        "the steps take more than {most} entries, one for each step and each request in it, at {} s",
        *.at as f64 / TICKS_PER_SECOND as f64
    )]
    RecordFull {
        /// The most entries.
        most: u64,
        /// When the first step starts that there is no room for.
        at: Ticks,
    },
    /// The state of a replay cannot be kept, or be taken up again.
    #[error("checkpoint: {rule}")]
    Checkpoint {
        /// The rule that was broken.
        rule: String,
    },
    /// Requests are left that will never generate another token.
    #[error("instances[{instance}] makes no progress at {} s: {rule}", *.at as f64 / TICKS_PER_SECOND as f64)]
    NoProgress {
        /// The instance that they are on.
        instance: usize,
        /// When this was detected.
        at: Ticks,
        /// The cause that prevents their progress.
        rule: String,
    },
}

impl Error {
    /// A setting that breaks a rule.
    pub fn config(field: impl Into<String>, rule: impl Into<String>) -> Self {
        Self::Config { field: field.into(), rule: rule.into() }
    }

    /// The error of a step of an instance from `start` on that would end past the range of the clock.
    pub(crate) fn past_clock(start: Ticks, instance: usize) -> Self {
        Self::ClockOverflow { seconds: start / TICKS_PER_SECOND, instance }
    }

    /// The error of a setting that is part of `field`; any other error as it is.
    pub(crate) fn within(self, field: &str) -> Self {
        match self {
            Self::Config { field: part, rule } => Self::Config { field: format!("{field}.{part}"), rule },
            other => other,
        }
    }

    /// A row of the trace that breaks a rule.
    pub(crate) fn trace(row: usize, rule: impl Into<String>) -> Self {
        Self::Trace { row, rule: rule.into() }
    }
}
