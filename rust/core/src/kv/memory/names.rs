//! The contents of the blocks of requests.

use std::sync::Arc;

use crate::config::SpeculationConfig;
use crate::kv::content::{Content, Contents};
use crate::kv::prefixes::Prefixes;
use crate::trace::TraceRow;

/// Whose content a request's blocks have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContentOwner {
    /// The request's row in the trace.
    pub(crate) row: TraceRow,
    /// Prompt tokens.
    pub(crate) prompt: u32,
    /// Tokens that are known: of the prompt, and of the output so far. Drafts are not.
    pub(crate) known: u32,
}

impl ContentOwner {
    /// A request without output.
    pub(crate) fn of_prompt(row: TraceRow, prompt: u32) -> Self {
        Self { row, prompt, known: prompt }
    }
}

/// The contents of the blocks of requests.
#[derive(Debug, Clone)]
pub(super) struct Names {
    /// The contents that requests share.
    pub(super) prefixes: Arc<Prefixes>,
    pub(super) block_tokens: u32,
    /// Whether the content of a block covers the token after it.
    hashes_next: bool,
}

impl Names {
    pub(super) fn new(prefixes: Arc<Prefixes>, block_tokens: u32) -> Self {
        Self { prefixes, block_tokens, hashes_next: false }
    }

    /// Has contents be those of a model with a draft head.
    pub(super) fn set_speculation(&mut self, speculation: &SpeculationConfig) {
        self.hashes_next = speculation.hash_lookahead > 0;
    }

    /// Numbers of the contents that requests share.
    pub(super) fn shared(&self) -> usize {
        // The last block of a session is named by the block after it.
        self.prefixes.contents() + usize::from(self.hashes_next)
    }

    /// Tokens at the start of `tokens` known ones whose contents they settle.
    pub(super) fn named(&self, tokens: u32) -> u32 {
        tokens.saturating_sub(u32::from(self.hashes_next))
    }

    /// Full blocks at the start of a request's sequence of `tokens` tokens whose content is known.
    pub(super) fn known_blocks(&self, owner: ContentOwner, tokens: u32) -> u32 {
        tokens.min(self.named(owner.known)) / self.block_tokens
    }

    /// Content of the block at `position` of a request's sequence.
    pub(super) fn content(&self, owner: ContentOwner, position: u32) -> Content {
        self.contents(owner, position, position + 1).first
    }

    /// Contents of the block at `position` of a request's sequence and of those behind it up to `end`, while their keys follow
    /// one another.
    pub(super) fn contents(&self, owner: ContentOwner, position: u32, end: u32) -> Contents {
        // With the token after it, a block is equal only to one that goes on equally.
        let named = position + u32::from(self.hashes_next);
        let (number, count) = self.prefixes.following(owner.row, owner.prompt, named, end - position);
        let first = number.map_or_else(|| Content::own(owner.row, position), Content::shared);
        Contents { first, count }
    }

    /// Content of the block at `position` without the token after it.
    pub(super) fn content_alone(&self, owner: ContentOwner, position: u32) -> Content {
        let (number, _) = self.prefixes.following(owner.row, owner.prompt, position, 1);
        number.map_or_else(|| Content::own(owner.row, position), Content::shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{PrefixIds, Trace};

    #[test]
    fn shared_contents_are_those_of_the_trace() {
        let prefix =
            PrefixIds { ends: vec![3].into(), ids: vec![7, 8, 9].into(), block_tokens: 4, outputs: None };
        let trace = Trace { prompt_tokens: vec![12].into(), prefix: Some(prefix), ..Trace::default() };
        let prefixes = Arc::new(Prefixes::new(&trace, 2).expect("2 divides 4"));
        assert_eq!(Names::new(prefixes, 2).shared(), 6);
    }
}
