//! Tokens of an instance's requests, steps that are not applied included.

use super::Reader;
use crate::hint::rare;
use crate::instance::request::{Phase, Slot};
use crate::time::Ticks;

impl Reader<'_> {
    /// Tokens of the decode set in the steps that have ended by `now` and are not applied.
    pub(in crate::instance) fn growth(&self, now: Ticks) -> u64 {
        let set = self.batch.decode_set();
        if set.width() > 1 {
            rare();
            return set.gained(self.run.single_steps_ended(now));
        }
        self.run.ended(now) * set.len()
    }

    /// Context of the running requests, in tokens.
    pub(in crate::instance) fn running_tokens(&self, now: Ticks) -> u64 {
        let set = self.batch.decode_set();
        let context = |&slot: &Slot| u64::from(self.requests[slot].target());
        let outside: u64 = self.batch.outside().iter().map(context).sum();
        set.kv_tokens() + set.len() * (1 + self.run.ended(now)) + outside
    }

    /// Blocks that the context of each running request fills. The finished steps are applied.
    pub(in crate::instance) fn context_blocks(&self) -> u64 {
        let outside = self.batch.outside().iter().map(|&slot| self.requests[slot].target());
        let members = self.batch.order().current(self.requests);
        let members = members.filter(|&slot| self.requests[slot].phase == Phase::Decoding);
        let decoding = members.map(|slot| self.batch.decode_set().computed(&self.requests[slot]) + 1);
        outside.chain(decoding).map(|tokens| self.settings.blocks_for(tokens)).sum()
    }
}
