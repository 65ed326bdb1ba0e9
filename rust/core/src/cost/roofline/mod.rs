//! A step as a sum of kernels, each bound by memory or by arithmetic.
//!
//! The model, on each rank of a decoder under tensor parallelism:
//!
//! - the *matrix multiplications* (`linears`), each on its own: reading its
//!   weights and its tokens' activations against multiplying them;
//! - *attention*, as one kernel for the decoding requests and one for those in
//!   prefill. Engines launch either one kernel over both or two; either way a
//!   thread block works for one request, and blocks that wait for memory do not
//!   lend their arithmetic to the others to speak of, so the two add up
//!   (POD-Attention, Kamath et al., ASPLOS 2025, is about that gap);
//! - attention over *sliding windows*, of the layers that have one
//!   ([`WindowedAttention`]);
//! - layers with *states* in place of a cache, which a request reads and writes
//!   once a step whatever its context ([`Recurrent`]);
//! - the *routed experts*, of which those are read that a token of the batch is
//!   routed to ([`Experts`]);
//! - the *LM head* over the rows that are sampled;
//! - *all-reduce*, as the cheapest of several straight lines in the tokens: the
//!   ways that vLLM's kernel and NCCL choose from by size and ranks, which
//!   Python writes down (`cost/all_reduce.py`);
//! - what else crosses links, one straight line each: tokens on their way to
//!   experts of other ranks and back, activations between pipeline stages. A
//!   step passes the stages one after another, so that it takes the sum of what
//!   they take, which is the sum over all layers;
//! - what is paid per step, per token, per scheduled request and per sampled
//!   row, whatever the kernels do.
//!
//! Where only a group of layers runs the prefills of a step, those layers see
//! prefill and decode tokens as one batch (and read one union of experts), the
//! others the decodes alone. Layers are taken as equal for that, whichever they
//! are.
//!
//! A [CUDA graph](super::Graphs) adds tokens to what every token passes: norms, matrix multiplications and
//! all-reduces. [Where that is not so](super::Graphs) the step's own tokens count.
//!
//! Not modelled: wave and tile quantisation, uneven context lengths inside a
//! decode batch, the serial walk over a long context that a very short prefill
//! chunk is bound by. Bytes and joules are counted
//! apart from the time ([`Traffic`](super::Traffic)).
//!
//! Python reduces model, GPU and efficiencies to the coefficients below, summed
//! over layers. They are whole ticks, except [`PrefillAttention::pair_flops`],
//! where a tick is too coarse; that one never takes part in a run. Within a run
//! only the decode context grows, and by whole ticks, so a run is exact. The
//! sums saturate at [`HORIZON`].

mod attention;
mod experts;
#[cfg(test)]
mod property_tests;
mod recurrent;
#[cfg(test)]
mod tests;

use serde::Deserialize;

pub use attention::{DecodeAttention, PrefillAttention, WindowedAttention};
pub use experts::Experts;
pub use recurrent::Recurrent;

use super::affine::series;
use super::{Run, StepShape};
use crate::hint::rare;
use crate::time::{HORIZON, Ticks};

/// Coefficients of one model on one kind of rank.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Roofline {
    /// Ticks of any step: launches, sampling, what the engine cannot hide.
    pub step: Ticks,
    /// Ticks for each token: norms, rotary embedding, activation function,
    /// embedding.
    pub token: Ticks,
    /// Ticks for each scheduled request, decoding or in prefill.
    pub request: Ticks,
    /// Ticks for each sampled row: gathering its logits and sampling.
    pub row: Ticks,
    /// The matrix multiplications that every token passes.
    pub linears: Vec<Linear>,
    /// The one that only sampled rows pass.
    pub lm_head: Linear,
    /// Attention of the decoding requests, in layers that see whole contexts.
    pub decode_attention: DecodeAttention,
    /// Attention of the requests in prefill, in layers that see whole contexts.
    pub prefill_attention: PrefillAttention,
    /// Attention in layers that see a window.
    #[serde(default)]
    pub windowed: Option<Box<WindowedAttention>>,
    /// Layers with states in place of a cache.
    #[serde(default)]
    pub recurrent: Option<Box<Recurrent>>,
    /// The experts that tokens are routed to.
    #[serde(default)]
    pub experts: Option<Experts>,
    /// Alternatives for all of a step's reductions; the cheapest is taken.
    /// Empty on a single rank.
    pub all_reduce: Vec<Line>,
    /// All other traffic between ranks: tokens to experts and back,
    /// activations from a pipeline stage to the next.
    #[serde(default)]
    pub exchange: Vec<Line>,
    /// The cost of steps that only decode, apart from context, as far as it was [precomputed](Self::prepare).
    #[serde(skip)]
    ready: Vec<Ready>,
}

/// The cost of steps that only decode, apart from context.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ready {
    /// Drafts, and sampled rows, of each request.
    each: (u64, u64),
    /// By requests.
    ticks: Vec<Ticks>,
}

/// A matrix multiplication: `max(weights + token_bytes * n, token_flops * n)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Linear {
    /// Ticks to read the weights.
    pub weights: Ticks,
    /// Ticks to read and write one token's activations.
    pub token_bytes: Ticks,
    /// Ticks to multiply one token.
    pub token_flops: Ticks,
}

