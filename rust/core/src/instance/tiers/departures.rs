//! Requests that finish, that their clients cancel, or that move between instances.
//!
//! A request that has left offers what it has computed and not stored; its copies go on. The blocks of one that was
//! cancelled while its chunks are loaded are kept until the load has ended (`finish_requests` and
//! `_update_from_kv_xfer_finished` in `vllm/v1/core/sched/scheduler.py`, vLLM 0.33.0). A request that moves has finished here,
//! and the instance that has received its KV offers all its chunks (`update_state_after_alloc` of `multi_connector.py`, which
//! gives the offloading connector the blocks that another connector has filled).

use super::HostTier;
use super::jobs::Kind;
use crate::instance::request::Slot;
use crate::kv::{Block, ContentOwner};

impl HostTier {
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
        self.ahead.iter_mut().for_each(|ahead| ahead.ended.push(id));
    }

    /// A request is admitted whose KV another instance has sent: it offers all its chunks.
    pub(in crate::instance) fn receive(&mut self, slot: Slot, request: u32, owner: ContentOwner) {
        let id = self.uses.enter(slot, request, owner);
        self.uses.note_behind(id, true);
    }

    /// The same as [`Self::finish`] of a request that the step which is formed preempts, and whose end it does not know.
    pub(in crate::instance) fn finish_preempted(&mut self, slot: Slot) {
        self.preempt(slot);
        let Some(id) = self.end_use(slot, 0) else { return };
        match &mut self.ahead {
            Some(ahead) => ahead.ended.push(id),
            None => self.finished.push(id),
        }
    }

    fn end_use(&mut self, slot: Slot, computed: u32) -> Option<u32> {
        let id = self.uses.leave(slot)?;
        self.uses.note_behind(id, false);
        self.uses.get_mut(id).rest = self.complete(id, computed);
        Some(id)
    }

    /// Has a step wait for the open stores of a request that has left if it reuses their blocks. The next step that is closed
    /// stores what the request has left to store.
    pub(super) fn fence(&mut self, id: u32) {
        let used = self.uses.get(id);
        if !used.blocks.is_empty() {
            for &job in &used.jobs {
                let blocks = self.jobs.blocks_of(job, self.config.chunk_blocks, &used.blocks);
                self.fences.add(job, blocks);
            }
        }
        self.finished.push(id);
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
