//! The order of requests without a slot, class by class.
//!
//! A policy may put requests that have waited for long into a class before all others. While one is there, those that
//! arrive behind it need no order among themselves, and most of them enter that class before they need one: in the order in
//! which they came, if that is what it is ordered by.

use serde::{Deserialize, Serialize};

use super::RankKey;
use crate::collections::{Column, Id, RisingKeys};

/// Ids by rank, the best first. Each id has at most one rank.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ArrivalOrder {
    /// By class. Of the first that is not empty, all are sorted.
    classes: Vec<InClass>,
    /// By id: where it is, if it has a rank.
    places: Column<Option<Place>>,
    /// The best rank and its id.
    first: Option<(RankKey, Id)>,
}

/// Those of one class.
#[derive(Debug, Default, Serialize, Deserialize)]
struct InClass {
    sorted: RisingKeys<RankKey>,
    unsorted: Vec<(RankKey, Id)>,
}

impl InClass {
    fn is_empty(&self) -> bool {
        self.sorted.is_empty() && self.unsorted.is_empty()
    }
}

/// Where an id is.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Place {
    class: u32,
    /// Its place among those that are not sorted; `None` if it is sorted.
    unsorted: Option<u32>,
}

impl ArrivalOrder {
    /// The best rank and its id.
    pub(super) fn first(&self) -> Option<(RankKey, Id)> {
        self.first
    }

    /// Sets the rank of an id, whether or not it had one.
    pub(super) fn set(&mut self, id: Id, rank: RankKey) {
        self.leave(id);
        let class = rank.class() as usize;
        if class >= self.classes.len() {
            self.classes.resize_with(class + 1, InClass::default);
        }
        if id as usize >= self.places.len() {
            self.places.resize(id as usize + 1, None);
        }
        let is_behind = self.classes[..class].iter().any(|better| !better.is_empty());
        let of = &mut self.classes[class];
        let unsorted = is_behind.then_some(of.unsorted.len() as u32);
        if is_behind {
            of.unsorted.push((rank, id));
        } else {
            of.sorted.set(id, rank);
        }
        self.places[id as usize] = Some(Place { class: rank.class(), unsorted });
        self.sort();
    }

    /// Removes an id, if it has a rank.
    pub(super) fn remove(&mut self, id: Id) {
        self.leave(id);
        self.sort();
    }

    /// Sorts the first class that is not empty, and finds the best.
    fn sort(&mut self) {
        self.first = None;
        let Some(first) = self.classes.iter_mut().find(|class| !class.is_empty()) else { return };
        for (rank, id) in first.unsorted.drain(..) {
            self.places[id as usize] = Some(Place { class: rank.class(), unsorted: None });
            first.sorted.set(id, rank);
        }
        self.first = first.sorted.first();
    }

    fn leave(&mut self, id: Id) {
        let Some(place) = self.places.get_mut(id as usize).and_then(Option::take) else { return };
        let of = &mut self.classes[place.class as usize];
        let Some(at) = place.unsorted else {
            of.sorted.remove(id);
            return;
        };
        of.unsorted.swap_remove(at as usize);
        if let Some(&(_, moved)) = of.unsorted.get(at as usize) {
            self.places[moved as usize] = Some(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MOST_KEYS;
    use crate::trace::RequestNumber;
    use proptest::prelude::*;

    fn rank(id: Id, class: u32, key: i64) -> RankKey {
        let mut keys = [0; MOST_KEYS];
        keys[0] = key;
        RankKey::new(class, keys, RequestNumber(id))
    }

    #[test]
    fn requests_behind_a_better_class_are_not_sorted() {
        let mut order = ArrivalOrder::default();
        order.set(0, rank(0, 0, 0));
        for id in 1..4 {
            order.set(id, rank(id, 1, -i64::from(id)));
        }
        assert_eq!((order.classes[1].unsorted.len(), order.first()), (3, Some((rank(0, 0, 0), 0))));
        order.remove(0);
        assert_eq!((order.classes[1].unsorted.len(), order.first()), (0, Some((rank(3, 1, -3), 3))));
    }

    proptest! {
        /// The first is that of a sorted list, whichever ranks are set and removed.
        #[test]
        fn the_first_has_the_best_rank(
            changes in proptest::collection::vec((0_u32..8, proptest::option::weighted(0.7, (0_u32..3, -3_i64..3))), 1..60),
        ) {
            let mut order = ArrivalOrder::default();
            let mut ranks = [None; 8];
            for (id, set) in changes {
                let set = set.map(|(class, key)| rank(id, class, key));
                ranks[id as usize] = set;
                match set {
                    Some(rank) => order.set(id, rank),
                    None => order.remove(id),
                }
                let best = ranks.iter().zip(0..).filter_map(|(rank, id)| rank.map(|rank| (rank, id))).min();
                prop_assert_eq!(order.first(), best);
            }
        }
    }
}
