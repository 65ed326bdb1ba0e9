//! Helpers of the tests of replays: an instance, and replays in chunks.

pub mod streamed;

/// An instance in the format of configurations: vLLM's stages and a prefix cache, blocks of 4 tokens, and steps of 100 ticks and
/// one for each token.
pub fn instance(blocks: u64, order: &str) -> String {
    format!(
        r#"{{
            "blocks": {blocks}, "block_tokens": 4, "max_model_len": null, "kv_bytes_per_token": 1,
            "cost": {{"kind": "affine", "step": 100, "token": 1, "kv_token": 0}},
            "scheduler": {{
                "max_num_batched_tokens": 64, "max_num_seqs": 4, "long_prefill_token_threshold": 0,
                "stages": [{{"kind": "running"}},
                    {{"kind": "admit", "chunked": true, "unless_preempted": true, "unless_swapped": false,
                      "count_decodes": true, "gather": null}}],
                "exclusive_prefill": false, "order": {{"kind": "{order}"}}, "victim": "latest",
                "allocation": "chunk_if_all_fits", "watermark_blocks": 0, "watermark_when_idle": false,
                "spare_block": false, "decodes_first": false, "refund": true,
                "stop_at_own_preemption": false, "threshold_when_alone": false,
                "preemption": {{"kind": "recompute"}}, "requeue_late": false,
                "prefix_cache": {{"unknown_first": false}}, "schedule_ahead": false
            }}
        }}"#
    )
}
