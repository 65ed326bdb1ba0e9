//! The share of outputs to come that admissions leave free, and whether requests may be admitted.
//!
//! Source: `sglang` 0.5.23, `NewTokenRatioTracker` in `srt/managers/scheduler_components/new_token_ratio_tracker.py`, and
//! `batch_is_full` in `srt/managers/scheduler.py`. Shares are fractions here, and floating-point numbers there.

use crate::config::{ReserveConfig, SHARE_WHOLE};

/// Room that admissions leave for the outputs of running requests.
#[derive(Debug, Clone)]
pub(crate) struct OutputReserve {
    rules: ReserveConfig,
    /// The share at the start, or after the last preemption: a fraction.
    base: (u64, u64),
    /// Steps of decodes alone since.
    decays: u64,
    /// Whether the step that was formed preempted, so that it does not count among them.
    preempted: bool,
    /// The running requests as an admission failed; none is admitted before fewer run.
    closed: Option<u64>,
}

crate::checkpoint::checkpointed!(OutputReserve {
    values: base, decays, preempted, closed;
    fixed: rules;
});

/// The free tokens of a step, and what is taken of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Demand {
    /// Tokens of the free blocks.
    pub(crate) free: u64,
    /// Tokens that are taken of them.
    pub(crate) taken: u64,
    /// Output tokens that running requests may still generate.
    pub(crate) to_come: u64,
}

impl OutputReserve {
    pub(crate) fn new(rules: ReserveConfig) -> Self {
        Self { rules, base: (rules.first, SHARE_WHOLE), decays: 0, preempted: false, closed: None }
    }

    /// Coming tokens of `requests` running requests that a preemption makes room for.
    pub(crate) fn coming(&self, requests: u64) -> u64 {
        self.rules.after * requests
    }

    /// Tokens of an output that count, of `tokens`.
    pub(crate) fn clip(&self, tokens: u32) -> u64 {
        u64::from(tokens.min(self.rules.clip))
    }

    /// The share that is reserved: a fraction.
    fn share(&self) -> (i128, i128) {
        let (part, whole) = (i128::from(self.base.0), i128::from(self.base.1));
        if self.decays == 0 {
            return (part, whole);
        }
        let rules = &self.rules;
        let fall = i128::from(rules.first - rules.least);
        let scale = i128::from(rules.steps) * i128::from(SHARE_WHOLE);
        // Past these steps the share is the least.
        let decays = i128::from(self.decays.min(rules.steps * SHARE_WHOLE));
        let least = i128::from(rules.least) * i128::from(rules.steps) * whole;
        ((part * scale - decays * fall * whole).max(least), scale * whole)
    }

    /// Tokens that are left beside the reserve, rounded down; 0 if there is none.
    pub(crate) fn left(&self, demand: Demand) -> u64 {
        let (part, whole) = self.share();
        let left = (i128::from(demand.free) - i128::from(demand.taken)) * whole
            - i128::from(demand.to_come).saturating_mul(part);
        u64::try_from(left.div_euclid(whole)).unwrap_or(0)
    }

    /// Whether any token is left beside the reserve, or a part of one.
    pub(crate) fn has_left(&self, demand: Demand) -> bool {
        let (part, whole) = self.share();
        (i128::from(demand.free) - i128::from(demand.taken)) * whole
            > i128::from(demand.to_come).saturating_mul(part)
    }

    /// Whether requests may be admitted.
    pub(crate) fn is_open(&self) -> bool {
        self.closed.is_none()
    }

    /// Whether `running` requests are fewer than ran as an admission failed.
    pub(crate) fn runs_fewer(&self, running: u64) -> bool {
        self.closed.is_some_and(|closed| running < closed)
    }

    /// Admits no request from now on before fewer than `running` run.
    pub(super) fn close(&mut self, running: u64) {
        self.closed = Some(running);
    }

    /// Admits requests again.
    pub(super) fn open(&mut self) {
        self.closed = None;
    }

