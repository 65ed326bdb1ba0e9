//! Picks the instance for a request by a rule.
//!
//! A rule sees the tokens of each instance as of its last finished step, and its batch, queues and blocks as of now. It
//! picks only instances that could serve the request.

mod callback;
mod pick;
mod view;

pub use callback::{CALLBACK_INSTANCE_FIELDS, CALLBACK_REQUEST_FIELDS, CallbackView, Decide};
pub(super) use pick::{Best, Candidates};
pub(super) use view::RouterView;

use pick::LowerBound;

use super::cluster::Cluster;
use crate::error::Error;
use crate::instance::{Asking, Instance, RequestView};
use crate::metrics::Reason;
use crate::policy::{Pick, Rule};
use crate::time::Ticks;

/// What rules remember between two requests, and what they share.
pub(super) struct Router {
    /// By round-robin rule: the instance that is next.
    turns: Vec<usize>,
    /// Whether every instance refuses the same requests.
    uniform: bool,
    /// By instance: a bound of the field by which a pick compares.
    bounds: Vec<LowerBound>,
    /// The callbacks of the policy.
    callbacks: Option<Box<dyn Decide>>,
}

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Router").field("turns", &self.turns).finish_non_exhaustive()
    }
}

impl Router {
    /// A router for rules with `turns` round-robin rules among them.
    pub(super) fn new(instances: &[Instance], turns: usize, callbacks: Option<Box<dyn Decide>>) -> Self {
        Self {
            turns: vec![0; turns],
            uniform: instances.iter().all(|instance| instance.rejects_like(&instances[0])),
            bounds: vec![LowerBound::EXCLUDED; instances.len()],
            callbacks,
        }
    }

    /// Why no instance could ever serve a request; [`Reason::None`] if one could.
    #[inline]
    pub(super) fn rejects(&self, prompt: u32, output: u32, instances: &[Instance]) -> Reason {
        let reason = instances[0].rejects(prompt, output);
        if self.uniform || reason == Reason::None {
            return reason;
        }
        let all = || instances.iter().map(|instance| instance.rejects(prompt, output));
        if all().any(|reason| reason == Reason::None) {
            return Reason::None;
        }
        // The last reason is the least: if the blocks of an instance are exceeded, its context is not.
        all().max_by_key(|reason| *reason as u8).unwrap_or(reason)
    }

    /// The instance that a rule picks for a request that arrives.
    #[inline]
    pub(super) fn pick_on_arrival(
        &mut self,
        rule: &Rule,
        row: usize,
        cluster: &mut Cluster,
        now: Ticks,
    ) -> Result<Option<usize>, Error> {
        if rule.counts() {
            let (prompt, output) = (cluster.trace().prompt_tokens[row], cluster.trace().output_tokens[row]);
            return Ok(self.fewest(rule, prompt, output, cluster, now));
        }
        let view = RequestView::arriving(row as u32, now, cluster.trace());
        self.pick(rule, &Asking { view, place: None }, cluster, now)
    }

    /// The instance that a rule picks for a request that arrives, whose prompt an instance is to compute: (row, that
    /// instance, which is `here`).
    pub(super) fn pick_with_prefill(
        &mut self,
        rule: &Rule,
        (row, prefill): (usize, usize),
        cluster: &mut Cluster,
        now: Ticks,
    ) -> Result<Option<usize>, Error> {
        let view = RequestView::arriving(row as u32, now, cluster.trace());
        let asking = Asking { view, place: None };
        let mut view = RouterView::of_request(cluster, &asking, now);
        view.set_here(prefill);
        self.choose(rule, &mut view)
    }

    /// The instance that a rule picks for a request.
    #[inline(never)]
    pub(super) fn pick(
        &mut self,
        rule: &Rule,
        request: &Asking,
        cluster: &mut Cluster,
        now: Ticks,
    ) -> Result<Option<usize>, Error> {
        self.choose(rule, &mut RouterView::of_request(cluster, request, now))
    }

