//! Sets the sizes of pools, as monitors say: instances start and stop.
//!
//! An instance that starts leaves the pool of instances that are off and joins the other one, by the pool of instances on
//! their way there if there is one, which takes the time to start. An instance that stops goes the other way, where a
//! condition lets it finish its requests first. `history` decides how many; here is which.

mod history;

use super::cluster::Cluster;
use super::ranked::ranked;
use super::roles::{Cause, Flipping, Roles};
use super::router::RouterView;
use crate::instance::{Asking, RequestView};
use crate::policy::{Choice, Moment, Scale, holds_now, value_now};
use crate::time::Ticks;
use crate::trace::RequestNumber;
pub(super) use history::History;

/// Sets the size of a pool. If `wanted` is not a number, nothing changes.
pub(super) fn run(scale: &Scale, history: &mut History, cluster: &mut Cluster, now: Ticks) {
    let view = RequestView::arriving(RequestNumber(0), now, cluster.trace());
    let no_request = Asking { view: &view, place: None };
    let mut reader = RouterView::of_pair(cluster, &no_request, (0, 0), now);
    if scale.when.as_ref().is_some_and(|when| !holds_now(when, &mut reader)) {
        return;
    }
    let value = value_now(&scale.wanted, &mut reader);
    let present = cluster.roles().bound_for(scale.pool);
    let Some(size) = history.size(scale, (value, present), now) else { return };
    let changed = if size > present {
        let idle = candidates(&scale.start, cluster, now, |roles, index| roles.of(index) == scale.off);
        flip(&idle, size - present, scale.pool, cluster, now)
    } else {
        let mut several =
            candidates(&scale.stop, cluster, now, |roles, index| roles.destination(index) == scale.pool);
        several.sort_by_key(|&index| cluster.roles().of(index) == scale.pool);
        -flip(&several, present - size, scale.off, cluster, now)
    };
    history.changed(changed, now);
}

/// The instances that may change their pool, the best first.
fn candidates(
    choice: &Choice,
    cluster: &mut Cluster,
    now: Ticks,
    may: impl Fn(&Roles, usize) -> bool,
) -> Vec<usize> {
    let view = RequestView::arriving(RequestNumber(0), now, cluster.trace());
    let mut found = ranked(choice, cluster, &Asking { view: &view, place: None }, now);
    found.retain(|&index| may(cluster.roles(), index));
    found
}

/// Has the first `count` of some instances change their pool. Returns how many there were.
fn flip(several: &[usize], count: u64, to: u32, cluster: &mut Cluster, now: Ticks) -> i64 {
    let count = several.len().min(usize::try_from(count).unwrap_or(usize::MAX));
    for &index in &several[..count] {
        let flipping = Flipping { to, keep: 0, cause: Cause::Rule(Moment::Monitor, None) };
        cluster.flip(index, flipping, now);
    }
    count as i64
}
