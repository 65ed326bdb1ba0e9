//! Workloads that the benchmarks share, made without a random number generator,
//! so that every run of a benchmark times the same replay.

use paceline_core::{Config, Trace};

/// A configuration of `instances` equal instances under continuous batching.
///
/// # Panics
///
/// If the engine refuses the configuration: a bug in this function.
pub fn config(instances: usize, leap: bool) -> Config {
    let instance = r#"{
        "blocks": 28000, "block_tokens": 16, "max_model_len": null,
        "cost": {"kind": "affine", "step": 6000000000, "token": 30000000, "kv_token": 45000},
        "scheduler": {
            "max_num_batched_tokens": 8192, "max_num_seqs": 1024, "long_prefill_token_threshold": 0,
            "stages": [
                {"kind": "running"},
                {"kind": "admit", "chunked": true, "unless_preempted": true, "unless_swapped": false,
                 "count_decodes": true, "gather": null}
            ],
            "exclusive_prefill": false, "order": {"kind": "arrival"}, "victim": "latest",
            "allocation": "chunk_if_all_fits", "watermark_blocks": 0, "watermark_when_idle": false,
            "spare_block": false, "decodes_first": false, "refund": true, "stop_at_own_preemption": false, "threshold_when_alone": false,
            "preemption": {"kind": "recompute"}, "requeue_late": false, "prefix_cache": null,
            "schedule_ahead": false
        }
    }"#;
    let all = vec![instance; instances].join(",");
    let json = format!(
        r#"{{"instances": [{all}], "routing": {{"on_arrival": {{"rule": "fewest_requests"}}}}, "until": null, "leap": {leap},
            "record_decisions": false}}"#
    );
    Config::from_json(json.as_bytes()).expect("the benchmark's configuration is valid")
}

/// `n` requests `gap` ticks apart, with lengths that vary like real ones.
pub fn trace(n: usize, gap: u64) -> Trace {
    // Weyl sequences: evenly distributed, and the same on any machine.
    let weyl = |i: usize, step: u64| (i as u64 + 1).wrapping_mul(step) >> 40;
    let spread =
        |x: u64, mean: u32| (mean / 4) + (x % u64::from(mean) + (x / 7) % u64::from(mean / 2)) as u32;
    Trace {
        arrival: (0..n as u64).map(|i| i * gap).collect(),
        prompt_tokens: (0..n).map(|i| spread(weyl(i, 0x9E37_79B9_7F4A_7C15), 1_000)).collect(),
        output_tokens: (0..n).map(|i| spread(weyl(i, 0xD1B5_4A32_D192_ED03), 240)).collect(),
        ..Trace::default()
    }
}
