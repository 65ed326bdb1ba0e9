//! Whole replays of random small workloads, with debug assertions: leaping equals stepping, and no request is lost.

use paceline_core::{Config, Outcome, PrefixIds, Reason, Simulation, Status, Trace};
use proptest::prelude::*;

const STAGES: [(&str, &str); 6] = [
    (
        "running first",
        r#""stages": [{"kind": "running"}, {"kind": "admit", "chunked": true,
        "unless_preempted": true, "unless_swapped": false, "count_decodes": true, "gather": null}],
        "exclusive_prefill": false, "allocation": "chunk_if_all_fits", "spare_block": false,
        "decodes_first": false, "preemption": {"kind": "recompute"}, "requeue_late": false"#,
    ),
    (
        "first chunk only",
        r#""stages": [{"kind": "running"}, {"kind": "admit", "chunked": true,
        "unless_preempted": true, "unless_swapped": false, "count_decodes": true, "gather": null}],
        "exclusive_prefill": false, "allocation": "chunk", "spare_block": false,
        "decodes_first": false, "preemption": {"kind": "recompute"}, "requeue_late": false"#,
    ),
    (
        "prefill first, swap",
        r#""stages": [{"kind": "admit", "chunked": false, "unless_preempted": false,
        "unless_swapped": true, "count_decodes": true, "gather": null},
        {"kind": "decodes", "charged": false, "seated": false, "over_prefills": true},
        {"kind": "swap_in", "unless_preempted": true}],
        "exclusive_prefill": true, "allocation": "sequence", "spare_block": true, "decodes_first": false,
        "preemption": {"kind": "swap", "blocks": 30, "out": 3, "back": 2, "overlapped": false},
        "requeue_late": true"#,
    ),
    (
        "chunks and swap",
        r#""stages": [{"kind": "running"}, {"kind": "swap_in", "unless_preempted": true},
        {"kind": "admit", "chunked": true, "unless_preempted": false, "unless_swapped": false,
        "count_decodes": true, "gather": null}],
        "exclusive_prefill": false, "allocation": "sequence", "spare_block": true, "decodes_first": true,
        "preemption": {"kind": "swap", "blocks": 0, "out": 3, "back": 2, "overlapped": true},
        "requeue_late": true"#,
    ),
    (
        "layers",
        r#""stages": [{"kind": "decodes", "charged": false, "seated": false, "over_prefills": false},
        {"kind": "layered", "layers": 7, "groups": {"limits": [[8, 2]], "tokens_per_group": 4, "most": 5}}],
        "exclusive_prefill": false, "allocation": "sequence", "spare_block": false, "decodes_first": false,
        "preemption": {"kind": "recompute"}, "requeue_late": false"#,
    ),
    (
        "static",
        r#""stages": [{"kind": "decodes", "charged": true, "seated": false, "over_prefills": true},
        {"kind": "admit", "chunked": false, "unless_preempted": false, "unless_swapped": false,
        "count_decodes": true, "gather": {"size": 3, "wait": 50}}],
        "exclusive_prefill": false, "allocation": "sequence", "spare_block": false, "decodes_first": false,
        "preemption": {"kind": "recompute"}, "requeue_late": false"#,
    ),
];

const TRAFFIC: &str = r#"{"weights": 1000, "head": 70,
    "experts": {"bytes": 60, "loads": [[1, 2097152], [3, 5242880], [9, 8388608]]},
    "decode": {"activations": 7, "kv_written": 4, "flops": 900, "link": 11,
        "attention": {"context": 4, "pair": 13}},
    "prefill": {"activations": 8, "kv_written": 4, "flops": 900, "link": 11,
        "attention": {"context": 5, "pair": 17}},
    "row": {"activations": 3, "flops": 140, "link": 2},
    "windows": {"tokens": 12, "decode": {"context": 100, "pair": 1000},
        "prefill": {"context": 100, "pair": 1000}},
    "power": {"idle_uw": 9, "busy_uw": 3, "hbm_byte_aj": 5, "flop_aj": 2, "link_byte_aj": 7}}"#;

#[derive(Debug, Clone)]
struct Case {
    stages: usize,
    blocks: u64,
    block_tokens: u32,
    budget: u64,
    seqs: u64,
    threshold: u64,
    watermark: u64,
    caches: bool,
    ranked: bool,
    ahead: bool,
    until: Option<u64>,
    requests: Vec<(u64, u32, u32, i64, u64)>,
}

fn cases() -> impl Strategy<Value = Case> {
    let request = (0u64..60, 1u32..30, 1u32..30, 0i64..3, 0u64..3);
    let shape = (0..STAGES.len(), 8u64..60, 1u32..5, 1u64..64, 1u64..9);
    let rules =
        (0u64..9, 0u64..3, any::<bool>(), any::<bool>(), any::<bool>(), prop::option::of(0u64..3_000));
    (shape, rules, prop::collection::vec(request, 1..25)).prop_map(|(shape, rules, mut requests)| {
        let mut clock = 0;
        for request in &mut requests {
            clock += request.0 / 3;
            request.0 = clock;
        }
        let (stages, blocks, block_tokens, budget, seqs) = shape;
        let (threshold, watermark, caches, ranked, ahead, until) = rules;
        let caches = caches && stages < 2;
        let ranked = ranked && stages < 2;
        let budget = if matches!(stages, 2 | 5) { budget + 60 } else { budget };
        Case {
            stages,
            blocks,
            block_tokens,
            budget,
            seqs,
            threshold,
            watermark,
            caches,
            ranked,
            ahead,
            until,
            requests,
        }
    })
}

