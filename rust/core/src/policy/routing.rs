//! Rules that route requests to instances.

use serde::Deserialize;

use super::books::BooksConfig;
use super::expr::Expr;
use super::fields::{InstField, ReqField};
use super::monitor::{Action, Monitor};
use crate::error::Error;

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
    /// The books that routers keep of the requests that they route.
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
    /// The pick of the first rule that picks an instance.
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
    /// The pick of another rule, unless a condition holds.
    Unless {
        /// The other rule.
        of: Box<Rule>,
        /// The condition, on `here`, the request's instance, and `there`, the picked one.
        when: Expr,
    },
    /// The pick of another rule, if a condition holds; if not, the other rule is not asked.
    When {
        /// The other rule.
        of: Box<Rule>,
        /// The condition, on the cluster and, where there is one, the request.
        when: Expr,
    },
    /// The pick of another rule, after the role of that instance has changed.
    Flip(Flip),
    /// The pick of a callback.
    Call {
        /// The number of the callback.
        index: usize,
    },
    /// The instance to which the hash of a key assigns the request, by rendezvous hashing; none for a request without
    /// the key.
    Affinity {
        /// The column in which requests with the same instance are equal.
        key: AffinityKey,
        /// The roles that the picked instance may have; `None`: any.
        #[serde(default)]
        within: Option<Vec<u32>>,
    },
    /// Keeps an arriving request at the router.
    Hold {
        /// Which later requests of the router wait behind it.
        #[serde(default)]
        blocks: Blocks,
    },
    /// Rejects an arriving request.
    Reject {
        /// A condition on it; if it does not hold, the request is not rejected, and no instance is picked.
        #[serde(default)]
        when: Option<Expr>,
    },
    /// The owner, in the router's tree of prompts, of the last node that the request's prompt touches.
    Owner {
        /// The share of the prompt that the tree must have; if it has as much or less, no instance is picked.
        above: f64,
        /// The roles of the instances whose prompts the tree has, and of the picked one; `None`: any.
        #[serde(default)]
        within: Option<Vec<u32>>,
    },
}

/// Which later requests of its router wait behind a request that is held, without being asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blocks {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// Those of its tenant.
    Tenant,
    /// Those of its session.
    Session,
}

/// The column in which requests that are routed by affinity are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AffinityKey {
    /// The conversation.
    Session,
    /// The tenant.
    Tenant,
    /// The first so many blocks of the prompt, or all where it has fewer.
    Prefix(u32),
}

/// Which of several instances is picked whose keys are equal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ties {
    /// The first: the lowest index, or the first that was drawn.
    #[default]
    First,
    /// The last.
    Last,
    /// The first from the one after the instance that this rule picked last, around.
    Next,
    /// The first from an instance on that moves by one with each choice, around. It begins as for `Spread`.
    Rotate,
    /// The first from an instance on, around: of n instances, router r of m begins at n r / m.
    Spread,
    /// One of them at random.
    Random,
    /// The instance that is given for the request, by row, if it is among them; else the first.
    Given(Vec<u32>),
}

/// Picks the instance with the lowest keys.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
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
    /// Which of several instances is picked whose keys are equal.
    #[serde(default)]
    pub ties: Ties,
    /// How many instances are drawn at random, of which one is picked; `None`: all are compared.
    #[serde(default)]
    pub among: Option<u32>,
    /// The number of this rule among all rules that remember an instance.
    #[serde(skip)]
    pub turn: usize,
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

impl Pick {
    /// Whether all instances are compared and the lowest index wins ties.
    pub(crate) fn scans(&self) -> bool {
        self.among.is_none() && self.ties == Ties::First
    }
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
    /// Whether the rule picks the instance; if not, it picks none, and the next rule is asked.
    #[serde(default = "yes")]
    pub picks: bool,
    /// The moment at which the rule is asked.
    #[serde(skip)]
    pub moment: Moment,
}

