//! How far a replay runs: to its end, or to a moment at which it pauses.

use serde::{Deserialize, Serialize};

use super::Simulation;
use crate::error::Error;
use crate::time::{NEVER, Ticks};

/// How far a replay runs.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(in crate::engine) struct Extent {
    /// When it stops, even if requests are left.
    pub(in crate::engine) until: Ticks,
    /// The moment at which it pauses; [`NEVER`]: it runs to its end.
    pub(in crate::engine) pause: Ticks,
    /// Whether the trace is streamed, and has more rows: they arrive at `pause` or later.
    pub(in crate::engine) streams: bool,
    /// Whether the first phase of that moment is over, and the others are not.
    pub(in crate::engine) halfway: bool,
    /// Whether it stays where it is once all requests have ended: those of other instances may not have.
    pub(in crate::engine) stays: bool,
}

impl Extent {
    /// To the end, or `until` if that is before.
    pub(in crate::engine) fn new(until: Option<Ticks>) -> Self {
        let until = until.unwrap_or(NEVER - 1);
        Self { until, pause: NEVER, streams: false, halfway: false, stays: false }
    }
}

impl Simulation {
    /// Ends the steps that end at the moment at which the replay is to pause, if it is the next one.
    pub(in crate::engine) fn reach_pause(&mut self, next: Ticks) {
        if next == self.extent.pause && !self.extent.streams {
            self.open_moment(next);
        }
    }

    /// Begins the moment at which the replay stands, unless it has begun.
    pub(in crate::engine) fn open_moment(&mut self, now: Ticks) {
        if !self.extent.halfway {
            self.begin_moment(now);
            self.end_steps(now);
            self.extent.halfway = true;
        }
    }

    /// Runs the phases that are left of the moment at which the replay stood.
    pub(in crate::engine) fn finish_pause(&mut self) -> Result<(), Error> {
        self.extent.halfway = false;
        self.finish_moment(self.clock)
    }
}
