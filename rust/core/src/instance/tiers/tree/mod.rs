//! The nodes of a radix tree that are copied between the GPU and the host's memory.
//!
//! Follows `sglang` 0.5.23: `start_writing` and `start_loading` of `srt/managers/cache_controller.py`, and
//! `check_hicache_events` of `srt/mem_cache/unified_radix_cache.py`. What requests have inserted is copied to the host as a step
//! ends, in one copy; a chunk of a prompt that continues is inserted after that, and waits for the next step. The loads of a
//! step are one copy, beside its forward pass. What has to be copied to the host before it is evicted is waited for, node by
//! node. A step learns of the copies that have ended as it is formed.

mod below;

use super::transfers::{Kind, StoreLinks, TierLog, Transfers};
use crate::config::{TierConfig, Write};
use crate::instance::request::Slot;
use crate::kv::{ContentOwner, Memory, NodeId, SharedStore};
use crate::metrics::TierStats;
use crate::time::Ticks;
use crate::trace::RequestNumber;
use below::{Ended, TreeBelow};

/// See [the module](self).
#[derive(Debug)]
pub(crate) struct TreeTier {
    /// Each of the nodes that it locks, and of their blocks as it began.
    copies: Transfers<Vec<(NodeId, u64)>>,
    /// Whether nodes are written as the GPU evicts them.
    writes_evicted: bool,
    /// The nodes that wait for the next step, the first of those to be written.
    kept: usize,
    /// The last nodes of the loads of the step that is formed, and their blocks.
    begun: Vec<(NodeId, u64)>,
    /// Nodes that had found no room as the step was begun.
    refused: u64,
    /// The store below the host, if there is one, and when it was looked at last as a step ended.
    below: Option<Box<TreeBelow>>,
    looked: Option<Ticks>,
    /// Requests that were preempted in the step that is formed.
    preempted: Vec<Slot>,
}

impl TreeTier {
    /// `recorded`: whether steps and copies are.
    pub(super) fn new(config: &TierConfig, recorded: bool) -> Self {
        Self {
            copies: Transfers::new(config, recorded),
            writes_evicted: config.write == Write::Back,
            kept: 0,
            begun: Vec::new(),
            refused: 0,
            below: None,
            looked: None,
            preempted: Vec::new(),
        }
    }

    /// Has a store be below the host, if the settings have one.
    pub(super) fn set_store(&mut self, config: &TierConfig, block_tokens: u32, stores: &[SharedStore]) {
        let below = config.below.and_then(|below| TreeBelow::new(below, config.chunks, block_tokens, stores));
        self.below = below.map(Box::new);
    }

    /// Whether copies are recorded.
    pub(in crate::instance) fn is_logged(&self) -> bool {
        self.copies.is_recorded()
    }

    /// Whether what is evicted is copied to the host before, and a step waits for it.
    pub(in crate::instance) fn writes_evicted(&self) -> bool {
        self.writes_evicted
    }

    /// Begins to form a step at `now`, which sees the copies that have ended by `seen`.
    pub(in crate::instance) fn open(&mut self, now: Ticks, seen: Ticks, memory: &mut Memory) {
        memory.open_step();
        let counters = memory.host_counters();
        self.refused = counters.refused;
        self.copies.step.open(now, counters.evicted);
        let cancelled = memory.take_written(self.kept);
        self.write(cancelled, now);
        // One that ended at the same moment has looked.
        let looks = self.looked.take() != Some(now);
        let below = self.below.as_deref_mut();
        let ended = below.map(|below| if looks { below.look(now) } else { Ended::default() });
        self.learn(ended.unwrap_or_default(), (now, seen), memory);
    }

    /// Sees the copies that have ended by `seen`, at `now`, and those of the store below that have `ended`.
    fn learn(&mut self, ended: Ended, (now, seen): (Ticks, Ticks), memory: &mut Memory) {
        let learns = self.copies.next_end().is_some_and(|end| end <= seen);
        for (id, job) in if learns { self.copies.jobs.take_ended(now, seen) } else { Vec::new() } {
            self.copies.report((id, &job), (None, job.blocks), Some(now), now);
            for (node, blocks) in job.of {
                if job.kind == Kind::Store {
                    memory.end_write(node);
                    if let Some(below) = self.below.as_deref_mut() {
                        below.write((node, blocks), now, memory);
                    }
                } else {
                    memory.end_load(node);
                }
            }
        }
        if let Some(below) = self.below.as_deref_mut() {
            below.settle(ended, now, memory);
        }
    }

    /// Copies to the host what requests have inserted, as a step ends at `now`. The next step, which is formed at once, sees the
    /// copies that have ended by `seen`.
    pub(in crate::instance) fn flush(&mut self, now: Ticks, seen: Ticks, memory: &mut Memory) {
        let written = memory.take_written(0);
        self.write(written, now);
        let ended = self.below.as_deref_mut().map(|below| below.look(now));
        self.looked = ended.as_ref().map(|_| now);
        self.learn(ended.unwrap_or_default(), (now, seen), memory);
    }

    /// Has what is inserted from now on, as the step ends, wait for the next step.
    pub(in crate::instance) fn keep(&mut self, memory: &Memory) {
        self.kept = memory.written();
    }

    fn write(&mut self, written: Vec<(NodeId, u64)>, now: Ticks) {
        if !written.is_empty() {
            let blocks = written.iter().map(|&(_, blocks)| blocks).sum();
            let job = self.copies.open(Kind::Store, written, blocks);
            self.copies.send(job, now);
        }
    }

