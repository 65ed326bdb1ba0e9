//! Instances that change their pool: hand-worked replays, and that leaping equals stepping.

#![expect(clippy::needless_pass_by_value, reason = "rules are nested as they are written")]

use paceline_core::{Config, FlipRecord, Outcome, Simulation, Status, Trace};
use proptest::prelude::*;
use serde_json::{Value, json};

/// An instance of `blocks` blocks of 16 tokens. A step takes 100 ticks, and one more a token.
fn instance(blocks: u64, budget: u64, seqs: u64) -> Value {
    json!({
        "blocks": blocks, "block_tokens": 16, "max_model_len": null, "kv_bytes_per_token": 1,
        "cost": {"kind": "affine", "step": 100, "token": 1, "kv_token": 0},
        "scheduler": {
            "max_num_batched_tokens": budget, "max_num_seqs": seqs, "long_prefill_token_threshold": 0,
            "stages": [
                {"kind": "running"},
                {"kind": "admit", "chunked": true, "unless_preempted": true, "unless_swapped": false,
                 "count_decodes": true, "gather": null}
            ],
            "exclusive_prefill": false, "order": {"kind": "arrival"}, "victim": "latest",
            "allocation": "chunk_if_all_fits", "watermark_blocks": 0, "watermark_when_idle": false,
            "spare_block": false, "decodes_first": false, "refund": true, "stop_at_own_preemption": false,
            "threshold_when_alone": false, "preemption": {"kind": "recompute"}, "requeue_late": false,
            "prefix_cache": null, "schedule_ahead": false
        }
    })
}

/// Whether a field of an instance is zero.
fn none(field: &str) -> Value {
    json!({"op": "eq", "args": [{"field": field}, {"const": 0}]})
}

/// Picks the instance of these pools with the least of a field.
fn pick(field: &str, within: &[u32]) -> Value {
    json!({"rule": "pick", "min": [{"field": field}], "within": within})
}

/// A rule that counts or takes turns, among the instances of these pools.
fn named(rule: &str, within: &[u32]) -> Value {
    json!({"rule": rule, "within": within})
}

fn replay(config: &Value, requests: &[(u64, u32, u32)]) -> Outcome {
    let config = Config::from_json(config.to_string().as_bytes()).expect("the configuration is valid");
    let trace = Trace {
        arrival: requests.iter().map(|request| request.0).collect(),
        prompt_tokens: requests.iter().map(|request| request.1).collect(),
        output_tokens: requests.iter().map(|request| request.2).collect(),
        ..Trace::default()
    };
    let mut simulation = Simulation::new(&config, trace).expect("the trace is valid");
    while !simulation.advance(10_000).expect("it ends") {}
    simulation.into_outcome()
}

/// Time, instance, role before, role after and cause of each change.
fn told(outcome: &Outcome) -> Vec<(u64, u32, u32, u32, &'static str)> {
    let row = |flip: &FlipRecord| (flip.time, flip.instance, flip.from, flip.to, flip.cause.name());
    outcome.flips.iter().map(row).collect()
}

/// Two instances, in pools 0 and 1; pool 2 leads from 0 to 1, pool 3 from 1 to 0.
fn two(leap: bool, routing: &Value) -> Value {
    json!({
        "instances": [instance(40, 512, 8), instance(40, 512, 8)], "roles": [0, 1],
        "leaving": [
            {"role": 2, "from": 0, "to": 1, "done": none("inst.prefilling_requests")},
            {"role": 3, "from": 1, "to": 0, "done": none("inst.decoding_requests")},
        ],
        "routing": routing, "until": null, "leap": leap, "record_decisions": false,
    })
}

/// A rule that flips the instance that another picks.
fn flip(of: Value, to: u32, keep: u64) -> Value {
    json!({"rule": "flip", "of": of, "to": to, "keep": keep})
}

/// Whether the sum of a field over the instances of these pools is above a bound.
fn above(field: &str, within: &[u32], bound: u64) -> Value {
    json!({"op": "gt", "args": [{"over": "sum", "of": {"field": field}, "within": within}, {"const": bound}]})
}

fn first_of(rules: &[Value]) -> Value {
    json!({"rule": "first_of", "rules": rules})
}

fn when(of: Value, when: Value) -> Value {
    json!({"rule": "when", "of": of, "when": when})
}

