//! KV-cache memory, in blocks.

mod pool;

pub use pool::{BlockPool, OutOfBlocks};
