//! Requests that wait for the answers to others: turns of sessions, and children of requests before them.

use serde::{Deserialize, Serialize};

use super::{Cancels, check_ends};
use crate::collections::Column;
use crate::error::Error;
use crate::time::{HORIZON, NEVER, Ticks};

/// The answers that requests wait for, and for how long their clients do, by row of the trace. A request that waits for nothing arrives when its row says.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Waits {
    /// Ticks from the answer to the turn before in its session to the request; [`NEVER`](crate::NEVER): it does not wait for
    /// that answer.
    pub think: Option<Column<Ticks>>,
    /// The requests to whose answers it waits.
    pub parents: Option<Parents>,
    /// The earliest moment of a request that waits for an answer.
    pub not_before: Option<Column<Ticks>>,
    /// When clients no longer wait for the answers themselves.
    pub cancels: Cancels,
}

/// The requests for whose answers others wait, one list after another.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Parents {
    /// The end of each request's parents in `rows`.
    pub ends: Column<usize>,
    /// Their rows. A parent's row is before that of its child.
    pub rows: Column<u32>,
    /// Ticks from the end of the last parent to the request.
    pub delay: Column<Ticks>,
}

impl Parents {
    /// The parents of a request, by its row in the trace.
    pub(crate) fn of(&self, row: usize) -> &[u32] {
        super::of_row(&self.ends, &self.rows, row)
    }
}

impl Waits {
    /// Whether no request waits for another.
    pub fn is_empty(&self) -> bool {
        self.think.is_none() && self.parents.is_none()
    }

    /// Each column with its number of values.
    pub(super) fn lengths(&self) -> [(&'static str, Option<usize>); 4] {
        [
            ("think", self.think.as_ref().map(Column::len)),
            ("not_before", self.not_before.as_ref().map(Column::len)),
            ("parent_ends", self.parents.as_ref().map(|parents| parents.ends.len())),
            ("delay", self.parents.as_ref().map(|parents| parents.delay.len())),
        ]
    }

    /// Checks the rules that the engine relies on.
    pub(super) fn validate(&self) -> Result<(), Error> {
        self.cancels.validate()?;
        let delay = self.parents.as_ref().map(|parents| &parents.delay);
        let columns =
            [("think", self.think.as_ref()), ("delay", delay), ("not_before", self.not_before.as_ref())];
        for (name, column) in columns {
            let late = |&at: &Ticks| at > HORIZON && at != NEVER;
            if let Some(row) = column.and_then(|column| column.iter().position(late)) {
                return Err(Error::trace(row, format!("{name} lies within 186 days, {HORIZON} ticks")));
            }
        }
        let Some(parents) = &self.parents else { return Ok(()) };
        check_ends("parent", &parents.ends, parents.rows.len())?;
        for row in 0..parents.ends.len() {
            if let Some(parent) = parents.of(row).iter().find(|&&parent| parent as usize >= row) {
                let rule = format!("a parent's row is before that of its child, was {parent}");
                return Err(Error::trace(row, rule));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(parents: Parents) -> String {
        Waits { parents: Some(parents), ..Waits::default() }.validate().unwrap_err().to_string()
    }

    #[test]
    fn a_parent_stands_before_its_child() {
        let parents = |rows: Vec<u32>| Parents {
            ends: vec![0, rows.len()].into(),
            rows: rows.into(),
            delay: vec![0, 0].into(),
        };
        let good = Waits { parents: Some(parents(vec![0])), ..Waits::default() };
        assert_eq!(good.validate(), Ok(()));
        assert!(said(parents(vec![1])).contains("row 1 of the trace: a parent's row is before"));
        assert!(said(parents(vec![0, 7])).contains("was 7"));
    }

    #[test]
    fn delays_lie_within_the_clock() {
        let parents =
            Parents { ends: vec![0, 1].into(), rows: vec![0].into(), delay: vec![0, HORIZON + 1].into() };
        assert!(said(parents).contains("row 1 of the trace: delay lies within 186 days"));
    }
}
