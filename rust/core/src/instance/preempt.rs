//! Who gives way when blocks run out, and what becomes of its memory.

use super::active::{Phase, Slot};
use super::form::Forming;
use super::ranks::List;
use super::{Instance, World};
use crate::config::{Preemption, Victim};
use crate::time::Ticks;

impl Instance {
    /// The place in the order of whoever gives way next. `prefills`: whether
    /// those can be asked to.
    pub(super) fn choose_victim(&self, prefills: bool, world: &World) -> Option<usize> {
        let eligible = |&i: &usize| prefills || self.table[self.order[i].1].phase != Phase::Prefilling;
        let mut places = (0..self.order.len()).filter(eligible);
        if let Some(ranks) = &self.ranks {
            return places.max_by_key(|&i| ranks.entry(self.order[i].1).rank);
        }
        match self.scheduler.victim {
            Victim::Latest => places.next_back(),
            // Two of equal rank must not preempt each other for ever, so the
            // row, which is the order of arrival, settles it.
            Victim::Worst => places.max_by_key(|&i| {
                let request = self.table[self.order[i].1].request;
                (world.trace.rank(request as usize), request)
            }),
            Victim::FewestGenerated => places.min_by_key(|&i| {
                let active = &self.table[self.order[i].1];
                let decoding = active.phase == Phase::Decoding;
                let generated = if decoding {
                    self.decode.computed(active) + 1 - active.prompt
                } else {
                    active.generated
                };
                (generated, std::cmp::Reverse((active.prompt, active.request)))
            }),
        }
    }

    /// Takes all memory from a request that was not scheduled in this step.
    #[inline(never)]
    pub(super) fn preempt(&mut self, slot: Slot, forming: &mut Forming, now: Ticks, world: &World) {
        let phase = self.table[slot].phase;
        if phase == Phase::Decoding {
            self.set_aside(slot, now);
        } else {
            self.partials.retain(|&other| other != slot);
            self.partial_kv -= u64::from(self.table[slot].computed);
        }
        self.evict(slot, phase != Phase::Prefilling, forming, now, world);
    }

    /// Swaps a request out, or lets its memory go and queues it again.
    #[inline(never)]
    pub(super) fn evict(
        &mut self,
        slot: Slot,
        decoding: bool,
        forming: &mut Forming,
        now: Ticks,
        world: &World,
    ) {
        forming.preempted = true;
        self.usage.preemptions += 1;
        let active = &mut self.table[slot];
        active.preemptions += 1;
        active.out_since = now;
        active.attained += now - active.admitted_at;
        let request = active.request;
        let ranked = self.ranks.is_some();
        // By rank, only what has been computed is copied, not what was to be.
        let count = if ranked { self.blocks(self.table[slot].computed) } else { active.count };
        self.preempted.push(request);
        if matches!(self.scheduler.preemption, Preemption::Swap { .. }) {
            if self.swap_space.take(count).is_ok() {
                self.release(slot, false);
                let active = &mut self.table[slot];
                active.count = count;
                active.phase = Phase::Swapped(decoding);
                self.cpu_kv += u64::from(active.computed);
                self.copied.0 += count;
                self.usage.swapped_out_blocks += count;
                if ranked {
                    self.swapped_by_rank += 1;
                    self.shift(slot, List::Queued, now, world);
                } else {
                    self.swapped.push(slot);
                }
                return;
            }
            self.usage.swap_overflows += 1;
        }
        self.release(slot, true);
        let active = &mut self.table[slot];
        active.computed = 0;
        active.phase = Phase::Preempted;
        if ranked {
            self.shift(slot, List::Queued, now, world);
        } else if self.scheduler.requeue_late {
            self.late.push(slot);
        } else {
            self.waiting.put_back(request, slot, &world.trace);
        }
    }

    /// Brings back those who were swapped out, in order, while each has room.
    #[inline(never)]
    pub(super) fn swap_in(&mut self, forming: &mut Forming, now: Ticks, world: &mut World) {
        let mut back = 0;
        while back < self.swapped.len() {
            let slot = self.swapped[back];
            let active = &self.table[slot];
            let Phase::Swapped(decoding) = active.phase else { break };
            // A prefill comes back for all it lacks, uncut, unless it lacks more
            // than any step has: vLLM 0.6.1 would leave that one out for ever.
            let lacking = u64::from(active.target() - active.computed);
            let cut = lacking > self.scheduler.max_num_batched_tokens;
            let tokens = if cut { lacking.min(forming.left) } else { lacking };
            let count = active.count;
            let grown = self.blocks(active.computed + tokens as u32).max(count);
            // The spare block may be the one that a decode's next token fills.
            let spare = u64::from(self.scheduler.spare_block);
            let room = if decoding { grown.max(count + spare) } else { grown + spare } + self.watermark();
            let apart = self.scheduler.exclusive_prefill && !decoding && self.runs_decodes(forming);
            if room > self.memory.free()
                || apart
                || tokens == 0
                || tokens > forming.left
                || self.admitted() >= self.scheduler.max_num_seqs
            {
                break;
            }
            let active = &mut self.table[slot];
            self.memory.take(grown, &mut active.held).expect("Invariant: swapping in found the blocks free");
            self.swap_space.give_back(count);
            self.copied.1 += count;
            self.usage.swapped_in_blocks += count;
            active.count = grown;
            active.phase = if decoding { Phase::Stalled } else { Phase::Prefilling };
            self.partial_kv += u64::from(active.computed);
            self.cpu_kv -= u64::from(active.computed);
            self.readmitted(slot, now, world);
            self.enter(slot);
            let part = if decoding { super::Part::SwappedInDecode } else { super::Part::SwappedInChunk };
            self.schedule_chunk(slot, tokens as u32, part, forming);
            back += 1;
        }
        self.swapped.drain(..back);
    }

    /// Books how long a request was out of the batch that now comes back, or
    /// that this is its first step.
    pub(super) fn readmitted(&mut self, slot: Slot, now: Ticks, world: &mut World) {
        let active = &mut self.table[slot];
        active.admitted_at = now;
        let row = active.request as usize;
        let columns = &mut world.columns;
        // Whoever has a token has run before.
        if active.generated == 0 && columns.scheduled[row] == Ticks::MAX {
            columns.scheduled[row] = now;
        }
        let since = std::mem::replace(&mut active.out_since, Ticks::MAX);
        if since == Ticks::MAX {
            return;
        }
        // From the end of reasoning to the answer it is blocked, not preempted.
        let reasoning = world.trace.reasoning_tokens.as_ref().map(|column| column[row]);
        if reasoning.is_some_and(|reasoning| reasoning > 0 && active.generated == reasoning) {
            return;
        }
        columns.preempted[row] += now - since;
        if active.generated > reasoning.unwrap_or(0) {
            columns.preempted_answering[row] += now - since;
        }
    }
}
