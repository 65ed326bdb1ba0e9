//! The books that routers keep of the requests that they route.

use serde::Deserialize;

use crate::config::MOST_BLOCK_TOKENS;
use crate::error::Error;

/// The books that each router keeps. Those that are `None` are not kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BooksConfig {
    /// An approximate index of the prefixes that each instance holds.
    #[serde(default)]
    pub index: Option<IndexConfig>,
    /// The blocks of the unfinished requests of each instance.
    #[serde(default)]
    pub active: Option<ActiveConfig>,
    /// A radix tree of prompts.
    #[serde(default)]
    pub tree: Option<TreeConfig>,
}

impl BooksConfig {
    /// Refuses block sizes and limits that are out of range.
    pub(super) fn check(&self) -> Result<(), Error> {
        let sizes = [
            ("index", self.index.as_ref().map(|index| index.block_tokens)),
            ("active", self.active.as_ref().map(|active| active.block_tokens)),
            ("tree", self.tree.as_ref().map(|tree| tree.block_tokens)),
        ];
        for (name, size) in sizes {
            if let Some(size) = size.filter(|size| !(1..=MOST_BLOCK_TOKENS).contains(size)) {
                let rule = format!("must be 1 to {MOST_BLOCK_TOKENS}, was {size}");
                return Err(Error::config(format!("routing.books.{name}.block_tokens"), rule));
            }
        }
        let most = u64::from(u32::MAX) - 1;
        if let Some(index) = &self.index
            && let Some(capacity) = index.capacity.filter(|capacity| !(1..=most).contains(capacity))
        {
            let rule = format!("must be 1 to {most}, was {capacity}");
            return Err(Error::config("routing.books.index.capacity", rule));
        }
        Ok(())
    }

    /// Whether anything is kept.
    pub(crate) fn exist(&self) -> bool {
        self.index.is_some() || self.active.is_some() || self.tree.is_some()
    }
}

/// An approximate prefix index.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexConfig {
    /// Tokens in a block.
    pub block_tokens: u32,
    /// The most blocks of an instance, of which the least recently learned are forgotten; `None`: no limit.
    pub capacity: Option<u64>,
    /// The most leading blocks of a prompt that are looked up and learned; `None`: all.
    pub longest: Option<u32>,
    /// When the index learns that an instance holds blocks.
    pub learns: Learns,
}

/// When an index learns that an instance holds blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Learns {
    /// Those of a prompt, when the request is routed.
    Routed,
    /// Those of a prompt, when the request has its first token.
    Prefilled,
    /// The same, and those of prompt and output when the request finishes.
    Finished,
}

/// The blocks of unfinished requests.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActiveConfig {
    /// Tokens in a block.
    pub block_tokens: u32,
    /// Whether the blocks of prompts count.
    pub prompts: bool,
    /// Whether a block that several requests of an instance have counts once.
    pub reuses: bool,
    /// The tokens of outputs that count.
    pub outputs: TrackedOutputs,
}

/// The tokens of outputs that the books of active sequences count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrackedOutputs {
    /// Nothing.
    None,
    /// The blocks that they fill.
    Whole,
    /// The same, with weights: each block that an output fills sets the weight of the request's blocks to the share of
    /// its output that is still to come.
    Decaying,
}

/// A radix tree of prompts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeConfig {
    /// Tokens in a block, for traces without prefix ids, whose blocks the tree takes otherwise.
    pub block_tokens: u32,
    /// How prompts become text.
    pub text: PromptText,
}

/// How the blocks of a prompt become characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptText {
    /// Each token is a character.
    Tokens,
    /// Each block is the eight hexadecimal digits of the lower 32 bits of its id.
    Hex,
}
