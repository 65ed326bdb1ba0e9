//! Time integrals and counts of one instance, all exact integers.

use serde::{Serialize, Serializer};

use crate::cost::{Axis, Extrapolation, Moved};
use crate::time::Ticks;

/// What one instance did over the replay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct InstanceStats {
    /// Blocks it has.
    pub blocks: u64,
    /// Tokens in a block.
    pub block_tokens: u32,
    /// Steps it took.
    pub steps: u64,
    /// Time in which a step ran.
    pub busy_ticks: u64,
    /// Tokens computed by decoding requests.
    pub decode_tokens: u64,
    /// Tokens computed by prefills, recomputation included.
    pub prefill_tokens: u64,
    /// Preemptions, by recompute and by swap.
    pub preemptions: u64,
    /// Blocks copied out to the CPU's memory.
    pub swapped_out_blocks: u64,
    /// Blocks copied back.
    pub swapped_in_blocks: u64,
    /// Swaps that the CPU's memory had no room for, done by recompute.
    pub swap_overflows: u64,
    /// Requests that left for another instance.
    pub sent: u64,
    /// Requests that came from another instance.
    pub landed: u64,
    /// Tokens for which the prefix cache was asked, once an admission.
    pub prefix_queries: u64,
    /// Tokens of those that it had.
    pub prefix_hits: u64,
    /// Known blocks that were lost to reuse.
    pub evictions: u64,
    /// Requests that finished.
    pub finished: u64,
    /// The most requests admitted at once.
    pub peak_running: u64,
    /// The most requests waiting at once.
    pub peak_waiting: u64,
    /// The most blocks held at once.
    pub peak_blocks: u64,
    /// Steps whose cost lies past what was measured.
    pub extrapolated: Extrapolated,
    /// Integral of the running requests over time.
    pub running_ticks: u128,
    /// Integral of the waiting requests over time.
    pub waiting_ticks: u128,
    /// Integral of the tokens held in the cache over time.
    pub kv_token_ticks: u128,
    /// What it moved and computed, where the configuration says how to count.
    pub traffic: Option<Moved>,
    #[serde(skip)]
    waiting_since: Ticks,
}

/// Steps past the end of what was measured, by axis.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extrapolated([u64; Axis::ALL.len()]);

impl Extrapolated {
    /// Counts `steps` steps.
    #[inline]
    pub(crate) fn add(&mut self, beyond: Extrapolation, steps: u64) {
        if beyond == Extrapolation::default() {
            return;
        }
        for (count, axis) in self.0.iter_mut().zip(Axis::ALL) {
            *count += if beyond.has(axis) { steps } else { 0 };
        }
    }
}

impl Serialize for Extrapolated {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let held = Axis::ALL.iter().zip(self.0).filter(|(_, steps)| *steps > 0);
        serializer.collect_map(held.map(|(axis, steps)| (axis.name(), steps)))
    }
}

impl InstanceStats {
    pub(crate) fn new(blocks: u64, block_tokens: u32) -> Self {
        Self { blocks, block_tokens, ..Self::default() }
    }

    /// Accounts for `waiting` requests having waited since the last call.
    #[inline]
    pub(crate) fn waited(&mut self, waiting: u64, now: Ticks) {
        self.waiting_ticks += u128::from(waiting) * u128::from(now - self.waiting_since);
        self.waiting_since = now;
        self.peak_waiting = self.peak_waiting.max(waiting);
    }
}