    /// Has a load be among those of the step that is formed: the last node of it, and its blocks.
    pub(in crate::instance) fn load(&mut self, end: NodeId, blocks: u64) {
        self.begun.push((end, blocks));
    }

    /// Notes an admission with `cached` tokens on the GPU and `loaded` from the host. Returns how many of these were read from a
    /// store below the host for the request.
    pub(in crate::instance) fn admit(&mut self, request: RequestNumber, (cached, loaded): (u32, u32)) -> u32 {
        self.copies.step.row.hits.push((request.0, cached, loaded));
        self.below.as_deref_mut().map_or(0, |below| below.admit(request, (cached, loaded)))
    }

    /// A request joins the queue.
    pub(in crate::instance) fn join_queue(&mut self, request: RequestNumber) {
        if let Some(below) = self.below.as_deref_mut() {
            below.join(request);
        }
    }

    /// A request is preempted in the step that is formed.
    pub(in crate::instance) fn join_queue_again(&mut self, slot: Slot) {
        self.preempted.push(slot);
    }

    /// The requests that were preempted since the last call.
    pub(in crate::instance) fn take_preempted(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.preempted)
    }

    /// The requests that have joined the queue since the last call, and for which the store below may have nodes.
    pub(in crate::instance) fn take_joined(&mut self) -> Vec<RequestNumber> {
        self.below.as_deref_mut().map(TreeBelow::take_joined).unwrap_or_default()
    }

    /// Begins to read what the store below has of a request of so many tokens.
    pub(in crate::instance) fn begin_read(
        &mut self,
        of: (RequestNumber, ContentOwner, u32),
        now: Ticks,
        memory: &mut Memory,
    ) {
        if let Some(below) = self.below.as_deref_mut() {
            below.begin(of, now, memory);
        }
    }

    /// Whether nodes are read from a store below the host.
    pub(in crate::instance) fn reads(&self) -> bool {
        self.below.is_some()
    }

    /// Whether a request that may be admitted otherwise waits for its read.
    pub(in crate::instance) fn awaits(
        &mut self,
        request: RequestNumber,
        now: Ticks,
        memory: &mut Memory,
    ) -> bool {
        let awaits = self.below.as_deref_mut().is_some_and(|below| below.awaits(request, now, memory));
        if awaits {
            self.copies.step.row.put_off.push(request.0);
        }
        awaits
    }

    /// Whether the next step learns what the one that is formed at `now` has not.
    pub(in crate::instance) fn has_news(&self, now: Ticks) -> bool {
        self.below.as_deref().is_some_and(|below| below.has_news(now))
    }

    /// When a request that waits for its read is tried again.
    pub(in crate::instance) fn next_stop(&self) -> Option<Ticks> {
        self.below.as_deref().and_then(TreeBelow::next_stop)
    }

    /// The links to the store below the host, if there is one.
    pub(super) fn store_links(&self) -> Option<&StoreLinks> {
        self.below.as_deref().map(|below| &below.links)
    }

    /// Begins the loads of the step that was formed, once what made room for them is on the host.
    pub(in crate::instance) fn begin_loads(&mut self, memory: &mut Memory) {
        self.copy_evicted(memory);
        let nodes = std::mem::take(&mut self.begun);
        let blocks = nodes.iter().map(|&(_, blocks)| blocks).sum();
        if blocks > 0 {
            self.copies.stats.loaded_blocks += blocks;
            let job = self.copies.open(Kind::Load, nodes, blocks);
            self.copies.step.load = Some(self.copies.send(job, self.copies.step.row.begins));
        }
    }

    /// Begins the forward pass of the step, once what made room for it is on the host. Returns when that is.
    pub(in crate::instance) fn begin_forward(&mut self, memory: &mut Memory) -> Ticks {
        self.copy_evicted(memory);
        let counters = memory.host_counters();
        self.copies.step.row.refused = counters.refused - self.refused;
        self.copies.step.close(Vec::new(), (memory.on_host(), counters.evicted));
        self.copies.write_step();
        self.copies.step.row.begins
    }

    /// Copies to the host what the step has evicted, node by node. It sees at once that a copy has ended for which it waits.
    fn copy_evicted(&mut self, memory: &mut Memory) {
        for blocks in memory.take_at_once() {
            let job = self.copies.open(Kind::Store, Vec::new(), blocks);
            let ends = self.copies.send(job, self.copies.step.row.begins).ends;
            self.copies.step.row.begins = ends;
            if let Some(ended) = self.copies.jobs.take(job) {
                self.copies.report((job, &ended), (None, blocks), Some(self.copies.step.row.start), ends);
            }
        }
    }

    /// See [`Transfers::stall`].
    pub(super) fn stall(&self, compute: Ticks) -> Ticks {
        self.copies.stall(compute)
    }

    /// When the next copy ends whose end no step has seen.
    pub(in crate::instance) fn next_end(&self) -> Option<Ticks> {
        let below = self.below.as_deref().and_then(TreeBelow::next_end);
        [self.copies.next_end(), below].into_iter().flatten().min()
    }

    /// The counters so far.
    pub(super) fn stats(&self, memory: &Memory) -> TierStats {
        let counters = memory.host_counters();
        TierStats {
            peak_chunks: counters.peak,
            stored_blocks: counters.stored,
            evicted_blocks: counters.evicted,
            refused_stores: counters.refused,
            ..self.copies.stats.clone()
        }
    }

    /// The recorded steps and copies, and forgets them.
    pub(super) fn take_log(&mut self) -> Option<Box<TierLog>> {
        self.copies.take_log()
    }
}

#[cfg(test)]
mod tests;
