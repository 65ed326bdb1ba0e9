//! Which requests wait for the answers to which others.

use crate::time::{NEVER, Ticks};
use crate::trace::Trace;

/// In place of the number of answers that a row waits for: it is sent, or never will be.
const DONE: u32 = u32::MAX;

/// The requests that wait for others, by row of the trace.
#[derive(Debug)]
pub(super) struct Graph {
    /// The end of each row's children in `children`.
    ends: Vec<usize>,
    /// The rows that wait for each row, one list after another.
    children: Vec<u32>,
    /// How many answers each row still waits for.
    waits: Vec<u32>,
    /// Ticks from the last of these answers to the request.
    delays: Vec<Ticks>,
}

impl Graph {
    /// The turns of a trace that wait for the answer to the turn before them.
    pub(super) fn of(trace: &Trace) -> Self {
        let rows = trace.len();
        let mut parents = vec![None; rows];
        if let (Some(session), Some(think)) = (&trace.session, &trace.think) {
            let mut latest: Vec<Option<u32>> = vec![None; rows];
            for row in 0..rows {
                let Some(before) = latest.get_mut(session[row] as usize) else { continue };
                parents[row] = before.filter(|_| think[row] != NEVER);
                *before = Some(row as u32);
            }
        }
        let mut ends = vec![0; rows];
        for &parent in parents.iter().flatten() {
            ends[parent as usize] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum;
        }
        let (mut children, mut at) = (vec![0; sum], ends.clone());
        for (row, parent) in (0..rows as u32).zip(&parents).rev() {
            if let Some(parent) = parent {
                at[*parent as usize] -= 1;
                children[at[*parent as usize]] = row;
            }
        }
        let waits = parents.iter().map(|parent| u32::from(parent.is_some())).collect();
        Self { ends, children, waits, delays: trace.think.clone().unwrap_or_default() }
    }

    /// Whether a row waits for an answer, or did.
    pub(super) fn waits(&self, row: u32) -> bool {
        self.waits[row as usize] > 0
    }

    /// The places of a row's children, for [`Self::child`].
    pub(super) fn children(&self, row: u32) -> std::ops::Range<usize> {
        let start = if row == 0 { 0 } else { self.ends[row as usize - 1] };
        start..self.ends[row as usize]
    }

    /// The row of a child.
    pub(super) fn child(&self, place: usize) -> u32 {
        self.children[place]
    }

    /// A child has one of the answers that it waits for. Returns the ticks until it is sent, if that was the last.
    pub(super) fn answer(&mut self, child: u32) -> Option<Ticks> {
        let left = &mut self.waits[child as usize];
        *left -= 1;
        if *left > 0 {
            return None;
        }
        // It is not an arrival of the trace, though it waits no longer.
        *left = DONE;
        Some(self.delays[child as usize])
    }

    /// The first row that is a later turn of a session, and arrives whatever the turn before it does.
    pub(super) fn ignores_session(trace: &Trace) -> Option<usize> {
        let session = trace.session.as_ref()?;
        let mut seen = vec![false; session.len()];
        (0..session.len()).find(|&row| {
            let again = seen.get_mut(session[row] as usize).is_some_and(|seen| std::mem::replace(seen, true));
            again && trace.think.as_ref().is_none_or(|think| think[row] == NEVER)
        })
    }

    /// Takes a row out that waits for an answer which does not come. Returns whether it was not out yet.
    pub(super) fn cut(&mut self, row: u32) -> bool {
        let waits = &mut self.waits[row as usize];
        std::mem::replace(waits, DONE) != DONE
    }
}
