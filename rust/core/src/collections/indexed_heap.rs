//! Ids in order of keys that change.

use serde::{Deserialize, Serialize};

use super::{Column, Id};

/// The position of an id that has no key.
const ABSENT: u32 = u32::MAX;

/// A binary heap, smallest key first, that also stores the position of each id.
///
/// Reading the first id takes one load; setting or removing a key takes the logarithm of the number of ids. Each id
/// has at most one entry, and no entry is outdated. If keys are equal, the lower id is first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct IndexedHeap<K> {
    /// The keys and their ids, each after its parent.
    heap: Vec<(K, Id)>,
    /// By id: its position in the heap, or `ABSENT`.
    places: Column<u32>,
}

impl<K> Default for IndexedHeap<K> {
    fn default() -> Self {
        Self { heap: Vec::new(), places: Column::default() }
    }
}

impl IndexedHeap<u64> {
    /// The smallest key, or `u64::MAX` if no id has a key.
    pub(crate) fn next(&self) -> u64 {
        self.first().map_or(u64::MAX, |(key, _)| key)
    }
}

impl<K: Copy + Ord> IndexedHeap<K> {
    /// The smallest key and its id.
    pub(crate) fn first(&self) -> Option<(K, Id)> {
        self.heap.first().copied()
    }

    /// The smallest key but that of the first id, and its id.
    pub(crate) fn second(&self) -> Option<(K, Id)> {
        self.first_below(0).map(|place| self.heap[place])
    }

    /// Whether no id has a key.
    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The position of an id, if it has a key.
    fn place(&self, id: Id) -> Option<usize> {
        let place = *self.places.get(id as usize)?;
        (place != ABSENT).then_some(place as usize)
    }

    /// The key of an id, if it has one.
    pub(crate) fn key(&self, id: Id) -> Option<K> {
        self.place(id).map(|place| self.heap[place].0)
    }

    /// Sets the key of an id, whether or not it had one.
    pub(crate) fn set(&mut self, id: Id, key: K) {
        let at = id as usize;
        if at >= self.places.len() {
            self.places.resize(at + 1, ABSENT);
        }
        let Some(place) = self.place(id) else {
            self.heap.push((key, id));
            self.rise(self.heap.len() - 1, (key, id));
            return;
        };
        let was = self.heap[place].0;
        if key < was {
            self.rise(place, (key, id));
        } else if was < key {
            self.sink(place, (key, id));
        }
    }

    /// Sets the key of an id, or removes the id if `key` is `None`.
    pub(crate) fn set_or_remove(&mut self, id: Id, key: Option<K>) {
        match key {
            Some(key) => self.set(id, key),
            None => self.remove(id),
        }
    }

    /// Removes an id, if it is in the heap.
    pub(crate) fn remove(&mut self, id: Id) {
        if let Some(hole) = self.place(id) {
            self.places[id as usize] = ABSENT;
            self.fill(hole);
        }
    }

    /// Forgets the ids below `id`, none of which has a key or will have one again.
    pub(crate) fn forget(&mut self, id: Id) {
        self.places.forget(id as usize);
    }

    /// Fills a hole with the last entry of the heap.
    fn fill(&mut self, mut hole: usize) {
        let Some(last) = self.heap.pop() else { return };
        if hole == self.heap.len() {
            return;
        }
        // The last entry mostly belongs near the bottom: move the hole down first, then the entry up as far as needed.
        while let Some(below) = self.first_below(hole) {
            self.put(hole, self.heap[below]);
            hole = below;
        }
        self.rise(hole, last);
    }

    /// The place of the first of the two entries below a place.
    fn first_below(&self, place: usize) -> Option<usize> {
        let below = 2 * place + 1;
        match self.heap.get(below..)? {
            [left, right, ..] => Some(below + usize::from(right < left)),
            [_] => Some(below),
            [] => None,
        }
    }

    /// Stores an entry at a place, or moves it up from there.
    fn rise(&mut self, mut place: usize, entry: (K, Id)) {
        while place > 0 {
            let above = (place - 1) / 2;
            if self.heap[above] <= entry {
                break;
            }
            self.put(place, self.heap[above]);
            place = above;
        }
        self.put(place, entry);
    }

    /// Stores an entry at a place, or moves it down from there.
    fn sink(&mut self, mut place: usize, entry: (K, Id)) {
        while let Some(below) = self.first_below(place).filter(|&below| self.heap[below] < entry) {
            self.put(place, self.heap[below]);
            place = below;
        }
        self.put(place, entry);
    }

    /// Stores an entry at a place.
    fn put(&mut self, place: usize, entry: (K, Id)) {
        self.places[entry.1 as usize] = place as u32;
        self.heap[place] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn a_heap_equals_a_scan_of_its_keys(
            moves in prop::collection::vec((0u32..20, prop::option::weighted(0.7, 0u64..10)), 1..200),
        ) {
            let mut heap = IndexedHeap::default();
            let mut keys = BTreeMap::new();
            for (id, key) in moves {
                heap.set_or_remove(id, key);
                match key {
                    Some(key) => keys.insert(id, key),
                    None => keys.remove(&id),
                };
                let first = keys.iter().map(|(&id, &key)| (key, id)).min();
                prop_assert_eq!(heap.first(), first);
                prop_assert_eq!(heap.next(), first.map_or(u64::MAX, |(key, _)| key));
                prop_assert_eq!(heap.is_empty(), keys.is_empty());
                for id in 0..20 {
                    prop_assert_eq!(heap.key(id), keys.get(&id).copied());
                }
            }
            // Removing the first again and again gives all in order.
            let mut sorted: Vec<_> = keys.iter().map(|(&id, &key)| (key, id)).collect();
            sorted.sort_unstable();
            for expected in sorted {
                prop_assert_eq!(heap.first(), Some(expected));
                heap.remove(expected.1);
            }
            prop_assert!(heap.is_empty());
        }
    }
}