#[test]
fn an_instance_joins_a_pool_once_its_prefills_have_ended() {
    // Instance 0 prefills 20 tokens until 120. The second arrival, at 50, flips it and joins it, so that its prefills end
    // with the step after, of 10 tokens and a decode: at 231.
    for leap in [true, false] {
        let flips = when(flip(pick("inst.index", &[0]), 1, 0), above("inst.requests", &[0, 1], 0));
        let routing = json!({"on_arrival": first_of(&[flips, pick("inst.index", &[0])])});
        let outcome = replay(&two(leap, &routing), &[(0, 20, 5), (50, 10, 1)]);
        assert_eq!(told(&outcome), [(50, 0, 0, 2, "on_arrival"), (231, 0, 2, 1, "condition")]);
        assert_eq!(outcome.flips[0].cause.request(), Some(1));
        assert_eq!(outcome.columns.first_token, [120, 231]);
    }
}

#[test]
fn the_end_of_a_prefill_is_seen_although_the_run_after_it_was_known() {
    // The prefill ends at 120, and its four decodes of 101 ticks at 524. A monitor flips the instance at 50. At 100, no
    // instance is left in pool 0. At 150 it is in pool 1 with a request that decodes, and flips back by pool 3.
    for leap in [true, false] {
        let to_one = json!({"action": "flip", "rule": flip(pick("inst.index", &[0]), 1, 0)});
        let back = when(flip(pick("inst.index", &[1]), 0, 1), above("inst.decoding_requests", &[1], 0));
        let routing = json!({
            "on_arrival": pick("inst.index", &[0]),
            "every": [{"period": 50, "actions": [to_one]},
                      {"period": 150, "actions": [{"action": "flip", "rule": back}]}],
        });
        let outcome = replay(&two(leap, &routing), &[(0, 20, 5)]);
        let expected = [
            (50, 0, 0, 2, "every"),
            (120, 0, 2, 1, "condition"),
            (150, 0, 1, 3, "every"),
            (524, 0, 3, 0, "condition"),
        ];
        assert_eq!(told(&outcome), expected);
        assert_eq!(outcome.columns.finish, [524]);
    }
}

#[test]
fn an_instance_that_is_flipped_back_goes_where_its_work_is() {
    // The first request decodes from 120 on. The second waits from 130 on, so the third, at 140, flips the instance to pool
    // 1, and all three are in the step from 221 to 362. Flipped back at 260, the instance goes by pool 3: it decodes.
    for leap in [true, false] {
        let first = when(flip(pick("inst.index", &[0]), 1, 0), above("inst.prefilling_requests", &[0], 0));
        let back = json!({"action": "flip", "rule": flip(pick("inst.index", &[2]), 0, 0)});
        let routing = json!({
            "on_arrival": first_of(&[first, pick("inst.index", &[0])]),
            "every": [{"period": 260, "actions": [back]}],
        });
        let outcome = replay(&two(leap, &routing), &[(0, 20, 5), (130, 30, 1), (140, 10, 1)]);
        // Decodes end at 221, 362 (with 40 tokens of prompts), 463 and 564.
        let expected = [(140, 0, 0, 2, "on_arrival"), (260, 0, 2, 3, "every"), (564, 0, 3, 0, "condition")];
        assert_eq!(told(&outcome), expected);
        assert_eq!(outcome.columns.finish, [564, 362, 362]);
    }
}

#[test]
fn an_instance_leaves_at_the_moment_at_which_its_last_request_migrates() {
    // The first step ends at 120, the second, of 30 tokens, at 250. Both requests migrate as their prefill ends, and no step
    // of instance 0 ends after that.
    for leap in [true, false] {
        let flips = when(flip(pick("inst.index", &[0]), 1, 0), above("inst.requests", &[0], 0));
        let routing = json!({
            "on_arrival": first_of(&[flips, pick("inst.index", &[0])]),
            "on_prefilled": pick("inst.requests", &[1]),
        });
        let mut config = two(leap, &routing);
        config["leaving"][0]["done"] = none("inst.requests");
        let outcome = replay(&config, &[(0, 20, 5), (40, 30, 2)]);
        assert_eq!(told(&outcome), [(40, 0, 0, 2, "on_arrival"), (250, 0, 2, 1, "condition")]);
        assert_eq!(outcome.columns.migrations, [1, 1]);
    }
}

