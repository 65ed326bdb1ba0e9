//! Requests that have arrived and never been admitted: they hold nothing, so they are kept without a slot.
//!
//! Their ranks depend on the trace and on time only. A request gets its slot as it is admitted.

use super::RankKey;
use crate::collections::{DueTimes, Id, LazyOrder};
use crate::time::{NEVER, Ticks};

/// The row of an entry that is free.
const NO_ROW: u32 = u32::MAX;

/// A request that has arrived, as the ranking knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewArrival {
    /// Its row in the trace.
    pub(crate) row: u32,
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

/// The requests that have waited for so long that they are in their last class, where only the wait changes a class, and
/// the ranks of that class follow the order in which the requests came.
///
/// Then a request that has come before another enters the class before it, and ranks before it there. So only the first
/// of those that are due is evaluated. The others keep the rank that they had, which is worse than that of the first, as
/// their own would be. Requests that come meanwhile are not ranked.
#[derive(Debug, Default)]
struct Aged {
    /// The rank of the first, and its id, once it was evaluated.
    first: Option<(RankKey, Id)>,
    /// The row of the latest request that came.
    latest_row: Option<u32>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct NewArrivals {
    order: LazyOrder<RankKey>,
    due: DueTimes,
    /// `None`: every request that is due is evaluated.
    aged: Option<Aged>,
    /// Requests that came behind an aged one and have no rank yet, and some that have left.
    unranked: Vec<Id>,
    /// By id; of ids in `free`, one with no row.
    entries: Vec<NewArrival>,
    free: Vec<Id>,
}

impl NewArrivals {
    /// No requests, for a ranking of so many classes. `ages`: whether all requests that are due are aged, as above.
    pub(super) fn new(classes: usize, ages: bool) -> Self {
        Self {
            order: LazyOrder::new(classes),
            due: DueTimes::default(),
            aged: ages.then(Aged::default),
            unranked: Vec::new(),
            entries: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Number of requests.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        (self.entries.len() - self.free.len()) as u64
    }

    /// Adds a request. Its row follows those of all before it, or aging was [stopped](Self::stop_aging).
    pub(super) fn add(&mut self, arrival: NewArrival, rank: NewRank) {
        let id = self.insert(arrival);
        self.order.set(id, rank.key, arrival.class.0 as usize);
        if let Some(due) = rank.due {
            self.due.set(id, due);
        }
    }

    /// Adds a request behind an aged one, which is due at a moment: it is ranked once no aged one is left.
    pub(super) fn add_unranked(&mut self, arrival: NewArrival, due: Ticks) {
        let id = self.insert(arrival);
        self.unranked.push(id);
        self.due.set(id, due);
    }

    fn insert(&mut self, arrival: NewArrival) -> Id {
        if let Some(aged) = &mut self.aged {
            aged.latest_row = Some(arrival.row);
        }
        if let Some(id) = self.free.pop() {
            self.entries[id as usize] = arrival;
            id
        } else {
            self.entries.push(arrival);
            self.entries.len() as Id - 1
        }
    }

    /// Whether the request at `row` does not follow all that came before it, which aging requires: a router had held it.
    #[inline]
    pub(super) fn breaks_aging(&self, row: u32) -> bool {
        self.aged.as_ref().is_some_and(|aged| aged.latest_row.is_some_and(|latest| latest > row))
    }

    /// Has every request evaluated that is due from now on.
    #[cold]
    pub(super) fn stop_aging(&mut self) {
        if let Some(Aged { first: Some((key, id)), .. }) = self.aged.take() {
            self.order.set(id, key, self.entries[id as usize].class.0 as usize);
        }
    }

    /// Sets the class and the rank of a request that was due.
    pub(super) fn set(&mut self, id: Id, arrival: NewArrival, rank: NewRank) {
        if let Some(aged) = &mut self.aged {
            self.entries[id as usize] = arrival;
            self.due.remove(id);
            aged.first = Some((rank.key, id));
        } else {
            self.rank(id, arrival, rank);
        }
    }

    /// Sets the class and the rank of a request by which it is ordered.
    pub(super) fn rank(&mut self, id: Id, arrival: NewArrival, rank: NewRank) {
        self.entries[id as usize] = arrival;
        self.order.set(id, rank.key, arrival.class.0 as usize);
        // Of requests that are due at the same moment, the one that came first stays first.
        if self.due.get(id) != rank.due {
            self.due.set_or_remove(id, rank.due);
        }
    }

    /// A request that has no rank yet.
    pub(super) fn next_unranked(&mut self) -> Option<Id> {
        while let Some(id) = self.unranked.pop() {
            if self.entries[id as usize].row != NO_ROW && !self.order.has(id) {
                return Some(id);
            }
        }
        None
    }

    /// Finds the best, once all are ranked.
    #[inline]
    pub(super) fn settle(&mut self) {
        self.order.settle();
    }

    /// The best rank, and its request. Those that are due have been evaluated.
    #[inline]
    pub(super) fn first(&self) -> Option<(RankKey, Id)> {
        match self.aged {
            Some(Aged { first: Some(first), .. }) => Some(first),
            _ => self.order.first(),
        }
    }

    /// A request.
    pub(super) fn get(&self, id: Id) -> NewArrival {
        self.entries[id as usize]
    }

    /// Removes a request. Returns it, and when its rank may change. The best is unknown until it is
    /// [found](Self::settle).
    pub(super) fn take(&mut self, id: Id) -> (NewArrival, Option<Ticks>) {
        let due = self.due.get(id);
        self.order.remove(id);
        self.due.remove(id);
        if let Some(aged) = &mut self.aged {
            aged.first = aged.first.filter(|first| first.1 != id);
        }
        self.free.push(id);
        let entry = &mut self.entries[id as usize];
        let arrival = *entry;
        entry.row = NO_ROW;
        (arrival, due)
    }

    /// A request to evaluate, as its rank may have changed by `now`.
    #[inline]
    pub(super) fn due_by(&self, now: Ticks) -> Option<Id> {
        if self.has_aged() {
            return None;
        }
        self.due.first().filter(|(due, _)| *due <= now).map(|(_, id)| id)
    }

    /// When a request is to be evaluated next.
    #[inline]
    pub(super) fn next_due(&self) -> Ticks {
        if self.has_aged() { NEVER } else { self.due.next() }
    }

    /// Whether one is known that is better than all others that are due, or will be.
    #[inline]
    pub(super) fn has_aged(&self) -> bool {
        self.aged.as_ref().is_some_and(|aged| aged.first.is_some())
    }

    /// The rows of all requests.
    pub(super) fn rows(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.iter().map(|entry| entry.row).filter(|&row| row != NO_ROW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(row: u32, class: u32) -> (NewArrival, RankKey) {
        let arrival = NewArrival { row, came: 0, class: (class, 0) };
        (arrival, RankKey::new(class, [0; crate::config::MOST_KEYS], row))
    }

    #[test]
    fn a_request_that_enters_a_better_class_is_first() {
        let mut new = NewArrivals::new(2, false);
        for row in [7, 8] {
            let (arrival, key) = arrival(row, 1);
            new.add(arrival, NewRank { key, due: Some(100 + u64::from(row)) });
        }
        assert_eq!((new.len(), new.next_due(), new.due_by(106)), (2, 107, None));
        let (better, key) = arrival(8, 0);
        let id = new.due_by(108).and_then(|first| (new.get(first).row == 7).then_some(first + 1));
        let id = id.expect("the earlier of two that are due is first");
        new.set(id, better, NewRank { key, due: None });
        new.settle();
        assert_eq!(new.first().map(|(_, id)| new.get(id).row), Some(8));
        assert_eq!(new.take(id).0.row, 8);
        new.settle();
        assert_eq!(new.rows().collect::<Vec<_>>(), [7]);
        assert_eq!((new.first().map(|(_, id)| new.get(id).row), new.len()), (Some(7), 1));
    }

    #[test]
    fn an_id_is_used_again() {
        let mut new = NewArrivals::new(1, false);
        for row in 0..3 {
            let (arrival, key) = arrival(row, 0);
            new.add(arrival, NewRank { key, due: None });
            let (_, id) = new.first().expect("one was added");
            assert_eq!((id, new.take(id).0.row), (0, row));
            new.settle();
        }
        assert_eq!((new.len(), new.next_due()), (0, NEVER));
    }
}
