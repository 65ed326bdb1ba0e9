//! The order in which cached blocks are evicted, where it is not that of the free queue.
//!
//! Blocks are in groups, and in each group in an order that does not change while they are free. Where there are several
//! groups, an expression picks among their first blocks. Time in expressions is the latest moment at which the instance
//! freed blocks: a run of decode steps allocates blocks and frees none, so it evicts the same blocks taken at once as step by
//! step.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::content::Block;
use crate::config::{EvictionConfig, EvictionGroups};
use crate::policy::{
    BlockField, Expr, Field, InstField, InstanceRef, Linear, Number, ReqField, Scope, Validity, sort_key_now,
};
use crate::time::{TICKS_PER_SECOND, Ticks};

/// The order of the cached blocks that no request holds.
#[derive(Debug, Clone)]
pub(crate) struct Eviction {
    config: EvictionConfig,
    /// The fields of requests that the expressions read.
    reads: Vec<Field>,
    /// Blocks that were ever allocated.
    blocks: Vec<Known>,
    /// The numbers in `reads` of the request that freed each block last, one block after another.
    numbers: Vec<f64>,
    /// The free blocks of each group, the first to evict first: key, number in the order of freeing, block.
    groups: BTreeMap<i64, BTreeSet<(i64, u64, Block)>>,
    /// Blocks that were ever freed.
    freed: u64,
    /// The latest moment at which blocks were freed.
    now: Ticks,
    /// The numbers in `reads` of the request that frees its blocks.
    freeing: Vec<f64>,
}

crate::checkpoint::checkpointed!(Eviction {
    values: blocks, numbers, groups, freed, now, freeing;
    fixed: config, reads;
});

/// A block whose content is cached.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Known {
    /// Requests that have held it since its content was computed.
    uses: u32,
    /// Its place in the sequence of the request that freed it last.
    position: u32,
    /// When it was freed last.
    used: Ticks,
    /// Its group and its place there, while it is free.
    place: (i64, i64, u64),
}

impl Eviction {
    /// No blocks.
    pub(super) fn new(config: &EvictionConfig) -> Self {
        Self {
            reads: config.reads(),
            config: config.clone(),
            blocks: Vec::new(),
            numbers: Vec::new(),
            groups: BTreeMap::new(),
            freed: 0,
            now: 0,
            freeing: Vec::new(),
        }
    }

    /// Notes that a request is going to free its blocks, with the numbers of its fields.
    pub(super) fn begin_freeing(&mut self, now: Ticks, number: impl Fn(Field) -> f64) {
        self.now = now;
        self.freeing.clear();
        self.freeing.extend(self.reads.iter().map(|&field| number(field)));
    }

    /// A block is allocated, and its content is lost.
    pub(super) fn allocate(&mut self, block: Block) {
        let needed = block as usize + 1;
        if self.blocks.len() < needed {
            self.blocks.resize(needed, Known::default());
            self.numbers.resize(needed * self.reads.len(), 0.0);
        }
        self.blocks[block as usize] = Known { uses: 1, ..Known::default() };
    }

    /// One more request holds a block.
    pub(super) fn hit(&mut self, block: Block) {
        self.blocks[block as usize].uses += 1;
    }

    /// Adds a free block, which was at `position` of the sequence of the request that frees it.
    pub(super) fn add(&mut self, block: Block, position: u32) {
        let at = block as usize;
        let width = self.reads.len();
        self.numbers[at * width..(at + 1) * width].copy_from_slice(&self.freeing);
        let known = &mut self.blocks[at];
        (known.position, known.used) = (position, self.now);
        let group = self.config.groups.as_ref().map_or(0, |groups| self.key(&groups.by, block));
        let place = (group, self.key(&self.config.order, block), self.freed);
        self.freed += 1;
        self.blocks[at].place = place;
        self.groups.entry(group).or_default().insert((place.1, place.2, block));
    }

    /// Removes a free block.
    pub(super) fn remove(&mut self, block: Block) {
        let (group, key, number) = self.blocks[block as usize].place;
        if let Some(of_group) = self.groups.get_mut(&group) {
            of_group.remove(&(key, number, block));
            if of_group.is_empty() {
                self.groups.remove(&group);
            }
        }
    }

