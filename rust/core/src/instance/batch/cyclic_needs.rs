//! Block needs of members that yield several tokens a step.
//!
//! Members at the same place of the map's period grow alike, so they are counted by that place, and by what no step
//! changes of their tokens modulo the block size.

use super::progress::{Cycle, Periodic};
use crate::kv::BlockSize;

/// Members counted by place in the period and by residue.
#[derive(Debug, Clone)]
pub(super) struct CyclicNeeds {
    numbers: Periodic,
    block: BlockSize,
    places: Vec<Place>,
    /// Blocks that the next step needs.
    next: u64,
    /// The members that have joined since the latest step, by row, and the blocks that each lacks of those that it would hold
    /// had it taken that step.
    joined: Vec<(u32, u64)>,
}

/// The members at a place of the period.
#[derive(Debug, Clone)]
struct Place {
    members: u64,
    /// By the offset of a member modulo the block size.
    offsets: Vec<u32>,
}

impl CyclicNeeds {
    /// Needs of no member.
    pub(super) fn new(block: BlockSize, numbers: Periodic) -> Self {
        let place = Place { members: 0, offsets: vec![0; block.tokens() as usize] };
        let places = vec![place; numbers.period() as usize];
        Self { numbers, block, places, next: 0, joined: Vec::new() }
    }

    /// Adds a member with an offset that needs `needed` blocks in the next step.
    pub(super) fn add(&mut self, cycle: Cycle, offset: i64, needed: u64) {
        let at = self.residue(offset);
        let place = &mut self.places[usize::from(cycle)];
        place.members += 1;
        place.offsets[at] += 1;
        self.next += needed;
    }

    /// Notes that a member joins, which lacks blocks of those that it would hold had it taken the latest step.
    pub(super) fn join(&mut self, row: u32, owed: u64) {
        self.joined.push((row, owed));
    }

    /// Blocks that a member lacks until it takes its first step.
    pub(super) fn owed(&self, row: u32) -> u64 {
        self.joined.iter().find(|joined| joined.0 == row).map_or(0, |joined| joined.1)
    }

    /// Removes a member.
    pub(super) fn remove(&mut self, row: u32, (cycle, offset): (Cycle, i64), needed: u64) {
        self.joined.retain(|joined| joined.0 != row);
        let at = self.residue(offset);
        let place = &mut self.places[usize::from(cycle)];
        place.members -= 1;
        place.offsets[at] -= 1;
        self.next -= needed;
    }

    /// Notes that the members have taken `step` steps.
    pub(super) fn advance_to(&mut self, step: u64) {
        self.joined.clear();
        self.next = self.over(step, 1);
    }

    /// Blocks that the next step needs.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    fn residue(&self, tokens: i64) -> usize {
        tokens.rem_euclid(i64::from(self.block.tokens())) as usize
    }

    /// The places that have members, and how many steps each is ahead of the set's counter.
    fn occupied(&self) -> impl Iterator<Item = (&Place, u64)> {
        self.places.iter().zip(0..).filter(|(place, _)| place.members > 0)
    }

    /// Tokens that all members together yield in the `k` steps after `step`.
    pub(super) fn gained(&self, step: u64, k: u64) -> u64 {
        let tokens = self.numbers.tokens_from(step);
        self.occupied().map(|(place, ahead)| place.members * (tokens(ahead + k) - tokens(ahead))).sum()
    }

    /// Tokens that all members together yield in each of the steps after `step`.
    pub(super) fn gains(&self, step: u64) -> impl Iterator<Item = u64> {
        let period = self.places.len();
        let mut from = (step % period as u64) as usize;
        std::iter::repeat_with(move || {
            let of = |(place, ahead): (&Place, u64)| {
                let at = from + ahead as usize;
                place.members * self.numbers.yielded_at(if at < period { at } else { at - period })
            };
            let gained = self.occupied().map(of).sum();
            from = if from + 1 < period { from + 1 } else { 0 };
            gained
        })
    }

    /// Blocks that the `k` steps after `step` need.
    pub(super) fn over(&self, step: u64, k: u64) -> u64 {
        let block = i64::from(self.block.tokens());
        let mut needed = if k > 0 { self.joined.iter().map(|joined| joined.1).sum() } else { 0 };
        let held = self.numbers.held_from(step);
        for (place, ahead) in self.occupied() {
            let from = held(ahead);
            let gained = held(ahead + k) - from;
            // Whole blocks for each member, and one more for those whose latest block the rest fills.
            needed += place.members * (gained / block) as u64;
            let mut at = self.residue(-from);
            for _ in 0..gained % block {
                needed += u64::from(place.offsets[at]);
                at = at.checked_sub(1).unwrap_or(block as usize - 1);
            }
        }
        needed
    }

    /// The most steps after `step`, up to `most`, whose blocks `free` covers.
    pub(super) fn steps_covered(&self, step: u64, free: u64, most: u64) -> u64 {
        let members: u64 = self.occupied().map(|(place, _)| place.members).sum();
        // Mostly the blocks suffice even if every member needs the most it can.
        let blocks = self.numbers.most_tokens(most) / u64::from(self.block.tokens()) + 2;
        let owed: u64 = self.joined.iter().map(|joined| joined.1).sum();
        if members.saturating_mul(blocks) + owed <= free {
            return most;
        }
        let (mut covered, mut beyond) = (0, most);
        while covered < beyond {
            let middle = covered + (beyond - covered).div_ceil(2);
            if self.over(step, middle) <= free {
                covered = middle;
            } else {
                beyond = middle - 1;
            }
        }
        covered
    }
}
