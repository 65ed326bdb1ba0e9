//! The chunks that an instance keeps in the host's memory: what requests store and load, and the copies of that.
//!
//! Follows the `OffloadingConnector` of vLLM 0.33.0 (`vllm/distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py`
//! and `worker.py`). Chunks are stored as they are complete, and loaded before a request that begins with them is
//! admitted. Stores are given to their link as the next step starts, and loads as the step ends that decided them. The
//! scheduler learns of the end of a copy at the end of a step. A step that computes no tokens takes no time, and makes
//! copies and learns of their ends as others do.

mod ahead;
mod below;
mod departures;
mod fences;
mod insertions;
mod lookup;
mod prefetch;
mod rules;
mod stores;
mod uses;

use ahead::Ahead;
use below::Below;
use departures::Departed;
use fences::Fences;
use insertions::Insertions;
use rules::Rules;
use uses::Uses;

use super::transfers::{Job, Kind, TierLog, Transfers};
use crate::config::{TierConfig, Write};
use crate::instance::request::Slot;
use crate::kv::{ChunkStore, ContentOwner, Interval, Memory, StoredChunk};
use crate::metrics::TierStats;
use crate::time::Ticks;
use crate::trace::RequestNumber;

/// The contents of a copy.
#[derive(Debug)]
pub(super) struct Copied {
    /// The number of its request; `None`: it is of blocks that no request holds.
    used: Option<u32>,
    chunks: Vec<StoredChunk>,
}

/// A load that an admission begins with.
#[derive(Debug, Clone, Copy)]
pub(in crate::instance) struct Wanted {
    /// Tokens in the prefix cache of the GPU.
    pub(in crate::instance) cached: u32,
    /// Tokens after these that are loaded.
    pub(in crate::instance) loaded: u32,
    /// Whether they are loaded before the forward pass of the step.
    pub(in crate::instance) sync: bool,
}

/// The load that an admission began with, and when it began.
#[derive(Debug, Clone, Copy)]
pub(in crate::instance) struct Begun {
    pub(in crate::instance) wanted: Wanted,
    /// Of the tokens that are loaded, those that were read from a store below the tier for the request.
    pub(in crate::instance) fetched: u32,
    pub(in crate::instance) since: Ticks,
}

/// The tier of an instance.
#[derive(Debug)]
pub(crate) struct ChunkTier {
    rules: Rules,
    store: ChunkStore,
    uses: Uses,
    copies: Transfers<Copied>,
    fences: Fences,
    /// Requests whose load has begun and that were not admitted since, in that order.
    loading: Vec<Slot>,
    departed: Departed,
    insertions: Insertions,
    /// Copies that a step decided ahead does not know of; `None`: steps are decided as they start.
    ahead: Option<Box<Ahead>>,
    /// The store below the tier, if there is one.
    below: Option<Box<Below>>,
}

impl ChunkTier {
    /// `drops_last`: whether hits in the prefix cache lose their last block. `ahead`: steps are decided ahead.
    pub(crate) fn new(
        config: &TierConfig,
        block_tokens: u32,
        (drops_last, ahead): (bool, bool),
        recorded: bool,
    ) -> Self {
        Self {
            rules: Rules { config: config.clone(), block_tokens, drops_last },
            store: ChunkStore::new(config.chunks, config.eviction, config.store_threshold),
            uses: Uses::default(),
            copies: Transfers::new(config, recorded),
            fences: Fences::default(),
            loading: Vec::new(),
            departed: Departed::default(),
            insertions: Insertions::new(config.write),
            ahead: ahead.then(Box::default),
            below: None,
        }
    }

    /// The most tokens that a step loads before its forward pass.
    pub(in crate::instance) fn sync_tokens(&self) -> u64 {
        self.rules.config.sync_tokens
    }

    /// Whether blocks that the output fills are not stored before the request has ended.
    pub(in crate::instance) fn stores_no_decodes(&self) -> bool {
        self.rules.stores_no_decodes()
    }

    /// Whether a step that reuses a block with a known content waits until that is stored.
    pub(in crate::instance) fn stores_lost_blocks(&self) -> bool {
        self.rules.config.write == Write::Back
    }

