//! Requests that finish, that their clients cancel, or that move between instances.
//!
//! A request that has left offers what it has computed and not stored; its copies go on. The blocks of one that was
//! cancelled while its chunks are loaded are kept until the load has ended (`finish_requests` and
//! `_update_from_kv_xfer_finished` in `vllm/v1/core/sched/scheduler.py`, vLLM 0.33.0). A request that moves has finished here,
//! and the instance that has received its KV offers all its chunks (`update_state_after_alloc` of `multi_connector.py`, which
//! gives the offloading connector the blocks that another connector has filled).

use super::ChunkTier;
use crate::instance::request::Slot;
use crate::instance::tiers::transfers::Kind;
use crate::kv::{Block, ContentOwner};
use crate::trace::RequestNumber;

/// Requests that have left.
#[derive(Debug, Default)]
pub(super) struct Departed {
    /// Those that have left since a step was formed.
    pub(super) finished: Vec<u32>,
    /// Those that were cancelled and whose load has ended since: their blocks are to be freed.
    pub(super) unloaded: Vec<Slot>,
}

impl ChunkTier {
    /// A request has left, with the KV of `computed` tokens in `blocks`, which are freed. It has no blocks if it was preempted:
    /// the step that preempted it waits for its copies.
    pub(in crate::instance) fn finish(&mut self, slot: Slot, computed: u32, blocks: &[Block]) {
        let Some(id) = self.end_use(slot, computed) else { return };
        self.uses.get_mut(id).blocks = blocks.to_vec();
        self.fence(id);
        if let Some(ahead) = &mut self.ahead {
            ahead.news = true;
        }
    }

    /// The same of a request that moves to another instance. `runs`: a step is in progress.
    pub(in crate::instance) fn depart(&mut self, slot: Slot, computed: u32, blocks: &[Block], runs: bool) {
        if !self.is_decided_ahead(runs) {
            self.finish(slot, computed, blocks);
            return;
        }
        let Some(id) = self.end_use(slot, computed) else { return };
        self.uses.get_mut(id).blocks = blocks.to_vec();
        if let Some(ahead) = &mut self.ahead {
            ahead.ended.push(id);
        }
    }

    /// A request is admitted whose KV another instance has sent: it offers all its chunks.
    pub(in crate::instance) fn receive(&mut self, slot: Slot, request: RequestNumber, owner: ContentOwner) {
        let id = self.uses.enter(slot, request, owner);
        self.uses.note_behind(id, true);
    }

    /// The same as [`Self::finish`] of a request that the step which is formed preempts, and whose end it does not know.
    pub(in crate::instance) fn finish_preempted(&mut self, slot: Slot) {
        self.preempt(slot);
        let Some(id) = self.end_use(slot, 0) else { return };
        match &mut self.ahead {
            Some(ahead) => ahead.ended.push(id),
            None => self.departed.finished.push(id),
        }
    }

    fn end_use(&mut self, slot: Slot, computed: u32) -> Option<u32> {
        let id = self.uses.leave(slot)?;
        self.uses.note_behind(id, false);
        self.uses.get_mut(id).rest = self.rules.complete(self.uses.get(id).owner.prompt, computed);
        Some(id)
    }

    /// Has a step wait for the open stores of a request that has left if it reuses their blocks. The next step that is closed
    /// stores what the request has left to store.
    pub(super) fn fence(&mut self, id: u32) {
        let used = self.uses.get(id);
        if !used.blocks.is_empty() {
            for &job in &used.jobs {
                let blocks = self.stored_blocks(job, &used.blocks);
                self.fences.add(job, blocks);
            }
        }
        self.departed.finished.push(id);
    }

    /// A request is cancelled that waits for a load, or to be admitted after one. Returns its tokens whose KV is known.
    pub(in crate::instance) fn cancel_load(&mut self, slot: Slot, computed: u32) -> u32 {
        self.loading.retain(|&other| other != slot);
        let Some(id) = self.uses.id(slot) else { return computed };
        let used = self.uses.get_mut(id);
        let begun = used.begun.take();
        // The prefix cache knows the loaded blocks once a step has seen the end of the load.
        begun.filter(|_| !used.promoted).map_or(computed, |begun| begun.wanted.cached)
    }

    /// Has the blocks of a request that was cancelled stay until its load has ended. Returns whether they do.
    pub(in crate::instance) fn keeps_blocks(&mut self, slot: Slot) -> bool {
        let Some(id) = self.uses.id(slot) else { return false };
        let loads = |&job: &u32| self.copies.jobs.kind_of(job) == Some(Kind::Load);
        let keeps = self.uses.get(id).jobs.iter().any(loads);
        if keeps {
            self.uses.get_mut(id).awaited = Some(slot);
        }
        keeps
    }