/// `fixed + token * n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Ticks however small the message.
    pub fixed: Ticks,
    /// Ticks for each token.
    pub token: Ticks,
}

impl Line {
    /// Ticks for `n` tokens.
    fn at(self, n: u64) -> Ticks {
        self.fixed.saturating_add(self.token.saturating_mul(n))
    }
}

impl Linear {
    /// Ticks for `n` tokens.
    fn at(self, n: u64) -> Ticks {
        if n == 0 {
            return 0;
        }
        self.weights
            .saturating_add(self.token_bytes.saturating_mul(n))
            .max(self.token_flops.saturating_mul(n))
    }
}

impl Roofline {
    /// Precomputes the part of the cost that does not depend on context, of steps that only decode up to `most` requests,
    /// with so many drafts and sampled rows of `each`. `pad` adds what a graph does.
    pub fn prepare(&mut self, most: u64, each: &[(u64, u64)], pad: impl Fn(StepShape) -> StepShape) {
        self.ready.clear();
        let ready = each.iter().map(|&(drafts, sampled)| {
            let shape = |n| {
                pad(StepShape {
                    decode_requests: n,
                    draft_tokens: n * drafts,
                    sampled: n * sampled,
                    ..StepShape::default()
                })
            };
            Ready { each: (drafts, sampled), ticks: (0..=most).map(|n| self.rest(&shape(n))).collect() }
        });
        self.ready = ready.collect();
    }

    /// Ticks that a step of this shape takes.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "in most cases one lookup and the time of one attention")]
    pub fn step(&self, shape: &StepShape) -> Ticks {
        let mut decode = self.decode_attention.at(shape);
        let mut prefill = if shape.prefill_tokens == 0 { 0 } else { self.prefill_attention.at(shape) };
        if let Some(windowed) = &self.windowed {
            rare();
            decode = decode.saturating_add(windowed.decode(shape));
            if shape.prefill_tokens != 0 {
                prefill = prefill.saturating_add(windowed.prefill(shape));
            }
        }
        if let Some(recurrent) = &self.recurrent {
            rare();
            decode = decode.saturating_add(recurrent.decode(shape));
            prefill = prefill.saturating_add(recurrent.prefill(shape));
        }
        self.rest(shape).saturating_add(decode).saturating_add(shape.prefill_share(prefill)).min(HORIZON)
    }

    /// The run of up to `most` pure-decode steps that starts with `shape`, up to
    /// the step where attention stops being bound by what binds it now, or windows fill.
    pub fn run(&self, shape: &StepShape, most: u64) -> Run {
        let (mut kv_token, mut steps) = self.decode_attention.growth(shape);
        if let Some(windowed) = &self.windowed {
            rare();
            let (more, until) = windowed.growth(shape);
            kv_token = kv_token.saturating_add(more);
            steps = steps.min(until);
        }
        series(self.step(shape), kv_token.checked_mul(shape.decode_requests), steps.min(most))
    }

    /// All but attention: what a step costs whatever its context.
    fn rest(&self, shape: &StepShape) -> Ticks {
        let requests = shape.decode_requests;
        let alike = |ready: &&Ready| {
            let (drafts, sampled) = ready.each;
            shape.draft_tokens == drafts * requests && shape.sampled == sampled * requests
        };
        if shape.prefill_requests == 0
            && shape.prefill_layers == shape.layers
            && let Some(ready) = self.ready.iter().find(alike)
            && let Some(&ticks) = ready.ticks.get(requests as usize)
        {
            return ticks;
        }
        self.rest_of_any(shape)
    }

    /// The same, for a batch that was not precomputed.
    #[inline(never)]
    fn rest_of_any(&self, shape: &StepShape) -> Ticks {
        let decoded = shape.decode_requests.saturating_add(shape.draft_tokens);
        let requests = shape.decode_requests.saturating_add(shape.prefill_requests);
        let together = self.layers(shape.tokens(), shape.padded_tokens(), requests);
        let layers = if shape.prefill_layers == shape.layers {
            together
        } else {
            let alone = self.layers(decoded, shape.padded_decodes(), shape.decode_requests);
            alone.saturating_add(shape.prefill_share(together.saturating_sub(alone)))
        };
        self.step
            .saturating_add(self.row.saturating_mul(shape.sampled))
            .saturating_add(self.lm_head.at(shape.sampled))
            .saturating_add(layers)
    }

    /// The time of all layers for a batch, attention apart. It runs with `padded` tokens, of which a graph has added some.
    fn layers(&self, tokens: u64, padded: u64, requests: u64) -> Ticks {
        let linears = self.linears.iter().fold(0_u64, |sum, linear| sum.saturating_add(linear.at(padded)));
        let experts = self.experts.as_ref().map_or(0, |experts| experts.at(tokens));
        let reduce = if tokens == 0 {
            0
        } else {
            self.all_reduce.iter().map(|line| line.at(padded)).min().unwrap_or(0)
        };
        let exchange = if tokens == 0 {
            0
        } else {
            self.exchange.iter().fold(0_u64, |sum, line| sum.saturating_add(line.at(tokens)))
        };
        self.token
            .saturating_mul(padded)
            .saturating_add(self.request.saturating_mul(requests))
            .saturating_add(linears)
            .saturating_add(experts)
            .saturating_add(reduce)
            .saturating_add(exchange)
    }
}
