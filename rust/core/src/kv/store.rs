//! All KV of one instance: the GPU's blocks, and the CPU's memory.

use std::sync::Arc;

use super::block_table::BlockTable;
use super::hits::Hits;
use super::memory::{ContentOwner, Memory};
use super::prefixes::Prefixes;
use super::residency::{Account, Residency, Tier};
use super::swap_space::SwapSpace;
use crate::config::InstanceConfig;
use crate::hint::rare;
use crate::metrics::{InstanceStats, PrefixStats};
use crate::policy::Field;
use crate::time::Ticks;

/// The KV of one instance.
#[derive(Debug, Clone)]
pub(crate) struct KvStore {
    /// The memory of the GPU.
    gpu: Memory,
    /// The swap space.
    cpu: SwapSpace,
    /// Computed tokens whose KV is not on the GPU: swapped out, or migrated in and
    /// not admitted.
    account: Account,
    /// The most GPU blocks held at once.
    peak_blocks: u64,
    /// Tokens looked up in the prefix cache, once an admission, and found there.
    lookups: (u64, u64),
}

crate::checkpoint::checkpointed!(KvStore {
    values: account, peak_blocks, lookups;
    parts: gpu, cpu;
});

impl KvStore {
    /// The memory of an instance, all blocks free.
    pub(crate) fn new(config: &InstanceConfig, prefixes: &Arc<Prefixes>) -> Self {
        let caching = config.scheduler.prefix_cache.as_ref();
        let gpu = Memory::new(config.blocks, config.block_tokens, caching, Arc::clone(prefixes));
        let gpu = match &config.tier {
            Some(tier) if gpu.is_tree() => gpu.with_host(tier.chunks, tier.write.insertions()),
            Some(_) => gpu.listing_given(),
            None => gpu,
        };
        let lists = config.tier.as_ref().is_some_and(|tier| tier.write.heeds_lost_blocks());
        let gpu = if lists { gpu.listing_lost() } else { gpu };
        Self {
            gpu: match &config.speculation {
                None => gpu,
                Some(speculation) => gpu.with_speculation(speculation),
            },
            cpu: SwapSpace::new(config.scheduler.preemption),
            account: Account::default(),
            peak_blocks: 0,
            lookups: (0, 0),
        }
    }

    /// The GPU's blocks, to read.
    pub(crate) fn gpu(&self) -> &Memory {
        &self.gpu
    }

    /// The same, to change.
    pub(crate) fn gpu_mut(&mut self) -> &mut Memory {
        &mut self.gpu
    }

    /// The CPU's memory, to read.
    pub(crate) fn cpu(&self) -> &SwapSpace {
        &self.cpu
    }

    /// GPU blocks that no request holds.
    pub(crate) fn free(&self) -> u64 {
        self.gpu.free()
    }

    /// The account of the KV of requests that are not admitted.
    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// Notes KV that comes to a tier with the blocks that it has.
    pub(crate) fn enter(&mut self, tier: Tier, tokens: u32, table: &BlockTable) {
        self.account.enter(Residency::new(tier, tokens, table.count()));
    }

    /// Notes KV that leaves a tier with the blocks that it has: its request is admitted, or gone.
    pub(crate) fn leave(&mut self, tier: Tier, tokens: u32, table: &BlockTable) {
        self.account.leave(Residency::new(tier, tokens, table.count()));
    }

    /// Notes KV that is in another tier now, in the same blocks.
    pub(crate) fn relocate(&mut self, from: Tier, to: Tier, tokens: u32, table: &BlockTable) {
        self.account.relocate(Residency::new(from, tokens, table.count()), to);
    }

    /// Tokens whose KV is off the GPU.
    pub(crate) fn cpu_tokens(&self) -> u64 {
        self.account.held(Tier::Host).tokens + self.account.held(Tier::Landed).tokens
    }

    /// Notes the blocks held now, once a step is formed or applied.
    pub(crate) fn note_peak(&mut self) {
        self.peak_blocks = self.peak_blocks.max(self.gpu.used());
    }

    /// Allocates blocks for the decode set.
    ///
    /// # Panics
    ///
    /// If fewer are free: the scheduler has checked.
    pub(crate) fn allocate_unassigned(&mut self, blocks: u64) {
        self.gpu.allocate_unassigned(blocks).expect("Invariant: the decode set's blocks are free");
    }

    /// Allocates blocks for a request until it has `count`.
    ///
    /// # Panics
    ///
    /// If fewer are free: the scheduler has checked.
    pub(crate) fn grow(&mut self, count: u64, table: &mut BlockTable) {
        if count > table.count() {
            let allocated = self.gpu.allocate(count - table.count(), table);
            allocated.expect("Invariant: the blocks of a request are free when it is scheduled");
        }
    }

