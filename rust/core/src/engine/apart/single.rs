//! The replay of one instance of several that do not influence each other.

use super::shares::Share;
use crate::collections::Column;
use crate::config::Config;
use crate::engine::arrivals::Sending;
use crate::engine::event_loop::{Outcome, Progress, Simulation};
use crate::error::Error;
use crate::time::Ticks;
use crate::trace::Trace;

/// One instance of a replay that is taken apart, with the requests that are sent to it.
#[derive(Debug)]
pub struct Single {
    /// Its index among all instances.
    pub(super) index: usize,
    simulation: Simulation,
}

impl Single {
    /// The replay of a share of the requests of a trace, at its start. `config`: that of a cluster of this instance alone.
    pub(super) fn new(config: &Config, share: Share, trace: &Trace) -> Result<Self, Error> {
        let Share { index, instance, rows } = share;
        let mut simulation =
            Simulation::of_instances(config, vec![instance], trace.select(rows), None, Sending::Trace)?;
        simulation.extent.stays = true;
        Ok(Self { index, simulation })
    }

    /// Advances by about `budget` events. Returns whether all its requests have ended, or it has come to the end of the
    /// simulated time.
    ///
    /// # Errors
    ///
    /// As for [`Simulation::advance`].
    pub fn advance(&mut self, budget: u64) -> Result<bool, Error> {
        Ok(self.simulation.advance(budget)? || self.has_settled())
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        self.simulation.progress()
    }

    /// Whether all its requests have ended.
    pub(super) fn has_settled(&self) -> bool {
        let Progress { settled, total, .. } = self.simulation.progress();
        settled == total
    }

    /// When the last of them did, if all have.
    pub(super) fn clock(&self) -> Ticks {
        self.simulation.clock
    }

    /// Ends it at the moment at which the whole replay ends. A step without requests, which was decided before its requests
    /// had ended, ends before if it does so by then. Returns the rows of its requests, too.
    pub(super) fn finish(mut self, end: Ticks) -> Result<(Vec<u32>, Outcome), Error> {
        let simulation = &mut self.simulation;
        while !simulation.done {
            let (time, _) = simulation.cluster.next_end();
            if time > end {
                simulation.halt(end);
            } else {
                simulation.begin_moment(time);
                simulation.restart_step(0, time)?;
            }
        }
        // The columns stay in the order of its own requests.
        let rows = simulation.cluster.recording().0.origins.take();
        Ok((rows.map_or_else(Vec::new, Column::into_vec), self.simulation.into_outcome()))
    }
}
