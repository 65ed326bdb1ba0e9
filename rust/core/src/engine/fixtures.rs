//! Small clusters and traces for the tests of the engine's parts.

use super::cluster::Cluster;
use super::known::Known;
use super::router::{CALLBACK_INSTANCE_FIELDS, Router};
use super::setup;
use crate::config::{Config, Lockstep, Routers};
use crate::metrics::{OptionalColumns, Recorder};
use crate::policy::Routing;
use crate::time::Ticks;
use crate::trace::Trace;

/// A request: when it arrives, and the tokens of its prompt and output.
pub(super) fn row(arrival: Ticks, prompt: u32, output: u32) -> (Ticks, u32, u32) {
    (arrival, prompt, output)
}

/// The configuration of instances with these numbers of blocks of 16 tokens, a KV byte a token, and steps of 100 ticks
/// and one more a token.
pub(crate) fn config(blocks: &[u64], routing: &str) -> Config {
    let instance = |blocks: &u64| {
        format!(
            r#"{{
                "blocks": {blocks}, "block_tokens": 16, "max_model_len": null, "kv_bytes_per_token": 1,
                "cost": {{"kind": "affine", "step": 100, "token": 1, "kv_token": 0}},
                "scheduler": {{
                    "max_num_batched_tokens": 512, "max_num_seqs": 8, "long_prefill_token_threshold": 0,
                    "stages": [
                        {{"kind": "running"}},
                        {{"kind": "admit", "chunked": true, "unless_preempted": true, "unless_swapped": false,
                          "count_decodes": true, "gather": null}}
                    ],
                    "exclusive_prefill": false, "order": {{"kind": "arrival"}}, "victim": "latest",
                    "allocation": "chunk_if_all_fits", "watermark_blocks": 0, "watermark_when_idle": false,
                    "spare_block": false, "decodes_first": false, "refund": true,
                    "stop_at_own_preemption": false, "threshold_when_alone": false,
                    "preemption": {{"kind": "recompute"}}, "requeue_late": false, "prefix_cache": null,
                    "schedule_ahead": false
                }}
            }}"#
        )
    };
    let instances: Vec<_> = blocks.iter().map(instance).collect();
    let text = format!(
        r#"{{"instances": [{}], "routing": {routing}, "until": null, "leap": true, "record_decisions": false}}"#,
        instances.join(",")
    );
    Config::from_json(text.as_bytes()).unwrap()
}

/// A group of these instances, whose steps share 10 ticks.
pub(crate) fn group(members: &[usize]) -> Lockstep {
    let shared = serde_json::from_str(r#"{"at": [1], "ticks": [10]}"#).unwrap();
    Lockstep { members: members.to_vec(), shared, padded: 0, prompts: 0, sync: None, balance: None }
}

/// The trace of these requests.
pub(super) fn trace(rows: &[(Ticks, u32, u32)]) -> Trace {
    Trace {
        arrival: rows.iter().map(|row| row.0).collect(),
        prompt_tokens: rows.iter().map(|row| row.1).collect(),
        output_tokens: rows.iter().map(|row| row.2).collect(),
        ..Trace::default()
    }
}

/// An idle cluster of instances with these numbers of blocks, see [`config`], for these requests. Requests may move.
pub(super) fn cluster(blocks: &[u64], rows: &[(Ticks, u32, u32)]) -> Cluster {
    let round_robin = r#"{"on_arrival": {"rule": "round_robin"}, "on_prefilled": {"rule": "round_robin"}}"#;
    with_config(&config(blocks, round_robin), rows)
}

/// An idle cluster of this configuration, for these requests.
pub(super) fn with_config(config: &Config, rows: &[(Ticks, u32, u32)]) -> Cluster {
    let trace = trace(rows);
    let instances = setup::instances(config, &trace, false).unwrap();
    let optional = OptionalColumns { moves: true, holds: true, ..OptionalColumns::default() };
    let recorder = Recorder::new(trace.len(), optional);
    let known = Known::new(config, &trace, &CALLBACK_INSTANCE_FIELDS.map(|(_, field)| field));
    let roles = setup::roles(config, instances.len());
    Cluster::new(instances, roles, trace, recorder, known)
}

/// A router whose rules may have up to two round-robin rules among them.
pub(super) fn router(cluster: &Cluster) -> Router {
    let text = r#"{"on_arrival": {"rule": "round_robin"}, "on_prefilled": {"rule": "round_robin"}}"#;
    let mut routing: Routing = serde_json::from_str(text).unwrap();
    routing.prepare();
    Router::new(cluster.instances(), &routing, Routers::default(), None)
}
