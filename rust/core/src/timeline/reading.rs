//! The reading of an instance at one moment.

use crate::time::Ticks;

/// A reading of one instance, after all events of a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// Its state at the moment.
    pub state: State,
    /// Its work from the start of the replay to the moment.
    pub sums: Sums,
}

/// The state of an instance at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct State {
    /// Running requests.
    pub running: u64,
    /// Queued requests: those that are not swapped out, and whose KV is not on its way here.
    pub waiting: u64,
    /// Swapped-out requests.
    pub swapped: u64,
    /// Requests that were handed over to it and whose KV has not been received.
    pub incoming: u64,
    /// KV blocks that requests hold.
    pub kv_used_blocks: u64,
    /// Free KV blocks whose content the prefix cache keeps.
    pub kv_cached_blocks: u64,
    /// KV blocks of requests that have left and whose KV has not been read.
    pub kv_sending_blocks: u64,
    /// KV blocks of accepted requests whose KV is on its way here.
    pub kv_receiving_blocks: u64,
    /// Tokens of KV in the memory of the GPU, as of the last finished step.
    pub kv_tokens: u64,
    /// Requests in the step in progress.
    pub batch_requests: u64,
    /// Tokens that the step in progress computes.
    pub batch_tokens: u64,
    /// Ticks that the step in progress takes.
    pub step_ticks: Ticks,
    /// The pool that it is in.
    pub role: u32,
}

/// The work of an instance from the start of the replay to a moment. Tokens, bytes and FLOPs are of the steps that have
/// ended; time counts up to the moment itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Steps that ended.
    pub steps: u64,
    /// Ticks during which a step ran.
    pub busy_ticks: u64,
    /// Tokens computed by prefills, including recomputation.
    pub prefill_tokens: u64,
    /// Tokens computed by decoding requests.
    pub decode_tokens: u64,
    /// Requests that finished.
    pub finished: u64,
    /// Requests that were dropped, as they could never be admitted again.
    pub dropped: u64,
    /// Preemptions.
    pub preemptions: u64,
    /// Requests that migrated away.
    pub sent: u64,
    /// Requests that migrated here.
    pub received: u64,
    /// Blocks swapped out.
    pub swapped_out_blocks: u64,
    /// Blocks swapped in.
    pub swapped_in_blocks: u64,
    /// Tokens looked up in the prefix cache.
    pub prefix_queries: u64,
    /// Tokens of those that were found.
    pub prefix_hits: u64,
    /// Blocks whose known content was lost when they were reused.
    pub evictions: u64,
    /// The time integral of the running requests.
    pub running_ticks: u128,
    /// The time integral of the waiting and the swapped-out requests.
    pub queued_ticks: u128,
    /// The time integral of the tokens in the KV cache, those of the step in progress included.
    pub kv_token_ticks: u128,
    /// Bytes from and to the GPUs' memory.
    pub hbm_bytes: u128,
    /// Floating-point operations.
    pub flops: u128,
    /// Bytes that ranks sent one another.
    pub link_bytes: u128,
    /// Attojoules of all that, of the time in which steps ran, and of the idle power up to the moment.
    pub energy_aj: u128,
}
