//! How many instances a pool is to have: an action of monitors.

use serde::Deserialize;

use super::choice::Choice;
use super::expr::Expr;
use crate::time::Ticks;

/// Sets the size of a pool to the value of an expression, by instances of another pool.
///
/// The size counts the instances in the pool and on their way there.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// The pool.
    pub pool: u32,
    /// The pool from which instances come, and which they join when they leave.
    pub off: u32,
    /// The size that is wanted, which is rounded up.
    pub wanted: Expr,
    /// A condition without which nothing is read and nothing changes.
    #[serde(default)]
    pub when: Option<Expr>,
    /// The least size.
    pub least: u64,
    /// The largest size; `None`: all instances of both pools.
    #[serde(default)]
    pub most: Option<u64>,
    /// The ticks over which `wanted` is averaged; 0: its present value counts.
    #[serde(default)]
    pub averaged: Ticks,
    /// When and how fast the pool grows.
    #[serde(default)]
    pub up: ScalingRules,
    /// When and how fast it shrinks.
    #[serde(default)]
    pub down: ScalingRules,
    /// Which instances of `off` are taken first.
    pub start: Choice,
    /// Which instances of the pool leave first, after those that are on their way to it.
    pub stop: Choice,
}

/// When and how fast a pool changes its size in one direction.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScalingRules {
    /// The ticks in which every size that was wanted has to agree; 0: the present one decides.
    pub window: Ticks,
    /// The most by which the size changes; without any there is no limit.
    pub limits: Vec<ScalingLimit>,
    /// Which of several limits holds.
    pub select: Select,
}

/// The most by which a size changes within some ticks.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScalingLimit {
    /// The ticks.
    pub per: Ticks,
    /// The most.
    pub by: Amount,
}

/// An amount of instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// This many.
    Instances(u64),
    /// This many in a hundred of those at the beginning of the time.
    Percent(u64),
}

/// Which of several limits holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Select {
    /// The one that allows the largest change.
    #[default]
    Most,
    /// The one that allows the smallest.
    Least,
}

impl Scale {
    /// Calls `f` with each expression.
    pub(super) fn visit(&self, f: &mut dyn FnMut(&Expr)) {
        f(&self.wanted);
        self.when.iter().for_each(&mut *f);
        for choice in [&self.start, &self.stop] {
            choice.min.iter().chain(&choice.r#where).for_each(&mut *f);
        }
    }

    /// Its rules for both directions, by name.
    pub(crate) fn rules(&self) -> [(&'static str, &ScalingRules); 2] {
        [("up", &self.up), ("down", &self.down)]
    }

    /// The longest time of which it reads anything.
    pub(crate) fn memory(&self) -> Ticks {
        let rules = self.rules().into_iter().flat_map(|(_, rules)| {
            rules.limits.iter().map(|limit| limit.per).chain(std::iter::once(rules.window))
        });
        rules.fold(self.averaged, Ticks::max)
    }
}
