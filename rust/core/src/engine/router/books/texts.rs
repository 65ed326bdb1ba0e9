//! The prompts of a trace as texts, which a tree of prompts compares character by character.
//!
//! A trace says which blocks of prompts are equal, and not what is in them. So a text is made up from the blocks: every
//! token is a character, equal for equal blocks; or every block is the eight hexadecimal digits of its id, so that
//! different blocks may begin with equal characters, as words do.

use std::sync::Arc;

use crate::kv::Prefixes;
use crate::policy::PromptText;
use crate::trace::{RequestNumber, Trace, TraceRow};

/// Digits of a block.
const DIGITS: u64 = 8;

/// The texts that stand for the prompts of a trace.
#[derive(Debug, Clone)]
pub(super) struct Texts {
    /// How blocks become characters.
    kind: PromptText,
    /// Numbers of the blocks' contents.
    contents: Arc<Prefixes>,
    /// Tokens in a block.
    block_tokens: u64,
}

impl Texts {
    /// The texts of a trace whose blocks of `block_tokens` tokens have these contents.
    pub(super) fn new(kind: PromptText, contents: Arc<Prefixes>, block_tokens: u32) -> Self {
        Self { kind, contents, block_tokens: u64::from(block_tokens) }
    }

    /// Characters of a block.
    fn width(&self) -> u64 {
        match self.kind {
            PromptText::Tokens => self.block_tokens,
            PromptText::Hex => DIGITS,
        }
    }

    /// Characters of the prompt of a row.
    pub(super) fn len(&self, row: u32, trace: &Trace) -> u64 {
        let tokens = u64::from(trace.prompt_tokens[row as usize]);
        match self.kind {
            PromptText::Tokens => tokens,
            PromptText::Hex => {
                let (full, rest) = (tokens / self.block_tokens, tokens % self.block_tokens);
                full * DIGITS + rest * DIGITS / self.block_tokens
            }
        }
    }

    /// The content of a row's block at `position`, full or not.
    fn block(&self, row: u32, position: u64, trace: &Trace) -> u64 {
        let row = trace.origin(RequestNumber(row));
        if self.kind == PromptText::Hex {
            let id = trace.prefix.as_ref().and_then(|ids| ids.of(row).get(position as usize));
            return id.map_or_else(|| own(row), |&id| id & 0xffff_ffff);
        }
        self.contents.begun(row, position as u32).map_or_else(|| own(row), u64::from)
    }

    /// The character of a row's prompt at `at`, which decides between the branches of a tree.
    pub(super) fn character(&self, row: u32, at: u64, trace: &Trace) -> u64 {
        let block = self.block(row, at / self.width(), trace);
        match self.kind {
            PromptText::Tokens => block,
            PromptText::Hex => block >> (4 * (DIGITS - 1 - at % DIGITS)) & 0xf,
        }
    }

    /// How many characters from `from` on, up to `to`, two rows have in common.
    pub(super) fn common(&self, (one, other): (u32, u32), (from, to): (u64, u64), trace: &Trace) -> u64 {
        let width = self.width();
        let mut at = from;
        while at < to {
            let position = at / width;
            let (first, second) = (self.block(one, position, trace), self.block(other, position, trace));
            if first != second {
                if self.kind == PromptText::Hex {
                    let different = ((first ^ second) as u32).leading_zeros() / 4;
                    at = at.max(position * width + u64::from(different)).min(to);
                }
                break;
            }
            at = ((position + 1) * width).min(to);
        }
        at - from
    }
}

/// The content of a block that only this row has.
fn own(row: TraceRow) -> u64 {
    (1 << 32) + u64::from(row.0)
}
