//! A step as a straight line in its tokens.
//!
//! The plainest model that still tells prefill from decode: a constant, a
//! price per token computed and a price per token of context read. Schedulers
//! that predict their own steps fit this line, and it keeps tests readable.
//!
//! All coefficients are whole ticks, and all sums saturate at [`HORIZON`]. Adding a step that long
//! to the clock passes the end of its range, which the engine checks.

use serde::Deserialize;

use super::{Run, StepShape};
use crate::time::{HORIZON, Ticks};

/// `step + token * tokens + kv_token * context`, in ticks.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Affine {
    /// Ticks of any step, however small.
    pub step: Ticks,
    /// Ticks for each token computed, decode and prefill alike.
    pub token: Ticks,
    /// Ticks for each token of context that those attend to.
    pub kv_token: Ticks,
}

impl Affine {
    /// Ticks that a step of this shape takes.
    pub fn step(&self, shape: &StepShape) -> Ticks {
        let decodes = shape.padded_decodes();
        let prefill = self
            .token
            .saturating_mul(shape.padded_tokens().saturating_sub(decodes))
            .saturating_add(self.kv_token.saturating_mul(shape.prefill_kv));
        self.step
            .saturating_add(self.token.saturating_mul(decodes))
            .saturating_add(self.kv_token.saturating_mul(shape.decode_kv))
            .saturating_add(shape.prefill_share(prefill))
            .min(HORIZON)
    }

    /// The run of up to `most` pure-decode steps that starts with `shape`; it
    /// never ends before the horizon.
    pub fn run(&self, shape: &StepShape, most: u64) -> Run {
        let first = self.step(shape);
        let slope = self.kv_token.checked_mul(shape.decode_requests);
        series(first, slope, most)
    }
}

/// A run that starts at `first` and rises by `slope` (`None`: by more than fits),
/// cut to `steps` and to those that end before the sums saturate.
pub(super) fn series(first: Ticks, slope: Option<Ticks>, steps: u64) -> Run {
    match slope {
        Some(0) => Run { first, slope: 0, steps },
        Some(slope) if first < HORIZON => {
            // In most cases there are few steps, and the division is not needed.
            let fits = slope.checked_mul(steps).is_some_and(|last| last <= HORIZON - first);
            Run { first, slope, steps: if fits { steps } else { (HORIZON - first) / slope }.max(1) }
        }
        _ => Run { first, slope: 0, steps: 1 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(requests: u64, kv: u64) -> StepShape {
        StepShape { decode_requests: requests, decode_kv: kv, sampled: requests, ..StepShape::default() }
    }

    #[test]
    fn adds_up_its_three_terms() {
        let cost = Affine { step: 1_000, token: 10, kv_token: 3 };
        let shape = StepShape {
            decode_requests: 2,
            decode_kv: 50,
            prefill_tokens: 7,
            prefill_requests: 1,
            prefill_kv: 9,
            prefill_pairs: 42,
            sampled: 2,
            ..StepShape::default()
        };
        assert_eq!(cost.step(&shape), 1_000 + 10 * (2 + 7) + 3 * (50 + 9));
    }

    #[test]
    fn a_run_rises_by_one_context_token_per_request() {
        let cost = Affine { step: 1_000, token: 10, kv_token: 3 };
        let run = cost.run(&decode(4, 100), u64::MAX);
        assert_eq!((run.first, run.slope), (1_340, 12));
        assert!(run.steps > 1 << 40);
    }

    #[test]
    fn free_context_makes_an_endless_level_run() {
        let cost = Affine { step: 5, token: 0, kv_token: 0 };
        assert_eq!(cost.run(&decode(3, 9), u64::MAX), Run { first: 5, slope: 0, steps: u64::MAX });
    }

    #[test]
    fn saturates_at_the_horizon() {
        let cost = Affine { step: HORIZON - 1, token: u64::MAX, kv_token: u64::MAX };
        let shape = decode(u64::MAX, u64::MAX);
        assert_eq!(cost.step(&shape), HORIZON);
        assert_eq!(cost.run(&shape, u64::MAX), Run { first: HORIZON, slope: 0, steps: 1 });
    }
}

#[cfg(test)]
mod property_tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_run_agrees_with_every_step_in_it(
            step in 0_u64..1 << 62,
            token in 0_u64..1 << 40,
            kv_token in 0_u64..1 << 40,
            requests in 0_u64..10_000,
            kv in 0_u64..1 << 24,
            somewhere in 0_u64..1 << 40,
        ) {
            let cost = Affine { step, token, kv_token };
            let at = |i: u64| StepShape {
                decode_requests: requests,
                decode_kv: kv + i * requests,
                sampled: requests,
                ..StepShape::default()
            };
            let run = cost.run(&at(0), u64::MAX);
            prop_assert!(run.steps >= 1);
            for i in [0, 1, 2, somewhere, run.steps - 1] {
                if i < run.steps && i < 1 << 40 {
                    prop_assert_eq!(cost.step(&at(i)), run.first + i * run.slope);
                }
            }
        }
    }
}