    /// Whether a running request could not store its chunks when it last tried.
    pub(in crate::instance) fn is_behind(&self) -> bool {
        self.uses.is_behind()
    }

    /// Whether a block that a finished request had is still to be copied, unless it is reused.
    pub(in crate::instance) fn has_fences(&self) -> bool {
        !self.fences.is_empty()
    }

    /// Chunks in the tier, those that are being stored among them.
    pub(in crate::instance) fn chunks(&self) -> u64 {
        self.store.used()
    }

    /// Requests whose load has begun and that were not admitted since, in that order.
    pub(in crate::instance) fn loading(&self) -> &[Slot] {
        &self.loading
    }

    /// Whether the load of a request has ended, as far as the scheduler knows.
    pub(in crate::instance) fn is_loaded(&self, slot: Slot) -> bool {
        self.uses.of(slot).is_some_and(|used| used.jobs.is_empty())
    }

    // -- effects ----------------------------------------------------------------------

    /// Begins to form a step. `lost`: contents that the GPU has lost since the one before it was formed.
    pub(in crate::instance) fn open(&mut self, lost: &[u64], now: Ticks) {
        self.insertions.lose(lost);
        self.copies.step.open(now, self.store.evicted());
        self.learn_of_store(now);
        if let Some(ahead) = &mut self.ahead {
            ahead.news = false;
        }
    }

    /// Notes that a request is passed over in the step that is formed, as its lookup has no answer.
    pub(in crate::instance) fn put_off(&mut self, request: RequestNumber) {
        self.copies.step.row.put_off.push(request.0);
    }

    /// A request is admitted, or begins to wait for a load, with the blocks that the step has given it.
    pub(in crate::instance) fn admit(
        &mut self,
        (slot, request, owner): (Slot, RequestNumber, ContentOwner),
        wanted: Wanted,
        memory: &Memory,
    ) {
        let id = self.uses.enter(slot, request, owner);
        self.admit_early(id, request);
        self.copies.step.row.hits.push((request.0, wanted.cached, wanted.loaded));
        self.uses.note_behind(id, false);
        self.uses.get_mut(id).next_chunk = 0;
        if wanted.loaded == 0 {
            return;
        }
        let size = self.rules.chunk_tokens();
        let (first, last) = (wanted.cached / size, (wanted.cached + wanted.loaded).div_ceil(size));
        let chunks: Vec<_> = (first..last).map(|at| self.rules.chunk(owner, at, memory)).collect();
        let used = self.uses.get_mut(id);
        used.next_chunk = last;
        self.store.load(&chunks, !wanted.sync, &mut used.access);
        let kind = if wanted.sync { Kind::Sync } else { Kind::Load };
        let blocks = u64::from(wanted.loaded / self.rules.block_tokens);
        self.copies.stats.loaded_blocks += blocks;
        self.open_job(kind, id, &chunks, blocks);
        if !wanted.sync {
            self.loading.push(slot);
            self.uses.get_mut(id).promoted = false;
        }
    }

    /// Notes when a request was admitted, or began to wait, and with which load.
    pub(in crate::instance) fn note_load(&mut self, slot: Slot, wanted: Wanted, since: Ticks) {
        if let Some(id) = self.uses.id(slot) {
            let fetched = self.take_fetched(id, wanted.cached, wanted.loaded);
            self.uses.get_mut(id).begun = Some(Begun { wanted, fetched, since });
        }
    }

    /// The load that the latest admission of a request began with, and forgets it.
    pub(in crate::instance) fn take_load(&mut self, slot: Slot) -> Option<Begun> {
        self.uses.id(slot).and_then(|id| self.uses.get_mut(id).begun.take())
    }

    /// Whether no step has seen yet that the load of a request has ended.
    pub(in crate::instance) fn is_new(&self, slot: Slot) -> bool {
        self.uses.of(slot).is_some_and(|used| !used.promoted)
    }

