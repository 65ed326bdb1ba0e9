//! A step as a sum of kernels, each bound by memory or by arithmetic.
//!
//! What is modelled, on each rank of a dense decoder under tensor parallelism:
//!
//! - the *matrix multiplications* (`linears`), each on its own: reading its
//!   weights and its tokens' activations against multiplying them;
//! - *attention*, as one kernel for the decoding requests and one for those in
//!   prefill. Engines launch either one kernel over both or two; either way a
//!   thread block works for one request, and blocks that wait for memory do not
//!   lend their arithmetic to the others to speak of, so the two add up
//!   (POD-Attention, Kamath et al., ASPLOS 2025, is about that gap);
//! - the *LM head* over the rows that are sampled;
//! - *all-reduce*, as the cheapest of several straight lines in the tokens:
//!   one-shot while small, a ring when large;
//! - what is paid per step, per token, per scheduled request and per sampled
//!   row, whatever the kernels do.
//!
//! Not modelled: wave and tile quantisation, uneven context lengths inside a
//! decode batch, the serial walk over a long context that a very short prefill
//! chunk is bound by. Experts, sliding windows and pipeline stages will be
//! kernels beside these, traffic and energy a second reading of the same list.
//!
//! Python reduces model, GPU and efficiencies to the coefficients below, summed
//! over layers. They are whole ticks, except [`PrefillAttention::pair_flops`],
//! where a tick is too coarse; that one never takes part in a run. Within a run
//! only the decode context grows, and by whole ticks, so a run is exact. The
//! sums saturate at [`HORIZON`](crate::time::HORIZON).

use serde::Deserialize;

use super::affine::series;
use super::{Run, StepShape};
use crate::time::{HORIZON, Ticks};

/// Fractional bits of [`PrefillAttention::pair_flops`].
pub const PAIR_FRACTION_BITS: u32 = 20;

/// Coefficients of one model on one kind of rank.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Roofline {
    /// Ticks of any step: launches, sampling, what the engine cannot hide.
    pub step: Ticks,
    /// Ticks for each token: norms, rotary embedding, activation function,
    /// embedding.
    pub token: Ticks,
    /// Ticks for each scheduled request, decoding or in prefill.
    pub request: Ticks,
    /// Ticks for each sampled row: gathering its logits and sampling.
    pub row: Ticks,
    /// The matrix multiplications that every token passes.
    pub linears: Vec<Linear>,
    /// The one that only sampled rows pass.
    pub lm_head: Linear,
    /// Attention of the decoding requests.
    pub decode_attention: DecodeAttention,
    /// Attention of the requests in prefill.
    pub prefill_attention: PrefillAttention,
    /// Alternatives for all of a step's reductions; the cheapest is taken.
    /// Empty on a single rank.
    pub all_reduce: Vec<Line>,
}

/// A matrix multiplication: `max(weights + token_bytes * n, token_flops * n)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Linear {
    /// Ticks to read the weights.
    pub weights: Ticks,
    /// Ticks to read and write one token's activations.
    pub token_bytes: Ticks,
    /// Ticks to multiply one token.
    pub token_flops: Ticks,
}

/// `max(request_bytes * requests + kv_bytes * context, kv_flops * context)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecodeAttention {
    /// Ticks to read a request's query, write its output and its new KV.
    pub request_bytes: Ticks,
    /// Ticks to read one token of context.
    pub kv_bytes: Ticks,
    /// Ticks to compute with one token of context.
    pub kv_flops: Ticks,
}

/// `max(token_bytes * tokens + kv_bytes * context, pair_flops * pairs)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefillAttention {
    /// Ticks to read a token's query, write its output and its KV.
    pub token_bytes: Ticks,
    /// Ticks to read one token of context, once per request.
    pub kv_bytes: Ticks,
    /// Ticks to compute one (query, key) pair, in units of
    /// 2^-[`PAIR_FRACTION_BITS`] ticks; a step's total is rounded down.
    pub pair_flops: u64,
}

/// `fixed + token * n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Ticks however small the message.
    pub fixed: Ticks,
    /// Ticks for each token.
    pub token: Ticks,
}

impl Line {
    #[inline]
    fn at(self, n: u64) -> Ticks {
        self.fixed.saturating_add(self.token.saturating_mul(n))
    }
}

impl Linear {
    #[inline]
    fn at(self, n: u64) -> Ticks {
        if n == 0 {
            return 0;
        }
        self.weights
            .saturating_add(self.token_bytes.saturating_mul(n))
            .max(self.token_flops.saturating_mul(n))
    }
}

impl DecodeAttention {
    #[inline]
    fn memory(self, shape: &StepShape) -> Ticks {
        self.request_bytes
            .saturating_mul(shape.decode_requests)
            .saturating_add(self.kv_bytes.saturating_mul(shape.decode_kv))
    }

    #[inline]
    fn compute(self, shape: &StepShape) -> Ticks {
        self.kv_flops.saturating_mul(shape.decode_kv)
    }

    /// Ticks that each further token of context adds, and for how many steps
    /// that side of the maximum stays the greater one.
    #[inline]
    fn growth(self, shape: &StepShape) -> (Ticks, u64) {
        let (memory, compute) = (self.memory(shape), self.compute(shape));
        let memory_leads = (memory, self.kv_bytes) >= (compute, self.kv_flops);
        let (ahead, behind, lead) = if memory_leads {
            (self.kv_bytes, self.kv_flops, memory - compute)
        } else {
            (self.kv_flops, self.kv_bytes, compute - memory)
        };
        // The one behind draws level after lead / closing steps, and the two
        // are still equal there.
        let closing = behind.saturating_sub(ahead).saturating_mul(shape.decode_requests);
        let steps = lead.checked_div(closing).map_or(u64::MAX, |steps| steps.saturating_add(1));
        (ahead, steps)
    }
}

