//! Replays of traces that are read as they are replayed, whose memory does not grow with the number of requests.
//!
//! Such a replay is given the rows of the trace in chunks, in order, and stands before the moment at which the last row that
//! it has arrives: at that moment more may arrive. So whatever a policy reads is as if all rows had been known from the start,
//! and the result is the same. Requests that have ended are taken out at the front, in the order of the trace: the engine
//! keeps the rows from the first request that has not ended on.

use super::arrivals::Sending;
use super::event_loop::{Extent, Outcome, Progress, Simulation};
use super::periods;
use crate::checkpoint::{Checkpointed, Reader, Writer};
use crate::config::Config;
use crate::error::Error;
use crate::metrics::Columns;
use crate::time::{NEVER, Ticks};
use crate::trace::Trace;

/// A replay of a trace whose rows follow while it runs.
#[derive(Debug)]
pub struct Stream {
    config: Config,
    simulation: Simulation,
}

impl Stream {
    /// A replay without rows. `columns`: an empty trace with the optional columns that they will have.
    ///
    /// # Errors
    ///
    /// As for [`Simulation::new`]. If the configuration needs the whole trace: clients, whose requests wait for answers; routers
    /// that keep books of prompts, or have a number watched; a tier, which knows contents that are in no memory; steps that are recorded.
    pub fn new(config: Config, columns: Trace, calls: Option<Box<dyn super::Decide>>) -> Result<Self, Error> {
        refuse_whole_traces(&config)?;
        if !columns.is_empty() || !columns.waits.is_empty() {
            return Err(Error::trace(0, "rows are added once the replay is open, and wait for no answers"));
        }
        let mut simulation = Simulation::build(&config, columns, calls, Sending::Stream)?;
        simulation.extent.stream_to(0);
        Ok(Self { config, simulation })
    }

    /// Adds the next rows of the trace.
    ///
    /// # Errors
    ///
    /// If a row breaks a rule of traces, lacks a column, or arrives before the rows that were added last. Then none is added.
    pub fn extend(&mut self, more: Trace) -> Result<(), Error> {
        let (Some(&first), Some(&last)) = (more.arrival.iter().next(), more.arrival.last()) else {
            return Ok(());
        };
        let (before, simulation) = (self.simulation.extent.known(), &mut self.simulation);
        if first < before {
            let rule = format!("arrivals are in order of time, was {first} ticks after {before}");
            return Err(Error::trace(simulation.cluster.trace().len(), rule));
        }
        periods::check(&self.config, &more)?;
        simulation.cluster.append(more)?;
        simulation.arrivals.follow(&simulation.cluster);
        simulation.extent.stream_to(last);
        Ok(())
    }

    /// Ends the trace: what is left runs to its end.
    pub fn end_trace(&mut self) {
        self.simulation.extent.stream_to(NEVER);
    }

    /// Runs as far as the rows that it has allow, or for about `budget` events. Returns whether it needs more rows, or has
    /// ended.
    ///
    /// # Errors
    ///
    /// As for [`Simulation::advance`].
    pub fn advance(&mut self, budget: u64) -> Result<bool, Error> {
        let stop = self.simulation.cluster.events().saturating_add(budget);
        Ok(self.simulation.advance(budget)? || self.simulation.cluster.events() < stop)
    }

    /// Whether the replay has ended.
    pub fn is_done(&self) -> bool {
        self.simulation.done
    }

    /// Takes the columns of the first requests, in the order of the trace, as far as they have ended; of all that are left,
    /// if the replay has. Fewer than `least` are left where they are, and so are few of many: to take them would move the
    /// others.
    pub fn take_ended(&mut self, least: usize) -> Columns {
        let Simulation { cluster, arrivals, done, .. } = &mut self.simulation;
        let kept = cluster.trace().arrival.kept();
        let first = if *done { kept.end } else { cluster.first_open(kept.start) };
        let (ended, open) = (first - kept.start, kept.end - first);
        if ended == 0 || !*done && (ended < least || ended < open) {
            return Columns::default();
        }
        arrivals.forget(first);
        cluster.forget(first)
    }

    /// How many rows take memory: those that have not ended, and those after the first of them.
    pub fn rows_kept(&self) -> usize {
        self.simulation.cluster.trace().arrival.kept().len()
    }

    /// Its state: a replay that [resumes](Self::resume) from it goes on to the same result. Rows that were added are in it;
    /// columns that were taken are not.
    ///
    /// # Errors
    ///
    /// If the replay asks callbacks, whose state is not the engine's.
    pub fn checkpoint(&self) -> Result<Vec<u8>, Error> {
        let mut to = Writer::default();
        self.simulation.save(&mut to)?;
        self.simulation.cluster.save_contents(&mut to)?;
        Ok(to.into_bytes())
    }

    /// A replay that goes on from the state of one with the same configuration and columns.
    ///
    /// # Errors
    ///
    /// As for [`Self::new`], and if the state is of another configuration, or damaged.
    pub fn resume(config: Config, columns: Trace, state: &[u8]) -> Result<Self, Error> {
        let mut stream = Self::new(config, columns, None)?;
        let mut from = Reader::new(state);
        stream.simulation.restore(&mut from)?;
        stream.simulation.cluster.restore_contents(&mut from)?;
        from.end()?;
        Ok(stream)
    }

    /// How far the replay is; the total is of the rows that it has had.
    pub fn progress(&self) -> Progress {
        self.simulation.progress()
    }

    /// The result, less the columns that were taken.
    pub fn into_outcome(self) -> Outcome {
        self.simulation.into_outcome()
    }
}

/// Refuses what needs the whole trace, or memory for each of its requests.
fn refuse_whole_traces(config: &Config) -> Result<(), Error> {
    let refuse = |field: &str, why: &str| {
        Err(Error::config(field, format!("must be null where the trace is streamed: {why}")))
    };
    if config.clients.is_some() {
        return refuse("clients", "the moments at which they send depend on answers to any rows before");
    }
    if config.routing.books.exist() {
        return refuse("routing.books", "routers number the prompts of a whole trace");
    }
    if config.routing.watch.is_some() {
        return refuse("routing.watch", "what is watched is kept for each of its requests");
    }
    if config.record_decisions {
        return refuse("record_decisions", "recorded steps name requests of the whole trace");
    }
    match config.instances.iter().position(|instance| instance.tier.is_some()) {
        Some(i) => refuse(&format!("instances[{i}].tier"), "it knows contents that no memory has any more"),
        None => Ok(()),
    }
}

/// The moments of a trace that is streamed.
impl Extent {
    /// Has the replay stand before the moment at which the last row arrives that it has.
    fn stream_to(&mut self, last: Ticks) {
        self.streams = last != NEVER;
        self.pause = last;
    }

    /// The arrival of the last row.
    fn known(&self) -> Ticks {
        self.pause
    }
}
