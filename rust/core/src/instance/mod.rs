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
mod displace;
mod finish;
mod flight;
mod form;
mod halt;
mod layers;
mod lists;
mod liveness;
mod moving;
mod observe;
mod pace;
mod preempt;
mod queue;
mod rank;
mod ranked;
mod ranks;
mod record;
mod running;
mod sequel;
mod view;

use std::cell::Cell;
use std::sync::Arc;

use active::{ActiveTable, Phase, Slot, Turn};
use ahead::Ahead;
use decode_set::DecodeSet;
use flight::Flight;
use layers::Layers;
use liveness::Liveness;
pub(crate) use moving::{Occasion, Parcel};
pub(crate) use observe::Asking;
use observe::Intervals;
use pace::Pacing;
use queue::{Queue, Waiter};
use ranks::Ranks;
pub use record::{Part, StepRecord};
pub(crate) use view::{RequestView, seconds};

use crate::config::{Allocation, InstanceConfig, Pace, Preemption, QueueOrder, SchedulerConfig};
use crate::cost::{Cost, StepShape};
use crate::kv::{BlockPool, Memory, PrefixCache, Prefixes};
use crate::metrics::{Columns, InstanceStats, Reason, Sketch, TrafficCounter};
use crate::policy::ReqField;
use crate::time::Ticks;
use crate::trace::Trace;

/// Batches as large as this have their costs worked out beforehand.
const MOST_PREPARED: u64 = 1024;

/// What all instances read and write.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) trace: Trace,
    pub(crate) columns: Columns,
    pub(crate) gaps: Sketch,
    /// Whether runs of equal steps are taken at once. Without it every step is
    /// formed by walking over every running request.
    pub(crate) leap: bool,
}

impl World {
    /// How many of a request's tokens are reasoning, where the trace says.
    #[inline]
    fn reasoning(&self, request: u32) -> Option<u32> {
        self.trace.reasoning_tokens.as_ref().map(|column| column[request as usize])
    }

    /// Whether a request with so many tokens is past its reasoning.
    #[inline]
    pub(crate) fn is_answering(&self, request: u32, generated: u32) -> bool {
        generated > 0 && self.reasoning(request).is_none_or(|reasoning| generated >= reasoning)
    }

