//! Forming a step, stage by stage.
//!
//! A scheduler is a list of stages: those who were admitted go on, those who
//! were swapped out come back, those who wait are let in. vLLM V1 runs
//! everyone, then admits; vLLM V0 admits, and decodes only if nobody was;
//! Sarathi decodes, goes on with prefills, then admits. The rules that stages
//! share (what an admission takes, who gives way) are in the configuration.

use super::flight::Flight;
use super::ranks::Ranks;
use super::running::Walk;
use super::{Chunk, Instance, Phase, World};
use crate::config::{Preemption, Stage};
use crate::cost::StepShape;
use crate::error::Error;
use crate::series::Series;
use crate::time::{HORIZON, TICKS_PER_SECOND, Ticks};
use crate::trace::Trace;

/// A step in the making.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is what one stage tells the later ones")]
pub(super) struct Forming {
    /// Tokens that are left.
    pub(super) left: u64,
    /// The most tokens of one prefill.
    pub(super) chunk_limit: u64,
    /// Whether anybody gave way.
    pub(super) preempted: bool,
    /// Requests that were displaced.
    pub(super) displaced: u64,
    /// Whether the decode set has its tokens and its blocks.
    pub(super) decoded: bool,
    /// Whether decodes use up the step's tokens.
    pub(super) charged: bool,
    /// Whether the batch that goes through the groups of layers was formed in
    /// this step.
    pub(super) new_batch: bool,
    /// Whether seats are counted with the decodes.
    pub(super) count_decodes: bool,
    /// When to look again though nothing happens.
    pub(super) wake: Option<Ticks>,
}

impl Forming {
    /// Whether a request takes a seat: one that is admitted, or only one whose
    /// prefill runs in this step.
    #[inline]
    pub(super) fn seats(&self, phase: Phase, runs: bool) -> bool {
        self.count_decodes || phase == Phase::Prefilling && runs
    }
}

impl Instance {
    /// Forms and starts the next step. Returns when to come back, or nothing
    /// if that is not before the next arrival.
    pub(crate) fn begin(&mut self, now: Ticks, world: &mut World) -> Result<Option<Ticks>, Error> {
        debug_assert!(self.flight.is_none(), "Invariant: one step at a time");
        self.book_standing(now);
        let queued = self.queued();
        self.usage.waited(queued, now);
        let ahead = self.scheduler.schedule_ahead;
        if ahead {
            self.learn(&world.trace);
        }
        let idle = self.idle_ranks && queued == 0;
        if self.ranks.is_some() && !idle {
            self.wake(now, world);
        }
        if queued == 0
            && let Some(end) = self.go_on_alone(now, world)
        {
            return Ok(Some(end));
        }
        if idle {
            self.wake(now, world);
        }
        // Formed again only where all who were admitted gave way, which leaves
        // nobody who could once more: by rank, the second time is the last.
        let (forming, decodes) = loop {
            self.preempted.clear();
            if self.ranks.is_some() {
                self.begin_round(now, &world.trace);
            }
            if self.liveness.forms(now) {
                self.check_liveness(now)?;
            }
            let mut forming = self.open();
            let decodes = self.run_stages(&mut forming, now, world);
            if forming.preempted {
                self.requeue_late(&world.trace);
            }
            if (decodes && self.decode.len() > 0) || self.runs_chunks() {
                break (forming, decodes);
            }
            // A step in which everyone was preempted takes no time; what it
            // freed is there for the next. Nor does one that could not be
            // decided ahead.
            if !(forming.preempted || ahead && self.catch_up(&world.trace)) {
                if let Some(intervals) = &mut self.intervals {
                    intervals.rest();
                }
                self.standing_since = (self.running() > 0).then_some(now);
                return Ok(forming.wake);
            }
        };
        let lost = !self.landed.is_empty() && self.shelve(now, world);
        if self.scheduler.decodes_first {
            self.put_decodes_first(decodes);
        }
        self.usage.peak_running = self.usage.peak_running.max(self.running());
        self.usage.peak_blocks = self.usage.peak_blocks.max(self.memory.used());
        let freed = self.ahead.holds_memory();
        if freed {
            self.settle_lingering();
        }
        let mut flight = self.start(now, decodes, &forming, world)?;
        // Who lost its memory on landing may come in for less at the next step.
        if lost || (ahead && self.has_news(freed)) {
            flight.steps = 1;
        }
        let mut end = flight.end();
        if self.runs_chunks() {
            self.under_way = self.chunks.iter().map(|chunk| u64::from(chunk.tokens)).sum();
            self.sequel = self.plan_after(&flight, world);
            end = self.sequel.as_ref().map_or(end, |(run, _)| run.end());
        }
        self.flight = Some(flight);
        Ok(Some(end))
    }

