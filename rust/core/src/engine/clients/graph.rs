//! Which requests wait for the answers to which others, and until when.

use crate::collections::Column;
use crate::time::{NEVER, Ticks};
use crate::trace::Trace;

/// In place of the number of answers that a row waits for: it is sent, or never will be.
const DONE: u32 = u32::MAX;

/// A request waits for the answer to another.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Edge {
    /// The row that waits.
    pub(super) child: u32,
    /// Ticks from the answer to the earliest moment of the request.
    delay: Ticks,
}

/// The requests that wait for others, by row of the trace.
#[derive(Debug)]
pub(super) struct Graph {
    /// The end of each row's edges in `edges`.
    ends: Vec<usize>,
    /// The edges to the children of each row, one list after another.
    edges: Vec<Edge>,
    /// How many answers each row still waits for.
    waits: Vec<u32>,
    /// The earliest moment of each row by the answers so far.
    earliest: Vec<Ticks>,
}

/// Calls `edge` with each row and each row whose answer it waits for, and the ticks between the two, in order of the rows.
pub(super) fn each_edge(trace: &Trace, mut edge: impl FnMut(u32, u32, Ticks)) {
    let rows = trace.len();
    let turns = trace.session.as_ref().zip(trace.waits.think.as_ref());
    let mut latest: Vec<Option<u32>> = vec![None; if turns.is_some() { rows } else { 0 }];
    for row in 0..rows {
        if let Some((session, think)) = turns
            && let Some(before) = latest.get_mut(session[row] as usize)
        {
            let before = before.replace(row as u32);
            if let Some(before) = before.filter(|_| think[row] != NEVER) {
                edge(row as u32, before, think[row]);
            }
        }
        if let Some(parents) = &trace.waits.parents {
            for &parent in parents.of(row) {
                edge(row as u32, parent, parents.delay[row]);
            }
        }
    }
}

impl Graph {
    /// The requests of a trace that wait for the turn before them in their session, or for their parents.
    pub(super) fn of(trace: &Trace) -> Self {
        let rows = trace.len();
        let (mut ends, mut waits) = (vec![0; rows], vec![0; rows]);
        each_edge(trace, |child, parent, _| {
            ends[parent as usize] += 1;
            waits[child as usize] += 1;
        });
        let mut sum = 0;
        for end in &mut ends {
            sum += std::mem::replace(end, sum);
        }
        // Each end is where the row's edges start, until they are filled in.
        let mut edges = vec![Edge::default(); sum];
        each_edge(trace, |child, parent, delay| {
            let at = &mut ends[parent as usize];
            edges[*at] = Edge { child, delay };
            *at += 1;
        });
        let earliest = trace.waits.not_before.clone().map_or_else(|| vec![0; rows], Column::into_vec);
        Self { ends, edges, waits, earliest }
    }

    /// Whether a row waits for an answer, or did.
    pub(super) fn waits(&self, row: u32) -> bool {
        self.waits[row as usize] > 0
    }

    /// The places of a row's edges to its children, for [`Self::edge`].
    pub(super) fn children(&self, row: u32) -> std::ops::Range<usize> {
        let start = if row == 0 { 0 } else { self.ends[row as usize - 1] };
        start..self.ends[row as usize]
    }

    /// An edge.
    pub(super) fn edge(&self, place: usize) -> Edge {
        self.edges[place]
    }

    /// An answer has come at `now`. Returns when the child is sent, if that was the last for which it waits.
    pub(super) fn answer(&mut self, edge: Edge, now: Ticks) -> Option<Ticks> {
        let row = edge.child as usize;
        let left = &mut self.waits[row];
        if *left == DONE {
            return None;
        }
        *left -= 1;
        let earliest = self.earliest[row].max(now.saturating_add(edge.delay));
        self.earliest[row] = earliest;
        if *left > 0 {
            return None;
        }
        // It is not an arrival of the trace, though it waits no longer.
        *left = DONE;
        Some(earliest)
    }

    /// Takes a row out of the arrivals of the trace and of those that wait for answers. Returns whether it was not out yet.
    pub(super) fn take_out(&mut self, row: u32) -> bool {
        let waits = &mut self.waits[row as usize];
        std::mem::replace(waits, DONE) != DONE
    }
}
