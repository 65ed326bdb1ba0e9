//! What a replay records.

mod columns;
mod instance_stats;
mod sketch;
mod work;

pub(crate) use columns::OptionalColumns;
pub use columns::{Columns, NO_INSTANCE, Reason, Status};
pub use instance_stats::InstanceStats;
pub use sketch::Sketch;
pub(crate) use work::TrafficCounter;
pub use work::{Prefilled, Work};
