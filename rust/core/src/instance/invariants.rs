//! Invariants of an instance between two steps, checked in debug builds.

use super::request::{Phase, RequestState};
use super::{Instance, Part};
use crate::kv::Account;

impl Instance {
    /// Checks the totals that the components keep against sums over the requests.
    ///
    /// # Panics
    ///
    /// If a total differs: a bug in the engine.
    pub(super) fn check_invariants(&self) {
        let set = self.batch.decode_set();
        let (mut members, mut kv_tokens) = (0, 0);
        let mut held = 0;
        let mut decoding = 0;
        for state in self.requests.iter() {
            let count = state.blocks.count();
            let elsewhere = state.phase.is_expected();
            let gone = elsewhere
                || matches!(
                    state.phase,
                    Phase::Deferred | Phase::Ended { .. } | Phase::MigratingOut | Phase::Vacant
                );
            decoding += u64::from(!gone && (state.phase == Phase::Decoding || state.generated > 0));
            match state.phase {
                Phase::Decoding => {
                    let computed = set.computed(state);
                    members += 1;
                    kv_tokens += u64::from(computed);
                    held += set.held_blocks(state, 0);
                }
                Phase::Prefilling | Phase::Stalled => {
                    kv_tokens += u64::from(state.computed);
                    held += count;
                }
                Phase::Preempted | Phase::Expected | Phase::Offered => {
                    assert_eq!(count, 0, "Invariant: a request without KV holds no block");
                }
                Phase::Swapped { .. } | Phase::MigratedIn | Phase::Vacant => {}
                // All others hold what they have on the GPU.
                _ => held += count,
            }
        }
        // The chunks of a batch between two groups of layers are counted with the batch.
        let scheduled = self.batch.scheduled().filter(|chunk| chunk.part != Part::Decode);
        kv_tokens += scheduled.map(|chunk| u64::from(chunk.tokens)).sum::<u64>();
        assert_eq!(
            decoding,
            self.observers.load.decoding(),
            "Invariant: the load counts the requests that decode"
        );
        assert_eq!(members, set.len(), "Invariant: the decode set counts its members");
        assert_eq!(kv_tokens, self.batch.kv_tokens(), "Invariant: the batch counts its tokens");
        let said = Account::of(self.requests.iter().filter_map(RequestState::residency));
        assert_eq!(said, *self.kv.account(), "Invariant: the account of KV is the sum of what requests say");
        let swapped = self.requests.iter().filter(|state| state.phase.is_swapped());
        let swapped = self.kv.distinct_swapped(swapped.map(|state| (state.owner(), &state.blocks)));
        assert_eq!(swapped, self.kv.cpu().used(), "Invariant: the swap space counts its blocks");
        if !self.kv.gpu().caches() {
            // With a prefix cache, requests share blocks, and the cache counts them.
            assert_eq!(held, self.kv.gpu().used(), "Invariant: each block in use is held by one request");
        }
        assert!(held == 0 || self.kv.gpu().used() > 0, "Invariant: a held block is in use");
    }
}
