//! How a ranking keeps requests that have arrived and have no slot yet.

use super::super::request::Slot;
use super::super::view::{OfRequest, RequestView};
use super::new_arrivals::NewRank;
use super::{List, NewArrival, RankKey, RankedRequest, Ranking};
use crate::collections::Id;
use crate::config::MOST_KEYS;
use crate::policy::{Validity, sort_key};
use crate::time::Ticks;
use crate::trace::Trace;

/// Where the best queued request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BestQueued {
    /// It has no slot, and is the best of these.
    Arrival,
    /// It has a slot.
    Slot(Slot),
}

impl Ranking {
    /// Whether arrivals may be kept without a slot: their ranks depend on the trace and on time only. Without leaping,
    /// every rank is evaluated at every step, of requests with slots.
    #[inline]
    pub(crate) fn keeps_arrivals(&self) -> bool {
        self.leap && self.inputs.depend_on_trace_and_time_at_first()
    }

    /// Whether the rank of a request without a slot depends on its row of the trace and on how long it has waited only, so
    /// that no instance need describe the request.
    #[inline]
    pub(crate) fn ranks_arrivals_by_wait(&self) -> bool {
        self.classes.by_wait.is_some()
    }

    /// Adds a request that arrives without a slot.
    pub(crate) fn add_arrival(&mut self, view: &mut RequestView, trace: &Trace) {
        let now = view.now;
        if self.new.breaks_aging(view.row) {
            self.new.stop_aging();
            self.settle_arrivals(now, trace);
        }
        let mut arrival = NewArrival { row: view.row, came: now, class: (0, now) };
        let rank = self.rank_of_arrival(&mut arrival, false, view, trace);
        self.classes.members[arrival.class.0 as usize] += 1;
        self.new.add(arrival, rank);
    }

    /// Adds a request that arrives without a slot behind one that has aged, if there is such a one. Its rank is evaluated
    /// later.
    pub(crate) fn add_behind_aged(&mut self, row: u32, now: Ticks) -> bool {
        let Some(by_wait) = self.classes.by_wait.as_ref().filter(|_| self.new.has_aged()) else {
            return false;
        };
        let (class, Some(due)) = by_wait.at(0) else { return false };
        if self.new.breaks_aging(row) {
            return false;
        }
        self.classes.members[class as usize] += 1;
        self.new.add_unranked(NewArrival { row, came: now, class: (class, now) }, now.saturating_add(due));
        true
    }

    /// Finds the best request without a slot, once those that are due have been evaluated.
    #[inline]
    pub(crate) fn settle_arrivals(&mut self, now: Ticks, trace: &Trace) {
        if !self.new.has_aged() {
            while let Some(id) = self.new.next_unranked() {
                self.rank_late(id, now, trace);
            }
            self.new.settle();
        }
    }

    /// Ranks a request that came behind one that had aged.
    #[inline(never)]
    fn rank_late(&mut self, id: Id, now: Ticks, trace: &Trace) {
        let NewArrival { row, came, .. } = self.new.get(id);
        let mut view = RequestView { now, ..RequestView::arriving(row, came, trace) };
        let (arrival, rank) = self.rank_again(id, &mut view, trace);
        self.new.rank(id, arrival, rank);
    }

    /// A request without a slot whose rank may have changed by `now`.
    #[inline]
    pub(crate) fn due_arrival(&self, now: Ticks) -> Option<(Id, NewArrival)> {
        self.new.due_by(now).map(|id| (id, self.new.get(id)))
    }

    /// Evaluates the rank of a request without a slot, which `view` describes.
    pub(crate) fn evaluate_arrival(&mut self, id: Id, view: &mut RequestView, trace: &Trace) {
        let (arrival, rank) = self.rank_again(id, view, trace);
        self.new.set(id, arrival, rank);
    }

