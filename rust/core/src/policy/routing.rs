//! Rules that route requests to instances.

use serde::Deserialize;

use super::expr::Expr;
use super::fields::{InstField, ReqField};
use super::monitor::{Action, Monitor};

/// The rules that route requests, by the occasion on which each is asked.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Routing {
    /// When a request arrives.
    pub on_arrival: Rule,
    /// When a request has been routed on arrival: picks the instance to which it migrates once its prefill has ended.
    #[serde(default)]
    pub decode_on_arrival: Option<Rule>,
    /// When the prefill of a request has ended.
    #[serde(default)]
    pub on_prefilled: Option<Rule>,
    /// When the reasoning of a request has ended.
    #[serde(default)]
    pub on_answering: Option<Rule>,
    /// Checks that run every so often.
    #[serde(default)]
    pub every: Vec<Monitor>,
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
        /// The roles that the instance may have; `None`: any.
        #[serde(default)]
        within: Option<Vec<u32>>,
    },
    /// The instance with the fewest unfinished requests.
    FewestRequests {
        /// The roles that the instance may have; `None`: any.
        #[serde(default)]
        within: Option<Vec<u32>>,
    },
    /// The instance with the fewest tokens of prompts and of outputs so far, over its unfinished requests.
    FewestTokens {
        /// The roles that the instance may have; `None`: any.
        #[serde(default)]
        within: Option<Vec<u32>>,
    },
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
    /// What another rule picks, if a condition holds; if not, the other rule is not asked.
    When {
        /// The other rule.
        of: Box<Rule>,
        /// The condition, on the cluster and, where there is one, the request.
        when: Expr,
    },
    /// What another rule picks, after the role of that instance has changed.
    Flip(Flip),
    /// What a callback picks.
    Call {
        /// The number of the callback.
        index: usize,
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
}

/// Changes the role of the instance that a rule picks.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flip {
    /// The rule that picks the instance.
    pub of: Box<Rule>,
    /// The pool that the instance is to join.
    pub to: u32,
    /// If fewer instances than this would stay in the pool that the instance leaves, or on the way there, no instance is
    /// picked.
    pub keep: u64,
    /// The moment at which the rule is asked.
    #[serde(skip)]
    pub moment: Moment,
}

/// A moment at which a rule is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Moment {
    /// A request arrives.
    #[default]
    Arrival,
    /// The prefill of a request has ended.
    Prefilled,
    /// The reasoning of a request has ended.
    Answering,
    /// A monitor runs.
    Monitor,
}

impl Rule {
    /// Whether it compares counts that every instance keeps, and evaluates no field.
    #[inline]
    pub(crate) fn counts(&self) -> bool {
        matches!(self, Self::FewestRequests { .. } | Self::FewestTokens { .. })
    }

    /// The roles that the picked instance may have, if a rule that counts or takes turns names them.
    #[inline]
    pub(crate) fn within(&self) -> Option<&[u32]> {
        match self {
            Self::RoundRobin { within, .. }
            | Self::FewestRequests { within }
            | Self::FewestTokens { within } => within.as_deref(),
            _ => None,
        }
    }

    /// Whether each instance that it picks has been flipped.
    pub(crate) fn flips(&self) -> bool {
        match self {
            Self::Flip(_) => true,
            Self::When { of, .. } => of.flips(),
            Self::FirstOf { rules } => rules.iter().all(Self::flips),
            _ => false,
        }
    }

    /// The rules of which it is made.
    fn parts(&self) -> &[Rule] {
        match self {
            Self::FirstOf { rules } => rules,
            Self::Unless { of, .. } | Self::When { of, .. } | Self::Flip(Flip { of, .. }) => {
                std::slice::from_ref(of)
            }
            _ => &[],
        }
    }

    /// The rules of which it is made.
    fn parts_mut(&mut self) -> &mut [Rule] {
        match self {
            Self::FirstOf { rules } => rules,
            Self::Unless { of, .. } | Self::When { of, .. } | Self::Flip(Flip { of, .. }) => {
                std::slice::from_mut(of)
            }
            _ => &mut [],
        }
    }

    /// Calls `f` with it and each rule in it.
    fn each(&self, f: &mut dyn FnMut(&Rule)) {
        f(self);
        self.parts().iter().for_each(|rule| rule.each(f));
    }

    /// Calls `f` with each expression.
    pub(super) fn visit(&self, f: &mut dyn FnMut(&Expr)) {
        match self {
            Self::Pick(pick) => {
                pick.min.iter().chain(&pick.r#where).chain(&pick.accept).for_each(&mut *f);
            }
            Self::Stay { when } => when.iter().for_each(&mut *f),
            Self::Unless { when, .. } | Self::When { when, .. } => f(when),
            _ => {}
        }
        self.parts().iter().for_each(|rule| rule.visit(f));
    }

    /// Numbers the round-robin rules in it, from `turns` on, and tells its flips the moment at which they are asked.
    fn prepare(&mut self, turns: &mut usize, asked: Moment) {
        match self {
            Self::RoundRobin { turn, .. } => {
                *turn = *turns;
                *turns += 1;
            }
            Self::Flip(flip) => flip.moment = asked,
            _ => {}
        }
        self.parts_mut().iter_mut().for_each(|rule| rule.prepare(turns, asked));
    }

    /// Whether a callback may decide, which may read any field.
    fn calls(&self) -> bool {
        matches!(self, Self::Call { .. }) || self.parts().iter().any(Self::calls)
    }
}

impl Routing {
    /// Whether a rule or a monitor may migrate requests.
    pub(crate) fn may_migrate(&self) -> bool {
        self.rules().count() > 1 || !self.every.is_empty()
    }

    /// All rules.
    fn rules(&self) -> impl Iterator<Item = &Rule> {
        let later = [&self.decode_on_arrival, &self.on_prefilled, &self.on_answering];
        std::iter::once(&self.on_arrival).chain(later.into_iter().flatten())
    }

    /// Numbers the round-robin rules, and tells flips their moments. Returns how many round-robin rules there are.
    pub(crate) fn prepare(&mut self) -> usize {
        let mut turns = 0;
        self.on_arrival.prepare(&mut turns, Moment::Arrival);
        for (rule, asked) in [
            (&mut self.decode_on_arrival, Moment::Arrival),
            (&mut self.on_prefilled, Moment::Prefilled),
            (&mut self.on_answering, Moment::Answering),
        ] {
            if let Some(rule) = rule {
                rule.prepare(&mut turns, asked);
            }
        }
        for action in self.every.iter_mut().flat_map(|monitor| &mut monitor.actions) {
            if let Action::Flip { rule } = action {
                rule.prepare(&mut turns, Moment::Monitor);
            }
        }
        turns
    }

    /// Calls `f` with each rule and each rule in it, those of monitors included.
    pub(crate) fn each_rule(&self, f: &mut dyn FnMut(&Rule)) {
        self.rules().for_each(|rule| rule.each(f));
        for action in self.every.iter().flat_map(|monitor| &monitor.actions) {
            if let Action::Flip { rule } = action {
                rule.each(f);
            }
        }
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
        self.rules().for_each(|rule| rule.visit(&mut visit));
        for action in self.every.iter().flat_map(|monitor| &monitor.actions) {
            action.visit(&mut visit);
        }
        found || self.rules().any(Rule::calls)
    }
}
