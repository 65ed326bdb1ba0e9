//! A radix tree of the prompts that a router has routed, with an owner for each node.
//!
//! The owner of a node is the instance to which the prompt was routed that created it. When a node is split, both parts
//! keep the owner. Nodes are never removed: no capacity is modelled.

use rustc_hash::FxHashMap;

use super::texts::Texts;
use crate::trace::Trace;

/// A radix tree of prompts with an owner for each node.
#[derive(Debug)]
pub(super) struct PromptTree {
    texts: Texts,
    /// The nodes; the first is the root.
    nodes: Vec<Node>,
    /// The child of a node whose text begins with a character.
    children: FxHashMap<(u32, u64), u32>,
}

/// A node: the characters `start..end` of the prompt of a row.
#[derive(Debug, Clone, Copy)]
struct Node {
    row: u32,
    start: u64,
    end: u64,
    owner: u32,
}

/// The part of a prompt that a tree has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::engine::router) struct Matched {
    /// The share of the prompt's characters that the tree has.
    pub(in crate::engine::router) share: f64,
    /// The owner of the last node that the prompt touches.
    pub(in crate::engine::router) owner: usize,
}

impl PromptTree {
    /// An empty tree.
    pub(super) fn new(texts: Texts) -> Self {
        let root = Node { row: 0, start: 0, end: 0, owner: 0 };
        Self { texts, nodes: vec![root], children: FxHashMap::default() }
    }

    /// The part of the prompt of a row that the tree has, if it has its first character.
    pub(super) fn matched(&self, row: u32, trace: &Trace) -> Option<Matched> {
        let length = self.texts.len(row, trace);
        let (mut node, mut at) = (0, 0);
        while at < length {
            let Some(&child) = self.children.get(&(node, self.texts.character(row, at, trace))) else {
                break;
            };
            let Node { row: other, end, .. } = self.nodes[child as usize];
            at += self.texts.common((row, other), (at, end.min(length)), trace);
            node = child;
            if at < end {
                break;
            }
        }
        let owner = self.nodes[node as usize].owner as usize;
        (node > 0).then(|| Matched { share: at as f64 / length as f64, owner })
    }

    /// Inserts the prompt of a row that is routed to an instance.
    pub(super) fn insert(&mut self, row: u32, instance: usize, trace: &Trace) {
        let length = self.texts.len(row, trace);
        let (mut node, mut at) = (0, 0);
        while at < length {
            let first = self.texts.character(row, at, trace);
            let Some(&child) = self.children.get(&(node, first)) else {
                let leaf = self.push(Node { row, start: at, end: length, owner: instance as u32 });
                self.children.insert((node, first), leaf);
                return;
            };
            let Node { row: other, start, end, owner } = self.nodes[child as usize];
            at = start + self.texts.common((row, other), (start, end.min(length)), trace);
            if at == end {
                node = child;
                continue;
            }
            // Splits the child: the upper part keeps its owner, the lower part its children.
            let upper = self.push(Node { row: other, start, end: at, owner });
            self.nodes[child as usize].start = at;
            self.children.insert((node, first), upper);
            self.children.insert((upper, self.texts.character(other, at, trace)), child);
            node = upper;
        }
    }

    fn push(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::kv::Prefixes;
    use crate::policy::PromptText;
    use crate::trace::PrefixIds;
    use proptest::prelude::*;

    /// A trace of prompts in blocks of 4 tokens: the ids of their blocks, the last of which has `tail` tokens.
    fn trace(prompts: &[(Vec<u64>, u32)]) -> Trace {
        let mut ends = Vec::new();
        let mut ids = Vec::new();
        for (blocks, _) in prompts {
            ids.extend(blocks);
            ends.push(ids.len());
        }
        let tokens = prompts.iter().map(|(blocks, tail)| (blocks.len() as u32 - 1) * 4 + tail);
        Trace {
            arrival: vec![0; prompts.len()].into(),
            prompt_tokens: tokens.collect(),
            output_tokens: vec![1; prompts.len()].into(),
            prefix: Some(PrefixIds { ends: ends.into(), ids: ids.into(), block_tokens: 4, outputs: None }),
            ..Trace::default()
        }
    }

    fn tree(kind: PromptText, trace: &Trace) -> PromptTree {
        PromptTree::new(Texts::new(kind, Arc::new(Prefixes::new(trace, 4).unwrap()), 4))
    }

    /// The text of a prompt, spelled out.
    fn spelled(kind: PromptText, (blocks, tail): &(Vec<u64>, u32)) -> Vec<char> {
        let block = |(at, id): (usize, &u64)| {
            let tokens = if at + 1 == blocks.len() { *tail } else { 4 };
            match kind {
                PromptText::Tokens => vec![char::from(b'a' + *id as u8); tokens as usize],
                PromptText::Hex => format!("{id:08x}").chars().take(tokens as usize * 2).collect(),
            }
        };
        blocks.iter().enumerate().flat_map(block).collect()
    }

    #[test]
    fn the_owner_of_a_node_is_the_instance_that_created_it() {
        let trace = trace(&[(vec![1, 2, 3], 4), (vec![1, 2, 4], 4), (vec![1, 2, 3], 2), (vec![9], 4)]);
        let mut tree = tree(PromptText::Tokens, &trace);
        assert_eq!(tree.matched(0, &trace), None);
        tree.insert(0, 5, &trace);
        tree.insert(1, 6, &trace);
        // The first eight tokens were split off, and keep their owner.
        assert_eq!(tree.matched(1, &trace), Some(Matched { share: 1.0, owner: 6 }));
        assert_eq!(tree.matched(2, &trace), Some(Matched { share: 1.0, owner: 5 }));
        assert_eq!(tree.matched(3, &trace), None);
    }

    #[test]
    fn hexadecimal_blocks_may_share_their_first_digits() {
        let trace = trace(&[(vec![0x1234_5678, 0x1111_1111], 4), (vec![0x1234_5678, 0x1122_2222], 4)]);
        let mut tree = tree(PromptText::Hex, &trace);
        tree.insert(0, 1, &trace);
        assert_eq!(tree.matched(1, &trace), Some(Matched { share: 10.0 / 16.0, owner: 1 }));
    }

    proptest! {
        #[test]
        fn a_tree_matches_as_much_as_the_longest_common_prefix(
            hex in any::<bool>(),
            prompts in prop::collection::vec(
                (prop::collection::vec(prop::sample::select(vec![1_u64, 2, 0x12, 0x1200_0000]), 1..5), 1_u32..=4),
                1..12,
            ),
        ) {
            let kind = if hex { PromptText::Hex } else { PromptText::Tokens };
            let trace = trace(&prompts);
            let mut tree = tree(kind, &trace);
            let texts: Vec<_> = prompts.iter().map(|prompt| spelled(kind, prompt)).collect();
            for (row, text) in texts.iter().enumerate() {
                let common = |other: &Vec<char>| text.iter().zip(other).take_while(|(a, b)| a == b).count();
                let longest = texts[..row].iter().map(common).max().unwrap_or(0);
                // The owner of the last character in common is the first prompt that has it.
                let owner = texts[..row].iter().position(|other| common(other) == longest);
                let expected = owner.filter(|_| longest > 0).map(|owner| {
                    Matched { share: longest as f64 / text.len() as f64, owner }
                });
                prop_assert_eq!(tree.matched(row as u32, &trace), expected);
                tree.insert(row as u32, row, &trace);
            }
        }
    }
}