#[test]
fn an_instance_that_starts_joins_its_pool_after_a_delay() {
    // Pool 4 is off, and pool 5 leads from it to pool 0 in 70 ticks. At 100 and 200 the monitor finds a queue; instance 1
    // is in pool 0 from 170 on, and takes the request that arrives then, as roles change before requests are routed.
    for leap in [true, false] {
        let start = when(flip(pick("inst.index", &[4]), 0, 0), above("inst.requests", &[0], 0));
        let routing = json!({
            "on_arrival": pick("inst.requests", &[0]),
            "every": [{"period": 100, "actions": [{"action": "flip", "rule": start}]}],
        });
        let mut config = two(leap, &routing);
        config["roles"] = json!([0, 4]);
        config["leaving"] = json!([{"role": 5, "from": 4, "to": 0, "delay": 70}]);
        let outcome = replay(&config, &[(0, 20, 5), (169, 20, 1), (170, 20, 1)]);
        assert_eq!(told(&outcome), [(100, 1, 4, 5, "every"), (170, 1, 5, 0, "delay")]);
        assert_eq!(outcome.columns.instance, [0, 0, 1]);
    }
}

#[test]
fn a_flip_that_would_leave_too_few_picks_none_and_so_does_an_empty_pool() {
    for (keep, pool) in [(1, 0), (0, 1)] {
        let routing = json!({"on_arrival": first_of(&[
            named("round_robin", &[7]), named("fewest_requests", &[7]),
            named("fewest_tokens", &[7]), pick("inst.index", &[7]),
            flip(pick("inst.index", &[0]), 1, keep), named("round_robin", &[0, 1]),
        ])});
        let outcome = replay(&two(true, &routing), &[(0, 20, 1)]);
        assert_eq!((outcome.flips.len() as u32, outcome.columns.instance[0]), (pool, 0));
    }
}

#[test]
fn rules_that_count_or_take_turns_see_only_the_pools_that_they_name() {
    for rule in ["round_robin", "fewest_requests", "fewest_tokens"] {
        let mut config = two(true, &json!({"on_arrival": {"rule": rule, "within": [1]}}));
        let three = vec![instance(40, 512, 8); 3];
        (config["instances"], config["roles"]) = (json!(three), json!([0, 1, 1]));
        let outcome = replay(&config, &[(0, 20, 9), (1, 20, 9), (2, 20, 9), (3, 20, 9)]);
        assert_eq!(outcome.columns.instance, [1, 2, 1, 2], "{rule}");
    }
}

#[test]
fn a_configuration_with_impossible_pools_is_refused() {
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut config = two(true, &json!({"on_arrival": flip(pick("inst.index", &[0]), 1, 0)}));
        change(&mut config);
        Config::from_json(config.to_string().as_bytes()).expect_err("it is refused").to_string()
    };
    for (text, change) in [
        ("leaving[0]: must have one of done and delay", &|config: &mut Value| {
            config["leaving"][0]["delay"] = json!(5);
        }),
        ("leaving[0].done: must read only fields", &|config: &mut Value| {
            config["leaving"][0]["done"] = none("inst.kv_tokens");
        }),
        ("leaving[1].done: must read only fields", &|config: &mut Value| {
            config["leaving"][1]["done"] = above("inst.requests", &[0], 3);
        }),
        ("leaving[1].role: must differ", &|config: &mut Value| config["leaving"][1]["role"] = json!(2)),
        ("leaving[1]: must lead from one pool to another", &|config: &mut Value| {
            config["leaving"][1]["from"] = json!(2);
        }),
        ("routing.flip.to: must not be", &|config: &mut Value| {
            config["routing"]["on_arrival"]["to"] = json!(3);
        }),
        ("routing.every.actions.rule: must be a flip", &|config: &mut Value| {
            let action = json!({"action": "flip", "rule": pick("inst.index", &[0])});
            config["routing"]["every"] = json!([{"period": 5, "actions": [action]}]);
        }),
    ] as [(&str, &dyn Fn(&mut Value)); 7]
    {
        let error = refused(change);
        assert!(error.contains(text), "{error}");
    }
}

/// The fields that a rule or a condition compares.
const FIELDS: [&str; 7] = [
    "inst.requests",
    "inst.prefilling_requests",
    "inst.decoding_requests",
    "inst.running",
    "inst.waiting",
    "inst.running_tokens",
    "inst.outstanding_tokens",
];

/// Fields that a condition of leaving instances may read.
const COUNTS: usize = 5;

#[derive(Debug, Clone)]
struct Case {
    /// Fields and bounds: of the flips to pools 1 and 0, of the monitor's flips, and of the two conditions.
    flips: [(usize, u64); 4],
    done: [(usize, u64); 2],
    keep: u64,
    period: u64,
    delay: u64,
    migrates: bool,
    blocks: u64,
    budget: u64,
    latency: Option<u64>,
    requests: Vec<(u64, u32, u32)>,
}

