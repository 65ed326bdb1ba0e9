//! The cached prefix that a lookup found.

use super::content::Block;
use super::tree::Found;

/// The blocks of a cached prefix.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hits {
    /// The blocks, where they have numbers.
    pub(super) blocks: Vec<Block>,
    /// The prefix, where a tree has it.
    pub(super) found: Found,
}

impl Hits {
    /// How many blocks there are.
    pub(crate) fn len(&self) -> u32 {
        self.blocks.len() as u32 + self.found.blocks
    }

    /// Blocks after these that the host's part of a tree has.
    pub(crate) fn on_host(&self) -> u32 {
        self.found.on_host
    }

    /// Becomes that of a lookup that found nothing.
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.found = Found::default();
    }
}
