//! Letting those go on who were admitted.
//!
//! What each one gets is settled in the order of admission. Where the tokens
//! and the blocks cover everybody, the order cannot matter, and the decode set
//! goes on as one; where they do not, it is walked over. Without leaping it is
//! walked over at every step, which is what the short cuts are held against.

use super::active::{Phase, Slot};
use super::form::Forming;
use super::ranks::Ranks;
use super::{Chunk, Instance, Part, World};
use crate::config::{Preemption, Victim};
use crate::time::Ticks;

/// Whom a walk visits and what it asks of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walk {
    /// Whether prefills go on too.
    pub(super) prefills: bool,
    /// Whether prefills can be asked to give way.
    pub(super) over_prefills: bool,
    /// Whether decodes use up the step's tokens.
    pub(super) charged: bool,
    /// The most that go on.
    pub(super) limit: u64,
}

impl Instance {
    /// Has everyone whom `walk` visits go on, as far as tokens and blocks allow.
    pub(super) fn go_on(&mut self, walk: Walk, forming: &mut Forming, now: Ticks, world: &World) {
        if !world.leap || !self.all_go_on(walk, forming, now, world) {
            self.walk(walk, forming, now, world);
        }
        (forming.decoded, forming.charged) = (true, walk.charged);
    }

    /// The short cut: true if it did.
    fn all_go_on(&mut self, walk: Walk, forming: &mut Forming, now: Ticks, world: &World) -> bool {
        let decodes = self.decode.len();
        if decodes > walk.limit || (walk.charged && decodes > forming.left) {
            return false;
        }
        if walk.prefills && !self.partials.is_empty() {
            return self.chunks.is_empty() && self.everyone_goes_on(forming);
        }
        let stalled = |&slot| self.table[slot].phase == Phase::Stalled;
        if self.partials.iter().any(stalled) {
            return false;
        }
        let spare = u64::from(self.scheduler.spare_block && decodes > 0);
        if self.decode.blocks_for_next() + spare > self.memory.free() {
            let in_order = self.ranks.is_some() || self.scheduler.victim == Victim::Latest;
            // The worst is not always the last: those behind it may sit the step out,
            // and its tokens may be lost.
            let by_turns = self.scheduler.stop_at_own_preemption || !self.scheduler.refund;
            let by_turns = by_turns && self.ranks.is_some();
            if spare > 0 || !in_order || by_turns || !self.partials.is_empty() {
                return false;
            }
            if self.idle_ranks {
                self.settle_ranks(now, world);
            }
            // The worst of all whose blocks are lacking, one by one.
            while self.ranks.is_some() && self.decode.blocks_for_next() > self.memory.free() {
                let Some(slot) = self.ranks.as_deref_mut().and_then(Ranks::worst) else { break };
                self.preempt(slot, forming, now, world);
            }
            // The latest admitted give theirs up until the rest is served.
            while self.decode.blocks_for_next() > self.memory.free() {
                let Some((turn, slot)) = self.order.pop() else { break };
                if self.table.holds(turn, slot) {
                    self.preempt(slot, forming, now, world);
                }
            }
        }
        let taken = self.memory.allocate_unassigned(self.decode.blocks_for_next());
        taken.expect("Invariant: the decode set's blocks are free");
        if walk.charged {
            forming.left -= self.decode.len();
        }
        true
    }

    /// Schedules decodes and prefills at once, if tokens and blocks suffice
    /// whatever the order.
    fn everyone_goes_on(&mut self, forming: &mut Forming) -> bool {
        let mut left = forming.left - self.decode.len();
        let mut blocks = self.decode.blocks_for_next() + u64::from(self.scheduler.spare_block);
        for (i, &slot) in self.partials.iter().enumerate() {
            let active = &self.table[slot];
            let wanted = u64::from(active.target() - active.computed).min(forming.chunk_limit);
            // Only the very last in the order may be cut short by the tokens.
            let last = i + 1 == self.partials.len() && active.turn + 1 == self.next_turn;
            let tokens = if wanted > left && last { left } else { wanted };
            if tokens > left || tokens == 0 {
                return false;
            }
            left -= tokens;
            blocks += self.blocks(active.computed + tokens as u32).saturating_sub(active.count);
        }
        if blocks > self.memory.free() {
            return false;
        }
        let taken = self.memory.allocate_unassigned(self.decode.blocks_for_next());
        taken.expect("Invariant: the decode set's blocks are free");
        forming.left -= self.decode.len();
        for i in 0..self.partials.len() {
            let slot = self.partials[i];
            let active = &self.table[slot];
            let wanted = u64::from(active.target() - active.computed).min(forming.chunk_limit);
            let tokens = wanted.min(forming.left) as u32;
            let part = if active.phase == Phase::Stalled { Part::Decode } else { Part::Chunk };
            self.schedule_chunk(slot, tokens, part, forming);
        }
        true
    }

