//! Observers of an instance's requests: counts, columns and reports.
//!
//! An observer is told of facts: of one request ([`Fact`]), of a run that has ended in whole or in part ([`Ended`]), and of
//! steps in which each member of the decode set yielded a token ([`Steps`]). It decides nothing. A count is a new observer,
//! or a field of one; no stage of a scheduler knows of it.

mod accumulators;
mod adapters;
mod decision_log;
mod fact;
mod flow;
mod liveness;
mod load;
mod outbox;
mod readers;
mod recording;
mod stats;
mod step_columns;
mod step_record;
#[cfg(test)]
mod tests;

pub(crate) use accumulators::{Accumulators, Groups, Member};
pub(in crate::instance) use adapters::Adapters;
pub(in crate::instance) use decision_log::DecisionLog;
pub(in crate::instance) use fact::{Ended, Fact, Lengths, Steps, Subject};
pub(in crate::instance) use flow::Flow;
pub(in crate::instance) use liveness::Liveness;
pub(in crate::instance) use load::Load;
pub(crate) use outbox::PhaseChange;
pub(in crate::instance) use outbox::{Outbox, Reports};
pub(in crate::instance) use readers::{Readers, Track};
pub use step_columns::StepColumns;
pub use step_record::{Part, StepRecord};

use super::ObservedFields;
use crate::config::{InstanceConfig, QueueOrder};
use crate::cost::Moved;
use crate::hint::rare;
use crate::metrics::{InstanceStats, Recorder, TrafficCounter};

/// The observers of one instance. Each is told of a fact in the order of the fields.
#[derive(Debug)]
pub(in crate::instance) struct Observers {
    pub(in crate::instance) liveness: Liveness,
    pub(in crate::instance) load: Load,
    pub(in crate::instance) flow: Flow,
    pub(in crate::instance) stats: InstanceStats,
    pub(in crate::instance) readers: Readers,
    pub(in crate::instance) outbox: Outbox,
    pub(in crate::instance) log: DecisionLog,
    /// The adapters of the requests, where they are limited.
    pub(in crate::instance) adapters: Option<Box<Adapters>>,
    /// Numbers by group of requests, where ranks read them.
    pub(in crate::instance) accumulators: Option<Box<Accumulators>>,
    /// Counts what steps move and compute, where the configuration says how.
    traffic: Option<Box<TrafficCounter>>,
}

crate::checkpoint::checkpointed!(Observers {
    values: liveness, load, flow, readers, outbox, adapters;
    parts: stats, log, accumulators, traffic;
});

impl Observers {
    /// Observers of an instance without requests.
    pub(in crate::instance) fn new(config: &InstanceConfig, observed: ObservedFields) -> Self {
        let ranking = match &config.scheduler.order {
            QueueOrder::Ranked(rules) => Some(rules.as_ref()),
            _ => None,
        };
        let accumulators = ranking.filter(|rules| rules.reads_accumulators());
        let reports = Reports { prefilled: observed.asks_prefilled, answering: observed.asks_answering };
        let layers = config.scheduler.layers().unwrap_or(1);
        let joining = &config.scheduler.joining;
        let traffic = config.traffic.clone();
        Self {
            liveness: Liveness::new(ranking),
            load: Load::new(observed.intervals),
            flow: Flow::default(),
            stats: InstanceStats::new(config.blocks, config.block_tokens),
            readers: Readers::new(observed.pace, observed.on_pace, observed.slack),
            outbox: Outbox::new(reports),
            log: DecisionLog::new(observed.records),
            adapters: Adapters::new(joining.adapters, joining.adapter_load, config.scheduler.schedule_ahead),
            accumulators: accumulators.map(|rules| Box::new(Accumulators::new(&rules.accumulators))),
            traffic: traffic
                .map(|traffic| Box::new(TrafficCounter::new(traffic, layers, config.block_tokens))),
        }
    }

    /// Tells all observers of a fact.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as above")]
    pub(in crate::instance) fn observe(&mut self, fact: Fact, of: Subject, recorder: &mut Recorder) {
        self.liveness.observe(fact);
        self.load.observe(fact, of);
        self.flow.observe(fact, of);
        self.stats.requests.observe(fact);
        recorder.observe(fact, of);
        self.readers.observe(fact, of, &mut recorder.columns);
        self.outbox.observe(fact, of);
        if Adapters::minds(fact)
            && let Some(adapters) = &mut self.adapters
        {
            rare();
            adapters.observe(fact, of);
        }
        if let Some(accumulators) = &mut self.accumulators {
            rare();
            accumulators.observe(fact, of);
        }
    }

    /// Tells all observers of steps of a run that have ended, before [`Self::observe_steps`].
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "it is told of at one place, once a run")]
    pub(in crate::instance) fn observe_run(&mut self, ended: &Ended) {
        self.stats.observe_run(ended);
        if let Some(traffic) = &mut self.traffic {
            traffic.add(ended.shape, ended.steps);
        }
    }

    /// Tells all observers of steps that have ended.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "it is told of at one place, once a run")]
    pub(in crate::instance) fn observe_steps(&mut self, steps: &Steps) {
        self.liveness.observe_steps(steps);
        self.load.observe_steps(steps);
        self.stats.observe_steps(steps);
    }

    /// The bytes and operations of the steps that have ended, with the blocks that were swapped according to `stats`;
    /// `None` if that is not counted.
    pub(in crate::instance) fn moved(&self, stats: &InstanceStats) -> Option<Moved> {
        self.traffic.as_ref().map(|traffic| traffic.moved(stats))
    }
}
