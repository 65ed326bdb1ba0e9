//! What a replay is configured by. Python's objects are the only source of
//! defaults: every field is given, and an unknown one is an error.

use serde::Deserialize;

use crate::cost::Cost;
use crate::error::Error;
use crate::time::Ticks;

/// Everything but the trace.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The replicas, in order.
    pub instances: Vec<InstanceConfig>,
    /// Which instance an arrival joins.
    pub routing: Routing,
    /// Where the simulated time ends, if it does.
    pub until: Option<Ticks>,
    /// Whether runs of equal steps are taken at once.
    pub leap: bool,
    /// Whether every decision is kept.
    pub record_decisions: bool,
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
    /// What a step takes.
    pub cost: Cost,
    /// How steps are formed.
    pub scheduler: SchedulerConfig,
}

/// How an instance forms its steps: running requests first, then the waiting,
/// under one token budget (continuous batching with chunked prefill).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulerConfig {
    /// Tokens that one step may compute.
    pub max_num_batched_tokens: u64,
    /// Requests that may be admitted at once.
    pub max_num_seqs: u64,
    /// The longest chunk of a prefill while others want a share; 0: no limit.
    pub long_prefill_token_threshold: u64,
    /// Whether a request is admitted only when its whole sequence fits now.
    pub reserve_full_prompt: bool,
    /// Blocks kept free of admissions while something runs.
    pub watermark_blocks: u64,
}

/// Which instance an arrival joins. Ties go to the lowest index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Routing {
    /// Each in turn.
    RoundRobin,
    /// The fewest requests sent there and not finished.
    FewestRequests,
    /// The fewest tokens, over those requests, of prompt and of output so far.
    FewestTokens,
}

impl Config {
    /// Reads a configuration from JSON.
    ///
    /// # Errors
    ///
    /// Names the field that is missing, unknown, or out of range.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Error> {
        let config: Self =
            serde_json::from_slice(bytes).map_err(|error| Error::config("configuration", error.to_string()))?;
        config.validate()?;
        Ok(config)
    }

    fn validate(&self) -> Result<(), Error> {
        if self.instances.is_empty() {
            return Err(Error::config("instances", "a cluster has at least 1 instance, had 0"));
        }
        for (i, instance) in self.instances.iter().enumerate() {
            let positive = [
                ("blocks", instance.blocks),
                ("block_tokens", u64::from(instance.block_tokens)),
                ("max_num_batched_tokens", instance.scheduler.max_num_batched_tokens),
                ("max_num_seqs", instance.scheduler.max_num_seqs),
            ];
            for (field, value) in positive {
                if value == 0 || value > u64::from(u32::MAX) {
                    let rule = format!("must be 1 to {}, was {value}", u32::MAX);
                    return Err(Error::config(format!("instances[{i}].{field}"), rule));
                }
            }
        }
        Ok(())
    }
}
