//! Block needs of members that yield several tokens a step.
//!
//! Members at the same place of the map's period grow alike, so they are counted by that place, and by what no step
//! changes of their tokens modulo the block size.

use super::progress::{Cycle, Progress};
use crate::kv::BlockSize;

/// Members counted by place in the period and by residue.
#[derive(Debug, Clone)]
pub(super) struct CyclicNeeds {
    block: BlockSize,
    /// Members by place, and by (computed tokens - tokens of the map by now) modulo the block size.
    counts: Vec<Vec<u32>>,
}

impl CyclicNeeds {
    /// Needs of no member.
    pub(super) fn new(block: BlockSize, progress: &Progress) -> Self {
        Self { block, counts: vec![vec![0; block.tokens() as usize]; progress.period() as usize] }
    }

    /// The count of members with an offset.
    #[cold]
    #[inline(never)]
    pub(super) fn count_mut(&mut self, cycle: Cycle, offset: i64) -> &mut u32 {
        let residue = offset.rem_euclid(i64::from(self.block.tokens()));
        &mut self.counts[usize::from(cycle)][residue as usize]
    }

    /// Tokens that all members together gain in the `k` steps after `step`.
    #[cold]
    #[inline(never)]
    pub(super) fn gained(&self, progress: &Progress, step: u64, k: u64) -> u64 {
        let places = self.counts.iter().zip(0..);
        places
            .map(|(members, cycle)| {
                let from = progress.tokens_after(step + cycle);
                let gained = progress.tokens_after(step + cycle + k) - from;
                members.iter().map(|&count| u64::from(count)).sum::<u64>() * gained
            })
            .sum()
    }

    /// Blocks that the `k` steps after `step` need.
    #[cold]
    #[inline(never)]
    pub(super) fn over(&self, progress: &Progress, step: u64, k: u64) -> u64 {
        let block = u64::from(self.block.tokens());
        let mut needed = 0;
        for (members, cycle) in self.counts.iter().zip(0..) {
            let from = progress.tokens_after(step + cycle);
            let gained = progress.tokens_after(step + cycle + k) - from;
            for (&count, residue) in members.iter().zip(0..) {
                let filled = (residue + from) % block;
                let held = u64::from(filled > 0);
                needed += u64::from(count) * ((filled + gained).div_ceil(block) - held);
            }
        }
        needed
    }

    /// The most steps after `step`, up to `most`, whose blocks `free` covers.
    #[cold]
    #[inline(never)]
    pub(super) fn steps_covered(&self, progress: &Progress, step: u64, free: u64, most: u64) -> u64 {
        let (mut covered, mut beyond) = (0, most);
        while covered < beyond {
            let middle = covered + (beyond - covered).div_ceil(2);
            if self.over(progress, step, middle) <= free {
                covered = middle;
            } else {
                beyond = middle - 1;
            }
        }
        covered
    }
}
