//! The clock: whole picoseconds from the trace's start.
//!
//! A tick is one picosecond. The cost of reading one KV token is some tens of
//! nanoseconds on today's GPUs, so a coarser tick would round away a per cent
//! or more of it. `u64` picoseconds reach 213 days, which holds the longest
//! public trace (121 days) with room to drain.
//!
//! Except for the fields of policies, nothing in the core converts to seconds: the caller converts its input to ticks
//! once, and the results back.

/// A point on the clock, or a length of time, in ticks.
pub type Ticks = u64;

/// Ticks in one second.
pub const TICKS_PER_SECOND: Ticks = 1_000_000_000_000;

/// Stands for "never happened" in a column of ticks.
pub const NEVER: Ticks = Ticks::MAX;

/// The last moment the clock may reach, kept clear of [`NEVER`] so that an
/// addition past it is seen before it wraps.
pub const HORIZON: Ticks = Ticks::MAX / 8 * 7;
