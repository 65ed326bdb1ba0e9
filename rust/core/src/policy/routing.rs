//! Rules that route requests to instances.

use serde::Deserialize;

use super::books::BooksConfig;
use super::expr::Expr;
use super::fields::{InstField, ReqField};
use super::monitor::Monitor;

/// The rules that route requests, by the occasion on which each is asked.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Routing {
    /// When a request arrives.
    pub on_arrival: Rule,
    /// When the prefill of a request has ended.
    #[serde(default)]
    pub on_prefilled: Option<Rule>,
    /// When the reasoning of a request has ended.
    #[serde(default)]
    pub on_answering: Option<Rule>,
    /// Checks that run every so often.
    #[serde(default)]
    pub every: Vec<Monitor>,
    /// What routers keep of the requests that they route.
    #[serde(default)]
    pub books: BooksConfig,
    /// A number of each instance that is recorded for each request as it is routed on arrival.
    #[serde(default)]
    pub watch: Option<Expr>,
}

/// A rule: it picks an instance, or none.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case", deny_unknown_fields)]
pub enum Rule {
    /// The instance after the one that this rule picked last.
    RoundRobin {
        /// The number of this rule among all rules of this kind.
        #[serde(skip)]
        turn: usize,
    },
    /// The instance with the fewest unfinished requests.
    FewestRequests,
    /// The instance with the fewest tokens of prompts and of outputs so far, over its unfinished requests.
    FewestTokens,
    /// The instance with the lowest keys among those that may be picked.
    Pick(Pick),
    /// What the first rule picks that picks an instance.
    FirstOf {
        /// The rules, in order.
        rules: Vec<Rule>,
    },
    /// The instance that the request is on.
    Stay {
        /// A condition on it; if it does not hold, no instance is picked.
        #[serde(default)]
        when: Option<Expr>,
    },
    /// What another rule picks, unless a condition holds.
    Unless {
        /// The other rule.
        of: Box<Rule>,
        /// The condition, on `here`, the request's instance, and `there`, the picked one.
        when: Expr,
    },
    /// What a callback picks.
    Call {
        /// The number of the callback.
        index: usize,
    },
    /// The owner, in the router's tree of prompts, of the last node that the request's prompt touches.
    Owner {
        /// The share of the prompt that the tree must have; if it has as much or less, no instance is picked.
        above: f64,
    },
}

/// Picks the instance with the lowest keys. Ties go to the lowest index.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pick {
    /// The keys: instances are compared by the first one in which they differ.
    pub min: Vec<Expr>,
    /// A condition on the instances that may be picked.
    #[serde(default)]
    pub r#where: Option<Expr>,
    /// A condition on the picked instance; if it does not hold, no instance is picked.
    #[serde(default)]
    pub accept: Option<Expr>,
    /// The roles that the picked instance may have; `None`: any.
    #[serde(default)]
    pub within: Option<Vec<u32>>,
    /// Draws the instance instead, the lower its first key the likelier.
    #[serde(default)]
    pub softmax: Option<Softmax>,
}

/// A random choice by a key. An instance with key `x` has the weight `exp(-(x - min) / ((max - min) temperature))`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Softmax {
    /// How much the key matters: the lower, the more.
    pub temperature: f64,
    /// The seed of the draws.
    pub seed: u64,
    /// The number of this pick among all that draw.
    #[serde(skip)]
    pub number: usize,
}

impl Rule {
    /// Whether it compares counts that every instance keeps, and evaluates no field.
    #[inline]
    pub(crate) fn counts(&self) -> bool {
        matches!(self, Self::FewestRequests | Self::FewestTokens)
    }

    /// Calls `f` with each expression.
    fn visit(&self, f: &mut dyn FnMut(&Expr)) {
        match self {
            Self::RoundRobin { .. }
            | Self::FewestRequests
            | Self::FewestTokens
            | Self::Call { .. }
            | Self::Owner { .. } => {}
            Self::Pick(pick) => {
                pick.min.iter().chain(&pick.r#where).chain(&pick.accept).for_each(f);
            }
            Self::FirstOf { rules } => rules.iter().for_each(|rule| rule.visit(f)),
            Self::Stay { when } => when.iter().for_each(f),
            Self::Unless { of, when } => {
                of.visit(f);
                f(when);
            }
        }
    }

    /// Numbers the round-robin rules in it, from `turns` on.
    fn number_turns(&mut self, turns: &mut usize) {
        match self {
            Self::RoundRobin { turn } => {
                *turn = *turns;
                *turns += 1;
            }
            Self::FirstOf { rules } => rules.iter_mut().for_each(|rule| rule.number_turns(turns)),
            Self::Unless { of, .. } => of.number_turns(turns),
            _ => {}
        }
    }

    /// Numbers the picks in it that draw, and adds their seeds to `seeds`.
    fn number_draws(&mut self, seeds: &mut Vec<u64>) {
        match self {
            Self::Pick(Pick { softmax: Some(softmax), .. }) => {
                softmax.number = seeds.len();
                seeds.push(softmax.seed);
            }
            Self::FirstOf { rules } => rules.iter_mut().for_each(|rule| rule.number_draws(seeds)),
            Self::Unless { of, .. } => of.number_draws(seeds),
            _ => {}
        }
    }

    /// Whether a callback may decide, which may read any field.
    fn calls(&self) -> bool {
        match self {
            Self::Call { .. } => true,
            Self::FirstOf { rules } => rules.iter().any(Self::calls),
            Self::Unless { of, .. } => of.calls(),
            _ => false,
        }
    }
}

impl Routing {
    /// Whether a rule or a monitor may migrate requests.
    pub(crate) fn may_migrate(&self) -> bool {
        self.on_prefilled.is_some() || self.on_answering.is_some() || !self.every.is_empty()
    }

    /// Numbers the round-robin rules. Returns how many there are.
    pub(crate) fn number_turns(&mut self) -> usize {
        let rules = [Some(&mut self.on_arrival), self.on_prefilled.as_mut(), self.on_answering.as_mut()];
        let mut turns = 0;
        rules.into_iter().flatten().for_each(|rule| rule.number_turns(&mut turns));
        turns
    }

    /// Numbers the picks that draw. Returns their seeds.
    pub(crate) fn number_draws(&mut self) -> Vec<u64> {
        let rules = [Some(&mut self.on_arrival), self.on_prefilled.as_mut(), self.on_answering.as_mut()];
        let mut seeds = Vec::new();
        rules.into_iter().flatten().for_each(|rule| rule.number_draws(&mut seeds));
        seeds
    }

    /// Whether a rule or monitor reads a request field for which `test` holds.
    pub(crate) fn looks_at_request(&self, test: &dyn Fn(ReqField) -> bool) -> bool {
        self.any(&|expr| expr.looks_at_request(test))
    }

    /// Whether a rule or monitor reads an instance field for which `test` holds.
    pub(crate) fn looks_at(&self, test: &dyn Fn(InstField) -> bool) -> bool {
        self.any(&|expr| expr.looks_at(test))
    }

    /// Whether `test` holds of an expression in it, or a callback may read any field.
    fn any(&self, test: &dyn Fn(&Expr) -> bool) -> bool {
        let mut found = false;
        let mut visit = |expr: &Expr| found |= test(expr);
        let rules = || std::iter::once(&self.on_arrival).chain(&self.on_prefilled).chain(&self.on_answering);
        rules().for_each(|rule| rule.visit(&mut visit));
        for action in self.every.iter().flat_map(|monitor| &monitor.actions) {
            action.visit(&mut visit);
        }
        found || rules().any(Rule::calls)
    }
}
