//! Whole replays under policies that rank, displace and migrate, with debug assertions: leaping equals stepping, a streamed
//! trace gives what it gives at once, and no request is lost.

use paceline_core::{Config, Error, Outcome, PrefixIds, Simulation, Status, Trace};
use proptest::prelude::*;

use crate::support;

const DRIFTS: &str = r#"{"op": "neg", "args": [{"field": "req.blocks"}]}"#;
const KEYS: [&str; 10] = [
    r#"{"field": "req.prompt_tokens"}"#,
    r#"{"field": "req.quanta"}"#,
    r#"{"op": "neg", "args": [{"field": "req.preemptions"}]}"#,
    r#"{"field": "req.phase"}"#,
    r#"{"op": "ilog2", "args": [{"field": "req.context_tokens"}]}"#,
    r#"{"op": "lt", "args": [{"field": "req.idle_steps"}, {"const": 3}]}"#,
    r#"{"op": "gt", "args": [{"field": "req.slack_s"}, {"const": 2e-11}]}"#,
    DRIFTS,
    r#"{"op": "floordiv", "args": [{"field": "oracle.remaining_tokens"}, {"const": 2}]}"#,
    r#"{"op": "floordiv", "args": [{"field": "req.attained_s"}, {"const": 4e-11}]}"#,
];
/// The condition of the first class, if there are classes.
const FIRST: [&str; 3] = [
    r#"{"when": {"op": "gt", "args": [{"field": "req.generated_tokens"}, {"const": 6}]}, "hold": 0, "keys": []}"#,
    r#"{"when": {"op": "lt", "args": [{"field": "oracle.remaining_tokens"}, {"const": 9}]}, "hold": 2, "keys": []}"#,
    r#"{"when": {"op": "gt", "args": [{"field": "req.waiting_s"}, {"const": 1e-10}]}, "hold": 3, "keys": []}"#,
];
const TARGETS: [&str; 9] = [
    r#"{"field": "inst.kv_tokens"}"#,
    r#"{"field": "inst.reasoning_requests"}"#,
    r#"{"op": "neg", "args": [{"field": "inst.free_blocks"}]}"#,
    r#"{"op": "not", "args": [{"field": "inst.answering_on_pace"}]}"#,
    r#"{"field": "inst.waiting_blocks"}"#,
    r#"{"field": "inst.outstanding_tokens"}"#,
    r#"{"field": "inst.class_requests", "class": 0}"#,
    r#"{"field": "inst.fresh_answering_requests"}"#,
    r#"{"field": "inst.mean_token_interval_s"}"#,
];

#[derive(Debug, Clone)]
struct Case {
    blocks: u64,
    block_tokens: u32,
    budget: u64,
    seqs: u64,
    first: Option<usize>,
    key: usize,
    quantum: u32,
    refresh: u64,
    displaces: bool,
    space: Option<u64>,
    /// Whether prefixes are cached; every third prompt then starts alike.
    caches: bool,
    /// The rules by which requests are routed: on arrival (round robin, or one of the rules), when their prefill has
    /// ended (no rule, or one), and when their reasoning has.
    targets: (Option<usize>, Option<usize>, usize),
    links: Option<u64>,
    live: bool,
    until: Option<u64>,
    /// By request: the gap to the one before, and the tokens of prompt, output and reasoning.
    requests: Vec<(u64, u32, u32, u32)>,
}

fn cases() -> impl Strategy<Value = Case> {
    let shape = (30u64..70, 1u32..5, 2u64..64, 1u64..9);
    let ranks = (prop::option::of(0..FIRST.len()), 0..KEYS.len(), prop::sample::select(vec![0, 4]));
    let order = (ranks, 0u64..4, any::<bool>(), prop::option::of(0u64..60), any::<bool>());
    let target = || prop::option::of(0..TARGETS.len());
    let moves = (target(), target(), 0..TARGETS.len(), prop::option::of(0u64..9), any::<bool>());
    let request = (0u64..20, 1u32..30, 1u32..30, 0u32..30);
    let requests = prop::collection::vec(request, 1..25);
    (shape, order, moves, prop::option::of(0u64..3_000), requests).prop_map(
        |(shape, order, moves, until, requests)| Case {
            blocks: shape.0,
            block_tokens: shape.1,
            budget: shape.2,
            seqs: shape.3,
            first: order.0.0,
            key: order.0.1,
            quantum: order.0.2,
            // A key that drifts needs a refresh, which says how often it is evaluated.
            refresh: if KEYS[order.0.1] == DRIFTS { order.1.max(1) } else { order.1 },
            displaces: order.2,
            // With recompute, ranks that change without progress may preempt each other forever.
            space: if order.0.1 >= 5 || order.0.0.is_some() { Some(1_000) } else { order.3 },
            caches: order.4,
            targets: (moves.0, moves.1, moves.2),
            links: moves.3,
            live: moves.4,
            until,
            requests,
        },
    )
}

