//! The loop: arrivals, ends of steps, starts of steps, in a total order.
//!
//! At one moment, first all steps that end then end (instances by index), then
//! rules are asked where those go on for whom that was a turning point, then
//! what is on its way lands, then what is looked at every so often is looked at,
//! then all requests that arrive then are routed (in the trace's order), then
//! the instances that are free start a step. So a step sees everything that has
//! arrived by its start, and a router sees each instance as of its last
//! finished step.

mod calendar;
mod lockstep;
mod moves;
mod route;
mod sight;
mod transfers;

use std::sync::Arc;

use calendar::Calendar;
pub use lockstep::Lockstep;
use moves::{MonitorTimer, Question, Rules};
use route::Router;
pub use route::{CallbackView, Decide};
pub use sight::{CALLBACK_INSTANCE_FIELDS, CALLBACK_REQUEST_FIELDS};
use transfers::Transfers;

use crate::config::{Admission, Config, QueueOrder};
use crate::error::Error;
use crate::instance::{Asking, Instance, ObservedFields, RequestView, StepRecord, World};
use crate::kv::Prefixes;
use crate::metrics::{Columns, InstanceStats, OptionalColumns, Reason, Sketch, Status};
use crate::policy::{InstField, ReqField};
use crate::time::{NEVER, Ticks};
use crate::trace::Trace;

/// A replay: a state machine that is advanced until it is done.
#[derive(Debug)]
pub struct Simulation {
    world: World,
    lockstep: Option<Lockstep>,
    until: Ticks,
    instances: Vec<Instance>,
    calendar: Calendar,
    router: Router,
    rules: Rules,
    transfers: Transfers,
    monitors: Vec<MonitorTimer>,
    clock: Ticks,
    next_arrival: usize,
    settled: u64,
    events: u64,
    starting: Vec<usize>,
    done: bool,
}

/// How far a replay has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Requests that finished or were rejected.
    pub settled: u64,
    /// Requests in the trace.
    pub total: u64,
    /// The simulated time.
    pub clock: Ticks,
}

/// What a replay gives.
#[derive(Debug)]
pub struct Outcome {
    /// One entry a request.
    pub columns: Columns,
    /// Gaps between the tokens of a request, over all requests.
    pub gaps: Sketch,
    /// One entry an instance.
    pub usage: Vec<InstanceStats>,
    /// When the last thing happened.
    pub end: Ticks,
    /// Moments at which something changed: what the replay paid for.
    pub events: u64,
    /// Every step of each instance, where decisions were kept.
    pub decisions: Vec<Vec<StepRecord>>,
}

impl Simulation {
    /// A replay of `trace`, at its start.
    ///
    /// # Errors
    ///
    /// If a row of the trace breaks a rule that the engine relies on, or its
    /// prefix ids are of a block size that an instance's does not go with.
    pub fn new(config: &Config, trace: Trace) -> Result<Self, Error> {
        Self::with_calls(config, trace, None)
    }

    /// A replay in which `calls` decides where the rules say so.
    ///
    /// # Errors
    ///
    /// As for [`Self::new`].
    pub fn with_calls(config: &Config, trace: Trace, calls: Option<Box<dyn Decide>>) -> Result<Self, Error> {
        trace.validate()?;
        check_scopes(config)?;
        let prefixes = number_contents(config, &trace)?;
        let instances: Vec<_> = std::iter::zip(&config.instances, &prefixes)
            .enumerate()
            .map(|(i, (instance, prefixes))| Instance::new(i, instance, prefixes, observed_fields(config, i)))
            .collect();
        let mut routing = config.routing.clone();
        let turns = routing.number_turns();
        let moves =
            routing.on_prefilled.is_some() || routing.on_answering.is_some() || !routing.every.is_empty();
        let optional = OptionalColumns {
            reasons: trace.reasoning_tokens.is_some(),
            moves,
            paced: config.pace.is_some(),
            asked: config.pace.is_some_and(|pace| pace.ttft.is_some()),
        };
        Ok(Self {
            lockstep: config.lockstep.clone(),
            until: config.until.unwrap_or(NEVER - 1),
            calendar: Calendar::new(instances.len()),
            router: Router::new(&instances, turns, calls),
            rules: Rules {
                on_arrival: routing.on_arrival.clone(),
                on_prefilled: routing.on_prefilled.clone(),
                on_answering: routing.on_answering.clone(),
            },
            transfers: Transfers::new(config.links, instances.len()),
            monitors: routing
                .every
                .iter()
                .map(|monitor| MonitorTimer {
                    next: monitor.period,
                    period: monitor.period,
                    actions: monitor.actions.clone(),
                })
                .collect(),
            world: World {
                columns: Columns::new(trace.len(), optional),
                gaps: Sketch::default(),
                leap: config.leap && config.lockstep.is_none(),
                trace,
            },
            clock: 0,
            next_arrival: 0,
            settled: 0,
            events: 0,
            starting: Vec::new(),
            done: false,
            instances,
        })
    }

