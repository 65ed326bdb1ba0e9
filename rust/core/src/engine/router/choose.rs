//! Asking a rule: an arm for each kind.

use super::equals::Memory;
use super::least_loaded::least_loaded;
use super::pick::Candidates;
use super::turns::{next_in_turn, next_of};
use super::view::RouterView;
use super::{CallbackView, Decision, Desk, Router, affinity, equals, pick, softmax};
use crate::engine::cluster::Cluster;
use crate::error::Error;
use crate::hint::rare;
use crate::metrics::Reason;
use crate::policy::{AffinityKey, Expr, InstField, Pick, Rule, sort_key_of};
use crate::time::Ticks;

impl Router {
    /// Asks a rule in a view.
    pub(super) fn choose(&mut self, rule: &Rule, view: &mut RouterView) -> Result<Decision, Error> {
        match rule {
            Rule::Pick(pick) => Ok(Decision::of(self.best(pick, view))),
            Rule::FirstOf { rules } => {
                for rule in rules {
                    let decision = self.choose(rule, view)?;
                    if decision != Decision::None {
                        return Ok(decision);
                    }
                }
                Ok(Decision::None)
            }
            Rule::Unless { of, when } => {
                let decision = self.choose(of, view)?;
                let Decision::Send(picked) = decision else { return Ok(decision) };
                // What the condition reads of no named instance is of the picked one.
                view.set_candidate(picked);
                view.set_there(Some(picked));
                Ok(if view.holds(when) { Decision::None } else { decision })
            }
            Rule::RoundRobin { turn, within } => Ok(self.in_turn(*turn, within.as_deref(), view)),
            Rule::FewestRequests { .. } | Rule::FewestTokens { .. } => {
                Ok(Decision::of(self.fewest_known(rule, view)))
            }
            Rule::Stay { when } => Ok(stay(when.as_ref(), view)),
            Rule::Call { index } => Ok(Decision::of(self.call(*index, view)?)),
            Rule::Affinity { key, within } => Ok(self.by_hash(*key, within.as_deref(), view)),
            Rule::Hold { blocks } => Ok(Decision::Hold(*blocks)),
            Rule::Reject { when } => Ok(reject(when.as_ref(), view)),
            Rule::Owner { above, within } => Ok(self.owner(*above, within.as_deref(), view)),
            Rule::When { of, when } => {
                view.set_candidate(view.here().unwrap_or(0));
                if view.holds(when) { self.choose(of, view) } else { Ok(Decision::None) }
            }
            Rule::Flip(flip) => {
                let decision = self.choose(&flip.of, view)?;
                let Decision::Send(picked) = decision else { return Ok(decision) };
                let flipped = view.flip(picked, flip);
                Ok(if flipped && flip.picks { decision } else { Decision::None })
            }
        }
    }

    /// The next instance in turn.
    #[inline(never)]
    fn in_turn(&mut self, turn: usize, within: Option<&[u32]>, view: &RouterView) -> Decision {
        let uniform = self.uniform;
        let serves = |i: usize| uniform || view.serves(i);
        let turn = &mut self.desks[view.router()].turns[turn];
        let next = match within {
            None => next_in_turn(*turn, view.len(), serves),
            Some(roles) => {
                self.able.clear();
                view.members(Some(roles), &mut self.able);
                next_of(&self.able, *turn, view.len(), serves)
            }
        };
        Decision::of(next.map(|(picked, after)| {
            *turn = after;
            picked
        }))
    }

    /// The instance to which the hash of a key of the request leads.
    #[inline(never)]
    fn by_hash(&mut self, key: AffinityKey, within: Option<&[u32]>, view: &RouterView) -> Decision {
        let hash = affinity::hash_of(key, view.asked(), view.cluster().trace());
        pick::list_able(within, view, self.uniform, &mut self.able);
        let able = self.able.iter().copied();
        Decision::of(hash.and_then(|hash| affinity::instance_for(hash, able)))
    }

