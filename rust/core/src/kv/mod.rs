//! KV-cache memory, in blocks.

mod cache;
mod memory;
mod pool;
mod prefixes;

pub use cache::PrefixCache;
pub(crate) use memory::{Held, Memory, Owner};
pub use pool::{BlockPool, OutOfBlocks};
pub use prefixes::Prefixes;
