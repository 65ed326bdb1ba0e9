//! What holds of an instance between two steps, checked in debug builds.

use super::active::Phase;
use super::{Instance, Part};

impl Instance {
    /// Adds up from the requests what the instance keeps as running totals.
    ///
    /// # Panics
    ///
    /// If a total is not the sum: a bug in the engine.
    pub(super) fn check(&self) {
        let (mut members, mut decode_kv, mut partial_kv) = (0, 0, 0);
        let (mut held, mut swapped) = (0, 0);
        for active in self.table.iter() {
            match active.phase {
                Phase::Decoding => {
                    let computed = self.decode.computed(active);
                    members += 1;
                    decode_kv += u64::from(computed);
                    held += self.blocks(computed);
                }
                Phase::Lingering | Phase::Sending => held += active.count,
                Phase::Prefilling | Phase::Stalled => {
                    partial_kv += u64::from(active.computed);
                    held += active.count;
                }
                Phase::Swapped(_) => swapped += active.count,
                Phase::Preempted => assert_eq!(active.count, 0, "Invariant: the preempted hold nothing"),
                Phase::Landed | Phase::Vacant => {}
            }
        }
        // A batch between two groups of layers has its chunks in the total.
        let chunks = self.chunks.iter().chain(&self.layers.batch);
        let under_way = chunks.filter(|chunk| chunk.part != Part::Decode);
        partial_kv += under_way.map(|chunk| u64::from(chunk.tokens)).sum::<u64>();
        assert_eq!(members, self.decode.len(), "Invariant: the decode set has its members");
        assert_eq!(decode_kv, self.decode.kv_tokens(), "Invariant: their tokens are in the cache");
        assert_eq!(partial_kv, self.partial_kv, "Invariant: so are those of the others");
        assert_eq!(swapped, self.swap_space.used(), "Invariant: the CPU holds what was swapped out");
        if !self.memory.caches() {
            // With a prefix cache, blocks are shared; it counts its own.
            assert_eq!(held, self.memory.used(), "Invariant: every block in use is somebody's");
        }
        assert!(held == 0 || self.memory.used() > 0, "Invariant: who holds blocks uses memory");
    }
}
