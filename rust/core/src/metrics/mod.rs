//! The records of a replay: columns by request, the sketch of gaps, and counters by instance.

mod columns;
mod event;
mod instance_stats;
mod network_stats;
mod record_room;
mod recorder;
mod sketch;
mod spread;
mod traffic_counter;

pub(crate) use columns::OptionalColumns;
pub use columns::{Buffer, Columns, Declared, NO_INSTANCE, Reason, Status};
pub(crate) use columns::{add_part, put_used};
pub use event::{Event, EventKind};
pub use instance_stats::{
    Drafts, InstanceStats, PrefixStats, RequestStats, StoreCopies, StoreStats, TierStats,
};
pub use network_stats::{MediumStats, NetworkStats};
pub(crate) use record_room::RecordRoom;
pub(crate) use recorder::{Notice, Recorder, RequestTotals};
pub use sketch::Sketch;
pub use spread::{Measured, Spans, Spread};
pub(crate) use traffic_counter::TrafficCounter;
