//! The arithmetic by hand, on tables small enough to see through.

use serde_json::json;

use super::*;

fn table(skew: &serde_json::Value) -> Table {
    let one = |axis: &str| {
        json!({"tokens": [0], "history": [0], "requests": [0], "context": [0],
        "ticks": [if axis == "prefill" { 7 } else { 0 }]})
    };
    serde_json::from_value(json!({
        "step": 1_000_000,
        "tokens": {"at": [1, 3, 5], "ticks": [100, 300, 900]},
        "rows": {"at": [1, 2], "ticks": [10, 30]},
        "decode": {"tokens": [0], "history": [0], "requests": [1, 3], "context": [10, 20, 40],
            "ticks": [0, 102_400, 307_200, 0, 307_200, 921_600]},
        "prefill": one("prefill"),
        "mixed": {"tokens": [4, 8], "history": [0, 10], "requests": [1], "context": [10, 20],
            "ticks": [0, 0, 1_000, 1_000, 4_000, 4_000, 9_000, 9_000]},
        "skew": skew,
    }))
    .unwrap()
}

fn decode(requests: u64, kv: u64, longest: u64) -> StepShape {
    StepShape {
        decode_requests: requests,
        decode_kv: kv,
        decode_max_kv: longest,
        sampled: requests,
        ..StepShape::default()
    }
}

#[test]
fn adds_up_what_it_looks_up() {
    // 2 tokens: 200; 2 rows: 30; two requests lie midway between one and three,
    // whose stretch from 10 to 20 rises by 10,240 and 30,720 a token: 20,480.
    let cost = table(&json!(null));
    assert_eq!(cost.step(&decode(2, 30, 15)), 1_000_000 + 200 + 30 + 5 * 20_480);
}

#[test]
fn a_fraction_of_a_token_counts() {
    let cost = table(&json!(null));
    let half = cost.step(&decode(2, 31, 16)) - cost.step(&decode(2, 30, 15));
    assert_eq!(half, 20_480 / 2);
}

#[test]
fn below_the_grid_the_first_point_holds_and_past_it_the_last_stretch() {
    let cost = table(&json!(null));
    assert_eq!(cost.step(&decode(1, 3, 3)), 1_000_000 + 100 + 10);
    assert_eq!(cost.step(&decode(1, 50, 50)), 1_000_000 + 100 + 10 + 307_200 + 10 * 10_240);
    // Nine tokens, past the five measured: 900 + 4 * 300.
    let many = decode(9, 90, 10);
    assert_eq!(cost.tokens.at(9), 900 + 4 * 300);
    let beyond = cost.extrapolation(&many);
    let past: Vec<_> = Axis::ALL.into_iter().filter(|&axis| beyond.has(axis)).map(Axis::name).collect();
    assert_eq!(past, ["tokens", "rows", "n_decode"]);
    assert!(cost.extrapolation(&decode(1, 40, 40)).has(Axis::Context));
    assert!(cost.extrapolation(&decode(2, 30, 15)).is_none());
}

#[test]
fn a_run_ends_at_the_grid_points_of_mean_and_longest() {
    let skew = json!({"tokens": [0], "requests": [1], "cells": 1, "alpha": [256 << 10]});
    let cost = table(&skew);
    // Mean 12 of two, longest 17: the longest is at 20 after three steps.
    let run = cost.run(&decode(2, 24, 17), u64::MAX);
    assert_eq!(run.steps, 3);
    assert_eq!(run.slope, 20_480);
    assert_eq!(run.first, 1_000_230 + 2 * 20_480 + (5 * 20_480) / 4);
    assert!(cost.run(&decode(1, 45, 45), u64::MAX).steps > 1 << 40);
}

#[test]
fn a_run_ends_where_the_ratio_reaches_the_next_cell() {
    let skew = json!({"tokens": [0], "requests": [1], "cells": 2, "alpha": [512 << 10, 0]});
    let cost = table(&skew);
    // (42 + 2i) / (2 * (50 + i)) is 1/2 where 21 + i is half of 50 + i: i = 8.
    assert_eq!(cost.run(&decode(2, 42, 50), u64::MAX).steps, 8);
    // From there the mean itself has 11 tokens left to the point at 40.
    assert_eq!(cost.run(&decode(2, 42 + 16, 58), u64::MAX).steps, 11);
}

#[test]
fn equal_contexts_need_no_correction() {
    let skew = json!({"tokens": [0], "requests": [1], "cells": 1, "alpha": [1 << 20]});
    assert_eq!(table(&skew).step(&decode(2, 30, 15)), table(&json!(null)).step(&decode(2, 30, 15)));
}