    /// Asks a rule that changes roles, for a monitor: about no request.
    pub(super) fn flip(&mut self, rule: &Rule, cluster: &mut Cluster, now: Ticks) -> Result<(), Error> {
        // A rule sees a request of one token, which any instance can serve.
        let view = RequestView { now, prompt: 1, ..RequestView::default() };
        self.choose(rule, &mut RouterView::of_request(cluster, &Asking { view, place: None }, now)).map(drop)
    }

    /// The instance that a rule picks in a view.
    fn choose(&mut self, rule: &Rule, view: &mut RouterView) -> Result<Option<usize>, Error> {
        let uniform = self.uniform;
        Ok(match rule {
            Rule::RoundRobin { turn, within } => {
                let may_pick = |i: usize| {
                    within.as_ref().is_none_or(|roles| view.cluster().roles().is_in(i, roles))
                        && (uniform || view.serves(i))
                };
                if let Some((picked, after)) = next_in_turn(self.turns[*turn], view.len(), may_pick) {
                    self.turns[*turn] = after;
                    Some(picked)
                } else {
                    None
                }
            }
            Rule::FewestRequests { .. } | Rule::FewestTokens { .. } => {
                let (prompt, output) = view.lengths();
                self.fewest(rule, prompt, output, view.cluster(), view.now())
            }
            Rule::Pick(pick) => self.best(pick, view),
            Rule::FirstOf { rules } => {
                for rule in rules {
                    if let Some(index) = self.choose(rule, view)? {
                        return Ok(Some(index));
                    }
                }
                None
            }
            Rule::Stay { when } => {
                let here = view.here();
                view.set_candidate(here.unwrap_or(0));
                let stays = when.as_ref().is_none_or(|when| view.holds(when));
                here.filter(|_| stays)
            }
            Rule::Unless { of, when } => {
                let Some(picked) = self.choose(of, view)? else { return Ok(None) };
                // What the condition reads of no named instance is of the picked one.
                view.set_candidate(picked);
                view.set_there(Some(picked));
                (!view.holds(when)).then_some(picked)
            }
            Rule::When { of, when } => {
                view.set_candidate(view.here().unwrap_or(0));
                if view.holds(when) { self.choose(of, view)? } else { None }
            }
            Rule::Flip(flip) => {
                let Some(picked) = self.choose(&flip.of, view)? else { return Ok(None) };
                view.flip(picked, flip).then_some(picked)
            }
            Rule::Call { index } => self.call(*index, view)?,
        })
    }

    /// The instance with the fewest outstanding requests or tokens, by a rule that compares these.
    #[inline(never)]
    fn fewest(&self, rule: &Rule, prompt: u32, output: u32, cluster: &Cluster, now: Ticks) -> Option<usize> {
        let uniform = self.uniform;
        let within = rule.within();
        let may_pick = |&i: &usize| {
            within.is_none_or(|roles| cluster.roles().is_in(i, roles))
                && (uniform || cluster.instance(i).rejects(prompt, output) == Reason::None)
        };
        let candidates = (0..cluster.len()).filter(may_pick);
        match rule {
            Rule::FewestRequests { .. } => candidates.min_by_key(|&i| cluster.outstanding(i)),
            Rule::FewestTokens { .. } => fewest_tokens(cluster.instances(), candidates, now),
            _ => None,
        }
    }

    /// The lowest instance of a pick, if it is accepted.
    fn best(&mut self, pick: &Pick, view: &mut RouterView) -> Option<usize> {
        let picked = pick::lowest(pick, view, self.uniform, &mut self.bounds)?;
        view.set_candidate(picked);
        let accepted = pick.accept.as_ref().is_none_or(|accept| view.holds(accept));
        accepted.then_some(picked)
    }