fn replay(case: &Case, leap: bool) -> Outcome {
    run(case, leap, 1, "null")
}

fn run(case: &Case, leap: bool, instances: usize, lockstep: &str) -> Outcome {
    let cache = if case.caches { r#"{"unknown_first": true}"# } else { "null" };
    let (order, victim) = if case.ranked { ("priority", "worst") } else { ("arrival", "latest") };
    let until = case.until.map_or("null".into(), |until| until.to_string());
    let json = format!(
        r#"{{
            "blocks": {}, "block_tokens": {}, "max_model_len": null,
            "cost": {{"kind": "affine", "step": 5, "token": 2, "kv_token": 1}},
            "traffic": {TRAFFIC},
            "scheduler": {{
                "max_num_batched_tokens": {}, "max_num_seqs": {}, "long_prefill_token_threshold": {},
                {}, "order": {{"kind": "{order}"}}, "victim": "{victim}", "watermark_blocks": {},
                "watermark_when_idle": false, "refund": true, "stop_at_own_preemption": false, "threshold_when_alone": false, "prefix_cache": {cache}, "schedule_ahead": {}
            }}
        }}"#,
        case.blocks,
        case.block_tokens,
        case.budget,
        case.seqs,
        case.threshold,
        STAGES[case.stages].1,
        case.watermark,
        case.ahead,
    );
    let instances = vec![json; instances].join(",");
    let json = format!(
        r#"{{"instances": [{instances}], "routing": {{"on_arrival": {{"rule": "round_robin"}}}},
        "lockstep": {lockstep}, "until": {until}, "leap": {leap}, "record_decisions": false}}"#
    );
    let config = Config::from_json(json.as_bytes()).expect("the configuration is valid");
    let requests = &case.requests;
    let ids = |request: &(u64, u32, u32, i64, u64)| vec![request.4; (request.1 / case.block_tokens) as usize];
    let trace = Trace {
        arrival: requests.iter().map(|request| request.0).collect(),
        prompt_tokens: requests.iter().map(|request| request.1).collect(),
        output_tokens: requests.iter().map(|request| request.2).collect(),
        reasoning_tokens: Some(requests.iter().map(|request| request.2 / 2).collect()),
        priority: Some(requests.iter().map(|request| request.3).collect()),
        prefix: Some(PrefixIds {
            outputs: None,
            ends: requests
                .iter()
                .scan(0, |end, request| {
                    *end += ids(request).len();
                    Some(*end)
                })
                .collect(),
            ids: requests.iter().flat_map(ids).collect(),
            block_tokens: case.block_tokens,
        }),
        ..Trace::default()
    };
    let mut simulation = Simulation::new(&config, trace).expect("the trace is valid");
    let mut turns = 0;
    while !simulation.advance(10_000).expect("the clock holds it") {
        turns += 1;
        assert!(turns < 100, "a replay of {} requests does not end", requests.len());
    }
    simulation.into_outcome()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn leaping_equals_stepping_and_nothing_is_lost(case in cases()) {
        let (leaping, stepping) = (replay(&case, true), replay(&case, false));
        prop_assert_eq!(format!("{:?}", leaping.columns), format!("{:?}", stepping.columns));
        prop_assert_eq!(&leaping.gaps, &stepping.gaps);
        prop_assert_eq!(&leaping.stats, &stepping.stats);
        prop_assert_eq!(leaping.end, stepping.end);

        let columns = &leaping.columns;
        for (row, &(arrival, _, output, ..)) in case.requests.iter().enumerate() {
            let status = columns.status[row];
            if status == Status::Finished as u8 {
                prop_assert_eq!(columns.generated_tokens[row], output);
                prop_assert!(arrival <= columns.scheduled[row]);
                prop_assert!(columns.scheduled[row] <= columns.first_token[row]);
                prop_assert!(columns.first_token[row] <= columns.finish[row]);
                prop_assert!(columns.first_answer[row] <= columns.finish[row]);
                if output / 2 > 0 {
                    prop_assert!(columns.first_token[row] <= columns.reasoning_end[row]);
                    prop_assert!(columns.reasoning_end[row] <= columns.first_answer[row]);
                }
            } else if status == Status::Rejected as u8 {
                prop_assert!(columns.reason[row] != Reason::None as u8);
            } else {
                prop_assert!(case.until.is_some(), "without an end, every request finishes or is rejected");
            }
        }
        let gaps: u64 = columns.generated_tokens.iter().map(|&tokens| u64::from(tokens.saturating_sub(1))).sum();
        prop_assert_eq!(leaping.gaps.count(), gaps);
        prop_assert!(leaping.stats[0].memory.peak_blocks <= case.blocks);
    }

    /// Instances in lockstep serve every request that they would serve each on its own, in one group or in several.
    #[test]
    fn instances_in_lockstep_serve_every_request(case in cases()) {
        let group = |members: &str| {
            format!(r#"{{"members": {members}, "shared": {{"at": [1, 100], "ticks": [3, 40]}}, "padded": 2}}"#)
        };
        for groups in [group("[0, 1, 2]"), group("[2, 0]"), format!("{}, {}", group("[1]"), group("[0, 2]"))] {
            let groups = format!("[{groups}]");
            let (together, stepped) = (run(&case, true, 3, &groups), run(&case, false, 3, &groups));
            prop_assert_eq!(format!("{:?}", together.columns), format!("{:?}", stepped.columns));
            if case.until.is_none() {
                let (alone, served) = (run(&case, true, 3, "null"), &together.columns);
                prop_assert_eq!(&alone.columns.status, &served.status);
                prop_assert_eq!(&alone.columns.generated_tokens, &served.generated_tokens);
            }
        }
    }
}
