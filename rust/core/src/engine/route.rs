//! Which instance a request goes to.

use std::hint::select_unpredictable;

use super::sight::RouterView;
use crate::error::Error;
use crate::instance::Instance;
use crate::metrics::Reason;
use crate::policy::{Expr, Field, InstField, Pick, Rule, Who, sort_key_now};
use crate::time::Ticks;

/// Decides in place of a rule: a caller's own code.
pub trait Decide: Send {
    /// The instance that a request goes to, or nobody.
    ///
    /// # Errors
    ///
    /// Ends the replay.
    fn decide(&mut self, callable: usize, view: &CallbackView) -> Result<Option<usize>, Error>;
}

/// What a callable is shown.
#[derive(Debug, Clone)]
pub struct CallbackView {
    /// The request's fields, in the order of [`CALLBACK_REQUEST_FIELDS`].
    pub request: Vec<f64>,
    /// The fields of each instance, in the order of [`CALLBACK_INSTANCE_FIELDS`].
    pub instances: Vec<Vec<f64>>,
    /// The instance that the request is on.
    pub here: Option<usize>,
    /// The request's row in the trace.
    pub row: usize,
}

/// What cannot be decided by an instance alone.
pub(crate) struct Router {
    /// Whose turn it is, of each rule that takes turns.
    next: Vec<usize>,
    /// Requests sent to each instance and not finished.
    outstanding: Vec<u64>,
    /// Whether every instance refuses the same requests.
    uniform: bool,
    /// Of each instance, while the lowest is looked for.
    bounds: Vec<LowerBound>,
    pub(super) calls: Option<Box<dyn Decide>>,
}

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Router").field("outstanding", &self.outstanding).finish_non_exhaustive()
    }
}

impl Router {
    pub(crate) fn new(instances: &[Instance], turns: usize, calls: Option<Box<dyn Decide>>) -> Self {
        let uniform = instances.iter().all(|instance| instance.refuses_like(&instances[0]));
        Self {
            next: vec![0; turns],
            outstanding: vec![0; instances.len()],
            uniform,
            bounds: vec![EXCLUDED; instances.len()],
            calls,
        }
    }

    /// Why nobody could ever serve a request, if nobody could.
    #[inline]
    pub(crate) fn refuses(&self, prompt: u32, output: u32, instances: &[Instance]) -> Reason {
        let reason = instances[0].refuses(prompt, output);
        if self.uniform || reason == Reason::None {
            return reason;
        }
        // Memory is the lesser fault: someone could have held the context.
        let all = || instances.iter().map(|instance| instance.refuses(prompt, output));
        if all().any(|reason| reason == Reason::None) {
            return Reason::None;
        }
        all().max_by_key(|reason| *reason as u8).unwrap_or(reason)
    }

    /// What the rules say that look at no field, of a request that arrives.
    #[inline(never)]
    pub(crate) fn count_out(
        &self,
        rule: &Rule,
        prompt: u32,
        output: u32,
        now: Ticks,
        instances: &[Instance],
    ) -> Option<usize> {
        let uniform = self.uniform;
        let serves = |i: &usize| uniform || instances[*i].refuses(prompt, output) == Reason::None;
        let candidates = (0..instances.len()).filter(serves);
        match rule {
            Rule::FewestRequests => candidates.min_by_key(|&i| self.outstanding[i]),
            Rule::FewestTokens => fewest_tokens(instances, candidates, now),
            _ => None,
        }
    }

