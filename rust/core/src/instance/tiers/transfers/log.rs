//! A log of the actions of steps on a tier.

use serde::Serialize;

use super::jobs::{Job, Kind};
use crate::time::Ticks;
use crate::trace::RequestNumber;

/// The actions of a step on a tier.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TierStep {
    /// When it is formed.
    pub start: Ticks,
    /// When its forward pass begins, once the copies that it waits for have ended.
    pub begins: Ticks,
    /// Requests preempted, and free blocks of the GPU once it was formed, where it computes no tokens.
    pub without_tokens: Option<(Vec<u32>, u64)>,
    /// Requests that wait for a load, by number, as in the next two lists.
    pub loading: Vec<u32>,
    /// Admissions, and loads that begin: the request, its tokens in the prefix cache, and those that are loaded.
    pub hits: Vec<(u32, u32, u32)>,
    /// Requests that were passed over, as their lookup had no answer.
    pub put_off: Vec<u32>,
    /// Copies from the tier, by number.
    pub loads: Vec<u32>,
    /// Copies to the tier.
    pub stores: Vec<u32>,
    /// Copies that it waits for before its forward pass, in ascending order, but for its own loads.
    pub flushed: Vec<u32>,
    /// Copies of whose end the scheduler learned as it ended, where it computes no tokens.
    pub reported: Vec<u32>,
    /// Chunks in the tier.
    pub chunks: u64,
    /// Chunks evicted.
    pub evicted: u64,
    /// Stores that lacked room.
    pub refused: u64,
}

impl TierStep {
    fn is_idle(&self) -> bool {
        let preempts = self.without_tokens.as_ref().is_some_and(|(preempted, _)| !preempted.is_empty());
        !preempts
            && self.hits.is_empty()
            && self.put_off.is_empty()
            && self.loads.is_empty()
            && self.stores.is_empty()
            && self.flushed.is_empty()
            && self.reported.is_empty()
            && (self.evicted, self.refused) == (0, 0)
    }
}

/// A copy that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TierJob {
    /// Its number, in the order of decision.
    pub id: u32,
    /// `store`, `load` or `sync`.
    pub kind: &'static str,
    /// Its request; `None`: it is of blocks that no request holds.
    pub request: Option<u32>,
    /// Blocks of the GPU.
    pub blocks: u64,
    /// Chunks of the tier.
    pub chunks: u64,
    /// The start of the step that decided it.
    pub made: Ticks,
    /// When its link begins it.
    pub begins: Ticks,
    /// When its link has made it.
    pub ends: Ticks,
    /// The end of the step by which the scheduler learned of it.
    pub reported: Ticks,
}

impl TierJob {
    /// `request`, `chunks`: of the copy.
    pub(super) fn new<P>(
        id: u32,
        job: &Job<P>,
        (request, chunks): (Option<RequestNumber>, u64),
        reported: Ticks,
    ) -> Self {
        let kind = match job.kind {
            Kind::Store => "store",
            Kind::Load => "load",
            Kind::Sync => "sync",
        };
        let (begins, ends) = job.interval.map_or((0, 0), |interval| (interval.begins, interval.ends));
        let (request, blocks) = (request.map(|request| request.0), job.blocks);
        Self { id, kind, request, blocks, chunks, made: job.made, begins, ends, reported }
    }
}

/// The recorded actions of steps on a tier, and its copies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TierLog {
    /// The steps that did anything with the tier, and those after which other requests wait for loads.
    pub steps: Vec<TierStep>,
    /// The copies, in the order in which the scheduler learned of their end.
    pub jobs: Vec<TierJob>,
    /// The copies of whose end the scheduler learned by a step with tokens, and when that step started.
    pub reports: Vec<(Ticks, u32)>,
}

impl TierLog {
    /// Replaces the number of each request by its row in the trace, which `origins` has for it.
    pub(crate) fn restore(&mut self, origins: &[u32]) {
        let row = |request: &mut u32| *request = origins[*request as usize];
        for step in &mut self.steps {
            let preempted = step.without_tokens.iter_mut().flat_map(|(preempted, _)| preempted);
            let hits = step.hits.iter_mut().map(|hit| &mut hit.0);
            preempted.chain(&mut step.loading).chain(&mut step.put_off).chain(hits).for_each(row);
        }
        self.jobs.iter_mut().filter_map(|job| job.request.as_mut()).for_each(row);
    }
}

/// The log of the steps before the one that is formed, where it is kept.
#[derive(Debug, Default)]
pub(super) struct StepLog {
    log: Option<Box<TierLog>>,
    /// The requests that waited for loads after the step that was written last, and the chunks in the tier.
    loading: Vec<u32>,
    chunks: u64,
}

impl StepLog {
    pub(super) fn new(recorded: bool) -> Self {
        Self { log: recorded.then(Box::default), loading: Vec::new(), chunks: 0 }
    }

    pub(super) fn is_kept(&self) -> bool {
        self.log.is_some()
    }

    /// Writes the row of a step, if it did anything.
    pub(super) fn write(&mut self, step: &TierStep) {
        let Some(log) = &mut self.log else { return };
        let waits = std::mem::replace(&mut self.loading, step.loading.clone());
        let chunks = std::mem::replace(&mut self.chunks, step.chunks);
        if !step.is_idle() || waits != step.loading || chunks != step.chunks {
            log.steps.push(step.clone());
        }
    }

    /// Writes a copy that has ended. `start`: of the step with tokens that learned of it; `None`: it is `step`, which is
    /// without tokens and was formed last.
    pub(super) fn report(&mut self, job: TierJob, start: Option<Ticks>, step: &mut TierStep) {
        let Some(log) = &mut self.log else { return };
        match start {
            Some(start) => log.reports.push((start, job.id)),
            None => step.reported.push(job.id),
        }
        log.jobs.push(job);
    }

    pub(super) fn take(&mut self) -> Option<Box<TierLog>> {
        self.log.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_do_nothing_have_no_row() {
        let mut log = StepLog::new(true);
        let step =
            |start, loading: &[u32]| TierStep { start, loading: loading.to_vec(), ..TierStep::default() };
        log.write(&step(5, &[]));
        log.write(&step(6, &[2, 3]));
        log.write(&step(8, &[2, 3]));
        log.write(&TierStep { flushed: vec![4], ..step(9, &[2, 3]) });
        log.write(&step(10, &[2]));
        let rows = log.take().expect("it is kept").steps;
        assert_eq!(rows.iter().map(|row| row.start).collect::<Vec<_>>(), [6, 9, 10]);
    }
}
