//! Ranking requests that arrive.
//!
//! A request that has arrived gets its slot when it may be admitted, if its rank depends on the trace and on time only.

use crate::collections::Id;
use crate::config::MOST_KEYS;
use crate::hint::rare;
use crate::instance::Instance;
use crate::instance::ranking::{RankKey, Ranking};
use crate::instance::request::Slot;
use crate::time::Ticks;
use crate::trace::Trace;

impl Instance {
    /// Adds a new request to the ranking. Returns whether it is the best queued one.
    #[inline(never)]
    pub(in crate::instance) fn rank_arrival(&mut self, request: u32, now: Ticks, trace: &Trace) -> bool {
        let keeps = self.ranking.as_deref().is_some_and(Ranking::keeps_arrivals) && !self.settings.selects;
        if keeps && self.add_arrival(request, now, trace) {
            let best = self.ranking.as_deref().and_then(Ranking::best_arrival);
            return best.is_some_and(|(_, rank)| rank.row() == request);
        }
        let slot = self.add_request(request, trace);
        self.queue_in_ranking(slot, now, 0, trace)
            && self.ranking.as_ref().is_some_and(|ranking| ranking.best_arrival().is_none())
    }

    /// Adds a request to the ranking without a slot. Returns whether that could be done.
    fn add_arrival(&mut self, request: u32, now: Ticks, trace: &Trace) -> bool {
        let mut view = self.view_of_arrival(request, now, now, trace);
        self.ranking.as_mut().is_some_and(|ranking| ranking.add_arrival(&mut view, trace))
    }

    /// Gives a slot to the best queued request, if it has none.
    #[inline]
    pub(super) fn seat_best_arrival(&mut self, trace: &Trace) {
        if let Some((id, rank)) = self.ranking.as_deref().and_then(Ranking::best_arrival) {
            rare();
            self.seat_arrival(id, rank, trace);
        }
    }

    /// Gives a slot to a queued request.
    fn seat_arrival(&mut self, id: Id, rank: RankKey, trace: &Trace) -> Slot {
        let slot = self.add_request(rank.row(), trace);
        if let Some(ranking) = &mut self.ranking {
            ranking.seat(id, rank, slot, self.stats.steps);
        }
        slot
    }

    /// Evaluates the ranks that may have changed by `now` of requests without a slot.
    #[inline(never)]
    pub(super) fn refresh_arrivals(&mut self, now: Ticks, trace: &Trace) {
        while let Some((id, arrival)) = self.ranking.as_deref().and_then(|ranking| ranking.due_arrival(now)) {
            let mut view = self.view_of_arrival(arrival.row, arrival.came, now, trace);
            let Some(ranking) = &mut self.ranking else { return };
            if !ranking.evaluate_arrival(id, &mut view, trace) {
                let any = RankKey::new(arrival.class.0, [0; MOST_KEYS], arrival.row);
                let slot = self.seat_arrival(id, any, trace);
                self.evaluate_after_event(slot, now, trace);
            }
        }
    }
}
