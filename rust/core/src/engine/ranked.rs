//! The instances that an action of a monitor considers, in order.

use super::cluster::Cluster;
use super::router::{Candidates, RouterView};
use crate::instance::Asking;
use crate::policy::{Choice, Scope, sort_key_now};
use crate::time::Ticks;

/// The instances that a choice considers, the lowest first.
pub(super) fn ranked(choice: &Choice, cluster: &mut Cluster, no_request: &Asking, now: Ticks) -> Vec<usize> {
    let mut view = RouterView::of_pair(cluster, no_request, (0, 0), now);
    let mut found: Vec<(Vec<i64>, usize)> = Vec::new();
    for index in 0..view.instances() {
        view.set_candidate(index);
        if choice.within.as_ref().is_some_and(|roles| !view.has_role(index, roles)) {
            continue;
        }
        if choice.r#where.as_ref().is_some_and(|condition| !view.holds(condition)) {
            continue;
        }
        let keys = choice.min.iter().map(|key| sort_key_now(key, &mut view)).collect();
        found.push((keys, index));
    }
    found.sort_unstable();
    found.into_iter().map(|(_, index)| index).collect()
}
