//! Forming a step: running requests first, then the waiting, under one budget.
//!
//! Follows vLLM V1's `Scheduler.schedule` (0.33.0). There is no prefill and no
//! decode phase: every admitted request has tokens to catch up on, one of them
//! if it decodes. What each request gets is settled in order of admission;
//! where the budget and the blocks cover everybody, the order cannot matter,
//! and the decode set is scheduled as one.

use super::active::{Slot, Stage, Turn};
use super::flight::Flight;
use super::{Chunk, Instance, Waiter, World};
use crate::cost::StepShape;
use crate::error::Error;
use crate::series::Series;
use crate::time::{HORIZON, Ticks};

impl Instance {
    /// Forms and starts the next step. Returns when it ends, or nothing if
    /// there is nothing to run.
    pub(crate) fn begin(&mut self, now: Ticks, world: &mut World) -> Result<Option<Ticks>, Error> {
        debug_assert!(self.flight.is_none(), "Invariant: one step at a time");
        self.usage.waited(self.waiting.len() as u64, now);
        loop {
            self.preempted.clear();
            let threshold = self.chunk_limit();
            let budget = self.schedule_running(threshold, now, world.leap);
            if self.preempted.is_empty() {
                self.admit_waiting(threshold, budget, now, world);
            }
            if self.decode.len() > 0 || !self.chunks.is_empty() {
                break;
            }
            // A step in which everyone was preempted takes no time; what it
            // freed is there for the next.
            if self.preempted.is_empty() {
                return Ok(None);
            }
        }
        self.usage.peak_running = self.usage.peak_running.max(self.admitted());
        let flight = self.start(now, world.leap)?;
        let end = flight.end();
        self.flight = Some(flight);
        Ok(Some(end))
    }

    /// The most tokens of a prefill in this step. A lone request starves
    /// nobody, so it has no limit.
    fn chunk_limit(&self) -> u64 {
        let limit = self.scheduler.long_prefill_token_threshold;
        let requests = self.admitted() + self.waiting.len() as u64;
        if limit == 0 || requests <= 1 { u64::MAX } else { limit }
    }

    /// Gives the admitted requests their tokens and blocks. Returns the budget
    /// that is left.
    fn schedule_running(&mut self, threshold: u64, now: Ticks, leap: bool) -> u64 {
        let budget = self.scheduler.max_num_batched_tokens;
        if !leap {
            return self.walk_running(threshold, budget, now);
        }
        if self.partials.is_empty() && self.decode.len() <= budget {
            // Only decodes: they take one token each, and where blocks run out
            // the latest admitted give theirs up until the rest is served.
            while self.decode.blocks_for_next() > self.pool.free() {
                if let Some(slot) = self.pop_latest() {
                    self.preempt(slot, now);
                }
            }
            let taken = self.pool.take(self.decode.blocks_for_next());
            debug_assert!(taken.is_ok(), "Invariant: preemption made room");
            return budget - self.decode.len();
        }
        match self.try_everyone(threshold, budget) {
            Some(left) => left,
            None => self.walk_running(threshold, budget, now),
        }
    }

    /// Schedules all admitted requests at once, if budget and blocks suffice
    /// whatever the order.
    fn try_everyone(&mut self, threshold: u64, budget: u64) -> Option<u64> {
        let mut left = budget.checked_sub(self.decode.len())?;
        let mut blocks = self.decode.blocks_for_next();
        debug_assert!(self.chunks.is_empty(), "Invariant: a step is formed from scratch");
        for (i, &slot) in self.partials.iter().enumerate() {
            let active = &self.table[slot];
            let wanted = u64::from(active.target() - active.computed).min(threshold);
            // Only the very last in the order may be cut short by the budget.
            let last = i + 1 == self.partials.len() && active.turn + 1 == self.next_turn;
            let tokens = if wanted > left && last { left } else { wanted };
            if tokens > left {
                self.chunks.clear();
                return None;
            }
            left -= tokens;
            if tokens > 0 {
                blocks += self.blocks(active.computed + tokens as u32) - self.blocks(active.computed);
                self.chunks.push(Chunk { slot, tokens: tokens as u32 });
            }
        }
        if self.pool.take(blocks).is_err() {
            self.chunks.clear();
            return None;
        }
        self.partial_kv += self.chunks.iter().map(|chunk| u64::from(chunk.tokens)).sum::<u64>();
        Some(left)
    }

