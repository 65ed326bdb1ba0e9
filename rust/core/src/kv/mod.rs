//! KV-cache memory, in blocks.

mod block_size;
mod cache;
mod memory;
mod pool;
mod prefixes;
mod store;
mod swap_space;

pub(crate) use block_size::BlockSize;
pub(crate) use cache::Block;
pub use cache::PrefixCache;
pub(crate) use memory::{BlockTable, ContentOwner, Memory, Released};
pub use pool::{BlockPool, OutOfBlocks};
pub use prefixes::Prefixes;
pub(crate) use store::KvStore;
