//! Tokens and block needs of members that yield several tokens a step.
//!
//! Members at the same place of the map's period grow alike, so they are counted by that place, and by what no step
//! changes of their tokens modulo the block size.

use serde::{Deserialize, Serialize};

use super::progress::{Cycle, Periodic};
use crate::kv::BlockSize;
use crate::trace::RequestNumber;

/// Members counted by place in the period and by residue.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct CyclicNeeds {
    numbers: Periodic,
    block: BlockSize,
    places: Vec<Place>,
    /// By step of the period: tokens that all members together yield in it.
    yields: Vec<u64>,
    /// Steps that the set has taken.
    steps: u64,
    /// Blocks that the next step needs.
    next: u64,
    /// The members that have joined since the latest step, and the blocks that each lacks of those that it would hold
    /// had it taken that step.
    joined: Vec<(RequestNumber, u64)>,
}

/// The members at a place of the period.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Place {
    members: u64,
    /// By the offset of a member modulo the block size.
    offsets: Vec<u32>,
    /// Where there are members: the index in `offsets` of those whose blocks are full.
    full: usize,
}

impl Place {
    /// The members that fill their latest block with fewer than `tokens` tokens more.
    fn filled_by(&self, tokens: u32) -> u64 {
        let mut at = self.full;
        let mut members = 0;
        for _ in 0..tokens {
            members += u64::from(self.offsets[at]);
            at = if at == 0 { self.offsets.len() - 1 } else { at - 1 };
        }
        members
    }
}

impl CyclicNeeds {
    /// Needs of no member.
    pub(super) fn new(block: BlockSize, numbers: Periodic) -> Self {
        let period = numbers.period() as usize;
        let place = Place { members: 0, offsets: vec![0; block.tokens() as usize], full: 0 };
        let (places, yields) = (vec![place; period], vec![0; period]);
        Self { numbers, block, places, yields, steps: 0, next: 0, joined: Vec::new() }
    }

    /// Adds a member with an offset that needs `needed` blocks in the next step.
    pub(super) fn add(&mut self, cycle: Cycle, offset: i64, needed: u64) {
        let place = &mut self.places[usize::from(cycle)];
        if place.members == 0 {
            place.full = residue(self.block, -self.numbers.held_after(self.steps + u64::from(cycle)));
        }
        place.members += 1;
        place.offsets[residue(self.block, offset)] += 1;
        for (yielded, number) in self.yields.iter_mut().zip(self.numbers.from(cycle)) {
            *yielded += number;
        }
        self.next += needed;
    }

    /// Notes that a member joins, which lacks blocks of those that it would hold had it taken the latest step.
    pub(super) fn join(&mut self, request: RequestNumber, owed: u64) {
        self.joined.push((request, owed));
    }

    /// Blocks that a member lacks until it takes its first step.
    pub(super) fn owed(&self, request: RequestNumber) -> u64 {
        self.joined.iter().find(|joined| joined.0 == request).map_or(0, |joined| joined.1)
    }

    /// Removes a member.
    pub(super) fn remove(&mut self, request: RequestNumber, (cycle, offset): (Cycle, i64), needed: u64) {
        self.joined.retain(|joined| joined.0 != request);
        let place = &mut self.places[usize::from(cycle)];
        place.members -= 1;
        place.offsets[residue(self.block, offset)] -= 1;
        for (yielded, number) in self.yields.iter_mut().zip(self.numbers.from(cycle)) {
            *yielded -= number;
        }
        self.next -= needed;
    }

    /// Takes `k` steps.
    pub(super) fn advance(&mut self, k: u64) {
        self.joined.clear();
        let Self { numbers, block, places, steps, .. } = self;
        for (at, place) in (*steps..).zip(places).filter(|(_, place)| place.members > 0) {
            let gained = block.rest_of(numbers.held_in(at, k)) as usize;
            place.full =
                if place.full >= gained { place.full } else { place.full + block.tokens() as usize } - gained;
        }
        self.steps += k;
        self.next = self.over(1);
    }

    /// Blocks that the next step needs.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Tokens that all members together yield in each of the coming steps.
    pub(super) fn gains(&self) -> impl Iterator<Item = u64> {
        let at = (self.steps % self.numbers.period()) as usize;
        self.yields[at..].iter().chain(self.yields.iter().cycle()).copied()
    }

    /// Tokens that all members together yield in the next `k` steps.
    pub(super) fn gained(&self, k: u64) -> u64 {
        let period = self.numbers.period();
        let whole = if k < period { 0 } else { k / period * self.yields.iter().sum::<u64>() };
        whole + self.gains().take((k % period) as usize).sum::<u64>()
    }

    /// Blocks that the next `k` steps need.
    pub(super) fn over(&self, k: u64) -> u64 {
        let mut needed = if k > 0 { self.joined.iter().map(|joined| joined.1).sum() } else { 0 };
        for (at, place) in (self.steps..).zip(&self.places).filter(|(_, place)| place.members > 0) {
            let gained = self.numbers.held_in(at, k);
            // Whole blocks for each member, and one more for those whose latest block the rest fills.
            needed += place.members * self.block.filled_by(gained);
            needed += place.filled_by(self.block.rest_of(gained));
        }
        needed
    }

    /// The most steps, up to `most`, whose blocks `free` covers.
    pub(super) fn steps_covered(&self, free: u64, most: u64) -> u64 {
        let members: u64 = self.places.iter().map(|place| place.members).sum();
        // Mostly the blocks suffice even if every member needs the most it can.
        let blocks = self.numbers.most_tokens(most) / u64::from(self.block.tokens()) + 2;
        let owed: u64 = self.joined.iter().map(|joined| joined.1).sum();
        if members.saturating_mul(blocks) + owed <= free {
            return most;
        }
        let (mut covered, mut beyond) = (0, most);
        while covered < beyond {
            let middle = covered + (beyond - covered).div_ceil(2);
            if self.over(middle) <= free {
                covered = middle;
            } else {
                beyond = middle - 1;
            }
        }
        covered
    }
}

/// Tokens modulo the block size.
fn residue(block: BlockSize, tokens: i64) -> usize {
    tokens.rem_euclid(i64::from(block.tokens())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_covered_whose_blocks_and_owed_ones_are_free() {
        for owed in 0..4 {
            let mut needs = CyclicNeeds::new(BlockSize::new(4, 0), Periodic::new(&[2, 1], (3, 3)));
            for (cycle, offset) in [(0, 5), (1, 6)] {
                needs.add(cycle, offset, 0);
            }
            needs.join(RequestNumber(7), owed);
            for (free, most) in (0..12).flat_map(|free| (0..9).map(move |most| (free, most))) {
                let covered = (1..=most).take_while(|&steps| needs.over(steps) <= free).count() as u64;
                assert_eq!(
                    needs.steps_covered(free, most),
                    covered,
                    "{owed} owed, {free} free, {most} steps"
                );
            }
        }
    }
}
