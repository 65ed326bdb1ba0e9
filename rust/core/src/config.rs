//! What a replay is configured by. Python's objects are the only source of
//! defaults: every field is given, and an unknown one is an error.

mod composition;
mod limits;
mod nesting;

use serde::Deserialize;

pub(crate) use composition::MOST_KEYS;

use crate::cost::{Cost, Traffic};
use crate::engine::Lockstep;
use crate::error::Error;
use crate::policy::{Action, Expr, Routing};
use crate::time::Ticks;

/// Everything but the trace.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The replicas, in order.
    pub instances: Vec<InstanceConfig>,
    /// Where requests go.
    pub routing: Routing,
    /// The role of each instance; none given: all have role 0.
    #[serde(default)]
    pub roles: Vec<u32>,
    /// What instances are joined by; without, memory moves in no time.
    #[serde(default)]
    pub links: Option<Links>,
    /// How fast readers read, where that is looked at.
    #[serde(default)]
    pub pace: Option<Pace>,
    /// Whether all instances start their steps together, and what they share.
    #[serde(default)]
    pub lockstep: Option<Lockstep>,
    /// Where the simulated time ends, if it does.
    pub until: Option<Ticks>,
    /// Whether runs of equal steps are taken at once.
    pub leap: bool,
    /// Whether every decision is kept.
    pub record_decisions: bool,
}

/// The port by which each instance sends and receives memory, both at once.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Links {
    /// Bytes a second, in each direction.
    pub bytes_per_s: f64,
    /// From the last byte sent to the last received.
    pub latency: Ticks,
}

/// How fast readers read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// From one token to the next.
    pub interval: Ticks,
    /// From the end of reasoning to the first token of the answer.
    pub first: Ticks,
    /// From arrival to the first token that is read, where that is asked for.
    pub ttft: Option<Ticks>,
}

/// One replica.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceConfig {
    /// Usable KV blocks.
    pub blocks: u64,
    /// Tokens in a block.
    pub block_tokens: u32,
    /// The longest sequence the model takes, if there is a limit.
    pub max_model_len: Option<u64>,
    /// Bytes of one token's KV over all of its GPUs; 0 where nobody knows.
    #[serde(default)]
    pub kv_bytes_per_token: u64,
    /// What a step takes.
    pub cost: Cost,
    /// What steps move and compute, where that is known.
    #[serde(default)]
    pub traffic: Option<Traffic>,
    /// How steps are formed.
    pub scheduler: SchedulerConfig,
}

/// How an instance forms its steps: stages that run one after another, and the
/// rules that they share.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a rule of some engine, and they combine freely")]
pub struct SchedulerConfig {
    /// Tokens that one step may compute.
    pub max_num_batched_tokens: u64,
    /// Requests that may be admitted at once.
    pub max_num_seqs: u64,
    /// The longest chunk of a prefill while others want a share; 0: no limit.
    pub long_prefill_token_threshold: u64,
    /// Whether that holds too for a request that is alone.
    pub threshold_when_alone: bool,
    /// What a step is formed by, in order.
    pub stages: Vec<Stage>,
    /// Whether a step with prefills has no decodes.
    pub exclusive_prefill: bool,
    /// Who is admitted first.
    pub order: QueueOrder,
    /// Whether who comes in waits for room, or makes it.
    #[serde(default)]
    pub admission: Admission,
    /// Who gives way when blocks run out.
    pub victim: Victim,
    /// What an admission takes.
    pub allocation: Allocation,
    /// Blocks that admissions leave free.
    pub watermark_blocks: u64,
    /// Whether that holds too when nothing runs.
    pub watermark_when_idle: bool,
    /// Whether a request goes on only if a block is free, needed or not.
    pub spare_block: bool,
    /// Whether, after each step, prefills stand behind decodes in the order.
    pub decodes_first: bool,
    /// Whether a victim that was scheduled in the same step gives its tokens
    /// back to the budget.
    pub refund: bool,
    /// Whether those behind a request that gave way to itself sit the step out.
    pub stop_at_own_preemption: bool,
    /// What happens to a victim's memory.
    pub preemption: Preemption,
    /// Whether a victim is queued again only after the step is formed, so that
    /// others may be let in before it in the same step.
    pub requeue_late: bool,
    /// Whether prefixes are cached, and how.
    pub prefix_cache: Option<PrefixCacheConfig>,
    /// Whether a step is decided when the one before it starts: it then knows of
    /// nobody who arrived, and of no memory that came free, since.
    pub schedule_ahead: bool,
}