    /// The block to evict next.
    pub(super) fn first(&self) -> Option<Block> {
        let mut heads = self.groups.values().filter_map(BTreeSet::first);
        match &self.config.groups {
            None => heads.next().map(|&(_, _, block)| block),
            Some(EvictionGroups { first, .. }) => {
                heads.min_by_key(|(_, number, block)| (self.key(first, *block), *number)).map(|head| head.2)
            }
        }
    }

    /// The sort key of an expression's value for a block.
    fn key(&self, expr: &Expr, block: Block) -> i64 {
        sort_key_now(expr, &mut View { of: self, block: block as usize })
    }
}

/// A block as an expression sees it.
struct View<'a> {
    of: &'a Eviction,
    block: usize,
}

impl View<'_> {
    /// The number of a field of the request that freed the block last.
    fn number(&self, field: Field) -> f64 {
        let reads = &self.of.reads;
        let at = reads.iter().position(|read| *read == field);
        at.map_or(0.0, |at| self.of.numbers[self.block * reads.len() + at])
    }
}

impl Scope for View<'_> {
    fn request(&mut self, field: ReqField, _: &mut Validity) -> Linear {
        Linear::fixed(self.number(Field::Req(field)))
    }

    fn instance(&mut self, _: InstanceRef, _: InstField, _: u32) -> f64 {
        0.0
    }

    fn column(&self, index: u32) -> f64 {
        self.number(Field::Column(index))
    }

    fn block(&self, field: BlockField) -> f64 {
        let seconds = |ticks: Ticks| ticks as f64 / TICKS_PER_SECOND as f64;
        let known = &self.of.blocks[self.block];
        match field {
            BlockField::UsedS => seconds(known.used),
            BlockField::IdleS => seconds(self.of.now - known.used),
            BlockField::Uses => f64::from(known.uses),
            BlockField::Position => f64::from(known.position),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Ticks = TICKS_PER_SECOND;

    /// An order whose blocks 0, 1, 2, … are freed at these moments by requests of these priorities.
    fn freed(config: &str, blocks: &[(Ticks, f64)]) -> Eviction {
        let mut eviction = Eviction::new(&serde_json::from_str(config).unwrap());
        for (block, &(now, priority)) in blocks.iter().enumerate() {
            eviction.allocate(block as Block);
            eviction.begin_freeing(now, |field| {
                assert_eq!(field, Field::Req(ReqField::Priority));
                priority
            });
            eviction.add(block as Block, 0);
        }
        eviction
    }

    /// The order in which all blocks are evicted.
    fn all(mut eviction: Eviction) -> Vec<Block> {
        let mut order = Vec::new();
        while let Some(block) = eviction.first() {
            eviction.remove(block);
            order.push(block);
        }
        order
    }

    #[test]
    fn equal_keys_are_in_the_order_of_freeing() {
        let config = r#"{"order": {"field": "req.priority"}}"#;
        let eviction = freed(config, &[(0, 2.0), (1, 1.0), (2, 2.0), (3, 1.0)]);
        assert_eq!(all(eviction), [1, 3, 0, 2]);
    }

    #[test]
    fn a_block_that_was_hit_has_one_use_more() {
        let mut eviction = freed(r#"{"order": {"field": "block.uses"}}"#, &[]);
        for block in [0, 1] {
            eviction.allocate(block);
            eviction.begin_freeing(0, |_| 0.0);
            eviction.add(block, 0);
        }
        eviction.remove(0);
        eviction.hit(0);
        eviction.add(0, 0);
        assert_eq!(all(eviction), [1, 0]);
    }

    #[test]
    fn the_groups_change_places_as_time_passes() {
        // 10 less the idle seconds in group 0, and 4 in group 1: group 0 is evicted first once it is idle for more than 6 s.
        let config = r#"{"order": {"field": "block.used_s"}, "groups": {"by": {"field": "req.priority"},
            "first": {"op": "if", "args": [{"field": "req.priority"}, {"const": 4},
                {"op": "sub", "args": [{"const": 10}, {"field": "block.idle_s"}]}]}}}"#;
        let at = |now: Ticks| {
            let mut eviction = freed(config, &[(0, 0.0), (0, 1.0), (SECOND, 0.0)]);
            eviction.begin_freeing(now, |_| 1.0);
            all(eviction)
        };
        assert_eq!(at(5 * SECOND), [1, 0, 2]);
        assert_eq!(at(6 * SECOND), [0, 1, 2], "equal: the block that was freed first");
        assert_eq!(at(8 * SECOND), [0, 2, 1]);
    }
}
