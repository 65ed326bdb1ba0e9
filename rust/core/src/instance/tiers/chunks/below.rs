//! The store below the host's memory: chunks are written to it once they are in the host's memory, and read back into that
//! before they are loaded.
//!
//! Follows the `TieringOffloadingManager` of vLLM 0.33.0 (`vllm/v1/kv_offload/tiering/manager.py`): the host's memory is the
//! only way to the GPU. As the scheduler learns that chunks have been stored there, they are written to the store, and stay
//! in the host's memory meanwhile. A lookup that finds a chunk in the store and not in the host's memory takes room there
//! for it at once, and has no answer until it has been read. The chunks that the lookups of one request found in a step are
//! read as one copy, once the step has been decided. The end of copies is looked for as a step is decided.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::ChunkTier;
use super::Copied;
use super::prefetch::Prefetching;
use crate::config::StoreLink;
use crate::instance::request::Slot;
use crate::instance::tiers::transfers::{Job, StoreLinks};
use crate::kv::{Access, ContentOwner, Found, Memory, SharedStore, StoredChunk};
use crate::time::Ticks;
use crate::trace::RequestNumber;

/// The uses of chunks by a request that has not been admitted, and the places of those that were read for it.
#[derive(Debug, Default)]
struct Early {
    access: Access,
    fetched: Vec<u32>,
}

/// A copy between the tier and the store.
#[derive(Debug)]
pub(super) struct Copy {
    keys: Vec<u64>,
    /// Whether it is to the store.
    writes: bool,
}

/// The store below a tier, as one instance uses it.
#[derive(Debug)]
pub(super) struct Below {
    links: StoreLinks,
    /// The copies under way, by their end and in the order in which they were sent.
    open: BTreeMap<(Ticks, u64), Copy>,
    sent: u64,
    /// Requests for which chunks are read before they are admitted for the first time.
    early: FxHashMap<RequestNumber, Early>,
    /// The reads that begin as requests join the queue, if they do.
    prefetching: Option<Prefetching>,
    /// The chunks that the lookups of each request have found in the step that is formed.
    found: Vec<Vec<u64>>,
}

impl Below {
    fn open(&mut self, ends: Ticks, copy: Copy) {
        self.open.insert((ends, self.sent), copy);
        self.sent += 1;
    }

    /// Writes those of some chunks that the store lacks and has room for. Returns their keys.
    fn write(&mut self, keys: &[u64], now: Ticks) -> Vec<u64> {
        let (taken, ends) = self.links.write(keys, now);
        if !taken.is_empty() {
            self.open(ends, Copy { keys: taken.clone(), writes: true });
        }
        taken
    }

    /// Reads the chunks that lookups have found.
    fn read(&mut self, now: Ticks) {
        for keys in std::mem::take(&mut self.found) {
            self.read_keys(keys, now);
        }
    }

    /// Reads chunks in one copy. Returns when it ends.
    fn read_keys(&mut self, keys: Vec<u64>, now: Ticks) -> Ticks {
        let ends = self.links.read(&keys, now);
        self.open(ends, Copy { keys, writes: false });
        ends
    }

    /// Removes the copies that have ended by `now`.
    fn take_ended(&mut self, now: Ticks) -> BTreeMap<(Ticks, u64), Copy> {
        let later = self.open.split_off(&(now.saturating_add(1), 0));
        std::mem::replace(&mut self.open, later)
    }
}

impl ChunkTier {
    /// Has a store be below the tier, if its settings have one.
    pub(in crate::instance) fn set_store(&mut self, stores: &[SharedStore]) {
        let below = |config: StoreLink| {
            Box::new(Below {
                links: StoreLinks::new(config, self.rules.config.chunk_blocks, stores),
                open: BTreeMap::new(),
                sent: 0,
                early: FxHashMap::default(),
                prefetching: config.prefetch.map(Prefetching::new),
                found: Vec::new(),
            })
        };
        self.below = self.rules.config.below.map(below);
    }

