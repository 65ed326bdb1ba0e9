//! The memory without a tree: releases, returns and shared blocks.

use super::*;
use crate::trace::{OutputIds, PrefixIds, Trace, TraceRow};

const FIRST: ContentOwner = ContentOwner { row: TraceRow(0), prompt: 12, known: 99 };

fn memory(caches: bool) -> Memory {
    let caching = caches.then_some(PrefixCacheConfig { unknown_first: true, evict: None, tree: None });
    Memory::new(10, 4, caching.as_ref(), Arc::new(Prefixes::none()))
}

#[test]
fn a_request_that_returns_finds_its_full_blocks() {
    let (mut memory, mut table, mut hits) = (memory(true), BlockTable::default(), Hits::default());
    memory.allocate(3, &mut table).expect("all blocks are free");
    memory.release(FIRST, 10, true, &mut table);
    assert_eq!((memory.free(), table.count()), (10, 0));
    memory.find(FIRST, 12, &mut hits);
    assert_eq!((hits.len(), memory.matched(FIRST, 12)), (2, 2), "10 tokens fill two blocks of 4");
    assert_eq!(memory.unheld(&hits), 2);
    memory.adopt(&hits, &mut table);
    assert_eq!((memory.used(), memory.unheld(&hits), table.count()), (2, 0, 2));
}

#[test]
fn blocks_of_the_decode_set_are_assigned_when_a_request_leaves_it() {
    for caches in [false, true] {
        let (mut memory, mut table) = (memory(caches), BlockTable::default());
        memory.allocate(2, &mut table).expect("all blocks are free");
        memory.allocate_unassigned(3).expect("eight blocks are free");
        table.set_count(4);
        memory.assign(FIRST, 13, &mut table);
        assert_eq!(memory.used(), 5);
        memory.release(FIRST, 13, false, &mut table);
        assert_eq!((memory.used(), table.count()), (1, 0), "the fifth block is another request's");
    }
}

#[test]
fn a_shared_block_is_freed_by_its_last_holder() {
    let mut memory = memory(true);
    let (mut one, mut other, mut hits) = (BlockTable::default(), BlockTable::default(), Hits::default());
    memory.allocate(2, &mut one).expect("all blocks are free");
    memory.release(FIRST, 8, true, &mut one);
    memory.find(FIRST, 12, &mut hits);
    memory.adopt(&hits, &mut one);
    memory.adopt(&hits, &mut other);
    assert_eq!(memory.used(), 2);
    let mut released = Released::default();
    assert_eq!(memory.freed_by(&one, 2, &mut released), 0);
    assert_eq!(memory.unheld_after(&hits, &released), 0);
    assert_eq!(memory.freed_by(&other, 2, &mut released), 2);
    assert_eq!(memory.unheld_after(&hits, &released), 2);
}

#[test]
fn the_last_token_is_never_found() {
    let (mut memory, mut table, mut hits) = (memory(true), BlockTable::default(), Hits::default());
    memory.allocate(2, &mut table).expect("all blocks are free");
    memory.release(FIRST, 8, true, &mut table);
    for (tokens, found) in [(4, 0), (5, 1), (8, 1), (9, 2)] {
        memory.find(FIRST, tokens, &mut hits);
        assert_eq!((hits.len(), memory.matched(FIRST, tokens)), (found, found), "{tokens} tokens");
    }
}

#[test]
fn a_request_that_comes_with_blocks_is_given_them() {
    let (mut memory, mut table) = (memory(true).listing_given(), BlockTable::default());
    memory.allocate(2, &mut table).expect("all blocks are free");
    let blocks = table.blocks().to_vec();
    memory.forget_given();
    assert_eq!(memory.given().count(), 0);
    memory.give_again(&table);
    assert_eq!(memory.given().collect::<Vec<_>>(), blocks);
}

#[test]
fn the_first_block_of_an_output_says_whether_others_may_find_it() {
    // Blocks of 2 tokens. The output of row 0 fills the second half of its second block, with an id that row 1 has, too.
    let ids = PrefixIds {
        ends: vec![2, 4].into(),
        ids: vec![7, 8, 7, 8].into(),
        block_tokens: 2,
        outputs: Some(OutputIds { ends: vec![1, 1].into(), ids: vec![8].into() }),
    };
    let trace = Trace {
        arrival: vec![0, 0].into(),
        prompt_tokens: vec![3, 4].into(),
        output_tokens: vec![2, 1].into(),
        prefix: Some(ids),
        ..Trace::default()
    };
    let prefixes = Arc::new(Prefixes::new(&trace, 2).expect("few contents"));
    for caches in [true, false] {
        let caching = caches.then_some(PrefixCacheConfig { unknown_first: true, evict: None, tree: None });
        let memory = Memory::new(10, 2, caching.as_ref(), Arc::clone(&prefixes));
        let shares = [(0, 3), (1, 4)].map(|(row, prompt)| {
            memory.shares_output(ContentOwner { row: TraceRow(row), prompt, known: 99 })
        });
        assert_eq!(shares, [caches, false], "the output of row 1 has no ids");
    }
}
