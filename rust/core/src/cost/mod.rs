//! Cost models: how long a step takes.
//!
//! A cost model turns the shape of a step into ticks. It also gives the number of further pure-decode steps over which
//! the cost stays an exact arithmetic series, so that an instance can simulate them at once.

mod affine;
mod floor;
mod graphs;
mod points;
mod roofline;
mod table;
mod traffic;

pub use affine::Affine;
pub use floor::Floor;
pub use graphs::{Captured, Graphs, Uniform};
pub use roofline::Roofline;
pub use table::{Axis, Curve, Extrapolation, Table};
pub use traffic::{
    Attended, ExpertLoads, LOAD_FRACTION_BITS, Moved, PerRow, PerToken, Power, Prefilled, Traffic, Windows,
    Work,
};

use serde::{Deserialize, Serialize};

use crate::time::Ticks;

/// Steps over which a rise with the context is asked for: more than are listed.
const FAR: u64 = 1 << 24;

/// The work of a step: everything on which its cost depends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepShape {
    /// Requests that have passed their prompt and compute one token, and drafts.
    pub decode_requests: u64,
    /// Sum over those of the tokens in their context once the step is done.
    pub decode_kv: u64,
    /// The longest of those contexts.
    pub decode_max_kv: u64,
    /// Prompt tokens computed (and tokens recomputed after a preemption).
    pub prefill_tokens: u64,
    /// Requests that compute those.
    pub prefill_requests: u64,
    /// Sum over those of the tokens in their context once the step is done.
    pub prefill_kv: u64,
    /// Sum over those of the (query, key) pairs under the causal mask: with
    /// `c` tokens computed before and `m` now, `m*c + m*(m+1)/2`.
    pub prefill_pairs: u64,
    /// Drafts that are computed and verified, beside the other tokens of their requests.
    pub draft_tokens: u64,
    /// Tokens that are sampled or verified at the step's end (rows of the LM head).
    pub sampled: u64,
    /// Layers that run the prefills in this step, and layers in all; 0 of 0:
    /// every layer does.
    pub prefill_layers: u32,
    /// See `prefill_layers`.
    pub layers: u32,
    /// Tokens that a [CUDA graph](Graphs) adds to those of the step.
    pub padding: u64,
    /// The same in layers that do not run the step's prefills.
    pub decode_padding: u64,
}

impl StepShape {
    /// Tokens that the step computes.
    pub fn tokens(&self) -> u64 {
        self.decode_requests.saturating_add(self.draft_tokens).saturating_add(self.prefill_tokens)
    }

    /// Tokens with which the step runs, those that a graph adds among them.
    pub fn padded_tokens(&self) -> u64 {
        self.tokens().saturating_add(self.padding)
    }

    /// The same in layers that do not run the step's prefills.
    pub fn padded_decodes(&self) -> u64 {
        self.decode_requests.saturating_add(self.draft_tokens).saturating_add(self.decode_padding)
    }

    /// The share of something that all layers do which the layers that run
    /// prefills in this step do, rounded down.
    pub fn prefill_share(&self, all: u64) -> u64 {
        if self.prefill_layers == self.layers {
            return all;
        }
        self.share_of_group(all)
    }

    /// As [`Self::prefill_share`], of a step that runs prefills in some layers only.
    #[cold]
    #[inline(never)]
    fn share_of_group(&self, all: u64) -> u64 {
        (u128::from(all) * u128::from(self.prefill_layers) / u128::from(self.layers)) as u64
    }
}

/// The cost of `steps` consecutive pure-decode steps: step `i` (from 0) takes
/// `first + i * slope` ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Ticks of the first step.
    pub first: Ticks,
    /// How many ticks longer each step is than the one before.
    pub slope: Ticks,
    /// The number of steps for which this holds; at least 1.
    pub steps: u64,
}

/// The cost of a pure-decode step, and how it rises with the context of its requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rise {
    /// Ticks of the step.
    pub ticks: Ticks,
    /// Ticks that each further token of context adds.
    pub token: Ticks,
    /// For how many further tokens.
    pub tokens: u64,
}

impl Rise {
    /// Ticks of a step with `more` tokens of context; `None` past the straight line.
    pub(crate) fn after(&self, more: u64) -> Option<Ticks> {
        (more <= self.tokens).then(|| self.ticks.saturating_add(self.token.saturating_mul(more)))
    }
}

