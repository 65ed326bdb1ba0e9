//! Runs against steps, over coefficients and shapes at random.

use proptest::prelude::*;

use super::*;
use crate::cost::{Captured, Cost, Graphs};

fn linear() -> impl Strategy<Value = Linear> {
    (0_u64..1 << 40, 0_u64..1 << 24, 0_u64..1 << 24).prop_map(|(weights, token_bytes, token_flops)| Linear {
        weights,
        token_bytes,
        token_flops,
    })
}

prop_compose! {
    fn roofline()(
        fixed in (0_u64..1 << 40, 0_u64..1 << 20, 0_u64..1 << 30, 0_u64..1 << 24),
        linears in prop::collection::vec(linear(), 0..6),
        lm_head in linear(),
        decode in (0_u64..1 << 34, 0_u64..1 << 17, 0_u64..1 << 17),
        prefill in (0_u64..1 << 20, 0_u64..1 << 17, 0_u64..1 << 30),
        lines in prop::collection::vec((0_u64..1 << 40, 0_u64..1 << 24), 0..9),
    ) -> Roofline {
        Roofline {
            step: fixed.0,
            token: fixed.1,
            request: fixed.2,
            row: fixed.3,
            linears,
            lm_head,
            decode_attention: DecodeAttention {
                request_bytes: decode.0,
                kv_bytes: decode.1,
                kv_flops: decode.2,
            },
            prefill_attention: PrefillAttention {
                token_bytes: prefill.0,
                kv_bytes: prefill.1,
                pair_flops: prefill.2,
            },
            windowed: None,
            recurrent: None,
            experts: None,
            exchange: lines.iter().take(1).map(|&(fixed, token)| Line { fixed, token }).collect(),
            ready: Vec::new(),
            all_reduce: lines.into_iter().map(|(fixed, token)| Line { fixed, token }).collect(),
        }
    }
}

prop_compose! {
    /// The same with windows, experts or both.
    fn mixture()(
        cost in roofline(),
        window in prop::option::of((1_u64..5_000, 0_u64..1 << 34, 0_u64..1 << 17, 0_u64..1 << 17)),
        states in prop::option::of((0_u64..1 << 34, 0_u64..1 << 30, 0_u64..1 << 20, 0_u64..1 << 20)),
        experts in prop::option::of((
            prop::collection::btree_map(1_u64..10_000, 0_u64..1 << 40, 0..20),
            0_u64..1 << 24,
            0_u64..1 << 24,
        )),
    ) -> Roofline {
        let prefill = cost.prefill_attention;
        Roofline {
            windowed: window.map(|(tokens, request_bytes, kv_bytes, kv_flops)| {
                let decode = DecodeAttention { request_bytes, kv_bytes, kv_flops };
                Box::new(WindowedAttention { tokens, decode, prefill })
            }),
            recurrent: states.map(|(request_decodes, request_bytes, token_bytes, token_flops)| {
                Box::new(Recurrent { request_decodes, request_bytes, token_bytes, token_flops })
            }),
            experts: experts.map(|(points, token_bytes, token_flops)| {
                let mut ticks: Vec<u64> = points.values().copied().collect();
                ticks.sort_unstable();
                Experts { weights: points.into_keys().zip(ticks).collect(), token_bytes, token_flops }
            }),
            ..cost
        }
    }
}

fn decode(requests: u64, kv: u64) -> StepShape {
    StepShape { decode_requests: requests, decode_kv: kv, sampled: requests, ..StepShape::default() }
}

