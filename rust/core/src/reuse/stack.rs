//! A stack of blocks by latest use, with the depth of each.

/// No use.
const NEVER: u32 = 0;

/// Blocks by their latest use.
///
/// A Fenwick tree over all uses counts those that are the latest of their block; the depth of a block is the number of these
/// from its own on. All operations take the logarithm of the number of uses.
#[derive(Debug)]
pub(super) struct Stack {
    /// Fenwick tree over uses, from 1.
    latest: Vec<u32>,
    /// The latest use of each content, or `NEVER`.
    use_of: Vec<u32>,
    /// Uses so far.
    uses: u32,
    /// Blocks on the stack.
    len: u32,
}

impl Stack {
    /// An empty stack, for so many contents and uses.
    pub(super) fn new(contents: usize, most_uses: u32) -> Self {
        Self { latest: vec![0; most_uses as usize + 1], use_of: vec![NEVER; contents], uses: 0, len: 0 }
    }

    /// Blocks on the stack.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// The place of a content's block, 1 for the latest used; `None` if there is no such block.
    pub(super) fn depth(&self, content: u32) -> Option<u32> {
        match self.use_of[content as usize] {
            NEVER => None,
            latest => Some(self.len - self.before(latest)),
        }
    }

    /// Puts a block on top: the block of this content, or one that is never used again.
    pub(super) fn put(&mut self, content: Option<u32>) {
        self.uses += 1;
        if let Some(content) = content {
            let before = std::mem::replace(&mut self.use_of[content as usize], self.uses);
            if before != NEVER {
                self.add(before, u32::MAX);
                self.len -= 1;
            }
        }
        self.add(self.uses, 1);
        self.len += 1;
    }

    /// Latest uses before this one.
    fn before(&self, of: u32) -> u32 {
        let (mut at, mut sum) = (of - 1, 0u32);
        while at > 0 {
            sum = sum.wrapping_add(self.latest[at as usize]);
            at &= at - 1;
        }
        sum
    }

    /// Adds a number, modulo 2^32, to the count at a use.
    fn add(&mut self, at: u32, number: u32) {
        let mut at = at as usize;
        while let Some(count) = self.latest.get_mut(at) {
            *count = count.wrapping_add(number);
            at += at & at.wrapping_neg();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_depth_is_the_place_in_a_list_by_latest_use(
            uses in prop::collection::vec(prop::option::weighted(0.8, 0u32..8), 0..60),
        ) {
            let mut stack = Stack::new(8, uses.len() as u32);
            let mut list: Vec<Option<u32>> = Vec::new();
            for block in uses {
                list.retain(|other| block.is_none() || *other != block);
                list.insert(0, block);
                stack.put(block);
                prop_assert_eq!(stack.len() as usize, list.len());
                for content in 0..8 {
                    let place = list.iter().position(|other| *other == Some(content));
                    prop_assert_eq!(stack.depth(content), place.map(|place| place as u32 + 1));
                }
            }
        }
    }
}