    /// Removes and returns the requests that were cancelled and whose load has ended since.
    pub(in crate::instance) fn take_unloaded(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.departed.unloaded)
    }

    /// Whether a step is in flight, or in progress as `runs` says, whose successor was decided as it started.
    pub(in crate::instance) fn is_decided_ahead(&self, runs: bool) -> bool {
        self.ahead.is_some() && (runs || self.has_launched())
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::TraceRow;
    use std::sync::Arc;

    use super::*;
    use crate::config::{CopyTime, Eviction, PrefixCacheConfig, TierConfig, Write};
    use crate::instance::tiers::Wanted;
    use crate::kv::{BlockTable, Memory, Prefixes};

    const OWNER: ContentOwner = ContentOwner { row: TraceRow(0), prompt: 8, known: 8 };

    /// A tier of 10 chunks of a block of 4 tokens; a copy of a block takes 5 ticks.
    fn tier(ahead: bool) -> ChunkTier {
        let time = CopyTime { fixed: 0, block: 5 };
        let config = TierConfig {
            chunks: 10,
            chunk_blocks: 1,
            eviction: Eviction::Lru,
            prompts_only: false,
            write: Write::Completed,
            store_threshold: 0,
            sync_tokens: 0,
            overlap_layers: 0,
            polls_at_end: false,
            store: time,
            load: time,
            below: None,
        };
        ChunkTier::new(&config, 4, (false, ahead), false)
    }

    /// A memory of 10 blocks, and those of a request.
    fn memory(blocks: u64) -> (Memory, BlockTable) {
        let caching = PrefixCacheConfig { unknown_first: true, evict: None, tree: None };
        let mut memory = Memory::new(10, 4, Some(&caching), Arc::new(Prefixes::none())).listing_given();
        let mut table = BlockTable::default();
        memory.allocate(blocks, &mut table).expect("all blocks are free");
        (memory, table)
    }

    #[test]
    fn what_a_cancelled_request_has_computed_is_stored_and_fenced() {
        let (mut memory, table) = memory(2);
        let mut tier = tier(false);
        tier.open(&[], 0);
        tier.admit((3, RequestNumber(0), OWNER), Wanted { cached: 0, loaded: 0, sync: false }, &memory);
        // A step computes the first block, and the request leaves with the second computed and not offered.
        memory.forget_given();
        assert_eq!(tier.close(&[(3, 4)], &[], &memory), 0);
        tier.send_others(10);
        tier.finish(3, 8, table.blocks());
        tier.open(&[], 10);
        assert_eq!(tier.close(&[], &[], &memory), 10, "no step takes its blocks");
        assert!(tier.has_fences());
        assert_eq!((tier.chunks(), tier.stats().stored_blocks), (2, 2));
    }

    #[test]
    fn a_cancelled_load_keeps_its_slot_until_it_has_ended() {
        let (memory, table) = memory(1);
        let mut tier = tier(false);
        let nothing = Wanted { cached: 0, loaded: 0, sync: false };
        let load = Wanted { cached: 0, loaded: 4, sync: false };
        tier.open(&[], 0);
        tier.admit((3, RequestNumber(0), OWNER), nothing, &memory);
        tier.close(&[(3, 4)], &[], &memory);
        tier.send_others(10);
        tier.finish(3, 4, table.blocks());
        tier.open(&[], 20);
        tier.close(&[], &[], &memory);
        assert!(tier.pass_step(20), "the store has ended");
        // It comes again, and its load takes from 20 to 25.
        tier.open(&[], 20);
        tier.admit((3, RequestNumber(0), OWNER), load, &memory);
        tier.note_load(3, load, 20);
        tier.close(&[], &[], &memory);
        tier.pass_step(20);
        assert_eq!(tier.cancel_load(3, 4), 0, "the prefix cache does not know what is loaded");
        assert!(tier.loading().is_empty());
        assert!(tier.keeps_blocks(3));
        tier.finish(3, 0, table.blocks());
        assert_eq!((tier.keeps_blocks(3), tier.take_unloaded()), (false, vec![]));
        tier.open(&[], 25);
        tier.close(&[], &[], &memory);
        tier.pass_step(25);
        assert_eq!(tier.take_unloaded(), [3]);
    }

    #[test]
    fn a_step_decided_ahead_does_not_know_of_a_request_that_departs() {
        for (runs, known) in [(true, 1), (false, 2)] {
            let (memory, table) = memory(2);
            let mut tier = tier(true);
            tier.open(&[], 0);
            tier.receive(3, RequestNumber(0), OWNER);
            tier.depart(3, 8, table.blocks(), runs);
            tier.close(&[], &[], &memory);
            assert_eq!(tier.chunks(), 2 * (known - 1), "the step stores what it knows of");
            tier.learn_reports();
            tier.open(&[], 0);
            tier.close(&[], &[], &memory);
            assert_eq!(tier.chunks(), 2);
        }
    }
}