    /// Notes a round of forming a step. `preempted`: it preempted requests.
    pub(super) fn end_round(&mut self, preempted: bool) {
        self.preempted = preempted;
    }

    /// Takes the share of the outputs of `requests` running requests, of `outputs` tokens, that they have generated.
    pub(super) fn estimate(&mut self, requests: u64, generated: u64, outputs: u64) {
        let whole = outputs + 1;
        self.base = ((generated + self.rules.after * requests).min(whole), whole);
        self.decays = 0;
    }

    /// Counts `steps` steps. `prompts`: they had prompts.
    pub(super) fn advance(&mut self, steps: u64, prompts: bool) {
        let preempted = std::mem::take(&mut self.preempted);
        if !prompts {
            self.decays += steps - u64::from(preempted);
        }
    }

    /// Begins with the first share.
    pub(super) fn reset(&mut self) {
        *self = Self { closed: self.closed, ..Self::new(self.rules) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: ReserveConfig =
        ReserveConfig { first: 700_000, least: 98_000, steps: 600, after: 20, clip: 4096 };

    fn left(reserve: &OutputReserve, to_come: u64) -> u64 {
        reserve.left(Demand { free: 2000, taken: 500, to_come })
    }

    #[test]
    fn the_share_falls_in_a_straight_line_and_not_below_the_least() {
        // 0.7 of 1,000; after 300 steps halfway to 0.098; after 600 and more, 0.098.
        let mut reserve = OutputReserve::new(RULES);
        let mut shares = vec![left(&reserve, 1000)];
        for _ in 0..3 {
            reserve.advance(300, false);
            shares.push(left(&reserve, 1000));
        }
        assert_eq!(shares, [800, 1101, 1402, 1402]);
        reserve.advance(1, true);
        reserve.reset();
        assert_eq!(left(&reserve, 1000), 800);
    }

    #[test]
    fn a_preemption_estimates_the_share_and_its_step_does_not_lower_it() {
        // Two requests have 60 of 199 tokens: (60 + 2 * 20) / 200.
        let mut reserve = OutputReserve::new(RULES);
        reserve.end_round(true);
        reserve.estimate(2, 60, 199);
        reserve.advance(1, false);
        assert_eq!(left(&reserve, 1000), 1000);
        // One step of decodes more: a 600th of 0.602 less, 1.003 of 1,000 tokens.
        reserve.advance(1, false);
        assert_eq!(left(&reserve, 1000), 1001);
        // An estimate below the least is raised to it by the next step.
        reserve.estimate(0, 0, 0);
        assert_eq!(left(&reserve, 1000), 1500);
        reserve.advance(1, false);
        assert_eq!(left(&reserve, 1000), 1402);
        reserve.estimate(9, 50, 10);
        assert_eq!(left(&reserve, 1000), 500, "no more than all");
    }

    #[test]
    fn a_request_fits_only_below_what_is_left() {
        let reserve = OutputReserve::new(RULES);
        let demand = |taken| Demand { free: 2000, taken, to_come: 1001 };
        assert!(reserve.has_left(demand(1299)), "0.3 tokens are left");
        assert!(!reserve.has_left(demand(1300)));
        assert_eq!([1298, 1299, 1300].map(|taken| reserve.left(demand(taken))), [1, 0, 0]);
        assert_eq!((reserve.clip(9), reserve.clip(5000)), (9, 4096));
    }

    #[test]
    fn a_failed_admission_closes_until_fewer_run() {
        let mut reserve = OutputReserve::new(RULES);
        assert!(reserve.is_open() && !reserve.runs_fewer(0));
        reserve.close(5);
        assert!(!reserve.is_open());
        assert_eq!([5, 4].map(|running| reserve.runs_fewer(running)), [false, true]);
        reserve.reset();
        assert!(!reserve.is_open());
        reserve.open();
        assert!(reserve.is_open());
    }
}