    /// Finds the blocks of the longest cached prefix of a sequence of `tokens`
    /// tokens, without its last token.
    pub(crate) fn find(&self, owner: ContentOwner, tokens: u32, hits: &mut Hits) {
        hits.clear();
        if self.gpu.caches() {
            self.gpu.find(owner, tokens, hits);
        }
    }

    /// Counts the lookup of an admission, of `tokens` tokens of which `hit` were cached.
    pub(crate) fn count_lookup(&mut self, tokens: u32, hit: u32) {
        if self.gpu.caches() {
            self.lookups.0 += u64::from(tokens);
            self.lookups.1 += u64::from(hit);
        }
    }

    /// Notes that a request is going to release its blocks, with the numbers of its fields that decide on their eviction.
    pub(crate) fn begin_release(&mut self, now: Ticks, number: impl Fn(Field) -> f64) {
        if let Some(eviction) = self.gpu.eviction() {
            rare();
            eviction.begin_freeing(now, number);
        }
    }

    /// The GPU's memory whose prefix cache is a tree, if it is one.
    pub(crate) fn tree_mut(&mut self) -> Option<&mut Memory> {
        self.gpu.is_tree().then_some(&mut self.gpu)
    }

    /// Swaps a request with `tokens` computed tokens out, `blocks` of its blocks copied. `seen`: its content and
    /// computed tokens, as far as they are known now. Returns whether there was room in the CPU's memory; if not,
    /// nothing changes.
    pub(crate) fn swap_out(
        &mut self,
        (owner, seen): (ContentOwner, u32),
        tokens: u32,
        blocks: u64,
        table: &mut BlockTable,
    ) -> bool {
        // Beside a tree, each request has its own copy.
        let known = if self.gpu.is_tree() { 0 } else { self.gpu.known_blocks(owner, seen) };
        if !self.cpu.copy_out(blocks, self.gpu.shared_of(owner, known)) {
            return false;
        }
        self.gpu.release_preempted((owner, seen), table);
        self.gpu.set_count_on_host(table, blocks, known);
        self.enter(Tier::Host, tokens, table);
        true
    }

    /// Swaps a request with `tokens` computed tokens in, to `blocks` GPU blocks: those that the prefix cache still has
    /// of it, unless that is a tree, and others. All its blocks are copied.
    pub(crate) fn swap_in(&mut self, owner: ContentOwner, tokens: u32, blocks: u64, table: &mut BlockTable) {
        self.cpu.copy_in(table.count(), self.gpu.shared_of(owner, table.registered()));
        self.leave(Tier::Host, tokens, table);
        table.clear();
        if self.gpu.caches() {
            let mut cached = Hits::default();
            if !self.gpu.is_tree() {
                self.gpu.find(owner, tokens + 1, &mut cached);
            }
            self.gpu.adopt(&cached, table);
        }
        self.grow(blocks, table);
    }

    /// Keeps KV of `tokens` tokens that was migrated in, off the GPU.
    pub(crate) fn receive(&mut self, tokens: u32, blocks: u64, table: &mut BlockTable) {
        table.set_count(blocks);
        self.enter(Tier::Landed, tokens, table);
    }

    /// Moves the KV of a request that was migrated in to the GPU, to `blocks` blocks.
    pub(crate) fn load(&mut self, tokens: u32, blocks: u64, table: &mut BlockTable) {
        self.leave(Tier::Landed, tokens, table);
        table.set_count(0);
        self.grow(blocks, table);
    }

    /// Keeps the KV of a request that was migrated in, and not admitted, in the swap
    /// space. Returns whether there was room; if not, the KV is dropped.
    pub(crate) fn store_received(
        &mut self,
        owner: ContentOwner,
        tokens: u32,
        table: &mut BlockTable,
    ) -> bool {
        let known = self.gpu.known_blocks(owner, tokens);
        if self.cpu.reserve(table.count(), self.gpu.shared_of(owner, known)) {
            self.gpu.set_count_on_host(table, table.count(), known);
            self.relocate(Tier::Landed, Tier::Host, tokens, table);
            return true;
        }
        self.leave(Tier::Landed, tokens, table);
        table.set_count(0);
        false
    }

