//! Runs of steps that were longer than readers take for a token.

use serde::{Deserialize, Serialize};

use crate::series::Series;
use crate::time::Ticks;

/// Consecutive steps of the decode set that were longer than the interval, or came
/// after a pause. `T(k)` is when the set's step `k` ended, and `d` the interval.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct SlowSteps {
    /// Steps that the set had taken before.
    pub(super) before: u64,
    pub(super) start: Ticks,
    pub(super) series: Series,
    pub(super) steps: u64,
}

impl SlowSteps {
    /// The last of the steps.
    pub(super) fn last(&self) -> u64 {
        self.before + self.steps
    }

    /// `T(k) - k·d` for the set's step `k`, which is one of these.
    pub(super) fn at(&self, step: u64, interval: i128) -> i128 {
        let time = u128::from(self.start) + self.series.total(step - self.before);
        time as i128 - i128::from(step) * interval
    }

    /// The sum of `T(k) - k·d` over the set's steps after `from`, up to `to`.
    fn sum(&self, from: u64, to: u64, interval: i128) -> i128 {
        let (a, b) = (from - self.before, to - self.before);
        let count = i128::from(to - from);
        let times = self.series.sum_of_totals(b) - self.series.sum_of_totals(a);
        let steps = (i128::from(from) + 1 + i128::from(to)) * count / 2;
        i128::from(self.start) * count + times as i128 - steps * interval
    }

    /// The sum of the running maxima of `T(k) - k·d`, from `most` on, over the set's
    /// steps after `from`, up to `to`; and the last of them.
    pub(super) fn running(&self, mut most: i128, from: u64, to: u64, interval: i128) -> (i128, i128) {
        // The curve falls, then rises: once the first step is counted, the maximum
        // grows only over a last stretch, at each step.
        most = most.max(self.at(from + 1, interval));
        let (mut low, mut high) = (from + 1, to + 1);
        while low < high {
            let middle = u64::midpoint(low, high);
            if self.at(middle, interval) > most { high = middle } else { low = middle + 1 }
        }
        let flat = most * i128::from(low - 1 - from);
        if low <= to { (flat + self.sum(low - 1, to, interval), self.at(to, interval)) } else { (flat, most) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn running_maxima_equal_those_step_by_step(
            (first, slope, steps) in (1u64..60, 0u64..6, 1u64..40), before in 0u64..9, start in 0u64..500,
            interval in 1i128..40, most in -200i128..800, from in 0u64..40, to in 0u64..40,
        ) {
            let slow = SlowSteps { before, start, series: Series { first, slope }, steps };
            let (from, to) = (before + from.min(to) % steps, before + (from.max(to) % steps).max(from.min(to) % steps) + 1);
            let (mut sum, mut highest) = (0, most);
            for step in from + 1..=to {
                highest = highest.max(slow.at(step, interval));
                sum += highest;
            }
            prop_assert_eq!(slow.running(most, from, to, interval), (sum, highest));
        }
    }
}
