//! CUDA graphs: steps run with one of the numbers of tokens for which a graph was captured.
//!
//! An engine captures its forward pass for some numbers of tokens. A step replays the smallest graph that holds its tokens,
//! and so computes that graph's number of tokens; a step of more tokens than the largest graph runs as it is. Follows
//! `CudaGraphManager` (`vllm/v1/worker/gpu/cudagraph_utils.py`) and `CudagraphDispatcher`
//! (`vllm/v1/cudagraph_dispatcher.py`) of vLLM 0.33.0, with full graphs for decodes and piecewise ones for other steps.
//!
//! The padding passes what has a row for each token: norms, matrix multiplications and all-reduces. It does not pass:
//!
//! - attention and the KV cache: a padded request has no context and its slots are -1, piecewise graphs leave attention
//!   out;
//! - the LM head and the sampler: they read the rows of the tokens that are sampled, after the graph;
//! - routed experts and the exchange of tokens with them: padding is routed to the expert -1, which is none
//!   (`VLLM_MOE_SKIP_PADDING`, on by default);
//! - what is paid for each request.
//!
//! Activations between pipeline stages are sent with the padding; here they are not.
//!
//! A request that is admitted with one token and drafts that pad it counts as a prefill.
//!
//! The host launches the kernels of a step that no graph holds one by one, so the step has a least time.

use serde::Deserialize;

use super::{Cost, Run, StepShape};
use crate::time::Ticks;

/// A cost model of steps that replay graphs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Graphs {
    /// The graphs.
    pub captured: Captured,
    /// The cost of the padded steps.
    pub cost: Cost,
}

/// Graphs by their tokens.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Captured {
    /// Tokens of the graphs that hold any step, rising.
    pub sizes: Vec<u64>,
    /// Graphs of steps that only decode, with as many drafts of each request. They go before `sizes`.
    #[serde(default)]
    pub uniform: Vec<Uniform>,
    /// Ticks that a step which no graph holds takes at least: its host launches the kernels one by one.
    #[serde(default)]
    pub eager: Ticks,
}

/// Graphs of steps that only decode, alike.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uniform {
    /// Drafts of each request.
    pub drafts: u64,
    /// Tokens, rising.
    pub sizes: Vec<u64>,
}

impl Graphs {
    /// See [`Cost::prepare`].
    pub(super) fn prepare(&mut self, most: u64, each: &[(u64, u64)]) {
        if let Cost::Roofline(cost) = &mut self.cost {
            cost.prepare(most, each, |shape| self.captured.pad(&shape));
        }
    }

    /// Ticks that a step of this shape takes.
    pub(super) fn step(&self, shape: &StepShape) -> Ticks {
        self.cost.step(&self.captured.pad(shape)).max(self.captured.least(shape))
    }

    /// See [`Cost::run`]. The tokens of a run's steps are the same, and so are their padding and their least time.
    pub(super) fn run(&self, shape: &StepShape, most: u64) -> Run {
        let kernels = self.cost.run(&self.captured.pad(shape), most);
        let least = self.captured.least(shape);
        if kernels.first >= least {
            return kernels;
        }
        // The kernels grow with the context, and end after the launches at some step.
        let below = (least - kernels.first).checked_div(kernels.slope).unwrap_or(u64::MAX);
        Run { first: least, slope: 0, steps: kernels.steps.min(below.saturating_add(1)) }
    }
}

impl Captured {
    /// The shape of a step with the padding of its graph.
    pub(super) fn pad(&self, shape: &StepShape) -> StepShape {
        let padding = self.padding(shape);
        let decodes = shape.decode_requests.saturating_add(shape.draft_tokens);
        let is_whole = shape.prefill_layers == shape.layers;
        let decode_padding = if is_whole { 0 } else { padding_to(&self.sizes, decodes).unwrap_or(0) };
        StepShape { padding, decode_padding, ..*shape }
    }

    /// Ticks that a step takes at least.
    fn least(&self, shape: &StepShape) -> Ticks {
        if self.eager > 0 && self.fit(shape).is_none() { self.eager } else { 0 }
    }

    /// Tokens that are added to a step.
    fn padding(&self, shape: &StepShape) -> u64 {
        self.fit(shape).unwrap_or(0)
    }

    /// Tokens from those of a step to the next graph; `None` if none holds it.
    fn fit(&self, shape: &StepShape) -> Option<u64> {
        let tokens = shape.tokens();
        let is_alike = |graphs: &&Uniform| {
            shape.prefill_requests == 0 && shape.draft_tokens == graphs.drafts * shape.decode_requests
        };
        let uniform = self.uniform.iter().find(is_alike);
        let alike = uniform.and_then(|graphs| padding_to(&graphs.sizes, tokens));
        alike.or_else(|| padding_to(&self.sizes, tokens))
    }
}