    /// Number of different blocks of the swap space that these requests have.
    pub(crate) fn distinct_swapped<'a>(
        &self,
        requests: impl Iterator<Item = (ContentOwner, &'a BlockTable)>,
    ) -> u64 {
        let (mut shared, mut own) = (Vec::new(), 0);
        for (owner, table) in requests {
            let before = shared.len();
            shared.extend(self.gpu.shared_of(owner, table.registered()));
            own += table.count() - (shared.len() - before) as u64;
        }
        shared.sort_unstable();
        shared.dedup();
        own + shared.len() as u64
    }

    /// Drops KV of `tokens` tokens that is in the swap space.
    pub(crate) fn drop_swapped(&mut self, owner: ContentOwner, tokens: u32, table: &mut BlockTable) {
        self.leave(Tier::Host, tokens, table);
        self.cpu.give_back(table.count(), self.gpu.shared_of(owner, table.registered()));
        table.clear();
    }

    /// Drops KV of `tokens` tokens that was migrated in and is in no memory here.
    pub(crate) fn drop_received(&mut self, tokens: u32, table: &mut BlockTable) {
        self.leave(Tier::Landed, tokens, table);
        table.set_count(0);
    }

    /// Forgets the copies made while a step was formed, and returns what they add to
    /// it; it takes `step` ticks without them.
    pub(crate) fn take_copy_ticks(&mut self, step: Ticks) -> Ticks {
        self.cpu.take_copy_ticks(step)
    }

    /// Writes the counters of a replay.
    pub(crate) fn write_stats(&self, stats: &mut InstanceStats) {
        let (queries, hits) = self.lookups;
        stats.prefixes = PrefixStats { queries, hits, evictions: self.gpu.evictions() };
        (stats.memory.swapped_out_blocks, stats.memory.swapped_in_blocks) = self.cpu.total_copied();
        stats.memory.swap_overflows = self.cpu.overflows();
        stats.memory.peak_blocks = self.peak_blocks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Preemption, PrefixCacheConfig};
    use crate::trace::TraceRow;

    fn store(preemption: Preemption, caches: bool) -> KvStore {
        let caching = caches.then_some(PrefixCacheConfig { unknown_first: true, evict: None, tree: None });
        KvStore {
            gpu: Memory::new(10, 4, caching.as_ref(), Arc::new(Prefixes::none())),
            cpu: SwapSpace::new(preemption),
            account: Account::default(),
            peak_blocks: 0,
            lookups: (0, 0),
        }
    }

    #[test]
    fn kv_that_is_swapped_out_and_in_holds_blocks_on_one_side_at_a_time() {
        for caches in [false, true] {
            let mut store = store(Preemption::Swap { blocks: 4, out: 1, back: 1, overlapped: false }, caches);
            let (owner, mut table) = (ContentOwner::of_prompt(TraceRow(0), 9), BlockTable::default());
            store.grow(3, &mut table);
            assert!(store.swap_out((owner, 9), 9, 3, &mut table));
            assert_eq!((store.free(), store.cpu().used(), store.cpu_tokens(), table.count()), (10, 3, 9, 3));
            store.swap_in(owner, 9, 4, &mut table);
            assert_eq!((store.free(), store.cpu().used(), store.cpu_tokens(), table.count()), (6, 0, 0, 4));
        }
    }

    #[test]
    fn a_swap_without_room_leaves_the_blocks_where_they_are() {
        let mut store = store(Preemption::Swap { blocks: 2, out: 1, back: 1, overlapped: false }, false);
        let (owner, mut table) = (ContentOwner::of_prompt(TraceRow(0), 9), BlockTable::default());
        store.grow(3, &mut table);
        assert!(!store.swap_out((owner, 9), 9, 3, &mut table));
        assert_eq!((store.free(), store.cpu_tokens(), table.count()), (7, 0, 3));
    }

    #[test]
    fn kv_that_is_migrated_in_is_loaded_or_stored_or_dropped() {
        let mut store = store(Preemption::Swap { blocks: 3, out: 1, back: 1, overlapped: false }, false);
        let owner = ContentOwner::of_prompt(TraceRow(0), 8);
        let mut tables = [(); 3].map(|()| BlockTable::default());
        let [loaded, stored, dropped] = &mut tables;
        for table in [&mut *loaded, &mut *stored, &mut *dropped] {
            store.receive(8, 2, table);
        }
        store.load(8, 3, loaded);
        assert!(store.store_received(owner, 8, stored) && !store.store_received(owner, 8, dropped));
        assert_eq!((store.free(), store.cpu().used(), store.cpu_tokens()), (7, 2, 8));
        assert_eq!(tables.map(|table| table.count()), [3, 2, 0]);
    }

