//! Counters and time integrals of one instance: exact integers.

use serde::{Deserialize, Serialize, Serializer};

use crate::checkpoint::{Checkpointed, Reader, Writer};
use crate::cost::{Axis, Extrapolation, Moved};
use crate::error::Error;
use crate::time::Ticks;

/// The counters of one instance over the replay: the result has them side by side.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct InstanceStats {
    /// Its steps.
    #[serde(flatten)]
    pub work: WorkStats,
    /// Its requests, by what happened to them.
    #[serde(flatten)]
    pub requests: RequestStats,
    /// The requests on it, and their KV, over time.
    #[serde(flatten)]
    pub occupancy: Occupancy,
    /// Its blocks.
    #[serde(flatten)]
    pub memory: MemoryStats,
    /// Its prefix cache.
    #[serde(flatten)]
    pub prefixes: PrefixStats,
    /// Bytes and FLOPs, if the configuration says how to count them.
    pub traffic: Option<Moved>,
    /// Drafts, where tokens are drafted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drafts: Option<Drafts>,
    /// The chunks in the host's memory, if it keeps any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<TierStats>,
    /// Its copies to a store below the host's memory and back, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<StoreCopies>,
}

crate::checkpoint::checkpointed!(InstanceStats {
    values: memory, prefixes, traffic, drafts, tier, store;
    parts: work, requests, occupancy;
});

/// The steps of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WorkStats {
    /// Steps that ended.
    pub steps: u64,
    /// Ticks during which a step ran.
    pub busy_ticks: u64,
    /// Tokens computed by decoding requests.
    pub decode_tokens: u64,
    /// Tokens computed by prefills, including recomputation.
    pub prefill_tokens: u64,
    /// Tokens computed of requests that had ended before, in steps that were decided ahead.
    pub discarded_tokens: u64,
    /// Steps whose cost was extrapolated beyond the measurements.
    pub extrapolated: Extrapolated,
}

crate::checkpoint::checkpointed!(WorkStats {
    values: steps, busy_ticks, decode_tokens, prefill_tokens, discarded_tokens;
    parts: extrapolated;
});

/// The requests of an instance, by what happened to them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RequestStats {
    /// Preemptions, by recompute and by swap.
    pub preemptions: u64,
    /// Requests that finished.
    pub finished: u64,
    /// Requests that left as their clients had cancelled them.
    #[serde(skip_serializing_if = "is_zero")]
    pub cancelled: u64,
    /// Requests that were dropped, as they could never be admitted again.
    #[serde(skip)]
    pub dropped: u64,
    /// Requests that migrated to another instance.
    pub sent: u64,
    /// Requests that migrated from another instance.
    pub landed: u64,
    /// Requests whose KV was given up, as they were not accepted in time after they were handed over.
    pub expired_offers: u64,
}

crate::checkpoint::checkpointed!(RequestStats {
    values: preemptions, finished, cancelled, dropped, sent, landed, expired_offers;
});

/// The requests on an instance and the tokens in its KV cache: the most of them, and integrals over time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Occupancy {
    /// The most requests running at once.
    pub peak_running: u64,
    /// The most requests waiting at once.
    pub peak_waiting: u64,
    /// The time integral of the running requests.
    pub running_ticks: u128,
    /// The time integral of the waiting requests.
    pub waiting_ticks: u128,
    /// The time integral of the tokens in the KV cache.
    pub kv_token_ticks: u128,
    /// Up to when `waiting_ticks` is counted.
    #[serde(skip)]
    waiting_since: Ticks,
}

crate::checkpoint::checkpointed!(Occupancy {
    values: peak_running, peak_waiting, running_ticks, waiting_ticks, kv_token_ticks, waiting_since;
});

/// The blocks of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStats {
    /// KV blocks of the instance.
    pub blocks: u64,
    /// Tokens in a block.
    pub block_tokens: u32,
    /// The most blocks allocated at once.
    pub peak_blocks: u64,
    /// Blocks swapped out.
    pub swapped_out_blocks: u64,
    /// Blocks swapped in.
    pub swapped_in_blocks: u64,
    /// Preemptions by recompute because the swap space was full.
    pub swap_overflows: u64,
}

/// The prefix cache of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefixStats {
    /// Tokens looked up, once an admission.
    #[serde(rename = "prefix_queries")]
    pub queries: u64,
    /// Tokens of those that were found.
    #[serde(rename = "prefix_hits")]
    pub hits: u64,
    /// Blocks whose known content was lost when they were reused.
    pub evictions: u64,
}

/// Drafts of an instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drafts {
    /// Steps of requests that verified drafts.
    pub verifications: u64,
    /// Drafts that were proposed.
    pub proposed: u64,
    /// Drafts that were computed, paddings included.
    pub computed: u64,
    /// Drafts that were accepted.
    pub accepted: u64,
    /// Of the accepted ones and the tokens after them, those past the last token of a request.
    pub trimmed: u64,
}

