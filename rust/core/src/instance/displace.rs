//! Having those who run give way to somebody who ranks better.

use super::active::{Phase, Slot};
use super::form::Forming;
use super::{Instance, World};
use crate::config::Admission;
use crate::kv::{Block, Released};
use crate::time::Ticks;

impl Instance {
    /// Displaces running requests that rank worse than `slot`, the worst first,
    /// until there is a seat and `blocks` are free for it, of which it finds
    /// `hits` in the prefix cache. If that is not enough, no request is displaced.
    #[inline(never)]
    pub(super) fn make_room(
        &mut self,
        slot: Slot,
        blocks: u64,
        hits: &[Block],
        forming: &mut Forming,
        now: Ticks,
        world: &World,
    ) -> bool {
        let Admission::Displace { most, .. } = self.scheduler.admission else { return false };
        let taken = self.seats_taken(forming);
        let Some(ranks) = self.ranks.as_mut().filter(|_| self.may_displace) else { return false };
        let rank = ranks.entry(slot).rank;
        let mut room = self.memory.free();
        let mut released = Released::default();
        let mut seats = taken;
        let mut victims = std::mem::take(&mut self.victims);
        let mut enough = false;
        for victim in ranks.worse_than(rank) {
            if most > 0 && forming.displaced + victims.len() as u64 >= most {
                break;
            }
            victims.push(victim);
            let active = &self.table[victim];
            let held = match active.phase {
                // Once decodes have their tokens, the block of the next is its own.
                Phase::Decoding => {
                    let tokens = self.decode.computed(active) + u32::from(forming.decoded);
                    u64::from(tokens.div_ceil(self.block_tokens))
                }
                _ => active.count,
            };
            room += self.memory.freed_by(&active.held, held, &mut released);
            let runs = self.chunks.iter().any(|chunk| chunk.slot == victim);
            seats -= u64::from(forming.seats(active.phase, runs));
            // Blocks that the request hits are taken from the free ones, too.
            let wanted = blocks + self.memory.unheld_after(hits, &released);
            enough = room >= wanted && seats < self.scheduler.max_num_seqs;
            if enough {
                break;
            }
        }
        if enough {
            forming.displaced += victims.len() as u64;
            for &victim in &victims {
                if forming.decoded || self.has_chunk(victim) {
                    self.displace(victim, forming, now, world);
                } else {
                    self.preempt(victim, forming, now, world);
                }
            }
        }
        victims.clear();
        self.victims = victims;
        enough
    }

    /// Preempts a request that may have its tokens for this step already: a member
    /// of the decode set has.
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
            let tokens = self.drop_chunk(slot).0.map_or(0, |chunk| chunk.tokens);
            self.partials.retain(|&other| other != slot);
            self.partial_kv -= u64::from(self.table[slot].computed + tokens);
            if self.scheduler.refund {
                forming.left += u64::from(tokens);
            }
        }
        self.evict(slot, phase != Phase::Prefilling, forming, now, world);
    }
}