    /// A store for two requests whose prompts begin with the same two blocks of 4 tokens.
    fn shared(preemption: Preemption) -> KvStore {
        use crate::trace::{PrefixIds, Trace};

        let prefix = PrefixIds {
            ends: vec![2, 4].into(),
            ids: vec![1, 2, 1, 2].into(),
            block_tokens: 4,
            outputs: None,
        };
        let trace = Trace { prefix: Some(prefix), ..Trace::default() };
        let mut store = store(preemption, true);
        store.gpu.share(Arc::new(Prefixes::new(&trace, 4).expect("the blocks are equally large")));
        store
    }

    #[test]
    fn swapped_out_requests_share_blocks_and_take_cached_ones_as_they_return() {
        let mut store = shared(Preemption::Swap { blocks: 6, out: 1, back: 1, overlapped: false });
        let owners = [0, 1].map(|request| ContentOwner::of_prompt(TraceRow(request), 9));
        let [one, other] = owners;
        let mut tables = [(); 2].map(|()| BlockTable::default());
        store.grow(3, &mut tables[0]);
        store.gpu.register(one, 8, &mut tables[0]);
        let mut hits = Hits::default();
        store.find(other, 9, &mut hits);
        store.gpu.adopt(&hits, &mut tables[1]);
        store.grow(3, &mut tables[1]);
        assert_eq!(store.free(), 6, "two blocks that are shared, and one each");
        assert!(store.swap_out((one, 9), 9, 3, &mut tables[0]));
        assert!(store.swap_out((other, 9), 9, 3, &mut tables[1]));
        assert_eq!((store.free(), store.cpu().used(), store.cpu().copied().0), (10, 4, 6));
        let swapped = owners.iter().copied().zip(&tables);
        assert_eq!(store.distinct_swapped(swapped), 4);
        assert_eq!(store.distinct_swapped(std::iter::once((one, &tables[0]))), 3);
        store.swap_in(one, 9, 3, &mut tables[0]);
        store.swap_in(other, 9, 3, &mut tables[1]);
        assert_eq!((store.free(), store.cpu().used(), store.cpu().copied().1), (6, 0, 6));
        assert_eq!(tables[0].blocks()[..2], hits.blocks, "the cache has them still");
        assert_eq!(tables[0].blocks()[..2], tables[1].blocks()[..2]);
    }

    #[test]
    fn swapped_out_kv_that_is_dropped_leaves_the_blocks_that_another_request_shares() {
        let mut store = shared(Preemption::Swap { blocks: 6, out: 1, back: 1, overlapped: false });
        let owners = [0, 1].map(|request| ContentOwner::of_prompt(TraceRow(request), 9));
        let mut tables = [(); 2].map(|()| BlockTable::default());
        for (owner, table) in owners.into_iter().zip(&mut tables) {
            store.grow(3, table);
            assert!(store.swap_out((owner, 9), 9, 3, table));
        }
        assert_eq!((store.cpu().used(), store.cpu_tokens()), (4, 18));
        store.drop_swapped(owners[0], 9, &mut tables[0]);
        assert_eq!((store.cpu().used(), store.cpu_tokens(), tables[0].count()), (3, 9, 0));
        store.drop_swapped(owners[1], 9, &mut tables[1]);
        assert_eq!((store.cpu().used(), store.cpu_tokens()), (0, 0));
    }

    #[test]
    fn a_request_finds_the_blocks_that_another_holds() {
        let [one, other] = [0, 1].map(|request| ContentOwner::of_prompt(TraceRow(request), 9));
        let mut hits = Hits::default();
        for leaves in [false, true] {
            let mut store = shared(Preemption::Recompute);
            let mut table = BlockTable::default();
            if leaves {
                // It fills its second block as a member of the decode set, and leaves it.
                store.grow(1, &mut table);
                store.allocate_unassigned(1);
                table.set_count(2);
                store.gpu.assign(one, 8, &mut table);
            } else {
                store.grow(2, &mut table);
                store.find(other, 9, &mut hits);
                assert!(hits.len() == 0, "the blocks are not computed");
                store.gpu.register(one, 8, &mut table);
            }
            store.find(other, 9, &mut hits);
            assert_eq!(hits.len(), 2);
        }
    }

    #[test]
    fn lookups_are_counted_where_prefixes_are_cached() {
        for (caches, counted) in [(true, (20, 12)), (false, (0, 0))] {
            let mut store = store(Preemption::Recompute, caches);
            store.count_lookup(9, 8);
            store.count_lookup(11, 4);
            let mut stats = InstanceStats::default();
            store.write_stats(&mut stats);
            assert_eq!((stats.prefixes.queries, stats.prefixes.hits), counted);
        }
    }
}
