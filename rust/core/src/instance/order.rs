//! Slots in order of a key that changes: whoever comes first is at hand, and
//! moving one costs the logarithm of their number.

use super::active::Slot;

/// No place.
const NOWHERE: u32 = u32::MAX;

/// A binary heap, smallest key first and equal keys by slot, that knows where
/// each slot stands: it holds one entry a slot, and none that is outdated.
#[derive(Debug, Clone)]
pub(super) struct Order<K> {
    heap: Vec<Slot>,
    /// By slot: where it stands in the heap, and its key if it does.
    places: Vec<u32>,
    keys: Vec<K>,
}

impl<K> Default for Order<K> {
    fn default() -> Self {
        Self { heap: Vec::new(), places: Vec::new(), keys: Vec::new() }
    }
}

impl Order<u64> {
    /// The first key, or the largest number there is.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.first().map_or(u64::MAX, |(key, _)| key)
    }
}

impl<K: Copy + Default + Ord> Order<K> {
    /// The first key and whose it is.
    #[inline]
    pub(super) fn first(&self) -> Option<(K, Slot)> {
        self.heap.first().map(|&slot| (self.keys[slot as usize], slot))
    }

    /// Whether no slot has a key.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Whether a slot has a key.
    #[inline]
    pub(super) fn holds(&self, slot: Slot) -> bool {
        self.places.get(slot as usize).is_some_and(|place| *place != NOWHERE)
    }

    /// A slot's key, if it has one.
    #[inline]
    pub(super) fn key(&self, slot: Slot) -> Option<K> {
        let place = *self.places.get(slot as usize)?;
        (place != NOWHERE).then(|| self.keys[slot as usize])
    }

    /// Gives a slot its key, whether it had one or not.
    pub(super) fn set(&mut self, slot: Slot, key: K) {
        let at = slot as usize;
        if at >= self.places.len() {
            self.places.resize(at + 1, NOWHERE);
            self.keys.resize(at + 1, K::default());
        }
        let place = self.places[at];
        let was = std::mem::replace(&mut self.keys[at], key);
        if place == NOWHERE {
            self.heap.push(slot);
            self.rise(self.heap.len() - 1, slot);
        } else if key < was {
            self.rise(place as usize, slot);
        } else if was < key {
            self.sink(place as usize, slot);
        }
    }

    /// Gives a slot its key, or takes it out.
    #[inline]
    pub(super) fn set_or_remove(&mut self, slot: Slot, key: Option<K>) {
        match key {
            Some(key) => self.set(slot, key),
            None => self.remove(slot),
        }
    }

    /// Takes a slot out, if it is in.
    #[inline]
    pub(super) fn remove(&mut self, slot: Slot) {
        if let Some(place) = self.places.get_mut(slot as usize)
            && *place != NOWHERE
        {
            let hole = std::mem::replace(place, NOWHERE) as usize;
            self.fill(hole);
        }
    }

    /// Fills a hole with the last slot.
    fn fill(&mut self, mut hole: usize) {
        let Some(last) = self.heap.pop() else { return };
        if hole == self.heap.len() {
            return;
        }
        // It comes from the bottom and mostly belongs there: down with the hole
        // first, then up as far as need be.
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

    /// Puts a slot at a place, or above it.
    fn rise(&mut self, mut place: usize, slot: Slot) {
        let key = self.keys[slot as usize];
        while place > 0 {
            let above = (place - 1) / 2;
            let other = self.heap[above];
            if (self.keys[other as usize], other) <= (key, slot) {
                break;
            }
            self.put(place, other);
            place = above;
        }
        self.put(place, slot);
    }

    /// Puts a slot at a place, or below it.
    fn sink(&mut self, mut place: usize, slot: Slot) {
        let key = self.keys[slot as usize];
        loop {
            let mut below = 2 * place + 1;
            match self.heap.get(below..) {
                Some(&[left, right, ..]) => below += usize::from(self.is_before(right, left)),
                Some([_]) => {}
                _ => break,
            }
            let other = self.heap[below];
            if (key, slot) <= (self.keys[other as usize], other) {
                break;
            }
            self.put(place, other);
            place = below;
        }
        self.put(place, slot);
    }

    #[inline]
    fn is_before(&self, slot: Slot, other: Slot) -> bool {
        (self.keys[slot as usize], slot) < (self.keys[other as usize], other)
    }

    #[inline]
    fn put(&mut self, place: usize, slot: Slot) {
        self.heap[place] = slot;
        self.places[slot as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_first_equals_a_scan(
            moves in prop::collection::vec((0u32..20, prop::option::weighted(0.7, 0u64..10)), 1..200),
        ) {
            let mut order = Order::default();
            let mut keys = BTreeMap::new();
            let scan = |keys: &BTreeMap<u32, u64>| keys.iter().map(|(&slot, &key)| (key, slot)).min();
            for (slot, key) in moves {
                if let Some(key) = key {
                    order.set(slot, key);
                    keys.insert(slot, key);
                } else {
                    order.remove(slot);
                    keys.remove(&slot);
                }
                prop_assert_eq!(order.first(), scan(&keys));
            }
        }
    }
}
