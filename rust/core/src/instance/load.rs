//! Running totals of an instance's load, as of the last finished step.

use super::view::TokenIntervals;
use crate::hint::rare;
use crate::series::Series;
use crate::time::Ticks;

/// See the module.
#[derive(Debug, Default)]
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
    #[inline]
    pub(crate) fn outstanding_tokens(&self) -> u64 {
        self.outstanding_tokens
    }

    /// Unfinished requests whose prefill has not ended.
    #[inline]
    pub(crate) fn prefilling(&self) -> u64 {
        self.prefilling
    }

    /// Unfinished requests whose prefill has ended.
    #[inline]
    pub(crate) fn decoding(&self) -> u64 {
        self.requests - self.prefilling
    }

    /// Unfinished requests whose reasoning has ended.
    #[inline]
    pub(crate) fn answering(&self) -> u64 {
        self.answering
    }

    /// Predicted time of the prefills of unfinished prompts.
    #[inline]
    pub(crate) fn prefill_delay(&self) -> Ticks {
        self.prefill_delay
    }

    /// Mean interval between the latest tokens, in seconds; 0 before the first.
    pub(crate) fn mean_interval_s(&self) -> f64 {
        self.intervals.as_deref().map_or(0.0, TokenIntervals::mean_s)
    }

    /// Adds a request that comes with `tokens` tokens.
    #[inline]
    pub(crate) fn add(&mut self, tokens: u64, answers: bool) {
        self.requests += 1;
        self.outstanding_tokens += tokens;
        self.answering += u64::from(answers);
    }

    /// Removes a request that leaves with `tokens` tokens.
    #[inline]
    pub(crate) fn remove(&mut self, tokens: u64, answers: bool) {
        self.requests -= 1;
        self.outstanding_tokens -= tokens;
        self.answering -= u64::from(answers);
    }

    /// Counts a request whose prefill has not ended; it is added as well.
    #[inline]
    pub(crate) fn begin_prefill(&mut self) {
        self.prefilling += 1;
    }

    /// The prefill of a request has ended, or the request is dropped before.
    #[inline]
    pub(crate) fn end_prefill(&mut self) {
        self.prefilling -= 1;
    }

    /// Adds the predicted prefill of a prompt.
    #[inline]
    pub(crate) fn add_prefill(&mut self, ticks: Ticks) {
        self.prefill_delay += ticks;
    }

    /// Removes the predicted prefill of a prompt.
    #[inline]
    pub(crate) fn remove_prefill(&mut self, ticks: Ticks) {
        self.prefill_delay -= ticks;
    }

    /// Adds tokens that were yielded.
    #[inline]
    pub(crate) fn yield_tokens(&mut self, tokens: u64) {
        self.outstanding_tokens += tokens;
    }

    /// The reasoning of a request has ended.
    #[inline]
    pub(crate) fn begin_answer(&mut self) {
        self.answering += 1;
    }

    /// Books `steps` steps that decoded, whose lengths are `series`.
    #[inline]
    pub(crate) fn decode_steps(&mut self, start: Ticks, series: Series, steps: u64) {
        if let Some(intervals) = &mut self.intervals {
            rare();
            intervals.add(start, series, steps);
        }
    }

    /// Whether intervals between tokens are kept.
    #[inline]
    pub(crate) fn keeps_intervals(&self) -> bool {
        self.intervals.is_some()
    }

    /// No step can be formed at `now`: the time until the next one is no interval.
    #[inline]
    pub(crate) fn rest(&mut self, now: Ticks) {
        if let Some(intervals) = &mut self.intervals {
            rare();
            intervals.rest(now);
        }
    }

    /// A step is to be formed at `now`.
    #[inline]
    pub(crate) fn end_rest(&mut self, now: Ticks) {
        if let Some(intervals) = &mut self.intervals {
            rare();
            intervals.end_rest(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_return_to_zero_once_every_request_has_left() {
        let mut load = Load::new(false);
        load.add(100, false);
        load.begin_prefill();
        assert_eq!((load.prefilling(), load.decoding()), (1, 0));
        load.add_prefill(7);
        load.remove_prefill(7);
        load.end_prefill();
        assert_eq!((load.prefilling(), load.decoding()), (0, 1));
        load.yield_tokens(3);
        load.begin_answer();
        assert_eq!((load.outstanding_tokens(), load.answering()), (103, 1));
        load.remove(103, true);
        assert_eq!((load.outstanding_tokens(), load.answering(), load.prefill_delay()), (0, 0, 0));
        assert_eq!((load.prefilling(), load.decoding()), (0, 0));
    }

    #[test]
    fn time_without_steps_is_no_interval() {
        let mut load = Load::new(true);
        let series = Series { first: 1_000, slope: 0 };
        load.decode_steps(0, series, 2);
        load.rest(2_000);
        load.end_rest(900_000);
        load.decode_steps(900_000, series, 1);
        let steady = load.mean_interval_s();
        load.decode_steps(950_000, series, 1);
        assert!(steady > 0.0 && load.mean_interval_s() > steady, "a pause between two steps counts");
    }
}
