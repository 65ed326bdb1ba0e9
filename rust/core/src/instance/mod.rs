//! One replica of the model: its queue, its memory, its steps.
//!
//! An instance is a state machine driven from outside: `arrive` hands it a
//! request, `begin` forms a step (or a run of equal steps), `finish` applies
//! it, `cut` ends a run at the end of the step in progress. It knows nothing
//! of other instances.

mod active;
mod admit;
mod ahead;
mod check;
mod decode_set;
mod flight;
mod form;
mod halt;
mod layers;
mod preempt;
mod queue;
mod record;
mod running;

use std::sync::Arc;

use active::{ActiveTable, Phase, Slot, Turn};
use ahead::Ahead;
use decode_set::DecodeSet;
use flight::Flight;
use layers::Layers;
use queue::Queue;
pub use record::{Part, StepRecord};

use crate::config::{Allocation, InstanceConfig, Preemption, SchedulerConfig};
use crate::cost::Cost;
use crate::kv::{BlockPool, Memory, PrefixCache, Prefixes};
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

impl World<'_> {
    /// How many of a request's tokens are reasoning, where the trace says.
    #[inline]
    fn reasoning(&self, request: u32) -> Option<u32> {
        self.trace.reasoning_tokens.as_ref().map(|column| column[request as usize])
    }

    /// Writes down that a request yielded its `generated`th token at `when`,
    /// if that ended its reasoning or began its answer.
    fn phases(&mut self, request: u32, generated: u32, when: Ticks) {
        let Some(reasoning) = self.reasoning(request) else { return };
        let row = request as usize;
        if generated == reasoning {
            self.columns.reasoning_end[row] = when;
        } else if generated == reasoning + 1 {
            self.columns.first_answer[row] = when;
        }
    }
}

/// Tokens that a request outside the decode set computes in a step.
#[derive(Debug, Clone, Copy)]
struct Chunk {
    slot: Slot,
    tokens: u32,
    part: Part,
}

/// One replica.
#[derive(Debug)]
pub(crate) struct Instance {
    index: u32,
    block_tokens: u32,
    max_model_len: u64,
    scheduler: SchedulerConfig,
    cost: Cost,
    prefixes: Arc<Prefixes>,
    memory: Memory,
    /// The CPU's memory, where preemption swaps.
    swap_space: BlockPool,
    table: ActiveTable,
    decode: DecodeSet,
    /// Admitted requests that are not in the decode set, by turn.
    partials: Vec<Slot>,
    /// Tokens that those have in the cache, chunks in progress included.
    partial_kv: u64,
    /// Admitted requests by turn; entries of those who have left are stale.
    order: Vec<(Turn, Slot)>,
    next_turn: Turn,
    waiting: Queue,
    /// Swapped out, in the order in which they come back.
    swapped: Vec<Slot>,
    ahead: Ahead,
    flight: Option<Flight>,
    /// The chunks of the step in progress, or of the batch under way through
    /// the groups of layers.
    chunks: Vec<Chunk>,
    layers: Layers,
    /// Requests preempted while forming the step in progress.
    preempted: Vec<u32>,
    /// Those of them who are queued again only once it is formed.
    late: Vec<Slot>,
    /// Blocks copied (out, back) while forming the step in progress.
    copied: (u64, u64),
    /// Requests that yielded their last token in the step that ends.
    completed: Vec<(Turn, Slot)>,
    hits: Vec<u32>,
    /// Requests dropped since the engine last asked.
    given_up: u64,
    /// Prompt and output tokens of unfinished requests, as of the last finished step.
    outstanding_tokens: u64,
    usage: Usage,
    log: Option<Vec<StepRecord>>,
}

impl Instance {
    pub(crate) fn new(index: usize, config: &InstanceConfig, prefixes: &Arc<Prefixes>, record: bool) -> Self {
        let scheduler = config.scheduler.clone();
        let cache = scheduler
            .prefix_cache
            .map(|cache| PrefixCache::new(config.blocks as u32, prefixes.contents(), cache.unknown_first));
        let swap_space = match scheduler.preemption {
            Preemption::Recompute => 0,
            Preemption::Swap { blocks, .. } => blocks,
        };
        Self {
            index: index as u32,
            block_tokens: config.block_tokens,
            max_model_len: config.max_model_len.unwrap_or(u64::MAX),
            waiting: Queue::new(scheduler.order),
            scheduler,
            cost: config.cost.clone(),
            prefixes: Arc::clone(prefixes),
            memory: Memory::new(config.blocks, config.block_tokens, cache),
            swap_space: BlockPool::new(swap_space),
            table: ActiveTable::default(),
            decode: DecodeSet::new(config.block_tokens, matches!(config.cost, Cost::Table(_))),
            partials: Vec::new(),
            partial_kv: 0,
            order: Vec::new(),
            next_turn: 0,
            swapped: Vec::new(),
            ahead: Ahead::default(),
            flight: None,
            chunks: Vec::new(),
            layers: Layers::default(),
            preempted: Vec::new(),
            late: Vec::new(),
            copied: (0, 0),
            completed: Vec::new(),
            hits: Vec::new(),
            given_up: 0,
            outstanding_tokens: 0,
            usage: Usage::new(config.blocks, config.block_tokens),
            log: record.then(Vec::new),
        }
    }