    /// Prefills under way take what is left of the tokens, in order.
    #[inline(never)]
    pub(super) fn continue_prefills(&mut self, forming: &mut Forming) {
        for i in 0..self.partials.len() {
            let slot = self.partials[i];
            let active = &self.table[slot];
            let wanted = u64::from(active.target() - active.computed).min(forming.chunk_limit);
            let tokens = wanted.min(forming.left) as u32;
            if tokens == 0 {
                break;
            }
            if active.phase != Phase::Prefilling || self.has_chunk(slot) {
                continue;
            }
            // No request is preempted for it: it waits for blocks to come free.
            let wanted = self.blocks(active.computed + tokens).saturating_sub(active.count);
            if wanted > self.memory.free() {
                break;
            }
            self.schedule_chunk(slot, tokens, Part::Chunk, forming);
        }
    }

    #[inline(never)]
    fn walk(&mut self, walk: Walk, forming: &mut Forming, now: Ticks, world: &World) {
        if self.idle_ranks {
            self.settle_ranks(now, world);
        }
        let table = &self.table;
        self.order.retain(|&(turn, slot)| table.holds(turn, slot));
        // Those that earlier stages brought in have their tokens.
        let earlier: Vec<Slot> = self.chunks.iter().map(|chunk| chunk.slot).collect();
        let mut gone_on = 0;
        let mut i = 0;
        'requests: while i < self.order.len() && gone_on < walk.limit {
            if forming.left == 0 && (walk.charged || walk.prefills) {
                break;
            }
            let (_, slot) = self.order[i];
            let active = &self.table[slot];
            let phase = active.phase;
            if phase == Phase::Prefilling && !walk.prefills || earlier.contains(&slot) {
                i += 1;
                continue;
            }
            let (tokens, blocks) = if phase == Phase::Decoding {
                (1, u64::from(self.decode.needs_block(active)))
            } else {
                let wanted = u64::from(active.target() - active.computed);
                let tokens = wanted.min(forming.chunk_limit).min(forming.left.max(1)) as u32;
                (tokens, self.blocks(active.computed + tokens).saturating_sub(active.count))
            };
            while blocks.max(u64::from(self.scheduler.spare_block)) > self.memory.free() {
                let Some(victim) = self.choose_victim(walk.over_prefills, world) else { break 'requests };
                let myself = victim == i;
                let (_, other) = self.order[victim];
                let passed = earlier.contains(&other)
                    || self.table[other].phase == Phase::Prefilling && !walk.prefills;
                self.remove(victim, i, walk.charged, forming, now, world);
                if victim < i {
                    i -= 1;
                    gone_on -= u64::from(!passed);
                }
                if myself && self.scheduler.stop_at_own_preemption {
                    break 'requests;
                }
                if myself {
                    continue 'requests;
                }
            }
            if phase == Phase::Decoding {
                self.memory.allocate_unassigned(blocks).expect("Invariant: preemption made room");
                forming.left -= u64::from(walk.charged);
            } else {
                let left = forming.left;
                let part = if phase == Phase::Stalled { Part::Decode } else { Part::Chunk };
                self.schedule_chunk(slot, tokens, part, forming);
                if !walk.charged && phase == Phase::Stalled {
                    forming.left = left;
                }
            }
            gone_on += 1;
            i += 1;
        }
        self.stall(i, now);
    }