proptest! {
    /// Inside a piece, at both its ends, and just past it.
    #[test]
    fn a_run_is_exact_and_maximal(
        cost in roofline(),
        requests in 0_u64..2_000,
        context in 0_u64..1 << 20,
        somewhere in 0_u64..1 << 40,
    ) {
        let at = |i: u64| decode(requests, requests + context + i * requests);
        let run = cost.run(&at(0), u64::MAX);
        prop_assert!(run.steps >= 1);
        let last = run.steps - 1;
        for i in [0, 1.min(last), last / 2, somewhere.min(last), last] {
            // Past this the shape itself would leave u64.
            if i < 1 << 50 {
                prop_assert_eq!(cost.step(&at(i)), run.first + i * run.slope);
            }
        }
        if run.steps < 1 << 50 {
            let after = cost.step(&at(run.steps));
            let line = run.first.saturating_add(run.steps.saturating_mul(run.slope));
            prop_assert!(after > line || line >= HORIZON - run.slope);
        }
    }

    /// Precomputed costs equal those computed later.
    #[test]
    fn a_prepared_cost_is_the_same(
        cost in mixture(),
        requests in 0_u64..80,
        context in 0_u64..1 << 20,
        tokens in 0_u64..200,
        layers in 0_u32..3,
    ) {
        let mut prepared = cost.clone();
        prepared.prepare(40, &[(0, 1), (3, 1), (3, 4)], |shape| shape);
        let prefills = u64::from(tokens > 0);
        let shape = StepShape {
            prefill_requests: prefills,
            prefill_tokens: tokens,
            prefill_kv: tokens,
            prefill_pairs: tokens * (tokens + 1) / 2,
            sampled: requests + prefills,
            prefill_layers: layers,
            layers: if layers == 0 { 0 } else { 3 },
            ..decode(requests, requests + context)
        };
        prop_assert_eq!(prepared.step(&shape), cost.step(&shape));
        let alone = decode(requests, requests + context);
        prop_assert_eq!(prepared.run(&alone, u64::MAX), cost.run(&alone, u64::MAX));
        let captured = Captured { sizes: vec![1, 2, 4, 8, 16, 32, 64], uniform: Vec::new(), eager: 0 };
        let padded = Cost::Graphs(Box::new(Graphs { captured, cost: Cost::Roofline(Box::new(cost)) }));
        let mut prepared = padded.clone();
        prepared.prepare(40, &[(0, 1)]);
        prop_assert_eq!(prepared.step(&shape), padded.step(&shape));
        prop_assert_eq!(prepared.run(&alone, u64::MAX), padded.run(&alone, u64::MAX));
    }

    /// With windows and experts a run may stop early, and is as exact.
    #[test]
    fn a_run_of_a_mixture_is_exact(
        cost in mixture(),
        requests in 0_u64..2_000,
        context in 0_u64..1 << 20,
        somewhere in 0_u64..1 << 40,
    ) {
        let at = |i: u64| decode(requests, requests + context + i * requests);
        let run = cost.run(&at(0), u64::MAX);
        prop_assert!(run.steps >= 1);
        let last = (run.steps - 1).min(1 << 49);
        for i in [0, 1.min(last), last / 2, somewhere.min(last), last] {
            prop_assert_eq!(cost.step(&at(i)), run.first + i * run.slope);
        }
    }

    /// A step costs what the line of its context says, whichever requests the further tokens are of.
    #[test]
    fn a_rise_with_the_context_is_exact(
        cost in mixture(),
        (requests, drafts) in (1_u64..2_000, 0_u64..8),
        context in 0_u64..1 << 20,
        somewhere in any::<u64>(),
        graphs in any::<bool>(),
    ) {
        let shape = StepShape {
            draft_tokens: requests * drafts,
            sampled: requests * (1 + drafts),
            ..decode(requests, requests * (1 + drafts) + context)
        };
        let captured = Captured { sizes: vec![1, 2, 4, 8, 16, 32, 64], uniform: Vec::new(), eager: 0 };
        let cost = Cost::Roofline(Box::new(cost));
        let cost = if graphs { Cost::Graphs(Box::new(Graphs { captured, cost })) } else { cost };
        let rise = cost.rise(&shape).expect("it is straight");
        let last = rise.tokens.min(1 << 40);
        for more in [0, 1.min(last), somewhere % (last + 1), last] {
            let longer = StepShape { decode_kv: shape.decode_kv + more, ..shape };
            prop_assert_eq!(rise.after(more), Some(cost.step(&longer)));
        }
        prop_assert_eq!(rise.after(rise.tokens + 1), None);
    }

    /// A prefill that goes through the layers in groups costs its decodes' steps
    /// and, once, what it adds to them; each group rounds down once a kernel.
    #[test]
    fn groups_add_up_to_the_whole(
        cost in mixture(),
        requests in 0_u64..200,
        context in 0_u64..1 << 20,
        tokens in 1_u64..20_000,
        groups in prop::collection::vec(1_u32..20, 1..12),
    ) {
        let alone = decode(requests, requests + context);
        let mixed = StepShape {
            prefill_tokens: tokens,
            prefill_requests: 1,
            prefill_kv: tokens,
            prefill_pairs: tokens * (tokens + 1) / 2,
            ..alone
        };
        let layers: u32 = groups.iter().sum();
        let (base, whole) = (cost.step(&alone), cost.step(&mixed));
        let parts: u64 = groups
            .iter()
            .map(|&prefill_layers| cost.step(&StepShape { prefill_layers, layers, ..mixed }) - base)
            .sum();
        prop_assert!(parts <= whole - base);
        prop_assert!(whole - base - parts <= 2 * groups.len() as u64);
    }

    /// Following run after run costs what following step after step does.
    #[test]
    fn runs_add_up_to_steps(
        cost in mixture(),
        requests in 1_u64..50,
        context in 0_u64..5_000,
        steps in 1_u64..400,
    ) {
        let at = |i: u64| decode(requests, requests + context + i * requests);
        let stepped: u64 = (0..steps).map(|i| cost.step(&at(i))).sum();
        let (mut done, mut leapt) = (0, 0);
        while done < steps {
            let run = cost.run(&at(done), u64::MAX);
            let k = run.steps.min(steps - done);
            leapt += run.first * k + run.slope * (k * (k - 1) / 2);
            done += k;
        }
        prop_assert_eq!(leapt, stepped);
    }

    /// No shape and no coefficients overflow, and more work never takes less.
    #[test]
    fn grows_with_every_part_of_a_shape(
        cost in mixture(),
        parts in prop::array::uniform7(any::<u64>()),
        more in prop::array::uniform7(any::<u64>()),
        group in (0_u32..5, 1_u32..5),
    ) {
        let (prefill_layers, layers) = (group.0.min(group.1), group.1);
        let shape = |p: [u64; 7]| StepShape {
            decode_requests: p[0],
            decode_kv: p[1],
            prefill_tokens: p[2],
            prefill_requests: p[3],
            prefill_kv: p[4],
            prefill_pairs: p[5],
            sampled: p[6],
            prefill_layers,
            layers,
            ..StepShape::default()
        };
        let mut larger = parts;
        for (part, add) in larger.iter_mut().zip(more) {
            *part = part.saturating_add(add);
        }
        let (small, large) = (cost.step(&shape(parts)), cost.step(&shape(larger)));
        prop_assert!(small <= large && large <= HORIZON);
    }
}