    /// Why this instance could never serve such a request, if it could not.
    ///
    /// The KV of the last token is never written, so a sequence of `n` tokens
    /// needs room for `n - 1`, beside what admissions leave free and the block
    /// to spare, where that is asked for even of the only request.
    #[inline]
    pub(crate) fn refuses(&self, prompt: u32, output: u32) -> Reason {
        let sequence = u64::from(prompt) + u64::from(output);
        if sequence > self.max_model_len {
            return Reason::ExceedsContext;
        }
        let (needed, budget) = self.limits();
        if (sequence - 1).div_ceil(u64::from(self.block_tokens)) + needed > self.memory.capacity() {
            return Reason::ExceedsMemory;
        }
        if u64::from(prompt) > budget {
            return Reason::ExceedsBudget;
        }
        Reason::None
    }

    /// Blocks that a lone request must leave free, and the longest prefill.
    #[inline]
    fn limits(&self) -> (u64, u64) {
        let rules = &self.scheduler;
        let idle = if rules.watermark_when_idle { rules.watermark_blocks } else { 0 };
        let budget = if rules.cuts_prompts() { u64::MAX } else { rules.max_num_batched_tokens };
        (idle + u64::from(rules.spare_block), budget)
    }

    /// Whether two instances refuse the same requests.
    pub(crate) fn refuses_like(&self, other: &Self) -> bool {
        let of = |x: &Self| (x.max_model_len, x.block_tokens, x.memory.capacity(), x.limits());
        of(self) == of(other)
    }

    /// Takes in a request. Returns when the run in progress now ends, if the
    /// arrival cuts it.
    pub(crate) fn arrive(&mut self, request: u32, now: Ticks, world: &mut World) -> Option<Ticks> {
        self.usage.waited(self.queued(), now);
        let foremost = if self.scheduler.schedule_ahead {
            self.ahead.arrive(request, now);
            true
        } else {
            self.waiting.arrive(request, world.trace)
        };
        self.usage.peak_waiting = self.usage.peak_waiting.max(self.queued());
        self.outstanding_tokens += u64::from(world.trace.prompt_tokens[request as usize]);
        world.columns.instance[request as usize] = self.index;
        // Behind someone who waits for room, a newcomer changes nothing before
        // the next completion, and that ends the run by itself.
        if foremost { self.cut(now) } else { None }
    }