    /// Schedules the admitted requests one by one, in order of admission.
    fn walk_running(&mut self, threshold: u64, budget: u64, now: Ticks) -> u64 {
        let mut left = budget;
        let table = &self.table;
        self.order.retain(|&(turn, slot)| holds(table, turn, slot));
        let mut i = 0;
        'requests: while i < self.order.len() && left > 0 {
            let (_, slot) = self.order[i];
            let active = &self.table[slot];
            let (tokens, blocks) = if active.stage == Stage::Decoding {
                (1, u64::from(self.decode.needs_block(active)))
            } else {
                let wanted = u64::from(active.target() - active.computed);
                let tokens = wanted.min(threshold).min(left);
                let after = active.computed + tokens as u32;
                (tokens, self.blocks(after) - self.blocks(active.computed))
            };
            while self.pool.take(blocks).is_err() {
                let Some((_, victim)) = self.order.pop() else { break 'requests };
                self.preempt(victim, now);
                if victim == slot {
                    break 'requests;
                }
            }
            left -= tokens;
            if self.table[slot].stage == Stage::Prefilling {
                self.chunks.push(Chunk { slot, tokens: tokens as u32 });
                self.partial_kv += tokens;
            }
            i += 1;
        }
        self.stall(i, now);
        left
    }

    /// Takes those whom the budget did not reach out of the decode set, which
    /// is only for requests that run at every step.
    fn stall(&mut self, from: usize, now: Ticks) {
        let mut stalled = false;
        for i in from..self.order.len() {
            let (_, slot) = self.order[i];
            if self.table[slot].stage == Stage::Decoding {
                self.decode.leave(&mut self.table[slot], Stage::Prefilling, now);
                self.partial_kv += u64::from(self.table[slot].computed);
                self.partials.push(slot);
                stalled = true;
            }
        }
        if stalled {
            let table = &self.table;
            self.partials.sort_by_key(|&slot| table[slot].turn);
        }
    }

    /// The latest admitted request that still holds memory, taken off the order.
    fn pop_latest(&mut self) -> Option<Slot> {
        while let Some((turn, slot)) = self.order.pop() {
            if holds(&self.table, turn, slot) {
                return Some(slot);
            }
        }
        None
    }

    /// Takes all memory from a request and puts it at the head of the queue.
    fn preempt(&mut self, slot: Slot, now: Ticks) {
        let decoding = self.table[slot].stage == Stage::Decoding;
        if decoding {
            self.decode.leave(&mut self.table[slot], Stage::Preempted, now);
        } else {
            self.partials.retain(|&other| other != slot);
            self.partial_kv -= u64::from(self.table[slot].computed);
        }
        let active = &mut self.table[slot];
        let held = active.computed;
        active.computed = 0;
        active.stage = Stage::Preempted;
        active.preemptions += 1;
        let request = active.request;
        self.pool.give_back(self.blocks(held));
        self.usage.preemptions += 1;
        self.preempted.push(request);
        self.waiting.push_front(Waiter::Resumed(slot));
        self.usage.peak_waiting = self.usage.peak_waiting.max(self.waiting.len() as u64);
    }

    /// Blocks that an admission of `tokens`, of which `chunk` run now, must
    /// find free.
    fn admission_needs(&self, tokens: u32, chunk: u32) -> u64 {
        let watermark = if self.admitted() > 0 { self.scheduler.watermark_blocks } else { 0 };
        let reserved = if self.scheduler.reserve_full_prompt { tokens } else { chunk };
        self.blocks(reserved) + watermark
    }

    /// Tokens that a waiter has to compute.
    #[inline]
    fn waiter_tokens(&self, waiter: Waiter, world: &World) -> u32 {
        match waiter {
            Waiter::New(request) => world.trace.prompt_tokens[request as usize],
            Waiter::Resumed(slot) => self.table[slot].target(),
        }
    }

    /// Admits from the head of the queue until somebody does not fit.
    fn admit_waiting(&mut self, threshold: u64, budget: u64, now: Ticks, world: &mut World) {
        let mut left = budget;
        while left > 0 && self.admitted() < self.scheduler.max_num_seqs {
            let Some(&waiter) = self.waiting.front() else { break };
            let tokens = self.waiter_tokens(waiter, world);
            let chunk = u64::from(tokens).min(threshold).min(left) as u32;
            if self.admission_needs(tokens, chunk) > self.pool.free() {
                break;
            }
            let taken = self.pool.take(self.blocks(chunk));
            debug_assert!(taken.is_ok(), "Invariant: what is reserved covers the chunk");
            self.waiting.pop_front();
            let slot = self.admit(waiter, now, world);
            self.chunks.push(Chunk { slot, tokens: chunk });
            self.partial_kv += u64::from(chunk);
            left -= u64::from(chunk);
        }
    }

