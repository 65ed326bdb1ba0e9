//! How a memory caches prefixes.

use serde::{Deserialize, Serialize};

use crate::checkpoint::{Checkpointed, Reader, Writer};
use crate::config::PrefixCacheConfig;
use crate::error::Error;
use crate::kv::cache::PrefixCache;
use crate::kv::content::Content;
use crate::kv::tree::RadixTree;

/// How prefixes are cached.
#[derive(Debug, Clone)]
pub(super) enum Caching {
    None,
    /// Block by block.
    Blocks(Box<PrefixCache>),
    /// In a tree.
    Tree(Box<PrefixTree>),
}

impl Caching {
    pub(super) fn new(config: Option<&PrefixCacheConfig>, capacity: u64, contents: usize) -> Self {
        match config {
            None => Self::None,
            Some(config) if config.tree.is_some() => Self::Tree(Box::default()),
            Some(config) => {
                let cache = PrefixCache::new(capacity as u32, contents, config.unknown_first);
                Self::Blocks(Box::new(cache.with_eviction(config.evict.as_deref())))
            }
        }
    }

    /// The blocks, if prefixes are cached block by block.
    pub(super) fn blocks(&self) -> Option<&PrefixCache> {
        if let Self::Blocks(cache) = self { Some(cache) } else { None }
    }

    /// The same, to change.
    pub(super) fn blocks_mut(&mut self) -> Option<&mut PrefixCache> {
        if let Self::Blocks(cache) = self { Some(cache) } else { None }
    }

    /// The tree, if prefixes are cached in one.
    pub(super) fn tree(&self) -> Option<&RadixTree> {
        if let Self::Tree(tree) = self { Some(&tree.nodes) } else { None }
    }

    /// Contents that were lost to reuse.
    pub(super) fn evictions(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Blocks(cache) => cache.lost.count,
            Self::Tree(tree) => tree.evictions,
        }
    }

    /// Blocks whose content is kept and that no request holds.
    pub(super) fn unheld(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Blocks(cache) => cache.known_free(),
            Self::Tree(tree) => tree.nodes.unlocked(),
        }
    }

    /// The contents of all blocks, and the most there are.
    pub(super) fn contents(&self) -> (usize, impl Iterator<Item = Content>) {
        let (of_blocks, of_tree) = (self.blocks(), self.tree());
        let cached = of_blocks.into_iter().flat_map(|cache| cache.entries.iter().map(|entry| entry.content));
        let most = of_blocks.map_or(0, |cache| cache.entries.len())
            + of_tree.map_or(0, |tree| (tree.blocks() + tree.on_host()) as usize);
        (most, cached.chain(of_tree.into_iter().flat_map(RadixTree::contents)))
    }
}

impl Checkpointed for Caching {
    fn save(&self, to: &mut Writer) -> Result<(), Error> {
        match self {
            Self::None => Ok(()),
            Self::Blocks(cache) => cache.save(to),
            Self::Tree(tree) => to.value(tree),
        }
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Error> {
        match self {
            Self::None => {}
            Self::Blocks(cache) => cache.restore(from)?,
            Self::Tree(tree) => *tree = from.value()?,
        }
        Ok(())
    }
}

/// The tree of a memory.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct PrefixTree {
    pub(super) nodes: RadixTree,
    /// Blocks that the step which is formed has allocated, and takes from the tree once it is.
    pub(super) pending: u64,
    /// Blocks that were evicted.
    pub(super) evictions: u64,
}

impl PrefixTree {
    /// Evicts a leaf. Returns whether there was one.
    pub(super) fn evict(&mut self) -> bool {
        let evicted = self.nodes.evict();
        self.evictions += evicted.len() as u64;
        !evicted.is_empty()
    }
}
