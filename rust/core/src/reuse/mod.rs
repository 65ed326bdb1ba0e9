//! Hits of a prefix cache against its capacity: stack distances, for all capacities in one pass.
//!
//! Follows R. L. Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2), 1970. Requests are
//! taken one after another, in the order of the trace, without time. Each looks up the blocks of its prompt from the first on,
//! and uses all its blocks, answer included, the last first: so the first is the most recently used, as where an engine frees
//! a request's blocks from the last to the first.
//!
//! A block is named by its content and by all before it. A request that uses a block uses every block before it, later. So on
//! the stack of blocks by latest use, each block is above all that continue it. The blocks of a cache of C blocks are the
//! first C of the stack: a prefix never leaves before what continues it, a cached block is always part of a cached prefix, and a
//! smaller cache holds a part of what a larger one holds. So a block is found by the caches of at least as many blocks as its
//! depth on the stack.

mod blocks;
mod stack;

use blocks::{Blocks, Used};
use stack::Stack;

use crate::error::Error;
use crate::trace::Trace;

/// Which blocks are cached, and which are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lookup {
    /// Tokens in a block.
    pub block_tokens: u32,
    /// Whether only full blocks are cached, and the last token of a prompt is always computed, as in engines. If not, a block
    /// that a prompt begins is cached and looked up like the others.
    pub full_blocks: bool,
    /// Whether blocks of answers are cached.
    pub answers: bool,
}

/// Hits against capacity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reuse {
    /// Capacities in blocks at which more is found than with one block fewer, ascending.
    pub depths: Vec<u64>,
    /// Blocks that are found at each of them, and not with one block fewer.
    pub blocks: Vec<u64>,
    /// Tokens in these blocks.
    pub tokens: Vec<u64>,
    /// Blocks that prompts have.
    pub asked_blocks: u64,
    /// Tokens that prompts have.
    pub asked_tokens: u64,
    /// Different blocks.
    pub distinct: u64,
}

