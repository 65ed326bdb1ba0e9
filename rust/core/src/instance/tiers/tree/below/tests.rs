use std::sync::Arc;

use super::*;
use crate::config::{CopyTime, PrefixCacheConfig, PrefixTreeConfig, StoreConfig, StoreEviction};
use crate::kv::{BlockTable, Hits, Prefixes};
use crate::trace::TraceRow;

/// A store that writes and reads a block in a tick, below a host of `chunks` blocks.
fn below(stop: PrefetchStop, chunks: u64) -> (TreeBelow, Memory) {
    let config = StoreConfig { chunks: None, eviction: StoreEviction::None, write: 0, read: 0 };
    let time = CopyTime { fixed: 0, block: 1 };
    let link = StoreLink { store: 0, write: time, read: time, prefetch: Some(Prefetch { least: 2, stop }) };
    let tree = Some(PrefixTreeConfig { passes: 0, most: 0, least_load: 0 });
    let caching = PrefixCacheConfig { unknown_first: true, evict: None, tree };
    let memory = Memory::new(1000, 1, Some(&caching), Arc::new(Prefixes::none()));
    let below = TreeBelow::new(link, chunks, 1, &[SharedStore::new(&config)]).expect("it prefetches");
    (below, memory.with_host(chunks, Some(1)))
}

/// A request computes a prompt, which is written to the store and lost by the GPU and the host.
fn write(below: &mut TreeBelow, memory: &mut Memory, tokens: u32, now: Ticks) {
    let (owner, mut table) = (ContentOwner::of_prompt(TraceRow(0), tokens), BlockTable::default());
    memory.adopt(&Hits::default(), &mut table);
    memory.allocate(u64::from(tokens), &mut table).expect("the blocks are free");
    memory.release(owner, tokens, false, &mut table);
    for node in memory.take_written(0) {
        memory.end_write(node.0);
        below.write(node, now, memory);
    }
    memory.evict_unheld();
    let ended = below.look(now + Ticks::from(tokens));
    below.settle(ended, now, memory);
    let tree = memory.hosted_mut().expect("it has a tree");
    let all = 2 * below.limit;
    assert_eq!(tree.take_room(all, all), all, "nothing keeps it on the host");
    tree.leave_room(all);
}

fn look(below: &mut TreeBelow, memory: &mut Memory, now: Ticks) {
    let ended = below.look(now);
    below.settle(ended, now, memory);
    memory.check_accounts();
}

const REQUEST: RequestNumber = RequestNumber(7);

fn begin(below: &mut TreeBelow, memory: &mut Memory, tokens: u32, now: Ticks) {
    below.begin((REQUEST, ContentOwner::of_prompt(TraceRow(0), tokens), tokens + 1), now, memory);
}

#[test]
fn batches_are_read_one_after_the_other_and_taken_in_once_all_have_been() {
    let (mut below, mut memory) = below(PrefetchStop::WaitComplete, 300);
    write(&mut below, &mut memory, 300, 0);
    begin(&mut below, &mut memory, 300, 1000);
    look(&mut below, &mut memory, 1000);
    assert_eq!((below.next_end(), memory.on_host()), (Some(1000 + 128), 300));
    look(&mut below, &mut memory, 1200);
    assert_eq!((below.next_end(), below.awaits(REQUEST, 1200, &mut memory)), (Some(1000 + 256), true));
    look(&mut below, &mut memory, 1300);
    assert!(!below.awaits(REQUEST, 1300, &mut memory));
    assert_eq!((memory.on_host(), below.has_news(1300)), (300, false));
    assert_eq!(below.admit(REQUEST, (10, 290)), 290);
}

#[test]
fn a_read_that_its_request_waits_for_no_more_ends_with_its_batch() {
    let (mut below, mut memory) = below(PrefetchStop::Timeout { base: 150, per_ki_token: 0 }, 300);
    write(&mut below, &mut memory, 300, 0);
    begin(&mut below, &mut memory, 300, 1000);
    look(&mut below, &mut memory, 1000);
    assert!(below.awaits(REQUEST, 1000, &mut memory));
    assert_eq!(below.next_stop(), Some(1151), "it waits for longer than its time");
    look(&mut below, &mut memory, 1151);
    assert!(!below.awaits(REQUEST, 1151, &mut memory));
    assert_eq!((memory.on_host(), below.admit(REQUEST, (0, 300))), (300, 128));
    // The look that sees the end of the second batch has the next one give its room back.
    look(&mut below, &mut memory, 1256);
    assert_eq!((memory.on_host(), below.has_news(1256)), (300, true));
    look(&mut below, &mut memory, 1256);
    assert_eq!((memory.on_host(), below.next_end()), (128, None));
}

#[test]
fn no_read_begins_while_those_under_way_have_half_of_the_host() {
    let (mut below, mut memory) = below(PrefetchStop::BestEffort, 40);
    write(&mut below, &mut memory, 20, 0);
    begin(&mut below, &mut memory, 20, 100);
    let other = (RequestNumber(8), ContentOwner::of_prompt(TraceRow(0), 20), 21);
    below.begin(other, 100, &mut memory);
    look(&mut below, &mut memory, 100);
    assert_eq!((below.waits.len(), memory.on_host()), (1, 20));
    assert!(!below.awaits(REQUEST, 100, &mut memory));
    assert_eq!(below.admit(REQUEST, (0, 0)), 0, "it did not wait");
}
