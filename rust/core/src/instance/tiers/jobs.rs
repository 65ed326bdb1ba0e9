//! Copies between the GPU and a tier, until the scheduler has learned of their end.

use std::collections::BTreeMap;

use crate::kv::{Block, Interval, StoredChunk};
use crate::time::Ticks;

/// The purpose of a copy, by which it takes a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// To the tier.
    Store,
    /// From the tier, for a request that waits.
    Load,
    /// From the tier, before the forward pass of the step.
    Sync,
}

/// A copy.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) kind: Kind,
    /// The number of its request; `None`: it is of blocks that no request holds.
    pub(super) used: Option<u32>,
    pub(super) chunks: Vec<StoredChunk>,
    /// Blocks of the GPU.
    pub(super) blocks: u64,
    /// The start of the step that decided it.
    pub(super) made: Ticks,
    /// The earliest start of a step that may learn of its end: a store is given to its link as the next step starts.
    pub(super) seen_from: Ticks,
    /// When its link makes it, once it is known.
    pub(super) interval: Option<Interval>,
}

impl Job {
    pub(super) fn new(
        kind: Kind,
        used: Option<u32>,
        chunks: &[StoredChunk],
        blocks: u64,
        made: Ticks,
    ) -> Self {
        Self { kind, used, chunks: chunks.to_vec(), blocks, made, seen_from: 0, interval: None }
    }
}

/// The copies whose end the scheduler does not know, by number in the order in which they were decided.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    open: BTreeMap<u32, Job>,
    made: u32,
}

impl Jobs {
    /// Adds a copy. Returns its number.
    pub(super) fn open(&mut self, job: Job) -> u32 {
        self.open.insert(self.made, job);
        self.made += 1;
        self.made - 1
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn get_mut(&mut self, job: u32) -> Option<&mut Job> {
        self.open.get_mut(&job)
    }

    pub(super) fn kind_of(&self, job: u32) -> Option<Kind> {
        self.open.get(&job).map(|job| job.kind)
    }

    pub(super) fn end_of(&self, job: u32) -> Option<Ticks> {
        self.open.get(&job).and_then(|job| job.interval).map(|interval| interval.ends)
    }

    /// The blocks of a copy to the tier, of a request that has `blocks`. `size`: blocks of a chunk.
    pub(super) fn blocks_of(&self, job: u32, size: u32, blocks: &[Block]) -> Vec<Block> {
        let chunks = self.open.get(&job).filter(|job| job.kind == Kind::Store).into_iter();
        let chunks = chunks.flat_map(|job| &job.chunks);
        chunks.flat_map(|chunk| &blocks[(chunk.at * size) as usize..][..size as usize]).copied().collect()
    }

    /// When the next copy ends.
    pub(super) fn next_end(&self) -> Option<Ticks> {
        self.open.values().filter_map(|job| job.interval).map(|interval| interval.ends).min()
    }

    /// Removes the copies that have ended by `now`, as a step that started at `start` sees: those to the tier first.
    pub(super) fn take_ended(&mut self, start: Ticks, now: Ticks) -> Vec<(u32, Job)> {
        let ended =
            |job: &Job| job.seen_from <= start && job.interval.is_some_and(|interval| interval.ends <= now);
        let mut numbers: Vec<_> =
            self.open.iter().filter(|(_, job)| ended(job)).map(|(&id, job)| (job.kind, id)).collect();
        numbers.sort_unstable();
        numbers.into_iter().filter_map(|(_, id)| self.open.remove(&id).map(|job| (id, job))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_that_have_ended_are_removed_by_kind() {
        let mut jobs = Jobs::default();
        for (kind, ends) in [(Kind::Load, 4), (Kind::Store, 5), (Kind::Store, 3), (Kind::Sync, 9)] {
            let id = jobs.open(Job::new(kind, Some(0), &[StoredChunk { at: 1, key: 7 }], 2, 0));
            if let Some(job) = jobs.get_mut(id) {
                job.interval = Some(Interval { begins: 0, ends });
            }
        }
        assert_eq!((jobs.next_end(), jobs.blocks_of(1, 2, &[3, 4, 5, 6])), (Some(3), vec![5, 6]));
        let ended: Vec<_> = jobs.take_ended(0, 5).into_iter().map(|(id, _)| id).collect();
        assert_eq!((ended, jobs.next_end(), jobs.len()), (vec![1, 2, 0], Some(9), 1));
    }
}