fn cases() -> impl Strategy<Value = Case> {
    let flips = prop::array::uniform4((0..FIELDS.len(), 0_u64..6));
    let done = prop::array::uniform2((0..COUNTS, 0_u64..3));
    let requests = prop::collection::vec((0_u64..400, 1_u32..60, 1_u32..40), 1..25);
    let numbers = (0_u64..3, 50_u64..900, 0_u64..500, any::<bool>(), 8_u64..30);
    let rest = (prop::sample::select(vec![16_u64, 64, 512]), prop::option::of(0_u64..300));
    (flips, done, numbers, rest, requests).prop_map(|(flips, done, numbers, rest, requests)| {
        let (keep, period, delay, migrates, blocks) = numbers;
        let (budget, latency) = rest;
        let mut clock = 0;
        let requests = requests.into_iter().map(|(gap, prompt, output)| {
            clock += gap;
            (clock, prompt, output)
        });
        let requests = requests.collect();
        Case { flips, done, keep, period, delay, migrates, blocks, budget, latency, requests }
    })
}

/// Three instances in pool 0, one in pool 1, one that is off (pool 4, from which pool 5 leads to pool 1).
fn drawn(case: &Case, leap: bool) -> Value {
    let at_most = |(field, bound): (usize, u64)| json!({"op": "le", "args": [{"field": FIELDS[field]}, {"const": bound}]});
    let busy = |(field, bound): (usize, u64), within: &[u32]| above(FIELDS[field], within, bound);
    let [arrival, prefilled, started, balanced] = case.flips;
    let to_one = |of| flip(of, 1, case.keep);
    let action = |rule: Value| json!({"action": "flip", "rule": rule});
    let move_on = first_of(&[
        when(flip(pick("inst.prefilling_requests", &[3, 0]), 1, case.keep.max(1)), busy(prefilled, &[1, 2])),
        pick("inst.decoding_requests", &[1, 2]),
    ]);
    let stop = when(flip(pick("inst.requests", &[1]), 4, 1), busy(started, &[0, 1, 2, 3]));
    json!({
        "instances": vec![instance(case.blocks, case.budget, 8); 5], "roles": [0, 0, 0, 1, 4],
        "links": case.latency.map(|latency| json!({"bytes_per_s": 1e12, "latency": latency})),
        "leaving": [
            {"role": 2, "from": 0, "to": 1, "done": at_most(case.done[0])},
            {"role": 3, "from": 1, "to": 0, "done": at_most(case.done[1])},
            {"role": 5, "from": 4, "to": 1, "delay": case.delay},
        ],
        "routing": {
            "on_arrival": first_of(&[
                when(flip(pick("inst.decoding_requests", &[2, 1]), 0, 1), busy(arrival, &[0, 3])),
                named("fewest_tokens", &[0, 3]),
                named("round_robin", &[0, 1, 2, 3]),
                json!({"rule": "round_robin"}),
            ]),
            "on_prefilled": if case.migrates { move_on } else { Value::Null },
            "every": [{"period": case.period, "actions": [
                action(when(to_one(pick("inst.index", &[0])), busy(balanced, &[1]))),
                action(to_one(pick("inst.index", &[4]))), action(stop),
            ]}],
        },
        "until": null, "leap": leap, "record_decisions": false,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn leaping_equals_stepping_with_flips_and_a_pool_keeps_its_instances(case in cases()) {
        let [leaping, stepping] = [true, false].map(|leap| replay(&drawn(&case, leap), &case.requests));
        prop_assert_eq!(told(&leaping), told(&stepping));
        prop_assert_eq!(format!("{:?}", leaping.columns), format!("{:?}", stepping.columns));
        prop_assert_eq!(&leaping.gaps, &stepping.gaps);
        prop_assert_eq!(&leaping.stats, &stepping.stats);
        prop_assert_eq!(leaping.end, stepping.end);
        prop_assert!(leaping.columns.status.iter().all(|&status| status != Status::Waiting as u8));
        // Where each role leads: an instance on its way to a pool counts there.
        let bound = |role: u32| [0, 1, 1, 0, 4, 1][role as usize];
        let mut roles = [0, 0, 0, 1, 4];
        for flip in &leaping.flips {
            let role = &mut roles[flip.instance as usize];
            prop_assert_eq!(*role, flip.from, "each change follows the one before");
            prop_assert_ne!(flip.from, flip.to);
            *role = flip.to;
            let in_one = roles.iter().filter(|role| bound(**role) == 1).count();
            let in_zero = roles.iter().filter(|role| bound(**role) == 0).count() as u64;
            prop_assert!(in_one >= 1, "each flip out of pool 1 keeps an instance");
            prop_assert!(in_zero >= case.keep, "and each flip out of pool 0");
        }
    }
}