    /// A step sees that the load of a request has ended. `whole`: the request has all its tokens by that.
    pub(in crate::instance) fn promote(&mut self, slot: Slot, whole: bool) {
        self.copies.stats.whole_loads += u64::from(whole);
        if let Some(id) = self.uses.id(slot) {
            self.uses.get_mut(id).promoted = true;
        }
    }

    /// A request whose load has ended is admitted.
    pub(in crate::instance) fn admit_loaded(&mut self, slot: Slot) {
        self.loading.retain(|&other| other != slot);
    }

    /// A request is preempted: the step waits until its chunks are stored.
    pub(in crate::instance) fn preempt(&mut self, slot: Slot) {
        let Some(id) = self.uses.id(slot) else { return };
        self.uses.note_behind(id, false);
        for &job in &self.uses.get(id).jobs {
            self.copies.step.flush(job);
        }
    }

    fn open_job(&mut self, kind: Kind, id: u32, chunks: &[StoredChunk], blocks: u64) -> u32 {
        let job = self.copies.open(kind, Copied { used: Some(id), chunks: chunks.to_vec() }, blocks);
        self.uses.get_mut(id).jobs.push(job);
        job
    }

    /// Sends the copies that the step waits for. Returns when its forward pass begins.
    fn send_urgent(&mut self) -> Ticks {
        let copies = &mut self.copies;
        let now = copies.step.row.start;
        for at in 0..copies.step.at_once.len() {
            copies.send(copies.step.at_once[at], now);
        }
        for at in 0..copies.step.row.flushed.len() {
            copies.send(copies.step.row.flushed[at], now);
        }
        let flushed = copies.step.row.flushed.iter().filter_map(|&job| copies.jobs.end_of(job));
        let mut waits = flushed.max();
        let mut begins = waits.map_or(now, |ends| ends.max(now));
        if copies.overlaps() {
            for at in 0..copies.step.row.loads.len() {
                let ends = copies.send(copies.step.row.loads[at], begins).ends;
                copies.step.load = Some(Interval { begins, ends });
            }
        } else if copies.step.row.loads.iter().any(|&job| copies.jobs.kind_of(job) == Some(Kind::Sync)) {
            let start = begins;
            for at in 0..copies.step.row.loads.len() {
                let job = copies.step.row.loads[at];
                let end = copies.send(job, start).ends;
                if copies.jobs.kind_of(job) == Some(Kind::Sync) {
                    begins = begins.max(end);
                    waits = Some(begins);
                }
            }
        }
        copies.step.row.begins = begins;
        if let Some(ahead) = &mut self.ahead {
            ahead.waits = waits;
        }
        begins
    }

    /// Sends the other copies of the step that was formed, which ends at `end`.
    pub(in crate::instance) fn send_others(&mut self, end: Ticks) {
        self.copies.send_loads(end);
        self.send_stores(end);
    }

    fn send_stores(&mut self, end: Ticks) {
        for at in 0..self.copies.step.row.stores.len() {
            let store = self.copies.step.row.stores[at];
            if let Some(job) = self.copies.jobs.get_mut(store).filter(|job| job.interval.is_none()) {
                job.seen_from = end;
            }
            self.copies.send(store, end);
        }
    }

    /// Whether loads overlap with the steps that they are made for.
    pub(in crate::instance) fn overlaps(&self) -> bool {
        self.copies.overlaps()
    }

    /// See [`Transfers::stall`].
    pub(in crate::instance) fn stall(&self, compute: Ticks) -> Ticks {
        self.copies.stall(compute)
    }

    /// When the forward pass begins of a step that starts at `start`: only the first one of a run waits for copies.
    pub(in crate::instance) fn begins(&self, start: Ticks) -> Ticks {
        if start == self.copies.step.row.start { self.copies.step.row.begins } else { start }
    }

    /// Ends a step that started at `start`: learns of the copies that have ended.
    pub(in crate::instance) fn end_step(&mut self, start: Ticks, now: Ticks) {
        let looked = self.ahead.as_ref().map_or_else(|| self.begins(start), |ahead| ahead.looked());
        self.learn(Some(start), looked, now);
    }

