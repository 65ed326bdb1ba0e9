//! A log of what steps do with the host's part of a tree.

use crate::kv::link::Interval;
use crate::kv::memory::Memory;
use crate::time::Ticks;

/// The actions of a step on the host's part of a tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct CopyRow {
    /// When it is formed, and when its forward pass begins.
    pub(crate) start: Ticks,
    pub(crate) begins: Ticks,
    /// Admissions: the request, its tokens on the GPU, and those that are loaded.
    pub(crate) hits: Vec<(u32, u32, u32)>,
    /// Its copies from the host and to it, by number.
    pub(crate) loads: Vec<u32>,
    pub(crate) stores: Vec<u32>,
    /// Blocks on the host once it is formed; those evicted, and nodes that found no room.
    pub(crate) on_host: u64,
    pub(crate) evicted: u64,
    pub(crate) refused: u64,
}

/// The steps that changed anything on the host, and the copies.
#[derive(Debug, Clone, Default)]
pub(crate) struct CopyLog {
    pub(crate) rows: Vec<CopyRow>,
    /// Whether each copy is to the host, its blocks, the start of the step before it, and when it is made.
    pub(crate) copies: Vec<(bool, u64, Ticks, Interval)>,
    /// The step that is formed.
    pub(super) row: CopyRow,
    /// The blocks on the host after the last row, and those evicted and refused until then.
    before: (u64, u64, u64),
}

impl CopyLog {
    /// Begins a step at `now`.
    pub(super) fn open(&mut self, now: Ticks, memory: &Memory) {
        let counters = memory.host_counters();
        (self.before.1, self.before.2) = (counters.evicted, counters.refused);
        self.row = CopyRow { start: now, ..CopyRow::default() };
    }

    /// A copy is given to its link.
    pub(super) fn copied(&mut self, to_host: bool, blocks: u64, interval: Interval) {
        let id = self.copies.len() as u32;
        let list = if to_host { &mut self.row.stores } else { &mut self.row.loads };
        list.push(id);
        self.copies.push((to_host, blocks, self.row.start, interval));
    }

    /// The step is formed, and its forward pass begins at `begins`. A step that changes nothing has no row.
    pub(super) fn close(&mut self, begins: Ticks, memory: &Memory) {
        let (counters, on_host) = (memory.host_counters(), memory.on_host());
        let row = &mut self.row;
        (row.begins, row.on_host) = (begins, on_host);
        (row.evicted, row.refused) = (counters.evicted - self.before.1, counters.refused - self.before.2);
        let actions = row.hits.len() + row.loads.len() + row.stores.len();
        if actions > 0 || on_host != self.before.0 || (row.evicted, row.refused) != (0, 0) {
            self.before.0 = on_host;
            self.rows.push(row.clone());
        }
    }
}