fn config(case: &Case, leap: bool) -> String {
    let admission = if case.displaces {
        r#"{"kind": "displace", "when": null, "most": 0}"#
    } else {
        r#"{"kind": "wait"}"#
    };
    let preemption = case.space.map_or(r#"{"kind": "recompute"}"#.into(), |blocks| {
        format!(r#"{{"kind": "swap", "blocks": {blocks}, "out": 3, "back": 2, "overlapped": false}}"#)
    });
    let cache = if case.caches { r#"{"unknown_first": true}"# } else { "null" };
    let links = case
        .links
        .map_or("null".into(), |latency| format!(r#"{{"bytes_per_s": 1e12, "latency": {latency}}}"#));
    let until = case.until.map_or("null".into(), |until| until.to_string());
    let first = case.first.map_or(String::new(), |class| format!("{}, ", FIRST[class]));
    let live = if case.live { r#"{"stages": 2, "last_blocks": 1}"# } else { "null" };
    let pick = |target: usize| {
        format!(
            r#"{{"rule": "pick", "min": [{}], "where": null, "accept": null, "within": null}}"#,
            TARGETS[target]
        )
    };
    let arrival = case.targets.0.map_or(r#"{"rule": "round_robin"}"#.into(), pick);
    let prefilled = case.targets.1.map_or("null".into(), pick);
    let answering = pick(case.targets.2);
    let instance = format!(
        r#"{{"blocks": {}, "block_tokens": {}, "max_model_len": null, "kv_bytes_per_token": 1,
        "cost": {{"kind": "affine", "step": 5, "token": 2, "kv_token": 1}},
        "scheduler": {{"max_num_batched_tokens": {}, "max_num_seqs": {}, "long_prefill_token_threshold": 0,
            "stages": [{{"kind": "running"}}, {{"kind": "admit", "chunked": true, "unless_preempted": false,
                "unless_swapped": false, "count_decodes": true, "gather": null}}],
            "exclusive_prefill": false, "allocation": "chunk", "spare_block": false,
            "decodes_first": false, "preemption": {preemption}, "requeue_late": false,
            "order": {{"kind": "ranked", "classes": [{first}{{"when": null, "hold": 0, "keys": [{}]}}],
                "quantum": {}, "refresh": {{"steps": {}, "ticks": 0}}}},
            "admission": {admission}, "victim": "latest", "watermark_blocks": 0,
            "watermark_when_idle": false, "refund": true, "stop_at_own_preemption": false,
            "threshold_when_alone": false, "prefix_cache": {cache}, "schedule_ahead": false}}}}"#,
        case.blocks, case.block_tokens, case.budget, case.seqs, KEYS[case.key], case.quantum, case.refresh,
    );
    format!(
        r#"{{"instances": [{instance}, {instance}], "roles": [0, 1], "links": {links},
        "pace": {{"interval": 30, "first": 60, "ttft": 100}},
        "routing": {{"on_arrival": {arrival}, "on_prefilled": {prefilled}, "on_answering": {answering},
            "every": [{{"period": 70, "actions": [{{"action": "migrate",
                "source": {{"min": [{{"field": "inst.free_blocks"}}], "where": null}},
                "target": {{"min": [{{"op": "neg", "args": [{{"field": "inst.free_blocks"}}]}}], "where": null}},
                "choose": {{"min": [{{"field": "req.kv_tokens"}}], "where": null}}, "when": null, "live": {live}}}]}}]}},
        "until": {until}, "leap": {leap}, "record_decisions": false}}"#
    )
}

fn replay(json: &str, case: &Case) -> Result<Outcome, Error> {
    let config = Config::from_json(json.as_bytes()).expect("the configuration is valid");
    let mut simulation =
        Simulation::new(&config, trace(case, 0..case.requests.len())).expect("the trace is valid");
    while !simulation.advance(10_000)? {}
    Ok(simulation.into_outcome())
}

/// Some of the requests as a trace.
fn trace(case: &Case, rows: std::ops::Range<usize>) -> Trace {
    let prefix = case.caches.then(|| prefixes(case, rows.clone()));
    let arrivals = case.requests.iter().scan(0, |clock, request| {
        *clock += request.0;
        Some(*clock)
    });
    let arrival = arrivals.collect::<Vec<_>>()[rows.clone()].to_vec().into();
    let requests = &case.requests[rows];
    Trace {
        arrival,
        prompt_tokens: requests.iter().map(|request| request.1).collect(),
        output_tokens: requests.iter().map(|request| request.2).collect(),
        reasoning_tokens: Some(requests.iter().map(|request| request.3.min(request.2)).collect()),
        prefix,
        ..Trace::default()
    }
}

/// The blocks of some of the prompts: those of every third request start alike.
fn prefixes(case: &Case, rows: std::ops::Range<usize>) -> PrefixIds {
    let full = |row: usize| case.requests[row].1 / case.block_tokens;
    let ends = rows.clone().scan(0, |end, row| {
        *end += full(row) as usize;
        Some(*end)
    });
    let ids = rows
        .clone()
        .flat_map(|row| (0..full(row)).map(move |position| (row as u64 % 3) << 32 | u64::from(position)));
    PrefixIds { ends: ends.collect(), ids: ids.collect(), block_tokens: case.block_tokens, outputs: None }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn leaping_equals_stepping_under_policies_and_nothing_is_lost(case in cases()) {
        leaps_as_it_steps(&case)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_streamed_trace_gives_what_it_gives_at_once_under_policies(case in cases(), chunk in 1_usize..9) {
        let Some(whole) = leaps_as_it_steps(&case)? else { return Ok(()) };
        let parsed = Config::from_json(config(&case, true).as_bytes()).unwrap();
        let rows = |rows| trace(&case, rows);
        let cut = support::streamed::Cut { all: case.requests.len(), chunk, resumes: chunk % 2 == 0 };
        let (parts, streamed) = support::streamed::replay(&parsed, rows, cut).unwrap();
        prop_assert_eq!(support::streamed::bits(parts), support::streamed::bits(vec![whole.columns]));
        prop_assert_eq!((&streamed.gaps, &streamed.stats), (&whole.gaps, &whole.stats));
        prop_assert_eq!((streamed.end, streamed.events), (whole.end, whole.events));
    }
}

/// Compares a replay that leaps with one that steps, and returns it; `None` if it makes no progress.
fn leaps_as_it_steps(case: &Case) -> Result<Option<Outcome>, TestCaseError> {
    let leaping = replay(&config(case, true), case);
    let stepping = replay(&config(case, false), case);
    let (leaping, stepping) = match (leaping, stepping) {
        (Ok(leaping), Ok(stepping)) => (leaping, stepping),
        (leaping, stepping) => {
            // A replay that makes no progress makes none either way.
            prop_assert!(leaping.is_err() && stepping.is_err());
            return Ok(None);
        }
    };
    prop_assert_eq!(format!("{:?}", leaping.columns), format!("{:?}", stepping.columns));
    prop_assert_eq!(&leaping.gaps, &stepping.gaps);
    prop_assert_eq!(&leaping.stats, &stepping.stats);
    prop_assert_eq!(leaping.end, stepping.end);
    let columns = &leaping.columns;
    for (row, &(_, _, output, _)) in case.requests.iter().enumerate() {
        match columns.status[row] {
            status if status == Status::Finished as u8 => {
                prop_assert_eq!(columns.generated_tokens[row], output);
            }
            status if status == Status::Rejected as u8 => {}
            _ => prop_assert!(case.until.is_some(), "without an end, every request finishes or is rejected"),
        }
    }
    let gaps: u64 = columns.generated_tokens.iter().map(|&tokens| u64::from(tokens.saturating_sub(1))).sum();
    prop_assert_eq!(leaping.gaps.count(), gaps);
    Ok(Some(leaping))
}

/// A case in which no request waits, is preempted or migrates, unless a test changes that.
fn plain() -> Case {
    Case {
        blocks: 64,
        block_tokens: 1,
        budget: 64,
        seqs: 8,
        first: None,
        key: 0,
        quantum: 4,
        refresh: 0,
        displaces: false,
        space: None,
        caches: false,
        targets: (None, None, 0),
        links: None,
        live: false,
        until: None,
        requests: vec![(0, 1, 1, 0)],
    }
}

#[test]
fn requests_that_displace_each_other_forever_end_the_replay_with_an_error() {
    let case = Case {
        blocks: 30,
        budget: 2,
        seqs: 1,
        displaces: true,
        targets: (None, Some(0), 0),
        requests: vec![(0, 9, 1, 0); 4],
        ..plain()
    };
    // The request with the least computed tokens is first, and a preempted request has computed none.
    let json = config(&case, true)
        .replace(KEYS[0], r#"{"op": "floordiv", "args": [{"field": "req.kv_tokens"}, {"const": 1}]}"#)
        .replace(r#"long_prefill_token_threshold": 0"#, r#"long_prefill_token_threshold": 1"#);
    let error = replay(&json, &case).expect_err("no request ever generates a token");
    assert!(error.to_string().contains("instances[0] makes no progress"), "{error}");
}

#[test]
fn during_a_step_a_request_holds_the_block_of_the_token_in_progress() {
    // Steps take 10 ticks. At 25 the request has 4 tokens in the cache and its fifth in progress, so it holds three
    // blocks of two tokens. The monitor asks it to leave, and it leaves at 30 with 5 tokens (5 ticks and 7 of
    // latency). It generates the remaining 17 of its 20 tokens from 42 on.
    let case = Case {
        block_tokens: 2,
        targets: (None, Some(0), 0),
        links: Some(7),
        requests: vec![(0, 3, 20, 0)],
        ..plain()
    };
    for leap in [true, false] {
        let mut config: serde_json::Value = serde_json::from_str(&config(&case, leap)).expect("it is JSON");
        for instance in config["instances"].as_array_mut().expect("there are some") {
            instance["cost"] = serde_json::json!({"kind": "affine", "step": 10, "token": 0, "kv_token": 0});
        }
        let on = |index: u32| {
            let here = serde_json::json!([{"field": "inst.index"}, {"const": index}]);
            serde_json::json!({"min": [{"field": "inst.index"}], "where": {"op": "eq", "args": here}})
        };
        let enough = serde_json::json!([{"field": "req.blocks"}, {"const": 3}]);
        config["routing"] = serde_json::json!({
            "on_arrival": {"rule": "round_robin"},
            "every": [{"period": 25, "actions": [{"action": "migrate", "source": on(0), "target": on(1),
                "choose": {"min": [{"field": "req.kv_tokens"}], "where": {"op": "ge", "args": enough}}}]}],
        });
        let outcome = replay(&config.to_string(), &case).expect("it ends");
        assert_eq!((outcome.columns.migrations[0], outcome.columns.transfer[0]), (1, 12));
        assert_eq!(outcome.columns.finish[0], 42 + 17 * 10);
    }
}

#[test]
fn an_admitted_request_holds_the_block_of_its_next_token() {
    // Steps take 10 ticks, and a block has one token. Row 0 prefills its 19 tokens on instance 0, migrates, and is
    // admitted on instance 1 at 10, which allocates its 20th block. So it is never in the class of requests with 19
    // blocks, in which it would stay for 5 tokens while row 3 is admitted first. Row 3, which waits since 5, is
    // admitted when row 0 has its third token, at 30.
    let case = Case {
        seqs: 2,
        displaces: true,
        requests: vec![(0, 19, 3, 0), (0, 1, 9, 0), (0, 1, 1, 0), (5, 1, 1, 0)],
        ..plain()
    };
    for leap in [true, false] {
        let mut config: serde_json::Value = serde_json::from_str(&config(&case, leap)).expect("it is JSON");
        let sized = serde_json::json!([{"field": "req.blocks"}, {"const": 19}]);
        for instance in config["instances"].as_array_mut().expect("there are some") {
            instance["cost"] = serde_json::json!({"kind": "affine", "step": 10, "token": 0, "kv_token": 0});
            instance["scheduler"]["allocation"] = "sequence".into();
            instance["scheduler"]["order"]["classes"] = serde_json::json!([
                {"when": {"op": "ne", "args": sized}, "keys": []},
                {"hold": 5, "keys": []},
            ]);
        }
        let last = serde_json::json!([{"op": "neg", "args": [{"field": "inst.index"}]}]);
        config["routing"] = serde_json::json!({
            "on_arrival": {"rule": "round_robin"}, "on_prefilled": {"rule": "pick", "min": last},
        });
        let outcome = replay(&config.to_string(), &case).expect("it ends");
        assert_eq!(outcome.columns.migrations[0], 1);
        assert!(outcome.columns.preemptions.is_empty(), "none was preempted");
        assert_eq!((outcome.columns.finish[0], outcome.columns.scheduled[3]), (30, 30));
    }
}

#[test]
fn the_choice_of_a_request_has_no_roles() {
    let chosen = r#""choose": {"min": [{"field": "req.kv_tokens"}], "where": null"#;
    let json = config(&plain(), true);
    assert!(json.contains(chosen));
    let refused = Config::from_json(json.replace(chosen, &format!(r#"{chosen}, "within": [0]"#)).as_bytes());
    let error = refused.expect_err("a request has no role");
    assert!(error.to_string().contains("choose.within: must be null"), "{error}");
}
