//! Letting those in who wait.

use super::active::{Phase, Slot};
use super::form::Forming;
use super::queue::Waiter;
use super::{Chunk, Instance, Part, World};
use crate::config::{Allocation, Gather, QueueOrder};
use crate::kv::ContentOwner;
use crate::metrics::{Reason, Status};
use crate::time::Ticks;

impl Instance {
    /// Tokens that a waiter must have in the cache to yield its next one.
    #[inline]
    pub(super) fn waiter_tokens(&self, waiter: Waiter, world: &World) -> u32 {
        match waiter.slot {
            None => world.trace.prompt_tokens[waiter.request as usize],
            Some(slot) => self.table[slot].target(),
        }
    }

    /// Blocks that admissions leave free now.
    #[inline]
    pub(super) fn watermark(&self) -> u64 {
        let applies = self.scheduler.watermark_when_idle || self.admitted() > 0;
        if applies { self.scheduler.watermark_blocks } else { 0 }
    }

    /// Blocks that an admission must find free: for `tokens` tokens in all, of
    /// which `chunk` run now after `hit` that are cached, `unheld` blocks of
    /// which nobody holds.
    pub(super) fn admission_needs(&self, tokens: u32, hit: u32, chunk: u32, unheld: u64) -> u64 {
        let reserved = match self.scheduler.allocation {
            Allocation::Chunk => hit + chunk,
            Allocation::ChunkIfAllFits | Allocation::Sequence => tokens,
        };
        self.blocks(reserved) - self.blocks(hit) + unheld + self.watermark()
    }

    /// Whether enough have gathered to start a batch. Where not, the step is
    /// formed again when the first has waited long enough.
    #[inline(never)]
    pub(super) fn has_gathered(
        &self,
        gather: Gather,
        forming: &mut Forming,
        now: Ticks,
        world: &World,
    ) -> bool {
        if self.admitted() > 0 {
            return false;
        }
        let Some(first) = self.waiting.front() else { return false };
        let deadline = world.trace.arrival[first.request as usize].saturating_add(gather.wait);
        if self.waiting.len() >= gather.size || deadline <= now || first.slot.is_some() {
            return true;
        }
        forming.wake = Some(deadline);
        false
    }

    /// Admits from the front of the queue until somebody does not fit.
    /// `chunked`: the last one may be cut to the tokens that are left.
    pub(super) fn admit_waiting(
        &mut self,
        chunked: bool,
        forming: &mut Forming,
        now: Ticks,
        world: &mut World,
    ) {
        self.sort_waiting(world);
        while forming.left > 0 && self.seats_taken(forming) < self.scheduler.max_num_seqs {
            let Some(waiter) = self.waiting.front() else { break };
            if let Some(slot) = waiter.slot
                && self.table[slot].phase == Phase::Landed
            {
                if !self.admit_landed(slot, forming, now, world) {
                    break;
                }
                continue;
            }
            let tokens = self.waiter_tokens(waiter, world);
            if !chunked && u64::from(tokens) > self.scheduler.max_num_batched_tokens {
                self.give_up(waiter, world);
                continue;
            }
            let mut hits = std::mem::take(&mut self.hits);
            let unheld = self.look_up(waiter, tokens, world, &mut hits);
            let hit = hits.len() as u32 * self.block_tokens;
            let limit = if chunked { forming.chunk_limit } else { u64::MAX };
            let wanted = u64::from(tokens - hit).min(limit);
            let chunk = wanted.min(forming.left) as u32;
            let fits = (chunked || u64::from(chunk) == wanted)
                && self.admission_needs(tokens, hit, chunk, unheld) <= self.memory.free();
            if fits {
                self.waiting.pop();
                let slot = self.seat(waiter, tokens, &hits, now, world);
                let active = &mut self.table[slot];
                self.memory.adopt(&hits, unheld, &mut active.held);
                active.computed = hit;
                active.count = hits.len() as u64;
                self.partial_kv += u64::from(hit);
                self.schedule_chunk(slot, chunk, Part::Admitted, forming);
            }
            self.hits = hits;
            if !fits {
                break;
            }
        }
    }

    /// Lets somebody in who has come with its memory, if there is room.
    #[inline(never)]
    fn admit_landed(&mut self, slot: Slot, forming: &mut Forming, now: Ticks, world: &mut World) -> bool {
        let active = &self.table[slot];
        let (computed, tokens) = (active.computed, active.target() - active.computed);
        let grown = self.blocks(computed + tokens);
        if grown + self.watermark() > self.memory.free() {
            return false;
        }
        self.waiting.pop();
        self.readmitted(slot, now, world);
        self.cpu_kv -= u64::from(computed);
        let active = &mut self.table[slot];
        self.memory.take(grown, &mut active.held).expect("Invariant: admission found the blocks free");
        active.count = grown;
        self.come_back(slot, tokens, Part::Landed, forming, world);
        true
    }

    /// Drops a request that was preempted and has grown past the tokens of a
    /// step, where prompts are not cut: nobody could ever let it in again.
    /// (vLLM 0.6.1 ignores such a request likewise.)
    #[inline(never)]
    fn give_up(&mut self, waiter: Waiter, world: &mut World) {
        self.waiting.pop();
        if let Some(slot) = waiter.slot {
            self.write_given_up(slot, world);
        }
    }

