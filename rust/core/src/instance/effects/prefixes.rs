//! Cached prefixes: in which order the queue has them, and what becomes of a tree that has them.

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Effects;
use crate::config::QueueOrder;
use crate::hint::rare;
use crate::instance::Part;
use crate::instance::batch::Chunk;
use crate::instance::queues::Queued;
use crate::instance::request::{Phase, Slot};
use crate::kv::{ContentOwner, Hits};

impl Effects<'_> {
    /// Sorts the queue by what the prefix cache has of each request, if it is in that order.
    pub(in crate::instance) fn sort_by_cached_prefix(&mut self) {
        if !self.on.settings.scheduler.order.sorts(self.on.queues.waiting().len()) {
            return;
        }
        match self.on.settings.scheduler.order {
            QueueOrder::LongestPrefix { shares, .. } => self.sort_by_longest_prefix(shares),
            _ => self.sort_by_shared_prefix(),
        }
    }

    /// Sorts the queue by the tokens that the prefix cache has of each request.
    fn sort_by_longest_prefix(&mut self, shares: u32) {
        let gpu = self.on.kv.gpu();
        let mut starts = FxHashSet::default();
        let sequences: Vec<_> = self.on.queues.waiting().iter().map(|queued| self.sequence(queued)).collect();
        let mut sequences = sequences.into_iter();
        self.on.queues.waiting_mut().sort_by_key(|_| {
            let Some((owner, tokens)) = sequences.next() else { return u32::MAX };
            let (on_gpu, cached) = gpu.cached_tokens(owner, tokens);
            if shares > 0 && on_gpu <= shares {
                // One that shares its start with a request before it has more cached once that has run.
                let start = gpu.start(owner, tokens, shares);
                if start.is_some_and(|start| !starts.insert(start)) {
                    return u32::MAX;
                }
            }
            u32::MAX - 1 - cached
        });
    }

    /// Sorts the queue depth first through the tree, where most requests are first (`_dfs_weight_order` in `sglang` 0.5.23,
    /// `srt/mem_cache/base_prefix_cache.py`).
    fn sort_by_shared_prefix(&mut self) {
        let path = |queued: Queued| {
            let (owner, tokens) = self.sequence(queued);
            self.on.kv.gpu().path_in_tree(owner, tokens)
        };
        let paths: Vec<_> = self.on.queues.waiting().iter().map(path).collect();
        let mut shared = FxHashMap::default();
        for &(node, _) in paths.iter().flatten() {
            *shared.entry(node).or_insert(0_u32) += 1;
        }
        let mut paths = paths.into_iter();
        self.on.queues.waiting_mut().sort_by_key(|_| {
            let path = paths.next().unwrap_or_default();
            let nodes = path.into_iter().map(|(node, place)| (Reverse(shared[&node]), place));
            // Requests that end at a node come behind those that go on.
            nodes.chain([(Reverse(0), u64::MAX)]).collect::<Vec<_>>()
        });
    }

    /// The tokens that a queued request has to compute, and whose content they are.
    fn sequence(&self, queued: Queued) -> (ContentOwner, u32) {
        if let Some(slot) = queued.slot {
            return (self.on.requests[slot].owner(), self.on.requests[slot].target());
        }
        let prompt = self.trace.prompt_tokens[queued.request.index()];
        (ContentOwner::of_prompt(self.trace.origin(queued.request), prompt), prompt)
    }

    /// Has queued requests use the prefixes that a tree has of them: all where the queue is sorted by these.
    pub(in crate::instance) fn use_queued_prefixes(&mut self) {
        let waiting = self.on.queues.waiting().len();
        if waiting == 0 {
            return;
        }
        let sorts = self.on.settings.scheduler.order.sorts(waiting);
        let cache = self.on.settings.scheduler.prefix_cache.as_ref();
        let Some(rules) = cache.and_then(|cache| cache.tree) else { return };
        let most = if sorts { waiting } else { self.on.queues.count_pass(rules) };
        if most == 0 {
            return;
        }
        let mut front = self.on.queues.waiting().in_order();
        front.truncate(most as usize);
        if !sorts {
            front.reverse();
        }
        for queued in front {
            let (owner, tokens) = self.sequence(queued);
            if let Some(tree) = self.on.kv.tree_mut() {
                tree.use_prefix(owner, tokens);
            }
        }
    }

    /// Has a request that was looked up for its admission use the prefix that a tree has of it.
    pub(in crate::instance) fn use_found(&mut self, hits: &mut Hits) {
        if let Some(tree) = self.on.kv.tree_mut() {
            rare();
            tree.use_found(hits);
        }
    }

    /// Inserts into a tree what the prefills of a step have computed that are through; those that continue come after all others.
    /// `beside`: decodes ran in the step.
    pub(super) fn insert_chunks(&mut self, chunks: &[Chunk], beside: bool) {
        let computes = |chunk: &&Chunk| !matches!(chunk.part, Part::Decode | Part::MigratedIn);
        let beside = beside || !chunks.iter().all(|chunk| computes(&chunk));
        let prefills = || chunks.iter().filter(computes).map(|chunk| chunk.slot);
        let (continuing, through): (Vec<_>, Vec<_>) =
            prefills().partition(|&slot| self.on.requests[slot].phase == Phase::Prefilling);
        self.on.batch.append_rows(&through, beside);
        let ahead = self.on.settings.scheduler.schedule_ahead;
        for slot in through {
            // A step that is decided ahead does not know the outcome of the one before it.
            if ahead {
                self.on.queues.ahead_mut().defer_insertion(slot);
            } else {
                self.insert_computed(slot);
            }
        }
        for slot in continuing {
            self.on.queues.ahead_mut().defer_chunk(slot);
        }
    }

    /// Inserts into a tree the prompts that are through, and that the step which was decided did not know to be.
    pub(super) fn insert_deferred(&mut self) {
        for slot in self.on.queues.ahead_mut().take_computed() {
            self.insert_computed(slot);
        }
    }

    /// Inserts into a tree what a request has computed.
    pub(super) fn insert_computed(&mut self, slot: Slot) {
        let state = &mut self.on.requests[slot];
        let (owner, computed) = (state.owner(), state.computed);
        if let Some(tree) = self.on.kv.tree_mut() {
            tree.insert(owner, computed, &mut state.blocks);
        }
    }

    /// Inserts into a tree the KV of a request that was handed over and is admitted, which decodes from now on.
    pub(super) fn insert_received(&mut self, slot: Slot) {
        self.on.batch.append_rows(&[slot], false);
        self.insert_computed(slot);
    }

    /// Sorts the rows of the batch as victims are chosen: those that have generated the most first, of equal ones those with
    /// the shortest prompts.
    pub(in crate::instance) fn sort_rows(&mut self) {
        if !self.on.kv.gpu().is_tree() {
            return;
        }
        rare();
        let mut decoding = self.on.decoding_in_order();
        decoding.sort_by_cached_key(|&slot| {
            let state = &self.on.requests[slot];
            (std::cmp::Reverse(self.on.seen_generated(slot)), state.prompt, self.on.batch.row(slot))
        });
        self.on.batch.append_rows(&decoding, false);
    }

    /// Evicts from a tree what the decode set has allocated for its next `steps` steps. Before the last of them a block for
    /// each decode holds nothing, where blocks have several tokens; with drafts, after the last that takes blocks.
    pub(in crate::instance) fn settle_decodes(&mut self, steps: u64) {
        if !self.on.kv.gpu().is_tree() {
            return;
        }
        rare();
        let set = self.on.batch.decode_set();
        let taken = set.blocks_for(steps);
        let room = match (self.on.settings.block.tokens(), set.width()) {
            (1, _) => 0,
            (_, 1) => set.len().saturating_sub(taken - set.blocks_for(steps - 1)),
            _ if taken > 0 => set.len(),
            _ => 0,
        };
        self.make_room(room);
    }

    /// Evicts all from a tree that no request holds.
    pub(in crate::instance) fn evict_unheld(&mut self) {
        if let Some(tree) = self.on.kv.tree_mut() {
            rare();
            tree.evict_unheld();
        }
    }

    /// Evicts from a tree until so many blocks hold nothing, or it has none to evict.
    pub(in crate::instance) fn make_room(&mut self, blocks: u64) {
        if let Some(tree) = self.on.kv.tree_mut() {
            tree.make_room(blocks);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Simulation;
    use crate::config::{PrefixCacheConfig, QueueOrder};
    use crate::engine::fixtures::config;
    use crate::time::Ticks;
    use crate::trace::{PrefixIds, Trace};

    /// When the requests of prompts with these ids of blocks are scheduled. The first runs alone from 0 to 140, and the others
    /// arrive in the meantime: two of them run from then on.
    fn scheduled(shares: u32, prompts: &[[u64; 2]]) -> Vec<Ticks> {
        let mut config = config(&[100], r#"{"on_arrival": {"rule": "round_robin"}}"#);
        let scheduler = &mut config.instances[0].scheduler;
        scheduler.max_num_seqs = 2;
        scheduler.order = QueueOrder::LongestPrefix { most: 9, shares };
        scheduler.prefix_cache = Some(PrefixCacheConfig { unknown_first: false, evict: None, tree: None });
        let prefix = PrefixIds {
            ends: (1..=prompts.len()).map(|count| 2 * count).collect(),
            ids: prompts.iter().flatten().copied().collect(),
            block_tokens: 16,
            outputs: None,
        };
        let trace = Trace {
            arrival: (0..prompts.len()).map(|at| at as Ticks).collect(),
            prompt_tokens: prompts.iter().map(|_| 40).collect(),
            output_tokens: prompts.iter().map(|_| 1).collect(),
            prefix: Some(prefix),
            ..Trace::default()
        };
        let mut simulation = Simulation::new(&config, trace).unwrap();
        while !simulation.advance(1).unwrap() {}
        simulation.into_outcome().columns.scheduled.into_vec()
    }

    #[test]
    fn a_request_that_shares_its_start_with_one_before_it_is_behind_one_that_has_nothing_cached() {
        let prompts = [[1, 2], [3, 4], [3, 5], [6, 7]];
        let at = scheduled(16, &prompts);
        assert_eq!((at[1], at[3]), (140, 140));
        assert!(at[2] > 140, "its first block is computed for the request before it");
        let at = scheduled(0, &prompts);
        assert_eq!(
            (at[1], at[2]),
            (140, 140),
            "no request is put behind another: they stay in the order of arrival"
        );
        assert!(at[3] > 140);
    }
}