/// A part of forming a step.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Stage {
    /// Everyone admitted, in order of admission.
    Running,
    /// Those who decode, in order of admission.
    Decodes {
        /// Whether they use up the step's tokens.
        charged: bool,
        /// Whether they share `max_num_seqs` with the step's prefills.
        seated: bool,
        /// Whether prefills under way can give way to them.
        over_prefills: bool,
    },
    /// Prefills under way, in order of admission.
    Prefills,
    /// Those who were swapped out, in order.
    SwapIn {
        /// Only if nobody was preempted in this step.
        unless_preempted: bool,
    },
    /// Those who wait, in the queue's order, until one does not fit.
    Admit {
        /// Whether the last one may be cut to what is left of the tokens.
        chunked: bool,
        /// Only if nobody was preempted in this step.
        unless_preempted: bool,
        /// Only if nobody is swapped out.
        unless_swapped: bool,
        /// Whether `max_num_seqs` counts those who decode.
        count_decodes: bool,
        /// Only when nothing runs and enough have gathered, or waited enough.
        gather: Option<Gather>,
    },
    /// Prefills run a group of layers a step; a new batch is formed, of
    /// prefills under way and of those who wait, once the last is through.
    Layered {
        /// Layers of the model.
        layers: u32,
        /// Groups for a batch of so many tokens.
        groups: GroupRule,
    },
}

/// When a batch is full enough to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gather {
    /// Requests that make a batch.
    pub size: u64,
    /// How long the first of them waits for the others.
    pub wait: Ticks,
}

/// In how many groups of layers a batch of prefills runs: as many as the first
/// entry of `limits` says whose tokens the batch does not exceed; beyond them,
/// one for each `tokens_per_group` begun; never more than `most`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupRule {
    /// (tokens, groups), by tokens.
    pub limits: Vec<(u64, u32)>,
    /// Tokens a group beyond the limits; 0: always `most`.
    pub tokens_per_group: u64,
    /// The most groups.
    pub most: u32,
}

impl GroupRule {
    /// Groups for a batch of `tokens`.
    pub fn groups(&self, tokens: u64) -> u32 {
        let table = self.limits.iter().find(|(limit, _)| tokens <= *limit);
        let groups = match table {
            Some(&(_, groups)) => groups,
            None if self.tokens_per_group > 0 => tokens.div_ceil(self.tokens_per_group) as u32,
            None => self.most,
        };
        groups.clamp(1, self.most)
    }
}

/// Who is admitted first. Ties go to the earlier arrival, then the earlier row.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum QueueOrder {
    /// First come, first served; who was preempted goes before all others.
    Arrival,
    /// The smallest priority.
    Priority,
    /// The longest prefix in the cache, looked at anew for each step; first
    /// come, first served where more than `most` wait.
    LongestPrefix {
        /// The longest queue that is sorted.
        most: u64,
    },
    /// The best rank. All who are on the instance have one, and who runs with
    /// the worst gives way first.
    Ranked(Box<Ranking>),
}

/// How requests are ranked: by class, then by the class's keys, then by row.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ranking {
    /// The classes, the best first.
    pub classes: Vec<Class>,
    /// Tokens in a quantum; 0: there are none.
    #[serde(default)]
    pub quantum: u32,
    /// When keys are looked at anew though nothing happened to their request.
    #[serde(default)]
    pub refresh: Refresh,
}

