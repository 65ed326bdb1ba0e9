//! Ranks of requests that arrive: a request gets its slot when it is admitted, if its rank depends on the trace and on time
//! only.

use super::Ranks;
use crate::instance::ranking::BestQueued;
use crate::instance::request::Slot;
use crate::time::Ticks;
use crate::trace::RequestNumber;

impl Ranks<'_> {
    /// Whether requests that arrive are kept without a slot.
    pub(in crate::instance) fn keep_arrivals(&self) -> bool {
        let settings = self.reader.settings;
        let passes_over = settings.scheduler.joining.passes_over();
        self.ranking.keeps_arrivals() && !settings.selects && !passes_over
    }

    /// Adds a request that arrives, without a slot. Returns whether it is the best queued one.
    pub(in crate::instance) fn add_arrival(&mut self, request: RequestNumber, now: Ticks) -> bool {
        let mut view = self.reader.arrival(request, now, now, self.trace);
        self.ranking.add_arrival(&mut view, self.trace);
        self.is_next(BestQueued::Arrival(request))
    }

    /// Admits the best queued request, which had no slot and gets this one.
    pub(in crate::instance) fn admit_arrival(&mut self, slot: Slot, now: Ticks) {
        let steps = self.steps();
        let changes = self.ranking.admit_arrival(slot, now, steps);
        if !(changes && self.evaluate_behind(slot, now, None, true)) {
            self.ranking.place(slot);
        }
        self.refresh_arrivals(now);
    }

    /// Evaluates the ranks that may have changed by `now` of requests without a slot.
    #[inline(never)]
    pub(super) fn refresh_arrivals(&mut self, now: Ticks) {
        while let Some((id, arrival)) = self.ranking.due_arrival(now) {
            let mut view = self.reader.arrival(arrival.request, arrival.came, now, self.trace);
            self.ranking.evaluate_arrival(id, &mut view, self.trace);
        }
    }
}
