//! The step, or run of certain steps, that an instance is in.
//!
//! A run is a number of steps whose decisions are all known when the first
//! starts. It is applied at once, in closed form, when it ends, is truncated, or
//! is looked at.

mod list;
mod pipeline;
mod state;
#[cfg(test)]
mod state_tests;

pub(super) use list::StepList;
pub(super) use pipeline::{Passing, Pipeline};
pub(super) use state::RunState;

use serde::{Deserialize, Serialize};

use crate::cost::Extrapolation;
use crate::series::Series;
use crate::time::Ticks;

/// Steps in progress.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Run {
    /// When the first step starts.
    pub(crate) start: Ticks,
    /// Ticks that copies to and from the CPU's memory add to the first step.
    pub(crate) copying: Ticks,
    /// The steps' lengths.
    pub(crate) series: Series,
    /// Number of steps.
    pub(crate) steps: u64,
    /// Whether the first step holds its blocks. It does not yet if it starts at the
    /// moment up to which the run was applied: an event of that same moment may still
    /// end the run before it.
    pub(crate) begun: bool,
    /// The parts of the shape that lie beyond what was measured.
    pub(crate) extrapolation: Extrapolation,
    /// Whether the decode set runs.
    pub(crate) decodes: bool,
}

impl Run {
    /// When the last step ends.
    pub(crate) fn end(&self) -> Ticks {
        self.after(self.steps)
    }

    /// When the first `steps` steps have ended.
    pub(crate) fn after(&self, steps: u64) -> Ticks {
        self.start + if steps == 0 { 0 } else { self.copying + self.series.total(steps) as Ticks }
    }

    /// Steps that have ended by `now`.
    pub(crate) fn steps_ended(&self, now: Ticks) -> u64 {
        let elapsed = (now - self.start).checked_sub(self.copying);
        elapsed.map_or(0, |elapsed| self.series.steps_within(elapsed, self.steps))
    }

    /// The fewest steps, at least one, the last of which does not end before
    /// `moment`; all steps if all end before.
    pub(crate) fn steps_to_reach(&self, moment: Ticks) -> u64 {
        let elapsed = moment.saturating_sub(self.start).saturating_sub(self.copying);
        self.series.steps_to_reach(elapsed, self.steps)
    }

    /// The first step by itself, copies included, and the rest.
    pub(crate) fn split(self) -> (Self, Self) {
        let Series { first, slope } = self.series;
        let alone = Series { first: first + self.copying, slope: 0 };
        let rest = Series { first: first + slope, slope };
        (
            Self { copying: 0, series: alone, steps: 1, ..self },
            Self { start: self.after(1), copying: 0, series: rest, steps: self.steps - 1, ..self },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_run_whose_first_step_copies_is_that_step_and_the_rest(
            (first, slope, copying) in (0u64..9, 0u64..3, 0u64..9), steps in 1u64..20, after in 0u64..200,
        ) {
            let series = Series { first, slope };
            let extrapolation = Extrapolation::default();
            let run = Run { start: 5, copying, series, steps, begun: true, extrapolation, decodes: true };
            let ends: Vec<Ticks> = (1..=steps).map(|k| run.after(k)).collect();
            let now = 5 + after;
            let ended = ends.iter().filter(|&&end| end <= now).count() as u64;
            prop_assert_eq!(run.steps_ended(now), ended);
            let reached = ends.iter().filter(|&&end| end < now).count() as u64 + 1;
            if first > 0 {
                prop_assert_eq!(run.steps_to_reach(now), reached.min(steps));
            }
            let (alone, rest) = run.split();
            prop_assert_eq!(alone.end(), run.after(1));
            prop_assert_eq!(rest.end(), run.end());
        }
    }
}
