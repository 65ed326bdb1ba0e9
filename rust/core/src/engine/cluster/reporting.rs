//! Reports of instances to the routers, and their messages to a relay.

use super::Cluster;
use crate::hint::rare;
use crate::instance::{Asking, RequestView};
use crate::policy::Gauge;
use crate::time::Ticks;
use crate::trace::RequestNumber;

/// Updates of the knowledge of routers.
impl Cluster {
    /// No longer counts, for the router of each, requests that left their instance for good.
    pub(in crate::engine) fn forget_closed(&mut self) {
        if let Some(closed) = &mut self.recorder.closed {
            rare();
            self.known.end(closed, &self.trace);
            closed.clear();
        }
    }

    /// Counts a request on the instance that a rule picked for it.
    pub(in crate::engine) fn count_routed(&mut self, row: usize, index: usize) {
        self.known.route(row, index, &self.trace);
    }

    /// Counts a request that is about to be routed on the instance that a rule picked for its decode.
    pub(in crate::engine) fn count_decode(&mut self, row: usize, index: usize) {
        self.known.route_decode(row, index, &self.trace);
    }

    /// Notes what a gauge has read of some instances, in their order.
    pub(in crate::engine) fn read_gauge(&mut self, gauge: &Gauge, values: &[(usize, f64)], now: Ticks) {
        self.known.read_gauge(gauge, values, now);
    }

    /// Has the instances report their fields to the routers.
    pub(in crate::engine) fn report(&mut self, now: Ticks) {
        if self.trace.is_empty() {
            return;
        }
        self.count_event();
        let happenings = self.happenings();
        let Self { instances, known, trace, recorder, .. } = self;
        let view = RequestView::arriving(RequestNumber(0), now, trace);
        let no_request = Asking { view: &view, place: None };
        known.report((now, happenings), instances.len(), |index, (field, class)| {
            instances[index].effects(trace, recorder).field((field, class), now, &no_request)
        });
    }
}

/// Messages of instances to a relay.
impl Cluster {
    /// Has the instances that are free tell the relay if their counts have changed, by index: before a step, or after the
    /// step with this number. `all`: those that are not free, too, as they step along.
    pub(in crate::engine) fn tell(&mut self, before: bool, step: u64, all: bool, now: Ticks) {
        if self.known.is_relayed(before) {
            self.tell_relay(step, all, now);
        }
    }

    /// See [`Self::tell`].
    #[inline(never)]
    fn tell_relay(&mut self, step: u64, all: bool, now: Ticks) {
        self.sort_free();
        let Self { instances, known, trace, recorder, free, .. } = self;
        let view = RequestView::arriving(RequestNumber(0), now, trace);
        let no_request = Asking { view: &view, place: None };
        for (index, instance) in instances.iter_mut().enumerate() {
            if all || free.binary_search(&index).is_ok() {
                let mut effects = instance.effects(trace, recorder);
                let counts = effects.counts(now);
                known.tell(index, step, counts, |field| effects.field(field, now, &no_request));
            }
        }
    }

    /// Has the relay read what it was told at this moment, and publish it if that is due. Returns whether it published.
    pub(in crate::engine) fn relay(&mut self, now: Ticks) -> bool {
        let publishes = self.known.is_relayed(false) && self.known.read(now);
        if publishes {
            self.report(now);
        }
        publishes
    }

    /// Whether one of these instances has a request that is not finished.
    pub(in crate::engine) fn have_requests(&self, these: &[usize]) -> bool {
        these.iter().any(|&index| self.outstanding[index] > 0)
    }
}
