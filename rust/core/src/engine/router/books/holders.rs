//! Which instances hold which blocks, and how far a prompt is held by each: one walk over the prompt's blocks answers for
//! all instances.

use crate::collections::PagedMap;

/// The most instances of a block that are kept as a list; more are kept as bits.
const MOST_LISTED: usize = 4;

/// The instances that hold one block.
#[derive(Debug, Clone)]
enum Set {
    /// A few instances, by index.
    Few { len: u8, of: [u32; MOST_LISTED] },
    /// A bit for each instance.
    Bits(Box<[u64]>),
}

impl Default for Set {
    fn default() -> Self {
        Self::Few { len: 0, of: [0; MOST_LISTED] }
    }
}

/// The instances that hold each block.
#[derive(Debug)]
pub(super) struct Holders {
    /// The number of instances.
    instances: usize,
    /// By block.
    sets: PagedMap<Set>,
    /// During a walk: the instances that hold all blocks so far.
    alive: Vec<u64>,
    /// During a walk: a listed set as bits.
    listed: Vec<u64>,
}

impl Holders {
    /// No block is held by any of `instances` instances.
    pub(super) fn new(instances: usize) -> Self {
        let words = instances.div_ceil(64);
        Self { instances, sets: PagedMap::default(), alive: vec![0; words], listed: vec![0; words] }
    }

    /// Adds an instance to the holders of a block.
    pub(super) fn insert(&mut self, block: u32, instance: usize) {
        let words = self.alive.len();
        let set = self.sets.get_or_default(block.into());
        match set {
            Set::Few { len, of } => {
                let used = usize::from(*len);
                if of[..used].contains(&(instance as u32)) {
                    return;
                }
                if used < MOST_LISTED {
                    of[used] = instance as u32;
                    *len += 1;
                    return;
                }
                let mut bits = vec![0_u64; words].into_boxed_slice();
                for other in of.iter().map(|&other| other as usize).chain([instance]) {
                    bits[other / 64] |= 1 << (other % 64);
                }
                *set = Set::Bits(bits);
            }
            Set::Bits(bits) => bits[instance / 64] |= 1 << (instance % 64),
        }
    }

    /// Removes an instance from the holders of a block.
    pub(super) fn remove(&mut self, block: u32, instance: usize) {
        let Some(set) = self.sets.get_mut(block.into()) else { return };
        let empty = match set {
            Set::Few { len, of } => {
                let used = usize::from(*len);
                if let Some(at) = of[..used].iter().position(|&other| other as usize == instance) {
                    of[at] = of[used - 1];
                    *len -= 1;
                }
                *len == 0
            }
            Set::Bits(bits) => {
                bits[instance / 64] &= !(1 << (instance % 64));
                bits.iter().all(|&word| word == 0)
            }
        };
        if empty {
            self.sets.remove(block.into());
        }
    }

    /// Writes to `leading`, for each instance, how many leading blocks of a path it holds.
    pub(super) fn count_leading(&mut self, path: impl Iterator<Item = Option<u32>>, leading: &mut Vec<u32>) {
        leading.clear();
        leading.resize(self.instances, 0);
        let (mut depth, mut first, mut last) = (0, 0, self.alive.len());
        for (at, word) in self.alive.iter_mut().enumerate() {
            let above = self.instances - at * 64;
            *word = if above >= 64 { u64::MAX } else { (1 << above) - 1 };
        }
        for block in path {
            let Some(set) = block.and_then(|block| self.sets.get(block.into())) else { break };
            let bits = match set {
                Set::Bits(bits) => bits,
                Set::Few { len, of } => {
                    self.listed[first..last].fill(0);
                    for &instance in &of[..usize::from(*len)] {
                        self.listed[instance as usize / 64] |= 1 << (instance % 64);
                    }
                    &*self.listed
                }
            };
            let words = self.alive.iter_mut().zip(bits).enumerate().take(last).skip(first);
            for (at, (alive, &bits)) in words {
                // Instances that hold all blocks before this one, and not this one.
                note(leading, at, *alive & !bits, depth);
                *alive &= bits;
            }
            if let Set::Few { len, of } = set {
                // Bits outside of the range that is walked are not cleared with it.
                of[..usize::from(*len)].iter().for_each(|&instance| self.listed[instance as usize / 64] = 0);
            }
            while first < last && self.alive[first] == 0 {
                first += 1;
            }
            while first < last && self.alive[last - 1] == 0 {
                last -= 1;
            }
            if first == last {
                return;
            }
            depth += 1;
        }
        for at in first..last {
            note(leading, at, self.alive[at], depth);
        }
    }
}

/// Notes that the instances of these bits hold `depth` leading blocks.
fn note(leading: &mut [u32], word: usize, mut bits: u64, depth: u32) {
    while depth > 0 && bits != 0 {
        leading[word * 64 + bits.trailing_zeros() as usize] = depth;
        bits &= bits - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn one_walk_counts_what_a_walk_for_each_instance_counts(
            instances in 1_usize..200,
            changes in prop::collection::vec((0_u32..6, any::<prop::sample::Index>(), any::<bool>()), 0..400),
            paths in prop::collection::vec(prop::collection::vec(prop::option::weighted(0.95, 0_u32..6), 0..8), 1..8),
        ) {
            let mut holders = Holders::new(instances);
            let mut held = vec![[false; 6]; instances];
            for (block, instance, inserts) in changes {
                let instance = instance.index(instances);
                held[instance][block as usize] = inserts;
                if inserts {
                    holders.insert(block, instance);
                } else {
                    holders.remove(block, instance);
                }
            }
            let mut leading = Vec::new();
            for path in paths {
                holders.count_leading(path.iter().copied(), &mut leading);
                let expected: Vec<u32> = held
                    .iter()
                    .map(|held| path.iter().take_while(|b| b.is_some_and(|b| held[b as usize])).count() as u32)
                    .collect();
                prop_assert_eq!(&leading, &expected);
            }
        }
    }

    #[test]
    fn a_block_that_no_instance_holds_takes_no_memory() {
        let mut holders = Holders::new(70);
        (0..70).for_each(|instance| holders.insert(3, instance));
        (0..70).for_each(|instance| holders.remove(3, instance));
        holders.insert(4, 1);
        holders.remove(4, 1);
        assert_eq!(holders.sets.len(), 0);
    }
}
