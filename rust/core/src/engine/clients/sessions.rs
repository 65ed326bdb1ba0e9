//! Sessions, each of which takes a slot from its first request to the end of its last.

use super::graph::{Graph, each_edge};
use crate::error::Error;
use crate::time::NEVER;
use crate::trace::Trace;

/// The sessions of a trace. Requests that wait for each other are of one session, as an agent's and its helpers' are.
#[derive(Debug)]
pub(super) struct Sessions {
    /// By row: the first row of its session.
    of: Vec<u32>,
    /// By first row: requests of the session that have not ended.
    left: Vec<u32>,
    /// By first row: whether the session has a slot.
    open: Vec<bool>,
    /// Rows that wait for no answer, of sessions that have several: each after the first row of its session, in order.
    arrivals: Vec<(u32, u32)>,
}

impl Sessions {
    /// The sessions of a trace. A request without a session that waits for no other is one of its own.
    ///
    /// # Errors
    ///
    /// If a later turn waits for no answer: it would need no slot.
    pub(super) fn of(trace: &Trace, graph: &Graph) -> Result<Self, Error> {
        let rows = trace.len() as u32;
        let mut groups = Groups((0..rows).collect());
        each_edge(trace, |child, parent, _| groups.join(child, parent));
        if let Some(session) = &trace.session {
            let mut latest: Vec<Option<u32>> = vec![None; rows as usize];
            for row in 0..rows {
                let Some(before) = latest.get_mut(session[row as usize] as usize) else { continue };
                let Some(before) = before.replace(row) else { continue };
                if !waits(trace, row as usize) {
                    let rule = "a later turn of a session has a think time or parents where clients are limited by \
                                sessions, had neither";
                    return Err(Error::trace(row as usize, rule));
                }
                groups.join(row, before);
            }
        }
        let of: Vec<u32> = (0..rows).map(|row| groups.first(row)).collect();
        let mut left = vec![0; rows as usize];
        for &session in &of {
            left[session as usize] += 1;
        }
        let mut arrivals: Vec<_> =
            (0..rows).filter(|&row| !graph.waits(row)).map(|row| (of[row as usize], row)).collect();
        arrivals.sort_unstable();
        let several: Vec<_> =
            arrivals.chunk_by(|one, next| one.0 == next.0).filter(|rows| rows.len() > 1).collect();
        Ok(Self { open: vec![false; left.len()], arrivals: several.concat(), of, left })
    }

    /// The rows that wait for no answer of the session of a row, if it has several.
    pub(super) fn arrivals(&self, row: u32) -> &[(u32, u32)] {
        let session = self.of[row as usize];
        let start = self.arrivals.partition_point(|&(one, _)| one < session);
        let end = self.arrivals.partition_point(|&(one, _)| one <= session);
        &self.arrivals[start..end]
    }

    /// Whether the session of a row has a slot.
    pub(super) fn has_slot(&self, row: u32) -> bool {
        self.open[self.of[row as usize] as usize]
    }

    /// Opens the session of a row that is sent. Returns whether it was not open, so that it takes a slot.
    pub(super) fn open(&mut self, row: u32) -> bool {
        !std::mem::replace(&mut self.open[self.of[row as usize] as usize], true)
    }

    /// A row has ended. Returns whether it was the last of its session, which gives its slot back.
    pub(super) fn end(&mut self, row: u32) -> bool {
        let left = &mut self.left[self.of[row as usize] as usize];
        *left -= 1;
        *left == 0
    }
}

/// Whether a row waits for an answer, if there is a turn before it.
fn waits(trace: &Trace, row: usize) -> bool {
    let thinks = trace.waits.think.as_ref().is_some_and(|think| think[row] != NEVER);
    thinks || trace.waits.parents.as_ref().is_some_and(|parents| !parents.of(row).is_empty())
}

/// Rows in groups, each known by its first row.
struct Groups(Vec<u32>);

impl Groups {
    fn first(&mut self, row: u32) -> u32 {
        let mut row = row;
        while self.0[row as usize] != row {
            // Halving the path keeps later look-ups short.
            self.0[row as usize] = self.0[self.0[row as usize] as usize];
            row = self.0[row as usize];
        }
        row
    }

    fn join(&mut self, one: u32, other: u32) {
        let (one, other) = (self.first(one), self.first(other));
        self.0[one.max(other) as usize] = one.min(other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::fixtures::{row, trace};
    use crate::trace::{Parents, Waits};

    #[test]
    fn a_session_and_those_that_wait_for_it_are_one() {
        // 0 and 2 are turns; 1 waits for 0, and 3 for 1; 4 is alone.
        let requests: Vec<_> = (0..5).map(|at| row(at, 8, 2)).collect();
        let parents =
            Parents { ends: vec![0, 1, 1, 2, 2].into(), rows: vec![0, 1].into(), delay: vec![0; 5].into() };
        let none = u32::MAX;
        let trace = Trace {
            session: Some(vec![0, none, 0, none, none].into()),
            waits: Waits {
                think: Some(vec![NEVER, NEVER, 5, NEVER, NEVER].into()),
                parents: Some(parents),
                not_before: None,
                ..Waits::default()
            },
            ..trace(&requests)
        };
        let mut sessions = Sessions::of(&trace, &Graph::of(&trace)).unwrap();
        assert!(sessions.open(0) && !sessions.open(3), "the session has its slot");
        assert!(sessions.has_slot(2) && !sessions.has_slot(4));
        assert_eq!([0, 1, 2, 3, 4].map(|row| sessions.end(row)), [false, false, false, true, true]);
    }
}
