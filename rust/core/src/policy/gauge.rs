//! A number of each instance over time: an action of monitors.

use serde::Deserialize;

use super::expr::Expr;
use crate::time::Ticks;

/// Reads a number of each instance, for its largest, smallest or mean value in the latest runs of the monitor.
///
/// Monitors read the value, as of the latest run, as the field `inst.gauge`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gauge {
    /// Its number among the gauges of the policy.
    pub index: u32,
    /// The number that is read, of the candidate.
    pub of: Expr,
    /// The roles of the instances that it reads; one with another role has no values. `None`: all instances.
    #[serde(default)]
    pub within: Option<Vec<u32>>,
    /// The ticks for which a value counts; 0: only the one of the latest run.
    #[serde(default)]
    pub window: Ticks,
    /// How the values become one.
    pub take: Take,
}

/// How the values of a gauge become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Take {
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// The mean.
    Mean,
}
