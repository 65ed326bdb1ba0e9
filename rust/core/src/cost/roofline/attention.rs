//! Attention, over whole contexts and over sliding windows.

use serde::Deserialize;

use super::super::StepShape;
use crate::hint::rare;
use crate::time::Ticks;

/// Fractional bits of [`PrefillAttention::pair_flops`].
pub const PAIR_FRACTION_BITS: u32 = 20;

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

/// Attention of layers that see the last `tokens` of a context and no more.
///
/// A step's shape has sums over requests, so what lies inside the windows is
/// bounded: `min(context, tokens * requests)`. That is exact where all contexts
/// are on the same side of the window, and above the truth where some are
/// shorter and others longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowedAttention {
    /// Tokens that a query sees, its own among them.
    pub tokens: u64,
    /// Attention of the decoding requests in these layers.
    pub decode: DecodeAttention,
    /// Attention of the requests in prefill in these layers.
    pub prefill: PrefillAttention,
}

impl DecodeAttention {
    /// Ticks of this attention in a step.
    pub(super) fn at(self, shape: &StepShape) -> Ticks {
        self.memory(shape).max(self.compute(shape))
    }

    /// Ticks to read and write memory.
    fn memory(self, shape: &StepShape) -> Ticks {
        self.request_bytes
            .saturating_mul(shape.decode_requests)
            .saturating_add(self.kv_bytes.saturating_mul(shape.decode_kv))
    }

    /// Ticks to compute.
    fn compute(self, shape: &StepShape) -> Ticks {
        let compute = self.kv_flops.saturating_mul(shape.decode_kv);
        if shape.draft_tokens == 0 { compute } else { compute.saturating_add(of_drafts(compute, shape)) }
    }

    /// Ticks that each further token of context adds, and for how many steps
    /// that side of the maximum stays the greater one. Each request has as many drafts.
    pub(super) fn growth(self, shape: &StepShape) -> (Ticks, u64) {
        let (memory, compute) = (self.memory(shape), self.compute(shape));
        let mut kv_flops = self.kv_flops;
        if shape.draft_tokens > 0 {
            rare();
            kv_flops = kv_flops.saturating_mul(1 + shape.draft_tokens / shape.decode_requests.max(1));
        }
        let memory_leads = (memory, self.kv_bytes) >= (compute, kv_flops);
        let (ahead, behind, lead) = if memory_leads {
            (self.kv_bytes, kv_flops, memory - compute)
        } else {
            (kv_flops, self.kv_bytes, compute - memory)
        };
        // The one behind draws level after lead / closing steps, and the two
        // are still equal there.
        let closing = behind.saturating_sub(ahead).saturating_mul(shape.decode_requests);
        let steps = lead.checked_div(closing).map_or(u64::MAX, |steps| steps.saturating_add(1));
        (ahead, steps)
    }
}

/// Ticks to compute drafts: each attends to the context of its request, which is read once for all of them.
#[cold]
#[inline(never)]
fn of_drafts(compute: Ticks, shape: &StepShape) -> Ticks {
    let all = u128::from(compute) * u128::from(shape.draft_tokens);
    u64::try_from(all / u128::from(shape.decode_requests.max(1))).unwrap_or(u64::MAX)
}

impl PrefillAttention {
    /// Ticks of this attention in a step.
    pub(super) fn at(self, shape: &StepShape) -> Ticks {
        let memory = self
            .token_bytes
            .saturating_mul(shape.prefill_tokens)
            .saturating_add(self.kv_bytes.saturating_mul(shape.prefill_kv));
        let fine = u128::from(self.pair_flops) * u128::from(shape.prefill_pairs);
        let compute = u64::try_from(fine >> PAIR_FRACTION_BITS).unwrap_or(u64::MAX);
        memory.max(compute)
    }
}

impl WindowedAttention {
    /// The shape with contexts and pairs cut to what the windows can hold.
    fn seen(&self, shape: &StepShape) -> StepShape {
        let decodes = self.tokens.saturating_mul(shape.decode_requests);
        // A chunk's own tokens, and a window before the first of them.
        let chunks = self.tokens.saturating_mul(shape.prefill_requests).saturating_add(shape.prefill_tokens);
        let pairs = self.tokens.saturating_mul(shape.prefill_tokens);
        StepShape {
            decode_kv: shape.decode_kv.min(decodes),
            prefill_kv: shape.prefill_kv.min(chunks),
            prefill_pairs: shape.prefill_pairs.min(pairs),
            ..*shape
        }
    }

    /// Ticks of the decoding requests in a step.
    pub(super) fn decode(&self, shape: &StepShape) -> Ticks {
        self.decode.at(&self.seen(shape))
    }

    /// Ticks of the requests in prefill in a step.
    pub(super) fn prefill(&self, shape: &StepShape) -> Ticks {
        self.prefill.at(&self.seen(shape))
    }

    /// As [`DecodeAttention::growth`]: nothing once the windows are full, and
    /// until then no further than to where they are.
    pub(super) fn growth(&self, shape: &StepShape) -> (Ticks, u64) {
        let full = self.tokens.saturating_mul(shape.decode_requests);
        if shape.decode_kv >= full {
            return (0, u64::MAX);
        }
        let (kv_token, steps) = self.decode.growth(shape);
        // `full` is above 0, so there is a request.
        (kv_token, steps.min((full - shape.decode_kv) / shape.decode_requests + 1))
    }
}