#[test]
fn prompts_count_by_their_pairs() {
    let cost = table(&json!(null));
    let mixed = |tokens: u64, pairs: u64| StepShape {
        prefill_tokens: tokens,
        prefill_requests: 1,
        prefill_kv: tokens,
        prefill_pairs: pairs,
        ..decode(1, 10, 10)
    };
    let attention = |shape: &StepShape| cost.attention(shape).value;
    // Four tokens after five others have 5 * 4 + 10 pairs: halfway to 10.
    assert_eq!(attention(&mixed(4, 30)), 500);
    // Halfway between four and eight tokens, without history.
    assert_eq!(attention(&mixed(6, 21)), 2_000);
    // Two prompts of two tokens have 6 pairs, fewer than one of four has.
    assert_eq!(attention(&mixed(4, 6)), 0);
}

#[test]
fn several_prompts_share_a_launch_and_take_no_more_than_one_long_one() {
    let cost = table(&json!(null));
    let attention = |number: u64, tokens: u64, pairs: u64| {
        let (prefill_tokens, prefill_requests) = (number * tokens, number);
        let shape = StepShape { prefill_tokens, prefill_requests, prefill_pairs: pairs, ..decode(1, 10, 10) };
        cost.attention(&shape).value
    };
    // Two chunks of four tokens after five others: 500 each, and nothing for the launch, the first point.
    assert_eq!(attention(2, 4, 2 * 30), 2 * 500);
    // Three prompts of six tokens without history: 2,000 each; one prompt of 18 with their pairs takes more.
    assert_eq!(attention(3, 6, 3 * 21), 3 * 2_000);
    // Eight prompts of one token after ten: 1,000 each by the first point; one prompt of eight with as many pairs,
    // 6.5 tokens after its first, 4,000 and 0.65 of 5,000.
    assert_eq!(attention(8, 1, 8 * 11), 7_250);
    let mut launch = table(&json!(null));
    launch.mixed = serde_json::from_value(json!({"tokens": [4, 8], "history": [0], "requests": [1],
        "context": [10], "ticks": [300, 1_000]}))
    .unwrap();
    let shape = StepShape { prefill_tokens: 12, prefill_requests: 2, prefill_pairs: 42, ..decode(1, 10, 10) };
    // Six tokens take 650, of which 300 are the launch: 650 + 350. Twelve in one prompt: 1,700.
    assert_eq!(launch.attention(&shape).value, 1_000);
}

#[test]
fn layers_without_the_prefill_cost_what_they_cost_without_it() {
    let cost = table(&json!(null));
    let whole = StepShape { prefill_tokens: 4, prefill_requests: 1, prefill_pairs: 50, ..decode(1, 10, 10) };
    let part = StepShape { prefill_layers: 1, layers: 4, ..whole };
    // With it 900 + 1,000, without it 100 + 0; the two rows take 30 either way.
    assert_eq!(cost.step(&whole), 1_000_000 + 30 + 900 + 1_000);
    assert_eq!(cost.step(&part), 1_000_000 + 30 + 100 + (900 + 1_000 - 100) / 4);
}

#[test]
fn a_falling_stretch_is_taken_step_by_step() {
    let mut cost = table(&json!(null));
    cost.decode = serde_json::from_value(json!({"tokens": [0], "history": [0], "requests": [1],
        "context": [0, 10], "ticks": [102_400, 0]}))
    .unwrap();
    assert_eq!(cost.run(&decode(1, 5, 5), u64::MAX), Run { first: 1_000_110 + 51_200, slope: 0, steps: 1 });
}

#[test]
fn malformed_tables_are_refused_with_the_reason() {
    let message = |value: serde_json::Value| serde_json::from_value::<Curve>(value).unwrap_err().to_string();
    assert!(message(json!({"at": [], "ticks": []})).contains("at least 1 point"));
    assert!(message(json!({"at": [1, 1], "ticks": [0, 0]})).contains("must rise, was 1 after 1"));
    assert!(message(json!({"at": [1], "ticks": [0, 0]})).contains("each of 1 points, had 2"));
    assert!(message(json!({"at": [1], "ticks": [-1]})).contains("was -1"));
    let skew = json!({"tokens": [0], "requests": [1], "cells": 2, "alpha": [0]});
    assert!(serde_json::from_value::<Skew>(skew).unwrap_err().to_string().contains("2 values, had 1"));
}

#[test]
fn a_graph_pads_the_tokens_but_not_those_of_the_experts() {
    let experts = serde_json::from_value(json!({"at": [1, 5], "ticks": [7, 47]})).unwrap();
    let cost = Table { experts: Some(experts), ..table(&json!(null)) };
    // Two tokens run as four: 600, and 17 of the experts for the two.
    let padded = StepShape { padding: 2, ..decode(2, 30, 15) };
    assert_eq!(cost.step(&padded), 1_000_000 + 600 + 17 + 30 + 5 * 20_480);
    // Past the five tokens that were measured it is the padded step that counts.
    let many = StepShape { padding: 4, ..decode(2, 30, 15) };
    assert!(cost.extrapolation(&many).has(Axis::Tokens) && cost.extrapolation(&padded).is_none());
}
