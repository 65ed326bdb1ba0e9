//! The copies between the GPU and the host of a radix tree of prefixes.
//!
//! Follows `sglang` 0.5.23: `start_writing` and `start_loading` of `srt/managers/cache_controller.py`, and
//! `check_hicache_events` of `srt/mem_cache/unified_radix_cache.py`. What requests have inserted is copied to the host as a step
//! ends, in one copy; a chunk of a prompt that continues is inserted after that, and waits for the next step. The loads of a
//! step are one copy, beside its forward pass. What has to be copied to the host before it is evicted is waited for, node by
//! node. A step learns of the copies that have ended as it is formed.

mod log;

use std::collections::VecDeque;

pub(crate) use log::CopyLog;

use super::link::{Interval, Link};
use super::memory::Memory;
use super::tree::NodeId;
use crate::config::{TierConfig, Write};
use crate::metrics::TierStats;
use crate::time::Ticks;
use crate::trace::RequestNumber;

/// A copy whose end no step has seen.
#[derive(Debug, Clone)]
struct UnderWay {
    ends: Ticks,
    /// The nodes that are locked until then.
    nodes: Vec<NodeId>,
}

/// See [the module](self).
#[derive(Debug, Clone)]
pub(crate) struct TreeCopies {
    /// Chunks of the host's memory, and the layers over which a load is spread.
    capacity: u64,
    layers: u32,
    to_host: Link,
    from_host: Link,
    writes: VecDeque<UnderWay>,
    loads: VecDeque<UnderWay>,
    /// Whether nodes are written as the GPU evicts them.
    writes_evicted: bool,
    /// The nodes that wait for the next step, the first of those to be written.
    kept: usize,
    /// The last nodes of the loads of the step that is formed, and their blocks.
    begun: (Vec<NodeId>, u64),
    /// The load of the step that was formed last, and when the forward pass of that begins.
    load: Option<Interval>,
    begins: Ticks,
    loaded_blocks: u64,
    /// Whether steps and copies are kept, and those so far.
    log: Option<Box<CopyLog>>,
}

impl TreeCopies {
    pub(crate) fn new(config: &TierConfig) -> Self {
        Self {
            capacity: config.chunks,
            layers: config.overlap_layers,
            to_host: Link::new(config.store),
            from_host: Link::new(config.load),
            writes: VecDeque::new(),
            loads: VecDeque::new(),
            writes_evicted: config.write == Write::Back,
            kept: 0,
            begun: (Vec::new(), 0),
            load: None,
            begins: 0,
            loaded_blocks: 0,
            log: None,
        }
    }

    /// Keeps steps and copies from now on.
    pub(crate) fn record(&mut self) {
        self.log = Some(Box::default());
    }

    /// Whether what is evicted is copied to the host before, and a step waits for it.
    pub(crate) fn writes_evicted(&self) -> bool {
        self.writes_evicted
    }

    /// Begins to form a step at `now`, which sees the copies that have ended by `seen`.
    pub(crate) fn open(&mut self, now: Ticks, seen: Ticks, memory: &mut Memory) {
        memory.open_step();
        self.load = None;
        if let Some(log) = &mut self.log {
            log.open(now, memory);
        }
        let cancelled = memory.take_written(self.kept);
        self.write(cancelled, now);
        self.learn(seen, memory);
    }

    /// Sees the copies that have ended by `seen`.
    fn learn(&mut self, seen: Ticks, memory: &mut Memory) {
        for node in take_ended(&mut self.writes, seen) {
            memory.end_write(node);
        }
        for end in take_ended(&mut self.loads, seen) {
            memory.end_load(end);
        }
    }

    /// Copies to the host what requests have inserted, as a step ends at `now`. The next step, which is formed at once, sees the
    /// copies that have ended by `seen`.
    pub(crate) fn flush(&mut self, now: Ticks, seen: Ticks, memory: &mut Memory) {
        let written = memory.take_written(0);
        self.write(written, now);
        self.learn(seen, memory);
    }

    /// Has what is inserted from now on, as the step ends, wait for the next step.
    pub(crate) fn keep(&mut self, memory: &Memory) {
        self.kept = memory.written();
    }

