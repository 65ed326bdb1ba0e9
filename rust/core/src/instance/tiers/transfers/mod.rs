//! The copies between the GPU and the host's memory of one instance.
//!
//! A copy is a [`Job`]: it is opened as a step decides it, given to its link, and taken as the scheduler learns of its end. A
//! link makes one copy after the other. Each step has a row of what it did, and each copy that has ended one of when it was
//! decided, made and learned of.

mod jobs;
mod log;
mod overlap;
mod step;
mod store;

pub(super) use jobs::{Job, Kind};
pub use log::{TierJob, TierLog, TierStep};

use crate::config::TierConfig;
use crate::kv::{Interval, Link};
use crate::metrics::TierStats;
use crate::time::Ticks;
use crate::trace::RequestNumber;
use jobs::Jobs;
use log::StepLog;
use step::FormedStep;
pub(super) use store::StoreLinks;

/// The copies of an instance. `P`: what a copy is of.
#[derive(Debug)]
pub(super) struct Transfers<P> {
    pub(super) jobs: Jobs<P>,
    /// Those of copies to the host, of loads for which requests wait, and of loads before a forward pass.
    links: [Link; 3],
    pub(super) step: FormedStep,
    pub(super) stats: TierStats,
    log: StepLog,
    /// The layers over which a load is spread; 0: it does not overlap with a step.
    layers: u32,
}

impl<P> Transfers<P> {
    /// `recorded`: whether steps and copies are.
    pub(super) fn new(config: &TierConfig, recorded: bool) -> Self {
        Self {
            jobs: Jobs::default(),
            links: [config.store, config.load, config.load].map(Link::new),
            step: FormedStep::default(),
            stats: TierStats { capacity: config.chunks, ..TierStats::default() },
            log: StepLog::new(recorded),
            layers: config.overlap_layers,
        }
    }

    /// Decides a copy in the step that is formed. Returns its number.
    pub(super) fn open(&mut self, kind: Kind, of: P, blocks: u64) -> u32 {
        let job = self.jobs.open(Job::new(kind, of, blocks, self.step.row.start));
        self.step.made(job, kind);
        job
    }

    /// Gives a copy to its link, unless it was. Returns when it is made.
    pub(super) fn send(&mut self, job: u32, now: Ticks) -> Interval {
        let Some(open) = self.jobs.get_mut(job) else { return Interval { begins: now, ends: now } };
        let link = &mut self.links[open.kind as usize];
        *open.interval.get_or_insert_with(|| link.send(open.blocks, now))
    }

    /// Gives the loads of the step that was formed to their link.
    pub(super) fn send_loads(&mut self, now: Ticks) {
        for at in 0..self.step.row.loads.len() {
            self.send(self.step.row.loads[at], now);
        }
    }

    /// When the next copy ends whose end the scheduler does not know.
    pub(super) fn next_end(&self) -> Option<Ticks> {
        self.jobs.next_end()
    }

    /// Writes that the scheduler learns at `now` of the end of a copy. `of`: its request, if it has one, and its chunks.
    /// `start`: of the step with tokens that learns of it.
    pub(super) fn report(
        &mut self,
        (id, job): (u32, &Job<P>),
        of: (Option<RequestNumber>, u64),
        start: Option<Ticks>,
        now: Ticks,
    ) {
        self.log.report(TierJob::new(id, job, of, now), start, &mut self.step.row);
    }

    /// Writes the row of the step that was formed.
    pub(super) fn write_step(&mut self) {
        self.log.write(&self.step.row);
    }

    /// Whether steps and copies are recorded.
    pub(super) fn is_recorded(&self) -> bool {
        self.log.is_kept()
    }

    /// The recorded steps and copies, and forgets them.
    pub(super) fn take_log(&mut self) -> Option<Box<TierLog>> {
        self.log.take()
    }
}
