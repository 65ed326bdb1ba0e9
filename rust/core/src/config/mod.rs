//! The configuration of a replay, read from JSON and checked.
//!
//! The defaults of users' settings are Python's. A field that is not optional here must be given, and an unknown
//! field is an error. Features that a cluster may lack altogether (roles, links, a reading pace, lockstep, traffic)
//! may be left out.

mod accumulator;
mod ahead;
mod chunks;
mod clients;
mod cluster;
mod composition;
mod entrance;
mod eviction;
mod exclusions;
mod gauges;
mod handover;
mod limits;
mod links;
mod lockstep;
mod nesting;
mod pipeline;
mod pools;
mod prefix_tree;
mod prompt_batch;
mod ranking;
mod reserve;
mod routers;
mod scaling;
mod scheduler;
mod speculation;
mod step_limits;
mod store;
mod tier;
mod window;

use serde::Deserialize;

pub use accumulator::{Accumulator, Charged, Grouping, Lift};
pub(crate) use accumulator::{MOST_ACCUMULATORS, UNITS};
pub use clients::{Clients, Patience};
pub use cluster::{InstanceConfig, Pace};
pub(crate) use composition::MOST_KEYS;
pub use entrance::{Entrance, Prediction};
pub use eviction::{EvictionConfig, EvictionGroups};
pub use handover::{AcceptanceReserve, Handover, Offering, Overlap};
pub(crate) use limits::MOST_BLOCK_TOKENS;
#[cfg(test)]
pub(crate) use links::{LEAST_RATE, MOST_RATE};
pub use links::{Links, Pair, Port, Speed};
pub use lockstep::{Balance, Lockstep, Sync};
pub use pipeline::PipelineConfig;
pub use pools::Leaving;
pub use prompt_batch::PromptBatch;
pub(crate) use ranking::LAST_LEVEL;
pub use ranking::{Class, Levels, Ranking, Refresh};
pub use reserve::ReserveConfig;
pub(crate) use reserve::SHARE_WHOLE;
pub use routers::{Relay, Routers};
pub use scheduler::{
    Admission, Allocation, Gather, GroupRule, Preemption, PrefixCacheConfig, PrefixTreeConfig, QueueOrder,
    SchedulerConfig, Stage, Victim,
};
#[cfg(test)]
pub(crate) use speculation::Listed;
pub use speculation::{DraftAcceptance, DraftSlots, SpeculationConfig};
pub use step_limits::VaryingLimits;
pub use store::{Prefetch, PrefetchStop, StoreConfig, StoreEviction, StoreLink};
pub use tier::{CopyTime, Eviction, TierConfig, Write};
pub use window::Window;

use crate::error::Error;
use crate::policy::{Action, Routing};
use crate::time::Ticks;
use crate::timeline::Sample;

/// Everything that a replay needs besides the trace.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The instances, in order of their index.
    pub instances: Vec<InstanceConfig>,
    /// The stores of chunks below the host's memory, by number.
    #[serde(default)]
    pub stores: Vec<StoreConfig>,
    /// The rules that route requests.
    pub routing: Routing,
    /// The role of each instance at the start; if empty, every instance has role 0.
    #[serde(default)]
    pub roles: Vec<u32>,
    /// The pools of instances that have been told to change their pool.
    #[serde(default)]
    pub leaving: Vec<Leaving>,
    /// The way of requests to the routers; by default they arrive as they are sent.
    #[serde(default)]
    pub entrance: Entrance,
    /// Clients that limit the requests in flight, or send them again; `None`: each request is sent when it arrives.
    #[serde(default)]
    pub clients: Option<Clients>,
    /// The routers; by default one, which sees the instances as they are.
    #[serde(default)]
    pub routers: Routers,
    /// The network between instances; without it, a transfer takes no time.
    #[serde(default)]
    pub links: Option<Links>,
    /// How a request that migrates takes memory on its target; without it, its KV waits off the GPU for its admission.
    #[serde(default)]
    pub handover: Option<Handover>,
    /// How fast users read; `None` if no metric and no policy needs it.
    #[serde(default)]
    pub pace: Option<Pace>,
    /// The groups of instances that start their steps together; `None` if each steps on its own.
    #[serde(default)]
    pub lockstep: Option<Vec<Lockstep>>,
    /// When the replay stops, if it stops before every request has finished.
    pub until: Option<Ticks>,
    /// Whether a run of equal steps is computed at once.
    pub leap: bool,
    /// Whether the decisions of every step are recorded.
    pub record_decisions: bool,
    /// When steps must start, and transfers must be sent, to be recorded; `None`: all are, if any.
    #[serde(default)]
    pub record_between: Option<Window>,
    /// The most entries of recorded steps: one for each step, and one for each request in it. `None`: any number.
    #[serde(default)]
    pub record_most: Option<u64>,
    /// When the instances are sampled; `None` if they are not.
    #[serde(default)]
    pub sample: Option<Sample>,
}

