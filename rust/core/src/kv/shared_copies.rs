//! Blocks of the host's memory that several swapped-out requests share.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// How many swapped-out requests share the one block that each content has in the host's memory.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct SharedCopies {
    /// By the number of the content.
    requests: FxHashMap<u32, u32>,
}

impl SharedCopies {
    /// Adds the contents of a request. Returns how many of them have a block already.
    pub(super) fn add(&mut self, contents: impl Iterator<Item = u32>) -> u64 {
        let mut present = 0;
        for content in contents {
            let requests = self.requests.entry(content).or_insert(0);
            present += u64::from(*requests > 0);
            *requests += 1;
        }
        present
    }

    /// Removes the contents of a request. Returns how many of them keep their block, which other requests share.
    ///
    /// # Panics
    ///
    /// If one was not added.
    pub(super) fn remove(&mut self, contents: impl Iterator<Item = u32>) -> u64 {
        let mut kept = 0;
        for content in contents {
            let requests = self.requests.get_mut(&content);
            let requests =
                requests.expect("Invariant: what a request shares was added as it was swapped out");
            *requests -= 1;
            if *requests > 0 {
                kept += 1;
            } else {
                self.requests.remove(&content);
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_has_one_block_until_the_last_request_is_gone() {
        let mut copies = SharedCopies::default();
        assert_eq!(copies.add([1, 2, 3].into_iter()), 0);
        assert_eq!(copies.add([1, 2, 7].into_iter()), 2);
        assert_eq!(copies.remove([1, 2, 3].into_iter()), 2);
        assert_eq!(copies.remove([1, 2, 7].into_iter()), 0);
        assert_eq!(copies.add([1].into_iter()), 0);
    }
}
