//! A step looked up in measured kernels.
//!
//! Measurements of one rank of a model, per kernel, are added up in Python
//! to four tables, summed over layers and in ticks:
//!
//! - everything that only depends on the *tokens* of a step: matrix
//!   multiplications, norms, experts, collectives, embedding;
//! - what depends on its *rows*: LM head and sampler, for every request of the
//!   step, since engines compute the logits of unfinished prompts too;
//! - *attention*, over prompt tokens computed, their history, decoding requests
//!   and those requests' context, one table each for steps that only decode,
//!   that only prefill, and that do both: engines run other kernels for each;
//! - a constant, the engine's overhead, hidden by nothing.
//!
//! Under [CUDA graphs](super::Graphs) the tokens are those of the graph, and the experts, to which padding is not
//! routed, are a table of their own.
//!
//! Between the points of a grid all is linear on every axis. Below the first
//! point of an axis its value holds, since a kernel has a smallest size; past
//! the last one the last stretch is continued, and [`Table::extrapolation`] says so.
//!
//! # Uneven contexts
//!
//! A table knows batches of equal contexts. One of unequal contexts takes
//! `t_mean + alpha * (t_max - t_mean)`, looked up at the mean and at the longest
//! context; `alpha` is measured over the batch's size and the ratio of mean to
//! longest (see [`Skew`]). That ratio is cut into cells, so that `alpha` stands
//! still for a while as contexts grow.
//!
//! # Exactness of runs
//!
//! Over a run of decode steps the batch stays and every context grows by one,
//! so mean and longest each walk along one axis of one table. Along that axis a
//! stretch between two grid points has a whole number of ticks per token, a
//! multiple of [`ALPHA_ONE`]; hence `alpha` times a slope is whole as well, and
//! the part of a token by which the mean lies between two whole ones is constant.
//! A cost is thus a function of the shape alone and, between two ends, an exact
//! arithmetic series. The ends are: the mean reaching a grid point, the longest
//! reaching one, and the ratio of the two reaching the next cell. Rounding
//! slopes so leaves a step of at most a few microseconds at a grid point.
//!
//! A stretch may fall where measurements are noisy. A series cannot, so a run
//! on such a stretch is one step long.

mod grid;
mod kernel;
mod skew;

use serde::{Deserialize, Serialize};

pub use grid::Curve;
pub use kernel::Kernel;
#[cfg(doc)]
pub use skew::ALPHA_ONE;
pub use skew::Skew;

use super::affine::series;
use super::{Run, StepShape};
use crate::time::{HORIZON, Ticks};
use kernel::Along;

/// The measured kernels of one model on one kind of rank.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Ticks of any step: what the engine cannot hide.
    pub step: Ticks,
    /// Ticks by tokens computed.
    pub tokens: Curve,
    /// Ticks of the routed experts by tokens, those of a graph's padding aside; `None`: `tokens` has them.
    #[serde(default)]
    pub experts: Option<Curve>,
    /// Ticks by requests in the step.
    pub rows: Curve,
    /// Attention of steps that only decode.
    pub decode: Kernel,
    /// Attention of steps that only prefill.
    pub prefill: Kernel,
    /// Attention of steps that do both.
    pub mixed: Kernel,
    /// The cost of uneven contexts, where that was measured.
    pub skew: Option<Skew>,
}

/// The axis by which a table is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Tokens computed in the step.
    Tokens,
    /// Requests in the step.
    Rows,
    /// Prompt tokens computed at once.
    Chunk,
    /// Tokens of those prompts computed before.
    History,
    /// Decoding requests.
    Requests,
    /// Their context.
    Context,
}

impl Axis {
    /// All of them, in the order in which they are reported.
    pub const ALL: [Self; 6] =
        [Self::Tokens, Self::Rows, Self::Chunk, Self::History, Self::Requests, Self::Context];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Rows => "rows",
            Self::Chunk => "prefill_chunk",
            Self::History => "kv_prefill",
            Self::Requests => "n_decode",
            Self::Context => "kv_decode",
        }
    }
}

/// The axes on which the cost of a step is extrapolated, beyond the last measured point. A context counts as beyond from
/// the last point on, other coordinates only past it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extrapolation(u8);

impl Extrapolation {
    /// Whether there is none, as for every step inside the tables.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether this one is among them.
    pub fn has(self, axis: Axis) -> bool {
        self.0 & (1 << axis as u8) != 0
    }

    /// With this axis too, if `past`.
    fn with(self, axis: Axis, past: bool) -> Self {
        Self(self.0 | u8::from(past) << axis as u8)
    }
}

impl Table {
    /// Ticks that a step of this shape takes.
    pub fn step(&self, shape: &StepShape) -> Ticks {
        let whole = self.sum(shape, self.attention(shape).value);
        if shape.prefill_layers == shape.layers {
            return whole;
        }
        // The other layers run as if there were no prefill in the step.
        let padding = shape.decode_padding;
        let without = StepShape { prefill_tokens: 0, prefill_pairs: 0, padding, ..*shape };
        let plain = self.sum(&without, self.attention(&without).value);
        plain.saturating_add(shape.prefill_share(whole.saturating_sub(plain)))
    }

