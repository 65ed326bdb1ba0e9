//! The order in which the running requests were admitted.

use serde::{Deserialize, Serialize};

use super::super::request::{AdmissionSeq, RequestTable, Slot};

/// Running requests by admission sequence number. Entries of requests that have
/// left, or were admitted anew, are stale until the order is compacted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AdmissionOrder {
    entries: Vec<(AdmissionSeq, Slot)>,
    /// The number of the request that is put at the end next.
    next: AdmissionSeq,
    /// The lowest number given.
    first: AdmissionSeq,
    /// Entries with their classes, while they are sorted: kept for its memory.
    classed: Vec<(u8, Slot)>,
}

/// The number of the request that is put into an empty order: as many are below it as above.
const MIDDLE: AdmissionSeq = AdmissionSeq::MAX / 2;

impl Default for AdmissionOrder {
    fn default() -> Self {
        Self { entries: Vec::new(), next: MIDDLE, first: MIDDLE, classed: Vec::new() }
    }
}

/// Fewer entries than this are not worth compacting.
const FEW: usize = 64;

impl AdmissionOrder {
    /// Puts a request at the end. `running`: how many requests are admitted.
    pub(super) fn push(&mut self, slot: Slot, running: u64, requests: &mut RequestTable) {
        // Stale entries are dropped before they outnumber the others threefold.
        if self.entries.len() > FEW && self.entries.len() as u64 > 4 * running {
            self.compact(requests);
        }
        requests[slot].seq = self.next;
        self.entries.push((self.next, slot));
        self.next += 1;
    }

    /// Drops stale entries.
    #[inline(never)]
    pub(crate) fn compact(&mut self, requests: &RequestTable) {
        self.entries.retain(|&(seq, slot)| requests.counts(seq, slot));
    }

    /// Number of entries, stale ones included.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The slot of an entry.
    pub(crate) fn slot(&self, at: usize) -> Slot {
        self.entries[at].1
    }

    /// Removes an entry, and returns its slot.
    pub(crate) fn remove(&mut self, at: usize) -> Slot {
        self.entries.remove(at).1
    }

    /// Removes entries from the end, up to the first that is current. Returns its slot.
    pub(crate) fn pop_current(&mut self, requests: &RequestTable) -> Option<Slot> {
        while let Some((seq, slot)) = self.entries.pop() {
            if requests.is_current(seq, slot) {
                return Some(slot);
            }
        }
        None
    }

    /// Puts requests of the order before all others, in the order given. Where the last of all was among them, the one
    /// that is last now counts as admitted last.
    pub(super) fn move_to_front(&mut self, slots: &[Slot], requests: &mut RequestTable) {
        for &slot in slots.iter().rev() {
            let entry = (requests[slot].seq, slot);
            // They were admitted in this step, or shortly before.
            if let Some(at) = self.entries.iter().rposition(|&other| other == entry) {
                self.entries.remove(at);
            }
            self.first -= 1;
            requests[slot].seq = self.first;
            self.entries.insert(0, (self.first, slot));
        }
        if let Some(last) = self.pop_current(requests) {
            requests[last].seq = self.next;
            self.entries.push((self.next, last));
            self.next += 1;
        }
    }

    /// The slot of the request that was admitted last, if it still runs.
    pub(crate) fn last(&self) -> Option<Slot> {
        self.entries.last().map(|&(_, slot)| slot)
    }

    /// Slots of the running requests, in order.
    pub(crate) fn current<'a>(&'a self, requests: &'a RequestTable) -> impl Iterator<Item = Slot> + 'a {
        let current = self.entries.iter().filter(|&&(seq, slot)| requests.is_current(seq, slot));
        current.map(|&(_, slot)| slot)
    }

    /// The same, with those that have ended and that the step which is formed still counts as running.
    pub(crate) fn counted<'a>(&'a self, requests: &'a RequestTable) -> impl Iterator<Item = Slot> + 'a {
        let counted = self.entries.iter().filter(|&&(seq, slot)| requests.counts(seq, slot));
        counted.map(|&(_, slot)| slot)
    }

    /// Whether a request was the last to be admitted.
    pub(crate) fn is_last(&self, slot: Slot, requests: &RequestTable) -> bool {
        requests[slot].seq + 1 == self.next
    }

    /// Sorts the running requests by class, of which there are `classes`, stably, and renumbers them.
    pub(super) fn sort_by_class(
        &mut self,
        classes: u8,
        requests: &mut RequestTable,
        class: impl Fn(Slot, &RequestTable) -> u8,
    ) {
        let Self { entries, classed, next, .. } = self;
        let current = entries.drain(..).filter(|&(seq, slot)| requests.is_current(seq, slot));
        classed.extend(current.map(|(_, slot)| (class(slot, requests), slot)));
        for wanted in 0..classes {
            for &(_, slot) in classed.iter().filter(|&&(class, _)| class == wanted) {
                entries.push((*next, slot));
                requests[slot].seq = *next;
                *next += 1;
            }
        }
        debug_assert_eq!(entries.len(), classed.len(), "classes are counted from 0");
        classed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::request::Phase;
    use super::*;

    fn admitted(count: u32) -> (AdmissionOrder, RequestTable) {
        let (mut order, mut requests) = (AdmissionOrder::default(), RequestTable::default());
        for row in 0..count {
            let slot = requests.insert(row, 1, 1);
            requests[slot].phase = Phase::Prefilling;
            order.push(slot, u64::from(row) + 1, &mut requests);
        }
        (order, requests)
    }

    #[test]
    fn requests_that_left_are_skipped() {
        let (mut order, mut requests) = admitted(4);
        requests[1].phase = Phase::Preempted;
        requests.release(3);
        assert_eq!(order.current(&requests).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(order.pop_current(&requests), Some(2));
        order.compact(&requests);
        assert_eq!(order.len(), 1);
    }

    #[test]
    fn a_request_admitted_anew_goes_to_the_end() {
        let (mut order, mut requests) = admitted(3);
        order.push(0, 3, &mut requests);
        assert_eq!(order.current(&requests).collect::<Vec<_>>(), [1, 2, 0]);
        assert!(order.is_last(0, &requests) && !order.is_last(2, &requests));
    }

    #[test]
    fn stale_entries_do_not_pile_up() {
        let (mut order, mut requests) = admitted(1);
        for _ in 0..10_000 {
            order.push(0, 1, &mut requests);
        }
        assert!(order.len() <= FEW + 1);
        assert_eq!(admitted(FEW as u32 + 9).0.len(), FEW + 9, "all of these run");
    }

    #[test]
    fn requests_that_are_moved_to_the_front_keep_their_order() {
        let (mut order, mut requests) = admitted(5);
        order.move_to_front(&[3, 4], &mut requests);
        assert_eq!(order.current(&requests).collect::<Vec<_>>(), [3, 4, 0, 1, 2]);
        assert!(order.is_last(2, &requests) && !order.is_last(4, &requests));
        let numbers: Vec<_> = order.current(&requests).map(|slot| requests[slot].seq).collect();
        assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
        order.push(2, 5, &mut requests);
        order.move_to_front(&[2], &mut requests);
        assert_eq!(order.current(&requests).collect::<Vec<_>>(), [2, 3, 4, 0, 1]);
    }

    #[test]
    fn sorting_keeps_the_order_among_equals() {
        let (mut order, mut requests) = admitted(5);
        order.sort_by_class(2, &mut requests, |slot, _| u8::from(slot < 2));
        assert_eq!(order.current(&requests).collect::<Vec<_>>(), [2, 3, 4, 0, 1]);
    }
}
