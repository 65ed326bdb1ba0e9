//! Preempting lower-ranked running requests to admit a higher-ranked one.

use super::StepDraft;
use crate::config::Admission;
use crate::instance::Instance;
use crate::instance::effects::Effects;
use crate::instance::ranking::RankKey;
use crate::instance::request::{Phase, Slot};
use crate::kv::{Block, Released};

/// A queued request, and what its admission takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) rank: RankKey,
    /// Blocks that must be free.
    pub(super) blocks: u64,
    /// Blocks that the prefix cache has of the request.
    pub(super) hits: &'a [Block],
}

impl Effects<'_> {
    /// Displaces running requests that rank worse than the wanted one, the worst first,
    /// until a seat and its blocks are free. If that is not enough, no request is
    /// displaced. Returns whether it was.
    #[inline(never)]
    pub(super) fn displace_for(&mut self, wanted: Wanted, draft: &mut StepDraft) -> bool {
        let mut victims = std::mem::take(&mut self.on.scratch.victims);
        let enough = self.collect_victims(wanted, draft, &mut victims);
        if enough {
            draft.displaced += victims.len() as u64;
            for &victim in &victims {
                if draft.decoded || self.on.batch.has_chunk(victim) {
                    self.preempt_ranked(victim, draft);
                } else {
                    self.preempt(victim, draft);
                }
            }
        }
        victims.clear();
        self.on.scratch.victims = victims;
        enough
    }

    /// Collects the requests to displace. Returns whether they suffice.
    fn collect_victims(&mut self, wanted: Wanted, draft: &StepDraft, victims: &mut Vec<Slot>) -> bool {
        let Admission::Displace { most, .. } = self.on.settings.scheduler.admission else { return false };
        let mut seats = self.seats_taken(draft);
        let Instance { ranking, requests, batch, kv, settings, .. } = &mut *self.on;
        let Some(ranking) = ranking else { return false };
        let mut room = kv.free();
        let mut released = Released::default();
        for victim in ranking.worse_than(wanted.rank) {
            if most > 0 && draft.displaced + victims.len() as u64 >= most {
                return false;
            }
            victims.push(victim);
            let state = &requests[victim];
            let held = match state.phase {
                // Once decodes are scheduled, a member holds the block of its next token.
                Phase::Decoding => {
                    let tokens = batch.decode_set().computed(state) + u32::from(draft.decoded);
                    settings.blocks_for(tokens)
                }
                _ => state.blocks.count(),
            };
            room += kv.gpu().freed_by(&state.blocks, held, &mut released);
            let runs = batch.chunks().iter().any(|chunk| chunk.slot == victim);
            seats -= u64::from(draft.takes_seat(state.phase, runs));
            // Blocks that the request found and a victim alone holds count as free ones.
            let blocks = wanted.blocks + kv.gpu().unheld_after(wanted.hits, &released);
            if room >= blocks && seats < settings.scheduler.max_num_seqs {
                return true;
            }
        }
        false
    }
}
