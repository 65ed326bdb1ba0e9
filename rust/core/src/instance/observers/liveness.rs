//! Whether an instance makes progress: a bound on the steps between two of its tokens.
//!
//! A policy may preempt requests in a circle, so that none ever yields its next token.
//! That cannot be seen in one step, so steps without a token are counted and compared
//! with what the requests could take at most:
//!
//! - Requests that run one after another, one token a step, yield a token after at most
//!   as many steps as they have tokens. Computed tokens that are not lost are in the GPU's
//!   or the CPU's memory, so only as many tokens count as the two hold.
//! - Ranks may reorder the requests as they run, at worst once for each request that can
//!   run beside the others.
//! - A condition on time, or on steps for which a request was queued, may end a circle:
//!   spans that the rules name are waited for. So may a move to another level: the
//!   longest quantum of a level that a request is at is waited for. Where steps take no
//!   time, neither passes, and they are not waited for.
//!
//! An instance that takes longer computes the same tokens again and again.

use serde::{Deserialize, Serialize};

use super::fact::{Fact, Steps};
use crate::config::Ranking as RankingRules;
use crate::policy::{Changes, Expr, ReqField};
use crate::time::{TICKS_PER_SECOND, Ticks};

/// Steps after which the bound is computed for the first time.
const FIRST_LOOK: u64 = 1024;

/// The longest span, in seconds or steps; a larger number in a rule is a weight.
const LONGEST_SPAN: f64 = 86_400.0;

/// Steps formed since the instance's latest token.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::instance) struct Liveness {
    formed: u64,
    /// When the first of them was formed.
    since: Ticks,
    /// The number of them at which the bound is computed next.
    look_at: u64,
    /// The latest moment at which the bound was computed, and the number of steps when it first was.
    stood: (Ticks, u64),
    /// Twice the longest span that the rules name, in ticks and in steps.
    spans: (Ticks, u64),
}

impl Liveness {
    /// Of an instance that ranks its requests by `ranking`, if it does.
    pub(in crate::instance) fn new(ranking: Option<&RankingRules>) -> Self {
        let spans = ranking.map_or((0, 0), longest_spans);
        Self { formed: 0, since: 0, look_at: FIRST_LOOK, stood: (0, 0), spans }
    }

    /// Notes a token of a request.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the fact is known where it is told")]
    pub(super) fn observe(&mut self, fact: Fact) {
        if matches!(fact, Fact::Yielded { .. }) {
            self.formed = 0;
        }
    }

    /// Notes the tokens of the decode set.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "it is told of at one place, once a run")]
    pub(super) fn observe_steps(&mut self, steps: &Steps) {
        if steps.members > 0 {
            self.formed = 0;
        }
    }

    /// Counts a step that is formed. Returns whether to compute the bound.
    pub(in crate::instance) fn count_step(&mut self, now: Ticks) -> bool {
        if self.formed == 0 {
            (self.since, self.look_at, self.stood) = (now, FIRST_LOOK, (now, 0));
        }
        self.formed += 1;
        self.formed >= self.look_at
    }

    /// The steps formed since the latest token, and when the first of them was.
    pub(in crate::instance) fn without_token(&self) -> (u64, Ticks) {
        (self.formed, self.since)
    }

    /// Whether the requests, which need `steps` at most for a token, have taken longer. If
    /// not, sets when to compute the bound next.
    /// `quantum`: the longest of a level that one of them is at.
    pub(in crate::instance) fn is_over(&mut self, steps: u64, quantum: Ticks, now: Ticks) -> bool {
        let (ticks, idle) = self.spans;
        let most = steps.saturating_add(idle);
        self.look_at = self.formed.saturating_mul(2).min(most.max(self.formed) + 1);
        if self.stood.0 != now {
            self.stood = (now, self.formed);
        }
        let stands = self.formed - self.stood.1 > most;
        stands || self.formed > most && now - self.since >= ticks.max(quantum)
    }
}

/// Twice the longest span that the rules of a ranking name: in ticks, where they read
/// time, and in steps, where they read steps.
fn longest_spans(ranking: &RankingRules) -> (Ticks, u64) {
    // A level is no span: it changes at the end of a quantum. What a prefix cache has changes with steps.
    let timely = |field: ReqField| {
        !matches!(field, ReqField::Level | ReqField::CachedTokens)
            && field.changes().meets(Changes::TIME.or(Changes::QUEUED_TIME))
    };
    let idle = |field: ReqField| field.changes().meets(Changes::QUEUED_STEP);
    let longest = |test: &dyn Fn(ReqField) -> bool| {
        ranking.exprs().map(|expr| longest_span(expr, test)).fold(0.0, f64::max)
    };
    let (seconds, steps) = (longest(&timely), longest(&idle));
    let ticks = (seconds * TICKS_PER_SECOND as f64) as Ticks;
    let promotes = ranking.levels.as_ref().map_or(0, |levels| levels.every);
    let (every_ticks, every_steps) = (ranking.refresh.ticks, ranking.refresh.steps.max(promotes));
    (ticks.max(every_ticks).saturating_mul(2), (steps as u64).max(every_steps).saturating_mul(2))
}

/// The largest number with which a field is compared, or by which it is divided, for
/// which `test` holds.
fn longest_span(expr: &Expr, test: &dyn Fn(ReqField) -> bool) -> f64 {
    match expr {
        Expr::Op(op, _) if op.jumps() && expr.looks_at_request(test) => largest_constant(expr),
        Expr::Op(op, arguments) if !op.jumps() => {
            arguments.iter().map(|argument| longest_span(argument, test)).fold(0.0, f64::max)
        }
        _ => 0.0,
    }
}

/// The largest number in an expression that can be a span.
fn largest_constant(expr: &Expr) -> f64 {
    match expr {
        Expr::Const(value) if value.abs() <= LONGEST_SPAN => value.abs(),
        Expr::Const(_) | Expr::Field(_) => 0.0,
        Expr::Op(_, arguments) => arguments.iter().map(largest_constant).fold(0.0, f64::max),
        Expr::Over(_, of, _) => largest_constant(of),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The step at which an instance is found to make no progress, of which each step takes `ticks` and which needs 1,500
    /// steps at most; its rules name spans of 1,000 ticks and 100 steps.
    fn found_at(ticks: Ticks, quantum: Ticks) -> u64 {
        let mut liveness = Liveness { spans: (1_000, 100), ..Liveness::new(None) };
        let mut now = 7;
        loop {
            if liveness.count_step(now) && liveness.is_over(1_500, quantum, now) {
                return liveness.without_token().0;
            }
            now += ticks;
        }
    }

    #[test]
    fn spans_and_quanta_are_waited_for() {
        assert_eq!(found_at(1, 0), 1_601, "more than the 1,500 steps and the span of 100");
        assert_eq!(found_at(1, 5_000), 5_001, "a quantum of 5,000 ticks");
    }

    #[test]
    fn steps_that_take_no_time_do_not_wait_for_it() {
        assert_eq!(found_at(0, 5_000), 1_601);
    }

    #[test]
    fn steps_of_one_moment_count_from_where_it_was_first_seen() {
        let mut liveness = Liveness { spans: (1_000, 100), ..Liveness::new(None) };
        let found = (0_u64..10_000).find(|&step| {
            let now = Ticks::from(step >= 1_024);
            liveness.count_step(now) && liveness.is_over(1_500, 0, now)
        });
        assert!(found.is_some_and(|step| (1_024 + 1_600..5_000).contains(&step)), "{found:?}");
    }
}
