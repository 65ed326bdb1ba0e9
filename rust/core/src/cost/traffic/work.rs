//! The sums from which the bytes and FLOPs of a replay are computed.

use serde::{Deserialize, Serialize};

use super::Traffic;
use crate::cost::StepShape;
use crate::series::sum_of_indices;

/// Sums over the steps of an instance: exact, and the same whether a run of steps is added at once or step by step.
///
/// Sums over prefills, and over reads of weights, are times layers: of the `depth` layers of the model if the
/// scheduler runs prefills by groups of layers, else of 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Layers of the model, if the scheduler runs prefills by groups of them; else 1.
    depth: u32,
    /// Layers that computed tokens, over the steps.
    pub layer_steps: u64,
    /// Steps that sampled a token.
    pub head_steps: u64,
    /// Sampled rows.
    pub rows: u64,
    /// Experts read, over layers and steps, in the units of [`Traffic::loads`].
    pub expert_loads: u128,
    /// Tokens computed by decoding requests.
    pub decode_tokens: u64,
    /// Tokens of the contexts of decoding requests; each is also a (query, key) pair.
    pub decode_context: u128,
    /// Those of them that are inside a sliding window.
    pub decode_seen: u128,
    /// Sums over the prefills, times layers.
    pub prefill: Prefilled,
}

/// Sums over the prefills of all steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prefilled {
    /// Requests that computed tokens.
    pub requests: u128,
    /// Tokens computed.
    pub tokens: u128,
    /// Tokens of the contexts of those requests.
    pub context: u128,
    /// (Query, key) pairs.
    pub pairs: u128,
    /// Tokens of context inside a sliding window.
    pub seen_context: u128,
    /// (Query, key) pairs inside a sliding window.
    pub seen_pairs: u128,
}

impl Work {
    /// Empty sums for a model of `depth` layers.
    pub fn new(depth: u32) -> Self {
        Self {
            depth: depth.max(1),
            layer_steps: 0,
            head_steps: 0,
            rows: 0,
            expert_loads: 0,
            decode_tokens: 0,
            decode_context: 0,
            decode_seen: 0,
            prefill: Prefilled::default(),
        }
    }

    /// The layers by which prefills are counted.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Adds `steps` steps of which `shape` is the first. If there is more than one, they only decode, and each
    /// lengthens every context by one token.
    pub fn add(&mut self, traffic: &Traffic, shape: &StepShape, steps: u64) {
        debug_assert!(steps <= 1 || shape.prefill_tokens == 0, "Invariant: a run only decodes");
        let (requests, decoded) = (shape.decode_requests, shape.decode_requests + shape.draft_tokens);
        let all = u64::from(self.depth);
        let part = if shape.prefill_layers == shape.layers { all } else { u64::from(shape.prefill_layers) };
        let layers = if requests > 0 { all } else { part };
        self.layer_steps += layers * steps;
        if shape.sampled > 0 {
            self.head_steps += steps;
            self.rows += shape.sampled * steps;
        }
        if traffic.experts.is_some() {
            let tokens = decoded.saturating_add(shape.prefill_tokens);
            let mut loads = u128::from(traffic.loads(tokens)) * u128::from(part);
            if part < all {
                loads += u128::from(traffic.loads(decoded)) * u128::from(all - part);
            }
            self.expert_loads += loads * u128::from(steps);
        }
        if requests > 0 {
            self.decode_tokens += decoded * steps;
            self.decode_context += grown(shape.decode_kv, requests, steps);
            if let Some(windows) = &traffic.windows {
                self.decode_seen += seen(shape, windows.tokens, steps);
            }
        }
        if shape.prefill_tokens > 0 {
            self.prefill.add(traffic, shape, part);
        }
    }
}

impl Prefilled {
    /// Adds the prefills of one step, which runs them in `layers` layers.
    fn add(&mut self, traffic: &Traffic, shape: &StepShape, layers: u64) {
        let times = |count: u64| u128::from(count) * u128::from(layers);
        self.requests += times(shape.prefill_requests);
        self.tokens += times(shape.prefill_tokens);
        self.context += times(shape.prefill_kv);
        self.pairs += times(shape.prefill_pairs);
        if let Some(windows) = &traffic.windows {
            // A chunk sees its own tokens and a window before the first of them.
            let own = shape.prefill_tokens;
            let most = windows.tokens.saturating_mul(shape.prefill_requests).saturating_add(own);
            self.seen_context += times(shape.prefill_kv.min(most));
            self.seen_pairs += times(shape.prefill_pairs.min(windows.tokens.saturating_mul(own)));
        }
    }
}

