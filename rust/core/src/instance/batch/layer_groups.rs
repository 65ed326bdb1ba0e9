//! Prefills that run one group of layers a step (layered prefill).
//!
//! A batch of prefills is formed once and runs through all its groups, one a
//! step, while decodes run all layers at every step. No request joins the batch
//! on the way. Groups are contiguous; the first ones have one layer more where
//! the layers cannot be divided evenly.

use serde::{Deserialize, Serialize};

use super::super::request::Slot;
use super::Chunk;
use crate::config::GroupRule;
use crate::hint::rare;

/// The batch between two groups of layers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LayerGroups {
    /// The prefills of the batch; empty while none is under way.
    chunks: Vec<Chunk>,
    /// Tokens that they compute.
    tokens: u64,
    /// Index of the group that runs in this step; `None` while all layers run.
    group: Option<u32>,
    /// Groups of the batch.
    groups: u32,
    /// Layers of the model.
    depth: u32,
}

impl Default for LayerGroups {
    fn default() -> Self {
        Self { chunks: Vec::new(), tokens: 0, group: None, groups: 1, depth: 1 }
    }
}

impl LayerGroups {
    /// The prefills of the batch under way.
    pub(crate) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// Whether a batch is under way.
    pub(crate) fn is_under_way(&self) -> bool {
        !self.chunks.is_empty()
    }

    /// Tokens that the batch computes.
    pub(crate) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Moves the batch under way to its next group. Returns whether there was one.
    pub(super) fn advance(&mut self) -> bool {
        let Some(group) = self.group.filter(|_| self.is_under_way()) else { return false };
        self.group = Some(group + 1);
        true
    }

    /// Starts a batch, if there is any chunk for it. Returns whether there was.
    pub(super) fn start(&mut self, chunks: Vec<Chunk>, depth: u32, rule: &GroupRule) -> bool {
        self.tokens = chunks.iter().map(|chunk| u64::from(chunk.tokens)).sum();
        self.chunks = chunks;
        self.group = None;
        if self.chunks.is_empty() {
            return false;
        }
        self.group = Some(0);
        self.groups = rule.groups(self.tokens());
        self.depth = depth;
        true
    }

    /// Removes a request's chunk from the batch.
    pub(super) fn remove(&mut self, slot: Slot) -> Option<Chunk> {
        let at = self.chunks.iter().position(|chunk| chunk.slot == slot)?;
        let chunk = self.chunks.remove(at);
        self.tokens -= u64::from(chunk.tokens);
        Some(chunk)
    }

    /// Moves the chunks to `finished` if the batch comes out of its last group.
    pub(super) fn finish(&mut self, finished: &mut Vec<Chunk>) {
        if self.is_under_way() && self.is_last() {
            rare();
            finished.append(&mut self.chunks);
            self.tokens = 0;
        }
    }

    /// Whether prefills come out of the last layer in this step.
    pub(crate) fn is_last(&self) -> bool {
        self.group.is_none_or(|group| group + 1 == self.groups)
    }

    /// Layers that run prefills in this step, and layers of the model. All do if the batch was preempted.
    pub(crate) fn share(&self) -> (u32, u32) {
        match self.position() {
            None => (self.depth, self.depth),
            Some((group, _)) => {
                let longer = u32::from(group < self.depth % self.groups);
                (self.depth / self.groups + longer, self.depth)
            }
        }
    }

    /// The group that runs in this step and the number of groups, if a batch is
    /// under way.
    pub(crate) fn position(&self) -> Option<(u32, u32)> {
        self.group.filter(|_| self.is_under_way()).map(|group| (group, self.groups))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Part;
    use super::*;

    #[test]
    fn the_groups_of_a_batch_run_every_layer_once() {
        let rule = GroupRule { limits: vec![(8, 2)], tokens_per_group: 4, most: 5 };
        for (tokens, groups) in [(8, 2), (9, 3), (12, 3), (40, 5)] {
            let mut layers = LayerGroups::default();
            assert!(layers.start(
                vec![Chunk { slot: 3, tokens, drafts: 0, given_up: 0, part: Part::Admitted }],
                7,
                &rule
            ));
            let mut finished = Vec::new();
            let mut ran = vec![layers.share().0];
            while !layers.is_last() {
                layers.finish(&mut finished);
                assert!(finished.is_empty() && layers.advance());
                ran.push(layers.share().0);
            }
            assert_eq!((ran.len(), ran.iter().sum::<u32>()), (groups, 7));
            assert!(ran.is_sorted_by(|one, next| one >= next) && ran[0] - ran[groups - 1] <= 1);
            layers.finish(&mut finished);
            assert_eq!((finished.len(), layers.is_under_way(), layers.advance()), (1, false, false));
        }
    }

    #[test]
    fn a_removed_chunk_leaves_the_batch() {
        let rule = GroupRule { limits: vec![], tokens_per_group: 0, most: 2 };
        let mut layers = LayerGroups::default();
        let chunks = [1, 2].map(|slot| Chunk { slot, tokens: 5, drafts: 0, given_up: 0, part: Part::Chunk });
        layers.start(chunks.to_vec(), 4, &rule);
        assert_eq!(layers.remove(1).map(|chunk| chunk.tokens), Some(5));
        assert_eq!((layers.remove(1).is_none(), layers.tokens()), (true, 5));
        assert_eq!(layers.share(), (2, 4));
        // Without a batch, a step has decodes alone, and they run in all layers.
        assert_eq!((layers.remove(2).map(|chunk| chunk.tokens), layers.share()), (Some(5), (4, 4)));
    }
}
