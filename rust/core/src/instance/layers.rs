//! Prefills that run a group of layers a step (layered prefill).
//!
//! A batch of prefills is formed once and goes through all its groups, one a
//! step, while decodes run all layers at every step; no request joins the batch
//! on the way. Groups are contiguous, and the first ones take the layers that
//! cannot be shared out evenly.

use super::active::{Phase, Slot};
use super::form::Forming;
use super::{Chunk, Instance, World};
use crate::config::Stage;
use crate::time::Ticks;

/// The batch under way through the groups of layers.
#[derive(Debug)]
pub(super) struct Layers {
    /// Its prefills; none while no batch is under way.
    pub(super) batch: Vec<Chunk>,
    /// The group that runs in this step; nothing while all layers run.
    pub(super) group: Option<u32>,
    /// Groups in all.
    pub(super) groups: u32,
    /// Layers of the model.
    pub(super) depth: u32,
}

impl Default for Layers {
    fn default() -> Self {
        Self { batch: Vec::new(), group: None, groups: 1, depth: 1 }
    }
}

impl Layers {
    /// Takes a request's chunk out of the batch.
    pub(super) fn remove(&mut self, slot: Slot) -> Option<Chunk> {
        let at = self.batch.iter().position(|chunk| chunk.slot == slot)?;
        Some(self.batch.remove(at))
    }

    /// Tokens that the batch computes.
    pub(super) fn tokens(&self) -> u64 {
        self.batch.iter().map(|chunk| u64::from(chunk.tokens)).sum()
    }

    /// Whether the batch comes out of the last layer in this step.
    #[inline]
    pub(super) fn is_last(&self) -> bool {
        self.group.is_none_or(|group| group + 1 == self.groups)
    }

    /// Layers that run prefills in this step, and layers in all.
    pub(super) fn share(&self) -> (u32, u32) {
        match self.group {
            None => (self.depth, self.depth),
            Some(group) => {
                let longer = u32::from(group < self.depth % self.groups);
                (self.depth / self.groups + longer, self.depth)
            }
        }
    }
}

impl Instance {
    /// Whether a request has its tokens in the step that is formed, as a prefill
    /// or by itself.
    pub(super) fn has_chunk(&self, slot: Slot) -> bool {
        self.chunks.iter().chain(&self.layers.batch).any(|chunk| chunk.slot == slot)
    }

    /// Takes a request's chunk out of the step that is formed. Returns it, and
    /// whether it was part of the batch that goes through the groups of layers.
    pub(super) fn drop_chunk(&mut self, slot: Slot) -> (Option<Chunk>, bool) {
        match self.chunks.iter().position(|chunk| chunk.slot == slot) {
            Some(at) => (Some(self.chunks.remove(at)), false),
            None => (self.layers.remove(slot), true),
        }
    }

    /// Moves the batch under way on by one group, or forms a new one.
    #[inline(never)]
    pub(super) fn advance_layers(
        &mut self,
        stage: usize,
        forming: &mut Forming,
        now: Ticks,
        world: &mut World,
    ) {
        if let Some(group) = self.layers.group
            && !self.layers.batch.is_empty()
        {
            self.layers.group = Some(group + 1);
            return;
        }
        // Decodes do not use up the tokens of the batch.
        forming.charged = false;
        forming.left = self.scheduler.max_num_batched_tokens;
        self.continue_prefills(forming);
        self.admit_waiting(true, forming, now, world);
        // Requests that came with their memory and decode run all layers.
        let Self { chunks, table, layers: under_way, .. } = self;
        let prefills = |chunk: &mut Chunk| table[chunk.slot].phase == Phase::Prefilling;
        under_way.batch.extend(chunks.extract_if(.., prefills));
        under_way.group = None;
        if let Stage::Layered { layers, groups } = &self.scheduler.stages[stage]
            && !under_way.batch.is_empty()
        {
            under_way.group = Some(0);
            forming.new_batch = true;
            under_way.groups = groups.groups(under_way.tokens());
            under_way.depth = *layers;
        }
    }
}