    /// Whether chunks are read from a store below the tier as a request is looked at for admission.
    pub(in crate::instance) fn reads_on_lookup(&self) -> bool {
        self.below.as_deref().is_some_and(|below| below.prefetching.is_none())
    }

    /// Learns which copies between the tier and the store have ended by `now`.
    pub(super) fn learn_of_store(&mut self, now: Ticks) {
        let Some(below) = &mut self.below else { return };
        for (_, copy) in below.take_ended(now) {
            if copy.writes {
                self.store.end_load(&copy.keys, false);
            } else {
                self.store.end_store(&copy.keys);
            }
        }
    }

    /// Begins to read those chunks of a request that the store has and the tier has not, up to the first that neither has,
    /// that the tier has no room for, or that was read before for the same admission. `cached`: tokens of its `tokens` that
    /// the prefix cache has. Returns whether there were any.
    pub(in crate::instance) fn fetch(
        &mut self,
        (slot, request, owner): (Option<Slot>, RequestNumber, ContentOwner),
        (tokens, cached): (u32, u32),
        memory: &Memory,
    ) -> bool {
        let (size, now) = (self.rules.chunk_tokens(), self.copies.step.row.start);
        let id = slot.and_then(|slot| self.uses.id(slot));
        let (chunks, first) = (self.rules.chunks_sought(tokens), cached / size);
        if id.is_some_and(|id| !self.uses.get(id).jobs.is_empty())
            || (chunks * size).saturating_sub(cached) < size
        {
            return false;
        }
        let mut found = Vec::new();
        for at in first..chunks {
            let chunk = self.rules.chunk(owner, at, memory);
            if self.store.find(chunk.key) != Found::Missing {
                continue;
            }
            let Some(below) = self.below.as_deref_mut() else { return false };
            let (access, fetched) = if let Some(id) = id {
                self.uses.fetching(id)
            } else {
                let early = below.early.entry(request).or_default();
                (&mut early.access, &mut early.fetched)
            };
            // Chunks that evict each other from the tier would be read without end.
            if fetched.contains(&at) || !below.links.has(chunk.key, now) {
                break;
            }
            if self.store.store(&[chunk], access).is_none() {
                below.links.stats.refused_reads += 1;
                break;
            }
            fetched.push(at);
            found.push(chunk.key);
        }
        let any = !found.is_empty();
        if let Some(below) = self.below.as_mut().filter(|_| any) {
            below.found.push(found);
            self.copies.stats.peak_chunks = self.copies.stats.peak_chunks.max(self.store.used());
        }
        any
    }

    fn prefetching(&self) -> Option<&Prefetching> {
        self.below.as_deref()?.prefetching.as_ref()
    }

    fn prefetching_mut(&mut self) -> Option<&mut Prefetching> {
        self.below.as_deref_mut()?.prefetching.as_mut()
    }

    /// Whether chunks are read from the store below as requests join the queue.
    pub(in crate::instance) fn prefetches(&self) -> bool {
        self.prefetching().is_some()
    }

    /// A request joins the queue.
    pub(in crate::instance) fn join_queue(&mut self, request: RequestNumber) {
        if let Some(prefetching) = self.prefetching_mut() {
            prefetching.join(request);
        }
    }

    /// The requests that have joined the queue since the last call, and for which chunks may be read.
    pub(in crate::instance) fn take_joined(&mut self) -> Vec<RequestNumber> {
        self.prefetching_mut().map(Prefetching::take_joined).unwrap_or_default()
    }

    /// Whether a request waits for its reads.
    pub(in crate::instance) fn awaits_reads(&self, request: RequestNumber) -> bool {
        self.prefetching().is_some_and(|prefetching| prefetching.awaits(request, self.copies.step.row.start))
    }

