//! Ranking requests that arrive.
//!
//! A request that has arrived gets its slot when it is admitted, if its rank depends on the trace and on time only.

use crate::instance::Instance;
use crate::instance::ranking::{BestQueued, Ranking};
use crate::instance::request::Slot;
use crate::time::Ticks;
use crate::trace::Trace;

impl Instance {
    /// Adds a new request to the ranking. Returns whether it is the best queued one.
    #[inline(never)]
    pub(in crate::instance) fn rank_arrival(&mut self, request: u32, now: Ticks, trace: &Trace) -> bool {
        let keeps = self.ranking.as_deref().is_some_and(Ranking::keeps_arrivals) && !self.settings.selects;
        if keeps {
            self.add_arrival(request, now, trace);
            let best = self.ranking.as_deref().and_then(Ranking::best_queued);
            return best == Some(BestQueued::Arrival(request));
        }
        let slot = self.add_request(request, trace);
        self.queue_in_ranking(slot, now, 0, trace)
    }

    /// Adds a request to the ranking without a slot.
    fn add_arrival(&mut self, request: u32, now: Ticks, trace: &Trace) {
        let mut view = self.view_of_arrival(request, now, now, trace);
        if let Some(ranking) = &mut self.ranking {
            ranking.add_arrival(&mut view, trace);
        }
    }

    /// Admits the best queued request, which had no slot and gets this one, in the ranking.
    pub(super) fn admit_arrival(&mut self, slot: Slot, now: Ticks, trace: &Trace) {
        let steps = self.observers.stats.steps;
        let Some(ranking) = &mut self.ranking else { return };
        let changes = ranking.admit_arrival(slot, now, steps);
        if !(changes && self.evaluate_behind(slot, now, None, true, trace))
            && let Some(ranking) = &mut self.ranking
        {
            ranking.place(slot);
        }
        self.refresh_arrivals(now, trace);
    }

    /// Evaluates the ranks that may have changed by `now` of requests without a slot.
    #[inline(never)]
    pub(super) fn refresh_arrivals(&mut self, now: Ticks, trace: &Trace) {
        while let Some((id, arrival)) = self.ranking.as_deref().and_then(|ranking| ranking.due_arrival(now)) {
            let mut view = self.view_of_arrival(arrival.row, arrival.came, now, trace);
            let Some(ranking) = &mut self.ranking else { return };
            ranking.evaluate_arrival(id, &mut view, trace);
        }
    }
}
