//! The parts of a cluster: its instances and how fast its readers read.

use serde::Deserialize;

use super::pipeline::PipelineConfig;
use super::scheduler::SchedulerConfig;
use super::speculation::SpeculationConfig;
use super::tier::TierConfig;
use crate::cost::{Cost, Curve, Traffic};
use crate::time::Ticks;

/// How fast users read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// Ticks from one token to the next.
    pub interval: Ticks,
    /// Ticks from the end of reasoning to the first token of the answer.
    pub first: Ticks,
    /// Ticks from arrival to the first token that is read, if the policy or a metric sets such a target.
    pub ttft: Option<Ticks>,
}

/// One instance.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceConfig {
    /// Usable KV blocks.
    pub blocks: u64,
    /// Tokens in a block.
    pub block_tokens: u32,
    /// The longest sequence that the model takes, if there is a limit.
    pub max_model_len: Option<u64>,
    /// Bytes of one token's KV over all of the instance's GPUs; 0 if unknown.
    #[serde(default)]
    pub kv_bytes_per_token: u64,
    /// Blocks that a request holds beside those of its tokens, as soon as it holds any: the states of layers whose
    /// memory does not grow with the context.
    #[serde(default)]
    pub state_blocks: u32,
    /// Bytes of those states over all of the instance's GPUs, which a transfer of the request moves once.
    #[serde(default)]
    pub state_bytes: u64,
    /// Layers that have equal shares of what a transfer moves, one message each where transfers overlap with prefills.
    #[serde(default = "one")]
    pub kv_layers: u32,
    /// How long a step takes.
    pub cost: Cost,
    /// The bytes and operations of steps; `None` if they are not counted.
    #[serde(default)]
    pub traffic: Option<Traffic>,
    /// The number of the model that it serves; `None`: it serves every request, whatever model that names.
    #[serde(default)]
    pub model: Option<u32>,
    /// How steps are formed.
    pub scheduler: SchedulerConfig,
    /// How tokens are drafted and verified; `None`: a step yields one token of a request.
    #[serde(default)]
    pub speculation: Option<SpeculationConfig>,
    /// The chunks of prefixes that it keeps in the host's memory; `None`: it keeps none.
    #[serde(default)]
    pub tier: Option<TierConfig>,
    /// Its stages, if several batches are in them at a time; `None`: one batch passes all of them.
    #[serde(default)]
    pub pipeline: Option<PipelineConfig>,
}

/// The default of `kv_layers`.
fn one() -> u32 {
    1
}

/// The resources that instances share whose steps start together.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lockstep {
    /// Ticks of the part of a step that all instances share, by the tokens of all instances.
    pub shared: Curve,
    /// Up to this many tokens on one instance, every instance computes as many tokens as the one with the most.
    pub padded: u64,
    /// At which steps the instances agree whether to go on; `None`: no step is run if no instance has a request.
    #[serde(default)]
    pub sync: Option<Sync>,
    /// When prompts wait until every instance has one; `None`: they do not.
    #[serde(default)]
    pub balance: Option<Balance>,
}

/// When instances that step together hold prompts back: until each has one that fits, so that all compute prompts in the
/// same steps. An instance that has prompts and runs no request ends the wait of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Balance {
    /// The steps in which not every instance has a prompt, in a row, of which the last lets prompts pass.
    pub timeout_steps: u64,
    /// The steps for which prompts wait on, once every instance has one and runs requests.
    pub gather_steps: u64,
}

/// The steps at which instances that step together agree whether to go on. Up to the next such step they step on, though
/// none has a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sync {
    /// Every so many steps.
    pub every: u64,
    /// Whether the first step is one of them.
    pub first: bool,
}