    /// Ends the step without tokens that was formed last.
    fn end_passed(&mut self, begins: Ticks) {
        self.learn(None, begins, begins);
        self.copies.write_step();
    }

    /// Learns of the copies that have ended. `start`: of a step with tokens. `looked`: when it looked for them.
    fn learn(&mut self, start: Option<Ticks>, looked: Ticks, now: Ticks) {
        let seen = if self.rules.config.polls_at_end { now } else { looked };
        if self.copies.next_end().is_none_or(|end| end > seen) {
            return;
        }
        for (id, job) in self.copies.jobs.take_ended(start.unwrap_or(self.copies.step.row.start), seen) {
            let request = job.of.used.map(|used| self.uses.get(used).request);
            self.copies.report((id, &job), (request, job.of.chunks.len() as u64), start, now);
            match &mut self.ahead {
                Some(ahead) if start.is_some() => ahead.unseen.push((id, job)),
                _ => self.end_job(id, &job, now),
            }
        }
    }

    /// The scheduler knows that a copy has ended.
    fn end_job(&mut self, id: u32, job: &Job<Copied>, now: Ticks) {
        let keys: Vec<_> = job.of.chunks.iter().map(|chunk| chunk.key).collect();
        match job.kind {
            Kind::Store => {
                self.store.end_store(&keys);
                self.write_down(job, &keys, now);
            }
            Kind::Load | Kind::Sync => self.store.end_load(&keys, job.kind == Kind::Load),
        }
        self.fences.remove(id);
        let kept = job.of.used.and_then(|used| self.uses.end_job(used, id));
        self.departed.unloaded.extend(kept.filter(|_| job.kind == Kind::Load));
    }

    /// Ends the step without tokens that was formed at `now`, unless it waits for copies. Returns whether another step
    /// follows at once.
    pub(in crate::instance) fn pass_step(&mut self, begins: Ticks) -> bool {
        let now = self.copies.step.row.start;
        self.copies.step.ends = (begins > now).then_some(begins);
        if self.copies.step.ends.is_some() {
            self.send_others(begins);
            return false;
        }
        self.copies.send_loads(begins);
        let made = !(self.copies.step.row.loads.is_empty() && self.copies.step.row.stores.is_empty());
        let open = self.copies.jobs.len();
        self.end_passed(begins);
        // The step after it, which starts at the same moment, gives them to their link.
        self.send_stores(begins);
        made || self.copies.jobs.len() < open || self.next_read_end().is_some_and(|ends| ends <= now)
    }

    /// Ends the step without tokens that waits for copies, if one is in progress and has ended. Returns when it ends, if it
    /// has not.
    pub(in crate::instance) fn wake(&mut self, now: Ticks) -> Option<Ticks> {
        let ends = self.copies.step.ends?;
        if now < ends {
            return Some(ends);
        }
        self.copies.step.ends = None;
        self.end_passed(ends);
        None
    }

    /// When the next copy ends, but for those to a store below the tier.
    pub(in crate::instance) fn next_end(&self) -> Option<Ticks> {
        self.copies.next_end().into_iter().chain(self.next_read_end()).min()
    }

    /// Whether the scheduler looks for copies that have ended as a step ends.
    pub(in crate::instance) fn polls_at_end(&self) -> bool {
        self.rules.config.polls_at_end
    }

    /// Writes the row of the step with tokens that was formed.
    pub(in crate::instance) fn write_step(&mut self) {
        self.copies.write_step();
    }

    /// Notes what the row of the step without tokens that was formed has beside what concerns the tier.
    pub(in crate::instance) fn note_passed(&mut self, preempted: &[u32], free_blocks: u64) {
        self.copies.step.row.without_tokens = Some((preempted.to_vec(), free_blocks));
    }

    /// The counters so far.
    pub(crate) fn stats(&self) -> TierStats {
        TierStats {
            evicted_blocks: self.store.evicted() * u64::from(self.rules.config.chunk_blocks),
            ..self.copies.stats.clone()
        }
    }

    /// The recorded steps and copies, and forgets them.
    pub(crate) fn take_log(&mut self) -> Option<Box<TierLog>> {
        self.copies.take_log()
    }
}
