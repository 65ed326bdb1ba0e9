//! Requests that finish, or that their clients cancel.
//!
//! A request that has left offers what it has computed and not stored; its copies go on. The blocks of one that was
//! cancelled while its chunks are loaded are kept until the load has ended (`finish_requests` and
//! `_update_from_kv_xfer_finished` in `vllm/v1/core/sched/scheduler.py`, vLLM 0.33.0).

use super::HostTier;
use super::jobs::Kind;
use crate::instance::request::Slot;
use crate::kv::Block;

impl HostTier {
    /// A request has left, with the KV of `computed` tokens in `blocks`, which are freed. It has no blocks if it was preempted:
    /// the step that preempted it waits for its copies.
    pub(in crate::instance) fn finish(&mut self, slot: Slot, computed: u32, blocks: &[Block]) {
        let Some(id) = self.end_use(slot, computed, blocks) else { return };
        self.finished.push(id);
        if let Some(ahead) = &mut self.ahead {
            ahead.news = true;
        }
    }

    /// The same of a request that the step which is formed preempts, and whose end it does not know.
    pub(in crate::instance) fn finish_preempted(&mut self, slot: Slot) {
        self.preempt(slot);
        let Some(id) = self.end_use(slot, 0, &[]) else { return };
        match &mut self.ahead {
            Some(ahead) => ahead.ended.push(id),
            None => self.finished.push(id),
        }
    }

    fn end_use(&mut self, slot: Slot, computed: u32, blocks: &[Block]) -> Option<u32> {
        let id = self.uses.leave(slot)?;
        self.uses.note_behind(id, false);
        let storable = self.complete(id, computed);
        if !blocks.is_empty() {
            let size = self.config.chunk_blocks;
            for &job in &self.uses.get(id).jobs {
                self.fences.add(job, self.jobs.blocks_of(job, size, blocks));
            }
        }
        let used = self.uses.get_mut(id);
        used.rest = storable;
        if storable > used.next_chunk {
            used.blocks = blocks.to_vec();
        }
        Some(id)
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
        let loads = |&job: &u32| self.jobs.kind_of(job) == Some(Kind::Load);
        let keeps = self.uses.get(id).jobs.iter().any(loads);
        if keeps {
            self.uses.get_mut(id).awaited = Some(slot);
        }
        keeps
    }

    /// Removes and returns the requests that were cancelled and whose load has ended since.
    pub(in crate::instance) fn take_unloaded(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.unloaded)
    }

    /// Whether a step is in flight, or in progress as `runs` says, whose successor was decided as it started.
    pub(in crate::instance) fn is_decided_ahead(&self, runs: bool) -> bool {
        self.ahead.is_some() && (runs || self.has_launched())
    }
}
