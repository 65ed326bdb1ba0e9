//! Ids in order of their keys, most of which leave in that order, or leave unseen.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::Id;

/// How many entries of removed ids there may be beside those of present ones.
const SPARE: usize = 64;

/// An entry: a key, its id, and which of the id's keys it is.
type Entry<K> = (K, Id, u32);

/// The first of a set of ids by key.
///
/// A key that follows all others of its line is appended to the line; any other is in a heap. Removing an id leaves its
/// entry behind, which is dropped once it is the first, or once there are more of such entries than of others.
#[derive(Debug)]
pub(crate) struct LazyOrder<K> {
    first: Option<(K, Id)>,
    lines: Vec<VecDeque<Entry<K>>>,
    heap: BinaryHeap<Reverse<Entry<K>>>,
    /// By id: its latest key.
    latest: Vec<Latest>,
    /// Entries in the lines and in the heap whose ids have the key.
    current: [usize; 2],
    /// Entries in the lines.
    in_lines: usize,
}

/// The latest key of an id.
#[derive(Debug, Clone, Copy, Default)]
struct Latest {
    /// Its number.
    number: u32,
    /// Where its entry is.
    place: Place,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// Nowhere: the id has no key.
    #[default]
    Absent,
    Line,
    Heap,
}

impl<K: Ord + Copy> LazyOrder<K> {
    /// An empty order with so many lines.
    pub(crate) fn new(lines: usize) -> Self {
        Self {
            first: None,
            lines: (0..lines).map(|_| VecDeque::new()).collect(),
            heap: BinaryHeap::new(),
            latest: Vec::new(),
            current: [0; 2],
            in_lines: 0,
        }
    }

    /// The first key and its id.
    #[inline]
    pub(crate) fn first(&self) -> Option<(K, Id)> {
        self.first
    }

    /// Sets the key of an id, whether or not it had one. `line`: the line that the key may be appended to.
    pub(crate) fn set(&mut self, id: Id, key: K, line: usize) {
        self.remove(id);
        let at = id as usize;
        if at >= self.latest.len() {
            self.latest.resize(at + 1, Latest::default());
        }
        let latest = &mut self.latest[at];
        let entry = (key, id, latest.number);
        let line = &mut self.lines[line];
        if line.back().is_none_or(|last| (last.0, last.1) < (key, id)) {
            line.push_back(entry);
            latest.place = Place::Line;
            self.current[0] += 1;
            self.in_lines += 1;
        } else {
            self.heap.push(Reverse(entry));
            latest.place = Place::Heap;
            self.current[1] += 1;
        }
        if self.first.is_none_or(|first| (key, id) < first) {
            self.first = Some((key, id));
        }
    }

    /// Removes an id, if it has a key.
    pub(crate) fn remove(&mut self, id: Id) {
        let Some(latest) = self.latest.get_mut(id as usize).filter(|latest| latest.place != Place::Absent)
        else {
            return;
        };
        let left = std::mem::take(&mut latest.place);
        latest.number = latest.number.wrapping_add(1);
        self.current[usize::from(left == Place::Heap)] -= 1;
        self.drop_outdated();
        if self.first.is_some_and(|first| first.1 == id) {
            self.find_first();
        }
    }

    /// Drops the entries of removed ids where they are more than the others.
    #[inline]
    fn drop_outdated(&mut self) {
        let Self { lines, heap, latest, current, in_lines, .. } = self;
        if *in_lines > 2 * current[0] + SPARE {
            for line in lines.iter_mut() {
                line.retain(|entry| is_current(latest, entry));
            }
            *in_lines = current[0];
        }
        if heap.len() > 2 * current[1] + SPARE {
            heap.retain(|Reverse(entry)| is_current(latest, entry));
        }
    }

    /// Finds the first key. Drops the entries before it.
    fn find_first(&mut self) {
        let Self { first, lines, heap, latest, in_lines, .. } = self;
        *first = None;
        for line in lines {
            while line.front().is_some_and(|entry| !is_current(latest, entry)) {
                line.pop_front();
                *in_lines -= 1;
            }
            let front = line.front().map(|&(key, id, _)| (key, id));
            *first = (*first).into_iter().chain(front).min();
        }
        while heap.peek().is_some_and(|Reverse(entry)| !is_current(latest, entry)) {
            heap.pop();
        }
        let top = heap.peek().map(|&Reverse((key, id, _))| (key, id));
        *first = (*first).into_iter().chain(top).min();
    }
}

/// Whether an entry is of the present key of its id.
#[inline]
fn is_current<K>(latest: &[Latest], entry: &Entry<K>) -> bool {
    latest[entry.1 as usize].number == entry.2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_first_equals_that_of_a_scan(
            moves in prop::collection::vec((0u32..120, prop::option::weighted(0.7, 0u64..30), 0usize..2), 1..900),
            rises in any::<bool>(),
        ) {
            let (mut order, mut expected) = (LazyOrder::new(2), BTreeMap::new());
            for (at, (id, key, line)) in moves.into_iter().enumerate() {
                // Keys that rise are mostly appended.
                let key = key.map(|key| key + if rises { 10 * at as u64 } else { 0 });
                match key {
                    Some(key) => {
                        order.set(id, key, line);
                        expected.insert(id, key);
                    }
                    None => {
                        order.remove(id);
                        expected.remove(&id);
                    }
                }
                prop_assert_eq!(order.first(), expected.iter().map(|(&id, &key)| (key, id)).min());
                prop_assert!(order.heap.len() + order.in_lines <= 2 * (expected.len() + SPARE + 1));
                prop_assert_eq!(order.in_lines, order.lines.iter().map(VecDeque::len).sum::<usize>());
            }
        }
    }
}