    /// Writes down that a request was dropped, and lets its slot go.
    pub(super) fn write_given_up(&mut self, slot: Slot, world: &mut World) {
        let active = &self.table[slot];
        let row = active.request as usize;
        let columns = &mut world.columns;
        columns.status[row] = Status::Rejected as u8;
        columns.reason[row] = Reason::ExceedsBudget as u8;
        columns.generated[row] = active.generated;
        columns.preemptions[row] = active.preemptions;
        if active.generated > 1 {
            columns.max_itl[row] = active.max_gap;
        }
        self.outstanding_tokens -= u64::from(active.prompt) + u64::from(active.generated);
        self.answering -= u64::from(world.is_answering(active.request, active.generated));
        if self.predicts && active.generated == 0 {
            self.prefill_delay -= self.predicted_prefill(active.prompt);
        }
        if let Some(pacing) = &mut self.pacing {
            pacing.take(slot);
        }
        self.given_up += 1;
        self.table.release(slot);
    }

    /// Looks a waiter up in the prefix cache, all but its last token.
    fn look_up(&self, waiter: Waiter, tokens: u32, world: &World, hits: &mut Vec<u32>) -> u64 {
        if !self.memory.caches() {
            return 0;
        }
        let prompt = world.trace.prompt_tokens[waiter.request as usize];
        let owner = ContentOwner { request: waiter.request, prompt };
        self.memory.find(owner, (tokens - 1) / self.block_tokens, &self.prefixes, hits)
    }

    fn sort_waiting(&mut self, world: &World) {
        let QueueOrder::LongestPrefix { most } = self.scheduler.order else { return };
        let (memory, prefixes, block) = (&self.memory, &self.prefixes, self.block_tokens);
        self.waiting.sort_by_key(most, |waiter| {
            let prompt = world.trace.prompt_tokens[waiter.request as usize];
            let owner = ContentOwner { request: waiter.request, prompt };
            u32::MAX - memory.matched(owner, (prompt - 1) / block, prefixes)
        });
    }

    /// Gives a waiter its slot and its place at the end of the order.
    fn seat(&mut self, waiter: Waiter, tokens: u32, hits: &[u32], now: Ticks, world: &mut World) -> Slot {
        let row = waiter.request as usize;
        let hit = hits.len() as u32 * self.block_tokens;
        if self.memory.caches() {
            self.usage.prefix_queries += u64::from(tokens);
            self.usage.prefix_hits += u64::from(hit);
        }
        let slot = if let Some(slot) = waiter.slot {
            self.readmitted(slot, now, world);
            slot
        } else {
            world.columns.scheduled[row] = now;
            world.columns.cached[row] = hit;
            let (prompt, output) = (world.trace.prompt_tokens[row], world.trace.output_tokens[row]);
            let slot = self.table.insert(waiter.request, prompt, output);
            let active = &mut self.table[slot];
            (active.came_at, active.admitted_at) = (world.trace.arrival[row], now);
            self.open_track(slot, world);
            slot
        };
        self.table[slot].phase = Phase::Prefilling;
        self.enter(slot);
        slot
    }

    /// Has somebody yield its next token whose memory is here: with the decode
    /// set, if that runs in this step and has what it needs, else by itself.
    #[inline(never)]
    pub(super) fn come_back(
        &mut self,
        slot: Slot,
        tokens: u32,
        part: Part,
        forming: &mut Forming,
        world: &World,
    ) {
        let joins = tokens == 1 && forming.decoded && forming.charged && !self.scheduler.decodes_first;
        if !joins {
            let active = &mut self.table[slot];
            active.phase = Phase::Stalled;
            self.partial_kv += u64::from(active.computed);
            self.enter(slot);
            self.schedule_chunk(slot, tokens, part, forming);
            return;
        }
        self.take_turn(slot);
        self.join_set(slot, world);
        self.decode.welcome(slot, part);
        let active = &mut self.table[slot];
        self.memory.register(active.owner(), active.computed + 1, &self.prefixes, &mut active.held);
        forming.left -= 1;
    }

    /// Puts a request that is not in the decode set at the end of the order of
    /// admission.
    pub(super) fn enter(&mut self, slot: Slot) {
        self.take_turn(slot);
        self.partials.push(slot);
    }

    /// Puts a request at the end of the order of admission.
    fn take_turn(&mut self, slot: Slot) {
        // Stale entries are swept before they outnumber the others.
        if self.order.len() > 64 && self.order.len() as u64 > 4 * self.admitted() {
            let table = &self.table;
            self.order.retain(|&(turn, slot)| table.holds(turn, slot));
        }
        self.table[slot].turn = self.next_turn;
        self.order.push((self.next_turn, slot));
        self.next_turn += 1;
    }

    /// Has an admitted request outside the decode set compute `tokens` in this
    /// step, for which there is room.
    pub(super) fn schedule_chunk(&mut self, slot: Slot, tokens: u32, part: Part, forming: &mut Forming) {
        let all = part == Part::Admitted && self.takes_all();
        let active = &mut self.table[slot];
        let after = if all { active.target() } else { active.computed + tokens };
        let wanted = u64::from(after.div_ceil(self.block_tokens));
        if wanted > active.count {
            let taken = self.memory.take(wanted - active.count, &mut active.held);
            taken.expect("Invariant: the blocks of a chunk are free when it is scheduled");
            active.count = wanted;
        }
        let (owner, after) = (active.owner(), active.computed + tokens);
        self.memory.register(owner, after, &self.prefixes, &mut active.held);
        self.partial_kv += u64::from(tokens);
        forming.left = forming.left.saturating_sub(u64::from(tokens));
        self.chunks.push(Chunk { slot, tokens, part });
    }
}
