//! The settings of a tier, and the chunks of a request by them.

use crate::config::{TierConfig, Write};
use crate::kv::{ContentOwner, Memory, StoredChunk};

/// The settings of a tier.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) config: TierConfig,
    pub(super) block_tokens: u32,
    /// Whether the last chunk of a hit is not used, and the last one of a decode not stored: a draft head may write its KV
    /// again.
    pub(super) drops_last: bool,
}

impl Rules {
    pub(super) fn chunk_tokens(&self) -> u32 {
        self.config.chunk_blocks * self.block_tokens
    }

    /// A chunk of a request.
    pub(super) fn chunk(&self, owner: ContentOwner, at: u32, memory: &Memory) -> StoredChunk {
        StoredChunk { at, key: memory.key(owner, (at + 1) * self.config.chunk_blocks - 1) }
    }

    /// Whether loads overlap with the steps that they are made for.
    pub(super) fn overlaps(&self) -> bool {
        self.config.overlap_layers > 0
    }

    /// Whether blocks that the output fills are not stored before the request has ended.
    pub(super) fn stores_no_decodes(&self) -> bool {
        self.config.prompts_only || self.config.write != Write::Completed
    }

    /// The chunks of a request of `tokens` tokens that are looked for. Where loads overlap with its step, it computes one
    /// token at least.
    pub(super) fn chunks_sought(&self, tokens: u32) -> u32 {
        (tokens - u32::from(self.overlaps())) / self.chunk_tokens()
    }

    /// Chunks of a request with `tokens` computed tokens that may be stored once it has ended.
    pub(super) fn complete(&self, prompt: u32, tokens: u32) -> u32 {
        if self.config.write == Write::Back {
            return 0;
        }
        let tokens = if self.config.prompts_only { tokens.min(prompt) } else { tokens };
        tokens / self.chunk_tokens()
    }

    /// Chunks of a running request that may be stored after a step with which `tokens` known tokens are computed.
    pub(super) fn storable(&self, prompt: u32, tokens: u32) -> u32 {
        let tokens = if self.stores_no_decodes() { tokens.min(prompt) } else { tokens };
        self.complete(prompt, tokens).saturating_sub(u32::from(self.drops_last && tokens > prompt))
    }
}
