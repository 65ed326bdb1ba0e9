//! Running totals of an instance's load, as of the last finished step.

use serde::{Deserialize, Serialize};

use super::fact::{Fact, Lengths, Steps, Subject};
use crate::hint::rare;
use crate::instance::view::TokenIntervals;
use crate::series::Series;
use crate::time::Ticks;

/// Unfinished requests of an instance, and their tokens.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Load {
    /// Unfinished requests.
    requests: u64,
    /// Unfinished requests whose prefill has not ended.
    prefilling: u64,
    /// Prompt tokens and output tokens so far, over the unfinished requests.
    outstanding_tokens: u64,
    /// Unfinished requests whose reasoning has ended.
    answering: u64,
    /// Predicted time of the prefills of unfinished prompts, where that is asked for.
    prefill_delay: Ticks,
    /// The latest intervals between tokens, where they are asked for.
    intervals: Option<Box<TokenIntervals>>,
}

impl Load {
    /// No load. `keeps_intervals`: whether intervals between tokens are asked for.
    pub(crate) fn new(keeps_intervals: bool) -> Self {
        Self { intervals: keeps_intervals.then(Box::default), ..Self::default() }
    }

    /// Prompt tokens and output tokens so far, over the unfinished requests.
    pub(crate) fn outstanding_tokens(&self) -> u64 {
        self.outstanding_tokens
    }

    /// Unfinished requests whose prefill has not ended.
    pub(crate) fn prefilling(&self) -> u64 {
        self.prefilling
    }

    /// Unfinished requests whose prefill has ended.
    pub(crate) fn decoding(&self) -> u64 {
        self.requests - self.prefilling
    }

    /// Unfinished requests whose reasoning has ended.
    pub(crate) fn answering(&self) -> u64 {
        self.answering
    }

    /// Predicted time of the prefills of unfinished prompts.
    pub(crate) fn prefill_delay(&self) -> Ticks {
        self.prefill_delay
    }

    /// Mean interval between the latest tokens, in seconds; 0 before the first.
    pub(crate) fn mean_interval_s(&self) -> f64 {
        self.intervals.as_deref().map_or(0.0, TokenIntervals::mean_s)
    }

    /// Adds a new request.
    pub(crate) fn add_arrival(&mut self, prompt: u32, prefill: Ticks) {
        self.requests += 1;
        self.prefilling += 1;
        self.outstanding_tokens += u64::from(prompt);
        self.prefill_delay += prefill;
    }

    /// Counts what happened to a request.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the fact is known where it is told")]
    pub(super) fn observe(&mut self, fact: Fact, of: Subject) {
        let state = of.state;
        match fact {
            Fact::Yielded { gap, .. } => {
                self.outstanding_tokens += 1;
                if gap.is_none() {
                    self.end_prefill(of.prefill);
                }
                let reasoning = of.reasoning().unwrap_or(0);
                self.answering += u64::from(state.generated == reasoning.max(1));
            }
            Fact::Passed { generated, .. } => {
                self.answering += u64::from(of.reasoning() == Some(generated));
            }
            Fact::Came => {
                self.requests += 1;
                self.outstanding_tokens += u64::from(state.target());
                self.answering += u64::from(state.answering);
            }
            Fact::Finished => self.remove(u64::from(state.prompt) + u64::from(state.output), true),
            Fact::Left | Fact::Dropped | Fact::Cancelled { .. } => {
                self.remove(u64::from(state.target()), state.answering);
                if state.generated == 0 {
                    self.end_prefill(of.prefill);
                }
            }
            Fact::Admitted { .. }
            | Fact::Loaded { .. }
            | Fact::Computed { .. }
            | Fact::Joined { .. }
            | Fact::Verified { .. }
            | Fact::Preempted
            | Fact::Landed { .. } => {}
        }
    }

    /// Counts the tokens that the decode set yielded.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "it is told of at one place, once a run")]
    pub(super) fn observe_steps(&mut self, steps: &Steps) {
        self.outstanding_tokens += steps.tokens;
        if let Some(intervals) = self.intervals.as_mut().filter(|_| steps.decodes) {
            rare();
            match steps.lengths {
                Lengths::Series(series) => intervals.add(steps.start, series, steps.count),
                Lengths::Ends(ends) => {
                    let mut start = steps.start;
                    for &end in ends {
                        intervals.add(start, Series { first: end - start, slope: 0 }, 1);
                        start = end;
                    }
                }
            }
        }
    }

    /// Counts the interval between tokens of a batch that decoded.
    pub(crate) fn add_interval(&mut self, ticks: Ticks) {
        if let Some(intervals) = &mut self.intervals {
            rare();
            intervals.add_batch(ticks);
        }
    }

    /// Removes a request that leaves with `tokens` tokens.
    fn remove(&mut self, tokens: u64, answers: bool) {
        self.requests -= 1;
        self.outstanding_tokens -= tokens;
        self.answering -= u64::from(answers);
    }

    /// The prefill of a request has ended, or the request is dropped before.
    fn end_prefill(&mut self, predicted: Ticks) {
        self.prefilling -= 1;
        self.prefill_delay -= predicted;
    }

    /// No step can be formed at `now`: the time until the next one is no interval.
    pub(crate) fn rest(&mut self, now: Ticks) {
        if let Some(intervals) = &mut self.intervals {
            rare();
            intervals.rest(now);
        }
    }

    /// A step is to be formed at `now`.
    pub(crate) fn end_rest(&mut self, now: Ticks) {
        if let Some(intervals) = &mut self.intervals {
            rare();
            intervals.end_rest(now);
        }
    }
}
