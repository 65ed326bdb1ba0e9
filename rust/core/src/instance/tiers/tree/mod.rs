//! The nodes of a radix tree that are copied between the GPU and the host's memory.
//!
//! Follows `sglang` 0.5.23: `start_writing` and `start_loading` of `srt/managers/cache_controller.py`, and
//! `check_hicache_events` of `srt/mem_cache/unified_radix_cache.py`. What requests have inserted is copied to the host as a step
//! ends, in one copy; a chunk of a prompt that continues is inserted after that, and waits for the next step. The loads of a
//! step are one copy, beside its forward pass. What has to be copied to the host before it is evicted is waited for, node by
//! node. A step learns of the copies that have ended as it is formed.

use super::transfers::{Kind, TierLog, Transfers};
use crate::config::{TierConfig, Write};
use crate::kv::{Memory, NodeId};
use crate::metrics::TierStats;
use crate::time::Ticks;
use crate::trace::RequestNumber;

/// See [the module](self).
#[derive(Debug)]
pub(crate) struct TreeTier {
    /// Each of the nodes that it locks.
    copies: Transfers<Vec<NodeId>>,
    /// Whether nodes are written as the GPU evicts them.
    writes_evicted: bool,
    /// The nodes that wait for the next step, the first of those to be written.
    kept: usize,
    /// The last nodes of the loads of the step that is formed, and their blocks.
    begun: (Vec<NodeId>, u64),
    /// Nodes that had found no room as the step was begun.
    refused: u64,
}

impl TreeTier {
    /// `recorded`: whether steps and copies are.
    pub(super) fn new(config: &TierConfig, recorded: bool) -> Self {
        Self {
            copies: Transfers::new(config, recorded),
            writes_evicted: config.write == Write::Back,
            kept: 0,
            begun: (Vec::new(), 0),
            refused: 0,
        }
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
        self.learn((now, seen), memory);
    }

    /// Sees the copies that have ended by `seen`, at `now`.
    fn learn(&mut self, (now, seen): (Ticks, Ticks), memory: &mut Memory) {
        if self.next_end().is_none_or(|end| end > seen) {
            return;
        }
        for (id, job) in self.copies.jobs.take_ended(now, seen) {
            self.copies.report((id, &job), (None, job.blocks), Some(now), now);
            for node in job.of {
                match job.kind {
                    Kind::Store => memory.end_write(node),
                    Kind::Load | Kind::Sync => memory.end_load(node),
                }
            }
        }
    }

    /// Copies to the host what requests have inserted, as a step ends at `now`. The next step, which is formed at once, sees the
    /// copies that have ended by `seen`.
    pub(in crate::instance) fn flush(&mut self, now: Ticks, seen: Ticks, memory: &mut Memory) {
        let written = memory.take_written(0);
        self.write(written, now);
        self.learn((now, seen), memory);
    }

    /// Has what is inserted from now on, as the step ends, wait for the next step.
    pub(in crate::instance) fn keep(&mut self, memory: &Memory) {
        self.kept = memory.written();
    }

    fn write(&mut self, written: Vec<(NodeId, u64)>, now: Ticks) {
        if !written.is_empty() {
            let blocks = written.iter().map(|&(_, blocks)| blocks).sum();
            let nodes = written.into_iter().map(|(node, _)| node).collect();
            let job = self.copies.open(Kind::Store, nodes, blocks);
            self.copies.send(job, now);
        }
    }

    /// Notes an admission, and the load that it begins with. `load`: the last node of it, and its blocks.
    pub(in crate::instance) fn admit(
        &mut self,
        request: RequestNumber,
        (cached, loaded): (u32, u32),
        load: Option<(NodeId, u64)>,
    ) {
        self.copies.step.row.hits.push((request.0, cached, loaded));
        if let Some((end, blocks)) = load {
            self.begun.0.push(end);
            self.begun.1 += blocks;
        }
    }

    /// Begins the loads of the step that was formed, once what made room for them is on the host.
    pub(in crate::instance) fn begin_loads(&mut self, memory: &mut Memory) {
        self.copy_evicted(memory);
        let (nodes, blocks) = std::mem::take(&mut self.begun);
        if !nodes.is_empty() {
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
        self.copies.next_end()
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
