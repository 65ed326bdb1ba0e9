//! Requests that were submitted and have not arrived.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::source::Source;
use crate::metrics::Status;
use crate::time::{NEVER, Ticks};

/// A source of requests that are added while it sends.
#[derive(Debug, Default)]
pub(in crate::engine) struct Submitted {
    /// By row: when the request is sent.
    arrivals: Vec<Ticks>,
    /// Requests that were not sent, in the order of their moments, and then of their submission.
    left: BinaryHeap<Reverse<(Ticks, u32)>>,
    /// Whether no more follow.
    closed: bool,
}

impl Submitted {
    /// Adds requests that are sent at these moments.
    pub(in crate::engine) fn push(&mut self, arrivals: &[Ticks]) {
        let before = self.arrivals.len() as u32;
        self.left.extend((before..).zip(arrivals).map(|(row, &at)| Reverse((at, row))));
        self.arrivals.extend_from_slice(arrivals);
    }

    /// Notes that no more follow.
    pub(in crate::engine) fn close(&mut self) {
        self.closed = true;
    }

    /// By row: its place in the order of the moments, and then of submission.
    pub(in crate::engine) fn places(&self) -> Vec<u32> {
        let mut rows: Vec<u32> = (0..self.arrivals.len() as u32).collect();
        rows.sort_by_key(|&row| self.arrivals[row as usize]);
        let mut places = vec![0; rows.len()];
        for (place, row) in (0..).zip(rows) {
            places[row as usize] = place;
        }
        places
    }
}

impl Source for Submitted {
    fn next(&self) -> Ticks {
        self.left.peek().map_or(NEVER, |first| first.0.0)
    }

    fn send(&mut self) -> u32 {
        self.left.pop().expect("Invariant: a request is sent only if one is left").0.1
    }

    fn end(&mut self, _: u32, _: Status, _: Ticks) {}

    fn expected(&self) -> u64 {
        if self.closed { self.arrivals.len() as u64 } else { u64::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_sent_in_the_order_of_their_moments() {
        let mut submitted = Submitted::default();
        submitted.push(&[5, 9, 5]);
        assert_eq!((submitted.next(), submitted.send(), submitted.send()), (5, 0, 2));
        submitted.push(&[7]);
        assert_eq!((submitted.next(), submitted.send(), submitted.send()), (7, 3, 1));
        assert_eq!((submitted.next(), submitted.expected()), (NEVER, u64::MAX));
        submitted.close();
        assert_eq!((submitted.expected(), submitted.places()), (4, vec![0, 3, 1, 2]));
    }
}
