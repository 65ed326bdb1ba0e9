//! Picks the instance with the fewest outstanding requests or tokens.

use crate::engine::cluster::Cluster;
use crate::policy::Rule;
use crate::time::Ticks;

/// The candidate with the fewest outstanding requests or tokens, by a rule that compares these.
pub(super) fn least_loaded(
    rule: &Rule,
    candidates: impl Iterator<Item = usize>,
    cluster: &Cluster,
    now: Ticks,
) -> Option<usize> {
    match rule {
        Rule::FewestRequests { .. } => candidates.min_by_key(|&i| cluster.outstanding(i)),
        Rule::FewestTokens { .. } => {
            candidates.min_by_key(|&i| cluster.instances()[i].outstanding_tokens(now))
        }
        _ => None,
    }
}