/// Tokens from `tokens` to the next of `sizes`; `None` past the last one.
fn padding_to(sizes: &[u64], tokens: u64) -> Option<u64> {
    if tokens == 0 {
        return Some(0);
    }
    sizes.get(sizes.partition_point(|&size| size < tokens)).map(|size| size - tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Affine;

    fn captured() -> Captured {
        Captured {
            sizes: vec![1, 2, 4, 8, 16],
            uniform: vec![Uniform { drafts: 2, sizes: vec![3, 6, 12] }],
            eager: 0,
        }
    }

    fn decode(requests: u64, drafts: u64) -> StepShape {
        StepShape {
            decode_requests: requests,
            draft_tokens: drafts,
            decode_kv: 100,
            sampled: requests + drafts,
            ..StepShape::default()
        }
    }

    #[test]
    fn a_step_runs_with_the_next_size_and_past_the_last_as_it_is() {
        let tokens = |n| captured().pad(&decode(n, 0)).padded_tokens();
        assert_eq!([0, 1, 2, 3, 4, 5, 8, 9, 16, 17, 99].map(tokens), [0, 1, 2, 4, 4, 8, 8, 16, 16, 17, 99]);
    }

    #[test]
    fn a_step_that_no_graph_holds_ends_after_its_launches() {
        let kernels = Cost::Affine(Affine { step: 100, token: 1, kv_token: 1 });
        let captured = Captured { eager: 300, ..captured() };
        let cost = Cost::Graphs(Box::new(Graphs { captured, cost: kernels.clone() }));
        // 100 tokens of context: 17 requests take 217 ticks, and each further step 17 more.
        let (held, past) = (decode(16, 0), decode(17, 0));
        assert_eq!((cost.step(&held), cost.step(&past)), (216, 300));
        assert_eq!(cost.run(&held, 9), kernels.run(&held, 9));
        assert_eq!(cost.run(&past, 99), Run { first: 300, slope: 0, steps: 5 });
        for step in 0..7 {
            let later = StepShape { decode_kv: past.decode_kv + 17 * step, ..past };
            let ticks = cost.step(&later);
            assert_eq!(ticks, kernels.step(&later).max(300));
            assert_eq!(ticks == 300, step < 5, "{step}");
            assert_eq!(cost.run(&later, 1).first, ticks);
        }
        let mixed = StepShape { prefill_requests: 1, prefill_tokens: 1, ..held };
        assert_eq!(cost.step(&mixed), 300);
    }

    #[test]
    fn decodes_with_all_their_drafts_have_graphs_of_their_own() {
        let tokens = |shape: StepShape| captured().pad(&shape).padded_tokens();
        assert_eq!([(1, 2), (2, 4), (3, 6)].map(|(n, k)| tokens(decode(n, k))), [3, 6, 12]);
        // One request lacks a draft; 15 tokens are past the last graph of their own; a prefill is among them.
        assert_eq!([(2, 3), (5, 10)].map(|(n, k)| tokens(decode(n, k))), [8, 16]);
        let mixed = StepShape { prefill_requests: 1, prefill_tokens: 1, ..decode(1, 2) };
        assert_eq!([tokens(mixed), tokens(decode(0, 0))], [4, 0]);
    }

    #[test]
    fn layers_without_the_prefills_have_a_graph_of_the_decodes() {
        let layered = StepShape {
            prefill_requests: 1,
            prefill_tokens: 9,
            prefill_layers: 1,
            layers: 4,
            ..decode(3, 0)
        };
        let padded = captured().pad(&layered);
        assert_eq!((padded.padded_tokens(), padded.padded_decodes()), (16, 4));
        let free = Affine { step: 0, token: 10, kv_token: 0 };
        // Three layers compute 4 tokens, one computes 16: 40 ticks, and a quarter of the 120 that those add.
        assert_eq!(free.step(&padded), 40 + 30);
    }

    #[test]
    fn a_run_costs_the_padding_in_each_step_and_no_context_of_it() {
        let cost = Cost::Affine(Affine { step: 1_000, token: 10, kv_token: 1 });
        let graphs = Cost::Graphs(Box::new(Graphs { captured: captured(), cost }));
        let run = graphs.run(&decode(5, 0), 30);
        assert_eq!(run, Run { first: 1_000 + 8 * 10 + 100, slope: 5, steps: 30 });
    }
}
