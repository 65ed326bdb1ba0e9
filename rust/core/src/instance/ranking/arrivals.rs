//! How a ranking keeps requests that have arrived and have no slot yet.

use super::super::request::Slot;
use super::super::view::RequestView;
use super::expiry::Expires;
use super::{List, NewArrival, RankKey, Ranking};
use crate::collections::Id;
use crate::time::Ticks;
use crate::trace::Trace;

impl Ranking {
    /// Whether arrivals may be kept without a slot: their ranks depend on the trace and on time only. Without leaping,
    /// every rank is evaluated at every step, of requests with slots.
    #[inline]
    pub(crate) fn keeps_arrivals(&self) -> bool {
        self.leap && self.inputs.depend_on_trace_and_time_at_first()
    }

    /// Adds a request that has arrived, which `view` describes, without a slot. Returns whether that could be done: its
    /// rank does not depend on steps.
    pub(crate) fn add_arrival(&mut self, view: &mut RequestView, trace: &Trace) -> bool {
        let now = view.now;
        let mut arrival = NewArrival { row: view.row, came: now, class: (0, now) };
        let Some(rank) = self.rank_new(&mut arrival, view, false, trace) else { return false };
        self.classes.members[arrival.class.0 as usize] += 1;
        self.new.add(arrival, rank);
        true
    }

    /// A request without a slot whose rank may have changed by `now`.
    #[inline]
    pub(crate) fn due_arrival(&self, now: Ticks) -> Option<(Id, NewArrival)> {
        self.new.due_by(now).map(|id| (id, self.new.get(id)))
    }

    /// Evaluates the rank of a request without a slot, which `view` describes. Returns whether it stays without.
    pub(crate) fn evaluate_arrival(&mut self, id: Id, view: &mut RequestView, trace: &Trace) -> bool {
        let mut arrival = self.new.get(id);
        let before = arrival.class.0;
        let Some(rank) = self.rank_new(&mut arrival, view, true, trace) else { return false };
        self.classes.members[before as usize] -= 1;
        self.classes.members[arrival.class.0 as usize] += 1;
        self.new.set(id, arrival, rank);
        true
    }

    /// The request without a slot that ranks before all queued ones with a slot.
    #[inline]
    pub(crate) fn best_arrival(&self) -> Option<(Id, RankKey)> {
        let (rank, id) = self.new.first()?;
        let slotted = if self.lists[List::Queued as usize] == 0 { None } else { self.sets.queued.first() };
        slotted.is_none_or(|best| rank < best.0).then_some((id, rank))
    }

    /// The rows of the queued requests without a slot.
    pub(crate) fn rows_without_slot(&self) -> impl Iterator<Item = u32> + '_ {
        self.new.rows()
    }

    /// Gives a slot to a queued request that had none, and the rank that it has. `steps`: the instance's.
    pub(crate) fn seat(&mut self, id: Id, rank: RankKey, slot: Slot, steps: u64) {
        let (arrival, due) = self.new.take(id);
        self.enter(slot, arrival.came, steps, 0);
        let request = &mut self.requests[slot as usize];
        (request.class, request.has_class, request.entered) = (arrival.class.0, true, (arrival.class.1, 0));
        request.rank = rank;
        self.sets.queued.set(slot, rank);
        if due.is_some() {
            request.expires.any_noted = true;
            self.expiry.set(slot, Expires { time: due, ..Expires::default() }, 0);
        }
    }
}
