//! The rows of requests that are held, in order of arrival, and those of each kind together.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::policy::Kind;

/// The held requests in order of arrival, and by kind.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Queue {
    /// By kind: its rows, in order.
    kinds: BTreeMap<Kind, VecDeque<u32>>,
    /// The first row of each kind, and the kind.
    firsts: BTreeMap<u32, Kind>,
    /// How many rows there are of each router.
    of_router: Vec<usize>,
    /// How many routers have rows.
    routers: usize,
    /// How many rows there are.
    count: usize,
}

impl Queue {
    /// No rows, of so many routers.
    pub(super) fn new(routers: usize) -> Self {
        Self {
            kinds: BTreeMap::new(),
            firsts: BTreeMap::new(),
            of_router: vec![0; routers],
            routers: 0,
            count: 0,
        }
    }

    /// How many rows there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// How many routers have rows.
    pub(super) fn routers(&self) -> usize {
        self.routers
    }

    /// Adds a row after all others.
    pub(super) fn push(&mut self, row: u32, kind: Kind) {
        let rows = self.kinds.entry(kind).or_default();
        if rows.is_empty() {
            self.firsts.insert(row, kind);
        }
        rows.push_back(row);
        let of_router = &mut self.of_router[kind.router()];
        self.routers += usize::from(*of_router == 0);
        *of_router += 1;
        self.count += 1;
    }

    /// Removes a row. Returns whether it was the first of its kind.
    pub(super) fn remove(&mut self, row: u32, kind: &Kind) -> bool {
        let Some(rows) = self.kinds.get_mut(kind) else { return false };
        let Ok(at) = rows.binary_search(&row) else { return false };
        rows.remove(at);
        let next = rows.front().copied();
        if next.is_none() {
            self.kinds.remove(kind);
        }
        if at == 0 {
            self.firsts.remove(&row);
            self.firsts.extend(next.map(|next| (next, *kind)));
        }
        let of_router = &mut self.of_router[kind.router()];
        *of_router -= 1;
        self.routers -= usize::from(*of_router == 0);
        self.count -= 1;
        at == 0
    }

    /// The first row, and its kind.
    pub(super) fn first(&self) -> Option<(u32, Kind)> {
        self.first_from(0)
    }

    /// The first row from a row on that is the first of its kind, and the kind.
    pub(super) fn first_from(&self, row: u32) -> Option<(u32, Kind)> {
        self.firsts.range(row..).next().map(|(&row, &kind)| (row, kind))
    }

    /// The first row of a kind after a row.
    pub(super) fn next_alike(&self, row: u32, kind: &Kind) -> Option<u32> {
        let rows = self.kinds.get(kind)?;
        rows.get(rows.partition_point(|&other| other <= row)).copied()
    }

    /// All rows, by kind.
    pub(super) fn rows(&self) -> impl Iterator<Item = u32> {
        self.kinds.values().flatten().copied()
    }
}
