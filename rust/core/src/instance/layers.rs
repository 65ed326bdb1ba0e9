//! Prefills that run a group of layers a step (layered prefill).
//!
//! A batch is formed once and goes through all its groups, one a step, while
//! the decode set runs all layers at every step; nobody joins it on the way.
//! Groups are contiguous, and the first ones take the layers that cannot be
//! shared out evenly.

use super::Instance;
use super::World;
use super::form::Forming;
use crate::config::Stage;
use crate::time::Ticks;

/// Where the batch under way stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layers {
    /// The group that runs in this step; nothing while all layers run.
    pub(super) group: Option<u32>,
    /// Groups in all.
    pub(super) groups: u32,
    /// Layers of the model.
    pub(super) depth: u32,
}

impl Default for Layers {
    fn default() -> Self {
        Self { group: None, groups: 1, depth: 1 }
    }
}

impl Layers {
    /// Whether the chunks of this step come out of the last layer.
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
            && !self.chunks.is_empty()
        {
            self.layers.group = Some(group + 1);
            return;
        }
        // Decodes do not use up the tokens of the batch.
        forming.left = self.scheduler.max_num_batched_tokens;
        self.continue_prefills(forming);
        self.admit_waiting(true, forming, now, world);
        if self.chunks.is_empty() {
            self.layers.group = None;
            return;
        }
        let tokens = self.chunks.iter().map(|chunk| u64::from(chunk.tokens)).sum();
        if let Stage::Layered { layers, groups } = &self.scheduler.stages[stage] {
            self.layers = Layers { group: Some(0), groups: groups.groups(tokens), depth: *layers };
        }
    }
}