    /// Goes on for about `budget` events. Returns whether the replay is done.
    ///
    /// # Errors
    ///
    /// If the clock would run past its range.
    pub fn advance(&mut self, budget: u64) -> Result<bool, Error> {
        let stop = self.events.saturating_add(budget);
        while !self.done && self.events < stop {
            let (ends, index) = self.calendar.first();
            let arrives = self.world.trace.arrival.get(self.next_arrival).copied().unwrap_or(NEVER);
            let comes = arrives.min(self.transfers.next());
            let mut now = ends.min(comes);
            if self.settled == self.world.trace.len() as u64 {
                // What is still copied is of nobody.
                now = NEVER;
            }
            if now == NEVER && self.settled < self.world.trace.len() as u64 {
                return Err(self.no_progress());
            }
            let monitor = if now == NEVER { NEVER } else { self.next_monitor() };
            now = now.min(monitor);
            if now > self.until {
                self.halt(now);
                break;
            }
            self.clock = now;
            let others = comes.min(monitor);
            if others > now {
                // Nobody can be sent anywhere now, so the next step can start
                // whatever else ends at this moment, unless a rule is asked: it
                // sees everybody before the next step.
                self.end_step(index, now);
                if self.lockstep.is_none() && (!self.rules_are_asked() || self.is_alone(index, now)) {
                    self.start_step(index, now)?;
                    continue;
                }
                self.free(index);
            }
            while let (time, index) = self.calendar.first()
                && time == now
            {
                self.end_step(index, now);
                self.free(index);
            }
            if self.rules_are_asked() {
                if !self.starting.is_empty() {
                    self.ask_rules(now)?;
                }
                self.land(now);
                if monitor <= now {
                    self.run_monitors(now);
                    self.land(now);
                }
            }
            self.route_arrivals(now)?;
            self.start_steps(now)?;
        }
        Ok(self.done)
    }

    /// Nothing can happen any more, and requests are left.
    #[cold]
    fn no_progress(&self) -> Error {
        let left = self.world.trace.len() as u64 - self.settled;
        let blocked = self.instances.iter().find_map(|instance| instance.blockage(self.clock));
        blocked.unwrap_or_else(|| Error::NoProgress {
            instance: 0,
            at: self.clock,
            rule: format!("{left} requests are on no instance and not in transfer"),
        })
    }

    /// How far the replay has come.
    pub fn progress(&self) -> Progress {
        Progress { settled: self.settled, total: self.world.trace.len() as u64, clock: self.clock }
    }

    fn end_step(&mut self, index: usize, now: Ticks) {
        self.events += 1;
        let finished = self.instances[index].finish(now, &mut self.world);
        self.router.finished(index, finished);
        self.settled += finished;
    }

    /// Whether nothing else happens at the moment at which a step has ended.
    fn is_alone(&self, index: usize, now: Ticks) -> bool {
        !self.instances[index].is_turning() && self.calendar.others_are_after(index, now)
    }

    /// Has an instance start its next step once this moment's arrivals are in.
    fn free(&mut self, index: usize) {
        self.calendar.clear(index);
        self.starting.push(index);
    }

    /// Whether rules are asked when a step ends.
    #[inline]
    fn rules_are_asked(&self) -> bool {
        self.rules.on_prefilled.is_some() || self.rules.on_answering.is_some() || !self.monitors.is_empty()
    }

    fn route_arrivals(&mut self, now: Ticks) -> Result<(), Error> {
        while self.world.trace.arrival.get(self.next_arrival) == Some(&now) {
            let row = self.next_arrival;
            self.next_arrival += 1;
            self.events += 1;
            let (prompt, output) = (self.world.trace.prompt_tokens[row], self.world.trace.output_tokens[row]);
            let reason = self.router.refuses(prompt, output, &self.instances);
            if reason != Reason::None {
                self.world.columns.status[row] = Status::Rejected as u8;
                self.world.columns.reason[row] = reason as u8;
                self.settled += 1;
                continue;
            }
            let rule = &self.rules.on_arrival;
            let mut picked = None;
            if rule.counts() {
                picked = self.router.count_out(rule, prompt, output, now, &self.instances);
            }
            if picked.is_none() {
                let view = RequestView::arriving(row as u32, now, &self.world.trace);
                picked = self.choose(Question::Arrival, &Asking { view, place: None }, now)?;
            }
            let Some(index) = picked else {
                let rule = format!("must give an instance for every arrival, gave none for row {row}");
                return Err(Error::config("routing.on_arrival", rule));
            };
            self.router.sent(index);
            self.dispatch(row, index, now);
        }
        Ok(())
    }

