//! Assigning the blocks of the decode set to members that leave it as a step is formed.
//!
//! Which of the unassigned blocks a request had is not kept, and mostly does not matter: none has a content. Where the blocks
//! that a step is given are listed, it does: one of another member is no block of the request.

use super::{BlockTable, Memory};

impl Memory {
    /// Whether the blocks that a step is given are listed.
    pub(crate) fn lists_given(&self) -> bool {
        self.given.is_some()
    }

    /// Assigns a request that has left the decode set its blocks from before the step that is formed, if those that the step
    /// is given are listed.
    pub(crate) fn assign_held(&mut self, table: &mut BlockTable) {
        if !self.lists_given() {
            return;
        }
        let missing = table.count as usize - table.blocks().len();
        let until = self.unassigned.len() - self.unassigned_given();
        table.listed_mut().blocks.extend(self.unassigned.drain(until - missing..until));
    }

    /// Assigns such a request `blocks` more that the step has given it, after the first `before` that other members have.
    pub(crate) fn assign_given(&mut self, before: u64, blocks: u64, table: &mut BlockTable) {
        let from = self.unassigned.len() - self.unassigned_given() + before as usize;
        table.listed_mut().blocks.extend(self.unassigned.drain(from..from + blocks as usize));
        table.set_count(table.count + blocks);
    }

    /// The unassigned blocks that the step which is formed was given: the last ones.
    fn unassigned_given(&self) -> usize {
        let given = |block| self.given.as_ref().is_some_and(|given| given.contains(block));
        self.unassigned.iter().rev().take_while(|&block| given(block)).count()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::PrefixCacheConfig;
    use crate::kv::prefixes::Prefixes;

    /// A memory whose decode set has six unassigned blocks, the last three of which the step that is formed was given.
    fn memory() -> Memory {
        let caching = PrefixCacheConfig { unknown_first: true, evict: None, tree: None };
        let mut memory = Memory::new(10, 1, Some(&caching), Arc::new(Prefixes::none())).listing_given();
        memory.allocate_unassigned(3).unwrap();
        memory.forget_given();
        memory.allocate_unassigned(3).unwrap();
        memory
    }

    fn table(count: u64) -> BlockTable {
        let mut table = BlockTable::default();
        table.set_count(count);
        table
    }

    #[test]
    fn a_request_that_the_step_gave_no_block_has_none_of_the_others() {
        let (mut memory, mut table) = (memory(), table(2));
        let all = memory.unassigned.clone();
        memory.assign_held(&mut table);
        assert_eq!(table.blocks(), &all[1..3]);
        assert_eq!(memory.unassigned, [all[0], all[3], all[4], all[5]]);
    }

    #[test]
    fn a_request_has_the_block_that_the_step_gave_it() {
        let (mut memory, mut table) = (memory(), table(1));
        let all = memory.unassigned.clone();
        memory.assign_held(&mut table);
        memory.assign_given(1, 1, &mut table);
        assert_eq!(table.blocks(), [all[2], all[4]]);
        assert_eq!((table.count(), memory.unassigned), (2, vec![all[0], all[1], all[3], all[5]]));
    }
}
