//! The blocks of one request.

use serde::{Deserialize, Serialize};

use super::content::Block;
use super::tree::TreePlace;
use crate::hint::rare;

/// The blocks of one request, on the GPU or in the CPU's memory.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct BlockTable {
    /// Number of blocks.
    pub(super) count: u64,
    /// The blocks, where prefixes are cached. Apart from the count, so that the state of a request takes little room where
    /// they are not.
    pub(super) listed: Option<Box<ListedBlocks>>,
}

/// The blocks of one request.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct ListedBlocks {
    /// The blocks, in the order of the sequence.
    pub(super) blocks: Vec<Block>,
    /// Full blocks, from the start, whose content the cache knows; in the CPU's memory, those that have a content.
    pub(super) registered: u32,
    /// The place of the request, where prefixes are cached in a tree.
    pub(super) place: TreePlace,
}

impl BlockTable {
    /// The listed blocks.
    pub(crate) fn blocks(&self) -> &[Block] {
        self.listed.as_ref().map_or(&[], |listed| &listed.blocks)
    }

    /// The list of blocks, to change.
    pub(super) fn listed_mut(&mut self) -> &mut ListedBlocks {
        self.listed.get_or_insert_default()
    }

    /// Becomes the table of a request without blocks. The memory of the list is kept for it.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
        if let Some(listed) = &mut self.listed {
            rare();
            listed.blocks.clear();
            listed.registered = 0;
            listed.place = TreePlace::default();
        }
    }

    /// Number of blocks.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Full blocks, from the start, whose content is known.
    #[inline]
    pub(super) fn registered(&self) -> u32 {
        self.listed.as_ref().map_or(0, |listed| listed.registered)
    }

    /// Sets the number of blocks: of a request that leaves the decode set, whose
    /// blocks are assigned later; or of one whose KV is not on the GPU.
    pub(crate) fn set_count(&mut self, count: u64) {
        self.count = count;
    }
}
