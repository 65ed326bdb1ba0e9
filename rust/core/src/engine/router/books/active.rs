//! A router's books of active sequences: the distinct blocks of each instance's unfinished requests, with owners and
//! weights, and the prompt tokens whose prefill has not ended.
//!
//! A block that several requests of an instance have counts once. The weight of a block is 1 unless outputs decay: then
//! each block that a request fills with output lowers the weight of the blocks that only this request owns, to the share
//! of its output that is still to come.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::holders::Holders;
use crate::collections::PagedMap;
use crate::policy::TrackedOutputs;

/// A request as it is booked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Booked {
    /// Its row in the trace.
    pub(super) row: u32,
    /// Tokens of its prompt.
    pub(super) prompt: u32,
    /// Tokens of its prompt that its prefill computes, as far as the router knows.
    pub(super) uncached: u32,
    /// Tokens that its output is expected to have.
    pub(super) expected: u32,
}

/// One router's books of active sequences.
#[derive(Debug)]
pub(super) struct ActiveBlocks {
    /// Tokens in a block.
    block_tokens: u32,
    /// The tokens of outputs that are booked.
    outputs: TrackedOutputs,
    /// Which instances have unfinished requests with which block.
    holders: Holders,
    /// By instance: the owners and the weight of each block.
    owned: Vec<PagedMap<Owned>>,
    /// By instance.
    instances: Vec<OfInstance>,
    /// By row: the unfinished requests.
    requests: FxHashMap<u32, OfRequest>,
}

/// The requests on an instance that own a block.
#[derive(Debug, Clone, Copy)]
struct Owned {
    owners: u32,
    weight: f64,
}

impl Default for Owned {
    fn default() -> Self {
        Self { owners: 0, weight: 1.0 }
    }
}

/// The books of an instance.
#[derive(Debug, Clone, Default)]
struct OfInstance {
    /// The distinct prompt blocks.
    blocks: u64,
    /// The sum of their weights.
    weight: f64,
    /// Prompt tokens whose prefill has not ended.
    prefill: u64,
    /// By row: how many blocks a request's output filled, and their weight.
    outputs: BTreeMap<u32, (u32, f64)>,
}

/// The books of a request.
#[derive(Debug)]
struct OfRequest {
    booked: Booked,
    instance: usize,
    /// The blocks of its prompt that other requests may have, in order.
    shared: Vec<u32>,
    /// The number of the blocks after these, which only this request has.
    own: u32,
    /// The weight of each of those.
    own_weight: f64,
    /// Whether its prefill has ended.
    prefilled: bool,
    /// Output tokens that are booked.
    generated: u32,
    /// Blocks of prompt and output that are booked.
    seen: u32,
}

impl ActiveBlocks {
    /// Empty books.
    pub(super) fn new(instances: usize, block_tokens: u32, outputs: TrackedOutputs) -> Self {
        Self {
            block_tokens,
            outputs,
            holders: Holders::new(instances),
            owned: vec![PagedMap::default(); instances],
            instances: vec![OfInstance::default(); instances],
            requests: FxHashMap::default(),
        }
    }

    /// Writes to `leading`, for each instance, how many leading blocks of a path its unfinished requests have.
    pub(super) fn count_leading(&mut self, path: impl Iterator<Item = Option<u32>>, leading: &mut Vec<u32>) {
        self.holders.count_leading(path, leading);
    }

    /// The distinct blocks of an instance's unfinished requests, by weight, rounded.
    pub(super) fn blocks(&self, instance: usize) -> f64 {
        let books = &self.instances[instance];
        if books.outputs.is_empty() {
            return (books.weight + 0.5).floor();
        }
        let outputs: f64 = books.outputs.values().map(|&(blocks, weight)| f64::from(blocks) * weight).sum();
        (books.weight + outputs + 0.5).floor()
    }

    /// The prompt tokens of an instance whose prefill has not ended.
    pub(super) fn prefill_tokens(&self, instance: usize) -> u64 {
        self.instances[instance].prefill
    }

    /// Books a request on an instance: the blocks of its prompt, of which those with a number may be shared.
    pub(super) fn add(&mut self, booked: Booked, path: impl Iterator<Item = Option<u32>>, instance: usize) {
        let (mut shared, mut own) = (Vec::new(), 0);
        for block in path {
            match block {
                Some(block) if own == 0 => shared.push(block),
                _ => own += 1,
            }
        }
        let books = &mut self.instances[instance];
        for &block in &shared {
            let owned = self.owned[instance].get_or_default(block.into());
            owned.owners += 1;
            if owned.owners == 1 {
                self.holders.insert(block, instance);
                books.blocks += 1;
                books.weight += 1.0;
            }
        }
        books.blocks += u64::from(own);
        books.weight += f64::from(own);
        books.prefill += u64::from(booked.uncached);
        let seen = booked.prompt.div_ceil(self.block_tokens);
        let request = OfRequest {
            booked,
            instance,
            shared,
            own,
            own_weight: 1.0,
            prefilled: false,
            generated: 0,
            seen,
        };
        self.requests.insert(booked.row, request);
    }

