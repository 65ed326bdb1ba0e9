//! How an instance ranks requests.

use serde::Deserialize;

use super::accumulator::Accumulator;
use crate::policy::Expr;
use crate::time::Ticks;

/// How requests are ranked: by class, then by the keys of the class, then by row.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ranking {
    /// The classes, the best first.
    pub classes: Vec<Class>,
    /// Tokens in a quantum; 0: there are no quanta.
    #[serde(default)]
    pub quantum: u32,
    /// Levels with a quantum of time each; `None`: there are none.
    #[serde(default)]
    pub levels: Option<Levels>,
    /// When the keys of a request are evaluated again although nothing happened to the request.
    #[serde(default)]
    pub refresh: Refresh,
    /// Numbers by group of requests that keys may read.
    #[serde(default)]
    pub accumulators: Vec<Accumulator>,
    /// The condition on the accumulators of a request's group for the request to be admitted; `None`: there is none.
    #[serde(default)]
    pub admits: Option<Expr>,
}

impl Ranking {
    /// All expressions: the conditions and the keys of every class.
    pub(crate) fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let of_levels =
            self.levels.iter().flat_map(|levels| [&levels.entry].into_iter().chain(&levels.promote));
        self.classes.iter().flat_map(|class| class.when.iter().chain(&class.keys)).chain(of_levels)
    }

    /// Whether keys or admissions read accumulators.
    pub(crate) fn reads_accumulators(&self) -> bool {
        self.admits.is_some()
            || self.classes.iter().flat_map(|class| &class.keys).any(Expr::reads_accumulators)
    }
}

/// Levels through which a request sinks as it runs. Level `n` has a quantum of `2^n` times the first one.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Levels {
    /// Ticks of the first level's quantum.
    pub first: Ticks,
    /// The level at which a request enters, rounded down.
    pub entry: Expr,
    /// The condition on which a request that does not run goes to the first level; `None`: never.
    #[serde(default)]
    pub promote: Option<Expr>,
    /// The number of steps of the instance after which this condition is looked at; 0: never.
    pub every: u64,
}

/// The last level.
pub(crate) const LAST_LEVEL: u32 = 63;

impl Levels {
    /// Ticks of the quantum of a level.
    pub(crate) fn quantum(&self, level: u32) -> Ticks {
        self.first.saturating_mul(1 << level)
    }
}

/// Requests that rank before those of later classes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// The condition for a request that no earlier class has; `None`: every such request is in this class.
    #[serde(default)]
    pub when: Option<Expr>,
    /// Tokens that a request must generate in the class before it may leave it; 0: none.
    #[serde(default)]
    pub hold: u32,
    /// Steps that must run a request in the class before it may leave it; 0: none.
    #[serde(default)]
    pub hold_steps: u32,
    /// The keys that rank the requests of this class, the smallest first.
    pub keys: Vec<Expr>,
}

/// How often keys are evaluated again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refresh {
    /// Every so many steps of the instance; 0: never.
    pub steps: u64,
    /// At the first step at or after each multiple of so many ticks; 0: never.
    pub ticks: Ticks,
}

impl Refresh {
    /// Whether keys are evaluated again only at these moments.
    pub(crate) fn is_set(self) -> bool {
        self.steps > 0 || self.ticks > 0
    }
}
