//! Replays that are driven from outside: requests are submitted while they run, up to a moment at a time.
//!
//! Between two calls such a replay stands at a moment t, as [`Simulation::run_until`] left it: all moments before t are
//! over. If something happens at t, its first phase is over, too: the steps that end at t have ended, and nothing has been
//! routed or started since. So a request that is submitted then and sent at t is routed as if it had been known before, and a
//! replay of the same requests as one trace gives the same result.

use super::arrivals::Sending;
use super::event_loop::Simulation;
use super::roles::{Cause, Flipping};
use crate::config::Config;
use crate::error::Error;
use crate::metrics::Event;
use crate::policy::InstField;
use crate::time::{NEVER, Ticks};
use crate::trace::Trace;

/// The fields of an instance that [`Simulation::state`] returns, by name.
pub const STATE_FIELDS: [(&str, InstField); 15] = [
    ("running", InstField::Running),
    ("waiting", InstField::Waiting),
    ("swapped", InstField::Swapped),
    ("requests", InstField::Requests),
    ("prefilling_requests", InstField::PrefillingRequests),
    ("decoding_requests", InstField::DecodingRequests),
    ("kv_tokens", InstField::KvTokens),
    ("gpu_kv_tokens", InstField::GpuKvTokens),
    ("cpu_kv_tokens", InstField::CpuKvTokens),
    ("running_tokens", InstField::RunningTokens),
    ("outstanding_tokens", InstField::OutstandingTokens),
    ("free_blocks", InstField::FreeBlocks),
    ("total_blocks", InstField::TotalBlocks),
    ("kv_usage", InstField::KvUsage),
    ("role", InstField::Role),
];

impl Simulation {
    /// A replay without requests, to which they are submitted. `columns`: an empty trace with the optional columns that they
    /// will have. It stands at 0.
    ///
    /// # Errors
    ///
    /// As for [`Self::new`]. If clients are configured, which only a trace has, an end of time, or routers that keep
    /// books of prompts.
    pub fn open(
        config: &Config,
        columns: Trace,
        calls: Option<Box<dyn super::Decide>>,
    ) -> Result<Self, Error> {
        if config.clients.is_some() {
            let rule = "must be null where requests are submitted: a caller waits for answers";
            return Err(Error::config("clients", rule));
        }
        if config.until.is_some() {
            let rule = "must be null where requests are submitted: a caller runs as far as it likes";
            return Err(Error::config("until", rule));
        }
        if config.routing.books.exist() {
            let rule =
                "must be null where requests are submitted: routers number the prompts of a whole trace";
            return Err(Error::config("routing.books", rule));
        }
        if !columns.is_empty() {
            return Err(Error::trace(0, "requests are submitted once the replay is open"));
        }
        let mut simulation = Self::build(config, columns, calls, Sending::Outside)?;
        simulation.extent.pause = 0;
        Ok(simulation)
    }

    /// Adds requests, in any order of their arrivals, none of which is before the moment at which the replay stands.
    ///
    /// # Errors
    ///
    /// If a row breaks a rule of traces, lacks a column, or arrives too early. Then none is added.
    pub fn submit(&mut self, more: Trace) -> Result<(), Error> {
        let at = self.extent.pause;
        if let Some(row) = more.arrival.iter().position(|&arrival| arrival < at) {
            let rule = format!(
                "must arrive at {at} ticks or later, where the replay stands, was {}",
                more.arrival[row]
            );
            return Err(Error::trace(row, rule));
        }
        let arrivals = more.arrival.as_slice().to_vec();
        self.cluster.append(more)?;
        self.arrivals.grow(&arrivals, &self.cluster);
        Ok(())
    }

    /// Runs up to `moment`, or for about `budget` events. Returns whether it stands at `moment`, or has ended.
    ///
    /// # Errors
    ///
    /// As for [`Self::advance`].
    pub fn run_until(&mut self, moment: Ticks, budget: u64) -> Result<bool, Error> {
        self.extent.pause = self.extent.pause.max(moment);
        let stop = self.cluster.events().saturating_add(budget);
        Ok(self.advance(budget)? || self.cluster.events() < stop)
    }

    /// Runs to the next moment at which something happens, and stands there. If a request is rejected at the moment at which
    /// the replay stood, it stands a tick after it instead: a client may react before anything else happens. Returns where it
    /// stands; `None` if nothing happens before another request is submitted, which then is after the moment at which the
    /// replay stood.
    ///
    /// # Errors
    ///
    /// As for [`Self::advance`].
    pub fn step(&mut self) -> Result<Option<Ticks>, Error> {
        if self.extent.halfway {
            let told = self.cluster.told();
            self.finish_pause()?;
            if self.cluster.rejects_after(told) {
                self.extent.pause += 1;
                return Ok(Some(self.extent.pause));
            }
        }
        let next = self.cluster.next_end().0.min(self.next_other());
        if next == NEVER {
            self.extent.pause = self.extent.pause.saturating_add(u64::from(self.clock == self.extent.pause));
            return Ok(None);
        }
        self.extent.pause = next;
        self.reach_pause(next);
        Ok(Some(next))
    }

    /// Ends the submissions: what is left runs to its end with [`Self::advance`].
    pub fn close(&mut self) {
        self.extent.pause = NEVER;
        self.arrivals.close();
    }

    /// The fields of each instance at the moment at which the replay stands, in the order of [`STATE_FIELDS`].
    pub fn state(&mut self) -> Vec<[f64; STATE_FIELDS.len()]> {
        let at = self.catch_up();
        (0..self.cluster.len())
            .map(|index| STATE_FIELDS.map(|(_, field)| self.cluster.state(index, field, at)))
            .collect()
    }

    /// The requests that are on instances at the moment at which the replay stands: row in the order of submission, instance,
    /// and the output tokens so far.
    pub fn tokens(&mut self) -> Vec<(u32, u32, u32)> {
        self.catch_up();
        let trace = self.cluster.trace();
        let mut found: Vec<_> = std::iter::zip(0.., self.cluster.instances())
            .flat_map(|(index, instance)| {
                instance
                    .output_tokens()
                    .map(move |(request, tokens)| (trace.origin(request).0, index, tokens))
            })
            .collect();
        found.sort_unstable();
        found
    }

    /// Takes what has happened to requests since the last call, in the order of the moments.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.catch_up();
        self.cluster.take_events()
    }

    /// Brings all instances to the moment at which the replay stands, and returns it.
    fn catch_up(&mut self) -> Ticks {
        let at = self.stands_at();
        if self.sampling.next() < at {
            self.sampling.sample(at - 1, &mut self.cluster);
        }
        for index in 0..self.cluster.len() {
            self.cluster.catch_up(index, at);
        }
        at
    }

    /// Has an instance change its pool to `role`, as a monitor would at the moment at which the replay stands. Returns whether
    /// it is in that pool then, or on its way.
    ///
    /// # Errors
    ///
    /// If there is no such instance, or the replay has ended.
    pub fn set_role(&mut self, index: usize, role: u32) -> Result<bool, Error> {
        if index >= self.cluster.len() {
            let rule = format!("must be below {}, was {index}", self.cluster.len());
            return Err(Error::config("instance", rule));
        }
        let now = self.stands_at();
        self.open_moment(now);
        let flip = Flipping { to: role, keep: 0, cause: Cause::Outside };
        Ok(self.cluster.flip(index, flip, now))
    }

    /// The moment at which the replay stands.
    pub fn stands_at(&self) -> Ticks {
        if self.extent.pause == NEVER { self.clock } else { self.extent.pause }
    }
}
