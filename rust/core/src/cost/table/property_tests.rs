//! Runs against steps, on random tables.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn axis(first: u64, most: usize) -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(1_u64..200, 1..most).prop_map(move |gaps| {
        gaps.iter()
            .scan(first, |at, gap| {
                *at += gap;
                Some(*at)
            })
            .collect()
    })
}

fn kernel() -> impl Strategy<Value = Value> {
    (axis(0, 3), axis(0, 3), axis(0, 4), axis(0, 6)).prop_flat_map(|(tokens, history, requests, context)| {
        let points = tokens.len() * history.len() * requests.len() * context.len();
        prop::collection::vec(0_i64..1 << 40, points).prop_map(move |ticks| {
            json!({"tokens": tokens, "history": history, "requests": requests, "context": context,
                "ticks": ticks})
        })
    })
}

fn curve() -> impl Strategy<Value = Value> {
    axis(0, 5).prop_flat_map(|at| {
        prop::collection::vec(0_i64..1 << 40, at.len())
            .prop_map(move |ticks| json!({"at": at, "ticks": ticks}))
    })
}

fn skew() -> impl Strategy<Value = Value> {
    (axis(0, 3), axis(0, 3), 1_usize..40).prop_flat_map(|(mut tokens, requests, cells)| {
        tokens.insert(0, 0);
        prop::collection::vec(-2_000_000_i64..5_000_000, tokens.len() * requests.len() * cells).prop_map(
            move |alpha| json!({"tokens": tokens, "requests": requests, "cells": cells, "alpha": alpha}),
        )
    })
}

prop_compose! {
    fn table()(
        step in 0_u64..1 << 40,
        tokens in curve(),
        rows in curve(),
        decode in kernel(),
        prefill in kernel(),
        mixed in kernel(),
        skew in prop::option::of(skew()),
    ) -> Table {
        serde_json::from_value(json!({"step": step, "tokens": tokens, "rows": rows, "decode": decode,
            "prefill": prefill, "mixed": mixed, "skew": skew})).unwrap()
    }
}

fn decode(contexts: &[u64], i: u64) -> StepShape {
    let requests = contexts.len() as u64;
    StepShape {
        decode_requests: requests,
        decode_kv: contexts.iter().sum::<u64>() + requests * i,
        decode_max_kv: contexts.iter().max().unwrap() + i,
        sampled: requests,
        ..StepShape::default()
    }
}

proptest! {
    /// Every step of a run costs what the run says, and lies as far past the
    /// tables as its first.
    #[test]
    fn a_run_is_exact(cost in table(), contexts in prop::collection::vec(1_u64..900, 1..40)) {
        let run = cost.run(&decode(&contexts, 0), u64::MAX);
        prop_assert!(run.steps >= 1);
        let beyond = cost.extrapolation(&decode(&contexts, 0));
        for i in (0..run.steps.min(400)).chain([run.steps - 1]) {
            if i < 1 << 40 {
                let shape = decode(&contexts, i);
                prop_assert_eq!(cost.step(&shape), run.first + i * run.slope);
                prop_assert_eq!(cost.extrapolation(&shape), beyond);
            }
        }
    }

    /// A step costs the same in whichever run it is.
    #[test]
    fn runs_add_up_to_steps(
        cost in table(),
        contexts in prop::collection::vec(1_u64..900, 1..40),
        steps in 1_u64..300,
    ) {
        let stepped: u64 = (0..steps).map(|i| cost.step(&decode(&contexts, i))).sum();
        let (mut done, mut leapt) = (0, 0);
        while done < steps {
            let run = cost.run(&decode(&contexts, done), u64::MAX);
            let k = run.steps.min(steps - done);
            leapt += run.first * k + run.slope * (k * (k - 1) / 2);
            done += k;
        }
        prop_assert_eq!(leapt, stepped);
    }

    /// No shape overflows.
    #[test]
    fn any_shape_has_a_cost(cost in table(), parts in prop::array::uniform8(any::<u64>())) {
        let shape = StepShape {
            decode_requests: parts[0],
            decode_kv: parts[1],
            decode_max_kv: parts[2],
            prefill_tokens: parts[3],
            prefill_requests: parts[4],
            prefill_kv: parts[5],
            prefill_pairs: parts[6],
            sampled: parts[7],
            ..StepShape::default()
        };
        prop_assert!(cost.step(&shape) <= HORIZON);
        let _ = cost.extrapolation(&shape);
        let pure = StepShape { prefill_tokens: 0, prefill_requests: 0, prefill_pairs: 0, ..shape };
        let run = cost.run(&pure, u64::MAX);
        prop_assert_eq!(run.first, cost.step(&pure));
    }
}
