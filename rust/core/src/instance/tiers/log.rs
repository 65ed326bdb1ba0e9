//! The actions of steps on a tier: those of the step that is formed, and the rows of a log.

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
    pub(super) fn new(id: u32, job: &Job, request: Option<RequestNumber>, reported: Ticks) -> Self {
        let kind = match job.kind {
            Kind::Store => "store",
            Kind::Load => "load",
            Kind::Sync => "sync",
        };
        let (begins, ends) = job.interval.map_or((0, 0), |interval| (interval.begins, interval.ends));
        let (blocks, chunks) = (job.blocks, job.chunks.len() as u64);
        let request = request.map(|request| request.0);
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

/// The step that is formed, and the log of those before.
#[derive(Debug)]
pub(super) struct StepLog {
    pub(super) step: TierStep,
    /// Copies that are sent as it starts, though it does not wait for them.
    pub(super) at_once: Vec<u32>,
    /// When the loads end that overlap with it.
    pub(super) loaded: Ticks,
    /// When it ends, if it computes no tokens and waits for copies.
    pub(super) ends: Option<Ticks>,
    log: Option<Box<TierLog>>,
    /// Chunks evicted before the step.
    evicted: u64,
    /// The requests that waited for loads after the step before it.
    loading: Vec<u32>,
}

impl StepLog {
    pub(super) fn new(recorded: bool) -> Self {
        let log = recorded.then(Box::default);
        let step = TierStep::default();
        Self { step, at_once: Vec::new(), loaded: 0, ends: None, log, evicted: 0, loading: Vec::new() }
    }

    pub(super) fn is_kept(&self) -> bool {
        self.log.is_some()
    }

    /// Begins a step.
    pub(super) fn open(&mut self, now: Ticks, evicted: u64) {
        self.step = TierStep { start: now, begins: now, ..TierStep::default() };
        self.evicted = evicted;
        self.at_once.clear();
        self.loaded = 0;
    }

    pub(super) fn made(&mut self, job: u32, kind: Kind) {
        if kind == Kind::Store { self.step.stores.push(job) } else { self.step.loads.push(job) }
    }

    /// Has the step wait for a copy.
    pub(super) fn flush(&mut self, job: u32) {
        if let Err(at) = self.step.flushed.binary_search(&job) {
            self.step.flushed.insert(at, job);
        }
    }

    /// Notes the state of the tier once the step is formed.
    pub(super) fn close(&mut self, mut loading: Vec<u32>, (chunks, evicted): (u64, u64)) {
        loading.sort_unstable();
        self.step.loading = loading;
        (self.step.chunks, self.step.evicted) = (chunks, evicted - self.evicted);
    }

    /// Writes the row of the step, if it did anything.
    pub(super) fn write(&mut self) {
        let Some(log) = &mut self.log else { return };
        let waits = std::mem::replace(&mut self.loading, self.step.loading.clone());
        if !self.step.is_idle() || waits != self.step.loading {
            log.steps.push(self.step.clone());
        }
    }

    /// Writes a copy that has ended. `start`: of the step with tokens that learned of it; `None`: it is the step without
    /// tokens that was formed last.
    pub(super) fn report(&mut self, job: TierJob, start: Option<Ticks>) {
        let Some(log) = &mut self.log else { return };
        match start {
            Some(start) => log.reports.push((start, job.id)),
            None => self.step.reported.push(job.id),
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
        log.open(5, 2);
        log.close(vec![], (9, 2));
        log.write();
        log.open(6, 2);
        log.flush(4);
        log.flush(1);
        log.flush(4);
        log.close(vec![3, 2], (9, 3));
        log.write();
        log.open(8, 3);
        log.close(vec![2, 3], (9, 3));
        log.write();
        let rows = log.take().expect("it is kept").steps;
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        let lists = (&row.flushed[..], &row.loading[..]);
        assert_eq!((row.start, row.evicted, row.chunks, lists), (6, 1, 9, (&[1, 4][..], &[2, 3][..])));
    }
}
