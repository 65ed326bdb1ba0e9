//! Tests of the prefix cache against a naive model.

use super::*;
use crate::kv::first_copies::PAGE;
use crate::trace::TraceRow;
use proptest::prelude::*;
use std::collections::VecDeque;

/// Allocates blocks.
fn take(cache: &mut PrefixCache, count: u64) -> Vec<Block> {
    let mut taken = Vec::new();
    cache.take(count, &mut taken);
    taken
}

/// The block with the first copy of a content.
fn find(cache: &PrefixCache, content: Content) -> Option<Block> {
    let mut found = None;
    cache.find(Contents::one(content), |blocks| found = blocks.first().copied());
    found
}

/// A naive model of the pool.
struct Naive {
    queue: VecDeque<u32>,
    references: Vec<u32>,
    copies: Vec<Vec<u32>>,
}

impl Naive {
    fn holds(&self, block: u32) -> Option<usize> {
        self.copies.iter().position(|copies| copies.contains(&block))
    }
}

#[test]
fn memory_is_in_proportion_to_used_blocks() {
    let mut cache = PrefixCache::new(u32::MAX - 1, u32::MAX as usize - 1, true);
    let blocks = take(&mut cache, 3);
    assert_eq!(blocks, [0, 1, 2]);
    cache.register(&[0], Contents::one(Content::shared(u32::MAX - 2)));
    cache.release(blocks.into_iter());
    // Unknown blocks are reused first, known ones after all that were never allocated.
    assert_eq!(take(&mut cache, 4), [1, 2, 3, 4]);
    assert_eq!(find(&cache, Content::shared(u32::MAX - 2)), Some(0));
    assert_eq!(cache.entries.len(), 6);
    assert_eq!(cache.shared.pages_in_use(), 1);
}

#[test]
fn the_last_content_of_a_full_page_is_found() {
    let mut cache = PrefixCache::new(1, PAGE, false);
    let (blocks, last) = (take(&mut cache, 1), Content::shared(PAGE as u32 - 1));
    cache.register(&blocks, Contents::one(last));
    assert_eq!(find(&cache, last), Some(blocks[0]));
}

#[test]
fn a_lookup_over_two_pages_finds_no_more_than_it_asks_for() {
    let mut cache = PrefixCache::new(6, PAGE + 3, false);
    let (blocks, first) = (take(&mut cache, 6), Content::shared(PAGE as u32 - 3));
    cache.register(&blocks, Contents { first, count: 6 });
    let mut found = Vec::new();
    let count = cache.find(Contents { first, count: 4 }, |some| found.extend_from_slice(some));
    assert_eq!((count, &found[..]), (4, &blocks[..4]));
}

#[test]
fn a_copy_of_own_content_is_found_once_the_first_is_reused() {
    let (mut cache, own) = (PrefixCache::new(2, 0, false), Content::own(TraceRow(3), 0));
    let blocks = take(&mut cache, 2);
    for &block in &blocks {
        cache.register(&[block], Contents::one(own));
        cache.publish(&[block]);
        cache.release([block].into_iter());
    }
    assert_eq!(find(&cache, own), Some(blocks[0]));
    assert_eq!(take(&mut cache, 1), blocks[..1], "it was freed first");
    assert_eq!((find(&cache, own), cache.known_free()), (Some(blocks[1]), 1));
}

proptest! {
    #[test]
    fn a_cache_equals_a_naive_model(
        capacity in 1u32..12,
        unknown_first in any::<bool>(),
        actions in prop::collection::vec((0u8..4, 0u32..6, 0usize..12), 0..80),
    ) {
        // The contents lie on two pages.
        const CONTENTS: u32 = 6;
        const FIRST: u32 = PAGE as u32 - 3;
        let of = |content: u32, count: u32| Contents { first: Content::shared(FIRST + content), count };
        let mut cache = PrefixCache::new(capacity, (FIRST + CONTENTS) as usize, unknown_first);
        let mut naive = Naive {
            queue: (0..capacity).collect(),
            references: vec![0; capacity as usize],
            copies: vec![Vec::new(); CONTENTS as usize],
        };
        let mut held: Vec<u32> = Vec::new();
        for (action, content, pick) in actions {
            match action {
                0 if cache.free() > 0 => {
                    let count = 1 + pick % cache.free() as usize;
                    let blocks: Vec<_> = naive.queue.drain(..count).collect();
                    for &block in &blocks {
                        naive.copies.iter_mut().for_each(|copies| copies.retain(|&b| b != block));
                        naive.references[block as usize] = 1;
                    }
                    prop_assert_eq!(take(&mut cache, count as u64), blocks.clone());
                    held.extend(blocks);
                }
                1 => {
                    let copies = &naive.copies[content as usize..];
                    let firsts: Vec<_> = copies.iter().map_while(|copies| copies.first().copied()).collect();
                    let mut found = Vec::new();
                    let count = cache.find(of(content, CONTENTS - content), |blocks| found.extend_from_slice(blocks));
                    prop_assert_eq!((count as usize, &found), (firsts.len(), &firsts));
                    for &block in &found {
                        naive.queue.retain(|&b| b != block);
                        naive.references[block as usize] += 1;
                    }
                    cache.touch(&found);
                    held.extend(found);
                }
                2 if !held.is_empty() => {
                    let from = &held[pick % held.len()..];
                    let mut blocks: Vec<u32> = Vec::new();
                    for &block in from.iter().take((CONTENTS - content) as usize) {
                        if naive.holds(block).is_some() || blocks.contains(&block) {
                            break;
                        }
                        naive.copies[content as usize + blocks.len()].push(block);
                        blocks.push(block);
                    }
                    cache.register(&blocks, of(content, blocks.len() as u32));
                }
                3 if !held.is_empty() => {
                    let leaving = held.split_off(pick % held.len());
                    cache.release(leaving.iter().copied());
                    let mut unknown = Vec::new();
                    for &block in &leaving {
                        naive.references[block as usize] -= 1;
                        if naive.references[block as usize] > 0 {
                            continue;
                        }
                        if unknown_first && naive.holds(block).is_none() {
                            unknown.push(block);
                        } else {
                            naive.queue.push_back(block);
                        }
                    }
                    unknown.iter().rev().for_each(|&block| naive.queue.push_front(block));
                }
                _ => {}
            }
            prop_assert_eq!(cache.free(), naive.queue.len() as u64);
            let known = naive.queue.iter().filter(|&&block| naive.holds(block).is_some()).count();
            prop_assert_eq!(cache.known_free(), known as u64);
            for block in 0..capacity {
                prop_assert_eq!(cache.is_free(block), naive.references[block as usize] == 0);
            }
        }
    }
}
