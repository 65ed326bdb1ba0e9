//! Ids in order of their keys, most of which leave in that order, or leave unseen.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::Id;

/// How many entries of removed ids a group may have beside those of present ones.
const SPARE: usize = 64;

/// An entry: a key, its id, and which of the id's keys it is.
type Entry<K> = (K, Id, u32);

/// The first of a set of ids by key, where keys come in groups: those of a group precede those of the next.
///
/// Only the first group that has ids is kept in order. In it, a key that follows all others of the group's line is
/// appended to the line; any other is in a heap. Removing an id leaves its entry behind, which is dropped once it is the
/// first, or once there are more of such entries than of others. Once the first id is removed, the next is found by
/// [`Self::settle`], so that no order is made for one that is not asked for.
#[derive(Debug)]
pub(crate) struct LazyOrder<K> {
    first: Option<(K, Id)>,
    /// Whether `first` is the first; if not, it is yet to be found.
    settled: bool,
    groups: Vec<Group<K>>,
    /// By id: its latest key.
    latest: Vec<Latest>,
}

/// The latest key of an id.
#[derive(Debug, Clone, Copy, Default)]
struct Latest {
    /// Its number.
    number: u32,
    /// Its group, counted from 1; 0: the id has no key.
    group: u32,
}

/// The keys of a group.
#[derive(Debug)]
struct Group<K> {
    line: VecDeque<Entry<K>>,
    heap: BinaryHeap<Reverse<Entry<K>>>,
    /// Entries that came while an earlier group had ids, or the first was not known.
    unsorted: Vec<Entry<K>>,
    /// Ids that have a key in the group.
    present: usize,
}

impl<K: Ord + Copy> Group<K> {
    fn new() -> Self {
        Self { line: VecDeque::new(), heap: BinaryHeap::new(), unsorted: Vec::new(), present: 0 }
    }

    /// Puts an entry in order.
    fn add(&mut self, entry: Entry<K>) {
        if self.line.back().is_none_or(|last| (last.0, last.1) < (entry.0, entry.1)) {
            self.line.push_back(entry);
        } else {
            self.heap.push(Reverse(entry));
        }
    }

    /// Puts the entries in order that are not yet.
    #[inline(never)]
    fn sort(&mut self, latest: &[Latest]) {
        for entry in std::mem::take(&mut self.unsorted) {
            if is_current(latest, &entry) {
                self.add(entry);
            }
        }
    }

    /// The first entry, once the outdated ones before it are dropped.
    fn first(&mut self, latest: &[Latest]) -> Option<(K, Id)> {
        if !self.unsorted.is_empty() {
            self.sort(latest);
        }
        while self.line.front().is_some_and(|entry| !is_current(latest, entry)) {
            self.line.pop_front();
        }
        while self.heap.peek().is_some_and(|Reverse(entry)| !is_current(latest, entry)) {
            self.heap.pop();
        }
        let front = self.line.front().map(|&(key, id, _)| (key, id));
        match (front, self.heap.peek()) {
            (Some(front), Some(&Reverse((key, id, _)))) => Some(front.min((key, id))),
            (None, Some(&Reverse((key, id, _)))) => Some((key, id)),
            (front, None) => front,
        }
    }

    /// Number of entries.
    fn len(&self) -> usize {
        self.line.len() + self.heap.len() + self.unsorted.len()
    }

    /// Drops the outdated entries.
    #[inline(never)]
    fn drop_outdated(&mut self, latest: &[Latest]) {
        self.line.retain(|entry| is_current(latest, entry));
        self.heap.retain(|Reverse(entry)| is_current(latest, entry));
        self.unsorted.retain(|entry| is_current(latest, entry));
    }
}

impl<K: Ord + Copy> LazyOrder<K> {
    /// An empty order of so many groups.
    pub(crate) fn new(groups: usize) -> Self {
        let groups = (0..groups).map(|_| Group::new()).collect();
        Self { first: None, settled: true, groups, latest: Vec::new() }
    }

    /// The first key and its id, once the order is [settled](Self::settle).
    #[inline]
    pub(crate) fn first(&self) -> Option<(K, Id)> {
        debug_assert!(self.settled, "Invariant: the first is known");
        self.first
    }

    /// Finds the first, if it was removed.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if !self.settled {
            let (groups, latest) = (&mut self.groups, &self.latest);
            let first = groups.iter_mut().find(|group| group.present > 0);
            self.first = first.and_then(|group| group.first(latest));
            self.settled = true;
        }
    }

    /// Sets the key of an id, whether or not it had one, which belongs to a group.
    pub(crate) fn set(&mut self, id: Id, key: K, group: usize) {
        self.remove(id);
        let at = id as usize;
        if at >= self.latest.len() {
            self.latest.resize(at + 1, Latest::default());
        }
        let latest = &mut self.latest[at];
        latest.group = group as u32 + 1;
        let entry = (key, id, latest.number);
        let follows = !self.settled || self.groups[..group].iter().any(|earlier| earlier.present > 0);
        let group = &mut self.groups[group];
        group.present += 1;
        if follows {
            group.unsorted.push(entry);
            return;
        }
        group.add(entry);
        if self.first.is_none_or(|first| (key, id) < first) {
            self.first = Some((key, id));
        }
    }

    /// Removes an id, if it has a key.
    pub(crate) fn remove(&mut self, id: Id) {
        let Some(latest) = self.latest.get_mut(id as usize).filter(|latest| latest.group > 0) else { return };
        let group = std::mem::take(&mut latest.group) as usize - 1;
        latest.number = latest.number.wrapping_add(1);
        let left = &mut self.groups[group];
        left.present -= 1;
        if left.len() > 2 * left.present + SPARE {
            left.drop_outdated(&self.latest);
        }
        if self.settled && self.first.is_some_and(|first| first.1 == id) {
            (self.first, self.settled) = (None, false);
        }
    }
}

/// Whether an entry is of the present key of its id.
#[inline]
fn is_current<K>(latest: &[Latest], entry: &Entry<K>) -> bool {
    let latest = latest[entry.1 as usize];
    latest.number == entry.2 && latest.group > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_first_equals_that_of_a_scan(
            moves in prop::collection::vec((0u32..120, prop::option::weighted(0.7, 0u64..30), 0usize..3), 1..900),
            rises in any::<bool>(),
        ) {
            let (mut order, mut expected) = (LazyOrder::new(3), BTreeMap::new());
            for (at, (id, key, group)) in moves.into_iter().enumerate() {
                // Keys that rise are mostly appended.
                let key = key.map(|key| (group, key + if rises { 10 * at as u64 } else { 0 }));
                if let Some(key) = key {
                    order.set(id, key, group);
                    expected.insert(id, key);
                } else {
                    order.remove(id);
                    expected.remove(&id);
                }
                if at % 3 == 0 {
                    continue;
                }
                order.settle();
                prop_assert_eq!(order.first(), expected.iter().map(|(&id, &key)| (key, id)).min());
                let entries: usize = order.groups.iter().map(Group::len).sum();
                prop_assert!(entries <= 2 * expected.len() + 3 * (SPARE + 1));
            }
        }
    }
}
