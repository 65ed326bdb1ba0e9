//! Ids in order of keys that change.

use super::Id;

/// The position of an id that has no key.
const ABSENT: u32 = u32::MAX;

/// A binary heap, smallest key first, that also stores the position of each id.
///
/// Reading the first id takes one load; setting or removing a key takes the logarithm of the number of ids. Each id
/// has at most one entry, and no entry is outdated. If keys are equal, the lower id is first.
#[derive(Debug, Clone)]
pub(crate) struct IndexedHeap<K> {
    /// The ids, each after its parent.
    heap: Vec<Id>,
    /// By id: its position in the heap, or `ABSENT`.
    places: Vec<u32>,
    /// By id: its key, if it is in the heap.
    keys: Vec<K>,
}

impl<K> Default for IndexedHeap<K> {
    fn default() -> Self {
        Self { heap: Vec::new(), places: Vec::new(), keys: Vec::new() }
    }
}

impl IndexedHeap<u64> {
    /// The smallest key, or `u64::MAX` if no id has a key.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.first().map_or(u64::MAX, |(key, _)| key)
    }
}

impl<K: Copy + Default + Ord> IndexedHeap<K> {
    /// The smallest key and its id.
    #[inline]
    pub(crate) fn first(&self) -> Option<(K, Id)> {
        self.heap.first().map(|&id| (self.keys[id as usize], id))
    }

    /// Whether no id has a key.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The key of an id, if it has one.
    #[inline]
    pub(crate) fn key(&self, id: Id) -> Option<K> {
        let place = *self.places.get(id as usize)?;
        (place != ABSENT).then(|| self.keys[id as usize])
    }

    /// Sets the key of an id, whether or not it had one.
    pub(crate) fn set(&mut self, id: Id, key: K) {
        let at = id as usize;
        if at >= self.places.len() {
            self.places.resize(at + 1, ABSENT);
            self.keys.resize(at + 1, K::default());
        }
        let place = self.places[at];
        let was = std::mem::replace(&mut self.keys[at], key);
        if place == ABSENT {
            self.heap.push(id);
            self.rise(self.heap.len() - 1, id);
        } else if key < was {
            self.rise(place as usize, id);
        } else if was < key {
            self.sink(place as usize, id);
        }
    }

    /// Sets the key of an id, or removes the id if `key` is `None`.
    #[inline]
    pub(crate) fn set_or_remove(&mut self, id: Id, key: Option<K>) {
        match key {
            Some(key) => self.set(id, key),
            None => self.remove(id),
        }
    }

    /// Removes an id, if it is in the heap.
    #[inline]
    pub(crate) fn remove(&mut self, id: Id) {
        if let Some(place) = self.places.get_mut(id as usize)
            && *place != ABSENT
        {
            let hole = std::mem::replace(place, ABSENT) as usize;
            self.fill(hole);
        }
    }

    /// Fills a hole with the last id of the heap.
    fn fill(&mut self, mut hole: usize) {
        let Some(last) = self.heap.pop() else { return };
        if hole == self.heap.len() {
            return;
        }
        // The last id mostly belongs near the bottom: move the hole down first, then the id up as far as needed.
        loop {
            let below = 2 * hole + 1;
            let Some(&[left, right]) = self.heap.get(below..below + 2) else { break };
            let second = self.is_before(right, left);
            self.put(hole, if second { right } else { left });
            hole = below + usize::from(second);
        }
        if let Some(&only) = self.heap.get(2 * hole + 1) {
            self.put(hole, only);
            hole = 2 * hole + 1;
        }
        self.rise(hole, last);
    }

    /// Stores an id at a place, or moves it up from there.
    fn rise(&mut self, mut place: usize, id: Id) {
        let key = self.keys[id as usize];
        while place > 0 {
            let above = (place - 1) / 2;
            let other = self.heap[above];
            if (self.keys[other as usize], other) <= (key, id) {
                break;
            }
            self.put(place, other);
            place = above;
        }
        self.put(place, id);
    }

    /// Stores an id at a place, or moves it down from there.
    fn sink(&mut self, mut place: usize, id: Id) {
        let key = self.keys[id as usize];
        loop {
            let mut below = 2 * place + 1;
            match self.heap.get(below..) {
                Some(&[left, right, ..]) => below += usize::from(self.is_before(right, left)),
                Some([_]) => {}
                _ => break,
            }
            let other = self.heap[below];
            if (key, id) <= (self.keys[other as usize], other) {
                break;
            }
            self.put(place, other);
            place = below;
        }
        self.put(place, id);
    }

    /// Whether `id` comes before `other`.
    #[inline]
    fn is_before(&self, id: Id, other: Id) -> bool {
        (self.keys[id as usize], id) < (self.keys[other as usize], other)
    }

    /// Stores an id at a place.
    #[inline]
    fn put(&mut self, place: usize, id: Id) {
        self.heap[place] = id;
        self.places[id as usize] = place as u32;
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
