//! The blocks that each request uses.

use super::Lookup;
use crate::error::Error;
use crate::kv::Prefixes;
use crate::trace::{Trace, TraceRow};

/// A block that a request uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Used {
    /// The number of its content; `None` if no other request has it.
    pub(super) content: Option<u32>,
    /// Tokens of the prompt that a lookup finds in it if it is cached.
    pub(super) found_tokens: u32,
}

/// The blocks of a trace's requests.
#[derive(Debug)]
pub(super) struct Blocks<'a> {
    trace: &'a Trace,
    prefixes: Prefixes,
    lookup: Lookup,
    /// By content: the tokens that are known of a block of a session, which its next turn may find.
    known: Vec<u32>,
}

impl<'a> Blocks<'a> {
    /// The blocks of a trace.
    pub(super) fn new(trace: &'a Trace, lookup: Lookup) -> Result<Self, Error> {
        let prefixes = Prefixes::new(trace, lookup.block_tokens)?;
        // An id names the tokens of a block, however many these are.
        let known = if trace.prefix.is_none() { vec![0; prefixes.contents()] } else { Vec::new() };
        Ok(Self { trace, prefixes, lookup, known })
    }

    /// Contents that several requests may have.
    pub(super) fn contents(&self) -> usize {
        self.prefixes.contents()
    }

    /// Blocks of a prompt.
    pub(super) fn asked(&self, row: usize) -> u64 {
        u64::from(self.trace.prompt_tokens[row].div_ceil(self.lookup.block_tokens))
    }

    /// A bound on the blocks that all requests use.
    pub(super) fn most_uses(&self) -> Result<u32, Error> {
        let size = u64::from(self.lookup.block_tokens);
        let uses: u64 = (0..self.trace.len())
            .map(|row| {
                let prompt = u64::from(self.trace.prompt_tokens[row]);
                (prompt + u64::from(self.trace.output_tokens[row])).div_ceil(size) + 1
            })
            .sum();
        u32::try_from(uses).map_err(|_| {
            let rule = format!("must cut the trace into fewer than {} blocks, was {size}: {uses}", u32::MAX);
            Error::config("block_tokens", rule)
        })
    }

    /// Writes the blocks of a request in the order of its sequence.
    pub(super) fn of_request(&mut self, row: usize, used: &mut Vec<Used>) {
        used.clear();
        if self.lookup.full_blocks {
            self.full(row, used);
        } else {
            self.begun(row, used);
        }
        let size = self.lookup.block_tokens;
        let tokens = self.trace.prompt_tokens[row]
            + if self.lookup.answers { self.trace.output_tokens[row] } else { 0 };
        if self.known.is_empty() {
            return;
        }
        for (position, block) in used.iter_mut().enumerate() {
            let Some(content) = block.content else { continue };
            let known = &mut self.known[content as usize];
            block.found_tokens = block.found_tokens.min(*known);
            *known = (*known).max((tokens - (position as u32 * size).min(tokens)).min(size));
        }
    }

    /// Full blocks of prompt and answer. The last token of the answer is never computed, and that of the prompt never found.
    fn full(&self, row: usize, used: &mut Vec<Used>) {
        let (size, of) = (self.lookup.block_tokens, TraceRow(row as u32));
        let prompt = self.trace.prompt_tokens[row];
        let found = (prompt - 1) / size;
        let computed = if self.lookup.answers { prompt + self.trace.output_tokens[row] - 1 } else { prompt };
        let contents = self.prefixes.numbers(of, prompt, 0..computed / size);
        used.extend(contents.zip(0..).map(|(content, position)| Used {
            content,
            found_tokens: if position < found { size } else { 0 },
        }));
    }

    /// Blocks of the prompt, a begun one included; then those that the answer fills or begins.
    fn begun(&self, row: usize, used: &mut Vec<Used>) {
        let (size, of) = (self.lookup.block_tokens, TraceRow(row as u32));
        let prompt = self.trace.prompt_tokens[row];
        let blocks = prompt.div_ceil(size);
        used.extend((0..blocks).map(|position| Used {
            content: self.prefixes.begun(of, position),
            found_tokens: (prompt - position * size).min(size),
        }));
        if !self.lookup.answers {
            return;
        }
        let all = (prompt + self.trace.output_tokens[row]).div_ceil(size);
        if self.trace.prefix.is_some() {
            // The block that the prompt begins and the answer fills has two names: with and without the answer.
            let filled =
                self.prefixes.of_output(of, prompt, prompt / size).filter(|_| !prompt.is_multiple_of(size));
            used.extend(filled.map(|content| Used { content: Some(content), found_tokens: 0 }));
        }
        used.extend((blocks..all).map(|position| Used {
            content: self.prefixes.of_output(of, prompt, position),
            found_tokens: 0,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{OutputIds, PrefixIds};

    #[test]
    fn a_block_that_an_answer_fills_has_two_names() {
        // Blocks of 2 tokens: a prompt of 3 tokens, whose second block the answer fills, and a third block.
        let trace = Trace {
            arrival: vec![0; 2].into(),
            prompt_tokens: vec![3, 6].into(),
            output_tokens: vec![3, 1].into(),
            prefix: Some(PrefixIds {
                ends: vec![2, 5].into(),
                ids: vec![7, 8, 7, 5, 9].into(),
                block_tokens: 2,
                outputs: Some(OutputIds { ends: vec![2, 2].into(), ids: vec![5, 9].into() }),
            }),
            ..Trace::default()
        };
        let lookup = Lookup { block_tokens: 2, full_blocks: false, answers: true };
        let mut blocks = Blocks::new(&trace, lookup).unwrap();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        blocks.of_request(0, &mut first);
        blocks.of_request(1, &mut second);
        let names = |used: &[Used]| used.iter().map(|block| block.content).collect::<Vec<_>>();
        let (first, second) = (names(&first), names(&second));
        assert_eq!((first.len(), second.len()), (4, 4));
        assert_eq!(first[0], second[0]);
        assert_ne!(first[1], second[1], "the prompt's own second block ends with its third token");
        assert_eq!(first[2..], second[1..3]);
        assert_eq!(second[3], None, "nothing is known of its answer");
    }
}