    /// Whether no step is in progress.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.flight.is_none()
    }

    /// Requests that have no place in the order: new, preempted or swapped out.
    #[inline]
    fn queued(&self) -> u64 {
        self.waiting.len() + self.ahead.arrived() + self.swapped.len() as u64
    }

    /// Requests that take up a seat, as far as the step being decided knows.
    #[inline]
    fn admitted(&self) -> u64 {
        self.decode.len() + self.partials.len() as u64 + self.ahead.lingering()
    }

    /// Requests that have been admitted and are not done.
    #[inline]
    fn running(&self) -> u64 {
        self.decode.len() + self.partials.len() as u64
    }

    /// Tokens of prompt and of output so far, over the requests sent here and
    /// not finished, as of the last step that ended by `now`.
    pub(crate) fn outstanding_tokens(&self, now: Ticks) -> u64 {
        let ended =
            self.flight.as_ref().map_or(0, |flight| if flight.decodes { flight.steps_ended(now) } else { 0 });
        self.outstanding_tokens + ended * self.decode.len()
    }

    /// A lower bound of [`Self::outstanding_tokens`] at any time from now on
    /// until the step or run in progress ends.
    #[inline]
    pub(crate) fn outstanding_tokens_at_least(&self) -> u64 {
        self.outstanding_tokens
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
        self.ahead.started(flight.start + flight.series.total(flight.steps - 1) as Ticks);
        let before = self.usage.finished;
        if !self.chunks.is_empty() && self.layers.is_last() {
            self.finish_chunks(now, world);
        }
        while let Some(slot) = self.decode.pop_complete(&self.table) {
            self.decode.leave(&mut self.table[slot], Phase::Stalled, now);
            self.completed.push((self.table[slot].turn, slot));
        }
        if !self.completed.is_empty() {
            self.complete(now, world);
        }
        if cfg!(debug_assertions) {
            self.check();
        }
        self.usage.finished - before
    }

    /// Books `steps` of the flight's steps for the decode set and the clock.
    fn apply(&mut self, flight: &Flight, steps: u64, world: &mut World) {
        let series = &flight.series;
        let members = if flight.decodes { self.decode.len() } else { 0 };
        let ticks = series.total(steps);
        if self.log.is_some() {
            self.record_steps(flight, steps);
        }
        if members > 0 && steps > 1 {
            let further = self.decode.blocks_for(steps) - self.decode.blocks_for_next();
            let taken = self.memory.take_loose(further);
            debug_assert!(taken.is_ok(), "Invariant: a run never outgrows the pool");
            self.usage.peak_blocks = self.usage.peak_blocks.max(self.memory.used());
        }
        let kv = self.decode.kv_tokens() + members + self.partial_kv;
        self.usage.steps += steps;
        self.usage.extrapolated.add(flight.beyond, steps);
        self.usage.busy_ticks += ticks as u64;
        self.usage.decode_tokens += members * steps;
        self.usage.running_ticks += u128::from(self.running()) * ticks;
        self.usage.kv_token_ticks += series.integral(kv, members, steps);
        self.outstanding_tokens += members * steps;
        if members > 0 {
            self.decode.advance(flight.start, series, steps, world.gaps);
            while let Some((slot, step, generated)) = self.decode.pop_milestone(&self.table, steps) {
                let when = flight.start + series.total(step) as Ticks;
                world.phases(self.table[slot].request, generated, when);
            }
        }
    }

    /// Moves on the requests whose chunks ran in the step that ends now.
    fn finish_chunks(&mut self, now: Ticks, world: &mut World) {
        let chunks = std::mem::take(&mut self.chunks);
        for &Chunk { slot, tokens, .. } in &chunks {
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
            if let Some(reasoning) = world.reasoning(active.request) {
                world.phases(active.request, active.generated, now);
                if active.generated < active.output {
                    self.decode.mark(slot, active, reasoning);
                    self.decode.mark(slot, active, reasoning + 1);
                }
            }
            if active.generated < active.output {
                self.decode.join(slot, active);
            } else {
                active.phase = Phase::Stalled;
                self.completed.push((active.turn, slot));
            }
        }
        let table = &self.table;
        self.partials.retain(|&slot| {
            let active = &table[slot];
            active.phase != Phase::Decoding
                && active.computed < active.target()
                && active.generated < active.output
        });
        self.chunks = chunks;
        self.chunks.clear();
    }

    /// Lets the requests go that have yielded all their tokens, in the order of
    /// admission: with a prefix cache it is the order in which blocks are reused.
    fn complete(&mut self, now: Ticks, world: &mut World) {
        let mut completed = std::mem::take(&mut self.completed);
        if self.memory.caches() {
            completed.sort_unstable();
        }
        for (_, slot) in completed.drain(..) {
            let active = &self.table[slot];
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
            if self.scheduler.schedule_ahead {
                self.linger(slot);
            } else {
                self.let_go(slot);
            }
        }
        self.completed = completed;
    }

    /// Frees the memory and the slot of a request that is done.
    fn let_go(&mut self, slot: Slot) {
        self.release(slot, false);
        self.table.release(slot);
    }

    /// Takes a request's blocks back. `returns`: it will be admitted again.
    fn release(&mut self, slot: Slot, returns: bool) {
        let active = &mut self.table[slot];
        let (owner, count, computed) = (active.owner(), active.count, active.computed);
        self.memory.release(owner, count, computed, returns, &self.prefixes, &mut active.held);
        active.count = 0;
    }

    /// Whether an admission takes the blocks of the whole sequence.
    #[inline]
    fn takes_all(&self) -> bool {
        self.scheduler.allocation == Allocation::Sequence
    }

    /// How many requests were dropped since this was last asked.
    #[inline]
    pub(crate) fn take_given_up(&mut self) -> u64 {
        std::mem::take(&mut self.given_up)
    }

    pub(crate) fn usage(&self) -> Usage {
        let mut usage = self.usage.clone();
        usage.evictions = self.memory.evictions();
        usage
    }

    pub(crate) fn take_log(&mut self) -> Vec<StepRecord> {
        self.log.take().unwrap_or_default()
    }
}