    /// Whether the step that is formed computes anything beside the decode set.
    #[inline]
    fn runs_chunks(&self) -> bool {
        !self.chunks.is_empty() || !self.layers.batch.is_empty()
    }

    /// Seats that are taken in the step that is formed.
    #[inline]
    pub(super) fn seats_taken(&self, forming: &Forming) -> u64 {
        if forming.count_decodes { self.admitted() } else { self.prefills() }
    }

    /// Prefills that run in the step that is formed, beside the batch between two
    /// groups of layers.
    #[inline(never)]
    fn prefills(&self) -> u64 {
        let prefills = |chunk: &&Chunk| self.table[chunk.slot].phase == Phase::Prefilling;
        self.chunks.iter().filter(prefills).count() as u64
    }

    /// Whether the step that is formed has decodes.
    pub(super) fn runs_decodes(&self, forming: &Forming) -> bool {
        let decodes = |chunk: &Chunk| self.table[chunk.slot].phase == Phase::Stalled;
        forming.decoded && self.decode.len() > 0 || self.chunks.iter().any(decodes)
    }

    /// Whether the step that is formed has prefills.
    fn runs_prefills(&self) -> bool {
        let prefills = |chunk: &Chunk| self.table[chunk.slot].phase == Phase::Prefilling;
        !self.layers.batch.is_empty() || self.chunks.iter().any(prefills)
    }

    /// Books the time in which requests were admitted and no step could be formed.
    #[inline]
    pub(super) fn book_standing(&mut self, now: Ticks) {
        if let Some(since) = self.standing_since.take() {
            let ticks = u128::from(now - since);
            self.usage.running_ticks += ticks * u128::from(self.running());
            self.usage.kv_token_ticks += ticks * u128::from(self.decode.kv_tokens() + self.partial_kv);
        }
    }

    /// Queues those who gave way again, where that is done once the step is formed.
    #[inline(never)]
    fn requeue_late(&mut self, trace: &Trace) {
        // In the queue, the last victim stands before the one before it.
        for slot in self.late.drain(..) {
            self.waiting.put_back(self.table[slot].request, slot, trace);
        }
    }

    fn open(&self) -> Forming {
        // A lone request starves nobody, so its chunks have no limit.
        let limit = self.scheduler.long_prefill_token_threshold;
        let ranked = self.ranks.as_deref().map_or(0, Ranks::waiting);
        let out = ranked + self.swapped.len() as u64;
        let alone = self.admitted() + self.waiting.len() + out <= 1;
        let lone = alone && !self.scheduler.threshold_when_alone;
        Forming {
            left: self.scheduler.max_num_batched_tokens,
            chunk_limit: if limit == 0 || lone { u64::MAX } else { limit },
            preempted: false,
            displaced: 0,
            decoded: false,
            charged: true,
            new_batch: false,
            count_decodes: true,
            wake: None,
        }
    }

