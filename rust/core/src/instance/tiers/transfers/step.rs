//! The step that is formed, as a tier knows it.

use super::jobs::Kind;
use super::log::TierStep;
use crate::kv::Interval;
use crate::time::Ticks;

/// The step that is formed, or was formed last.
#[derive(Debug, Default)]
pub(in crate::instance::tiers) struct FormedStep {
    /// Its actions on the tier so far.
    pub(in crate::instance::tiers) row: TierStep,
    /// Copies that are sent as it starts, though it does not wait for them.
    pub(in crate::instance::tiers) at_once: Vec<u32>,
    /// The loads that overlap with it, from the first to the last.
    pub(in crate::instance::tiers) load: Option<Interval>,
    /// When it ends, if it computes no tokens and waits for copies.
    pub(in crate::instance::tiers) ends: Option<Ticks>,
    /// Chunks evicted before it.
    evicted: u64,
}

impl FormedStep {
    /// Begins a step.
    pub(in crate::instance::tiers) fn open(&mut self, now: Ticks, evicted: u64) {
        self.row = TierStep { start: now, begins: now, ..TierStep::default() };
        self.evicted = evicted;
        self.at_once.clear();
        self.load = None;
    }

    /// Notes a copy that it has made.
    pub(in crate::instance::tiers) fn made(&mut self, job: u32, kind: Kind) {
        if kind == Kind::Store { self.row.stores.push(job) } else { self.row.loads.push(job) }
    }

    /// Has it wait for a copy.
    pub(in crate::instance::tiers) fn flush(&mut self, job: u32) {
        if let Err(at) = self.row.flushed.binary_search(&job) {
            self.row.flushed.insert(at, job);
        }
    }

    /// Notes the state of the tier once the step is formed: the requests that wait for loads, the chunks, and those evicted.
    pub(in crate::instance::tiers) fn close(&mut self, mut loading: Vec<u32>, (chunks, evicted): (u64, u64)) {
        loading.sort_unstable();
        self.row.loading = loading;
        (self.row.chunks, self.row.evicted) = (chunks, evicted - self.evicted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_waits_once_for_each_copy_and_counts_its_own_evictions() {
        let mut step = FormedStep::default();
        step.open(5, 2);
        step.at_once.push(7);
        step.open(6, 2);
        for job in [4, 1, 4] {
            step.flush(job);
        }
        step.made(8, Kind::Store);
        step.made(9, Kind::Sync);
        step.close(vec![3, 2], (9, 3));
        let row = &step.row;
        assert_eq!((row.start, row.evicted, row.chunks, step.at_once.len()), (6, 1, 9, 0));
        assert_eq!((&row.flushed[..], &row.loading[..]), (&[1, 4][..], &[2, 3][..]));
        assert_eq!((&row.stores[..], &row.loads[..]), (&[8][..], &[9][..]));
    }
}
