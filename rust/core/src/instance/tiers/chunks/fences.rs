//! Blocks of finished requests that are still to be copied: a step that reuses one waits for its copy.

use rustc_hash::FxHashMap;

use crate::kv::Block;

/// The copies that read each block.
#[derive(Debug, Default)]
pub(super) struct Fences {
    jobs: FxHashMap<Block, Vec<u32>>,
    blocks: FxHashMap<u32, Vec<Block>>,
}

impl Fences {
    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// A copy reads these blocks.
    pub(super) fn add(&mut self, job: u32, blocks: Vec<Block>) {
        for &block in &blocks {
            self.jobs.entry(block).or_default().push(job);
        }
        self.blocks.insert(job, blocks);
    }

    /// A copy has ended.
    pub(super) fn remove(&mut self, job: u32) {
        for block in self.blocks.remove(&job).unwrap_or_default() {
            if let Some(jobs) = self.jobs.get_mut(&block) {
                jobs.retain(|&other| other != job);
                if jobs.is_empty() {
                    self.jobs.remove(&block);
                }
            }
        }
    }

    /// The copies that read a block.
    pub(super) fn jobs_of(&self, block: Block) -> &[u32] {
        self.jobs.get(&block).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_may_be_read_by_several_copies() {
        let mut fences = Fences::default();
        fences.add(1, vec![4, 5]);
        fences.add(2, vec![5]);
        assert_eq!((fences.jobs_of(5), fences.jobs_of(9)), (&[1, 2][..], &[][..]));
        fences.remove(1);
        assert_eq!((fences.jobs_of(5), fences.jobs_of(4)), (&[2][..], &[][..]));
        fences.remove(2);
        fences.remove(3);
        assert!(fences.is_empty());
    }
}
