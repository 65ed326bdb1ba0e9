//! An approximate prefix index: which blocks a router believes each instance to hold.
//!
//! The index learns from the router's own decisions or from events of the instances, and does not look into their
//! memory. With a capacity it forgets the least recently learned blocks of an instance, whatever the instance evicts.

use super::holders::Holders;
use crate::collections::PagedMap;

/// The blocks that a router believes each instance to hold.
#[derive(Debug)]
pub(super) struct PrefixIndex {
    /// Which instances hold which blocks that several requests may have.
    holders: Holders,
    /// By instance, with a capacity: its blocks in the order in which they were learned.
    recent: Vec<Recent>,
}

impl PrefixIndex {
    /// An empty index of `instances` instances, of `capacity` blocks each if there is a capacity.
    pub(super) fn new(instances: usize, capacity: Option<u64>) -> Self {
        let recent = capacity.map_or_else(Vec::new, |most| vec![Recent::new(most); instances]);
        Self { holders: Holders::new(instances), recent }
    }

    /// Writes to `leading`, for each instance, how many leading blocks of a path it is believed to hold.
    pub(super) fn count_leading(&mut self, path: impl Iterator<Item = Option<u32>>, leading: &mut Vec<u32>) {
        self.holders.count_leading(path, leading);
    }

    /// Notes that an instance holds the blocks of a path of a request, the first one learned first. `None` is a block
    /// that no other request has: it takes room.
    pub(super) fn learn(&mut self, row: u32, path: impl Iterator<Item = Option<u32>>, instance: usize) {
        for (position, block) in (0_u64..).zip(path) {
            if let Some(block) = block {
                self.holders.insert(block, instance);
            }
            let Some(recent) = self.recent.get_mut(instance) else { continue };
            // Rows have at most 31 bits, positions fewer than 32, so this is no block's number.
            let own = || 1 << 63 | u64::from(row) << 32 | position;
            if let Some(forgotten) = recent.touch(block.map_or_else(own, u64::from))
                && let Ok(block) = u32::try_from(forgotten)
            {
                self.holders.remove(block, instance);
            }
        }
    }
}

/// The end of a list.
const END: u32 = u32::MAX;

/// Keys in the order in which they were last touched, up to a number of keys.
#[derive(Debug, Clone)]
struct Recent {
    /// The most keys.
    most: u64,
    /// The entry of each key.
    entries: PagedMap<u32>,
    /// The list: the key, the entry touched before it and the one touched after it.
    list: Vec<(u64, u32, u32)>,
    /// The entry touched first.
    oldest: u32,
    /// The entry touched last.
    newest: u32,
}

impl Recent {
    /// No keys.
    fn new(most: u64) -> Self {
        Self { most, entries: PagedMap::default(), list: Vec::new(), oldest: END, newest: END }
    }

    /// Makes a key the one touched last. Returns the key touched first, if it is one too many and forgotten.
    fn touch(&mut self, key: u64) -> Option<u64> {
        if let Some(&entry) = self.entries.get(key) {
            self.unlink(entry);
            self.append(entry, key);
            return None;
        }
        if (self.list.len() as u64) < self.most {
            let entry = self.list.len() as u32;
            self.list.push((key, END, END));
            self.entries.insert(key, entry);
            self.append(entry, key);
            return None;
        }
        let entry = self.oldest;
        let forgotten = self.list[entry as usize].0;
        self.entries.remove(forgotten);
        self.unlink(entry);
        self.entries.insert(key, entry);
        self.append(entry, key);
        Some(forgotten)
    }

    fn unlink(&mut self, entry: u32) {
        let (_, before, after) = self.list[entry as usize];
        match before {
            END => self.oldest = after,
            _ => self.list[before as usize].2 = after,
        }
        match after {
            END => self.newest = before,
            _ => self.list[after as usize].1 = before,
        }
    }

    fn append(&mut self, entry: u32, key: u64) {
        self.list[entry as usize] = (key, self.newest, END);
        match self.newest {
            END => self.oldest = entry,
            newest => self.list[newest as usize].2 = entry,
        }
        self.newest = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_index_equals_a_list_of_blocks_for_each_instance(
            capacity in prop::option::of(1_u64..6),
            learned in prop::collection::vec(
                (prop::collection::vec(prop::option::weighted(0.9, 0_u32..8), 0..5), 0_usize..3), 0..60,
            ),
            asked in prop::collection::vec(0_u32..8, 0..5),
        ) {
            let mut index = PrefixIndex::new(3, capacity);
            // By instance: the blocks from the one learned first to the one learned last.
            let mut naive: Vec<Vec<Option<u32>>> = vec![Vec::new(); 3];
            for (row, (path, instance)) in (0..).zip(learned) {
                index.learn(row, path.iter().copied(), instance);
                for block in path {
                    let blocks = &mut naive[instance];
                    blocks.retain(|other| block.is_none() || *other != block);
                    blocks.push(block);
                    if capacity.is_some_and(|most| blocks.len() as u64 > most) {
                        blocks.remove(0);
                    }
                }
            }
            let mut leading = Vec::new();
            index.count_leading(asked.iter().map(|&block| Some(block)), &mut leading);
            for (instance, blocks) in naive.iter().enumerate() {
                let held = asked.iter().take_while(|&&block| blocks.contains(&Some(block))).count();
                prop_assert_eq!(leading[instance] as usize, held);
            }
        }
    }

    #[test]
    fn the_least_recently_learned_blocks_are_forgotten() {
        let path = |blocks: &[u32]| blocks.iter().map(|&block| Some(block)).collect::<Vec<_>>();
        let mut index = PrefixIndex::new(1, Some(3));
        index.learn(0, path(&[1, 2, 3]).into_iter(), 0);
        index.learn(1, path(&[1]).into_iter(), 0);
        index.learn(2, path(&[4]).into_iter(), 0);
        // Block 2 is the oldest: learning block 1 again made that the newest.
        let mut leading = Vec::new();
        for (asked, held) in [(&[1, 2, 3][..], 1), (&[3, 1, 4], 3), (&[2], 0)] {
            index.count_leading(path(asked).into_iter(), &mut leading);
            assert_eq!(leading, [held], "{asked:?}");
        }
    }
}
