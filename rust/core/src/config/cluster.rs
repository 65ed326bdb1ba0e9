//! The parts of a cluster: its instances and how fast its readers read.

use serde::Deserialize;

use super::pipeline::PipelineConfig;
use super::scheduler::SchedulerConfig;
use super::speculation::SpeculationConfig;
use super::tier::TierConfig;
use crate::cost::{Cost, Traffic};
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