    /// Preempts the request at `victim` in the order; decodes before `reached`
    /// have their token and its block for this step already.
    fn remove(
        &mut self,
        victim: usize,
        reached: usize,
        charged: bool,
        forming: &mut Forming,
        now: Ticks,
        world: &World,
    ) {
        let (_, slot) = self.order.remove(victim);
        let phase = self.table[slot].phase;
        let scheduled = if phase == Phase::Decoding { victim < reached } else { self.has_chunk(slot) };
        if !scheduled {
            self.preempt(slot, forming, now, world);
            return;
        }
        if self.ranks.is_some() {
            self.displace(slot, forming, now, world);
            return;
        }
        // The prefix cache knows blocks by the tokens that were scheduled; copied are
        // those that were computed.
        let known = self.scheduler.preemption == Preemption::Recompute;
        let tokens = if phase == Phase::Decoding {
            self.set_aside(slot, now);
            let active = &mut self.table[slot];
            active.count = u64::from((active.computed + 1).div_ceil(self.block_tokens));
            active.computed += u32::from(known);
            u64::from(charged)
        } else {
            let (chunk, of_batch) = self.drop_chunk(slot);
            let (tokens, part) = chunk.map_or((0, Part::Chunk), |chunk| (chunk.tokens, chunk.part));
            self.partials.retain(|&other| other != slot);
            let active = &mut self.table[slot];
            self.partial_kv -= u64::from(active.computed + tokens);
            active.computed += if known { tokens } else { 0 };
            let free_of_charge = of_batch && !forming.new_batch || part == Part::Decode && !charged;
            if free_of_charge { 0 } else { u64::from(tokens) }
        };
        if self.scheduler.refund {
            forming.left += tokens;
        }
        self.evict(slot, phase != Phase::Prefilling, forming, now, world);
    }

    /// Takes those decodes whom a walk did not reach out of the set, which is
    /// only for requests that run at every step.
    fn stall(&mut self, from: usize, now: Ticks) {
        let mut stalled = false;
        for i in from..self.order.len() {
            let (_, slot) = self.order[i];
            if self.table[slot].phase == Phase::Decoding {
                self.set_aside(slot, now);
                let active = &mut self.table[slot];
                let (owner, count, computed) = (active.owner(), active.count, active.computed);
                self.memory.settle(owner, count, computed, &self.prefixes, &mut active.held);
                self.partial_kv += u64::from(active.computed);
                self.partials.push(slot);
                stalled = true;
            }
        }
        if stalled {
            let table = &self.table;
            self.partials.sort_by_key(|&slot| table[slot].turn);
        }
    }

    /// Puts the order as it stands after a step of chunked prefill that runs
    /// decodes first: those whom the tokens did not reach, then who was swapped
    /// in, decodes, prefills, and who was admitted.
    #[inline(never)]
    pub(super) fn put_decodes_first(&mut self, decodes: bool) {
        let Self { table, order, chunks, layers, .. } = self;
        let scheduled = || chunks.iter().chain(&layers.batch);
        let trivial = (decodes || self.decode.len() == 0)
            && scheduled().all(|chunk| chunk.part == Part::Admitted)
            && self.partials.len() == scheduled().count();
        if trivial {
            return;
        }
        order.retain(|&(turn, slot)| table.holds(turn, slot));
        let rank = |slot: u32| match table[slot].phase {
            Phase::Decoding if decodes => 3,
            Phase::Decoding => 0,
            _ => match scheduled().find(|chunk| chunk.slot == slot) {
                None => 0,
                Some(Chunk { part: Part::SwappedInDecode | Part::Landed, .. }) => 1,
                Some(Chunk { part: Part::SwappedInChunk, .. }) => 2,
                Some(Chunk { part: Part::Decode, .. }) => 3,
                Some(Chunk { part: Part::Chunk, .. }) => 4,
                Some(Chunk { part: Part::Admitted, .. }) => 5,
            },
        };
        order.sort_by_cached_key(|&(turn, slot)| (rank(slot), turn));
        for entry in order.iter_mut() {
            entry.0 = self.next_turn;
            table[entry.1].turn = self.next_turn;
            self.next_turn += 1;
        }
        self.partials.sort_by_key(|&slot| table[slot].turn);
    }
}
