//! The step, or run of equal steps, that an instance is in.

use super::{Instance, StepRecord};
use crate::cost::{Beyond, StepShape};
use crate::series::Series;
use crate::time::Ticks;

/// Steps in progress.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) start: Ticks,
    pub(super) series: Series,
    pub(super) steps: u64,
    /// Whether the first of them holds its blocks. One that would start at the
    /// moment for which the run was caught up with does not yet: something may
    /// come at that very moment, before it starts.
    pub(super) begun: bool,
    /// What the first step computes.
    pub(super) shape: StepShape,
    /// What of its cost lies past what was measured.
    pub(super) beyond: Beyond,
    /// Whether the decode set runs.
    pub(super) decodes: bool,
    /// What the first step decided, where decisions are kept.
    pub(super) record: Option<StepRecord>,
}

impl Flight {
    pub(super) fn end(&self) -> Ticks {
        self.start + self.series.total(self.steps) as Ticks
    }

    /// How many of the steps have ended by `now`.
    pub(super) fn steps_ended(&self, now: Ticks) -> u64 {
        self.series.steps_within(now - self.start, self.steps)
    }
}

impl Instance {
    /// Tokens that the step in progress computes.
    pub(crate) fn step_tokens(&self) -> Option<u64> {
        self.flight.as_ref().map(|flight| flight.shape.decode_requests + flight.shape.prefill_tokens)
    }

    /// What the step in progress takes.
    pub(crate) fn step_ticks(&self) -> Option<Ticks> {
        self.flight.as_ref().map(|flight| flight.series.first)
    }

    /// Has the step in progress take as long as this. Returns when it ends.
    pub(crate) fn stretch(&mut self, ticks: Ticks) -> Option<Ticks> {
        let flight = self.flight.as_mut()?;
        debug_assert_eq!(flight.steps, 1, "Invariant: what starts together does not leap");
        flight.series.first = ticks;
        Some(flight.start.saturating_add(ticks))
    }

    /// Ends the run in progress with the step that runs at `now`; a step that
    /// ends at `now` has seen its last. Returns when the run now ends, if that
    /// changed.
    pub(crate) fn cut(&mut self, now: Ticks) -> Option<Ticks> {
        let flight = self.flight.as_mut()?;
        if !flight.begun && flight.start == now {
            flight.steps = 0;
            return Some(now);
        }
        if flight.steps == 1 {
            return None;
        }
        // The step after this one is decided already, where that is done ahead.
        let more = u64::from(self.scheduler.schedule_ahead);
        let steps = flight.series.steps_to_reach(now - flight.start, flight.steps) + more;
        if steps >= flight.steps {
            return None;
        }
        flight.steps = steps;
        Some(flight.end())
    }
}