/// The sum of `first + i * growth` over `steps` steps.
fn grown(first: u64, growth: u64, steps: u64) -> u128 {
    if steps == 1 {
        return u128::from(first);
    }
    u128::from(first) * u128::from(steps) + u128::from(growth) * sum_of_indices(steps)
}

/// The sum over `steps` steps of the context that decodes see through a window. The window bounds the sum over the
/// requests, not each request, as in the roofline's time of such attention.
fn seen(shape: &StepShape, window: u64, steps: u64) -> u128 {
    let full = window.saturating_mul(shape.decode_requests);
    // Steps that start below the bound. There is at least one request, so this does not divide by 0.
    let below = full.saturating_sub(shape.decode_kv).div_ceil(shape.decode_requests).min(steps);
    grown(shape.decode_kv, shape.decode_requests, below) + u128::from(full) * u128::from(steps - below)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cost::{Attended, ExpertLoads, PerRow, PerToken, Windows};

    fn traffic(window: Option<u64>) -> Traffic {
        let attended = Attended::default();
        Traffic {
            weights: 0,
            head: 0,
            experts: Some(ExpertLoads { bytes: 1, loads: vec![(1, 3), (4, 7), (9, 8)] }),
            decode: PerToken::default(),
            prefill: PerToken::default(),
            row: PerRow::default(),
            windows: window.map(|tokens| Windows { tokens, decode: attended, prefill: attended }),
            state: 0,
            power: None,
        }
    }

    fn shapes() -> impl Strategy<Value = StepShape> {
        let prefill = (0u64..3, 0u64..50, 0u64..500, 1u32..5);
        (0u64..9, 0u64..3_000, prefill).prop_map(|(decodes, kv, (requests, tokens, before, layers))| {
            let prefills = if tokens < requests { 0 } else { requests };
            let tokens = if prefills == 0 { 0 } else { tokens };
            let decodes = if prefills == 0 { decodes.max(1) } else { decodes };
            StepShape {
                decode_requests: decodes,
                decode_kv: if decodes == 0 { 0 } else { decodes + kv },
                prefill_tokens: tokens,
                prefill_requests: prefills,
                prefill_kv: if prefills == 0 { 0 } else { before + tokens },
                prefill_pairs: tokens * before + tokens * (tokens + 1) / 2,
                sampled: decodes,
                prefill_layers: layers,
                layers: 4,
                ..StepShape::default()
            }
        })
    }

    proptest! {
        #[test]
        fn a_run_is_the_sum_of_its_steps(
            decodes in 1u64..20, kv in 0u64..5_000, steps in 1u64..300, window in prop::option::of(1u64..400),
        ) {
            let traffic = traffic(window);
            let at = |i: u64| StepShape {
                decode_requests: decodes,
                decode_kv: decodes + kv + i * decodes,
                sampled: decodes,
                ..StepShape::default()
            };
            let (mut run, mut walk) = (Work::new(4), Work::new(4));
            run.add(&traffic, &at(0), steps);
            for i in 0..steps {
                walk.add(&traffic, &at(i), 1);
            }
            prop_assert_eq!(run, walk);
        }

        #[test]
        fn layers_that_run_prefills_and_those_that_do_not_add_up(
            shape in shapes(), window in prop::option::of(1u64..400),
        ) {
            // A batch that passes groups of 1, 2 and 1 of 4 layers adds what one step of all four layers adds, except
            // for the decodes, which run in each of the three steps.
            let traffic = traffic(window);
            let (mut whole, mut groups) = (Work::new(4), Work::new(4));
            whole.add(&traffic, &StepShape { prefill_layers: 4, ..shape }, 1);
            for layers in [1, 2, 1] {
                groups.add(&traffic, &StepShape { prefill_layers: layers, ..shape }, 1);
            }
            prop_assert_eq!(groups.prefill, whole.prefill);
            prop_assert_eq!(groups.decode_tokens, 3 * whole.decode_tokens);
            prop_assert_eq!(groups.decode_seen, 3 * whole.decode_seen);
            let alone = 8 * u128::from(traffic.loads(shape.decode_requests));
            prop_assert_eq!(groups.expert_loads, whole.expert_loads + alone);
            let read = if shape.decode_requests > 0 { 12 } else { 4 };
            prop_assert_eq!(groups.layer_steps, read);
        }
    }
}
