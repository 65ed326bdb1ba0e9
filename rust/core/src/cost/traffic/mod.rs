//! The bytes and operations of steps, apart from the time that they take.
//!
//! The bytes and FLOPs of a step are sums of few terms: its tokens, their contexts, its (query, key) pairs and its
//! sampled rows, each times a coefficient, and the weights, which are read once. So an instance sums the terms
//! ([`Work`]) over its steps, and the coefficients here are applied once, at the end, to exact sums. The bytes of a
//! replay are whole numbers, the same with and without leaping. Only the experts to which a batch is routed and the
//! windows of sliding attention are no such sums; those are looked up step by step.
//!
//! Coefficients are those of a whole instance: over all layers and all ranks. If a group of layers runs the prefills of a
//! step, layers count as equal, as they do for the time.

use serde::{Deserialize, Serialize};

use super::points::between;
use crate::time::Ticks;

mod work;

pub use work::{Prefilled, Work};

/// Fractional bits of [`ExpertLoads::loads`].
pub const LOAD_FRACTION_BITS: u32 = 20;

/// Bytes and FLOPs of the parts that steps are made of.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Bytes of weights that all layers read once a step, routed experts apart.
    pub weights: u64,
    /// Bytes of the LM head, read where a row is sampled.
    pub head: u64,
    /// The experts that tokens are routed to.
    pub experts: Option<ExpertLoads>,
    /// A token that decodes.
    pub decode: PerToken,
    /// A token in prefill.
    pub prefill: PerToken,
    /// A row that is sampled.
    pub row: PerRow,
    /// Attention in layers that see a window.
    pub windows: Option<Windows>,
    /// Bytes of the states of a request, which each of its steps reads and writes; 0 without such layers.
    #[serde(default)]
    pub state: u64,
    /// The energy of all that, if it is known.
    pub power: Option<Power>,
}

/// The routed experts that steps read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpertLoads {
    /// Bytes of one expert in every layer that has experts.
    pub bytes: u64,
    /// Tokens and the experts of a layer that they are routed to, in units of
    /// 2^-[`LOAD_FRACTION_BITS`], by rising tokens. What lies between points is
    /// on straight lines; past the last one it stays.
    pub loads: Vec<(u64, u64)>,
}

/// The work that one token adds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerToken {
    /// Bytes of activations read and written.
    pub activations: u64,
    /// Bytes written to the cache.
    pub kv_written: u64,
    /// FLOPs of its matrix multiplications, routed experts among them.
    pub flops: u64,
    /// Bytes that ranks send one another.
    pub link: u64,
    /// Attention, in layers that see whole contexts.
    pub attention: Attended,
}

/// The work that attention adds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attended {
    /// Bytes read of each token of context.
    pub context: u64,
    /// FLOPs of each (query, key) pair.
    pub pair: u64,
}

/// The work that one sampled row adds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerRow {
    /// Bytes of activations and logits read and written.
    pub activations: u64,
    /// FLOPs of the LM head.
    pub flops: u64,
    /// Bytes that ranks send one another.
    pub link: u64,
}

/// Attention of layers that see the last `tokens` of a context and no more, with
/// the bounds that the roofline has for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Windows {
    /// Tokens that a query sees, its own among them.
    pub tokens: u64,
    /// Of decoding requests.
    pub decode: Attended,
    /// Of requests in prefill.
    pub prefill: Attended,
}

/// Energy, in units that keep it whole: microwatts over picoseconds, like
/// everything else here, come to attojoules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// Microwatts of the instance, whatever it does.
    pub idle_uw: u64,
    /// Microwatts besides, while a step runs.
    pub busy_uw: u64,
    /// Attojoules of a byte from or to the GPU's memory.
    pub hbm_byte_aj: u64,
    /// Attojoules of a FLOP.
    pub flop_aj: u64,
    /// Attojoules of a byte between ranks.
    pub link_byte_aj: u64,
}

/// The bytes and operations of an instance over the replay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// Bytes of weights read, routed experts apart.
    pub weight_bytes: u128,
    /// Bytes of routed experts read.
    pub expert_bytes: u128,
    /// Bytes of keys, values and states read.
    pub kv_read_bytes: u128,
    /// Bytes of keys, values and states written.
    pub kv_written_bytes: u128,
    /// Bytes of activations read and written.
    pub activation_bytes: u128,
    /// Bytes of the cache copied to and from the CPU's memory.
    pub swap_bytes: u128,
    /// Floating-point operations.
    pub flops: u128,
    /// Bytes that ranks sent one another.
    pub link_bytes: u128,
    /// Attojoules of all those, and of the time in which steps ran; none where
    /// that is not known.
    pub work_aj: Option<u128>,
    /// Microwatts that come on top for as long as the replay lasts.
    pub idle_uw: Option<u64>,
}

