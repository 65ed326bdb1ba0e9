//! Ids in order of keys, most of which are set in rising order.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Column, Id, IndexedHeap};
use crate::time::{NEVER, Ticks};

/// The moment of each id.
pub(crate) type DueTimes = RisingKeys<Ticks>;

/// The key of each id, the smallest first; which of equal ones is first follows from how they were set.
///
/// An id whose key is after all others is appended, and taken from the front: both in constant time. Removing one from
/// the middle leaves an empty place. Ids that are set out of order are in a heap.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct RisingKeys<K> {
    /// Ids in order, the first of which is present, with the number of their place.
    line: VecDeque<(K, Id, u64)>,
    /// By id: the number of its place in the line; 0 if it is not there.
    places: Column<u64>,
    /// The number of the latest place.
    latest: u64,
    /// All other ids.
    others: IndexedHeap<K>,
}

impl DueTimes {
    /// The first moment, or [`NEVER`] if no id has one.
    pub(crate) fn next(&self) -> Ticks {
        self.first().map_or(NEVER, |(time, _)| time)
    }
}

impl<K: Copy + Ord> RisingKeys<K> {
    /// The smallest key and its id.
    pub(crate) fn first(&self) -> Option<(K, Id)> {
        let front = self.line.front().map(|&(key, id, _)| (key, id));
        match (front, self.others.first()) {
            (Some(front), Some(other)) => Some(front.min(other)),
            (front, other) => front.or(other),
        }
    }

    /// Whether no id has a key.
    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty() && self.others.is_empty()
    }

    /// The key of an id, if it has one.
    pub(crate) fn get(&self, id: Id) -> Option<K> {
        match self.places.get(id as usize) {
            Some(&place) if place > 0 => {
                let first = self.line.front().map_or(0, |first| first.2);
                self.line.get((place - first) as usize).map(|&(key, ..)| key)
            }
            _ => self.others.key(id),
        }
    }

    /// Sets the key of an id, whether or not it had one.
    pub(crate) fn set(&mut self, id: Id, key: K) {
        self.remove(id);
        if self.line.back().is_some_and(|&(last, ..)| key < last) {
            self.others.set(id, key);
            return;
        }
        let at = id as usize;
        if at >= self.places.len() {
            self.places.resize(at + 1, 0);
        }
        self.latest += 1;
        self.places[at] = self.latest;
        self.line.push_back((key, id, self.latest));
    }

    /// Sets the key of an id, or removes the id if there is none.
    pub(crate) fn set_or_remove(&mut self, id: Id, key: Option<K>) {
        match key {
            Some(key) => self.set(id, key),
            None => self.remove(id),
        }
    }

    /// Forgets the ids below `id`, none of which has a key or will have one again.
    pub(crate) fn forget(&mut self, id: Id) {
        self.places.forget(id as usize);
        self.others.forget(id);
    }

    /// Removes an id, if it has a key.
    pub(crate) fn remove(&mut self, id: Id) {
        match self.places.get_mut(id as usize) {
            Some(place) if *place > 0 => {
                *place = 0;
                while self.line.front().is_some_and(|&(_, id, place)| self.places[id as usize] != place) {
                    self.line.pop_front();
                }
            }
            _ => self.others.remove(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_first_equals_that_of_a_scan(
            moves in prop::collection::vec((0u32..20, prop::option::weighted(0.7, 0u64..30)), 1..200),
            rises in any::<bool>(),
        ) {
            let (mut times, mut expected) = (DueTimes::default(), BTreeMap::new());
            for (at, (id, time)) in moves.into_iter().enumerate() {
                // Moments that rise are mostly appended.
                let time = time.map(|time| time + if rises { 10 * at as u64 } else { 0 });
                times.set_or_remove(id, time);
                match time {
                    Some(time) => expected.insert(id, time),
                    None => expected.remove(&id),
                };
                let first = expected.iter().map(|(&id, &time)| (time, id)).min();
                prop_assert_eq!(times.first().map(|(time, _)| time), first.map(|(time, _)| time));
                prop_assert!(times.first().is_none_or(|(time, id)| expected.get(&id) == Some(&time)));
                prop_assert_eq!(times.get(id), expected.get(&id).copied());
                prop_assert_eq!(times.next(), first.map_or(NEVER, |(time, _)| time));
                prop_assert_eq!(times.is_empty(), expected.is_empty());
            }
        }
    }
}
