//! The chunks that requests store in a tier, once they have computed them, and those that the GPU loses.
//!
//! Where insertions into the prefix cache count, the rules are those of a hierarchical radix cache
//! (`sglang/srt/mem_cache/unified_radix_cache.py`, `unified_cache/unified_tree_core.py`, 0.5.23): a request inserts each chunk once, those of
//! its prompt as they are computed and the others as it ends; a chunk that finds no room is not tried again by that
//! request; and a step that evicts blocks which the tier lacks waits until they are copied.

use super::ChunkTier;
use super::Copied;
use crate::instance::request::Slot;
use crate::instance::tiers::transfers::Kind;
use crate::kv::{Access, Block, Found, Memory, StoredChunk};
use crate::time::Ticks;

impl ChunkTier {
    /// Makes the stores of the step that was formed, and sends what it waits for. `scheduled`: requests that it runs, in the
    /// order of admission, with the known tokens computed once it is done. `lost`: contents that the GPU has lost as it was
    /// formed. Returns when its forward pass begins.
    pub(in crate::instance) fn close(
        &mut self,
        scheduled: &[(Slot, u32)],
        lost: &[u64],
        memory: &Memory,
    ) -> Ticks {
        if !self.fences.is_empty() {
            for block in memory.given() {
                self.fences.jobs_of(block).iter().for_each(|&job| self.copies.step.flush(job));
            }
        }
        // Those that have ended have inserted their chunks before this step was formed.
        let inserts = self.rules.config.write.insertions().is_some();
        if inserts {
            self.store_finished(memory);
        }
        self.insertions.lose(lost);
        for &(slot, tokens) in scheduled {
            if let Some(id) = self.uses.id(slot) {
                let last = self.rules.storable(self.uses.get(id).owner.prompt, tokens);
                self.store_chunks(id, last, memory);
            }
        }
        if !inserts {
            self.store_finished(memory);
        }
        self.store_lost();
        let used = self.uses.requests(&self.loading);
        self.copies.step.close(used, (self.store.used(), self.store.evicted()));
        self.send_reads();
        self.send_urgent()
    }

    /// Stores what the requests that have left have left to store.
    fn store_finished(&mut self, memory: &Memory) {
        let finished = std::mem::take(&mut self.departed.finished);
        for &id in &finished {
            self.store_rest(id, memory);
        }
        for &id in &finished {
            self.store.finish(&self.uses.get(id).access);
            self.uses.finish(id);
        }
    }

    /// Stores what a finished request has left to store, from blocks that may be in use again.
    fn store_rest(&mut self, id: u32, memory: &Memory) {
        let (rest, blocks) = (self.uses.get(id).rest, std::mem::take(&mut self.uses.get_mut(id).blocks));
        let Some(job) = self.store_chunks(id, rest, memory) else { return };
        self.uses.note_behind(id, false);
        let blocks = self.stored_blocks(job, &blocks);
        if memory.given().any(|block| blocks.contains(&block)) {
            self.copies.step.flush(job);
        }
        if self.rules.config.write.insertions().is_some() {
            self.copies.step.at_once.push(job);
        }
        self.fences.add(job, blocks);
    }

    /// Stores the chunks of a request up to the `last`th that it has not offered. Returns the copy, if one is made.
    fn store_chunks(&mut self, id: u32, last: u32, memory: &Memory) -> Option<u32> {
        let used = self.uses.get(id);
        if last <= used.next_chunk {
            self.uses.note_behind(id, false);
            return None;
        }
        let mut offered: Vec<_> =
            (used.next_chunk..last).map(|at| self.rules.chunk(used.owner, at, memory)).collect();
        let inserts = self.rules.config.write.insertions().is_some();
        if inserts {
            self.uses.get_mut(id).next_chunk = last;
            let stored = self.insertions.insert(&offered);
            let (first, rest) = offered.split_at(stored);
            let there = |chunk: &&StoredChunk| self.store.find(chunk.key) != Found::Missing;
            offered = first.iter().chain(rest.iter().filter(there)).copied().collect();
        }
        let stored = self.store.store(&offered, &mut self.uses.get_mut(id).access);
        self.uses.note_behind(id, false);
        let Some(stored) = stored else {
            self.copies.stats.refused_stores += 1;
            self.copies.step.row.refused += 1;
            self.uses.note_behind(id, !inserts);
            return None;
        };
        self.uses.get_mut(id).next_chunk = last;
        if stored.is_empty() {
            return None;
        }
        let blocks = self.count_stored(&stored);
        Some(self.open_job(Kind::Store, id, &stored, blocks))
    }

    /// Stores what the GPU has lost, in that order: the step waits for it.
    fn store_lost(&mut self) {
        let mut stored = Vec::new();
        for key in self.insertions.take_lost() {
            // Each is used on its own, so that the one that was lost first is the first to be evicted.
            let taken = self.store.store(&[StoredChunk { at: 0, key }], &mut Access::default());
            if taken.is_none() {
                self.copies.stats.refused_stores += 1;
                self.copies.step.row.refused += 1;
            }
            stored.extend(taken.into_iter().flatten());
        }
        if stored.is_empty() {
            return;
        }
        let blocks = self.count_stored(&stored);
        let job = self.copies.open(Kind::Store, Copied { used: None, chunks: stored }, blocks);
        self.copies.step.flush(job);
    }

    /// The blocks that a copy stores, if it does, of a request that has `blocks`.
    pub(super) fn stored_blocks(&self, job: u32, blocks: &[Block]) -> Vec<Block> {
        let size = self.rules.config.chunk_blocks;
        let job = self.copies.jobs.get(job).filter(|job| job.kind == Kind::Store);
        let chunks = job.into_iter().flat_map(|job| &job.of.chunks);
        chunks.flat_map(|chunk| &blocks[(chunk.at * size) as usize..][..size as usize]).copied().collect()
    }

    /// Counts chunks that are stored. Returns their blocks.
    fn count_stored(&mut self, stored: &[StoredChunk]) -> u64 {
        let blocks = stored.len() as u64 * u64::from(self.rules.config.chunk_blocks);
        self.copies.stats.stored_blocks += blocks;
        self.copies.stats.peak_chunks = self.copies.stats.peak_chunks.max(self.store.used());
        blocks
    }
}