impl Traffic {
    /// Experts of a layer that `tokens` tokens are routed to, in units of
    /// 2^-[`LOAD_FRACTION_BITS`].
    pub fn loads(&self, tokens: u64) -> u64 {
        match &self.experts {
            Some(experts) if tokens > 0 => between(&experts.loads, tokens),
            _ => 0,
        }
    }

    /// Bytes and FLOPs of all that was done. `swapped`: tokens' worth of blocks
    /// copied to and from the CPU's memory; `busy`: time in which steps ran.
    /// Anything that is not a whole number is rounded down once, here.
    pub fn of(&self, work: &Work, swapped: u64, busy: Ticks) -> Moved {
        let (decode, prefill) = (&self.decode, &self.prefill);
        // What a part of the layers did is a part of what all do.
        let share = |sum: u128| sum / u128::from(work.depth());
        let times = |count: u128, coefficient: u64| count.saturating_mul(u128::from(coefficient));
        let tokens = |decodes: u64, prefills: u64| {
            times(u128::from(work.decode_tokens), decodes)
                .saturating_add(share(times(work.prefill.tokens, prefills)))
        };
        let expert = self.experts.as_ref().map_or(0, |experts| experts.bytes);
        let windows = self.windows.unwrap_or(Windows {
            tokens: 0,
            decode: Attended::default(),
            prefill: Attended::default(),
        });
        let states = times(u128::from(work.decode_tokens), self.state)
            .saturating_add(share(times(work.prefill.requests, self.state)));
        let moved = Moved {
            weight_bytes: share(times(u128::from(work.layer_steps), self.weights))
                .saturating_add(times(u128::from(work.head_steps), self.head)),
            expert_bytes: share(times(work.expert_loads, expert)) >> LOAD_FRACTION_BITS,
            kv_read_bytes: times(work.decode_context, decode.attention.context)
                .saturating_add(times(work.decode_seen, windows.decode.context))
                .saturating_add(share(times(work.prefill.context, prefill.attention.context)))
                .saturating_add(share(times(work.prefill.seen_context, windows.prefill.context)))
                .saturating_add(states),
            kv_written_bytes: tokens(decode.kv_written, prefill.kv_written).saturating_add(states),
            activation_bytes: tokens(decode.activations, prefill.activations)
                .saturating_add(times(u128::from(work.rows), self.row.activations)),
            swap_bytes: times(u128::from(swapped), prefill.kv_written),
            flops: tokens(decode.flops, prefill.flops)
                .saturating_add(times(u128::from(work.rows), self.row.flops))
                .saturating_add(times(work.decode_context, decode.attention.pair))
                .saturating_add(times(work.decode_seen, windows.decode.pair))
                .saturating_add(share(times(work.prefill.pairs, prefill.attention.pair)))
                .saturating_add(share(times(work.prefill.seen_pairs, windows.prefill.pair))),
            link_bytes: tokens(decode.link, prefill.link)
                .saturating_add(times(u128::from(work.rows), self.row.link)),
            work_aj: None,
            idle_uw: None,
        };
        match &self.power {
            None => moved,
            Some(power) => {
                Moved { work_aj: Some(power.of(&moved, busy)), idle_uw: Some(power.idle_uw), ..moved }
            }
        }
    }
}

impl Moved {
    /// Bytes from and to the GPUs' memory.
    pub fn hbm_bytes(&self) -> u128 {
        self.weight_bytes
            .saturating_add(self.expert_bytes)
            .saturating_add(self.kv_read_bytes)
            .saturating_add(self.kv_written_bytes)
            .saturating_add(self.activation_bytes)
            .saturating_add(self.swap_bytes)
    }
}

impl Power {
    /// Attojoules of what was moved and computed, and of `busy` ticks in which steps ran.
    fn of(&self, moved: &Moved, busy: Ticks) -> u128 {
        let times = |count: u128, coefficient: u64| count.saturating_mul(u128::from(coefficient));
        times(u128::from(busy), self.busy_uw)
            .saturating_add(times(moved.hbm_bytes(), self.hbm_byte_aj))
            .saturating_add(times(moved.flops, self.flop_aj))
            .saturating_add(times(moved.link_bytes, self.link_byte_aj))
    }
}

#[cfg(test)]
mod tests;
