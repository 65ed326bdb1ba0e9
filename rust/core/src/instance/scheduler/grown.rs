//! The blocks that a step which visits its requests in order gives to decodes.

use super::Stages;

/// These blocks by place in the order of admission, where a tree of prefixes makes room by them.
#[derive(Debug)]
pub(super) struct GrownBlocks {
    /// `None`: nothing reads them.
    by_place: Option<Vec<u64>>,
}

impl GrownBlocks {
    /// No blocks.
    pub(super) fn new(read: bool) -> Self {
        Self { by_place: read.then(Vec::new) }
    }

    /// Notes those of the request at a place behind all places that were noted.
    pub(super) fn add(&mut self, place: usize, blocks: u64) {
        if let Some(by_place) = &mut self.by_place {
            by_place.resize(place, 0);
            by_place.push(blocks);
        }
    }

    /// Takes back those of a request that is preempted. The places behind it move up.
    pub(super) fn remove(&mut self, place: usize) {
        if let Some(by_place) = self.by_place.as_mut().filter(|by_place| place < by_place.len()) {
            by_place.remove(place);
        }
    }

    /// All of them.
    pub(super) fn total(&self) -> u64 {
        self.by_place.as_ref().map_or(0, |by_place| by_place.iter().sum())
    }
}

impl Stages<'_> {
    /// A count of the blocks that the step gives to decodes, of which none is given yet.
    pub(super) fn grown_blocks(&self) -> GrownBlocks {
        GrownBlocks::new(self.effects.kv.gpu().is_tree())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preempted_request_gives_its_blocks_back_and_others_move_up() {
        let mut grown = GrownBlocks::new(true);
        grown.add(0, 3);
        grown.add(2, 5);
        assert_eq!(grown.total(), 8);
        grown.remove(1);
        assert_eq!(grown.total(), 8, "the request between them has none");
        grown.remove(1);
        assert_eq!(grown.total(), 3);
        grown.remove(4);
        assert_eq!(grown.total(), 3, "a request that was not visited has none");
        let mut unread = GrownBlocks::new(false);
        unread.add(0, 3);
        assert_eq!(unread.total(), 0);
    }
}