    /// The instance that a callback picks.
    fn call(&mut self, index: usize, view: &mut RouterView) -> Result<Option<usize>, Error> {
        let shown = CallbackView::of(view);
        let Some(callbacks) = &mut self.callbacks else {
            return Err(Error::config("routing", "calls a callable, and none was given"));
        };
        let picked = callbacks.decide(index, &shown)?;
        if let Some(picked) = picked
            && (picked >= view.len() || !(self.uniform || view.serves(picked)))
        {
            let last = view.len() - 1;
            let rule =
                format!("must give an instance from 0 to {last} that can hold the request, gave {picked}");
            return Err(Error::config("routing", rule));
        }
        Ok(picked)
    }
}

/// The first of `n` instances from `next` on, around, that serves a request; and the one after it.
fn next_in_turn(next: usize, n: usize, serves: impl Fn(usize) -> bool) -> Option<(usize, usize)> {
    let picked = (next..n).chain(0..next).find(|&i| serves(i))?;
    Some((picked, if picked + 1 == n { 0 } else { picked + 1 }))
}

/// The candidate with the fewest outstanding tokens. The tokens at the start of an instance's run are a lower bound,
/// which in most cases settles the comparison without computing how far the run is.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::fixtures::{cluster, row};

    #[test]
    fn turns_go_around_and_pass_over_instances_that_do_not_serve() {
        assert_eq!(next_in_turn(1, 3, |_| true), Some((1, 2)));
        assert_eq!(next_in_turn(2, 3, |_| true), Some((2, 0)));
        assert_eq!(next_in_turn(2, 3, |i| i == 1), Some((1, 2)));
        assert_eq!(next_in_turn(0, 3, |_| false), None);
    }

    #[test]
    fn a_request_is_refused_only_if_every_instance_refuses_it() {
        let cluster = cluster(&[10, 40], &[row(0, 8, 8)]);
        let router = Router::new(cluster.instances(), 0, None);
        // Blocks of 16 tokens: 160 fit into the first instance, 640 into the second.
        assert_eq!(router.rejects(100, 8, cluster.instances()), Reason::None);
        assert_eq!(router.rejects(500, 8, cluster.instances()), Reason::None);
        assert_eq!(router.rejects(700, 8, cluster.instances()), Reason::ExceedsMemory);
    }

    #[test]
    fn fewest_requests_counts_what_was_sent_and_first_of_falls_through() {
        let mut cluster = cluster(&[10, 40], &[row(0, 8, 8), row(0, 8, 8), row(0, 500, 8)]);
        let mut router = Router::new(cluster.instances(), 1, None);
        let fewest = Rule::FewestRequests { within: None };
        let mut picked = |rule: &Rule, row: usize, cluster: &mut Cluster| {
            let index = router.pick_on_arrival(rule, row, cluster, 0).unwrap();
            if let Some(index) = index {
                cluster.send(row, index, 0);
            }
            index
        };
        assert_eq!(picked(&fewest, 0, &mut cluster), Some(0));
        assert_eq!(picked(&fewest, 1, &mut cluster), Some(1));
        let rules = vec![Rule::Stay { when: None }, Rule::RoundRobin { turn: 0, within: None }];
        // The request is on no instance to stay on, and only the second instance holds its context.
        assert_eq!(picked(&Rule::FirstOf { rules }, 2, &mut cluster), Some(1));
    }

    #[test]
    fn a_callback_must_pick_an_instance_that_serves_the_request() {
        struct Always(usize);
        impl Decide for Always {
            fn decide(&mut self, _: usize, view: &CallbackView) -> Result<Option<usize>, Error> {
                assert_eq!((view.instances.len(), view.here), (2, None));
                Ok(Some(self.0))
            }
        }
        let mut cluster = cluster(&[10, 40], &[row(0, 500, 8)]);
        let rule = Rule::Call { index: 0 };
        for (index, fits) in [(0, false), (1, true), (2, false)] {
            let mut router = Router::new(cluster.instances(), 0, Some(Box::new(Always(index))));
            let picked = router.pick_on_arrival(&rule, 0, &mut cluster, 0);
            assert_eq!(picked.is_ok(), fits, "{picked:?}");
        }
    }
}
