//! A rule, which picks an instance for a request.

use serde::{Deserialize, Serialize};

use super::expr::Expr;
use super::fields::ReqField;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize, Serialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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
    pub(super) fn prepare(&mut self, turns: &mut usize, asked: Moment) {
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
    pub(super) fn number_draws(&mut self, seeds: &mut Vec<u64>) {
        if let Self::Pick(Pick { softmax: Some(softmax), .. }) = self {
            softmax.number = seeds.len();
            seeds.push(softmax.seed);
        }
        self.parts_mut().iter_mut().for_each(|rule| rule.number_draws(seeds));
    }

    /// Whether `test` holds of it or of a rule in it.
    pub(super) fn has(&self, test: &dyn Fn(&Self) -> bool) -> bool {
        test(self) || self.parts().iter().any(|rule| rule.has(test))
    }

    /// Whether a callback may decide, which may read any field.
    pub(super) fn calls(&self) -> bool {
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
