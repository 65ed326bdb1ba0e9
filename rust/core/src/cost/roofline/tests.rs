//! The arithmetic of single kernels, by hand.

use super::attention::PAIR_FRACTION_BITS;
use super::*;

const NOTHING: Linear = Linear { weights: 0, token_bytes: 0, token_flops: 0 };

fn free() -> Roofline {
    Roofline {
        step: 0,
        token: 0,
        request: 0,
        row: 0,
        linears: Vec::new(),
        lm_head: NOTHING,
        decode_attention: DecodeAttention { request_bytes: 0, kv_bytes: 0, kv_flops: 0 },
        prefill_attention: PrefillAttention { token_bytes: 0, kv_bytes: 0, pair_flops: 0 },
        windowed: None,
        recurrent: None,
        experts: None,
        all_reduce: Vec::new(),
        exchange: Vec::new(),
        ready: Vec::new(),
    }
}

fn decode(requests: u64, kv: u64) -> StepShape {
    StepShape { decode_requests: requests, decode_kv: kv, sampled: requests, ..StepShape::default() }
}

#[test]
fn each_kernel_takes_the_longer_of_its_two_sides() {
    let cost = Roofline {
        linears: vec![
            Linear { weights: 100, token_bytes: 1, token_flops: 2 },
            Linear { weights: 10, token_bytes: 0, token_flops: 9 },
        ],
        ..free()
    };
    // The first waits for its weights, the second for arithmetic; a maximum
    // of sums would give 110 + 5 and miss that.
    assert_eq!(cost.step(&decode(5, 5)), (100 + 5) + 9 * 5);
}

#[test]
fn decode_and_prefill_attention_add_up() {
    let cost = Roofline {
        decode_attention: DecodeAttention { request_bytes: 2, kv_bytes: 3, kv_flops: 1 },
        prefill_attention: PrefillAttention {
            token_bytes: 1,
            kv_bytes: 1,
            pair_flops: 3 << (PAIR_FRACTION_BITS - 1),
        },
        ..free()
    };
    let shape = StepShape {
        prefill_tokens: 4,
        prefill_requests: 1,
        prefill_kv: 4,
        prefill_pairs: 10,
        ..decode(2, 20)
    };
    assert_eq!(cost.step(&shape), (2 * 2 + 3 * 20) + 15);
}

#[test]
fn the_lm_head_is_paid_only_when_something_is_sampled() {
    let head = Linear { weights: 50, token_bytes: 1, token_flops: 0 };
    let cost = Roofline { lm_head: head, row: 7, ..free() };
    let mut shape = StepShape { prefill_tokens: 9, prefill_requests: 1, ..StepShape::default() };
    assert_eq!(cost.step(&shape), 0);
    shape.sampled = 2;
    assert_eq!(cost.step(&shape), 50 + 2 + 14);
}

#[test]
fn reductions_take_the_cheapest_way() {
    let cost =
        Roofline { all_reduce: vec![Line { fixed: 10, token: 5 }, Line { fixed: 40, token: 1 }], ..free() };
    assert_eq!(cost.step(&decode(1, 1)), 15);
    assert_eq!(cost.step(&decode(100, 100)), 140);
}

#[test]
fn what_crosses_links_besides_is_paid_in_full() {
    let lines = vec![Line { fixed: 10, token: 5 }, Line { fixed: 40, token: 1 }];
    let cost = Roofline { exchange: lines, ..free() };
    assert_eq!(cost.step(&decode(3, 30)), 50 + 3 * 6);
    assert_eq!(cost.step(&StepShape::default()), 0, "nothing is sent without tokens");
}

#[test]
fn a_run_ends_where_memory_stops_being_the_bottleneck() {
    let cost = Roofline {
        step: 1_000,
        decode_attention: DecodeAttention { request_bytes: 100, kv_bytes: 1, kv_flops: 3 },
        ..free()
    };
    // Two requests: memory 200 + kv against 3 kv, level at a context of 100,
    // which ten tokens each are reached after 40 steps.
    let run = cost.run(&decode(2, 20), u64::MAX);
    assert_eq!(run, Run { first: 1_220, slope: 2, steps: 41 });
    let next = cost.run(&decode(2, 20 + 2 * 41), u64::MAX);
    assert_eq!((next.first, next.slope), (1_306, 6));
}

#[test]
fn at_the_crossing_itself_the_steeper_side_leads() {
    let cost = Roofline {
        decode_attention: DecodeAttention { request_bytes: 10, kv_bytes: 1, kv_flops: 2 },
        ..free()
    };
    let run = cost.run(&decode(1, 10), u64::MAX);
    assert_eq!((run.first, run.slope), (20, 2));
    assert!(run.steps > 1 << 40);
}

#[test]
fn saturates_at_the_horizon() {
    let all = u64::MAX;
    let cost = Roofline {
        step: all,
        decode_attention: DecodeAttention { request_bytes: all, kv_bytes: all, kv_flops: all },
        ..free()
    };
    let shape = decode(all, all);
    assert_eq!(cost.step(&shape), HORIZON);
    assert_eq!(cost.run(&shape, u64::MAX), Run { first: HORIZON, slope: 0, steps: 1 });
}

const BOTH: PrefillAttention = PrefillAttention { token_bytes: 0, kv_bytes: 1, pair_flops: 2 << 20 };

fn windowed(tokens: u64, decode: DecodeAttention) -> Roofline {
    Roofline { windowed: Some(Box::new(WindowedAttention { tokens, decode, prefill: BOTH })), ..free() }
}

