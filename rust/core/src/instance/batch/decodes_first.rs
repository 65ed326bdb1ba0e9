//! The order of admission after steps that run decodes first.

use super::{Batch, Chunk, Part};
use crate::instance::request::{Phase, RequestTable, Slot};

impl Batch {
    /// Sorts the order as it stands after a step of chunked prefill that runs
    /// decodes first (vLLM V0): running requests that got no tokens, then those
    /// swapped in, decodes, prefills, and newly admitted requests. `decodes`:
    /// whether the decode set ran.
    #[inline(never)]
    pub(crate) fn sort_decodes_first(&mut self, decodes: bool, requests: &mut RequestTable) {
        let Self { order, chunks, layers, .. } = self;
        let scheduled = || chunks.iter().chain(layers.chunks());
        // In most steps, all that runs beside the decodes is admitted in the step, and has moved here or is new.
        let parts = scheduled().map(|chunk| chunk.part);
        let joins = |part: Part| matches!(part, Part::Admitted | Part::MigratedIn);
        let are_sorted = (decodes || self.decode.len() == 0)
            && parts.clone().all(joins)
            && self.outside.len() == scheduled().count();
        if are_sorted {
            if parts.clone().any(|part| part == Part::MigratedIn) {
                let is_migrated = |chunk: &&Chunk| chunk.part == Part::MigratedIn;
                let mut migrated: Vec<Slot> =
                    scheduled().filter(is_migrated).map(|chunk| chunk.slot).collect();
                migrated.sort_unstable_by_key(|&slot| requests[slot].seq);
                order.move_to_front(&migrated, requests);
                self.outside.sort_by_key(|&slot| requests[slot].seq);
            }
            return;
        }
        order.sort_by_class(6, requests, |slot, requests| match requests[slot].phase {
            Phase::Decoding if decodes => 3,
            Phase::Decoding => 0,
            _ => match scheduled().find(|chunk| chunk.slot == slot).map(|chunk| chunk.part) {
                None => 0,
                Some(Part::SwappedInDecode | Part::MigratedIn) => 1,
                Some(Part::SwappedInChunk) => 2,
                Some(Part::Decode) => 3,
                Some(Part::Chunk) => 4,
                Some(Part::Admitted) => 5,
            },
        });
        self.outside.sort_by_key(|&slot| requests[slot].seq);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::batch::Progress;
    use crate::kv::BlockSize;

    #[test]
    fn decodes_first_puts_prefills_behind_decodes_and_before_new_requests() {
        let (mut batch, mut requests) =
            (Batch::new(Progress::Identity, BlockSize::new(4, 0), false), RequestTable::default());
        for row in 0..4 {
            let slot = requests.insert(row, 10, 5);
            requests[slot].phase = Phase::Prefilling;
            batch.admit(slot, &mut requests);
        }
        let state = &mut requests[2];
        (state.computed, state.generated) = (10, 1);
        batch.outside.retain(|&slot| slot != 2);
        batch.join_decode_set(2, None, &mut requests);
        batch.schedule(Chunk { slot: 0, tokens: 1, drafts: 0, given_up: 0, part: Part::Chunk });
        batch.schedule(Chunk { slot: 3, tokens: 1, drafts: 0, given_up: 0, part: Part::Admitted });
        batch.sort_decodes_first(true, &mut requests);
        let order: Vec<_> = batch.order().current(&requests).collect();
        assert_eq!((order, batch.outside()), (vec![1, 2, 0, 3], &[1, 0, 3][..]));
    }
}
