//! The intervals between the latest tokens of an instance.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::seconds;
use crate::series::Series;
use crate::time::Ticks;

/// The latest steps that decoded, by run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct TokenIntervals {
    /// (intervals, how many) of runs, the oldest first.
    runs: VecDeque<(Series, u64)>,
    steps: u64,
    /// The sum of their intervals.
    ticks: u128,
    /// When the latest of them ended, unless the instance has been idle since.
    last_end: Option<Ticks>,
    /// When no step could be formed, if none was formed since.
    resting_since: Option<Ticks>,
}

/// How many steps the mean is over.
const LATEST: u64 = 64;

impl TokenIntervals {
    /// No step could be formed at `now`: the time until the next one is no interval.
    pub(crate) fn rest(&mut self, now: Ticks) {
        self.resting_since = Some(now);
    }

    /// A step is formed at `now`, or no step can be. At the moment at which the step before ended it may be tried more
    /// than once, which is no idle time.
    pub(crate) fn end_rest(&mut self, now: Ticks) {
        if self.resting_since.take().is_some_and(|since| since < now) {
            self.last_end = None;
        }
    }

    /// Applies `steps` steps of a run that decoded. The first interval is from the end of
    /// the step before that did.
    pub(crate) fn add(&mut self, start: Ticks, series: Series, steps: u64) {
        let first = start + series.first - self.last_end.unwrap_or(start);
        self.ticks += u128::from(first) + series.total(steps) - u128::from(series.first);
        self.runs.push_back((Series { first, slope: 0 }, 1));
        if steps > 1 {
            let rest = Series { first: series.at(1), slope: series.slope };
            self.runs.push_back((rest, steps - 1));
        }
        self.steps += steps;
        self.last_end = Some(start + series.total(steps) as Ticks);
        self.forget_oldest();
    }

    /// Applies a batch that decoded, whose requests got their tokens before as it was formed.
    pub(crate) fn add_batch(&mut self, ticks: Ticks) {
        self.ticks += u128::from(ticks);
        self.runs.push_back((Series { first: ticks, slope: 0 }, 1));
        self.steps += 1;
        self.forget_oldest();
    }

    /// Forgets runs that the mean does not reach.
    fn forget_oldest(&mut self) {
        while let Some(&(intervals, oldest)) = self.runs.front()
            && self.steps - oldest >= LATEST
        {
            self.steps -= oldest;
            self.ticks -= intervals.total(oldest);
            self.runs.pop_front();
        }
    }

    /// The mean interval over the latest steps, in seconds; 0 before the first.
    pub(crate) fn mean_s(&self) -> f64 {
        let counted = self.steps.min(LATEST);
        if counted == 0 {
            return 0.0;
        }
        // The latest steps begin in the oldest run that is kept.
        let skipped = self.runs.front().map_or(0, |(intervals, _)| intervals.total(self.steps - counted));
        let ticks = self.ticks - skipped;
        seconds(ticks as Ticks) / counted as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_mean_equals_that_of_the_latest_steps_one_by_one(
            runs in prop::collection::vec((any::<bool>(), 0u64..3, 1u64..100, 0u64..4, 1u64..60), 1..12),
        ) {
            let (mut intervals, mut gaps, mut now, mut last) = (TokenIntervals::default(), Vec::new(), 0, None);
            for (rests, pause, first, slope, steps) in runs {
                if rests {
                    intervals.rest(now);
                    last = last.filter(|_| pause == 0);
                }
                now += pause;
                intervals.end_rest(now);
                let series = Series { first, slope };
                intervals.add(now, series, steps);
                for step in 0..steps {
                    let end = now + series.at(step);
                    gaps.push(end - last.unwrap_or(now));
                    (now, last) = (end, Some(end));
                }
                let latest = &gaps[gaps.len().saturating_sub(LATEST as usize)..];
                let mean = seconds(latest.iter().sum()) / latest.len() as f64;
                prop_assert!((intervals.mean_s() - mean).abs() <= 1e-12 * mean);
            }
        }
    }
}