/// The default of a flag.
const fn yes() -> bool {
    true
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
    pub(crate) fn counts(&self) -> bool {
        matches!(self, Self::FewestRequests { .. } | Self::FewestTokens { .. })
    }

    /// The roles that the picked instance may have, if a rule that counts or takes turns names them.
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
    pub(super) fn each(&self, f: &mut dyn FnMut(&Rule)) {
        f(self);
        self.parts().iter().for_each(|rule| rule.each(f));
    }

    /// Calls `f` with each expression.
    pub(super) fn visit(&self, f: &mut dyn FnMut(&Expr)) {
        match self {
            Self::Pick(pick) => {
                pick.min.iter().chain(&pick.r#where).chain(&pick.accept).for_each(&mut *f);
            }
            Self::Stay { when } | Self::Reject { when } => when.iter().for_each(&mut *f),
            Self::Unless { when, .. } | Self::When { when, .. } => f(when),
            _ => {}
        }
        self.parts().iter().for_each(|rule| rule.visit(f));
    }

    /// Numbers the rules in it that remember an instance, from `turns` on, and tells its flips the moment at which they
    /// are asked.
    fn prepare(&mut self, turns: &mut usize, asked: Moment) {
        match self {
            Self::RoundRobin { turn, .. } => {
                *turn = *turns;
                *turns += 1;
            }
            Self::Flip(flip) => flip.moment = asked,
            Self::Pick(pick) => {
                pick.turn = *turns;
                *turns += 1;
            }
            _ => {}
        }
        self.parts_mut().iter_mut().for_each(|rule| rule.prepare(turns, asked));
    }

    /// Numbers the picks in it that draw, and adds their seeds to `seeds`.
    fn number_draws(&mut self, seeds: &mut Vec<u64>) {
        if let Self::Pick(Pick { softmax: Some(softmax), .. }) = self {
            softmax.number = seeds.len();
            seeds.push(softmax.seed);
        }
        self.parts_mut().iter_mut().for_each(|rule| rule.number_draws(seeds));
    }

    /// Whether `test` holds of it or of a rule in it.
    fn has(&self, test: &dyn Fn(&Self) -> bool) -> bool {
        test(self) || self.parts().iter().any(|rule| rule.has(test))
    }

    /// Whether a callback may decide, which may read any field.
    fn calls(&self) -> bool {
        self.has(&|rule| matches!(rule, Self::Call { .. }))
    }

    /// Whether it reads for how long a request that arrives, or is held, has waited.
    pub(crate) fn reads_passing_time(&self) -> bool {
        let passes = |field| matches!(field, ReqField::AgeS | ReqField::WaitingS);
        let mut found = false;
        self.visit(&mut |expr: &Expr| found |= expr.looks_at_request(&passes));
        found
    }

    /// Whether it may keep a request at the router.
    pub(crate) fn holds(&self) -> bool {
        self.has(&|rule| matches!(rule, Self::Hold { .. }))
    }

    /// Whether it may reject a request.
    pub(crate) fn rejects(&self) -> bool {
        self.has(&|rule| matches!(rule, Self::Reject { .. }))
    }
}

impl Routing {
    /// Whether a rule or a monitor may migrate requests.
    pub(crate) fn may_migrate(&self) -> bool {
        self.rules().count() > 1 || !self.every.is_empty()
    }

    /// Whether requests are sent as they arrive, or rejected, and no more: no rule or monitor holds or migrates one, or
    /// changes a role.
    pub(crate) fn only_sends(&self) -> bool {
        let other = |rule: &Rule| matches!(rule, Rule::Hold { .. } | Rule::Flip(_));
        !self.may_migrate() && !self.on_arrival.has(&other)
    }

    /// All rules.
    fn rules(&self) -> impl Iterator<Item = &Rule> {
        let later = [&self.decode_on_arrival, &self.on_prefilled, &self.on_answering];
        std::iter::once(&self.on_arrival).chain(later.into_iter().flatten())
    }

    /// Numbers the rules that remember an instance, and tells flips their moments.
    pub(crate) fn prepare(&mut self) {
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
    }

    /// Whether a rule is asked again about requests, for which steps must show when prefills end.
    pub(crate) fn holds(&self) -> bool {
        self.on_arrival.holds()
    }

    /// Calls `f` with each instance field that a rule or monitor reads or that is watched, and the class; callbacks read
    /// `shown`.
    pub(crate) fn visit_instance_fields(&self, shown: &[InstField], f: &mut dyn FnMut(InstField, u32)) {
        for rule in self.rules() {
            rule.visit(&mut |expr| expr.visit_instance_fields(f));
            if rule.has(&|rule| matches!(rule, Rule::FewestRequests { .. })) {
                f(InstField::Requests, 0);
            }
            if rule.has(&|rule| matches!(rule, Rule::FewestTokens { .. })) {
                f(InstField::OutstandingTokens, 0);
            }
            if rule.calls() {
                for &field in shown {
                    f(field, 0);
                }
            }
        }
        for action in self.every.iter().flat_map(|monitor| &monitor.actions) {
            action.visit(&mut |expr| expr.visit_instance_fields(f));
        }
        if let Some(watch) = &self.watch {
            watch.visit_instance_fields(f);
        }
    }

    /// Calls `f` with the number of each rule that remembers an instance, and where its ties go.
    pub(crate) fn visit_turns(&self, f: &mut dyn FnMut(usize, Option<&Ties>)) {
        self.each_rule(&mut |rule| match rule {
            Rule::RoundRobin { turn, .. } => f(*turn, None),
            Rule::Pick(pick) => f(pick.turn, Some(&pick.ties)),
            _ => {}
        });
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

    /// The pools that rules name which ask for the owner of a prompt; `None`: all instances.
    pub(crate) fn prompt_pools(&self) -> Vec<Option<Vec<u32>>> {
        let mut pools = Vec::new();
        self.each_rule(&mut |rule| {
            if let Rule::Owner { within, .. } = rule
                && !pools.contains(within)
            {
                pools.push(within.clone());
            }
        });
        pools
    }

    /// Numbers the picks that draw. Returns their seeds.
    pub(crate) fn number_draws(&mut self) -> Vec<u64> {
        let mut seeds = Vec::new();
        self.on_arrival.number_draws(&mut seeds);
        let later = [&mut self.decode_on_arrival, &mut self.on_prefilled, &mut self.on_answering];
        later.into_iter().flatten().for_each(|rule| rule.number_draws(&mut seeds));
        for action in self.every.iter_mut().flat_map(|monitor| &mut monitor.actions) {
            if let Action::Flip { rule } = action {
                rule.number_draws(&mut seeds);
            }
        }
        seeds
    }

    /// Refuses rules that read what routers do not keep, monitors that read what routers keep, and books and picks with
    /// numbers out of range.
    pub(crate) fn check_books(&self) -> Result<(), Error> {
        let rules = || self.rules();
        let mut read: Vec<InstField> = Vec::new();
        rules().for_each(|rule| {
            rule.visit(&mut |expr| expr.visit_instance_fields(&mut |field, _| read.push(field)));
        });
        let missing = read.into_iter().find(|field| match field {
            InstField::IndexBlocks | InstField::IndexTokens => self.books.index.is_none(),
            InstField::ActiveBlocks | InstField::ActiveNewBlocks | InstField::ActivePrefillTokens => {
                self.books.active.is_none()
            }
            _ => false,
        });
        if let Some(field) = missing {
            return Err(Error::config(
                "routing.books",
                format!("must have what rules read, lacked {field:?}"),
            ));
        }
        if self.books.tree.is_none()
            && rules().any(|rule| rule.has(&|rule| matches!(rule, Rule::Owner { .. })))
        {
            return Err(Error::config(
                "routing.books.tree",
                "must be given for a rule that asks for an owner",
            ));
        }
        let mut monitored = false;
        for action in self.every.iter().flat_map(|monitor| &monitor.actions) {
            action.visit(&mut |expr| monitored |= expr.looks_at(&InstField::is_booked));
        }
        if monitored {
            return Err(Error::config("routing.every", "must not read what routers keep in books"));
        }
        let mut error = self.books.check();
        rules().for_each(|rule| {
            rule.has(&|rule| {
                let Rule::Pick(Pick { softmax: Some(softmax), min, .. }) = rule else { return false };
                !(softmax.temperature >= 0.0 && softmax.temperature.is_finite()) || min.len() != 1
            })
            .then(|| {
                let rule = "must have a temperature of 0 or more that is finite, and a single key";
                error = Err(Error::config("routing.softmax", rule));
            });
        });
        error
    }

    /// Whether a rule or monitor reads a request field for which `test` holds.
    pub(crate) fn looks_at_request(&self, test: &dyn Fn(ReqField) -> bool) -> bool {
        self.any(&|expr| expr.looks_at_request(test))
    }

    /// Whether a rule or monitor reads an instance field for which `test` holds, or it is watched.
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
        self.watch.iter().for_each(visit);
        found || self.rules().any(Rule::calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_watched_is_read() {
        let json = r#"{"on_arrival": {"rule": "fewest_requests"}, "watch": {"field": "inst.kv_usage"}}"#;
        let routing: Routing = serde_json::from_str(json).unwrap();
        assert!(routing.looks_at(&|field| field == InstField::KvUsage));
        assert!(!routing.looks_at(&|field| field == InstField::Swapped));
        let mut read = Vec::new();
        routing.visit_instance_fields(&[], &mut |field, _| read.push(field));
        assert_eq!(read, [InstField::Requests, InstField::KvUsage]);
    }
}