    /// The owner of the request's prompt, if it could serve the request.
    #[inline(never)]
    fn owner(&self, above: f64, within: Option<&[u32]>, view: &RouterView) -> Decision {
        let owner = view.prompt_owner(above, within);
        Decision::of(owner.filter(|&owner| self.uniform || view.serves(owner)))
    }

    /// The instance with the fewest outstanding requests or tokens, as of now or by the latest report.
    #[inline(never)]
    fn fewest_known(&mut self, rule: &Rule, view: &mut RouterView) -> Option<usize> {
        if view.is_reported() {
            return self.fewest_reported(rule, view);
        }
        let (prompt, output) = view.lengths();
        self.fewest(rule, (prompt, output, view.model()), view.cluster(), view.now())
    }

    /// The instance with the fewest outstanding requests or tokens, by a rule that compares these.
    #[inline(never)]
    pub(super) fn fewest(
        &mut self,
        rule: &Rule,
        (prompt, output, model): (u32, u32, u32),
        cluster: &Cluster,
        now: Ticks,
    ) -> Option<usize> {
        let uniform = self.uniform;
        let refuses = |i: usize| cluster.instance(i).settings().refuses(prompt, output, model);
        let serves = |&i: &usize| uniform || refuses(i) == Reason::None;
        match rule.within() {
            None => least_loaded(rule, (0..cluster.len()).filter(serves), cluster, now),
            Some(roles) => {
                self.able.clear();
                cluster.roles().list(roles, &mut self.able);
                least_loaded(rule, self.able.iter().copied().filter(serves), cluster, now)
            }
        }
    }

    /// As [`Self::fewest`], by the latest report.
    fn fewest_reported(&mut self, rule: &Rule, view: &mut RouterView) -> Option<usize> {
        let tokens = matches!(rule, Rule::FewestTokens { .. });
        let field = if tokens { InstField::OutstandingTokens } else { InstField::Requests };
        pick::list_able(rule.within(), view, self.uniform, &mut self.able);
        self.able.iter().copied().min_by_key(|&i| sort_key_of(view.field(i, field, 0)))
    }

    /// The lowest instance of a pick, if it is accepted.
    fn best(&mut self, pick: &Pick, view: &mut RouterView) -> Option<usize> {
        let able = if self.uniform && pick.within.is_none() {
            self.all.as_slice()
        } else {
            rare();
            pick::list_able(pick.within.as_deref(), view, self.uniform, &mut self.able);
            self.able.as_slice()
        };
        let picked = if let Some(softmax) = &pick.softmax {
            let random = &mut self.desks[view.router()].random[softmax.number];
            softmax::drawn(pick, softmax.temperature, view, able, random)?
        } else if pick.scans() {
            pick::lowest(pick, view, able, &mut self.bounds)?
        } else {
            let Desk { turns, draws: [decode, others], .. } = &mut self.desks[view.router()];
            let draws = if view.is_decode() { decode } else { others };
            let mut memory = Memory { turn: &mut turns[pick.turn], draws, row: view.asked().index() };
            equals::lowest(pick, view, able, &mut memory)?
        };
        view.set_candidate(picked);
        if pick.accept.as_ref().is_some_and(|accept| !view.holds(accept)) {
            return None;
        }
        if !pick.scans() {
            equals::note(&pick.ties, picked, view.len(), &mut self.desks[view.router()].turns[pick.turn]);
        }
        Some(picked)
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

/// Where the request stays, if the condition for that holds of its instance.
#[inline(never)]
fn stay(when: Option<&Expr>, view: &mut RouterView) -> Decision {
    let here = view.here();
    view.set_candidate(here.unwrap_or(0));
    let stays = when.is_none_or(|when| view.holds(when));
    Decision::of(here.filter(|_| stays))
}

/// To reject the request, if the condition for that holds.
#[inline(never)]
fn reject(when: Option<&Expr>, view: &mut RouterView) -> Decision {
    view.set_candidate(0);
    let rejects = when.is_none_or(|when| view.holds(when));
    if rejects { Decision::Reject } else { Decision::None }
}
