//! Slots in order of a key that changes: whoever comes first is at hand, and
//! moving one costs the logarithm of their number.

use super::active::Slot;

/// No place.
const NOWHERE: u32 = u32::MAX;

/// A binary heap, smallest key first and equal keys by slot, that knows where
/// each slot stands: it holds one entry a slot, and none that is outdated.
#[derive(Debug, Clone)]
pub(super) struct Order<K> {
    nodes: Vec<(K, Slot)>,
    places: Vec<u32>,
}

impl<K> Default for Order<K> {
    fn default() -> Self {
        Self { nodes: Vec::new(), places: Vec::new() }
    }
}

impl<K: Copy + Ord> Order<K> {
    /// The first key and whose it is.
    #[inline]
    pub(super) fn first(&self) -> Option<(K, Slot)> {
        self.nodes.first().copied()
    }

    /// Gives a slot its key, whether it had one or not.
    pub(super) fn set(&mut self, slot: Slot, key: K) {
        let at = slot as usize;
        if at >= self.places.len() {
            self.places.resize(at + 1, NOWHERE);
        }
        let node = (key, slot);
        let place = self.places[at] as usize;
        if place == NOWHERE as usize {
            self.nodes.push(node);
            self.rise(self.nodes.len() - 1, node);
        } else if node < self.nodes[place] {
            self.rise(place, node);
        } else {
            self.sink(place, node);
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
        let place = self.places.get(slot as usize).copied().unwrap_or(NOWHERE);
        if place != NOWHERE {
            self.remove_at(place as usize);
        }
    }

    /// Takes the first out, if its key is at most `most`.
    #[inline]
    pub(super) fn pop_until(&mut self, most: K) -> Option<(K, Slot)> {
        let first = self.first().filter(|(key, _)| *key <= most)?;
        self.remove_at(0);
        Some(first)
    }

    fn remove_at(&mut self, place: usize) {
        let Some(last) = self.nodes.pop() else { return };
        if place == self.nodes.len() {
            self.places[last.1 as usize] = NOWHERE;
            return;
        }
        self.places[self.nodes[place].1 as usize] = NOWHERE;
        if place > 0 && last < self.nodes[(place - 1) / 2] {
            self.rise(place, last);
        } else {
            self.sink(place, last);
        }
    }

    /// Puts a node at a place, or above it.
    fn rise(&mut self, mut place: usize, node: (K, Slot)) {
        while place > 0 {
            let above = (place - 1) / 2;
            if self.nodes[above] <= node {
                break;
            }
            self.put(place, self.nodes[above]);
            place = above;
        }
        self.put(place, node);
    }

    /// Puts a node at a place, or below it.
    fn sink(&mut self, mut place: usize, node: (K, Slot)) {
        loop {
            let mut below = 2 * place + 1;
            if below >= self.nodes.len() {
                break;
            }
            if below + 1 < self.nodes.len() && self.nodes[below + 1] < self.nodes[below] {
                below += 1;
            }
            if node <= self.nodes[below] {
                break;
            }
            self.put(place, self.nodes[below]);
            place = below;
        }
        self.put(place, node);
    }

    #[inline]
    fn put(&mut self, place: usize, node: (K, Slot)) {
        self.nodes[place] = node;
        self.places[node.1 as usize] = place as u32;
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
            most in 0u64..10,
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
            while let Some(first) = scan(&keys).filter(|(key, _)| *key <= most) {
                prop_assert_eq!(order.pop_until(most), Some(first));
                keys.remove(&first.1);
            }
            prop_assert_eq!(order.pop_until(most), None);
        }
    }
}