    /// Returns whether the decode set runs in this step.
    fn run_stages(&mut self, forming: &mut Forming, now: Ticks, world: &mut World) -> bool {
        let max_num_seqs = self.scheduler.max_num_seqs;
        for i in 0..self.scheduler.stages.len() {
            let exclusive = self.scheduler.exclusive_prefill && self.runs_prefills();
            match self.scheduler.stages[i] {
                Stage::Running => {
                    let walk = Walk { prefills: true, over_prefills: true, charged: true, limit: u64::MAX };
                    self.go_on(walk, forming, now, world);
                }
                Stage::Decodes { .. } if exclusive => {
                    self.decode.pause(now);
                    return false;
                }
                Stage::Decodes { charged, seated, over_prefills } => {
                    let prefills = self.chunks.len() + self.layers.batch.len();
                    let seats = if seated { prefills as u64 } else { 0 };
                    let limit = max_num_seqs.saturating_sub(seats);
                    let walk = Walk { prefills: false, over_prefills, charged, limit };
                    self.go_on(walk, forming, now, world);
                }
                Stage::Prefills => self.continue_prefills(forming),
                Stage::SwapIn { unless_preempted } => {
                    if !(self.swapped.is_empty() || unless_preempted && forming.preempted) {
                        self.swap_in(forming, now, world);
                    }
                }
                Stage::Admit { chunked, unless_preempted, unless_swapped, count_decodes, gather } => {
                    forming.count_decodes = count_decodes;
                    if (unless_preempted && forming.preempted)
                        || (unless_swapped && !self.swapped.is_empty())
                        || gather.is_some_and(|gather| !self.has_gathered(gather, forming, now, world))
                    {
                        continue;
                    }
                    if self.ranks.is_some() {
                        self.admit_by_rank(chunked, forming, now, world);
                    } else {
                        self.admit_waiting(chunked, forming, now, world);
                    }
                }
                Stage::Layered { .. } => self.advance_layers(i, forming, now, world),
            }
        }
        true
    }

    /// Times the step that was formed and decides how often it repeats.
    fn start(
        &mut self,
        now: Ticks,
        decodes: bool,
        forming: &Forming,
        world: &World,
    ) -> Result<Flight, Error> {
        let shape = self.shape(decodes);
        // A batch computes its tokens once, however many groups it goes through.
        if self.layers.is_last() {
            self.usage.prefill_tokens += shape.prefill_tokens;
        }
        // The members of the set are counted when the run ends.
        let members = if decodes { self.decode.len() } else { 0 };
        self.usage.decode_tokens += shape.decode_requests - members;
        let (series, steps) = if world.leap && !self.runs_chunks() {
            let most = self.repeats(forming, world);
            let run = self.cost.run(&shape, most);
            (Series { first: run.first, slope: run.slope }, run.steps)
        } else {
            (Series { first: self.cost.step(&shape), slope: 0 }, 1)
        };
        if self.log.is_some() {
            self.begin_record(now, decodes);
        }
        let beyond = self.cost.beyond(&shape);
        let copying = if self.copied == (0, 0) { 0 } else { self.copying(series.first) };
        self.copied = (0, 0);
        self.shape = shape;
        let mut flight = Flight { start: now, copying, series, steps, begun: true, beyond, decodes };
        if self.ranks.is_some() && flight.steps > 1 {
            flight.steps = flight.steps.min(self.steps_in_rank(&flight));
        }
        let ends = u128::from(now) + u128::from(copying) + series.total(flight.steps);
        if ends > u128::from(HORIZON) {
            return self.end_in_time(flight);
        }
        Ok(flight)
    }

    /// Those of a flight's steps that end while there is time.
    #[cold]
    fn end_in_time(&self, flight: Flight) -> Result<Flight, Error> {
        let steps = flight.steps_ended(HORIZON);
        if steps == 0 {
            let seconds = flight.start / TICKS_PER_SECOND;
            return Err(Error::ClockOverflow { seconds, instance: self.index as usize });
        }
        Ok(Flight { steps, ..flight })
    }

