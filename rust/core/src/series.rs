//! Arithmetic series over a run of steps: step `i` takes `first + i * slope`.
//!
//! All closed forms with which a run of steps is simulated at once, in integers, so that it ends at the same tick as if
//! it were simulated step by step.

use serde::{Deserialize, Serialize};

use crate::time::Ticks;

/// The lengths of consecutive steps, as an arithmetic series.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// Length of the first step.
    pub first: Ticks,
    /// How much longer each step is than the one before.
    pub slope: Ticks,
}

/// `0 + 1 + … + (k - 1)`.
pub fn sum_of_indices(k: u64) -> u128 {
    // One of `k` and `k - 1` is even. Its half is `k / 2`, and the other is `k - 1` with its last bit set.
    u128::from(k / 2) * u128::from(k.wrapping_sub(1) | 1)
}

/// `0² + 1² + … + (k - 1)²`.
pub fn sum_of_squared_indices(k: u64) -> u128 {
    if k == 0 {
        return 0;
    }
    if k < 1 << 20 {
        return u128::from((k - 1) * k * (2 * k - 1) / 6);
    }
    sum_of_many_squared_indices(k)
}

/// The same, of more than a million indices.
#[cold]
#[inline(never)]
fn sum_of_many_squared_indices(k: u64) -> u128 {
    let k = u128::from(k);
    (k - 1) * k * (2 * k - 1) / 6
}

impl Series {
    /// Length of step `i`.
    pub fn at(&self, i: u64) -> Ticks {
        self.first + self.slope * i
    }

    /// Length of the first `k` steps together.
    pub fn total(&self, k: u64) -> u128 {
        u128::from(self.first) * u128::from(k) + u128::from(self.slope) * sum_of_indices(k)
    }

    /// Sum of `total(1) + total(2) + … + total(k)`.
    pub fn sum_of_totals(&self, k: u64) -> u128 {
        let k = u128::from(k);
        let (first, slope) = (u128::from(self.first), u128::from(self.slope));
        first * (k * (k + 1) / 2) + slope * (k * (k + 1) / 2 * k.saturating_sub(1) / 3)
    }

    /// Sum of the squares of the first `k` lengths, which sum to less than 2^64.
    pub fn total_of_squares(&self, k: u64) -> u128 {
        let (first, slope) = (u128::from(self.first), u128::from(self.slope));
        first * first * u128::from(k)
            + 2 * (first * slope) * sum_of_indices(k)
            + slope * slope * sum_of_squared_indices(k)
    }

    /// Sum over the first `k` steps of `(level + growth * i) * length(i)`: the time integral of a quantity that grows by
    /// `growth` at each step.
    pub fn integral(&self, level: u64, growth: u64, k: u64) -> u128 {
        let level = u128::from(level) * self.total(k);
        if k == 1 {
            return level;
        }
        let (first, slope) = (u128::from(self.first), u128::from(self.slope));
        level + u128::from(growth) * (first * sum_of_indices(k) + slope * sum_of_squared_indices(k))
    }

    /// The largest `j <= k` whose first `j` steps take at most `elapsed`.
    pub fn steps_within(&self, elapsed: Ticks, k: u64) -> u64 {
        if elapsed < self.first {
            return 0;
        }
        let goal = u128::from(elapsed);
        let mut j = self.guess(elapsed).min(k);
        let mut total = self.total(j);
        while total > goal {
            j -= 1;
            total -= u128::from(self.at(j));
        }
        while j < k && total + u128::from(self.at(j)) <= goal {
            total += u128::from(self.at(j));
            j += 1;
        }
        j
    }

    /// The smallest `j >= 1` whose first `j` steps take at least `elapsed`, or
    /// `k` if that is fewer.
    pub fn steps_to_reach(&self, elapsed: Ticks, k: u64) -> u64 {
        if elapsed <= self.first {
            return 1;
        }
        let j = self.steps_within(elapsed, k);
        if j < k && self.total(j) < u128::from(elapsed) { j + 1 } else { j.max(1) }
    }

    /// About how many steps fit into `elapsed`. The callers correct it in integers, so its rounding has no effect.
    fn guess(&self, elapsed: Ticks) -> u64 {
        if self.first == 0 {
            return 0;
        }
        if self.slope == 0 {
            return elapsed / self.first;
        }
        let (first, slope) = (self.first as f64, self.slope as f64);
        let half = first - slope / 2.0;
        let root = (half * half + 2.0 * slope * elapsed as f64).sqrt();
        ((root - half) / slope) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn closed_forms_equal_the_sums(
            first in 0u64..1_000_000, slope in 0u64..10_000, k in 0u64..200,
            level in 0u64..1_000_000, growth in 0u64..1_000,
        ) {
            let series = Series { first, slope };
            let lengths: Vec<u128> = (0..k).map(|i| u128::from(series.at(i))).collect();
            prop_assert_eq!(series.total(k), lengths.iter().sum::<u128>());
            prop_assert_eq!(series.total_of_squares(k), lengths.iter().map(|x| x * x).sum::<u128>());
            let held = (0..k).map(|i| u128::from(level + growth * i) * u128::from(series.at(i)));
            prop_assert_eq!(series.integral(level, growth, k), held.sum::<u128>());
        }

        #[test]
        fn searches_equal_a_walk(
            first in 1u64..1_000, slope in 0u64..50, k in 1u64..100, elapsed in 0u64..100_000,
        ) {
            let series = Series { first, slope };
            let within = (0..=k).rev().find(|&j| series.total(j) <= u128::from(elapsed)).unwrap();
            prop_assert_eq!(series.steps_within(elapsed, k), within);
            let reach = (1..=k).find(|&j| series.total(j) >= u128::from(elapsed)).unwrap_or(k);
            prop_assert_eq!(series.steps_to_reach(elapsed, k), reach);
        }
    }
}
