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
//!   longest quantum of a level that a request is at is waited for.
//!
//! An instance that takes longer computes the same tokens again and again.

use super::Instance;
use crate::config::Ranking as RankingRules;
use crate::error::Error;
use crate::instance::ranking::Ranking;
use crate::policy::{Changes, Expr, ReqField};
use crate::time::{TICKS_PER_SECOND, Ticks};

/// Steps after which the bound is computed for the first time.
const FIRST_LOOK: u64 = 1024;

/// The longest span, in seconds or steps; a larger number in a rule is a weight.
const LONGEST_SPAN: f64 = 86_400.0;

/// Steps formed since the instance's latest token.
#[derive(Debug)]
pub(super) struct Liveness {
    formed: u64,
    /// When the first of them was formed.
    since: Ticks,
    /// The number of them at which the bound is computed next.
    look_at: u64,
    /// Twice the longest span that the rules name, in ticks and in steps.
    spans: (Ticks, u64),
}

impl Liveness {
    /// Of an instance that ranks its requests by `ranking`, if it does.
    pub(super) fn new(ranking: Option<&RankingRules>) -> Self {
        Self { formed: 0, since: 0, look_at: FIRST_LOOK, spans: ranking.map_or((0, 0), longest_spans) }
    }

    /// Counts a token.
    #[inline]
    pub(super) fn count_token(&mut self) {
        self.formed = 0;
    }

    /// Counts a step that is formed. Returns whether to compute the bound.
    #[inline]
    pub(super) fn count_step(&mut self, now: Ticks) -> bool {
        if self.formed == 0 {
            (self.since, self.look_at) = (now, FIRST_LOOK);
        }
        self.formed += 1;
        self.formed >= self.look_at
    }

    /// Whether the requests, which need `steps` at most for a token, have taken longer. If
    /// not, sets when to compute the bound next.
    /// `quantum`: the longest of a level that one of them is at.
    fn is_over(&mut self, steps: u64, quantum: Ticks, now: Ticks) -> bool {
        let (ticks, idle) = self.spans;
        let most = steps.saturating_add(idle);
        self.look_at = self.formed.saturating_mul(2).min(most.max(self.formed) + 1);
        self.formed > most && now - self.since >= ticks.max(quantum)
    }
}

/// Twice the longest span that the rules of a ranking name: in ticks, where they read
/// time, and in steps, where they read steps.
fn longest_spans(ranking: &RankingRules) -> (Ticks, u64) {
    // A level is no span: it changes at the end of a quantum.
    let timely = |field: ReqField| {
        field != ReqField::Level && field.changes().meets(Changes::TIME.or(Changes::QUEUED_TIME))
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

impl Instance {
    /// Checks that the instance still makes progress.
    ///
    /// # Errors
    ///
    /// If it does not: when the latest token was, and what was done since.
    #[cold]
    #[inline(never)]
    pub(super) fn check_liveness(&mut self, now: Ticks) -> Result<(), Error> {
        let held = self.settings.blocks.saturating_add(self.kv.cpu().capacity());
        let held = held.saturating_mul(u64::from(self.settings.block.tokens()));
        let tokens = self.load.outstanding_tokens().min(held);
        let together = (self.queued() + self.admitted()).min(self.settings.scheduler.max_num_seqs).max(2);
        let quantum = self.ranking.as_deref().map_or(0, Ranking::longest_quantum);
        if !self.liveness.is_over(tokens.saturating_mul(together), quantum, now) {
            return Ok(());
        }
        let Liveness { formed, since, .. } = self.liveness;
        let rule = format!(
            "{formed} steps were formed since the latest token at {} s, more than its {} requests can take: \
             they preempt each other before any yields its next token; where memory is lost, ranks that change \
             as a request runs do that",
            seconds_of(since),
            self.queued() + self.admitted(),
        );
        Err(Error::NoProgress { instance: self.settings.index as usize, at: now, rule })
    }

    /// Why no stage can run any of the unfinished requests, of an instance at which nothing
    /// more happens; `None` if all have finished.
    pub(crate) fn blockage(&self, now: Ticks) -> Option<Error> {
        let (waiting, admitted) = (self.queued(), self.batch.running());
        if waiting + admitted == 0 {
            return None;
        }
        let swapped = self.queues.swapped_out();
        let ranked = self.ranking.as_deref().map_or(0, Ranking::waiting);
        let rule = format!(
            "{admitted} admitted requests and {waiting} waiting ones ({swapped} of them swapped out, {ranked} \
             ranked) are left, and no stage of its scheduler can run any: {} of {} blocks are free, of which an \
             admission leaves {}",
            self.kv.free(),
            self.settings.blocks,
            self.settings.watermark(self.admitted()) + u64::from(self.settings.scheduler.spare_block),
        );
        Some(Error::NoProgress { instance: self.settings.index as usize, at: now, rule })
    }
}

/// A moment in seconds.
fn seconds_of(moment: Ticks) -> f64 {
    moment as f64 / TICKS_PER_SECOND as f64
}