impl Config {
    /// Reads a configuration from JSON.
    ///
    /// # Errors
    ///
    /// Names the field that is missing, unknown, or out of range.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Error> {
        let levels = nesting::levels(bytes);
        if levels > nesting::MOST_LEVELS {
            let rule = format!("must be nested in at most {} levels, was in {levels}", nesting::MOST_LEVELS);
            return Err(Error::config("configuration", rule));
        }
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        reader.disable_recursion_limit();
        let config = Self::deserialize(&mut reader).and_then(|config| reader.end().map(|()| config));
        let config = config.map_err(|error| Error::config("configuration", error.to_string()))?;
        config.validate()?;
        Ok(config)
    }

    /// Checks how requests arrive.
    fn check_arrivals(&self) -> Result<(), Error> {
        self.clients.as_ref().map_or(Ok(()), Clients::check)?;
        if self.entrance.prediction.is_some_and(|prediction| prediction.batch == 0) {
            return Err(Error::config("entrance.prediction.batch", "must be 1 or more prompts, was 0"));
        }
        Ok(())
    }

    /// Checks every rule that the engine relies on.
    fn validate(&self) -> Result<(), Error> {
        if self.instances.is_empty() {
            return Err(Error::config("instances", "a cluster has at least 1 instance, had 0"));
        }
        self.check_limits()?;
        for (i, instance) in self.instances.iter().enumerate() {
            instance
                .scheduler
                .check_composition()
                .map_err(|(field, rule)| Error::config(format!("instances[{i}].scheduler.{field}"), rule))?;
        }
        if !self.roles.is_empty() && self.roles.len() != self.instances.len() {
            let rule = format!(
                "must be one for each of {} instances, had {}",
                self.instances.len(),
                self.roles.len()
            );
            return Err(Error::config("roles", rule));
        }
        self.links.as_ref().map_or(Ok(()), |links| links.check(self.instances.len()))?;
        self.check_arrivals()?;
        if let Some((field, rule)) = self.handover.as_ref().and_then(Handover::broken_rule) {
            return Err(Error::config(format!("handover.{field}"), rule));
        }
        self.check_pools()?;
        self.check_scaling()?;
        self.check_gauges()?;
        if let Some(pace) = self.pace
            && (pace.interval == 0 || pace.first < pace.interval)
        {
            return Err(Error::config("pace", "must have an interval above 0, and first at least as long"));
        }
        self.check_groups()?;
        self.check_exclusions()?;
        self.check_selections()?;
        self.check_ahead()?;
        self.check_stores()?;
        self.check_pipelines()?;
        self.check_overlap()?;
        self.check_routing()
    }

    /// Checks that no instance selects requests by rank where they are handed over.
    fn check_selections(&self) -> Result<(), Error> {
        if self.handover.is_some() && self.instances.iter().any(|instance| instance.scheduler.selects()) {
            let rule =
                "must be null where an instance selects requests by rank: it has no order in which to accept";
            return Err(Error::config("handover", rule));
        }
        Ok(())
    }

    /// Checks schedulers that decide steps ahead beside drafts.
    fn check_ahead(&self) -> Result<(), Error> {
        for (i, instance) in self.instances.iter().enumerate() {
            let Some(drafts) = instance.speculation.as_ref().filter(|_| instance.scheduler.schedule_ahead)
            else {
                continue;
            };
            instance
                .scheduler
                .check_drafts_ahead(drafts)
                .map_err(|rule| Error::config(format!("instances[{i}].speculation"), rule))?;
            if self.handover.is_some() {
                let rule =
                    "must be null where an instance decides steps ahead (schedule_ahead) and drafts tokens";
                return Err(Error::config("handover", rule));
            }
        }
        Ok(())
    }

    /// Checks the rules of routing.
    fn check_routing(&self) -> Result<(), Error> {
        if self.routing.decode_on_arrival.is_some() && self.routing.on_prefilled.is_some() {
            let rule = "must be null where decode_on_arrival picks the instances that decode";
            return Err(Error::config("routing.on_prefilled", rule));
        }
        if self.routing.every.iter().any(|monitor| monitor.period == 0) {
            return Err(Error::config("routing.every.period", "must be above 0"));
        }
        self.routing.check_books()?;
        if self.routing.reads_accumulators() {
            let rule = "must not read an accumulator: the scheduler of an instance keeps it";
            return Err(Error::config("routing", rule));
        }
        let later = self.routing.on_prefilled.iter().chain(&self.routing.on_answering);
        if later.clone().any(|rule| rule.holds() || rule.rejects()) {
            let rule = "must not hold or reject a request: only one that arrives can be";
            return Err(Error::config("routing.on_prefilled, routing.on_answering", rule));
        }
        let mut actions = self.routing.every.iter().flat_map(|monitor| &monitor.actions);
        if actions.any(|action| matches!(action, Action::Migrate { choose, .. } if choose.within.is_some())) {
            let rule = "must be null: the choice is among requests of the source";
            return Err(Error::config("routing.every.actions.choose.within", rule));
        }
        Ok(())
    }

    /// Checks that transfers overlap with prefills only where that has a meaning.
    fn check_overlap(&self) -> Result<(), Error> {
        let arrival = self.handover.is_some_and(|handover| handover.offer == Offering::Arrival);
        if arrival && self.routing.decode_on_arrival.is_none() {
            let rule = "must be \"prefilled\" without routing.decode_on_arrival, was \"arrival\": a request cannot be \
                        offered before its target is picked";
            return Err(Error::config("handover.offer", rule));
        }
        if self.handover.is_none_or(|handover| handover.overlap == Overlap::None) {
            return Ok(());
        }
        if self.routing.decode_on_arrival.is_none() {
            let rule = "must be \"none\" without routing.decode_on_arrival, was \"layers\": a target that is picked \
                        once the prefill has ended cannot have reserved blocks";
            return Err(Error::config("handover.overlap", rule));
        }
        let layered = |instance: &InstanceConfig| instance.scheduler.is_layered();
        if let Some(i) = self.instances.iter().position(layered) {
            let rule = format!(
                "must be \"none\" where an instance moves prompts through groups of layers, was \"layers\" and \
                 instances[{i}] does: a layer's KV is not ready in proportion to the last step"
            );
            return Err(Error::config("handover.overlap", rule));
        }
        Ok(())
    }
}
