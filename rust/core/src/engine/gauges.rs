//! Reads gauges: monitors note a number of each instance, and see what it was in the latest runs.

use super::cluster::Cluster;
use super::router::{Candidates, RouterView};
use crate::instance::{Asking, RequestView};
use crate::policy::{Gauge, value_now};
use crate::time::Ticks;
use crate::trace::RequestNumber;

/// Notes the number of each instance that has one of the roles; the others lose what was noted of them.
pub(super) fn run(gauge: &Gauge, cluster: &mut Cluster, now: Ticks) {
    let view = RequestView::arriving(RequestNumber(0), now, cluster.trace());
    let no_request = Asking { view: &view, place: None };
    let mut members = Vec::new();
    let mut reader = RouterView::of_pair(cluster, &no_request, (0, 0), now);
    reader.members(gauge.within.as_deref(), &mut members);
    let values: Vec<(usize, f64)> = members
        .into_iter()
        .map(|index| {
            reader.set_candidate(index);
            (index, value_now(&gauge.of, &mut reader))
        })
        .collect();
    cluster.read_gauge(gauge, &values, now);
}
