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

use serde::Deserialize;

use super::{Cost, StepShape};

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

    /// Tokens that are added to a step.
    fn padding(&self, shape: &StepShape) -> u64 {
        let tokens = shape.tokens();
        let is_alike = |graphs: &&Uniform| {
            shape.prefill_requests == 0 && shape.draft_tokens == graphs.drafts * shape.decode_requests
        };
        let uniform = self.uniform.iter().find(is_alike);
        let alike = uniform.and_then(|graphs| padding_to(&graphs.sizes, tokens));
        alike.or_else(|| padding_to(&self.sizes, tokens)).unwrap_or(0)
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
    use crate::cost::{Affine, Run};

    fn captured() -> Captured {
        Captured { sizes: vec![1, 2, 4, 8, 16], uniform: vec![Uniform { drafts: 2, sizes: vec![3, 6, 12] }] }
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
