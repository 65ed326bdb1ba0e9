//! Expressions and rules in their wire form: trees of fields, constants and
//! operations, well formed and malformed, in every place of a configuration.

#![no_main]

use arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use paceline_core::{Config, Simulation, Trace};
use serde_json::{Value, json};

const FIELDS: [&str; 20] = [
    "req.arrival_s",
    "req.age_s",
    "req.waiting_s",
    "req.idle_steps",
    "req.attained_s",
    "req.prompt_tokens",
    "req.generated_tokens",
    "req.kv_tokens",
    "req.blocks",
    "req.phase",
    "req.score",
    "oracle.remaining_tokens",
    "inst.kv_tokens",
    "inst.free_blocks",
    "inst.fits",
    "inst.requests",
    "inst.prefix_tokens",
    "here.requests",
    "there.kv_usage",
    "inst.no_such_field",
];
const OPERATIONS: [&str; 20] = [
    "add", "sub", "mul", "div", "floordiv", "min", "max", "neg", "abs", "ilog2", "lt", "le", "gt", "ge",
    "eq", "ne", "and", "or", "not", "if",
];
const AGGREGATES: [&str; 7] = ["mean", "min", "max", "sum", "count", "any", "all"];

/// A tree of at most `levels` levels. About one node in ten thousand is malformed.
fn tree(drawn: &mut Unstructured<'_>, levels: u32) -> arbitrary::Result<Value> {
    Ok(match if levels == 0 { drawn.int_in_range(0..=1)? } else { drawn.int_in_range(0..=5)? } {
        0 => json!({ "const": f64::arbitrary(drawn)? }),
        1 => json!({ "field": drawn.choose(&FIELDS)?, "class": drawn.int_in_range(0..=2)? }),
        2 => {
            let of = tree(drawn, levels - 1)?;
            json!({ "over": drawn.choose(&AGGREGATES)?, "of": of, "within": Option::<Vec<u8>>::arbitrary(drawn)? })
        }
        _ => {
            let operation = drawn.choose(&OPERATIONS)?;
            let right = match *operation {
                "neg" | "abs" | "ilog2" | "not" => 1,
                "if" => 3,
                "add" | "mul" | "min" | "max" | "and" | "or" => drawn.int_in_range(1..=4)?,
                _ => 2,
            };
            let many = if drawn.ratio(1, 250)? { drawn.int_in_range(0..=5)? } else { right };
            let args = (0..many).map(|_| tree(drawn, levels - 1)).collect::<arbitrary::Result<Vec<_>>>()?;
            json!({ "op": operation, "args": args })
        }
    })
}

fn config(drawn: &mut Unstructured<'_>) -> arbitrary::Result<Value> {
    let ranked = drawn.arbitrary::<bool>()?;
    let order = if ranked {
        let refresh =
            json!({ "steps": drawn.int_in_range(0..=3)?, "ticks": drawn.int_in_range(0..=1_000_000)? });
        json!({
            "kind": "ranked", "quantum": drawn.int_in_range(0..=3)?, "refresh": refresh,
            "classes": [
                { "when": tree(drawn, 3)?, "hold": drawn.int_in_range(0..=2)?, "keys": [tree(drawn, 4)?] },
                { "when": null, "hold": 0, "keys": [tree(drawn, 3)?, tree(drawn, 2)?] },
            ],
        })
    } else {
        json!({ "kind": "arrival" })
    };
    let admission = if ranked && drawn.arbitrary()? {
        json!({ "kind": "displace", "when": tree(drawn, 3)?, "most": drawn.int_in_range(0..=2)? })
    } else {
        json!({ "kind": "wait" })
    };
    let instance = json!({
        "blocks": drawn.int_in_range(1..=12)?, "block_tokens": drawn.int_in_range(1..=20)?, "max_model_len": null,
        "cost": { "kind": "affine", "step": 5000, "token": 10, "kv_token": 1 },
        "scheduler": {
            "max_num_batched_tokens": drawn.int_in_range(1..=64)?, "max_num_seqs": drawn.int_in_range(1..=4)?,
            "long_prefill_token_threshold": 0, "threshold_when_alone": false,
            "stages": [
                { "kind": "running" },
                { "kind": "admit", "chunked": true, "unless_preempted": true, "unless_swapped": false,
                  "count_decodes": true, "gather": null },
            ],
            "exclusive_prefill": false, "order": order, "admission": admission, "victim": "latest",
            "allocation": "chunk_if_all_fits", "watermark_blocks": 0, "watermark_when_idle": false,
            "spare_block": false, "decodes_first": false, "refund": true, "stop_at_own_preemption": false,
            "preemption": { "kind": "recompute" }, "requeue_late": false, "prefix_cache": null,
            "schedule_ahead": false,
        },
    });
    let pick = |drawn: &mut Unstructured<'_>| -> arbitrary::Result<Value> {
        Ok(
            json!({ "rule": "pick", "min": [tree(drawn, 4)?], "where": tree(drawn, 3)?, "accept": tree(drawn, 2)?,
                   "within": null }),
        )
    };
    let of = pick(drawn)?;
    let unless = json!({ "rule": "unless", "of": of, "when": tree(drawn, 3)? });
    let first = json!({ "rule": "first_of", "rules": [pick(drawn)?, unless, { "rule": "fewest_requests" }] });
    let choice = |drawn: &mut Unstructured<'_>| -> arbitrary::Result<Value> {
        Ok(json!({ "min": [tree(drawn, 2)?], "where": tree(drawn, 2)?, "within": null }))
    };
    let migrate = json!({
        "action": "migrate", "source": choice(drawn)?, "target": choice(drawn)?, "choose": choice(drawn)?,
        "when": tree(drawn, 2)?, "live": null,
    });
    let every =
        if drawn.arbitrary()? { json!([{ "period": 20_000, "actions": [migrate] }]) } else { json!([]) };
    let answering = json!({ "rule": "stay", "when": tree(drawn, 3)? });
    Ok(json!({
        "instances": [instance.clone(), instance], "roles": [0, 1], "links": null, "pace": null, "lockstep": null,
        "routing": { "on_arrival": first, "on_prefilled": null, "on_answering": answering, "every": every },
        "until": null, "leap": drawn.arbitrary::<bool>()?, "record_decisions": false,
    }))
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(config) = config(&mut Unstructured::new(bytes)) else { return };
    let Ok(config) = Config::from_json(config.to_string().as_bytes()) else { return };
    let trace = Trace {
        arrival: vec![0, 0, 30_000, 31_000].into(),
        prompt_tokens: vec![40, 9, 64, 1].into(),
        output_tokens: vec![3, 1, 5, 9].into(),
        reasoning_tokens: Some(vec![1, 0, 5, 3].into()),
        score: Some(vec![0.5, -1.0, f64::NAN, 3.0].into()),
        ..Trace::default()
    };
    let Ok(mut simulation) = Simulation::new(&config, trace) else { return };
    for _ in 0..100 {
        match simulation.advance(100) {
            Ok(false) => {}
            Ok(true) | Err(_) => break,
        }
    }
});