    /// Gives a waiter its place at the end of the order.
    fn admit(&mut self, waiter: Waiter, now: Ticks, world: &mut World) -> Slot {
        let slot = match waiter {
            Waiter::Resumed(slot) => slot,
            Waiter::New(request) => {
                let row = request as usize;
                world.columns.scheduled[row] = now;
                let (prompt, output) = (world.trace.prompt_tokens[row], world.trace.output_tokens[row]);
                self.table.insert(request, prompt, output)
            }
        };
        let active = &mut self.table[slot];
        active.stage = Stage::Prefilling;
        active.turn = self.next_turn;
        self.next_turn += 1;
        self.partials.push(slot);
        // Stale entries are swept before they outnumber the others.
        if self.order.len() > 64 && self.order.len() as u64 > 4 * self.admitted() {
            let table = &self.table;
            self.order.retain(|&(turn, slot)| holds(table, turn, slot));
        }
        self.order.push((self.table[slot].turn, slot));
        slot
    }

    /// Times the step that was formed and decides how often it repeats.
    fn start(&mut self, now: Ticks, leap: bool) -> Result<Flight, Error> {
        let shape = self.shape();
        self.usage.prefill_tokens += shape.prefill_tokens;
        let (series, mut steps) = if leap && self.chunks.is_empty() {
            let run = self.cost.run(&shape);
            let most = run.steps.min(self.repeats());
            (Series { first: run.first, slope: run.slope }, most)
        } else {
            (Series { first: self.cost.step(&shape), slope: 0 }, 1)
        };
        if u128::from(now) + series.total(steps) > u128::from(HORIZON) {
            steps = series.steps_within(HORIZON.saturating_sub(now), steps);
            if steps == 0 {
                let seconds = now / crate::time::TICKS_PER_SECOND;
                return Err(Error::ClockOverflow { seconds, instance: self.index as usize });
            }
        }
        Ok(Flight { start: now, series, steps, record: self.describe(now) })
    }

    /// For how many steps the pure decode step just formed repeats if nobody
    /// arrives: until a completion, a shortage of blocks, or an admission that
    /// the preemption in this step put off.
    fn repeats(&mut self) -> u64 {
        if !self.partials.is_empty() {
            return 1;
        }
        if !self.preempted.is_empty() && self.admitted() < self.scheduler.max_num_seqs {
            if let Some(&Waiter::Resumed(slot)) = self.waiting.front() {
                let tokens = self.table[slot].target();
                let left = self.scheduler.max_num_batched_tokens - self.decode.len();
                let chunk = u64::from(tokens).min(self.chunk_limit()).min(left) as u32;
                if self.admission_needs(tokens, chunk) <= self.pool.free() {
                    return 1;
                }
            }
        }
        let most = self.decode.steps_to_completion(&self.table);
        self.decode.steps_covered(self.pool.free() + self.decode.blocks_for_next(), most)
    }

    /// What the step just formed computes.
    fn shape(&self) -> StepShape {
        let decodes = self.decode.len();
        let mut shape = StepShape {
            decode_requests: decodes,
            decode_kv: self.decode.kv_tokens() + decodes,
            sampled: decodes,
            ..StepShape::default()
        };
        for &Chunk { slot, tokens } in &self.chunks {
            let active = &self.table[slot];
            let (before, tokens) = (u64::from(active.computed), u64::from(tokens));
            let after = before + tokens;
            shape.sampled += u64::from(after == u64::from(active.target()));
            if tokens == 1 && active.computed >= active.prompt {
                shape.decode_requests += 1;
                shape.decode_kv += after;
                continue;
            }
            shape.prefill_requests += 1;
            shape.prefill_tokens += tokens;
            shape.prefill_kv += after;
            shape.prefill_pairs += tokens * before + tokens * (tokens + 1) / 2;
        }
        shape
    }
}

/// Whether an entry of the order still stands for an admitted request.
#[inline]
fn holds(table: &super::ActiveTable, turn: Turn, slot: Slot) -> bool {
    let active = &table[slot];
    active.turn == turn && matches!(active.stage, Stage::Prefilling | Stage::Decoding)
}