    /// The run of up to `most` pure-decode steps that starts with `shape`.
    pub fn run(&self, shape: &StepShape, most: u64) -> Run {
        let attention = self.attention(shape);
        let first = self.sum(shape, attention.value);
        if attention.slope < 0 || attention.value < 0 {
            return Run { first, slope: 0, steps: 1 };
        }
        // What lies past the tables changes there, whatever is looked up there.
        let inside = self.decode.context_end().checked_sub(longest(shape)).filter(|&left| left > 0);
        series(
            first,
            Ticks::try_from(attention.slope).ok(),
            inside.map_or(attention.left, |left| left.min(attention.left)).min(most),
        )
    }

    /// The axes on which the cost of a step is extrapolated. They are the same for all steps of a run.
    pub fn extrapolation(&self, shape: &StepShape) -> Extrapolation {
        let (chunk, requests) = (shape.prefill_tokens, shape.decode_requests);
        let beyond = Extrapolation::default()
            .with(Axis::Tokens, self.tokens.ends_before(shape.padded_tokens()))
            .with(Axis::Rows, self.rows.ends_before(rows(shape)));
        let Some(kernel) = self.kernel(shape) else { return beyond };
        let (work, tokens) = history(shape);
        let past = |axis: &[u64], at: u64| axis.last().is_some_and(|&end| at > end);
        let history = kernel.history.last().is_some_and(|&end| work > u128::from(end) * tokens);
        beyond
            .with(Axis::Chunk, past(&kernel.tokens, chunk))
            .with(Axis::History, history)
            .with(Axis::Requests, past(&kernel.requests, requests))
            .with(Axis::Context, requests > 0 && longest(shape) >= kernel.context_end())
    }

    /// The ticks of a step, of which `attention` is known.
    fn sum(&self, shape: &StepShape, attention: i128) -> Ticks {
        let attention = Ticks::try_from(attention.max(0)).unwrap_or(HORIZON);
        self.step
            .saturating_add(self.tokens.at(shape.padded_tokens()))
            .saturating_add(self.experts.as_ref().map_or(0, |experts| experts.at(shape.tokens())))
            .saturating_add(self.rows.at(rows(shape)))
            .saturating_add(attention)
            .min(HORIZON)
    }

    /// The table that has this kind of step; none for a step without tokens.
    fn kernel(&self, shape: &StepShape) -> Option<&Kernel> {
        match (shape.prefill_tokens > 0, shape.decode_requests > 0) {
            (false, false) => None,
            (false, true) => Some(&self.decode),
            (true, false) => Some(&self.prefill),
            (true, true) => Some(&self.mixed),
        }
    }

    /// The attention of a step.
    ///
    /// Tables hold one prompt a step. Several count as equal shares: the first takes what it would take alone, each
    /// further one that less what the smallest measured prompt takes, which is the launch that they share. Together
    /// they take no more than one prompt of all their tokens.
    fn attention(&self, shape: &StepShape) -> Along {
        let whole = self.of_one_prompt(shape);
        let prompts = shape.prefill_requests.min(shape.prefill_tokens);
        if prompts <= 1 {
            return whole;
        }
        let of = |tokens, pairs| {
            let shape = StepShape { prefill_tokens: tokens, prefill_pairs: pairs, ..*shape };
            self.of_one_prompt(&shape).value
        };
        let one = of(shape.prefill_tokens.div_ceil(prompts), shape.prefill_pairs / prompts);
        let further = one.saturating_sub(of(1, 1)).max(0).saturating_mul(i128::from(prompts - 1));
        Along { value: one.saturating_add(further).min(whole.value), ..Along::LEVEL }
    }

    /// The attention of a step whose prompt tokens are one prompt's, with the correction for uneven contexts.
    fn of_one_prompt(&self, shape: &StepShape) -> Along {
        let Some(kernel) = self.kernel(shape) else { return Along::LEVEL };
        let (chunk, requests) = (shape.prefill_tokens, shape.decode_requests);
        let column = kernel.column(chunk, history(shape), requests);
        if requests == 0 {
            return column.at(0, 0, 1);
        }
        let mean = column.at(shape.decode_kv / requests, shape.decode_kv % requests, requests);
        let longest = longest(shape);
        let Some(skew) = &self.skew else { return mean };
        if u128::from(longest) * u128::from(requests) <= u128::from(shape.decode_kv) {
            return mean;
        }
        let top = column.at(longest, 0, 1);
        let (alpha, left) = skew.at(chunk, requests, shape.decode_kv, longest);
        mean.blend(top, alpha, left)
    }
}

/// Requests in the step.
fn rows(shape: &StepShape) -> u64 {
    shape.decode_requests.saturating_add(shape.prefill_requests)
}

/// The longest decode context, at least the mean.
fn longest(shape: &StepShape) -> u64 {
    let mean = shape.decode_kv.checked_div(shape.decode_requests).unwrap_or(0);
    shape.decode_max_kv.max(mean)
}

/// Tokens computed before, of one prompt that has all the step's prompt tokens
/// and as many (query, key) pairs: as a ratio of two whole numbers.
///
/// With `p` tokens and `w` pairs that is `(w - p(p+1)/2) / p`, and at least none.
fn history(shape: &StepShape) -> (u128, u128) {
    let tokens = u128::from(shape.prefill_tokens);
    let fresh = tokens * (tokens + 1) / 2;
    (u128::from(shape.prefill_pairs).saturating_sub(fresh), tokens.max(1))
}

#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;