impl PrefillAttention {
    #[inline]
    fn at(self, shape: &StepShape) -> Ticks {
        let memory = self
            .token_bytes
            .saturating_mul(shape.prefill_tokens)
            .saturating_add(self.kv_bytes.saturating_mul(shape.prefill_kv));
        let fine = u128::from(self.pair_flops) * u128::from(shape.prefill_pairs);
        let compute = u64::try_from(fine >> PAIR_FRACTION_BITS).unwrap_or(u64::MAX);
        memory.max(compute)
    }
}

impl Roofline {
    /// Ticks that a step of this shape takes.
    #[inline]
    pub fn step(&self, shape: &StepShape) -> Ticks {
        let attention = self.decode_attention.memory(shape).max(self.decode_attention.compute(shape));
        let prefill = if shape.prefill_tokens == 0 { 0 } else { self.prefill_attention.at(shape) };
        self.rest(shape).saturating_add(attention).saturating_add(prefill).min(HORIZON)
    }

    /// The run of pure-decode steps that starts with `shape`, up to the step
    /// where attention stops being bound by what binds it now.
    #[inline]
    pub fn run(&self, shape: &StepShape) -> Run {
        let (kv_token, steps) = self.decode_attention.growth(shape);
        series(self.step(shape), kv_token.checked_mul(shape.decode_requests), steps)
    }

    /// All but attention: what a step costs whatever its context.
    #[inline]
    fn rest(&self, shape: &StepShape) -> Ticks {
        let tokens = shape.decode_requests.saturating_add(shape.prefill_tokens);
        let requests = shape.decode_requests.saturating_add(shape.prefill_requests);
        let linears = self.linears.iter().fold(0_u64, |sum, linear| sum.saturating_add(linear.at(tokens)));
        let reduce = self.all_reduce.iter().map(|line| line.at(tokens)).min().unwrap_or(0);
        self.step
            .saturating_add(self.token.saturating_mul(tokens))
            .saturating_add(self.request.saturating_mul(requests))
            .saturating_add(self.row.saturating_mul(shape.sampled))
            .saturating_add(linears)
            .saturating_add(self.lm_head.at(shape.sampled))
            .saturating_add(reduce)
    }
}

#[cfg(test)]
mod tests {
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
            all_reduce: Vec::new(),
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
        let cost = Roofline {
            all_reduce: vec![Line { fixed: 10, token: 5 }, Line { fixed: 40, token: 1 }],
            ..free()
        };
        assert_eq!(cost.step(&decode(1, 1)), 15);
        assert_eq!(cost.step(&decode(100, 100)), 140);
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
        let run = cost.run(&decode(2, 20));
        assert_eq!(run, Run { first: 1_220, slope: 2, steps: 41 });
        let next = cost.run(&decode(2, 20 + 2 * 41));
        assert_eq!((next.first, next.slope), (1_306, 6));
    }

    #[test]
    fn at_the_crossing_itself_the_steeper_side_leads() {
        let cost = Roofline {
            decode_attention: DecodeAttention { request_bytes: 10, kv_bytes: 1, kv_flops: 2 },
            ..free()
        };
        let run = cost.run(&decode(1, 10));
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
        assert_eq!(cost.run(&shape), Run { first: HORIZON, slope: 0, steps: 1 });
    }
}

#[cfg(test)]
mod property_tests {
    use proptest::prelude::*;

    use super::*;

    fn linear() -> impl Strategy<Value = Linear> {
        (0_u64..1 << 40, 0_u64..1 << 24, 0_u64..1 << 24)
            .prop_map(|(weights, token_bytes, token_flops)| Linear { weights, token_bytes, token_flops })
    }

    prop_compose! {
        fn roofline()(
            fixed in (0_u64..1 << 40, 0_u64..1 << 20, 0_u64..1 << 30, 0_u64..1 << 24),
            linears in prop::collection::vec(linear(), 0..6),
            lm_head in linear(),
            decode in (0_u64..1 << 34, 0_u64..1 << 17, 0_u64..1 << 17),
            prefill in (0_u64..1 << 20, 0_u64..1 << 17, 0_u64..1 << 30),
            lines in prop::collection::vec((0_u64..1 << 40, 0_u64..1 << 24), 0..3),
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
                all_reduce: lines.into_iter().map(|(fixed, token)| Line { fixed, token }).collect(),
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
            let run = cost.run(&at(0));
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

        /// Following run after run costs what following step after step does.
        #[test]
        fn runs_add_up_to_steps(
            cost in roofline(),
            requests in 1_u64..50,
            context in 0_u64..5_000,
            steps in 1_u64..400,
        ) {
            let at = |i: u64| decode(requests, requests + context + i * requests);
            let stepped: u64 = (0..steps).map(|i| cost.step(&at(i))).sum();
            let (mut done, mut leapt) = (0, 0);
            while done < steps {
                let run = cost.run(&at(done));
                let k = run.steps.min(steps - done);
                leapt += run.first * k + run.slope * (k * (k - 1) / 2);
                done += k;
            }
            prop_assert_eq!(leapt, stepped);
        }

        /// No shape and no coefficients overflow, and more work never takes less.
        #[test]
        fn grows_with_every_part_of_a_shape(
            cost in roofline(),
            parts in prop::array::uniform7(any::<u64>()),
            more in prop::array::uniform7(any::<u64>()),
        ) {
            let shape = |p: [u64; 7]| StepShape {
                decode_requests: p[0],
                decode_kv: p[1],
                prefill_tokens: p[2],
                prefill_requests: p[3],
                prefill_kv: p[4],
                prefill_pairs: p[5],
                sampled: p[6],
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
}
