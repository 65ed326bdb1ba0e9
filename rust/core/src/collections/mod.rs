//! Generic data structures: they hold keys and ids, and know of no request, instance or clock.
//!
//! Each is tested here against a naive model, by properties.

mod column;
mod indexed_heap;
mod paged_map;
mod rising_keys;
mod step_wheel;
mod suffix_maxima;

pub use column::Column;
pub(crate) use indexed_heap::IndexedHeap;
pub(crate) use paged_map::PagedMap;
pub(crate) use rising_keys::{DueTimes, RisingKeys};
pub(crate) use step_wheel::StepWheel;
pub(crate) use suffix_maxima::SuffixMaxima;

/// Names an element. Ids are small: each structure keeps a table with an entry for every id up to the largest.
pub(crate) type Id = u32;