    /// Begins to read the chunks that the store has of a request's `tokens` tokens after what the prefix cache, with its
    /// `cached` tokens, and the tier have, if they are enough.
    pub(in crate::instance) fn prefetch(
        &mut self,
        (request, owner): (RequestNumber, ContentOwner),
        (tokens, cached): (u32, u32),
        memory: &Memory,
    ) {
        let (size, now) = (self.rules.chunk_tokens(), self.copies.step.row.start);
        let places = cached / size..self.rules.chunks_sought(tokens);
        let chunks: Vec<_> = places.map(|at| self.rules.chunk(owner, at, memory)).collect();
        let Some(below) = self.below.as_deref_mut() else { return };
        let Some(prefetching) = &mut below.prefetching else { return };
        let lacks = |chunk: &StoredChunk| self.store.find(chunk.key) == Found::Missing;
        let found = prefetching.wanted(&chunks, size, lacks, |chunk| below.links.has(chunk.key, now));
        if found.is_empty() {
            return;
        }
        let sought = found.len() as u32 * size;
        let mut early = std::mem::take(below.early.entry(request).or_default());
        let mut ends = now;
        for chunk in found {
            if self.store.store(&[chunk], &mut early.access).is_none() {
                below.links.stats.refused_reads += 1;
                break;
            }
            early.fetched.push(chunk.at);
            ends = below.read_keys(vec![chunk.key], now);
        }
        below.early.insert(request, early);
        if let Some(prefetching) = &mut below.prefetching {
            prefetching.begin(request, sought, now, ends);
        }
        self.copies.stats.peak_chunks = self.copies.stats.peak_chunks.max(self.store.used());
    }

    /// Notes that a request is admitted, for which chunks may have been read before.
    pub(super) fn admit_early(&mut self, id: u32, request: RequestNumber) {
        let Some(below) = &mut self.below else { return };
        if let Some(prefetching) = &mut below.prefetching {
            prefetching.admit(request);
        }
        if let Some(early) = below.early.remove(&request) {
            let (access, fetched) = self.uses.fetching(id);
            (*access, *fetched) = (early.access, early.fetched);
        }
    }

    /// Of the tokens that a request loads, those that were read from the store for it, and forgets which those were.
    pub(super) fn take_fetched(&mut self, id: u32, cached: u32, loaded: u32) -> u32 {
        let (size, ends) = (self.rules.chunk_tokens(), cached + loaded);
        let places = std::mem::take(self.uses.fetching(id).1);
        places.iter().map(|at| ((at + 1) * size).min(ends).saturating_sub((at * size).max(cached))).sum()
    }

    /// Writes the chunks of a copy that has ended to the store, as far as that lacks them and has room.
    pub(super) fn write_down(&mut self, job: &Job<Copied>, keys: &[u64], now: Ticks) {
        let Some(below) = &mut self.below else { return };
        let taken = below.write(keys, now);
        let chunks: Vec<StoredChunk> =
            job.of.chunks.iter().filter(|chunk| taken.contains(&chunk.key)).copied().collect();
        self.store.hold(&chunks);
    }

    /// Sends the reads that the lookups of the step which was formed have begun.
    pub(super) fn send_reads(&mut self) {
        let now = self.copies.step.row.start;
        if let Some(below) = &mut self.below {
            below.read(now);
        }
    }

    /// When the next copy from the store ends, for which requests may wait.
    pub(super) fn next_read_end(&self) -> Option<Ticks> {
        let below = self.below.as_deref()?;
        let read = below.open.iter().find(|(_, copy)| !copy.writes).map(|(&(ends, _), _)| ends);
        let stop = below
            .prefetching
            .as_ref()
            .and_then(|prefetching| prefetching.next_stop(self.copies.step.row.start));
        read.into_iter().chain(stop).min()
    }

    /// The links to the store below, if there is one.
    pub(in crate::instance::tiers) fn store_links(&self) -> Option<&StoreLinks> {
        self.below.as_deref().map(|below| &below.links)
    }
}
