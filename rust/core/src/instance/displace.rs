//! Having those who run give way to somebody who ranks better.

use super::active::{Phase, Slot};
use super::form::Forming;
use super::{Instance, World};
use crate::config::Admission;
use crate::time::Ticks;

impl Instance {
    /// Has those who run with a worse rank than `slot` give way, the worst
    /// first, until `blocks` are free; all of them do, or none if that is not
    /// enough.
    #[inline(never)]
    pub(super) fn make_room(
        &mut self,
        slot: Slot,
        blocks: u64,
        displaced: &mut u64,
        forming: &mut Forming,
        now: Ticks,
        world: &World,
    ) -> bool {
        let Admission::Displace { most, .. } = self.scheduler.admission else { return false };
        let Some(ranks) = self.ranks.as_mut().filter(|_| self.may_displace) else { return false };
        let rank = ranks.entry(slot).rank;
        let mut room = self.memory.free();
        let mut victims = std::mem::take(&mut self.victims);
        let mut enough = false;
        for victim in ranks.worse_than(rank) {
            if most > 0 && *displaced + victims.len() as u64 >= most {
                break;
            }
            victims.push(victim);
            let active = &self.table[victim];
            room += match active.phase {
                // The block of its next token is its own by now.
                Phase::Decoding => u64::from((self.decode.computed(active) + 1).div_ceil(self.block_tokens)),
                _ => active.count,
            };
            enough = room >= blocks;
            if enough {
                break;
            }
        }
        if enough {
            *displaced += victims.len() as u64;
            for &victim in &victims {
                self.displace(victim, forming, now, world);
            }
        }
        victims.clear();
        self.victims = victims;
        enough
    }

    /// Has somebody who may be scheduled in this step already give way.
    pub(super) fn displace(&mut self, slot: Slot, forming: &mut Forming, now: Ticks, world: &World) {
        let phase = self.table[slot].phase;
        if phase == Phase::Decoding {
            self.set_aside(slot, now);
            let active = &mut self.table[slot];
            active.count = u64::from((active.computed + 1).div_ceil(self.block_tokens));
            if self.scheduler.refund {
                forming.left += 1;
            }
        } else {
            let at = self.chunks.iter().position(|chunk| chunk.slot == slot);
            let tokens = at.map_or(0, |at| self.chunks.remove(at).tokens);
            self.partials.retain(|&other| other != slot);
            self.partial_kv -= u64::from(self.table[slot].computed + tokens);
            if self.scheduler.refund {
                forming.left += u64::from(tokens);
            }
        }
        self.evict(slot, phase != Phase::Prefilling, forming, now, world);
    }
}
