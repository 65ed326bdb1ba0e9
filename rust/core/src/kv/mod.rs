//! KV-cache memory, in blocks.

mod block_size;
mod block_table;
mod cache;
mod chunks;
mod content;
mod content_tree;
mod copies;
mod eviction;
mod first_copies;
mod hits;
mod link;
mod lost;
mod memory;
mod objects;
mod pool;
mod prefixes;
#[cfg(test)]
mod prefixes_tests;
mod residency;
mod shared_copies;
mod store;
mod swap_space;
mod tree;
mod tree_copies;

pub(crate) use block_size::BlockSize;
pub(crate) use block_table::BlockTable;
pub use cache::PrefixCache;
pub(crate) use chunks::{Access, Chunk as StoredChunk, ChunkStore, Found};
pub(crate) use content::Block;
pub(crate) use hits::Hits;
pub(crate) use link::{Interval, Link};
pub(crate) use memory::{ContentOwner, Memory, Released};
pub(crate) use objects::SharedStore;
pub use pool::{BlockPool, OutOfBlocks};
pub use prefixes::Prefixes;
pub(crate) use residency::{Account, Residency, Tier};
pub(crate) use store::KvStore;
pub(crate) use tree_copies::{CopyLog, TreeCopies};
