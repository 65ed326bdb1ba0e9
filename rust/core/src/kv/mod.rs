//! KV-cache memory, in blocks.

mod cache;
mod memory;
mod pool;
mod prefixes;

pub(crate) use cache::Block;
pub use cache::PrefixCache;
pub(crate) use memory::{BlockTable, ContentOwner, Memory, Released};
pub use pool::{BlockPool, OutOfBlocks};
pub use prefixes::Prefixes;
