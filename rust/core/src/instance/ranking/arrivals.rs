//! How a ranking keeps requests that have arrived and have no slot yet.

use super::super::request::Slot;
use super::super::view::{OfRequest, RequestView};
use super::new_arrivals::NewRank;
use super::{List, NewArrival, RankKey, Ranking};
use crate::collections::Id;
use crate::config::MOST_KEYS;
use crate::policy::{Validity, sort_key};
use crate::time::Ticks;
use crate::trace::{RequestNumber, Trace};

/// Where the best queued request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BestQueued {
    /// It has no slot, and is the best of these.
    Arrival(RequestNumber),
    /// It has a slot.
    Slot(Slot),
}

impl Ranking {
    /// Whether arrivals may be kept without a slot: their ranks depend on the trace and on time only. Without leaping,
    /// every rank is evaluated at every step, of requests with slots.
    pub(crate) fn keeps_arrivals(&self) -> bool {
        self.leap && self.shared.is_none() && self.inputs.depend_on_trace_and_time_at_first()
    }

    /// Number of queued requests without a slot.
    pub(super) fn without_slot(&self) -> u64 {
        self.new.len()
    }

    /// When the rank of a request without a slot is to be evaluated next.
    pub(super) fn next_due_arrival(&self) -> Ticks {
        self.new.next_due()
    }

    /// Adds a request that arrives without a slot.
    pub(crate) fn add_arrival(&mut self, view: &mut RequestView, trace: &Trace) {
        let now = view.now;
        let mut arrival = NewArrival { request: view.request, came: now, class: (0, now) };
        let rank = self.rank_of_arrival(&mut arrival, false, view, trace);
        self.classes.members[arrival.class.0 as usize] += 1;
        self.new.add(arrival, rank);
    }

    /// A request without a slot whose rank may have changed by `now`.
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
            let class = self.classes.conditions.first_that_takes(view, trace, &mut validity);
            if !has_class || class != arrival.class.0 {
                arrival.class = (class, view.now);
            }
        }
        view.class.joined = arrival.class.1;
        let mut keys = [0; MOST_KEYS];
        let mut scope = OfRequest { view, trace };
        for (key, expr) in keys.iter_mut().zip(&self.rules.classes[arrival.class.0 as usize].keys) {
            *key = sort_key(expr, &mut scope, &mut validity);
        }
        let due = (validity.ticks != u64::MAX).then(|| view.now.saturating_add(validity.ticks));
        debug_assert_eq!(validity.steps, u64::MAX, "Invariant: it depends on the trace and on time only");
        NewRank { key: RankKey::new(arrival.class.0, keys, view.request), due }
    }

    /// The best queued request.
    pub(crate) fn best_queued(&self) -> Option<BestQueued> {
        let arrived = self.best_arrival();
        match self.best_with_slot() {
            None => arrived.map(|rank| BestQueued::Arrival(rank.request())),
            Some((rank, slot)) => Some(match arrived {
                Some(arrived) if arrived < rank => BestQueued::Arrival(arrived.request()),
                _ => BestQueued::Slot(slot),
            }),
        }
    }

    /// The rank of the best queued request.
    pub(crate) fn best_rank(&self) -> Option<RankKey> {
        let slotted = self.best_with_slot().map(|(rank, _)| rank);
        self.best_arrival().into_iter().chain(slotted).min()
    }

    /// The rank of the best request without a slot.
    fn best_arrival(&self) -> Option<RankKey> {
        self.new.first().map(|(rank, _)| rank)
    }

    /// The best queued request that has a slot.
    fn best_with_slot(&self) -> Option<(RankKey, Slot)> {
        if self.lists[List::Queued as usize] == 0 {
            return None;
        }
        match &self.shared {
            Some(shared) => shared.first(),
            None => self.sets.queued.first(),
        }
    }

    /// The queued requests without a slot.
    pub(crate) fn without_slots(&self) -> impl Iterator<Item = RequestNumber> + '_ {
        self.new.iter()
    }

    /// Admits the best request without a slot, which gets this one. It has its rank as a running request, and its place
    /// among them, once it is [evaluated](Self::evaluate), or only [placed](Self::place) if neither the admission nor time
    /// changes its rank. Returns whether it is to be evaluated. `steps`: the instance's.
    pub(crate) fn admit_arrival(&mut self, slot: Slot, now: Ticks, steps: u64) -> bool {
        let Some((rank, class, changes)) = self.take_arrival() else {
            debug_assert!(false, "Invariant: the request is the best without a slot");
            return false;
        };
        let round = self.round.number;
        let request = self.slot_mut(slot);
        request.renew(rank, class);
        request.enter_list(List::Running, now, steps, round);
        self.lists[List::Running as usize] += 1;
        (changes || self.inputs.change_with_admission()) && !self.classes.settles[class.0 as usize]
    }

    /// Removes a request without a slot that is cancelled. Returns whether there was one.
    pub(crate) fn remove_arrival(&mut self, request: RequestNumber) -> bool {
        let Some(id) = self.new.find(request) else { return false };
        let (arrival, _) = self.new.take(id);
        self.classes.members[arrival.class.0 as usize] -= 1;
        true
    }

    /// Removes the best request without a slot. Returns its rank, its class and when it entered that, and whether time may
    /// change its rank.
    fn take_arrival(&mut self) -> Option<(RankKey, (u32, Ticks), bool)> {
        let (rank, id) = self.new.first()?;
        let (arrival, due) = self.new.take(id);
        Some((rank, arrival.class, due.is_some()))
    }
}
