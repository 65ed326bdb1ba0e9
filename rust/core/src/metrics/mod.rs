//! What a replay records.

mod columns;
mod maxima;
mod sketch;
mod usage;

pub(crate) use columns::Optional;
pub use columns::{Columns, NO_INSTANCE, Reason, Status};
pub(crate) use maxima::SuffixMaxima;
pub use sketch::Sketch;
pub use usage::Usage;
