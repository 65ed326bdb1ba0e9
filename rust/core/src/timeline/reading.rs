//! The reading of an instance at one moment: each column of a timeline, declared once.

use serde::{Deserialize, Serialize};

/// Declares a part of a reading: a struct with a field for each column, and the table of its columns by name.
macro_rules! columns {
    ($(#[$doc:meta])* $part:ident, $(($table:ident: $number:ty) {
        $($(#[$text:meta])* $column:ident,)+
    })+) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $part {
            $($($(#[$text])* pub $column: $number,)+)+
        }

        $(impl $part {
            /// Columns by name, in order.
            pub(super) const $table: &'static [(&'static str, fn(&Self) -> $number)] =
                &[$((stringify!($column), |part| part.$column)),+];
        })+
    };
}

/// A reading of one instance, after all events of a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Its state at the moment.
    pub state: State,
    /// Its work from the start of the replay to the moment.
    pub sums: Sums,
}

columns! {
    /// The state of an instance at a moment.
    State,
    (STATES: u64) {
        /// Running requests.
        running,
        /// Queued requests: those that are not swapped out, and whose KV is not on its way here.
        waiting,
        /// Swapped-out requests.
        swapped,
        /// Requests that were handed over to it and whose KV has not been received.
        incoming,
        /// KV blocks that requests hold.
        kv_used_blocks,
        /// Free KV blocks whose content the prefix cache keeps.
        kv_cached_blocks,
        /// KV blocks of requests that have left and whose KV has not been read.
        kv_sending_blocks,
        /// KV blocks of accepted requests whose KV is on its way here.
        kv_receiving_blocks,
        /// Tokens of KV in the memory of the GPU, as of the last finished step.
        kv_tokens,
        /// Tokens of KV off the GPU: swapped out, or arrived from another instance and in no block.
        kv_host_tokens,
        /// Tokens of KV on its way into blocks of this instance.
        kv_arriving_tokens,
        /// Chunks that the host's memory holds, those that are being stored among them.
        tier_chunks,
        /// Chunks that the store below has, those that are being written among them; of all instances that share it.
        store_chunks,
        /// Requests in the step in progress.
        batch_requests,
        /// Tokens that the step in progress computes.
        batch_tokens,
        /// Ticks that the step in progress takes.
        step_ticks,
        /// The pool that it is in.
        role,
    }
}

columns! {
    /// The work of an instance from the start of the replay to a moment. Tokens, bytes and FLOPs are of the steps that have
    /// ended; time counts up to the moment itself.
    Sums,
    (COUNTS: u64) {
        /// Steps that ended.
        steps,
        /// Ticks during which a step ran.
        busy_ticks,
        /// Tokens computed by prefills, including recomputation.
        prefill_tokens,
        /// Tokens computed by decoding requests.
        decode_tokens,
        /// Requests that finished.
        finished,
        /// Requests that were dropped, as they could never be admitted again.
        dropped,
        /// Preemptions.
        preemptions,
        /// Requests that migrated away.
        sent,
        /// Requests that migrated here.
        received,
        /// Blocks swapped out.
        swapped_out_blocks,
        /// Blocks swapped in.
        swapped_in_blocks,
        /// Tokens looked up in the prefix cache.
        prefix_queries,
        /// Tokens of those that were found.
        prefix_hits,
        /// Blocks whose known content was lost when they were reused.
        evictions,
    }
    (LARGE: u128) {
        /// The time integral of the running requests.
        running_ticks,
        /// The time integral of the waiting and the swapped-out requests.
        queued_ticks,
        /// The time integral of the tokens in the KV cache, those of the step in progress included.
        kv_token_ticks,
        /// Bytes from and to the GPUs' memory.
        hbm_bytes,
        /// Floating-point operations.
        flops,
        /// Bytes that ranks sent one another.
        link_bytes,
        /// Attojoules of all that, of the time in which steps ran, and of the idle power up to the moment.
        energy_aj,
    }
}
