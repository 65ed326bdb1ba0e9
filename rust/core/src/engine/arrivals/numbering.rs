//! Numbers of requests in the order in which they arrive.

use crate::trace::{RequestNumber, Trace};

/// The place of each row of the trace while a source sends the rows in an order of its own.
///
/// The request that arrives as the nth is moved to the nth place of the trace's columns. So whatever the engine keeps by
/// row is in the order of arrival, as it is where the trace's own arrivals are replayed.
#[derive(Debug)]
pub(super) struct Numbering {
    /// By row of the trace: its place.
    places: Vec<u32>,
    /// How many have arrived.
    arrived: usize,
}

impl Numbering {
    /// Every row at its own place, and none arrived.
    pub(super) fn new(trace: &mut Trace) -> Self {
        let rows: Vec<u32> = (0..trace.len() as u32).collect();
        trace.origins = Some(rows.clone().into());
        Self { places: rows, arrived: 0 }
    }

    /// Adds `n` rows at the end of the trace, each at its own place.
    pub(super) fn grow(&mut self, n: usize) {
        let rows = self.places.len() as u32;
        self.places.extend(rows..rows + n as u32);
    }

    /// Moves a row of the trace to the next place, and returns that. A row that has arrived before is sent again: the columns
    /// get another place for it.
    pub(super) fn arrive(&mut self, row: u32, trace: &mut Trace) -> usize {
        let to = self.arrived;
        let mut from = self.places[row as usize] as usize;
        if from < to {
            trace.repeat(from);
            from = trace.len() - 1;
        }
        self.arrived += 1;
        let moved = trace.origin(RequestNumber(to as u32));
        trace.swap(from, to);
        self.places[moved.index()] = from as u32;
        self.places[row as usize] = to as u32;
        to
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::fixtures::{row, trace};

    #[test]
    fn a_request_that_is_sent_again_has_a_number_of_its_own() {
        let mut trace = trace(&[row(0, 10, 1), row(0, 11, 1), row(0, 12, 1)]);
        let mut numbering = Numbering::new(&mut trace);
        let numbers: Vec<_> = [1, 1, 0, 1, 2, 0].map(|row| numbering.arrive(row, &mut trace)).into();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
        assert_eq!(trace.prompt_tokens, [11, 11, 10, 11, 12, 10]);
        assert_eq!(trace.origins, Some(vec![1, 1, 0, 1, 2, 0].into()));
    }

    #[test]
    fn requests_are_numbered_as_they_arrive() {
        let mut trace = trace(&[row(0, 10, 1), row(0, 11, 1), row(0, 12, 1), row(0, 13, 1)]);
        let mut numbering = Numbering::new(&mut trace);
        let numbers: Vec<_> = [2, 0, 3, 1].map(|row| numbering.arrive(row, &mut trace)).into();
        assert_eq!(numbers, [0, 1, 2, 3]);
        assert_eq!(trace.prompt_tokens, [12, 10, 13, 11]);
        assert_eq!([0, 1, 2, 3].map(|number| trace.origin(RequestNumber(number)).0), [2, 0, 3, 1]);
    }
}
