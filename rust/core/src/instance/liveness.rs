//! Whether an instance gets on: a bound on the steps between two of its tokens.
//!
//! A policy may preempt requests in a circle, so that none ever yields its next
//! token. Nothing of that can be seen in one step, so the steps are counted and
//! held against what the work at hand could take at most:
//!
//! - Requests served one after another, one token a step, would each have
//!   yielded a token after as many steps as they have tokens. Tokens that are
//!   computed and not lost lie in the instance's memory or the CPU's, so of all
//!   the tokens no more count than the two hold.
//! - Ranks may order the requests anew as they run, at worst once for each
//!   request that can run beside the others.
//! - A condition on time, or on steps sat out, may end a circle: as long as the
//!   spans last that the rules name, nothing is held against the policy.
//!
//! Who takes longer than all of that computes the same tokens again and again.

use super::active::Phase;
use super::{Instance, Ranks};
use crate::config::Ranking;
use crate::error::Error;
use crate::policy::{Expr, ReqField};
use crate::time::{TICKS_PER_SECOND, Ticks};

/// Steps after which the bound is worked out for the first time.
const FIRST_LOOK: u64 = 1024;

/// The longest span that counts as one, in seconds or in steps; a larger number
/// in a rule weighs keys against each other.
const LONGEST_SPAN: f64 = 86_400.0;

/// Steps formed since the latest token of an instance.
#[derive(Debug)]
pub(super) struct Liveness {
    formed: u64,
    /// When the first of them was formed.
    since: Ticks,
    /// At how many of them the bound is worked out next.
    look_at: u64,
    /// Twice the longest span that the rules name, in ticks and in steps.
    spans: (Ticks, u64),
}

impl Liveness {
    pub(super) fn new(ranking: Option<&Ranking>) -> Self {
        Self { formed: 0, since: 0, look_at: FIRST_LOOK, spans: ranking.map_or((0, 0), longest_spans) }
    }

    /// A request yielded a token.
    #[inline]
    pub(super) fn token(&mut self) {
        self.formed = 0;
    }

    /// A step is formed. Returns whether to work the bound out.
    #[inline]
    pub(super) fn forms(&mut self, now: Ticks) -> bool {
        if self.formed == 0 {
            (self.since, self.look_at) = (now, FIRST_LOOK);
        }
        self.formed += 1;
        self.formed >= self.look_at
    }

    /// Whether no token can be expected any more, of requests that can take
    /// `steps` at most. Where it can, says when to ask again.
    fn is_over(&mut self, steps: u64, now: Ticks) -> bool {
        let (ticks, idle) = self.spans;
        let most = steps.saturating_add(idle);
        self.look_at = self.formed.saturating_mul(2).min(most.max(self.formed) + 1);
        self.formed > most && now - self.since >= ticks
    }
}

/// Twice the longest span that the rules of a ranking name: in ticks, where they
/// look at time, and in steps, where they look at steps sat out.
fn longest_spans(ranking: &Ranking) -> (Ticks, u64) {
    let timely = |field: ReqField| {
        matches!(field, ReqField::AgeS | ReqField::WaitingS | ReqField::AttainedS | ReqField::SlackS)
    };
    let idle = |field: ReqField| field == ReqField::IdleSteps;
    let longest = |test: &dyn Fn(ReqField) -> bool| {
        ranking.exprs().map(|expr| longest_span(expr, test)).fold(0.0, f64::max)
    };
    let (seconds, steps) = (longest(&timely), longest(&idle));
    let ticks = (seconds * TICKS_PER_SECOND as f64) as Ticks;
    let (every_ticks, every_steps) = (ranking.refresh.ticks, ranking.refresh.steps);
    (ticks.max(every_ticks).saturating_mul(2), (steps as u64).max(every_steps).saturating_mul(2))
}

/// The largest number that a field for which `test` holds is compared with, or
/// divided by.
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
    /// Refuses to go on if no token can be expected any more.
    ///
    /// # Errors
    ///
    /// Says when the latest token was, and what was done since.
    #[cold]
    #[inline(never)]
    pub(super) fn check_liveness(&mut self, now: Ticks) -> Result<(), Error> {
        let held = self.memory.capacity().saturating_add(self.swap_space.capacity());
        let tokens = self.outstanding_tokens.min(held.saturating_mul(u64::from(self.block_tokens)));
        let together = (self.queued() + self.admitted()).min(self.scheduler.max_num_seqs).max(2);
        if !self.liveness.is_over(tokens.saturating_mul(together), now) {
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
        Err(Error::NoProgress { instance: self.index as usize, at: now, rule })
    }

    /// What keeps the unfinished requests of an instance that has come to rest
    /// from going on; nothing where all are finished.
    pub(crate) fn blockage(&self, now: Ticks) -> Option<Error> {
        let (waiting, admitted) = (self.queued(), self.running());
        if waiting + admitted == 0 {
            return None;
        }
        let swapped = self.table.iter().filter(|active| matches!(active.phase, Phase::Swapped(_))).count();
        let ranked = self.ranks.as_deref().map_or(0, Ranks::waiting);
        let rule = format!(
            "{admitted} admitted requests and {waiting} waiting ones ({swapped} of them swapped out, {ranked} \
             ranked) are left, and no stage of its scheduler can run any: {} of {} blocks are free, of which an \
             admission leaves {}",
            self.memory.free(),
            self.memory.capacity(),
            self.watermark() + u64::from(self.scheduler.spare_block),
        );
        Some(Error::NoProgress { instance: self.index as usize, at: now, rule })
    }
}

/// A moment in seconds.
fn seconds_of(moment: Ticks) -> f64 {
    moment as f64 / TICKS_PER_SECOND as f64
}