    /// Notes that the prefill of a request has ended.
    pub(super) fn end_prefill(&mut self, row: u32) {
        let Some(request) = self.requests.get_mut(&row) else { return };
        if !std::mem::replace(&mut request.prefilled, true) {
            self.instances[request.instance].prefill -= u64::from(request.booked.uncached);
        }
    }

    /// Output tokens after which the output of a request fills one more block than is booked.
    pub(super) fn next_crossing(&self, row: u32) -> Option<u32> {
        let request = self.requests.get(&row)?;
        Some((request.seen * self.block_tokens + 1).saturating_sub(request.booked.prompt).max(1))
    }

    /// Notes that a request has yielded `generated` tokens; with tracked outputs, at every block that they fill.
    pub(super) fn yield_tokens(&mut self, row: u32, generated: u32) {
        let Some(request) = self.requests.get_mut(&row) else { return };
        request.generated = request.generated.max(generated);
        let total = (request.booked.prompt + generated).div_ceil(self.block_tokens);
        if self.outputs == TrackedOutputs::None || total <= request.seen {
            return;
        }
        request.seen = total;
        let books = &mut self.instances[request.instance];
        let output = books.outputs.entry(row).or_insert((0, 1.0));
        output.0 += 1;
        if self.outputs == TrackedOutputs::Whole {
            return;
        }
        let weight = (1.0 - f64::from(generated) / f64::from(request.booked.expected)).max(0.0);
        output.1 = weight;
        for _ in 0..request.own {
            books.weight += weight - request.own_weight;
        }
        request.own_weight = weight;
        for &block in request.shared.iter().rev() {
            let Some(owned) = self.owned[request.instance].get_mut(block.into()) else { break };
            if owned.owners != 1 {
                break;
            }
            books.weight += weight - owned.weight;
            owned.weight = weight;
        }
    }

    /// Books a request that comes from another instance with `generated` output tokens.
    pub(super) fn resume(&mut self, row: u32, generated: u32) {
        self.end_prefill(row);
        let Some(request) = self.requests.get_mut(&row) else { return };
        request.generated = generated;
        let total = (request.booked.prompt + generated).div_ceil(self.block_tokens);
        let filled = total - std::mem::replace(&mut request.seen, total);
        if self.outputs != TrackedOutputs::None && filled > 0 {
            self.instances[request.instance].outputs.insert(row, (filled, 1.0));
        }
    }

    /// Removes a request that has finished or left its instance. Returns its output tokens that are booked, if its prefill
    /// had ended.
    pub(super) fn remove(&mut self, row: u32) -> Option<u32> {
        let prefilled = self.requests.get(&row)?.prefilled;
        self.end_prefill(row);
        let request = self.requests.remove(&row)?;
        let instance = request.instance;
        let books = &mut self.instances[instance];
        books.outputs.remove(&row);
        for _ in 0..request.own {
            books.weight -= request.own_weight;
        }
        books.blocks -= u64::from(request.own);
        for &block in request.shared.iter().rev() {
            let Some(owned) = self.owned[instance].get_mut(block.into()) else { continue };
            owned.owners -= 1;
            if owned.owners == 0 {
                books.weight -= owned.weight;
                books.blocks -= 1;
                self.owned[instance].remove(block.into());
                self.holders.remove(block, instance);
            }
        }
        if books.blocks == 0 {
            // No error of rounding outlives the blocks.
            books.weight = 0.0;
        }
        prefilled.then_some(request.generated)
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these sums are exact")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn booked(row: u32, prompt: u32) -> Booked {
        Booked { row, prompt, uncached: prompt, expected: 8 }
    }

