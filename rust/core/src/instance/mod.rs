//! One replica of the model: its queue, its memory, its steps.
//!
//! An instance is a state machine driven from outside: `arrive` hands it a
//! request, `begin` forms a step (or a run of equal steps), `finish` applies
//! it, `cut` ends a run at the end of the step in progress. It knows nothing
//! of other instances.

mod active;
mod decode_set;
mod flight;
mod form;
mod halt;
mod record;

use std::collections::VecDeque;

use active::{ActiveTable, Slot, Stage, Turn};
use decode_set::DecodeSet;
use flight::Flight;
pub use record::StepRecord;

use crate::config::{InstanceConfig, SchedulerConfig};
use crate::cost::Cost;
use crate::kv::BlockPool;
use crate::metrics::{Columns, Reason, Sketch, Status, Usage};
use crate::time::Ticks;
use crate::trace::Trace;

/// What an instance reads and writes beside itself.
pub(crate) struct World<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) columns: &'a mut Columns,
    pub(crate) gaps: &'a mut Sketch,
    /// Whether runs of equal steps are taken at once. Without it every step is
    /// formed by walking over every running request.
    pub(crate) leap: bool,
}

/// Someone in the waiting queue.
#[derive(Debug, Clone, Copy)]
enum Waiter {
    /// A request that was never scheduled.
    New(u32),
    /// One that lost its memory and keeps its tokens.
    Resumed(Slot),
}

/// Part of a prompt (or of what is recomputed) that runs in a step.
#[derive(Debug, Clone, Copy)]
struct Chunk {
    slot: Slot,
    tokens: u32,
}

/// One replica.
#[derive(Debug)]
pub(crate) struct Instance {
    index: u32,
    block_tokens: u32,
    max_model_len: u64,
    scheduler: SchedulerConfig,
    cost: Cost,
    pool: BlockPool,
    table: ActiveTable,
    decode: DecodeSet,
    /// Admitted requests that are not in the decode set, by turn.
    partials: Vec<Slot>,
    /// Tokens that those have in the cache, chunks in progress included.
    partial_kv: u64,
    /// Admitted requests by turn; entries of those who have left are stale.
    order: Vec<(Turn, Slot)>,
    next_turn: Turn,
    waiting: VecDeque<Waiter>,
    flight: Option<Flight>,
    /// The chunks of the step in progress.
    chunks: Vec<Chunk>,
    /// Requests preempted while forming the step in progress.
    preempted: Vec<u32>,
    /// Prompt and output tokens of unfinished requests, as of the last finished step.
    outstanding_tokens: u64,
    usage: Usage,
    log: Option<Vec<StepRecord>>,
}

impl Instance {
    pub(crate) fn new(index: usize, config: &InstanceConfig, record: bool) -> Self {
        Self {
            index: index as u32,
            block_tokens: config.block_tokens,
            max_model_len: config.max_model_len.unwrap_or(u64::MAX),
            scheduler: config.scheduler.clone(),
            cost: config.cost.clone(),
            pool: BlockPool::new(config.blocks),
            table: ActiveTable::default(),
            decode: DecodeSet::new(config.block_tokens),
            partials: Vec::new(),
            partial_kv: 0,
            order: Vec::new(),
            next_turn: 0,
            waiting: VecDeque::new(),
            flight: None,
            chunks: Vec::new(),
            preempted: Vec::new(),
            outstanding_tokens: 0,
            usage: Usage::new(config.blocks, config.block_tokens),
            log: record.then(Vec::new),
        }
    }

    /// Why this instance could never serve such a request, if it could not.
    ///
    /// The KV of the last token is never written, so a sequence of `n` tokens
    /// needs room for `n - 1`.
    #[inline]
    pub(crate) fn refuses(&self, prompt: u32, output: u32) -> Reason {
        let sequence = u64::from(prompt) + u64::from(output);
        if sequence > self.max_model_len {
            return Reason::ExceedsContext;
        }
        if (sequence - 1).div_ceil(u64::from(self.block_tokens)) > self.pool.capacity() {
            return Reason::ExceedsMemory;
        }
        Reason::None
    }

    /// Whether two instances refuse the same requests.
    pub(crate) fn refuses_like(&self, other: &Self) -> bool {
        (self.max_model_len, self.block_tokens, self.pool.capacity())
            == (other.max_model_len, other.block_tokens, other.pool.capacity())
    }

    /// Takes in a request. Returns when the run in progress now ends, if the
    /// arrival cuts it.
    pub(crate) fn arrive(&mut self, request: u32, now: Ticks, world: &mut World) -> Option<Ticks> {
        self.usage.waited(self.waiting.len() as u64, now);
        let nobody_waited = self.waiting.is_empty();
        self.waiting.push_back(Waiter::New(request));
        self.usage.peak_waiting = self.usage.peak_waiting.max(self.waiting.len() as u64);
        self.outstanding_tokens += u64::from(world.trace.prompt_tokens[request as usize]);
        world.columns.instance[request as usize] = self.index;
        // Behind someone who waits for room, a newcomer changes nothing before
        // the next completion, and that ends the run by itself.
        if nobody_waited && self.admitted() < self.scheduler.max_num_seqs { self.cut(now) } else { None }
    }

