//! Slots in order of a key that changes: whoever comes first is at hand, and
//! moving one costs the logarithm of their number.

use super::active::Slot;

/// No place.
const NOWHERE: u32 = u32::MAX;

/// What slots are ordered by.
pub(super) trait Key: Copy {
    /// A key with its slot, in one thing that is cheap to compare.
    type Node: Copy + Ord;
    fn node(self, slot: Slot) -> Self::Node;
    fn slot(node: Self::Node) -> Slot;
    fn key(node: Self::Node) -> Self;
}

impl Key for u64 {
    type Node = u128;

    #[inline]
    fn node(self, slot: Slot) -> u128 {
        u128::from(self) << 32 | u128::from(slot)
    }

    #[inline]
    fn slot(node: u128) -> Slot {
        node as u32
    }

    #[inline]
    fn key(node: u128) -> Self {
        (node >> 32) as u64
    }
}

/// A binary heap, smallest key first and equal keys by slot, that knows where
/// each slot stands: it holds one entry a slot, and none that is outdated.
#[derive(Debug, Clone)]
pub(super) struct Order<K: Key> {
    nodes: Vec<K::Node>,
    places: Vec<u32>,
}

impl<K: Key> Default for Order<K> {
    fn default() -> Self {
        Self { nodes: Vec::new(), places: Vec::new() }
    }
}

impl Order<u64> {
    /// The first key, or the largest number there is.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.nodes.first().map_or(u64::MAX, |&node| u64::key(node))
    }
}

impl<K: Key> Order<K> {
    /// The first key and whose it is.
    #[inline]
    pub(super) fn first(&self) -> Option<(K, Slot)> {
        self.nodes.first().map(|&node| (K::key(node), K::slot(node)))
    }

    /// A slot's key, if it has one.
    #[inline]
    pub(super) fn key(&self, slot: Slot) -> Option<K> {
        let place = *self.places.get(slot as usize).filter(|place| **place != NOWHERE)?;
        Some(K::key(self.nodes[place as usize]))
    }

    /// Gives a slot its key, whether it had one or not.
    pub(super) fn set(&mut self, slot: Slot, key: K) {
        let at = slot as usize;
        if at >= self.places.len() {
            self.places.resize(at + 1, NOWHERE);
        }
        let node = key.node(slot);
        let place = self.places[at];
        if place == NOWHERE {
            self.nodes.push(node);
            self.rise(self.nodes.len() - 1, node);
            return;
        }
        let place = place as usize;
        if node < self.nodes[place] {
            self.rise(place, node);
        } else if node > self.nodes[place] {
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
        if let Some(place) = self.places.get_mut(slot as usize)
            && *place != NOWHERE
        {
            let hole = std::mem::replace(place, NOWHERE) as usize;
            self.fill(hole);
        }
    }

    /// Fills a hole with the last node.
    fn fill(&mut self, mut hole: usize) {
        let Some(last) = self.nodes.pop() else { return };
        if hole == self.nodes.len() {
            return;
        }
        // It comes from the bottom and mostly belongs there: down with the hole
        // first, then up as far as need be.
        loop {
            let below = 2 * hole + 1;
            let Some([left, right]) = self.nodes.get(below..below + 2) else { break };
            let below = below + usize::from(right < left);
            self.put(hole, self.nodes[below]);
            hole = below;
        }
        if let Some(&only) = self.nodes.get(2 * hole + 1) {
            self.put(hole, only);
            hole = 2 * hole + 1;
        }
        self.rise(hole, last);
    }

    /// Puts a node at a place, or above it.
    fn rise(&mut self, mut place: usize, node: K::Node) {
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
    fn sink(&mut self, mut place: usize, node: K::Node) {
        loop {
            let mut below = 2 * place + 1;
            match self.nodes.get(below..) {
                Some([left, right, ..]) => below += usize::from(right < left),
                Some([_]) => {}
                _ => break,
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
    fn put(&mut self, place: usize, node: K::Node) {
        self.nodes[place] = node;
        self.places[K::slot(node) as usize] = place as u32;
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