    fn path(blocks: &[u32]) -> impl Iterator<Item = Option<u32>> + '_ {
        blocks.iter().map(|&block| Some(block))
    }

    #[test]
    fn blocks_that_requests_share_count_once_and_prefills_until_they_end() {
        let mut books = ActiveBlocks::new(2, 4, TrackedOutputs::None);
        books.add(booked(0, 12), path(&[1, 2, 3]), 1);
        books.add(Booked { uncached: 3, ..booked(1, 11) }, path(&[1, 2]), 1);
        assert_eq!((books.blocks(0), books.blocks(1)), (0.0, 3.0));
        assert_eq!(books.prefill_tokens(1), 15);
        let mut leading = Vec::new();
        books.count_leading(path(&[1, 2, 9]), &mut leading);
        assert_eq!(leading, [0, 2]);
        books.end_prefill(0);
        books.end_prefill(0);
        assert_eq!(books.prefill_tokens(1), 3);
        books.remove(0);
        assert_eq!((books.blocks(1), books.prefill_tokens(1)), (2.0, 3));
        books.remove(1);
        books.count_leading(path(&[1]), &mut leading);
        assert_eq!((books.blocks(1), books.prefill_tokens(1), leading[1]), (0.0, 0, 0));
    }

    #[test]
    fn the_books_of_a_request_that_leaves_tell_whether_its_prefill_had_ended() {
        let mut books = ActiveBlocks::new(2, 4, TrackedOutputs::None);
        books.add(booked(0, 10), path(&[1, 2]), 0);
        assert_eq!(books.remove(0), None);
        books.add(booked(0, 10), path(&[1, 2]), 0);
        books.end_prefill(0);
        assert_eq!(books.remove(0), Some(0));
        books.add(booked(0, 10), path(&[1, 2]), 1);
        books.resume(0, 0);
        assert_eq!((books.prefill_tokens(0), books.prefill_tokens(1)), (0, 0));
    }

    #[test]
    fn outputs_count_by_the_block_and_decay_the_blocks_of_a_sole_owner() {
        // A prompt of 10 tokens fills two blocks of 4 and begins a third. Tokens 3, 7 and 11 begin blocks 4, 5 and 6.
        for (outputs, after) in [
            (TrackedOutputs::None, [2.0, 2.0, 2.0]),
            (TrackedOutputs::Whole, [2.0, 3.0, 4.0]),
            // Of 8 tokens 5 and 1 are left: 3 blocks of weight 5/8 are 1.875, 4 blocks of weight 1/8 are 0.5.
            (TrackedOutputs::Decaying, [2.0, 2.0, 1.0]),
        ] {
            let mut books = ActiveBlocks::new(1, 4, outputs);
            books.add(booked(0, 10), path(&[1, 2]), 0);
            assert_eq!(books.next_crossing(0), Some(3));
            for (generated, blocks) in [(2, after[0]), (3, after[1]), (7, after[2])] {
                books.yield_tokens(0, generated);
                assert_eq!(books.blocks(0), blocks, "{outputs:?} after {generated}");
            }
            books.remove(0);
            assert_eq!(books.blocks(0), 0.0);
        }
    }

    #[test]
    fn a_block_of_two_owners_keeps_its_weight() {
        let mut books = ActiveBlocks::new(1, 4, TrackedOutputs::Decaying);
        books.add(booked(0, 12), path(&[1, 2, 3]), 0);
        books.add(booked(1, 8), path(&[1, 2]), 0);
        books.yield_tokens(0, 4);
        // Block 3 and the block of output have weight 1/2; blocks 1 and 2 are shared.
        assert_eq!(books.blocks(0), 3.0);
        books.remove(1);
        assert_eq!(books.blocks(0), 3.0, "weights stay when owners change");
        books.yield_tokens(0, 8);
        assert_eq!(books.blocks(0), 0.0, "all output that was expected is there");
    }

    proptest! {
        #[test]
        fn the_books_equal_a_count_of_distinct_blocks(
            changes in prop::collection::vec(
                (0_u32..6, prop::collection::vec(0_u32..4, 0..5), 0_usize..3, 0_u32..3), 0..40,
            ),
        ) {
            let mut books = ActiveBlocks::new(3, 4, TrackedOutputs::None);
            // By row: the instance, the prefixes (a block with all before it) and the number of own blocks.
            let mut naive: BTreeMap<u32, (usize, Vec<u32>, u32)> = BTreeMap::new();
            for (row, blocks, instance, own) in changes {
                if naive.remove(&row).is_some() {
                    books.remove(row);
                    continue;
                }
                // A number for each prefix, as the trace's contents have.
                let prefixes: Vec<u32> = blocks
                    .iter()
                    .scan(1, |number, block| {
                        *number = *number * 5 + block;
                        Some(*number)
                    })
                    .collect();
                let path = prefixes.iter().map(|&block| Some(block)).chain((0..own).map(|_| None));
                books.add(booked(row, 9), path, instance);
                naive.insert(row, (instance, prefixes, own));
            }
            for instance in 0..3 {
                let here: Vec<_> = naive.values().filter(|request| request.0 == instance).collect();
                let mut distinct: Vec<_> = here.iter().flat_map(|request| request.1.iter()).collect();
                distinct.sort_unstable();
                distinct.dedup();
                let own: u32 = here.iter().map(|request| request.2).sum();
                prop_assert_eq!(books.blocks(instance), distinct.len() as f64 + f64::from(own));
                prop_assert_eq!(books.prefill_tokens(instance), 9 * here.len() as u64);
            }
        }
    }
}
