//! Builds a replay from a configuration and a trace.

use std::sync::Arc;

use super::arrival_rules::ArrivalRules;
use super::arrivals::{Arrivals, Cancels, Entrance, Sending, Source};
use super::clients::Clients;
use super::cluster::Cluster;
use super::event_loop::{CanHappen, Extent, Simulation};
use super::held::Held;
use super::known::Known;
use super::live_migration::Migrations;
use super::lockstep::LockedSteps;
use super::monitors::Monitors;
use super::periods;
use super::phase_routing::PhaseRouting;
use super::roles::Roles;
use super::router::{CALLBACK_INSTANCE_FIELDS, Decide, Router};
use super::sampling::Sampling;
use crate::config::{Admission, Config, Offering, Window};
use crate::error::Error;
use crate::instance::{Acceptance, Instance, ObservedFields};
use crate::kv::{Prefixes, SharedStore};
use crate::metrics::{OptionalColumns, RecordRoom, Recorder};
use crate::policy::{InstField, ReqField};
use crate::trace::Trace;

impl Simulation {
    /// A replay of `trace`, at its start.
    ///
    /// # Errors
    ///
    /// If a row of the trace breaks a rule that the engine relies on, or if the block size of its prefix ids does not
    /// divide that of an instance.
    pub fn new(config: &Config, trace: Trace) -> Result<Self, Error> {
        Self::with_calls(config, trace, None)
    }

    /// A replay in which `calls` picks instances for the rules that call a callback.
    ///
    /// # Errors
    ///
    /// As for [`Self::new`].
    pub fn with_calls(config: &Config, trace: Trace, calls: Option<Box<dyn Decide>>) -> Result<Self, Error> {
        Self::build(config, trace, calls, Sending::Trace)
    }

    /// A replay whose requests are rows of `trace`, which `source` sends. The trace's column of arrivals is not used.
    ///
    /// # Errors
    ///
    /// As for [`Self::new`].
    pub fn with_source(config: &Config, trace: Trace, source: Box<dyn Source>) -> Result<Self, Error> {
        Self::build(config, trace, None, Sending::Source(source))
    }

    /// A replay at its start.
    pub(super) fn build(
        config: &Config,
        trace: Trace,
        calls: Option<Box<dyn Decide>>,
        sending: Sending,
    ) -> Result<Self, Error> {
        trace.validate()?;
        periods::check(config, &trace)?;
        let sending = match sending {
            Sending::Trace => Clients::of(config.clients, &trace)?
                .map_or(Sending::Trace, |clients| Sending::Source(Box::new(clients))),
            given => given,
        };
        let grows = matches!(sending, Sending::Outside | Sending::Stream);
        let instances = instances(config, &trace, grows)?;
        Self::of_instances(config, instances, trace, calls, sending)
    }

    /// A replay at its start, of instances in place of those of the configuration.
    pub(super) fn of_instances(
        config: &Config,
        instances: Vec<Instance>,
        mut trace: Trace,
        calls: Option<Box<dyn Decide>>,
        sending: Sending,
    ) -> Result<Self, Error> {
        let (reacts, outside) = (matches!(sending, Sending::Source(_)), matches!(sending, Sending::Outside));
        let count = instances.len();
        let mut routing = config.routing.clone();
        routing.prepare();
        let routers = config.routers;
        let mut router = Router::new(&instances, &routing, routers, calls);
        router.keep_books(&mut routing, count, &trace)?;
        let alike = router.alike(&routing.on_arrival);
        let held = Held::new(alike, routers.count as usize, routers.give_up_after);
        let known = Known::new(config, &trace, &CALLBACK_INSTANCE_FIELDS.map(|(_, field)| field));
        let mut migrations = Migrations::new(config.links.as_ref(), config.handover, count);
        if config.record_decisions {
            migrations.record(config.record_between.unwrap_or(Window::ALL));
        }
        let patience = config.clients.and_then(|clients| clients.patience);
        let cancels = Cancels::new(patience.and_then(|patience| patience.timeout), &trace);
        config.check_cancelled_reads(cancels.is_some())?;
        let mut recorder = Recorder::new(trace.len(), optional_columns(config, &trace, reacts || outside));
        recorder.ends = (reacts || cancels.is_some()).then(Vec::new);
        recorder.events = outside.then(Vec::new);
        recorder.room = config.record_most.map_or_else(RecordRoom::default, RecordRoom::new);
        recorder.notices = routing.books.exist().then(Vec::new);
        let can_happen = can_happen(config, &known, Sent { reacts, outside, cancels: cancels.is_some() });
        let requests = trace.len();
        let mut entrance = Entrance::new(&config.entrance, sending, &mut trace);
        entrance.repeat_by(patience, &trace);
        let announces = config.handover.is_some_and(|rules| rules.offer == Offering::Arrival);
        let rules = ArrivalRules::new(routing.on_arrival, routing.decode_on_arrival, requests);
        let mut arrivals = Arrivals::new(rules.announcing(announces), entrance, held);
        arrivals.cancel_by(cancels);
        Ok(Self {
            can_happen,
            cluster: Cluster::new(instances, roles(config, count), trace, recorder, known),
            router,
            monitors: Monitors::new(&routing.every),
            arrivals,
            phase_routing: PhaseRouting::new(routing.on_prefilled, routing.on_answering),
            migrations,
            locked: LockedSteps::new(config),
            sampling: Sampling::new(config.sample, count),
            clock: 0,
            reported: false,
            quiet: 0,
            done: false,
            extent: Extent::new(config.until),
        })
    }
}