/// The chunks that an instance keeps in the host's memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierStats {
    /// Chunks that fit.
    pub capacity: u64,
    /// The most chunks in it at once.
    pub peak_chunks: u64,
    /// Blocks copied to it.
    pub stored_blocks: u64,
    /// Blocks copied back.
    pub loaded_blocks: u64,
    /// Loads of all tokens of a request, which computes the last one again.
    pub whole_loads: u64,
    /// Blocks evicted.
    pub evicted_blocks: u64,
    /// Stores that lacked room; a request tries again at its next step.
    pub refused_stores: u64,
}

/// The copies of one instance between its tier and the store below that.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreCopies {
    /// The number of the store.
    pub store: u32,
    /// Blocks copied to the store.
    pub written_blocks: u64,
    /// Blocks copied back to the tier.
    pub read_blocks: u64,
    /// Chunks that the store had and that were not read, as the tier had no room.
    pub refused_reads: u64,
}

/// A store of chunks below the host's memory, over all instances that have it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StoreStats {
    /// Chunks that fit; `None`: any number.
    pub capacity: Option<u64>,
    /// Chunks in it as the replay ended.
    pub chunks: u64,
    /// The most chunks in it at once.
    pub peak_chunks: u64,
    /// Blocks copied to it.
    pub written_blocks: u64,
    /// Blocks copied from it.
    pub read_blocks: u64,
    /// Chunks that were evicted.
    pub evicted_chunks: u64,
    /// Chunks that it did not take for want of room.
    pub refused_chunks: u64,
}

/// Whether a counter is 0.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Steps whose cost was extrapolated, by the axis that ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extrapolated([u64; Axis::ALL.len()]);

impl Extrapolated {
    /// Counts `steps` steps.
    pub(crate) fn add(&mut self, beyond: Extrapolation, steps: u64) {
        if beyond != Extrapolation::default() {
            self.add_beyond(beyond, steps);
        }
    }

    /// As [`Self::add`], of steps whose time is extrapolated.
    #[cold]
    #[inline(never)]
    fn add_beyond(&mut self, beyond: Extrapolation, steps: u64) {
        for (count, axis) in self.0.iter_mut().zip(Axis::ALL) {
            *count += if beyond.has(axis) { steps } else { 0 };
        }
    }
}

impl Checkpointed for Extrapolated {
    fn save(&self, to: &mut Writer) -> Result<(), Error> {
        to.value(&self.0)
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Error> {
        self.0 = from.value()?;
        Ok(())
    }
}

impl Serialize for Extrapolated {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let held = Axis::ALL.iter().zip(self.0).filter(|(_, steps)| *steps > 0);
        serializer.collect_map(held.map(|(axis, steps)| (axis.name(), steps)))
    }
}

impl InstanceStats {
    /// The counters of an instance without steps.
    pub(crate) fn new(blocks: u64, block_tokens: u32) -> Self {
        Self { memory: MemoryStats { blocks, block_tokens, ..MemoryStats::default() }, ..Self::default() }
    }

    /// Counts what became of the drafts of a request in a step, of which it yielded `yielded` tokens.
    pub(crate) fn count_drafts(&mut self, computed: u32, accepted: u32, yielded: u32) {
        self.work.decode_tokens += u64::from(yielded - 1);
        self.add_drafts(&Drafts {
            verifications: u64::from(computed > 0),
            proposed: 0,
            computed: u64::from(computed),
            accepted: u64::from(accepted),
            trimmed: u64::from(accepted + 1 - yielded),
        });
    }

    /// Adds drafts of several requests.
    pub(crate) fn add_drafts(&mut self, more: &Drafts) {
        let drafts = self.drafts.get_or_insert_default();
        drafts.verifications += more.verifications;
        drafts.proposed += more.proposed;
        drafts.computed += more.computed;
        drafts.accepted += more.accepted;
        drafts.trimmed += more.trimmed;
    }

    /// Counts drafts that were proposed for a request.
    pub(crate) fn count_proposal(&mut self, drafts: u32) {
        self.drafts.get_or_insert_default().proposed += u64::from(drafts);
    }
}

impl Occupancy {
    /// Notes how many requests run in the step that starts.
    pub(crate) fn note_running(&mut self, running: u64) {
        self.peak_running = self.peak_running.max(running);
    }

    /// Notes how many requests wait.
    pub(crate) fn note_waiting(&mut self, waiting: u64) {
        self.peak_waiting = self.peak_waiting.max(waiting);
    }

    /// Adds time in which `running` requests were admitted, with `tokens` tokens of KV.
    pub(crate) fn count_running(&mut self, ticks: Ticks, running: u64, tokens: u64) {
        self.running_ticks += u128::from(ticks) * u128::from(running);
        self.kv_token_ticks += u128::from(ticks) * u128::from(tokens);
    }

    /// Adds the time since the last call, during which `waiting` requests waited.
    pub(crate) fn count_waiting(&mut self, waiting: u64, now: Ticks) {
        self.waiting_ticks += u128::from(waiting) * u128::from(now - self.waiting_since);
        self.waiting_since = now;
        self.note_waiting(waiting);
    }
}
