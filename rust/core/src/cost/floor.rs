//! Steps with prompt tokens, which the host launches piece by piece.
//!
//! A step that only decodes replays one CUDA graph. A step with prompt tokens runs in pieces of graphs, or in none, and the
//! host launches them one by one: the step does not end before the last launch, however short its kernels are.

use serde::Deserialize;

use super::{Cost, StepShape};
use crate::time::Ticks;

/// A cost model with a least time of steps that compute prompt tokens. Runs have none, and are those of `cost`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Floor {
    /// Ticks that a step with prompt tokens takes at least.
    pub prompts: Ticks,
    /// The cost of the kernels.
    pub cost: Cost,
}

impl Floor {
    /// Ticks that a step of this shape takes.
    pub(super) fn step(&self, shape: &StepShape) -> Ticks {
        let kernels = self.cost.step(shape);
        if shape.prefill_tokens > 0 { kernels.max(self.prompts) } else { kernels }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Affine;

    #[test]
    fn a_step_with_prompt_tokens_ends_after_its_launches_and_a_decode_with_its_kernels() {
        let kernels = Cost::Affine(Affine { step: 100, token: 10, kv_token: 0 });
        let cost = Cost::Floor(Box::new(Floor { prompts: 400, cost: kernels.clone() }));
        let shape = |decode_requests, prefill_tokens| StepShape {
            decode_requests,
            prefill_tokens,
            ..StepShape::default()
        };
        let ticks = [(0, 29), (9, 20), (0, 31), (9, 0)].map(|(n, tokens)| cost.step(&shape(n, tokens)));
        assert_eq!(ticks, [400, 400, 410, 190]);
        assert_eq!(cost.run(&shape(9, 0), 5), kernels.run(&shape(9, 0), 5));
        assert_eq!(cost.rise(&shape(9, 0)), kernels.rise(&shape(9, 0)));
    }
}