    fn dispatch(&mut self, row: usize, index: usize, now: Ticks) {
        let end = self.instances[index].arrive(row as u32, now, &mut self.world);
        self.recut(index, end, now);
    }

    fn start_steps(&mut self, now: Ticks) -> Result<(), Error> {
        if self.lockstep.is_some() {
            return self.start_together(now);
        }
        let mut starting = std::mem::take(&mut self.starting);
        for index in starting.drain(..) {
            self.start_step(index, now)?;
        }
        self.starting = starting;
        Ok(())
    }

    fn start_step(&mut self, index: usize, now: Ticks) -> Result<(), Error> {
        let end = self.instances[index].begin(now, &mut self.world)?;
        let dropped = self.instances[index].take_given_up();
        if dropped > 0 {
            self.router.finished(index, dropped);
            self.settled += dropped;
        }
        self.calendar.set(index, end.unwrap_or(NEVER));
        Ok(())
    }

    /// Ends the replay: everything has happened, or the simulated time is up.
    #[inline(never)]
    fn halt(&mut self, next: Ticks) {
        if next != NEVER {
            self.clock = self.until;
        }
        for instance in &mut self.instances {
            instance.halt(self.clock, &mut self.world);
        }
        for parcel in self.transfers.on_their_way() {
            parcel.write_unfinished(&mut self.world.columns);
        }
        self.done = true;
    }

    /// What happened.
    pub fn into_outcome(mut self) -> Outcome {
        Outcome {
            columns: self.world.columns,
            gaps: self.world.gaps,
            usage: self.instances.iter().map(Instance::usage).collect(),
            end: self.clock,
            events: self.events,
            decisions: self.instances.iter_mut().map(Instance::take_log).collect(),
        }
    }
}

/// What is kept of an instance for those who look at it.
fn observed_fields(config: &Config, index: usize) -> ObservedFields {
    let moody = match &config.instances[index].scheduler.admission {
        Admission::Displace { when, .. } => when.as_ref(),
        Admission::Wait => None,
    };
    let looks = |wanted: InstField| {
        let test = |field| field == wanted;
        config.routing.looks_at(&test) || moody.is_some_and(|when| when.looks_at(&test))
    };
    ObservedFields {
        role: config.roles.get(index).copied().unwrap_or(0),
        pace: config.pace,
        on_pace: looks(InstField::AnsweringOnPace),
        slack: config.routing.looks_at_request(&|field| field == ReqField::SlackS),
        intervals: looks(InstField::MeanTokenIntervalS),
        prefills: looks(InstField::PrefillDelayS),
        asks_prefilled: config.routing.on_prefilled.is_some(),
        asks_answering: config.routing.on_answering.is_some(),
        records: config.record_decisions,
    }
}

/// Checks that schedulers look at nothing beyond their own instance.
fn check_scopes(config: &Config) -> Result<(), Error> {
    for (i, instance) in config.instances.iter().enumerate() {
        let scheduler = &instance.scheduler;
        if let QueueOrder::Ranked(ranking) = &scheduler.order
            && ranking.exprs().any(|expr| expr.looks_at(&|_| true))
        {
            let rule = "must look at requests, not at instances";
            return Err(Error::config(format!("instances[{i}].scheduler.order"), rule));
        }
        if let Admission::Displace { when: Some(when), .. } = &scheduler.admission
            && when.looks_at_request(&|_| true)
        {
            let rule = "must look at the instance, not at requests";
            return Err(Error::config(format!("instances[{i}].scheduler.admission"), rule));
        }
    }
    Ok(())
}

/// The contents of the trace's blocks for each instance that caches prefixes;
/// instances with the same block size share them.
fn number_contents(config: &Config, trace: &Trace) -> Result<Vec<Arc<Prefixes>>, Error> {
    let mut known: Vec<(Option<u32>, Arc<Prefixes>)> = Vec::new();
    config
        .instances
        .iter()
        .map(|instance| {
            let size = instance.scheduler.prefix_cache.map(|_| instance.block_tokens);
            if let Some((_, prefixes)) = known.iter().find(|(other, _)| *other == size) {
                return Ok(Arc::clone(prefixes));
            }
            let prefixes = match size {
                Some(block_tokens) => Prefixes::new(trace, block_tokens)?,
                None => Prefixes::none(),
            };
            let prefixes = Arc::new(prefixes);
            known.push((size, Arc::clone(&prefixes)));
            Ok(prefixes)
        })
        .collect()
}
