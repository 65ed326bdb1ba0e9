//! Replays LLM serving traces through schedulers, on an integer clock.
//!
//! Five types: a [`Trace`] is the requests that arrive; a [`Config`] describes the instances, their scheduling and the
//! rules that route requests; a [`Simulation`] replays the trace; an [`Outcome`] is the result; a [`Cost`] turns the
//! shape of a step into time.
//!
//! The crate uses no Python, files, threads or clock. The same inputs give the same bytes on any machine.
//!
//! ```
//! use paceline_core::{Config, Simulation, Trace};
//!
//! let config = Config::from_json(br#"{
//!     "instances": [{
//!         "blocks": 100, "block_tokens": 16, "max_model_len": null,
//!         "cost": {"kind": "affine", "step": 5000, "token": 10, "kv_token": 1},
//!         "scheduler": {
//!             "max_num_batched_tokens": 512, "max_num_seqs": 8, "long_prefill_token_threshold": 0,
//!             "stages": [
//!                 {"kind": "running"},
//!                 {"kind": "admit", "chunked": true, "unless_preempted": true, "unless_swapped": false,
//!                  "count_decodes": true, "gather": null}
//!             ],
//!             "exclusive_prefill": false, "order": {"kind": "arrival"}, "victim": "latest",
//!             "allocation": "chunk_if_all_fits", "watermark_blocks": 0, "watermark_when_idle": false,
//!             "spare_block": false, "decodes_first": false, "refund": true, "stop_at_own_preemption": false, "threshold_when_alone": false,
//!             "preemption": {"kind": "recompute"}, "requeue_late": false, "prefix_cache": null,
//!             "schedule_ahead": false
//!         }
//!     }],
//!     "routing": {"on_arrival": {"rule": "round_robin"}}, "until": null, "leap": true, "record_decisions": false
//! }"#)?;
//! let trace = Trace {
//!     arrival: vec![7].into(), prompt_tokens: vec![100].into(), output_tokens: vec![1].into(), ..Trace::default()
//! };
//! let mut simulation = Simulation::new(&config, trace)?;
//! while !simulation.advance(1_000)? {}
//! let outcome = simulation.into_outcome();
//! // One step: 5000 ticks, 10 for each of 100 tokens, and 1 for each token of context.
//! assert_eq!(outcome.columns.finish[0], 7 + 5000 + 1000 + 100);
//! # Ok::<(), paceline_core::Error>(())
//! ```

#![forbid(unsafe_code)]

mod checkpoint;
mod collections;
mod config;
pub mod cost;
mod engine;
mod error;
mod hint;
mod instance;
mod kv;
mod metrics;
pub mod policy;
mod reuse;
mod series;
mod time;
mod timeline;
mod trace;

pub use collections::Column;
pub use config::{
    Admission, Allocation, Class, Config, CopyTime, Entrance, Eviction, Gather, GroupRule, InstanceConfig,
    Leaving, Links, Lockstep, Pace, Pair, Port, Prediction, Preemption, PrefixCacheConfig, QueueOrder,
    Ranking, Refresh, Routers, SchedulerConfig, Speed, Stage, StoreConfig, StoreEviction, StoreLink,
    TierConfig, Victim, Window,
};
pub use cost::{Cost, Prefilled, Work};
pub use engine::{
    Apart, CALLBACK_INSTANCE_FIELDS, CALLBACK_REQUEST_FIELDS, CallbackView, Cause, Decide, FlipRecord,
    Outcome, Progress, STATE_FIELDS, Share, Simulation, Single, Source, Stream, TransferKind, TransferRecord,
    coupling,
};
pub use error::Error;
pub use instance::{Part, StepColumns, StepRecord, TierJob, TierLog, TierStep};
pub use kv::{BlockPool, OutOfBlocks, PrefixCache, Prefixes};
pub use metrics::{
    Buffer, Columns, Declared, Event, EventKind, InstanceStats, Measured, MediumStats, NO_INSTANCE,
    NetworkStats, Reason, Sketch, Spans, Spread, Status, StoreCopies, StoreStats, TierStats,
};
pub use reuse::{Lookup, Reuse};
pub use series::Series;
pub use time::{HORIZON, NEVER, TICKS_PER_SECOND, Ticks};
pub use timeline::{Reading, Rows, Sample, State, Sums, Timeline};
pub use trace::{Cancels, OutputIds, Parents, PrefixIds, Trace, Waits};
