//! The chunks that requests store in a tier, once they have computed them.

use super::HostTier;
use super::jobs::Kind;
use crate::instance::request::Slot;
use crate::kv::Memory;
use crate::time::Ticks;

impl HostTier {
    /// Chunks of a request with `tokens` computed tokens that may be stored once it has ended.
    pub(super) fn complete(&self, id: u32, tokens: u32) -> u32 {
        let prompt = self.uses.get(id).owner.prompt;
        let tokens = if self.config.prompts_only { tokens.min(prompt) } else { tokens };
        tokens / self.chunk_tokens()
    }

    /// Chunks of a running request that may be stored after a step with which `tokens` known tokens are computed.
    fn storable(&self, id: u32, tokens: u32) -> u32 {
        let decodes = !self.config.prompts_only && tokens > self.uses.get(id).owner.prompt;
        self.complete(id, tokens).saturating_sub(u32::from(self.drops_last && decodes))
    }

    /// Makes the stores of the step that was formed, and sends what it waits for. `scheduled`: requests that it runs, in the
    /// order of admission, with the known tokens computed once it is done. Returns when its forward pass begins.
    pub(in crate::instance) fn close(&mut self, scheduled: &[(Slot, u32)], memory: &Memory) -> Ticks {
        if !self.fences.is_empty() {
            for block in memory.given() {
                self.fences.jobs_of(block).iter().for_each(|&job| self.log.flush(job));
            }
        }
        for &(slot, tokens) in scheduled {
            if let Some(id) = self.uses.id(slot) {
                self.store_chunks(id, self.storable(id, tokens), memory);
            }
        }
        let finished = std::mem::take(&mut self.departed.finished);
        for &id in &finished {
            self.store_rest(id, memory);
        }
        for &id in &finished {
            self.store.finish(&self.uses.get(id).access);
            self.uses.finish(id);
        }
        let used = self.uses.requests(&self.loading);
        self.log.close(used, (self.store.used(), self.store.evicted()));
        self.send_reads();
        self.send_urgent()
    }

    /// Stores what a finished request has left to store, from blocks that may be in use again.
    fn store_rest(&mut self, id: u32, memory: &Memory) {
        let (rest, blocks) = (self.uses.get(id).rest, std::mem::take(&mut self.uses.get_mut(id).blocks));
        let Some(job) = self.store_chunks(id, rest, memory) else { return };
        self.uses.note_behind(id, false);
        let blocks = self.jobs.blocks_of(job, self.config.chunk_blocks, &blocks);
        if memory.given().any(|block| blocks.contains(&block)) {
            self.log.flush(job);
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
        let offered: Vec<_> = (used.next_chunk..last).map(|at| self.chunk(used.owner, at, memory)).collect();
        let stored = self.store.store(&offered, &mut self.uses.get_mut(id).access);
        self.uses.note_behind(id, false);
        let Some(stored) = stored else {
            self.stats.refused_stores += 1;
            self.log.step.refused += 1;
            self.uses.note_behind(id, true);
            return None;
        };
        self.uses.get_mut(id).next_chunk = last;
        if stored.is_empty() {
            return None;
        }
        let blocks = stored.len() as u64 * u64::from(self.config.chunk_blocks);
        self.stats.stored_blocks += blocks;
        self.stats.peak_chunks = self.stats.peak_chunks.max(self.store.used());
        Some(self.open_job(Kind::Store, id, &stored, blocks))
    }
}