    /// Picks among the instances that could serve the request, as each was
    /// when its last step ended.
    pub(crate) fn choose(&mut self, rule: &Rule, view: &mut RouterView) -> Result<Option<usize>, Error> {
        let n = view.instances.len();
        let uniform = self.uniform;
        let serves = |i: usize, view: &RouterView| uniform || view.serves(i);
        Ok(match rule {
            &Rule::RoundRobin { turn } => {
                let next = self.next[turn];
                let picked = (next..n).chain(0..next).find(|&i| serves(i, view));
                if let Some(index) = picked {
                    self.next[turn] = if index + 1 == n { 0 } else { index + 1 };
                }
                picked
            }
            Rule::FewestRequests | Rule::FewestTokens => {
                let (prompt, output) = (view.asking.view.prompt, view.asking.view.output);
                self.count_out(rule, prompt, output, view.now, view.instances)
            }
            Rule::Pick(pick) => best(pick, view, uniform, &mut self.bounds),
            Rule::FirstOf { rules } => {
                for rule in rules {
                    if let Some(index) = self.choose(rule, view)? {
                        return Ok(Some(index));
                    }
                }
                None
            }
            Rule::Stay { when } => {
                let here = view.asking.place.map(|(index, _)| index);
                view.candidate = here.unwrap_or(0);
                let stays = when.as_ref().is_none_or(|when| view.holds(when));
                here.filter(|_| stays)
            }
            Rule::Unless { of, when } => {
                let picked = self.choose(of, view)?;
                view.there = picked;
                picked.filter(|_| !view.holds(when))
            }
            Rule::Call { index } => {
                let shown = view.callback_view();
                let Some(calls) = &mut self.calls else {
                    return Err(Error::config("routing", "calls a callable, and none was given"));
                };
                let picked = calls.decide(*index, &shown)?;
                if let Some(picked) = picked
                    && (picked >= n || !serves(picked, view))
                {
                    let rule = format!(
                        "must give an instance from 0 to {} that can hold the request, gave {picked}",
                        n - 1
                    );
                    return Err(Error::config("routing", rule));
                }
                picked
            }
        })
    }

    /// A request has come to an instance.
    #[inline]
    pub(crate) fn sent(&mut self, index: usize) {
        self.outstanding[index] += 1;
    }

    /// A request has left an instance; until it lands it is nowhere.
    #[inline]
    pub(crate) fn left(&mut self, index: usize) {
        self.outstanding[index] -= 1;
    }

    #[inline]
    pub(crate) fn finished(&mut self, index: usize, requests: u64) {
        self.outstanding[index] -= requests;
    }
}

/// The lowest of those who may be picked, if it is acceptable. `uniform`: if
/// anybody serves the request, all do.
fn best(pick: &Pick, view: &mut RouterView, uniform: bool, bounds: &mut [LowerBound]) -> Option<usize> {
    let picked = match pick.min.as_slice() {
        &[Expr::Field(Field::Inst(Who::Candidate, field, class))] => {
            lowest(field, class, pick, view, uniform, bounds)
        }
        keys => lowest_of_many(keys, pick, view, uniform),
    }?;
    view.candidate = picked;
    let accepted = pick.accept.as_ref().is_none_or(|accept| view.holds(accept));
    accepted.then_some(picked)
}

/// Whether a request may be sent to an instance at all.
#[inline(never)]
fn may(pick: &Pick, i: usize, view: &RouterView) -> bool {
    let role = view.instances[i].role();
    pick.within.as_ref().is_none_or(|roles| roles.contains(&role)) && view.serves(i)
}

