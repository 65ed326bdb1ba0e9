//! A radix tree of cached prefixes.
//!
//! Follows `sglang` 0.5.23 (`srt/mem_cache/unified_cache/unified_tree_core.py` and `components/full.py`), with pages as
//! large as blocks. A node has consecutive blocks of a prefix, and those before them are in the nodes above. A lookup
//! that ends inside a node splits it, and an insertion adds the blocks that the tree lacks as one node. A request locks
//! the path to the last node of its prefix. Of the unlocked leaves the one that was used the longest ago is evicted,
//! with all its blocks, and what is above it may be the next.
//!
//! The content of a block names all blocks before it, too. So a node is found by its first content alone, and how many
//! leading contents of a node a sequence has is found by bisection.

mod leaves;
mod nodes;
mod place;

pub(crate) use nodes::{Found, HostCounters, HostLock, NodeId, RadixTree};
pub(crate) use place::TreePlace;