impl Reuse {
    /// The hits of a trace.
    ///
    /// # Errors
    ///
    /// If the trace breaks a rule, has too many blocks for 32 bits, or its blocks and these do not divide each other.
    pub fn of(trace: &Trace, lookup: Lookup) -> Result<Self, Error> {
        trace.validate()?;
        if lookup.block_tokens == 0 {
            return Err(Error::config("block_tokens", "must be 1 or more, was 0"));
        }
        let mut blocks = Blocks::new(trace, lookup)?;
        let mut stack = Stack::new(blocks.contents(), blocks.most_uses()?);
        let mut counts: Vec<(u64, u64)> = Vec::new();
        let mut reuse = Self::default();
        let mut used: Vec<Used> = Vec::new();
        for row in 0..trace.len() {
            blocks.of_request(row, &mut used);
            reuse.asked_tokens += u64::from(trace.prompt_tokens[row]);
            reuse.asked_blocks += blocks.asked(row);
            for block in &used {
                let depth = block.content.and_then(|content| stack.depth(content));
                let Some(depth) = depth.filter(|_| block.found_tokens > 0) else { break };
                if counts.len() <= depth as usize {
                    counts.resize(depth as usize + 1, (0, 0));
                }
                let count = &mut counts[depth as usize];
                *count = (count.0 + 1, count.1 + u64::from(block.found_tokens));
            }
            for block in used.iter().rev() {
                stack.put(block.content);
            }
        }
        reuse.distinct = u64::from(stack.len());
        for (depth, (blocks, tokens)) in counts.into_iter().enumerate().filter(|(_, (blocks, _))| *blocks > 0)
        {
            reuse.depths.push(depth as u64);
            reuse.blocks.push(blocks);
            reuse.tokens.push(tokens);
        }
        Ok(reuse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::PrefixIds;
    use proptest::prelude::*;

    /// A trace of prompts with these ids, of one token a block and 0 or more further tokens.
    fn trace(prompts: &[(Vec<u64>, u32)], block_tokens: u32) -> Trace {
        let mut ends = Vec::new();
        let mut ids = Vec::new();
        for (prompt, _) in prompts {
            ids.extend_from_slice(prompt);
            ends.push(ids.len());
        }
        Trace {
            arrival: vec![0; prompts.len()].into(),
            prompt_tokens: prompts
                .iter()
                .map(|(prompt, more)| (prompt.len() as u32 * block_tokens + more).max(1))
                .collect(),
            output_tokens: vec![1; prompts.len()].into(),
            prefix: Some(PrefixIds { ends: ends.into(), ids: ids.into(), block_tokens, outputs: None }),
            ..Trace::default()
        }
    }

    /// Blocks that a cache of `capacity` blocks finds: a list by latest use, searched block by block. A block is named by
    /// the ids up to it, and found only while all before it are.
    fn simulated(prompts: &[(Vec<u64>, u32)], capacity: usize) -> u64 {
        let mut cached: Vec<Vec<u64>> = Vec::new(); // the latest use first
        let mut found = 0;
        for (prompt, _) in prompts {
            let names: Vec<Vec<u64>> = (1..=prompt.len()).map(|end| prompt[..end].to_vec()).collect();
            let hits = names.iter().take_while(|name| cached.contains(name)).count();
            found += hits as u64;
            // The hits are held first, so that no block of the request evicts them; then the others are allocated one by
            // one, each in the place of the least recently used block that the request does not hold.
            let mut held = names[..hits].to_vec();
            cached.retain(|name| !held.contains(name));
            for name in &names[hits..] {
                if held.len() == capacity {
                    break;
                }
                if cached.len() + held.len() == capacity {
                    cached.pop();
                }
                cached.retain(|other| other != name);
                held.push(name.clone());
            }
            cached = [held, cached].concat();
            assert!(cached.len() <= capacity);
        }
        found
    }

    fn found_at(reuse: &Reuse, capacity: usize) -> u64 {
        let within = reuse.depths.iter().take_while(|&&depth| depth <= capacity as u64).count();
        reuse.blocks[..within].iter().sum()
    }

    const ALL: Lookup = Lookup { block_tokens: 4, full_blocks: false, answers: false };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn every_capacity_finds_what_a_cache_of_that_size_finds(
            prompts in prop::collection::vec((prop::collection::vec(0u64..3, 1..7), 0u32..1), 1..40),
        ) {
            let reuse = Reuse::of(&trace(&prompts, 4), ALL).unwrap();
            let all = reuse.distinct as usize;
            for capacity in 1..=all + 1 {
                prop_assert_eq!(found_at(&reuse, capacity), simulated(&prompts, capacity), "{} blocks", capacity);
            }
        }
    }

    #[test]
    fn a_block_is_found_once_the_cache_holds_all_used_since() {
        // Blocks of 4 tokens. The third prompt has the first block of the first prompt, after two other blocks, and the
        // second prompt's first block since.
        let reuse = Reuse::of(&trace(&[(vec![1, 2], 0), (vec![3, 4], 0), (vec![1, 5], 0)], 4), ALL).unwrap();
        // On the stack: 3, 4, 1, 2.
        assert_eq!((reuse.depths, reuse.blocks, reuse.tokens), (vec![3], vec![1], vec![4]));
        assert_eq!((reuse.asked_blocks, reuse.asked_tokens, reuse.distinct), (6, 24, 5));
    }

    #[test]
    fn where_blocks_must_be_full_the_last_token_is_computed() {
        // 8 tokens are two blocks, of which the second has the last token; 9 tokens are two full blocks and a token.
        for (more, depths) in [(0, vec![1]), (1, vec![1, 2])] {
            let lookup = Lookup { full_blocks: true, ..ALL };
            let reuse = Reuse::of(&trace(&[(vec![1, 2], more), (vec![1, 2], more)], 4), lookup).unwrap();
            assert_eq!(reuse.depths, depths);
        }
    }

    #[test]
    fn a_turn_finds_the_tokens_of_the_turn_before() {
        let trace = Trace {
            arrival: vec![0; 2].into(),
            prompt_tokens: vec![5, 12].into(),
            output_tokens: vec![5, 1].into(),
            session: Some(vec![0, 0].into()),
            ..Trace::default()
        };
        let tokens = |full_blocks, answers| {
            let lookup = Lookup { block_tokens: 4, full_blocks, answers };
            Reuse::of(&trace, lookup).unwrap().tokens
        };
        assert_eq!(tokens(false, true), [4, 4, 2], "the 10 tokens of the first turn");
        assert_eq!(tokens(false, false), [4, 1], "the 5 tokens of its prompt");
        assert_eq!(tokens(true, true), [4, 4], "two full blocks");
        assert_eq!(tokens(true, false), [4]);
    }

    #[test]
    fn answers_take_room_although_no_prompt_has_them() {
        let mut trace = trace(&[(vec![1], 0), (vec![2], 0), (vec![1], 0)], 4);
        trace.output_tokens = vec![9; 3].into();
        let depth = |answers| Reuse::of(&trace, Lookup { answers, ..ALL }).unwrap().depths;
        assert_eq!(depth(false), [2]);
        // 13 tokens are three blocks and a token: three more blocks in front of each prompt's.
        assert_eq!(depth(true), [5]);
    }
}