/// The lowest by one field, the first of those that are equal. (Fields are numbers
/// and finite.)
///
/// Of a field that only grows within a run, what it was when the run began is at
/// hand, and is no more than it is now. So whoever is lowest by what is known is
/// looked at more closely, until that is the field itself and it may be picked:
/// mostly one of the first few, else all are gone through in turn.
#[inline]
fn lowest(
    field: InstField,
    class: u32,
    pick: &Pick,
    view: &mut RouterView,
    uniform: bool,
    bounds: &mut [LowerBound],
) -> Option<usize> {
    let all = uniform && pick.within.is_none();
    for (i, bound) in bounds.iter_mut().enumerate() {
        *bound = if !all && !may(pick, i, view) {
            EXCLUDED
        } else if let Some(least) = view.instances[i].at_least(field) {
            LowerBound { least, exact: false }
        } else {
            LowerBound { least: view.field(i, field, class), exact: true }
        };
    }
    for _ in 0..MOST_LOOKS {
        let (mut least, mut i) = (f64::INFINITY, 0);
        for (other, bound) in bounds.iter().enumerate() {
            let lower = bound.least < least;
            least = select_unpredictable(lower, bound.least, least);
            i = select_unpredictable(lower, other, i);
        }
        if least == f64::INFINITY {
            return None;
        }
        if !bounds[i].exact {
            bounds[i] = LowerBound { least: view.field(i, field, class), exact: true };
            continue;
        }
        view.candidate = i;
        if pick.r#where.as_ref().is_none_or(|condition| view.holds(condition)) {
            return Some(i);
        }
        bounds[i] = EXCLUDED;
    }
    let (mut found, mut least) = (None, f64::INFINITY);
    for (i, bound) in bounds.iter().enumerate() {
        if bound.least >= least {
            continue;
        }
        let value = if bound.exact { bound.least } else { view.field(i, field, class) };
        view.candidate = i;
        if value < least && pick.r#where.as_ref().is_none_or(|condition| view.holds(condition)) {
            (found, least) = (Some(i), value);
        }
    }
    found
}

/// So often the lowest is looked for before all are gone through.
const MOST_LOOKS: usize = 6;

/// What is known of a field of an instance while the lowest is looked for.
#[derive(Debug, Clone, Copy)]
struct LowerBound {
    least: f64,
    exact: bool,
}

/// It may not be picked.
const EXCLUDED: LowerBound = LowerBound { least: f64::INFINITY, exact: true };

/// The lowest by any keys, the first of those that are equal; or the first of
/// all, by none.
#[inline(never)]
fn lowest_of_many(keys: &[Expr], pick: &Pick, view: &mut RouterView, uniform: bool) -> Option<usize> {
    let all = uniform && pick.within.is_none();
    let mut best = Best::default();
    for i in 0..view.instances.len() {
        if !all && !may(pick, i, view) {
            continue;
        }
        view.candidate = i;
        if best.is_beaten(keys, view) && pick.r#where.as_ref().is_none_or(|condition| view.holds(condition)) {
            best.take(i);
        }
    }
    best.found
}

/// The lowest so far of those looked at, and what it was ranked by.
#[derive(Debug)]
pub(super) struct Best<T> {
    pub(super) found: Option<T>,
    least: Vec<i64>,
    latest: Vec<i64>,
}

impl<T> Default for Best<T> {
    fn default() -> Self {
        Self { found: None, least: Vec::new(), latest: Vec::new() }
    }
}

impl<T> Best<T> {
    /// Whether what is considered now comes before it.
    pub(super) fn is_beaten(&mut self, keys: &[Expr], view: &mut RouterView) -> bool {
        let mut less = self.found.is_none();
        self.latest.clear();
        for (i, key) in keys.iter().enumerate() {
            let value = sort_key_now(key, view);
            if !less {
                if value > self.least[i] {
                    return false;
                }
                less = value < self.least[i];
            }
            self.latest.push(value);
        }
        less
    }

    /// Takes what beat it in its place.
    pub(super) fn take(&mut self, found: T) {
        self.found = Some(found);
        std::mem::swap(&mut self.least, &mut self.latest);
    }
}

/// The candidate with the fewest outstanding tokens. What an instance had when
/// its run began is a lower bound, and mostly settles it without asking how far
/// the run has come.
fn fewest_tokens(
    instances: &[Instance],
    candidates: impl Iterator<Item = usize>,
    now: Ticks,
) -> Option<usize> {
    let mut fewest = None;
    for i in candidates {
        if fewest.is_some_and(|(_, tokens)| instances[i].outstanding_tokens_at_least() >= tokens) {
            continue;
        }
        let tokens = instances[i].outstanding_tokens(now);
        if fewest.is_none_or(|(_, least)| tokens < least) {
            fewest = Some((i, tokens));
        }
    }
    fewest.map(|(i, _)| i)
}
