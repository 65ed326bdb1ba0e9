//! Requests that have arrived and never been admitted: they hold nothing, so they are kept without a slot.
//!
//! Their ranks depend on the trace and on time only. A request gets its slot as it is admitted.

use serde::{Deserialize, Serialize};

use super::RankKey;
use super::arrival_order::ArrivalOrder;
use crate::collections::{DueTimes, Id};
use crate::time::Ticks;
use crate::trace::RequestNumber;

/// The number of an entry that is free.
const NO_REQUEST: RequestNumber = RequestNumber(u32::MAX);

/// A request that has arrived, as the ranking knows it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct NewArrival {
    pub(crate) request: RequestNumber,
    /// When it came.
    pub(crate) came: Ticks,
    /// Its class, and when it entered that.
    pub(crate) class: (u32, Ticks),
}

/// The rank of a request that has arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewRank {
    pub(crate) key: RankKey,
    /// When it may change.
    pub(crate) due: Option<Ticks>,
}

/// The ranked requests that have no slot.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct NewArrivals {
    order: ArrivalOrder,
    due: DueTimes,
    /// By id; of ids in `free`, one of no request.
    entries: Vec<NewArrival>,
    free: Vec<Id>,
}

impl NewArrivals {
    /// Number of requests.
    pub(super) fn len(&self) -> u64 {
        (self.entries.len() - self.free.len()) as u64
    }

    /// Adds a request.
    pub(super) fn add(&mut self, arrival: NewArrival, rank: NewRank) {
        let id = if let Some(id) = self.free.pop() {
            self.entries[id as usize] = arrival;
            id
        } else {
            self.entries.push(arrival);
            self.entries.len() as Id - 1
        };
        self.order.set(id, rank.key);
        if let Some(due) = rank.due {
            self.due.set(id, due);
        }
    }

    /// Sets the class and the rank of a request that was due.
    pub(super) fn set(&mut self, id: Id, arrival: NewArrival, rank: NewRank) {
        self.entries[id as usize] = arrival;
        self.order.set(id, rank.key);
        // Of requests that are due at the same moment, the one that came first stays first.
        if self.due.get(id) != rank.due {
            self.due.set_or_remove(id, rank.due);
        }
    }

    /// The best rank, and its request. Those that are due have been evaluated.
    pub(super) fn first(&self) -> Option<(RankKey, Id)> {
        self.order.first()
    }

    /// A request.
    pub(super) fn get(&self, id: Id) -> NewArrival {
        self.entries[id as usize]
    }

    /// The id of a request.
    pub(super) fn find(&self, request: RequestNumber) -> Option<Id> {
        self.entries.iter().position(|entry| entry.request == request).map(|id| id as Id)
    }

    /// Removes a request. Returns it, and when its rank may change.
    pub(super) fn take(&mut self, id: Id) -> (NewArrival, Option<Ticks>) {
        let due = self.due.get(id);
        self.order.remove(id);
        self.due.remove(id);
        self.free.push(id);
        let entry = &mut self.entries[id as usize];
        let arrival = *entry;
        entry.request = NO_REQUEST;
        (arrival, due)
    }

    /// A request to evaluate, as its rank may have changed by `now`.
    pub(super) fn due_by(&self, now: Ticks) -> Option<Id> {
        self.due.first().filter(|(due, _)| *due <= now).map(|(_, id)| id)
    }

    /// When a request is to be evaluated next.
    pub(super) fn next_due(&self) -> Ticks {
        self.due.next()
    }

    /// All requests.
    pub(super) fn iter(&self) -> impl Iterator<Item = RequestNumber> + '_ {
        self.entries.iter().map(|entry| entry.request).filter(|&request| request != NO_REQUEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::NEVER;

    fn arrival(number: u32, class: u32) -> (NewArrival, RankKey) {
        let request = RequestNumber(number);
        let arrival = NewArrival { request, came: 0, class: (class, 0) };
        (arrival, RankKey::new(class, [0; crate::config::MOST_KEYS], request))
    }

    #[test]
    fn a_request_that_enters_a_better_class_is_first() {
        let mut new = NewArrivals::default();
        for number in [7, 8] {
            let (arrival, key) = arrival(number, 1);
            new.add(arrival, NewRank { key, due: Some(100 + u64::from(number)) });
        }
        assert_eq!((new.len(), new.next_due(), new.due_by(106)), (2, 107, None));
        let (better, key) = arrival(8, 0);
        let id = new.due_by(108).and_then(|first| (new.get(first).request.0 == 7).then_some(first + 1));
        let id = id.expect("the earlier of two that are due is first");
        new.set(id, better, NewRank { key, due: None });
        assert_eq!(new.first().map(|(_, id)| new.get(id).request.0), Some(8));
        assert_eq!(new.take(id).0.request.0, 8);
        assert_eq!(new.iter().map(|request| request.0).collect::<Vec<_>>(), [7]);
        assert_eq!((new.first().map(|(_, id)| new.get(id).request.0), new.len()), (Some(7), 1));
    }

    #[test]
    fn an_id_is_used_again() {
        let mut new = NewArrivals::default();
        for number in 0..3 {
            let (arrival, key) = arrival(number, 0);
            new.add(arrival, NewRank { key, due: None });
            let (_, id) = new.first().expect("one was added");
            assert_eq!((id, new.take(id).0.request.0), (0, number));
        }
        assert_eq!((new.len(), new.next_due()), (0, NEVER));
    }
}