    fn write(&mut self, written: Vec<(NodeId, u64)>, now: Ticks) {
        if written.is_empty() {
            return;
        }
        let blocks = written.iter().map(|&(_, blocks)| blocks).sum();
        let interval = self.send(true, blocks, now);
        let nodes = written.into_iter().map(|(node, _)| node).collect();
        self.writes.push_back(UnderWay { ends: interval.ends, nodes });
    }

    /// Notes an admission, and the load that it begins with. `end`: the last node of the load.
    pub(crate) fn admit(
        &mut self,
        request: RequestNumber,
        (cached, loaded): (u32, u32),
        load: Option<(NodeId, u64)>,
    ) {
        if let Some(log) = &mut self.log {
            log.row.hits.push((request.0, cached, loaded));
        }
        if let Some((end, blocks)) = load {
            self.begun.0.push(end);
            self.begun.1 += blocks;
        }
    }

    /// Begins the loads of the step that was formed at `now`, once what made room for them is on the host.
    pub(crate) fn begin_loads(&mut self, now: Ticks, memory: &mut Memory) {
        self.begins = now;
        self.copy_evicted(memory);
        let (nodes, blocks) = std::mem::take(&mut self.begun);
        if nodes.is_empty() {
            return;
        }
        self.loaded_blocks += blocks;
        let interval = self.send(false, blocks, self.begins);
        self.load = Some(interval);
        self.loads.push_back(UnderWay { ends: interval.ends, nodes });
    }

    /// Begins the forward pass of the step, once what made room for it is on the host. Returns when that is.
    pub(crate) fn begin_forward(&mut self, memory: &mut Memory) -> Ticks {
        self.copy_evicted(memory);
        if let Some(log) = &mut self.log {
            log.close(self.begins, memory);
        }
        self.begins
    }

    fn send(&mut self, to_host: bool, blocks: u64, now: Ticks) -> Interval {
        let link = if to_host { &mut self.to_host } else { &mut self.from_host };
        let interval = link.send(blocks, now);
        if let Some(log) = &mut self.log {
            log.copied(to_host, blocks, interval);
        }
        interval
    }

    fn copy_evicted(&mut self, memory: &mut Memory) {
        for blocks in memory.take_at_once() {
            self.begins = self.send(true, blocks, self.begins).ends;
        }
    }

    /// For how long the loads of the step that was formed hold up its forward pass, which takes `compute` ticks by itself: the
    /// layers are loaded one after the other, and each is computed once it has been loaded and the one before it has been
    /// computed. The latest end follows from the first layer or from the last.
    pub(crate) fn stall(&self, compute: Ticks) -> Ticks {
        let Some(Interval { begins, ends }) = self.load else { return 0 };
        let layers = u64::from(self.layers.max(1));
        let first = begins.saturating_add((ends - begins).div_ceil(layers));
        let last = ends.saturating_add(compute.div_ceil(layers)).saturating_sub(compute);
        first.max(last).saturating_sub(self.begins)
    }

    /// When the next copy ends whose end no step has seen.
    pub(crate) fn next_end(&self) -> Option<Ticks> {
        [&self.writes, &self.loads]
            .into_iter()
            .filter_map(|copies| copies.front())
            .map(|copy| copy.ends)
            .min()
    }

    /// The counters so far.
    pub(crate) fn stats(&self, memory: &Memory) -> TierStats {
        let counters = memory.host_counters();
        TierStats {
            capacity: self.capacity,
            peak_chunks: counters.peak,
            stored_blocks: counters.stored,
            loaded_blocks: self.loaded_blocks,
            evicted_blocks: counters.evicted,
            refused_stores: counters.refused,
            ..TierStats::default()
        }
    }

    /// The recorded steps and copies, and forgets them.
    pub(crate) fn take_log(&mut self) -> Option<Box<CopyLog>> {
        self.log.take()
    }
}

/// Removes the copies that have ended by `seen`. Returns their nodes.
fn take_ended(copies: &mut VecDeque<UnderWay>, seen: Ticks) -> Vec<NodeId> {
    let ended = copies.iter().take_while(|copy| copy.ends <= seen).count();
    copies.drain(..ended).flat_map(|copy| copy.nodes).collect()
}

#[cfg(test)]
mod tests;