    /// The class and the rank that a request without a slot has now. It is counted in the class.
    fn rank_again(&mut self, id: Id, view: &mut RequestView, trace: &Trace) -> (NewArrival, NewRank) {
        let mut arrival = self.new.get(id);
        let before = arrival.class.0;
        let rank = self.rank_of_arrival(&mut arrival, true, view, trace);
        self.classes.members[before as usize] -= 1;
        self.classes.members[arrival.class.0 as usize] += 1;
        (arrival, rank)
    }

    /// Evaluates the rank of a request without a slot, and its class. `has_class`: it is in one.
    fn rank_of_arrival(
        &self,
        arrival: &mut NewArrival,
        has_class: bool,
        view: &mut RequestView,
        trace: &Trace,
    ) -> NewRank {
        let mut validity = Validity::EVER;
        let held = &self.rules.classes[arrival.class.0 as usize];
        if !has_class || held.hold == 0 && held.hold_steps == 0 {
            let class = match &self.classes.by_wait {
                Some(by_wait) => {
                    let waited = view.now - arrival.came;
                    let (class, next) = by_wait.at(waited);
                    validity.ticks = next.map_or(u64::MAX, |next| next - waited);
                    class
                }
                None => self.classes.conditions.first_that_takes(view, trace, &mut validity),
            };
            if !has_class || class != arrival.class.0 {
                arrival.class = (class, view.now);
            }
        }
        view.joined = arrival.class.1;
        let mut keys = [0; MOST_KEYS];
        let mut scope = OfRequest { view, trace };
        for (key, expr) in keys.iter_mut().zip(&self.rules.classes[arrival.class.0 as usize].keys) {
            *key = sort_key(expr, &mut scope, &mut validity);
        }
        let due = (validity.ticks != u64::MAX).then(|| view.now.saturating_add(validity.ticks));
        debug_assert_eq!(validity.steps, u64::MAX, "Invariant: it depends on the trace and on time only");
        NewRank { key: RankKey::new(arrival.class.0, keys, view.row), due }
    }

    /// The best queued request, and its rank.
    #[inline]
    pub(crate) fn best_queued(&self) -> Option<(RankKey, BestQueued)> {
        let slotted = if self.lists[List::Queued as usize] == 0 { None } else { self.sets.queued.first() };
        match (self.new.first(), slotted) {
            (Some((rank, _)), None) => Some((rank, BestQueued::Arrival)),
            (Some((rank, _)), Some((other, _))) if rank < other => Some((rank, BestQueued::Arrival)),
            (_, slotted) => slotted.map(|(rank, slot)| (rank, BestQueued::Slot(slot))),
        }
    }

    /// The rows of the queued requests without a slot.
    pub(crate) fn rows_without_slot(&self) -> impl Iterator<Item = u32> + '_ {
        self.new.rows()
    }

    /// Admits the best request without a slot, which gets this one. It has its rank as a running request, and its place
    /// among them, once it is [evaluated](Self::evaluate), or only [placed](Self::place) if neither the admission nor time
    /// changes its rank. Returns whether it is to be evaluated. The best of the others is to be
    /// [found](Self::settle_arrivals) then. `steps`: the instance's.
    pub(crate) fn admit_arrival(&mut self, slot: Slot, now: Ticks, steps: u64) -> bool {
        let Some((rank, id)) = self.new.first() else {
            debug_assert!(false, "Invariant: the request is the best without a slot");
            return false;
        };
        let (arrival, due) = self.new.take(id);
        let mut request = RankedRequest {
            rank,
            class: arrival.class.0,
            has_class: true,
            entered: (arrival.class.1, 0),
            ..RankedRequest::default()
        };
        request.enter_list(List::Running, now, steps, self.round.number);
        self.put(slot, request);
        self.lists[List::Running as usize] += 1;
        let changes = due.is_some() || self.inputs.change_with_admission();
        changes && !self.classes.settles[arrival.class.0 as usize]
    }
}
