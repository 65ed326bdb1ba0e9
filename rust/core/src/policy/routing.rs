//! Rules that say where a request goes.

use serde::Deserialize;

use super::expr::Expr;
use super::fields::{InstField, ReqField};
use crate::time::Ticks;

/// Where requests go, and when that is asked.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Routing {
    /// When one arrives.
    pub on_arrival: Rule,
    /// When its prompt is through.
    #[serde(default)]
    pub on_prefilled: Option<Rule>,
    /// When its reasoning has ended.
    #[serde(default)]
    pub on_answering: Option<Rule>,
    /// What is looked at every so often.
    #[serde(default)]
    pub every: Vec<Monitor>,
}

/// A rule: it gives an instance, or nobody.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case", deny_unknown_fields)]
pub enum Rule {
    /// The one after whom this rule picked last.
    RoundRobin {
        /// Which of the rules that take turns this is.
        #[serde(skip)]
        turn: usize,
    },
    /// The fewest requests sent there and not finished.
    FewestRequests,
    /// The fewest tokens, over those requests, of prompt and of output so far.
    FewestTokens,
    /// The best of those that may be picked.
    Pick(Pick),
    /// The first that gives somebody.
    FirstOf {
        /// The rules, in order.
        rules: Vec<Rule>,
    },
    /// The instance that the request is on.
    Stay {
        /// If this holds of it.
        #[serde(default)]
        when: Option<Expr>,
    },
    /// What another gives, unless a condition holds of it.
    Unless {
        /// The other.
        of: Box<Rule>,
        /// Of `here`, where the request is, and `there`, which was picked.
        when: Expr,
    },
    /// Whoever is called says it.
    Call {
        /// Which of the callables.
        index: usize,
    },
}

/// Picks the lowest, by the first of `min` in which two differ, then by index.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pick {
    /// What to compare by.
    pub min: Vec<Expr>,
    /// Who may be picked.
    #[serde(default)]
    pub r#where: Option<Expr>,
    /// What must hold of who was picked; else nobody is.
    #[serde(default)]
    pub accept: Option<Expr>,
    /// The roles of those who may be picked.
    #[serde(default)]
    pub within: Option<Vec<u32>>,
}

/// Something that is looked at every so often.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Monitor {
    /// How often.
    pub period: Ticks,
    /// What is done, in order.
    pub actions: Vec<Action>,
}

/// What a monitor does.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Moves one request from each source to the target it is paired with.
    Migrate {
        /// Instances to relieve, the first to be paired first.
        source: Choice,
        /// Instances to take them, likewise.
        target: Choice,
        /// Which request goes.
        choose: Choice,
        /// What must hold of a pair: `here` is the source, `there` the target.
        #[serde(default)]
        when: Option<Expr>,
        /// Whether it goes on running while its memory is copied.
        #[serde(default)]
        live: Option<Live>,
    },
}

/// Those for which a condition holds, the lowest first.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// What to compare by.
    pub min: Vec<Expr>,
    /// Who is considered.
    #[serde(default)]
    pub r#where: Option<Expr>,
    /// The roles of those who are, of instances.
    #[serde(default)]
    pub within: Option<Vec<u32>>,
}

/// Copying in stages while the request goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Live {
    /// The most copies before the last.
    pub stages: u32,
    /// It leaves once what is left to copy fits into so many blocks.
    pub last_blocks: u64,
}

impl Rule {
    /// Whether it goes by what instances have, and looks at no field.
    #[inline]
    pub(crate) fn counts(&self) -> bool {
        matches!(self, Self::FewestRequests | Self::FewestTokens)
    }

    /// Calls `look` with each expression.
    fn visit(&self, look: &mut dyn FnMut(&Expr)) {
        match self {
            Self::RoundRobin { .. } | Self::FewestRequests | Self::FewestTokens | Self::Call { .. } => {}
            Self::Pick(pick) => {
                pick.min.iter().chain(&pick.r#where).chain(&pick.accept).for_each(look);
            }
            Self::FirstOf { rules } => rules.iter().for_each(|rule| rule.visit(look)),
            Self::Stay { when } => when.iter().for_each(look),
            Self::Unless { of, when } => {
                of.visit(look);
                look(when);
            }
        }
    }

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

    /// Whether it hands the decision to a callable, which may look at anything.
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
    /// Numbers the rules that take turns. Returns how many there are.
    pub(crate) fn number_turns(&mut self) -> usize {
        let rules = [Some(&mut self.on_arrival), self.on_prefilled.as_mut(), self.on_answering.as_mut()];
        let mut turns = 0;
        rules.into_iter().flatten().for_each(|rule| rule.number_turns(&mut turns));
        turns
    }

    /// Whether anything here looks at a field of a request for which `test` holds.
    pub(crate) fn looks_at_request(&self, test: &dyn Fn(ReqField) -> bool) -> bool {
        self.any(&|expr| expr.looks_at_request(test))
    }

    /// Whether anything here looks at a field of an instance for which `test` holds.
    pub(crate) fn looks_at(&self, test: &dyn Fn(InstField) -> bool) -> bool {
        self.any(&|expr| expr.looks_at(test))
    }

    /// Whether `test` holds of an expression here, or a callable may look at anything.
    fn any(&self, test: &dyn Fn(&Expr) -> bool) -> bool {
        let mut found = false;
        let mut look = |expr: &Expr| found |= test(expr);
        let rules = || std::iter::once(&self.on_arrival).chain(&self.on_prefilled).chain(&self.on_answering);
        rules().for_each(|rule| rule.visit(&mut look));
        for action in self.every.iter().flat_map(|monitor| &monitor.actions) {
            let Action::Migrate { source, target, choose, when, .. } = action;
            for choice in [source, target, choose] {
                choice.min.iter().chain(&choice.r#where).for_each(&mut look);
            }
            when.iter().for_each(&mut look);
        }
        found || rules().any(Rule::calls)
    }
}
