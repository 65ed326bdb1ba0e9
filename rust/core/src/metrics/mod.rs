//! What a replay records.

mod columns;
mod maxima;
mod sketch;
mod usage;
mod work;

pub(crate) use columns::Optional;
pub use columns::{Columns, NO_INSTANCE, Reason, Status};
pub(crate) use maxima::SuffixMaxima;
pub use sketch::Sketch;
pub use usage::Usage;
pub(crate) use work::Tally;
pub use work::{Prefilled, Work};