impl Ranking {
    /// All that ranks are made of.
    pub(crate) fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.classes.iter().flat_map(|class| class.when.iter().chain(&class.keys))
    }
}

/// Requests that go before, or after, all others.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Who is in it, of those whom no class before took; nothing: all.
    #[serde(default)]
    pub when: Option<Expr>,
    /// Tokens that one who has entered it yields before leaving it; 0: none.
    #[serde(default)]
    pub hold: u32,
    /// What its members are ranked by, the smallest first.
    pub keys: Vec<Expr>,
}

/// How often keys are looked at anew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refresh {
    /// At each so many steps of the instance; 0: never.
    pub steps: u64,
    /// At the first step from each multiple of this; 0: never.
    pub ticks: Ticks,
}

impl Refresh {
    /// Whether keys wait for it.
    #[inline]
    pub(crate) fn is_set(self) -> bool {
        self.steps > 0 || self.ticks > 0
    }
}

/// How who is next comes in.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Admission {
    /// It waits for room.
    #[default]
    Wait,
    /// Those of worse rank who run give way.
    Displace {
        /// Only if this holds of the instance.
        #[serde(default)]
        when: Option<Expr>,
        /// The most that give way in a step; 0: no limit.
        #[serde(default)]
        most: u64,
    },
}

/// Who gives way when blocks run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Victim {
    /// The latest admitted.
    Latest,
    /// The largest priority, then the latest arrival; even one scheduled already.
    Worst,
    /// The fewest tokens yielded, then the longest prompt.
    FewestGenerated,
}

/// What an admission takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allocation {
    /// Blocks for its first chunk.
    Chunk,
    /// Blocks for its first chunk, if those for the whole sequence are free.
    ChunkIfAllFits,
    /// Blocks for the whole sequence.
    Sequence,
}

/// What happens to a victim's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Preemption {
    /// It is lost, and computed again.
    Recompute,
    /// It is copied to the CPU's memory; where that is full it is lost.
    Swap {
        /// Blocks of the CPU's memory.
        blocks: u64,
        /// Ticks to copy a block out.
        out: Ticks,
        /// Ticks to copy a block in.
        back: Ticks,
        /// Whether copies run beside the step, which then takes the longer of
        /// the two, or before it.
        overlapped: bool,
    },
}

/// How prefixes are cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefixCacheConfig {
    /// Whether freed blocks without known content are reused before all others.
    pub unknown_first: bool,
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
            let rule = format!("must be one an instance, were {}", self.roles.len());
            return Err(Error::config("roles", rule));
        }
        if self.links.is_some_and(|links| !(links.bytes_per_s > 0.0 && links.bytes_per_s.is_finite())) {
            return Err(Error::config("links.bytes_per_s", "must be above 0"));
        }
        if let Some(pace) = self.pace
            && (pace.interval == 0 || pace.first < pace.interval)
        {
            return Err(Error::config("pace", "must have an interval above 0, and first no shorter than it"));
        }
        if self.routing.every.iter().any(|monitor| monitor.period == 0) {
            return Err(Error::config("routing.every.period", "must be above 0"));
        }
        let mut actions = self.routing.every.iter().flat_map(|monitor| &monitor.actions);
        if actions.any(|Action::Migrate { choose, .. }| choose.within.is_some()) {
            let rule = "must be null: it is a request that is chosen, from the source";
            return Err(Error::config("routing.every.actions.choose.within", rule));
        }
        Ok(())
    }
}

impl SchedulerConfig {
    /// Whether prompts are cut into chunks.
    pub(crate) fn cuts_prompts(&self) -> bool {
        !self.stages.iter().any(|stage| matches!(stage, Stage::Admit { chunked: false, .. }))
    }

    /// Whether prefills run a group of layers a step.
    pub(crate) fn is_layered(&self) -> bool {
        self.stages.iter().any(|stage| matches!(stage, Stage::Layered { .. }))
    }
}
