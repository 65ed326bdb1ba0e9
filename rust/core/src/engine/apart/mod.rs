//! Replays of instances that do not influence each other, each on its own.
//!
//! The rules for arrivals are asked first, about all requests in the order of their arrival ([`Shares`]). So the requests of
//! each instance are known, and each instance is a replay of its own ([`Single`]), which may run on any thread. Then columns
//! and counters are put together. The result has the bytes of the replay as one: [`coupling`] says which replays cannot be
//! taken apart.

mod coupling;
mod shares;
mod single;

pub use coupling::coupling;
pub use shares::Share;
pub use single::Single;

use shares::Shares;

use super::event_loop::Outcome;
use super::live_migration::Migrations;
use super::setup;
use crate::config::{Config, Entrance, Links, Routers};
use crate::error::Error;
use crate::metrics::{Columns, OptionalColumns, Recorder, Sketch};
use crate::policy::Rule;
use crate::time::{NEVER, Ticks};
use crate::trace::Trace;

/// A replay whose instances are replayed one by one.
#[derive(Debug)]
pub struct Apart {
    /// The requests by instance.
    shares: Shares,
    /// The configuration of a cluster of one of them.
    alone: Config,
    /// The columns of the result.
    optional: OptionalColumns,
    /// How many instances there are.
    instances: usize,
    /// The links between them, over which nothing is sent.
    links: Option<Links>,
    /// The end of the simulated time, if it is given.
    until: Option<Ticks>,
}

impl Apart {
    /// A replay at its start, whose instances are coupled by nothing ([`coupling`]); and the instances with their requests.
    ///
    /// # Errors
    ///
    /// As for [`Simulation::new`](super::Simulation::new); if a request arrives too late, or a rule picks no instance.
    pub fn new(config: &Config, trace: Trace) -> Result<(Self, Vec<Share>), Error> {
        let optional = setup::optional_columns(config, &trace, false);
        let (shares, each) = Shares::new(config, trace)?;
        let (instances, links) = (each.len(), config.links.clone());
        Ok((Self { shares, alone: alone(config), optional, instances, links, until: config.until }, each))
    }

    /// The requests in the trace.
    pub fn requests(&self) -> u64 {
        self.shares.trace.len() as u64
    }

    /// The replay of one instance.
    ///
    /// # Errors
    ///
    /// As for [`Self::new`].
    pub fn open(&self, share: Share) -> Result<Single, Error> {
        Single::new(&self.alone, share, &self.shares.trace)
    }

    /// The result, once each instance has been replayed until [`Single::advance`] returned true.
    ///
    /// # Errors
    ///
    /// As for [`Simulation::advance`](super::Simulation::advance).
    pub fn join(self, mut singles: Vec<Single>) -> Result<Outcome, Error> {
        singles.sort_by_key(|single| single.index);
        let end = self.end(&singles);
        let Self { shares, optional, instances, links, .. } = self;
        let requests = shares.trace.len();
        let mut outcome = Outcome {
            columns: Columns::default(),
            gaps: Sketch::default(),
            stats: Vec::new(),
            network: Migrations::new(links.as_ref(), None, instances).network_stats(end),
            end,
            events: shares.rejected.len() as u64,
            decisions: Vec::new(),
            tiers: Vec::new(),
            stores: Vec::new(),
            watched: Vec::new(),
            flips: Vec::new(),
            transfers: Vec::new(),
            timeline: None,
        };
        let mut columns = vec![unsent(shares, optional)];
        for single in singles {
            let (rows, one) = single.finish(end)?;
            columns.push((rows, one.columns));
            outcome.gaps.merge(&one.gaps);
            outcome.stats.extend(one.stats);
            outcome.events += one.events;
            outcome.decisions.extend(one.decisions);
            outcome.tiers.extend(one.tiers);
        }
        outcome.columns = Columns::join(columns, requests);
        Ok(outcome)
    }

    /// When the whole replay ends: with the last request, or at the end of the simulated time.
    fn end(&self, singles: &[Single]) -> Ticks {
        let Shares { trace, arrived, last, .. } = &self.shares;
        if *arrived < trace.len() || !singles.iter().all(Single::has_settled) {
            return self.until.unwrap_or(NEVER);
        }
        singles.iter().map(Single::clock).fold(*last, Ticks::max)
    }
}

/// The configuration of a cluster of one of the instances, without it: all requests are sent there as they arrive.
fn alone(config: &Config) -> Config {
    let mut alone =
        Config { instances: Vec::new(), roles: Vec::new(), until: config.until, ..config.clone() };
    alone.routing.on_arrival = Rule::RoundRobin { turn: 0, within: None };
    (alone.routers, alone.entrance, alone.links) = (Routers::default(), Entrance::default(), None);
    alone
}

/// The rows of the requests that are sent to no instance, and their columns.
fn unsent(shares: Shares, optional: OptionalColumns) -> (Vec<u32>, Columns) {
    let Shares { trace, rejected, arrived, .. } = shares;
    let later = arrived as u32..trace.len() as u32;
    let mut recorder = Recorder::new(rejected.len() + later.len(), optional);
    for (place, (_, reason)) in rejected.iter().enumerate() {
        recorder.reject(place, *reason);
    }
    (rejected.into_iter().map(|(row, _)| row).chain(later).collect(), recorder.columns)
}
