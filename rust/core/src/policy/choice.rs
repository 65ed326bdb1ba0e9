//! A choice among instances or requests.

use serde::Deserialize;

use super::expr::Expr;

/// The candidates for which a condition holds, the lowest first.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The keys to compare by.
    pub min: Vec<Expr>,
    /// The condition for a candidate.
    #[serde(default)]
    pub r#where: Option<Expr>,
    /// The roles that a candidate may have, if candidates are instances.
    #[serde(default)]
    pub within: Option<Vec<u32>>,
}
