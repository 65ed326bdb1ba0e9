//! Picks the instance with the fewest outstanding requests or tokens.

use crate::engine::cluster::Cluster;
use crate::instance::Instance;
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
        Rule::FewestTokens { .. } => fewest_tokens(cluster.instances(), candidates, now),
        _ => None,
    }
}

/// The candidate with the fewest outstanding tokens. The tokens at the start of an instance's run are a lower bound,
/// which in most cases settles the comparison without computing how far the run is.
fn fewest_tokens(
    instances: &[Instance],
    candidates: impl Iterator<Item = usize>,
    now: Ticks,
) -> Option<usize> {
    let mut fewest = None;
    for i in candidates {
        if fewest.is_some_and(|(_, tokens)| instances[i].outstanding_tokens_at_least() >= tokens) {
            continue;
        }
        let tokens = instances[i].outstanding_tokens(now);
        if fewest.is_none_or(|(_, least)| tokens < least) {
            fewest = Some((i, tokens));
        }
    }
    fewest.map(|(i, _)| i)
}
