//! The loop: arrivals, ends of steps, starts of steps, in a total order.
//!
//! At one moment, first all steps that end then end (instances by index), then
//! all requests that arrive then are routed (in the trace's order), then the
//! instances that are free start a step. So a step sees everything that has
//! arrived by its start, and a router sees each instance as of its last
//! finished step.

mod calendar;
mod route;

use std::sync::Arc;

use calendar::Calendar;
use route::Router;

use crate::config::Config;
use crate::error::Error;
use crate::instance::{Instance, StepRecord, World};
use crate::kv::Prefixes;
use crate::metrics::{Columns, Sketch, Status, Usage};
use crate::time::{NEVER, Ticks};
use crate::trace::Trace;

/// A replay: a state machine that is advanced until it is done.
#[derive(Debug)]
pub struct Simulation {
    trace: Trace,
    leap: bool,
    until: Ticks,
    instances: Vec<Instance>,
    calendar: Calendar,
    router: Router,
    columns: Columns,
    gaps: Sketch,
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
    pub usage: Vec<Usage>,
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
        trace.validate()?;
        let prefixes = number_contents(config, &trace)?;
        let instances: Vec<_> = std::iter::zip(&config.instances, &prefixes)
            .enumerate()
            .map(|(i, (instance, prefixes))| Instance::new(i, instance, prefixes, config.record_decisions))
            .collect();
        Ok(Self {
            leap: config.leap,
            until: config.until.unwrap_or(NEVER - 1),
            calendar: Calendar::new(instances.len()),
            router: Router::new(config.routing, &instances),
            columns: Columns::new(trace.len(), trace.reasoning_tokens.is_some()),
            gaps: Sketch::default(),
            clock: 0,
            next_arrival: 0,
            settled: 0,
            events: 0,
            starting: Vec::new(),
            done: false,
            instances,
            trace,
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
            let arrives = self.trace.arrival.get(self.next_arrival).copied().unwrap_or(NEVER);
            let now = ends.min(arrives);
            if now > self.until {
                self.halt(now);
                break;
            }
            self.clock = now;
            if arrives > now {
                // Nobody can be sent anywhere now, so the next step can start
                // whatever else ends at this moment.
                self.end_step(index, now);
                self.start_step(index, now)?;
                continue;
            }
            while let (time, index) = self.calendar.first()
                && time == now
            {
                self.end_step(index, now);
                self.free(index);
            }
            self.route_arrivals(now);
            self.start_steps(now)?;
        }
        Ok(self.done)
    }

    /// How far the replay has come.
    pub fn progress(&self) -> Progress {
        Progress { settled: self.settled, total: self.trace.len() as u64, clock: self.clock }
    }

    fn end_step(&mut self, index: usize, now: Ticks) {
        self.events += 1;
        let mut world =
            World { trace: &self.trace, columns: &mut self.columns, gaps: &mut self.gaps, leap: self.leap };
        let finished = self.instances[index].finish(now, &mut world);
        self.router.finished(index, finished);
        self.settled += finished;
    }

    /// Has an instance start its next step once this moment's arrivals are in.
    fn free(&mut self, index: usize) {
        self.calendar.set(index, NEVER);
        self.starting.push(index);
    }

    fn route_arrivals(&mut self, now: Ticks) {
        while self.trace.arrival.get(self.next_arrival) == Some(&now) {
            let row = self.next_arrival;
            self.next_arrival += 1;
            self.events += 1;
            let (prompt, output) = (self.trace.prompt_tokens[row], self.trace.output_tokens[row]);
            match self.router.pick(prompt, output, now, &self.instances) {
                Ok(index) => self.deliver(row, index, now),
                Err(reason) => {
                    self.columns.status[row] = Status::Rejected as u8;
                    self.columns.reason[row] = reason as u8;
                    self.settled += 1;
                }
            }
        }
    }

    fn deliver(&mut self, row: usize, index: usize, now: Ticks) {
        let mut world =
            World { trace: &self.trace, columns: &mut self.columns, gaps: &mut self.gaps, leap: self.leap };
        let instance = &mut self.instances[index];
        if let Some(end) = instance.arrive(row as u32, now, &mut world) {
            if end > now {
                self.calendar.set(index, end);
            } else {
                // The run had a step that ends at this very moment.
                self.end_step(index, now);
                self.free(index);
            }
        } else if instance.is_idle() && !self.starting.contains(&index) {
            self.starting.push(index);
        }
    }

    fn start_steps(&mut self, now: Ticks) -> Result<(), Error> {
        let mut starting = std::mem::take(&mut self.starting);
        for index in starting.drain(..) {
            self.start_step(index, now)?;
        }
        self.starting = starting;
        Ok(())
    }

    fn start_step(&mut self, index: usize, now: Ticks) -> Result<(), Error> {
        let mut world =
            World { trace: &self.trace, columns: &mut self.columns, gaps: &mut self.gaps, leap: self.leap };
        let end = self.instances[index].begin(now, &mut world)?;
        let dropped = self.instances[index].take_given_up();
        if dropped > 0 {
            self.router.finished(index, dropped);
            self.settled += dropped;
        }
        self.calendar.set(index, end.unwrap_or(NEVER));
        Ok(())
    }

    /// Ends the replay: everything has happened, or the simulated time is up.
    fn halt(&mut self, next: Ticks) {
        if next != NEVER {
            self.clock = self.until;
        }
        let mut world =
            World { trace: &self.trace, columns: &mut self.columns, gaps: &mut self.gaps, leap: self.leap };
        for instance in &mut self.instances {
            instance.halt(self.clock, &mut world);
        }
        self.done = true;
    }

    /// What happened.
    pub fn into_outcome(mut self) -> Outcome {
        Outcome {
            columns: self.columns,
            gaps: self.gaps,
            usage: self.instances.iter().map(Instance::usage).collect(),
            end: self.clock,
            events: self.events,
            decisions: self.instances.iter_mut().map(Instance::take_log).collect(),
        }
    }
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