/// How requests are sent, and whether they may be cancelled.
#[derive(Clone, Copy)]
struct Sent {
    /// Requests may arrive as others end.
    reacts: bool,
    /// A caller adds requests, and may have instances change their pools.
    outside: bool,
    /// Clients may cancel requests.
    cancels: bool,
}

/// The kinds of events that a configuration allows.
fn can_happen(config: &Config, known: &Known, sent: Sent) -> CanHappen {
    let routing = &config.routing;
    let together = !config.groups().is_empty() || known.is_reported();
    let flips = sent.outside && !config.leaving.is_empty();
    let shares = config.shares_stores();
    CanHappen {
        nothing: routing.only_sends() && !together && !flips && !sent.reacts && !sent.cancels && !shares,
        shares,
        cancels: sent.cancels,
        passing: routing.on_arrival.reads_passing_time(),
        reactions: sent.reacts,
        migrations: routing.may_migrate(),
        timers: together || !routing.every.is_empty() || !config.leaving.is_empty(),
    }
}

/// The roles of so many instances.
pub(super) fn roles(config: &Config, instances: usize) -> Roles {
    let present = (0..instances).map(|index| config.roles.get(index).copied().unwrap_or(0));
    Roles::new(present.collect(), config.leaving.clone())
}

/// The instances of a configuration, idle. `grows`: more requests follow those of the trace.
pub(super) fn instances(config: &Config, trace: &Trace, grows: bool) -> Result<Vec<Instance>, Error> {
    let prefixes = number_contents(config, trace, grows)?;
    let stores: Vec<_> = config.stores.iter().map(SharedStore::new).collect();
    let pairs = std::iter::zip(&config.instances, &prefixes).enumerate();
    let built = pairs.map(|(i, (instance, prefixes))| {
        let mut built = Instance::new(i, instance, prefixes, observed_fields(config, i));
        built.set_store(instance, &stores);
        built
    });
    Ok(built.collect())
}

/// The columns that a result has beside those of every replay.
pub(super) fn optional_columns(config: &Config, trace: &Trace, reacts: bool) -> OptionalColumns {
    let routing = &config.routing;
    let patience = config.clients.and_then(|clients| clients.patience);
    OptionalColumns {
        reasons: trace.reasoning_tokens.is_some(),
        moves: routing.may_migrate(),
        paced: config.pace.is_some(),
        asked: config.pace.is_some_and(|pace| pace.ttft.is_some()),
        holds: routing.holds(),
        predicts: config.entrance.prediction.is_some(),
        reacts,
        cancels: !trace.waits.cancels.is_empty()
            || patience.is_some_and(|patience| patience.timeout.is_some()),
        retries: patience.is_some_and(|patience| patience.retries > 0),
        tiered: config.instances.iter().any(|instance| instance.tier.is_some()),
        stored: !config.stores.is_empty(),
        offers: config.handover.is_some_and(|rules| rules.offer == Offering::Arrival),
    }
}

/// The fields of an instance that a policy reads, which the instance keeps for that.
fn observed_fields(config: &Config, index: usize) -> ObservedFields {
    let displaces_when = match &config.instances[index].scheduler.admission {
        Admission::Displace { when, .. } => when.as_ref(),
        Admission::Wait => None,
    };
    let of_its_own = || config.instances[index].scheduler.varying.exprs().chain(displaces_when);
    let reads = |wanted: InstField| {
        let test = |field| field == wanted;
        config.routing.looks_at(&test) || of_its_own().any(|expr| expr.looks_at(&test))
    };
    ObservedFields {
        leap: config.leap && config.group_of(index).is_none() && config.routers.relay.is_none(),
        pace: config.pace,
        on_pace: reads(InstField::AnsweringOnPace),
        slack: config.routing.looks_at_request(&|field| field == ReqField::SlackS),
        intervals: reads(InstField::MeanTokenIntervalS),
        prefills: reads(InstField::PrefillDelayS),
        asks_prefilled: config.routing.on_prefilled.is_some() || config.routing.decode_on_arrival.is_some(),
        asks_answering: config.routing.on_answering.is_some(),
        records: config.record_decisions.then(|| config.record_between.unwrap_or(Window::ALL)),
        handover: config
            .handover
            .map(|rules| Acceptance::new(&rules, config.instances[index].blocks, config.links.is_none())),
    }
}

/// The contents of the trace's blocks for each instance that caches prefixes. Instances with the same block size share
/// them.
fn number_contents(config: &Config, trace: &Trace, grows: bool) -> Result<Vec<Arc<Prefixes>>, Error> {
    let mut known: Vec<(Option<u32>, Arc<Prefixes>)> = Vec::new();
    config
        .instances
        .iter()
        .map(|instance| {
            let size = instance.scheduler.prefix_cache.as_ref().map(|_| instance.block_tokens);
            if let Some((_, prefixes)) = known.iter().find(|(other, _)| *other == size) {
                return Ok(Arc::clone(prefixes));
            }
            let prefixes = match size {
                Some(block_tokens) if grows => Prefixes::growing(trace, block_tokens)?,
                Some(block_tokens) => Prefixes::new(trace, block_tokens)?,
                None => Prefixes::none(),
            };
            let prefixes = Arc::new(prefixes);
            known.push((size, Arc::clone(&prefixes)));
            Ok(prefixes)
        })
        .collect()
}