    /// Writes down that a request yielded its `generated`th token in a step
    /// from `start` to `end`, if that ended its reasoning or began its answer.
    fn phases(&mut self, request: u32, generated: u32, start: Ticks, end: Ticks) {
        let Some(reasoning) = self.reasoning(request) else { return };
        let row = request as usize;
        if generated == reasoning {
            self.columns.reasoning_end[row] = end;
        } else if generated == reasoning + 1 {
            self.columns.answer_started[row] = start;
            self.columns.first_answer[row] = end;
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
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
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
    /// Tokens of the chunks in progress.
    under_way: u64,
    /// Admitted requests by turn; entries of those who have left are stale.
    order: Vec<(Turn, Slot)>,
    next_turn: Turn,
    waiting: Queue,
    /// Swapped out, in the order in which they come back.
    swapped: Vec<Slot>,
    /// Where everyone stands, if that decides.
    ranks: Option<Box<Ranks>>,
    /// Whether ranks look at how far ahead readers are.
    paced_ranks: bool,
    /// Whether they look at blocks.
    ranks_by_blocks: bool,
    /// Whether they look at the steps that one has sat out.
    counts_idle: bool,
    /// Whether a rank may be another once its request is admitted.
    minds_admission: bool,
    /// Whether the rank of one who decodes changes by its tokens alone.
    steady_ranks: bool,
    /// Whether nobody asks how those rank who run as long as nobody waits, or
    /// nobody gives way to who does, and there are blocks.
    idle_ranks: bool,
    /// Whether anybody looks at what a prompt would take.
    predicts: bool,
    /// Those swapped out who come back by rank.
    swapped_by_rank: u64,
    /// Who is to give way, while that is worked out.
    victims: Vec<Slot>,
    /// Whether who comes in by rank may have others give way in this step.
    may_displace: bool,
    /// Those who came from elsewhere since the latest step was formed.
    landed: Vec<Slot>,
    /// Tokens of those whose memory is with the CPU.
    cpu_kv: u64,
    /// How far ahead readers are, if anybody asks.
    pacing: Option<Box<Pacing>>,
    pace_interval: Ticks,
    /// The latest token intervals, if anybody asks.
    intervals: Option<Box<Intervals>>,
    /// Sum of what the prompts not yet through would take, if anybody asks.
    prefill_delay: Ticks,
    /// When the decode set's latest step ended.
    decoded_at: Ticks,
    /// A moment, a run (its start and its steps), and how many had ended then.
    looked_at: Cell<(Ticks, Ticks, u64, u64)>,
    /// Whether anybody looks at when one reader runs out.
    watches_slack: bool,
    /// Unfinished requests that are past their reasoning.
    answering: u64,
    /// Those for whom a rule is to be asked, in which case rules are given.
    turning: Vec<(Turn, Occasion, Slot)>,
    asks_prefilled: bool,
    asks_answering: bool,
    /// Requests told to leave.
    leaving: Vec<(Slot, u32)>,
    role: u32,
    kv_bytes_per_token: u64,
    ahead: Ahead,
    flight: Option<Flight>,
    /// The run that follows the step in progress unless something comes before,
    /// and what its first step computes.
    sequel: Option<(Flight, StepShape)>,
    /// Whether runs are planned by what is known, and not stage by stage.
    plans: bool,
    /// What the first step of the run in progress computes.
    shape: StepShape,
    /// The chunks of the step in progress, or of the batch under way through
    /// the groups of layers.
    chunks: Vec<Chunk>,
    layers: Layers,
    /// Requests preempted while forming the step in progress.
    preempted: Vec<u32>,
    liveness: Liveness,
    /// Since when no step can be formed though requests are admitted.
    standing_since: Option<Ticks>,
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
    usage: InstanceStats,
    tally: Option<Box<TrafficCounter>>,
    log: Option<Vec<StepRecord>>,
    /// What the first step in progress decided, where decisions are kept.
    record: Option<Box<StepRecord>>,
}

/// What of an instance is looked at from outside, and kept for that.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub(crate) struct ObservedFields {
    pub(crate) role: u32,
    pub(crate) pace: Option<Pace>,
    pub(crate) on_pace: bool,
    pub(crate) slack: bool,
    pub(crate) intervals: bool,
    pub(crate) prefills: bool,
    pub(crate) asks_prefilled: bool,
    pub(crate) asks_answering: bool,
    pub(crate) records: bool,
}

impl Instance {
    pub(crate) fn new(
        index: usize,
        config: &InstanceConfig,
        prefixes: &Arc<Prefixes>,
        observed: ObservedFields,
    ) -> Self {
        let scheduler = config.scheduler.clone();
        let ranking = match &scheduler.order {
            QueueOrder::Ranked(ranking) => Some(ranking.as_ref().clone()),
            _ => None,
        };
        let looks_at = |field| ranking.as_ref().is_some_and(|ranking| ranked::looks_at(ranking, field));
        // No run foretells how far ahead a reader is.
        let paced_ranks = looks_at(ReqField::SlackS);
        let cache = scheduler
            .prefix_cache
            .map(|cache| PrefixCache::new(config.blocks as u32, prefixes.contents(), cache.unknown_first));
        let swap_space = match scheduler.preemption {
            Preemption::Recompute => 0,
            Preemption::Swap { blocks, .. } => blocks,
        };
        let plans = !scheduler.schedule_ahead && !scheduler.is_layered() && !observed.records;
        let mut cost = config.cost.clone();
        cost.prepare(scheduler.max_num_seqs.min(MOST_PREPARED));
        Self {
            index: index as u32,
            block_tokens: config.block_tokens,
            max_model_len: config.max_model_len.unwrap_or(u64::MAX),
            waiting: Queue::new(&scheduler.order),
            paced_ranks,
            ranks_by_blocks: looks_at(ReqField::Blocks),
            counts_idle: looks_at(ReqField::IdleSteps),
            minds_admission: ranking
                .as_ref()
                .is_some_and(|ranking| ranked::looks_at_admission(ranking, scheduler.prefix_cache.is_some())),
            steady_ranks: ranking.as_ref().is_some_and(ranked::changes_by_tokens),
            idle_ranks: ranking.as_ref().is_some_and(ranked::may_idle),
            predicts: observed.prefills || looks_at(ReqField::PrefillS),
            liveness: Liveness::new(ranking.as_ref()),
            ranks: ranking.map(|ranking| Box::new(Ranks::new(ranking))),
            swapped_by_rank: 0,
            victims: Vec::new(),
            may_displace: false,
            landed: Vec::new(),
            cpu_kv: 0,
            pacing: observed.pace.map(|pace| Box::new(Pacing::new(pace, observed.on_pace))),
            pace_interval: observed.pace.map_or(0, |pace| pace.interval),
            intervals: observed.intervals.then(Box::default),
            prefill_delay: 0,
            decoded_at: 0,
            looked_at: Cell::default(),
            watches_slack: observed.slack,
            answering: 0,
            turning: Vec::new(),
            asks_prefilled: observed.asks_prefilled,
            asks_answering: observed.asks_answering,
            leaving: Vec::new(),
            role: observed.role,
            kv_bytes_per_token: config.kv_bytes_per_token,
            scheduler,
            cost,
            prefixes: Arc::clone(prefixes),
            memory: Memory::new(config.blocks, config.block_tokens, cache),
            swap_space: BlockPool::new(swap_space),
            table: ActiveTable::default(),
            decode: DecodeSet::new(config.block_tokens, matches!(config.cost, Cost::Table(_))),
            partials: Vec::new(),
            partial_kv: 0,
            under_way: 0,
            order: Vec::new(),
            next_turn: 0,
            swapped: Vec::new(),
            ahead: Ahead::default(),
            flight: None,
            sequel: None,
            plans,
            shape: StepShape::default(),
            chunks: Vec::new(),
            layers: Layers::default(),
            preempted: Vec::new(),
            standing_since: None,
            late: Vec::new(),
            copied: (0, 0),
            completed: Vec::new(),
            hits: Vec::new(),
            given_up: 0,
            outstanding_tokens: 0,
            usage: InstanceStats::new(config.blocks, config.block_tokens),
            tally: TrafficCounter::new(config),
            log: observed.records.then(Vec::new),
            record: None,
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
        self.settle_head(now, world);
        self.usage.waited(self.queued(), now);
        if self.predicts {
            self.prefill_delay += self.predicted_prefill(world.trace.prompt_tokens[request as usize]);
        }
        let foremost = if self.scheduler.schedule_ahead {
            self.ahead.arrive(Waiter { request, slot: None }, now);
            true
        } else if self.ranks.is_some() {
            self.arrive_by_rank(request, now, world)
        } else {
            self.waiting.arrive(request, &world.trace)
        };
        self.usage.peak_waiting = self.usage.peak_waiting.max(self.queued());
        self.outstanding_tokens += u64::from(world.trace.prompt_tokens[request as usize]);
        world.columns.instance[request as usize] = self.index;
        if let Some(last) = world.columns.last_instance.get_mut(request as usize) {
            *last = self.index;
        }
        // While the head of the queue is blocked, a later arrival cannot be
        // admitted before the next completion, which ends the run by itself;
        // unless its rank changes with time.
        if self.scheduler.schedule_ahead {
            self.cut_ahead(now)
        } else if foremost {
            self.cut(now)
        } else {
            self.cut_by_rank(now)
        }
    }

    /// Whether no step is in progress.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.flight.is_none()
    }