#[test]
fn a_window_holds_no_more_than_its_tokens() {
    let cost = windowed(10, DecodeAttention { request_bytes: 0, kv_bytes: 3, kv_flops: 0 });
    assert_eq!(cost.step(&decode(2, 14)), 3 * 14);
    assert_eq!(cost.step(&decode(2, 900)), 3 * 20);
    // Four tokens after 96: each sees 10, though the causal mask has 394 pairs.
    let chunk = StepShape {
        prefill_tokens: 4,
        prefill_requests: 1,
        prefill_kv: 100,
        prefill_pairs: 394,
        ..StepShape::default()
    };
    assert_eq!(cost.step(&chunk), 2 * 40);
}

#[test]
fn a_run_ends_where_windows_fill() {
    let cost = windowed(100, DecodeAttention { request_bytes: 0, kv_bytes: 1, kv_flops: 0 });
    // Two requests with 20 tokens together: full at 200, after 90 steps.
    assert_eq!(cost.run(&decode(2, 20), u64::MAX), Run { first: 20, slope: 2, steps: 91 });
    assert_eq!(cost.run(&decode(2, 200), u64::MAX), Run { first: 200, slope: 0, steps: u64::MAX });
    // Nothing decodes.
    assert_eq!(cost.run(&decode(0, 0), u64::MAX), Run { first: 0, slope: 0, steps: u64::MAX });
}

#[test]
fn layers_that_run_prefills_read_one_union_of_experts() {
    let experts = Experts { weights: vec![(10, 100), (110, 400)], token_bytes: 0, token_flops: 0 };
    let cost = Roofline { experts: Some(experts), ..free() };
    let mixed = StepShape { prefill_tokens: 100, prefill_requests: 1, ..decode(10, 10) };
    assert_eq!(cost.step(&decode(10, 10)), 100);
    assert_eq!(cost.step(&mixed), 400, "not 100 and what 100 tokens read alone");
    // A quarter of the layers reads 400's worth, the others 100's.
    let layered = StepShape { prefill_layers: 12, layers: 48, ..mixed };
    assert_eq!(cost.step(&layered), 3 * 25 + 100);
    let all = StepShape { prefill_layers: 48, layers: 48, ..mixed };
    assert_eq!(cost.step(&all), 400);
}

#[test]
fn a_group_of_layers_pays_its_share_of_a_prefill() {
    let cost = Roofline {
        token: 8,
        request: 4,
        linears: vec![Linear { weights: 40, token_bytes: 4, token_flops: 0 }],
        prefill_attention: BOTH,
        all_reduce: vec![Line { fixed: 20, token: 0 }],
        ..free()
    };
    let prompt = StepShape {
        prefill_tokens: 4,
        prefill_requests: 1,
        prefill_kv: 4,
        prefill_pairs: 10,
        ..StepShape::default()
    };
    assert_eq!(cost.step(&prompt), 32 + 4 + 56 + 20 + 20);
    // Where nothing decodes, the other layers have nothing to do.
    let group = StepShape { prefill_layers: 1, layers: 4, ..prompt };
    assert_eq!(cost.step(&group), (32 + 4 + 56 + 20) / 4 + 20 / 4);
}

#[test]
fn layers_with_states_cost_the_same_at_every_context() {
    let recurrent = Recurrent { request_decodes: 7, request_bytes: 5, token_bytes: 1, token_flops: 3 };
    let cost = Roofline { recurrent: Some(Box::new(recurrent)), ..free() };
    let decode = |kv| StepShape { decode_requests: 4, decode_kv: kv, sampled: 4, ..StepShape::default() };
    assert_eq!([10, 1_000].map(|kv| cost.step(&decode(kv)) - free().step(&decode(kv))), [28, 28]);
    assert_eq!(cost.run(&decode(10), 9).slope, free().run(&decode(10), 9).slope);
    // Two prompts: 2 * 5 + n against 3 * n.
    let prefill = |tokens| StepShape {
        prefill_requests: 2,
        prefill_tokens: tokens,
        prefill_kv: tokens,
        ..StepShape::default()
    };
    let states = |tokens| cost.step(&prefill(tokens)) - free().step(&prefill(tokens));
    assert_eq!([2, 5, 50].map(states), [12, 15, 150]);
}

#[test]
fn a_graph_pads_what_has_a_row_for_each_token_and_nothing_else() {
    let line = Linear { weights: 0, token_bytes: 1, token_flops: 0 };
    let cost = Roofline {
        step: 1_000_000,
        token: 10,
        request: 100_000,
        row: 100_000,
        linears: vec![line],
        lm_head: Linear { weights: 0, token_bytes: 100_000, token_flops: 0 },
        decode_attention: DecodeAttention { request_bytes: 100_000, kv_bytes: 1_000, kv_flops: 0 },
        experts: Some(Experts { weights: Vec::new(), token_bytes: 10_000, token_flops: 0 }),
        all_reduce: vec![Line { fixed: 0, token: 100 }],
        exchange: vec![Line { fixed: 0, token: 10_000 }],
        ..free()
    };
    // Three tokens run as eight. The five that are added cost 111 each: their norms, a multiplication, a reduction.
    let padded = StepShape { padding: 5, ..decode(3, 30) };
    assert_eq!(cost.step(&padded) - cost.step(&decode(3, 30)), 5 * 111);
}
