//! Monitors: periodic checks that migrate requests, change the roles of instances, set the sizes of pools, and read gauges.

use serde::{Deserialize, Serialize};

use super::choice::Choice;
use super::expr::Expr;
use super::gauge::Gauge;
use super::rule::Rule;
use super::scale::Scale;
use crate::time::Ticks;

/// A check that runs every so often.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Monitor {
    /// Ticks from one run to the next; the first is one period after the start.
    pub period: Ticks,
    /// Its actions, in order.
    pub actions: Vec<Action>,
}

/// An action of a monitor.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Migrates one request from each source to the target with which it is paired.
    Migrate {
        /// The instances to migrate from; the best source is paired with the best target, and so on.
        source: Choice,
        /// The instances to migrate to.
        target: Choice,
        /// Which of the decoding requests on the source migrates.
        choose: Choice,
        /// A condition on the pair: `here` is the source, `there` the target.
        #[serde(default)]
        when: Option<Expr>,
        /// How its KV is copied while it keeps running; `None`: the request leaves the batch first.
        #[serde(default)]
        live: Option<Live>,
    },
    /// Changes the role of the instance that a rule picks.
    Flip {
        /// The rule, which flips; it is asked about no request.
        rule: Rule,
    },
    /// Sets how many instances a pool has.
    Scale(Box<Scale>),
    /// Reads a number of each instance.
    Gauge(Box<Gauge>),
}

/// Live migration: KV is copied in stages while the request keeps running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Live {
    /// The most copies before the last one.
    pub stages: u32,
    /// The request leaves the batch once the KV that is left to copy fits into so many blocks.
    pub last_blocks: u64,
}

impl Action {
    /// Calls `f` with each expression.
    pub(super) fn visit(&self, f: &mut dyn FnMut(&Expr)) {
        match self {
            Self::Migrate { source, target, choose, when, .. } => {
                for choice in [source, target, choose] {
                    choice.min.iter().chain(&choice.r#where).for_each(&mut *f);
                }
                when.iter().for_each(f);
            }
            Self::Flip { rule } => rule.visit(f),
            Self::Scale(scale) => scale.visit(f),
            Self::Gauge(gauge) => f(&gauge.of),
        }
    }
}
