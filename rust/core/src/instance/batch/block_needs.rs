//! Which members of the decode set need a new block at which coming step.
//!
//! A member needs a block at a step if its computed tokens are then a multiple
//! of the block size. All members grow by one token a step, so members are
//! counted by `(computed tokens - steps) mod block size`, which no step changes.

use serde::{Deserialize, Serialize};

use crate::kv::BlockSize;

/// Members counted by the step, modulo the block size, at which they need a block.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct BlockNeeds {
    block: BlockSize,
    /// Steps taken, modulo the block size.
    phase: u32,
    /// Members by `(computed tokens - steps) mod block size`.
    counts: Vec<u32>,
}

impl BlockNeeds {
    pub(super) fn new(block: BlockSize) -> Self {
        Self { block, phase: 0, counts: vec![0; block.tokens() as usize] }
    }

    /// Index in `counts` of members with `computed` tokens by now.
    fn index(&self, computed: u32) -> usize {
        let within = self.block.rest_of(u64::from(computed));
        let index = if within >= self.phase { within } else { within + self.block.tokens() };
        (index - self.phase) as usize
    }

    /// Adds a member with `computed` tokens.
    pub(super) fn add(&mut self, computed: u32) {
        let index = self.index(computed);
        self.counts[index] += 1;
    }

    /// Removes a member with `computed` tokens.
    pub(super) fn remove(&mut self, computed: u32) {
        let index = self.index(computed);
        self.counts[index] -= 1;
    }

    /// Takes `k` steps.
    pub(super) fn advance(&mut self, k: u64) {
        self.phase = self.block.rest_of(u64::from(self.phase) + k);
    }

    /// Index of the members that need a block at the next step. Members that need
    /// one a step later have the index below; the indices form a ring.
    fn next_index(&self) -> usize {
        if self.phase == 0 { 0 } else { (self.block.tokens() - self.phase) as usize }
    }

    /// Blocks that the next step needs.
    pub(super) fn next(&self) -> u64 {
        u64::from(self.counts[self.next_index()])
    }

    /// Blocks that the next `k` steps need, of `members` members.
    pub(super) fn over(&self, k: u64, members: u64) -> u64 {
        let (whole, rest) = (self.block.filled_by(k), self.block.rest_of(k));
        // The loop has no early exit: a branch on how many count would be mispredicted. Signed numbers, since a processor
        // compares several of these at once.
        let (top, len, rest) = (self.next_index() as i32, self.block.tokens() as i32, rest as i32);
        let mut needed = 0;
        for (index, &count) in (0_i32..).zip(&self.counts) {
            let steps_ahead = top - index;
            let steps_ahead = if steps_ahead < 0 { steps_ahead + len } else { steps_ahead };
            needed += if steps_ahead < rest { count } else { 0 };
        }
        whole * members + u64::from(needed)
    }

    /// The most steps, up to `k`, whose blocks `free` covers, of `members` members.
    pub(super) fn steps_covered(&self, free: u64, k: u64, members: u64) -> u64 {
        let block = u64::from(self.block.tokens());
        // A member needs at most one block in as many steps as a block has tokens.
        if k.div_ceil(block).saturating_mul(members) <= free {
            return k;
        }
        let mut left = free % members;
        let mut steps = free / members * block;
        let top = self.next_index() + 1;
        for &count in self.counts[..top].iter().rev().chain(self.counts[top..].iter().rev()) {
            if u64::from(count) > left {
                break;
            }
            left -= u64::from(count);
            steps += 1;
        }
        steps.min(k)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn needs_equal_those_counted_member_by_member(
            block in 1u32..9, mut computed in prop::collection::vec(1u32..40, 1..12),
            taken in 0u64..20, free in 0u64..60, k in 0u64..50,
        ) {
            let mut needs = BlockNeeds::new(BlockSize::new(block, 0));
            for &tokens in &computed {
                needs.add(tokens);
            }
            needs.add(3);
            needs.advance(taken);
            needs.remove(3 + taken as u32);
            for tokens in &mut computed {
                *tokens += taken as u32;
            }
            let members = computed.len() as u64;
            let at = |step: u64| {
                let crosses = |tokens: &&u32| (u64::from(**tokens) + step).is_multiple_of(u64::from(block));
                computed.iter().filter(crosses).count() as u64
            };
            let over = |k: u64| (0..k).map(at).sum::<u64>();
            prop_assert_eq!(needs.next(), at(0));
            prop_assert_eq!(needs.over(k, members), over(k));
            let covered = (0..=k).take_while(|&steps| over(steps) <= free).last().unwrap_or(0);
            prop_assert_eq!(needs.steps_covered(free, k, members), covered);
        }
    }
}