/// A cost model. Built in Python, evaluated here.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Cost {
    /// A few coefficients.
    Affine(Affine),
    /// Model and GPU specifications.
    Roofline(Box<Roofline>),
    /// Measured kernels.
    Table(Box<Table>),
    /// One of these, of steps that replay CUDA graphs.
    Graphs(Box<Graphs>),
    /// One of all these, with a least time of steps with prompt tokens.
    Floor(Box<Floor>),
}

impl Cost {
    /// Precomputes costs of steps that decode up to `most` requests alike: of each, as many drafts and sampled rows as one of
    /// `each` says.
    pub fn prepare(&mut self, most: u64, each: &[(u64, u64)]) {
        match self {
            Self::Roofline(cost) => cost.prepare(most, each, |shape| shape),
            Self::Graphs(graphs) => graphs.prepare(most, each),
            Self::Floor(floor) => floor.cost.prepare(most, each),
            Self::Affine(_) | Self::Table(_) => {}
        }
    }

    /// Whether it depends on the longest context of a batch.
    pub fn reads_longest(&self) -> bool {
        match self {
            Self::Table(_) => true,
            Self::Graphs(graphs) => graphs.cost.reads_longest(),
            Self::Floor(floor) => floor.cost.reads_longest(),
            Self::Affine(_) | Self::Roofline(_) => false,
        }
    }

    /// Ticks that a step of this shape takes.
    pub fn step(&self, shape: &StepShape) -> Ticks {
        match self {
            Self::Roofline(cost) => cost.step(shape),
            Self::Affine(cost) => cost.step(shape),
            Self::Table(cost) => cost.step(shape),
            Self::Graphs(graphs) => graphs.step(shape),
            Self::Floor(floor) => floor.step(shape),
        }
    }

    /// Ticks of a run of up to `most` pure-decode steps that starts with `shape`,
    /// in which every step lengthens the context of each decoding request by one.
    ///
    /// `run(s, _).first == step(s)`, and step `i < run(s, _).steps` costs exactly
    /// what `step` says of the shape it has by then.
    ///
    /// A step that takes no time is a run by itself: what else happens at its moment comes before the next one.
    pub fn run(&self, shape: &StepShape, most: u64) -> Run {
        debug_assert_eq!(shape.prefill_tokens, 0, "Invariant: a run only decodes");
        let run = match self {
            Self::Roofline(cost) => cost.run(shape, most),
            Self::Affine(cost) => cost.run(shape, most),
            Self::Table(cost) => cost.run(shape, most),
            Self::Graphs(graphs) => graphs.run(shape, most),
            Self::Floor(floor) => floor.cost.run(shape, most),
        };
        if run.first == 0 { Run { steps: run.steps.min(1), ..run } } else { run }
    }

    /// The cost of a pure-decode step, each request of which has as many drafts, and how it rises with the context whichever
    /// requests that is of; `None` if it does not rise along a straight line of whole ticks.
    pub fn rise(&self, shape: &StepShape) -> Option<Rise> {
        let requests = shape.decode_requests;
        if requests == 0 || !self.is_straight() {
            return None;
        }
        // What is straight over steps that lengthen each context by one is straight between them.
        let Run { first, slope, steps } = self.run(shape, FAR);
        Some(Rise { ticks: first, token: slope / requests, tokens: (steps - 1) * requests })
    }

    /// Whether the cost of a step is made of straight lines in its context.
    fn is_straight(&self) -> bool {
        match self {
            Self::Affine(_) | Self::Roofline(_) => true,
            Self::Table(_) => false,
            Self::Graphs(graphs) => graphs.cost.is_straight(),
            Self::Floor(floor) => floor.cost.is_straight(),
        }
    }

    /// The axes on which the cost of a step is extrapolated. They are the same for all steps of a run.
    pub fn extrapolation(&self, shape: &StepShape) -> Extrapolation {
        match self {
            Self::Affine(_) | Self::Roofline(_) => Extrapolation::default(),
            Self::Table(cost) => cost.extrapolation(shape),
            Self::Graphs(graphs) => graphs.cost.extrapolation(&graphs.captured.pad(shape)),
            Self::Floor(floor) => floor.cost.extrapolation(shape),
        }
    }
}