    /// Whether no step is in progress.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.flight.is_none()
    }

    /// Requests that have been admitted and hold memory.
    #[inline]
    fn admitted(&self) -> u64 {
        self.decode.len() + self.partials.len() as u64
    }

    /// Tokens of prompt and of output so far, over the requests sent here and
    /// not finished, as of the last step that ended by `now`.
    pub(crate) fn outstanding_tokens(&self, now: Ticks) -> u64 {
        let ended = self.flight.as_ref().map_or(0, |flight| flight.steps_ended(now));
        self.outstanding_tokens + ended * self.decode.len()
    }

    #[inline]
    fn blocks(&self, tokens: u32) -> u64 {
        u64::from(tokens.div_ceil(self.block_tokens))
    }

    /// Applies the step or run in progress, which ends now. Returns how many
    /// requests it finished.
    pub(crate) fn finish(&mut self, now: Ticks, world: &mut World) -> u64 {
        let Some(flight) = self.flight.take() else { return 0 };
        self.apply(&flight, flight.steps, world);
        let before = self.usage.finished;
        self.finish_chunks(now, world);
        while let Some(slot) = self.decode.pop_complete(&self.table) {
            self.decode.leave(&mut self.table[slot], Stage::Prefilling, now);
            self.complete(slot, now, world);
        }
        self.usage.finished - before
    }

    /// Books `steps` of the flight's steps for the decode set and the clock.
    fn apply(&mut self, flight: &Flight, steps: u64, world: &mut World) {
        let series = &flight.series;
        let members = self.decode.len();
        let ticks = series.total(steps);
        self.record_steps(flight, steps);
        if members > 0 {
            if steps > 1 {
                let further = self.decode.blocks_for(steps) - self.decode.blocks_for_next();
                let taken = self.pool.take(further);
                debug_assert!(taken.is_ok(), "Invariant: a run never outgrows the pool");
            }
            world.gaps.add_series(members, series, steps);
        }
        let kv = self.decode.kv_tokens() + members + self.partial_kv;
        self.usage.steps += steps;
        self.usage.busy_ticks += ticks as u64;
        self.usage.decode_tokens += members * steps;
        self.usage.running_ticks += u128::from(self.admitted()) * ticks;
        self.usage.kv_token_ticks += series.integral(kv, members, steps);
        self.outstanding_tokens += members * steps;
        if members > 0 {
            self.decode.advance(steps, series.at(steps - 1));
        }
    }

    /// Moves on the requests whose chunks ran in the step that ends now.
    fn finish_chunks(&mut self, now: Ticks, world: &mut World) {
        if self.chunks.is_empty() {
            return;
        }
        let chunks = std::mem::take(&mut self.chunks);
        for &Chunk { slot, tokens } in &chunks {
            let active = &mut self.table[slot];
            active.computed += tokens;
            if active.computed < active.target() {
                continue;
            }
            active.generated += 1;
            self.outstanding_tokens += 1;
            if active.generated == 1 {
                world.columns.first_token[active.request as usize] = now;
            } else {
                let gap = now - active.last_token;
                active.max_gap = active.max_gap.max(gap);
                world.gaps.add(gap, 1);
            }
            active.last_token = now;
            self.partial_kv -= u64::from(active.computed);
            if active.generated < active.output {
                self.decode.join(slot, active);
            } else {
                self.complete(slot, now, world);
            }
        }
        let table = &self.table;
        self.partials.retain(|&slot| {
            let active = &table[slot];
            active.stage == Stage::Prefilling && active.computed < active.target()
        });
        self.chunks = chunks;
        self.chunks.clear();
    }

    /// Lets a request go that has yielded all its tokens.
    fn complete(&mut self, slot: Slot, now: Ticks, world: &mut World) {
        let active = &self.table[slot];
        self.pool.give_back(self.blocks(active.computed));
        self.usage.finished += 1;
        self.outstanding_tokens -= u64::from(active.prompt) + u64::from(active.output);
        let row = active.request as usize;
        let columns = &mut *world.columns;
        columns.finish[row] = now;
        if active.generated > 1 {
            columns.max_itl[row] = active.max_gap;
        }
        columns.preemptions[row] = active.preemptions;
        columns.generated[row] = active.generated;
        columns.status[row] = Status::Finished as u8;
        self.table.release(slot);
    }

    pub(crate) fn usage(&self) -> Usage {
        let mut usage = self.usage.clone();
        usage.peak_blocks = self.pool.peak();
        usage
    }

    pub(crate) fn take_log(&mut self) -> Vec<StepRecord> {
        self.log.take().unwrap_or_default()
    }
}
