//! Preempting lower-ranked running requests to admit a higher-ranked one.

use super::Stages;
use crate::config::Admission;
use crate::instance::Instance;
use crate::instance::ranking::RankKey;
use crate::instance::request::{Phase, Slot};
use crate::kv::{Hits, Released};

/// A queued request, and what its admission takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) rank: RankKey,
    /// Blocks that must be free.
    pub(super) blocks: u64,
    /// Blocks that the prefix cache has of the request.
    pub(super) hits: &'a Hits,
}

impl Stages<'_> {
    /// Displaces running requests that rank worse than the wanted one, the worst first,
    /// until a seat and its blocks are free. If that is not enough, no request is
    /// displaced. Returns whether it was.
    #[inline(never)]
    pub(super) fn displace_for(&mut self, wanted: Wanted) -> bool {
        let worse = self.effects.worse_than(wanted.rank);
        let Some(count) = self.enough_victims(wanted, &worse) else { return false };
        self.draft.removed.displaced += count as u64;
        for &victim in &worse[..count] {
            if self.draft.decoded || self.effects.batch.has_chunk(victim) {
                self.preempt_ranked(victim);
            } else {
                self.preempt(victim);
            }
        }
        true
    }

    /// How many of the requests that rank worse must be displaced, if that is enough.
    fn enough_victims(&self, wanted: Wanted, worse: &[Slot]) -> Option<usize> {
        let Admission::Displace { most, .. } = self.effects.settings.scheduler.admission else { return None };
        let mut seats = self.seats_taken();
        let Instance { requests, batch, kv, settings, .. } = &*self.effects;
        let mut room = kv.free();
        let mut released = Released::default();
        for (at, &victim) in worse.iter().enumerate() {
            if most > 0 && self.draft.removed.displaced + at as u64 >= most {
                return None;
            }
            let state = &requests[victim];
            let held = match state.phase {
                // Once decodes are scheduled, a member holds the block of its next token.
                Phase::Decoding => {
                    let tokens = batch.decode_set().computed(state) + u32::from(self.draft.decoded);
                    settings.blocks_for(tokens)
                }
                _ => state.blocks.count(),
            };
            room += kv.gpu().freed_by(&state.blocks, held, &mut released);
            let runs = batch.chunks().iter().any(|chunk| chunk.slot == victim);
            seats -= u64::from(self.draft.takes_seat(state.phase, runs));
            // Blocks that the request found and a victim alone holds count as free ones.
            let blocks = wanted.blocks + kv.gpu().unheld_after(wanted.hits, &released);
            if room >= blocks && seats < settings.scheduler.max_num_seqs {
                return Some(at + 1);
            }
        }
        None
    }
}