    /// What copies to and from the CPU's memory add to a step that takes `step`.
    #[inline(never)]
    fn copying(&self, step: Ticks) -> Ticks {
        let (outward, inward) = self.copied;
        match self.scheduler.preemption {
            Preemption::Swap { out, back, overlapped, .. } if (outward, inward) != (0, 0) => {
                let copies = outward.saturating_mul(out).saturating_add(inward.saturating_mul(back));
                if overlapped { copies.saturating_sub(step) } else { copies }
            }
            _ => 0,
        }
    }

    /// For how many steps the pure decode step just formed repeats if nobody
    /// arrives: until a completion, a shortage of blocks, or something that the
    /// preemption in this step put off. Whoever else could not come in stays
    /// out until then, as free blocks only get fewer.
    fn repeats(&mut self, forming: &Forming, world: &World) -> u64 {
        // Whoever has just come in with a rank that is another since is spared
        // in this step only.
        let joined_late = !self.decode.newcomers().is_empty();
        let spared = self.minds_admission && joined_late;
        let rules = &self.scheduler;
        let seats = rules.max_num_seqs.min(rules.max_num_batched_tokens);
        if joined_late && self.decode.len() > seats {
            return 1;
        }
        if !self.partials.is_empty()
            || self.waiting.is_sorted_anew()
            || ((forming.preempted || spared) && self.may_come_in(forming, world))
        {
            return 1;
        }
        let mut most = self.decode.steps_to_completion();
        if self.asks_answering {
            most = most.min(self.decode.steps_to_turn());
        }
        let spare = u64::from(self.scheduler.spare_block);
        match self.memory.free().checked_sub(spare) {
            Some(free) => self.decode.steps_covered(free + self.decode.blocks_for_next(), most),
            None => 1,
        }
    }

    /// Whether a stage that was left out for the preemption in this step could
    /// bring somebody in at the next.
    #[inline(never)]
    fn may_come_in(&mut self, forming: &Forming, world: &World) -> bool {
        if self.seats_taken(forming) >= self.scheduler.max_num_seqs && self.ranks.is_none() {
            return false;
        }
        // Looked at more closely only where it is common: without a prefix
        // cache, for the one at the front of the queue.
        if !self.swapped.is_empty() || self.memory.caches() {
            return true;
        }
        if self.ranks.is_some() {
            return self.front_may_come_in(forming);
        }
        self.waiting.front().is_some_and(|waiter| {
            let tokens = self.waiter_tokens(waiter, world);
            if !self.scheduler.cuts_prompts() && u64::from(tokens) > self.scheduler.max_num_batched_tokens {
                return true;
            }
            let chunk = u64::from(tokens).min(forming.chunk_limit).min(forming.left) as u32;
            self.admission_needs(tokens, 0, chunk, 0) <= self.memory.free()
        })
    }

    /// What the step just formed computes.
    pub(super) fn shape(&self, decodes: bool) -> StepShape {
        let decodes = if decodes { self.decode.len() } else { 0 };
        let (share, layers) = self.layers.share();
        let mut shape = StepShape {
            decode_requests: decodes,
            decode_kv: if decodes > 0 { self.decode.kv_tokens() + decodes } else { 0 },
            decode_max_kv: if decodes > 0 { self.decode.longest() + 1 } else { 0 },
            sampled: decodes,
            prefill_layers: share,
            layers,
            ..StepShape::default()
        };
        let chunks = self.chunks.iter().map(|chunk| (chunk, true));
        let batch = self.layers.batch.iter().map(|chunk| (chunk, self.layers.is_last()));
        for (&Chunk { slot, tokens, .. }, is_last) in chunks.chain(batch) {
            let active = &self.table[slot];
            let (before, tokens) = (u64::from(active.computed), u64::from(tokens));
            let after = before + tokens;
            shape.sampled += u64::from(is_last && after == u64::from(active.target()));
            if active.phase == Phase::Stalled {
                shape.decode_requests += 1;
                shape.decode_kv += after;
                shape.decode_max_kv = shape.decode_max_kv.max(after);
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
