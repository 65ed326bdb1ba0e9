use super::*;
use crate::cost::StepShape;

fn traffic() -> Traffic {
    Traffic {
        weights: 1_000,
        head: 70,
        experts: Some(ExpertLoads { bytes: 60, loads: vec![(1, 2 << 20), (3, 5 << 20), (9, 8 << 20)] }),
        decode: PerToken {
            activations: 7,
            kv_written: 4,
            flops: 900,
            link: 11,
            attention: Attended { context: 4, pair: 13 },
        },
        prefill: PerToken {
            activations: 8,
            kv_written: 4,
            flops: 900,
            link: 11,
            attention: Attended { context: 5, pair: 17 },
        },
        row: PerRow { activations: 3, flops: 140, link: 2 },
        windows: None,
        state: 0,
        power: None,
    }
}

fn mixed() -> StepShape {
    StepShape {
        decode_requests: 2,
        decode_kv: 50,
        prefill_tokens: 1,
        prefill_requests: 1,
        prefill_kv: 10,
        prefill_pairs: 10,
        sampled: 3,
        ..StepShape::default()
    }
}

fn moved(traffic: &Traffic, depth: u32, shape: &StepShape) -> Moved {
    let mut work = Work::new(depth);
    work.add(traffic, shape, 1);
    traffic.of(&work, 0, 0)
}

#[test]
fn a_step_adds_up_by_kind() {
    let moved = moved(&traffic(), 1, &mixed());
    assert_eq!(moved.weight_bytes, 1_000 + 70);
    assert_eq!(moved.expert_bytes, 5 * 60);
    assert_eq!(moved.kv_read_bytes, 50 * 4 + 10 * 5);
    assert_eq!(moved.kv_written_bytes, 3 * 4);
    assert_eq!(moved.activation_bytes, 2 * 7 + 8 + 3 * 3);
    assert_eq!(moved.flops, 3 * 900 + 50 * 13 + 10 * 17 + 3 * 140);
    assert_eq!(moved.link_bytes, 3 * 11 + 3 * 2);
    assert_eq!((moved.work_aj, moved.idle_uw), (None, None), "energy is not known, rather than none");
    assert_eq!(moved.hbm_bytes(), 1_070 + 300 + 250 + 12 + 31);
}

#[test]
fn states_are_read_and_written_once_by_each_request_of_a_step() {
    let traffic = Traffic { state: 1_000, ..traffic() };
    let moved = moved(&traffic, 1, &mixed());
    assert_eq!(moved.kv_read_bytes, 50 * 4 + 10 * 5 + 3 * 1_000);
    assert_eq!(moved.kv_written_bytes, 3 * 4 + 3 * 1_000);
    // A chunk of two prompts in one layer of four moves a quarter of their states.
    let shape = StepShape { prefill_requests: 2, prefill_layers: 1, layers: 4, ..mixed() };
    let mut work = Work::new(4);
    work.add(&traffic, &shape, 1);
    assert_eq!(traffic.of(&work, 0, 0).kv_written_bytes, 2 * 1_004 + (2 * 1_000 + 4) / 4);
}

#[test]
fn experts_are_read_once_for_the_union_of_a_layers_tokens() {
    let shape = StepShape { prefill_tokens: 7, prefill_layers: 1, layers: 4, ..mixed() };
    // 9 tokens in one layer of four, the 2 decodes alone in three: 8 and 3.5 experts.
    assert_eq!(moved(&traffic(), 4, &shape).expert_bytes, (8 * 60 + 3 * 7 * 60 / 2) / 4);
}

#[test]
fn layers_without_tokens_read_nothing() {
    let shape =
        StepShape { decode_requests: 0, decode_kv: 0, sampled: 0, prefill_layers: 1, layers: 4, ..mixed() };
    let moved = moved(&traffic(), 4, &shape);
    assert_eq!(moved.weight_bytes, 250);
    assert_eq!(moved.expert_bytes, 2 * 60 / 4);
    assert_eq!(moved.kv_written_bytes, 1);
}

#[test]
fn windows_bound_what_is_read_of_contexts() {
    let seen = Attended { context: 100, pair: 1_000 };
    let traffic = Traffic { windows: Some(Windows { tokens: 20, decode: seen, prefill: seen }), ..traffic() };
    let plain = moved(&self::traffic(), 1, &mixed());
    let moved = moved(&traffic, 1, &mixed());
    // Two decodes see 20 of 25 each; the prefill's 10 are all inside.
    assert_eq!(moved.kv_read_bytes - plain.kv_read_bytes, (40 + 10) * 100);
    assert_eq!(moved.flops - plain.flops, (40 + 10) * 1_000);
}

#[test]
fn energy_is_that_of_time_bytes_and_operations() {
    let power = Power { idle_uw: 9, busy_uw: 3, hbm_byte_aj: 5, flop_aj: 2, link_byte_aj: 7 };
    let traffic = Traffic { power: Some(power), ..traffic() };
    let mut work = Work::new(1);
    work.add(&traffic, &mixed(), 1);
    let moved = traffic.of(&work, 6, 1_000);
    assert_eq!(moved.swap_bytes, 6 * 4);
    let dynamic = 5 * (1_663 + 24) + 2 * moved.flops + 7 * 39;
    assert_eq!((moved.work_aj, moved.idle_uw), (Some(3_000 + dynamic), Some(9)));
}