    /// Requests that have no place in the order: new, preempted or swapped out.
    #[inline]
    fn queued(&self) -> u64 {
        let ranked = self.ranks.as_deref().map_or(0, Ranks::waiting);
        self.waiting.len() + ranked + self.ahead.arrived() + self.swapped.len() as u64
    }

    /// Requests that take up a seat, as far as the step being decided knows.
    #[inline]
    fn admitted(&self) -> u64 {
        self.decode.len() + self.partials.len() as u64 + self.ahead.seated()
    }

    /// Requests that have been admitted and are not done.
    #[inline]
    fn running(&self) -> u64 {
        self.decode.len() + self.partials.len() as u64
    }

    /// Tokens of prompt and of output so far, over the requests sent here and
    /// not finished, as of the last step that ended by `now`.
    pub(crate) fn outstanding_tokens(&self, now: Ticks) -> u64 {
        self.outstanding_tokens + self.grown(now, self.chunks.len() as u64)
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

    /// Whether keys are looked at whenever something happens to their request.
    #[inline]
    fn looks_always(&self) -> bool {
        self.ranks.as_ref().is_some_and(|ranks| !ranks.rules.refresh.is_set())
    }

    /// Bytes that go with so many tokens of KV.
    pub(crate) fn kv_bytes(&self, tokens: u32) -> u64 {
        u64::from(tokens) * self.kv_bytes_per_token
    }

    /// Its role.
    pub(crate) fn role(&self) -> u32 {
        self.role
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

    pub(crate) fn usage(&self) -> InstanceStats {
        let mut usage = self.usage.clone();
        usage.evictions = self.memory.evictions();
        usage.traffic = self.tally.as_ref().map(|tally| tally.moved(&usage));
        usage
    }

    pub(crate) fn take_log(&mut self) -> Vec<StepRecord> {
        self.log.take().unwrap_or_default()
    }
}
