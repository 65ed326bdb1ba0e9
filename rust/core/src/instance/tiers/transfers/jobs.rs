//! Copies between the GPU and a tier, until the scheduler has learned of their end.

use std::collections::BTreeMap;

use crate::kv::Interval;
use crate::time::Ticks;

/// The purpose of a copy, by which it takes a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::instance::tiers) enum Kind {
    /// To the tier.
    Store,
    /// From the tier, for a request that waits.
    Load,
    /// From the tier, before the forward pass of the step.
    Sync,
}

/// A copy. `P`: what it is of.
#[derive(Debug)]
pub(in crate::instance::tiers) struct Job<P> {
    pub(in crate::instance::tiers) kind: Kind,
    pub(in crate::instance::tiers) of: P,
    /// Blocks of the GPU.
    pub(in crate::instance::tiers) blocks: u64,
    /// The start of the step that decided it.
    pub(super) made: Ticks,
    /// The earliest start of a step that may learn of its end: a store is given to its link as the next step starts.
    pub(in crate::instance::tiers) seen_from: Ticks,
    /// When its link makes it, once it is known.
    pub(in crate::instance::tiers) interval: Option<Interval>,
}

impl<P> Job<P> {
    pub(super) fn new(kind: Kind, of: P, blocks: u64, made: Ticks) -> Self {
        Self { kind, of, blocks, made, seen_from: 0, interval: None }
    }
}

/// The copies whose end the scheduler does not know, by number in the order in which they were decided.
#[derive(Debug)]
pub(in crate::instance::tiers) struct Jobs<P> {
    open: BTreeMap<u32, Job<P>>,
    made: u32,
}

impl<P> Default for Jobs<P> {
    fn default() -> Self {
        Self { open: BTreeMap::new(), made: 0 }
    }
}

impl<P> Jobs<P> {
    /// Adds a copy. Returns its number.
    pub(super) fn open(&mut self, job: Job<P>) -> u32 {
        self.open.insert(self.made, job);
        self.made += 1;
        self.made - 1
    }

    pub(in crate::instance::tiers) fn len(&self) -> usize {
        self.open.len()
    }

    pub(in crate::instance::tiers) fn get(&self, job: u32) -> Option<&Job<P>> {
        self.open.get(&job)
    }

    pub(in crate::instance::tiers) fn get_mut(&mut self, job: u32) -> Option<&mut Job<P>> {
        self.open.get_mut(&job)
    }

    /// Removes a copy.
    pub(in crate::instance::tiers) fn take(&mut self, job: u32) -> Option<Job<P>> {
        self.open.remove(&job)
    }

    pub(in crate::instance::tiers) fn kind_of(&self, job: u32) -> Option<Kind> {
        self.open.get(&job).map(|job| job.kind)
    }

    pub(in crate::instance::tiers) fn end_of(&self, job: u32) -> Option<Ticks> {
        self.open.get(&job).and_then(|job| job.interval).map(|interval| interval.ends)
    }

    /// When the next copy ends.
    pub(super) fn next_end(&self) -> Option<Ticks> {
        self.open.values().filter_map(|job| job.interval).map(|interval| interval.ends).min()
    }

    /// Removes the copies that have ended by `now`, as a step that started at `start` sees: those to the tier first.
    pub(in crate::instance::tiers) fn take_ended(&mut self, start: Ticks, now: Ticks) -> Vec<(u32, Job<P>)> {
        let ended = |job: &Job<P>| {
            job.seen_from <= start && job.interval.is_some_and(|interval| interval.ends <= now)
        };
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
            let id = jobs.open(Job::new(kind, (), 2, 0));
            if let Some(job) = jobs.get_mut(id) {
                job.interval = Some(Interval { begins: 0, ends });
            }
        }
        assert_eq!((jobs.next_end(), jobs.kind_of(1)), (Some(3), Some(Kind::Store)));
        let ended: Vec<_> = jobs.take_ended(0, 5).into_iter().map(|(id, _)| id).collect();
        assert_eq!((ended, jobs.next_end(), jobs.len()), (vec![1, 2, 0], Some(9), 1));
    }
}
