//! The step, or run of equal steps, that an instance is in.

use super::Instance;
use crate::cost::Extrapolation;
use crate::series::Series;
use crate::time::Ticks;

/// Steps in progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flight {
    pub(super) start: Ticks,
    /// What the first step takes beside its length: copies to and from the
    /// CPU's memory.
    pub(super) copying: Ticks,
    /// The steps' lengths.
    pub(super) series: Series,
    pub(super) steps: u64,
    /// Whether the first of them holds its blocks. One that would start at the
    /// moment for which the run was caught up with does not yet: something may
    /// come at that very moment, before it starts.
    pub(super) begun: bool,
    /// What of its cost lies past what was measured.
    pub(super) beyond: Extrapolation,
    /// Whether the decode set runs.
    pub(super) decodes: bool,
}

impl Flight {
    pub(super) fn end(&self) -> Ticks {
        self.after(self.steps)
    }

    /// When `steps` of the steps have ended.
    #[inline]
    pub(super) fn after(&self, steps: u64) -> Ticks {
        self.start + if steps == 0 { 0 } else { self.copying + self.series.total(steps) as Ticks }
    }

    /// How many of the steps have ended by `now`.
    #[inline]
    pub(super) fn steps_ended(&self, now: Ticks) -> u64 {
        let elapsed = (now - self.start).checked_sub(self.copying);
        elapsed.map_or(0, |elapsed| self.series.steps_within(elapsed, self.steps))
    }

    /// The fewest steps, at least one, that have not all ended before `when`;
    /// all if those have.
    pub(super) fn steps_to_reach(&self, when: Ticks) -> u64 {
        let elapsed = when.saturating_sub(self.start).saturating_sub(self.copying);
        self.series.steps_to_reach(elapsed, self.steps)
    }

    /// The first step by itself, with the copies, and the rest.
    pub(super) fn split(self) -> (Self, Self) {
        let Series { first, slope } = self.series;
        let alone = Series { first: first + self.copying, slope: 0 };
        let rest = Series { first: first + slope, slope };
        (
            Self { copying: 0, series: alone, steps: 1, ..self },
            Self { start: self.after(1), copying: 0, series: rest, steps: self.steps - 1, ..self },
        )
    }
}

impl Instance {
    /// Tokens that the step in progress computes.
    pub(crate) fn step_tokens(&self) -> Option<u64> {
        self.flight.as_ref().map(|_| self.shape.decode_requests + self.shape.prefill_tokens)
    }

    /// What the step in progress takes.
    pub(crate) fn step_ticks(&self) -> Option<Ticks> {
        self.flight.as_ref().map(|flight| flight.copying + flight.series.first)
    }

    /// Has the step in progress take as long as this. Returns when it ends.
    pub(crate) fn stretch(&mut self, ticks: Ticks) -> Option<Ticks> {
        let flight = self.flight.as_mut()?;
        debug_assert_eq!(flight.steps, 1, "Invariant: what starts together does not leap");
        (flight.copying, flight.series.first) = (0, ticks);
        Some(flight.start.saturating_add(ticks))
    }

    /// Ends the run in progress with the step that runs at `now`; a step that
    /// ends at `now` has seen its last. Returns when the run now ends, if that
    /// changed.
    pub(crate) fn cut(&mut self, now: Ticks) -> Option<Ticks> {
        if let Some((run, _)) = self.sequel.take() {
            debug_assert!(now < run.start, "Invariant: a step that has ended is booked");
            return Some(run.start);
        }
        let flight = self.flight.as_mut()?;
        if !flight.begun && flight.start == now {
            flight.steps = 0;
            return Some(now);
        }
        let steps = flight.steps_to_reach(now);
        Self::end_after(flight, steps)
    }

    /// The same, for a request that arrives where steps are decided ahead: the
    /// step after the one that runs at `now` is decided already, and runs too.
    pub(super) fn cut_ahead(&mut self, now: Ticks) -> Option<Ticks> {
        let flight = self.flight.as_mut()?;
        if !flight.begun && flight.start == now {
            return self.cut(now);
        }
        let steps = flight.steps_to_reach(now) + 1;
        Self::end_after(flight, steps)
    }

    /// Ends a run after so many of its steps. Returns when it now ends, if that
    /// changed.
    fn end_after(flight: &mut Flight, steps: u64) -> Option<Ticks> {
        if steps >= flight.steps {
            return None;
        }
        flight.steps = steps;
        Some(flight.end())
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
            let beyond = Extrapolation::default();
            let flight = Flight { start: 5, copying, series, steps, begun: true, beyond, decodes: true };
            let ends: Vec<Ticks> = (1..=steps).map(|k| flight.after(k)).collect();
            let now = 5 + after;
            let ended = ends.iter().filter(|&&end| end <= now).count() as u64;
            prop_assert_eq!(flight.steps_ended(now), ended);
            let reached = ends.iter().filter(|&&end| end < now).count() as u64 + 1;
            if first > 0 {
                prop_assert_eq!(flight.steps_to_reach(now), reached.min(steps));
            }
            let (alone, rest) = flight.split();
            prop_assert_eq!(alone.end(), flight.after(1));
            prop_assert_eq!(rest.end(), flight.end());
        }
    }
}
