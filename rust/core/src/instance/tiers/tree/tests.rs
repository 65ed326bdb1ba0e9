use std::sync::Arc;

use super::*;
use crate::config::{CopyTime, Eviction, PrefixCacheConfig, PrefixTreeConfig};
use crate::kv::{BlockTable, ContentOwner, Hits, Prefixes};
use crate::trace::TraceRow;

/// Copies of 5 ticks and 1 for each block, over 4 layers, and a memory of 10 blocks of one token whose tree the host has, too.
fn tier(write: Write) -> (TreeTier, Memory) {
    let time = CopyTime { fixed: 5, block: 1 };
    let config = TierConfig {
        chunks: 20,
        chunk_blocks: 1,
        eviction: Eviction::Lru,
        prompts_only: false,
        write,
        store_threshold: 0,
        sync_tokens: 0,
        overlap_layers: 4,
        polls_at_end: true,
        store: time,
        load: time,
        below: None,
    };
    let tree = Some(PrefixTreeConfig { passes: 0, most: 0, least_load: 0 });
    let caching = PrefixCacheConfig { unknown_first: true, evict: None, tree };
    let memory = Memory::new(10, 1, Some(&caching), Arc::new(Prefixes::none()));
    (TreeTier::new(&config, true), memory.with_host(20, write.insertions()))
}

/// A request with a prompt of its own, of `tokens` tokens, computes and leaves.
fn serve(memory: &mut Memory, row: u32, tokens: u32) {
    let (owner, mut table) = (ContentOwner::of_prompt(TraceRow(row), tokens), BlockTable::default());
    memory.adopt(&Hits::default(), &mut table);
    memory.allocate(u64::from(tokens), &mut table).expect("the blocks are free");
    memory.release(owner, tokens, false, &mut table);
}

#[test]
fn what_is_inserted_is_held_until_a_step_sees_that_it_was_copied() {
    let (mut tier, mut memory) = tier(Write::Through);
    serve(&mut memory, 0, 3);
    serve(&mut memory, 1, 2);
    tier.flush(100, 100, &mut memory);
    assert_eq!((memory.free(), tier.next_end()), (5, Some(110)), "one copy of five blocks");
    serve(&mut memory, 2, 1);
    tier.flush(101, 101, &mut memory);
    tier.open(110, 109, &mut memory);
    assert_eq!(memory.free(), 4, "the step was decided before the end");
    tier.open(110, 110, &mut memory);
    assert_eq!((memory.free(), tier.next_end()), (9, Some(116)), "the copies follow one another");
    assert_eq!(tier.stats(&memory).stored_blocks, 6);
}

#[test]
fn chunks_that_are_inserted_last_are_copied_with_the_next_step() {
    let (mut tier, mut memory) = tier(Write::Through);
    serve(&mut memory, 0, 3);
    tier.keep(&memory);
    serve(&mut memory, 1, 2);
    tier.open(7, 7, &mut memory);
    assert_eq!(tier.next_end(), Some(7 + 5 + 2), "a request that was cancelled does not wait");
    tier.flush(20, 20, &mut memory);
    assert_eq!((tier.next_end(), memory.free()), (Some(20 + 5 + 3), 7));
}

#[test]
fn a_step_waits_for_what_it_evicts_and_loads_after_what_made_room_for_the_loads() {
    let (mut tier, mut memory) = tier(Write::Back);
    serve(&mut memory, 0, 3);
    serve(&mut memory, 1, 2);
    tier.open(100, 100, &mut memory);
    memory.evict_unheld();
    tier.begin_loads(&mut memory);
    assert_eq!(tier.begin_forward(&mut memory), 100 + (5 + 3) + (5 + 2), "node by node");
    let owner = ContentOwner::of_prompt(TraceRow(0), 3);
    let (mut hits, mut table) = (Hits::default(), BlockTable::default());
    memory.find(owner, 4, &mut hits);
    assert_eq!((hits.len(), hits.on_host()), (0, 3));
    tier.open(200, 200, &mut memory);
    memory.use_found(&mut hits);
    memory.adopt(&hits, &mut table);
    let end = memory.load_prefix(&hits, &mut table);
    tier.load(end, 3);
    assert_eq!(tier.admit(RequestNumber(0), (0, 3)), 0, "no store is below the host");
    serve(&mut memory, 2, 7);
    memory.make_room(7);
    tier.begin_loads(&mut memory);
    assert_eq!(
        (tier.begin_forward(&mut memory), tier.next_end()),
        (200 + (5 + 7), Some(200 + (5 + 7) + (5 + 3)))
    );
    assert_eq!((table.count(), memory.used(), tier.stats(&memory).loaded_blocks), (3, 3, 3));
    let log = tier.take_log().expect("it is recorded");
    assert_eq!(
        log.steps.iter().map(|row| (row.start, row.chunks)).collect::<Vec<_>>(),
        [(100, 5), (200, 12)]
    );
    assert_eq!(log.steps[1].hits, [(0, 0, 3)]);
    // The load is under way.
    let ended: Vec<_> = log.jobs.iter().map(|job| (job.kind, job.blocks, job.ends, job.reported)).collect();
    assert_eq!(ended, [("store", 3, 108, 108), ("store", 2, 115, 115), ("store", 7, 212, 212)]);
}
