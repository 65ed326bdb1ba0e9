//! What a policy sees of an instance: as of its last finished step.

use std::collections::VecDeque;

use super::Instance;
use super::active::{Phase, Slot};
use super::ranks::Ranks;
use super::view::{RequestView, seconds};
use crate::cost::StepShape;
use crate::kv::ContentOwner;
use crate::policy::{InstField, Linear, Number, ReqField, Scope, Validity, Who};
use crate::series::Series;
use crate::time::Ticks;
use crate::trace::Trace;

/// A request as seen by a router: what is known of it, and where it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking {
    pub(crate) view: RequestView,
    /// The instance and the slot that it has, if any.
    pub(crate) place: Option<(usize, Slot)>,
}

/// Steps that decoded, for the mean of the latest of them.
#[derive(Debug, Default)]
pub(super) struct Intervals {
    /// (gaps, how many) of runs, oldest first.
    runs: VecDeque<(Series, u64)>,
    steps: u64,
    /// When the latest of them ended, unless the instance stood idle since.
    last_end: Option<Ticks>,
}

/// Steps whose mean is taken.
const LATEST: u64 = 64;

impl Intervals {
    /// The instance stood idle: nobody waited for a token.
    pub(super) fn rest(&mut self) {
        self.last_end = None;
    }

    /// Books `steps` steps of a flight that decoded. The gap before the first
    /// is from the step before it that did.
    pub(super) fn add(&mut self, start: Ticks, series: Series, steps: u64) {
        let first = start + series.first - self.last_end.unwrap_or(start);
        self.runs.push_back((Series { first, slope: 0 }, 1));
        if steps > 1 {
            let rest = Series { first: series.at(1), slope: series.slope };
            self.runs.push_back((rest, steps - 1));
        }
        self.steps += steps;
        self.last_end = Some(start + series.total(steps) as Ticks);
        while let Some(&(_, oldest)) = self.runs.front()
            && self.steps - oldest >= LATEST
        {
            self.steps -= oldest;
            self.runs.pop_front();
        }
    }

    /// The mean time between the ends of the latest steps, in seconds.
    pub(super) fn mean_s(&self) -> f64 {
        let counted = self.steps.min(LATEST);
        if counted == 0 {
            return 0.0;
        }
        let mut skip = self.steps - counted;
        let mut ticks = 0;
        for &(series, steps) in &self.runs {
            let skipped = skip.min(steps);
            skip -= skipped;
            ticks += series.total(steps) - series.total(skipped);
        }
        seconds(ticks as Ticks) / counted as f64
    }
}

impl Instance {
    /// What a lone prompt of so many tokens would take.
    pub(crate) fn predicted_prefill(&self, prompt: u32) -> Ticks {
        let budget = self.scheduler.max_num_batched_tokens;
        let prompt = u64::from(prompt);
        let (mut before, mut ticks) = (0, 0);
        while before < prompt {
            let tokens = (prompt - before).min(budget);
            let after = before + tokens;
            let shape = StepShape {
                prefill_requests: 1,
                prefill_tokens: tokens,
                prefill_kv: after,
                prefill_pairs: tokens * before + tokens * (tokens + 1) / 2,
                sampled: u64::from(after == prompt),
                ..StepShape::default()
            };
            ticks += self.cost.step(&shape);
            before = after;
        }
        ticks
    }

    /// Steps of the run in progress that have ended by `now`.
    pub(super) fn ended(&self, now: Ticks) -> u64 {
        match &self.flight {
            Some(flight) if flight.decodes && flight.steps > 1 => {
                // Rules look at an instance several times at one moment.
                let (looked, start, steps, ended) = self.looked_at.get();
                if (looked, start, steps) == (now, flight.start, flight.steps) {
                    return ended;
                }
                let ended = flight.steps_ended(now);
                self.looked_at.set((now, flight.start, flight.steps, ended));
                ended
            }
            _ => 0,
        }
    }

    /// Books those steps of the run in progress that have ended by `now`, if
    /// what is kept by request may have changed in them.
    pub(crate) fn catch_up_with(&mut self, now: Ticks, world: &mut super::World) {
        self.settle_head(now, world);
        if let Some(flight) = self.flight.as_mut().filter(|flight| !flight.begun && flight.start < now) {
            flight.begun = true;
            self.hold_next();
        }
        let ended = self.ended(now);
        let Some(mut flight) = self.flight.take_if(|flight| ended > 0 && ended < flight.steps) else {
            return;
        };
        let later = self.decode.blocks_for(ended + 1) - self.decode.blocks_for_next();
        self.apply(&flight, ended, world);
        flight.start = flight.after(ended);
        flight.copying = 0;
        flight.series.first = flight.series.at(ended);
        flight.steps -= ended;
        self.shape.decode_kv += ended * self.shape.decode_requests;
        if self.shape.decode_max_kv > 0 {
            self.shape.decode_max_kv += ended;
        }
        flight.begun = flight.start < now;
        if flight.begun {
            self.hold_next();
        }
        if let Some(record) = &mut self.record {
            record.start = flight.start;
            record.free_blocks -= later;
            record.go_on(ended);
        }
        self.flight = Some(flight);
    }

    /// Takes the blocks of the decode set's step that has begun.
    pub(super) fn hold_next(&mut self) {
        let taken = self.memory.allocate_unassigned(self.decode.blocks_for_next());
        taken.expect("Invariant: a run never outgrows the pool");
        self.usage.peak_blocks = self.usage.peak_blocks.max(self.memory.used());
    }

    /// Whether what is kept by request, and a field tells of, may be another
    /// once the steps are booked that have ended.
    #[inline]
    pub(crate) fn is_behind(&mut self, field: InstField, now: Ticks) -> bool {
        let next = match field {
            InstField::ClassRequests => self.ranks.as_deref().map_or(u64::MAX, Ranks::next_class),
            InstField::AnsweringOnPace if self.nobody_runs_out(now) => return false,
            InstField::AnsweringOnPace if self.pace_is_open(now) => return true,
            InstField::AnsweringOnPace | InstField::AnsweringRequests | InstField::ReasoningRequests => {
                self.decode.next_milestone()
            }
            InstField::FreshAnsweringRequests | InstField::WaitingBlocks | InstField::HeadBlocks => {
                let next = self.ranks.as_deref().map_or(u64::MAX, Ranks::next_step);
                next.min(self.decode.next_milestone())
            }
            InstField::MeanTokenIntervalS => 0,
            _ => return false,
        };
        !self.outlasts_run(next) && {
            let ended = self.ended(now);
            ended > 0 && next <= self.decode.step() + ended
        }
    }

    /// Whether the step or run in progress ends before the decode set's `step`:
    /// mostly so, and then nothing that is due then can have changed.
    #[inline]
    fn outlasts_run(&self, step: u64) -> bool {
        self.flight.as_ref().is_none_or(|flight| !flight.decodes || step >= self.decode.step() + flight.steps)
    }

    /// Blocks that nobody holds.
    fn free_blocks(&self, now: Ticks) -> u64 {
        let ended = self.ended(now);
        let taken = self.flight.as_ref().filter(|flight| flight.decodes).map_or(0, |flight| {
            let under_way = flight.after(ended) < now;
            let held = if flight.begun { self.decode.blocks_for_next() } else { 0 };
            self.decode.blocks_for(ended + u64::from(under_way)).saturating_sub(held)
        });
        self.memory.free() - taken.min(self.memory.free())
    }

    /// Tokens of KV on the GPU, of finished steps, when the run began.
    #[inline]
    fn gpu_kv(&self) -> u64 {
        self.decode.kv_tokens() + self.partial_kv - self.under_way - self.layers.tokens()
    }

    /// What a field was when the run in progress began, of those that grow by
    /// one a step and member of the decode set.
    #[inline]
    fn at_first(&self, field: InstField) -> Option<u64> {
        match field {
            InstField::KvTokens => Some(self.gpu_kv() + self.cpu_kv),
            InstField::GpuKvTokens => Some(self.gpu_kv()),
            InstField::OutstandingTokens => Some(self.outstanding_tokens),
            _ => None,
        }
    }

    /// What such a field has grown by since.
    #[inline]
    fn grown_of(&self, field: InstField, now: Ticks) -> u64 {
        let tokens = field != InstField::OutstandingTokens;
        self.grown(now, if tokens { self.under_way } else { self.chunks.len() as u64 })
    }

    /// The least that a field can be that only grows within a run, until the
    /// step or run in progress ends.
    #[inline]
    pub(crate) fn at_least(&self, field: InstField) -> Option<f64> {
        self.at_first(field).map(|first| first as f64)
    }

    /// A field that policies ask of all instances, where that is quickly said.
    #[inline]
    pub(crate) fn try_field(&self, field: InstField, class: u32, now: Ticks) -> Option<f64> {
        if self.sequel.is_some() {
            return None;
        }
        match field {
            InstField::ClassRequests => {
                let ranks = self.ranks.as_ref()?;
                self.outlasts_run(ranks.next_class()).then(|| ranks.in_class(class) as f64)
            }
            InstField::AnsweringOnPace => self.nobody_runs_out(now).then_some(1.0),
            _ => None,
        }
    }

    /// A field, for a request that asks, as of the last finished step.
    #[inline(never)]
    pub(crate) fn field(
        &mut self,
        field: InstField,
        class: u32,
        now: Ticks,
        asking: &Asking,
        world: &mut super::World,
    ) -> f64 {
        if let Some(first) = self.at_first(field) {
            return (first + self.grown_of(field, now)) as f64;
        }
        self.settle_head(now, world);
        // A block that a run takes loses what it held.
        let evicts = field == InstField::PrefixTokens && self.memory.caches();
        if evicts || self.is_behind(field, now) {
            self.catch_up_with(now, world);
        }
        match field {
            InstField::ClassRequests => self.in_class(class) as f64,
            InstField::AnsweringOnPace => f64::from(u8::from(self.is_on_pace(now))),
            _ => self.compute_field(field, class, now, Some(asking), &world.trace),
        }
    }

    #[inline]
    fn in_class(&self, class: u32) -> u64 {
        self.ranks.as_ref().map_or(0, |ranks| ranks.in_class(class))
    }

    /// A field of a run whose finished steps are booked, where it depends on that.
    #[inline(never)]
    fn compute_field(
        &mut self,
        field: InstField,
        class: u32,
        now: Ticks,
        asking: Option<&Asking>,
        trace: &Trace,
    ) -> f64 {
        let whole = |value: u64| value as f64;
        match field {
            InstField::KvTokens | InstField::GpuKvTokens | InstField::OutstandingTokens => {
                whole(self.at_first(field).unwrap_or(0) + self.grown_of(field, now))
            }
            InstField::CpuKvTokens => whole(self.cpu_kv),
            InstField::FreeBlocks => whole(self.free_blocks(now)),
            InstField::TotalBlocks => whole(self.memory.capacity()),
            InstField::BlockTokens => f64::from(self.block_tokens),
            InstField::FreeCpuBlocks => whole(self.swap_space.capacity() - self.swap_space.used()),
            InstField::KvUsage => {
                let capacity = self.memory.capacity();
                whole(capacity - self.free_blocks(now)) / whole(capacity)
            }
            InstField::Fits => asking.map_or(0.0, |asking| f64::from(u8::from(self.fits(asking, now)))),
            InstField::Running => whole(self.running()),
            InstField::Waiting => whole(self.queued() - self.swapped_out()),
            InstField::Swapped => whole(self.swapped_out()),
            InstField::Requests => whole(self.running() + self.queued()),
            InstField::ReasoningRequests => whole(self.running() + self.queued() - self.answering),
            InstField::AnsweringRequests => whole(self.answering),
            InstField::FreshAnsweringRequests => {
                // Without quanta nobody ever uses one up.
                let ranks = self.ranks.as_deref().filter(|ranks| ranks.rules.quantum > 0);
                whole(ranks.map_or(self.answering, Ranks::fresh))
            }
            InstField::ClassRequests => whole(self.in_class(class)),
            InstField::AnsweringOnPace => f64::from(u8::from(self.is_on_pace(now))),
            InstField::RunningTokens => whole(self.running_tokens(now)),
            InstField::MeanTokenIntervalS => self.intervals.as_deref().map_or(0.0, Intervals::mean_s),
            InstField::PrefillDelayS => seconds(self.prefill_delay),
            InstField::PrefillS => {
                asking.map_or(0.0, |asking| seconds(self.predicted_prefill(asking.view.prompt)))
            }
            InstField::WaitingBlocks => whole(self.waiting_blocks(now, trace)),
            InstField::HeadBlocks => whole(self.head_blocks(now, trace)),
            InstField::Role => f64::from(self.role),
            InstField::PrefixTokens => asking.map_or(0.0, |asking| {
                let owner = ContentOwner { request: asking.view.row, prompt: asking.view.prompt };
                let most = (asking.view.prompt - 1) / self.block_tokens;
                whole(u64::from(self.memory.matched(owner, most, &self.prefixes) * self.block_tokens))
            }),
            InstField::Index => f64::from(self.index),
        }
    }

    /// Whether what a request needs for its next step is free, beside what it
    /// holds here.
    fn fits(&self, asking: &Asking, now: Ticks) -> bool {
        let view = &asking.view;
        let held = match asking.place {
            Some((index, slot)) if index == self.index as usize => {
                let active = &self.table[slot];
                if active.phase == Phase::Decoding { view.blocks } else { active.count }
            }
            _ => 0,
        };
        let needed = if asking.place.is_some() { view.computed + 1 } else { view.prompt };
        let lacking = self.blocks(needed).saturating_sub(held);
        lacking == 0 || lacking <= self.free_blocks(now)
    }

    fn is_on_pace(&mut self, now: Ticks) -> bool {
        if self.steps_keep_pace() {
            return self.pacing.as_mut().is_none_or(|pacing| pacing.left_without(now).is_none());
        }
        let ended = self.ended(now);
        let (step, last) = (self.decode.step() + ended, self.last_decoded(ended));
        self.pacing.as_mut().is_none_or(|pacing| pacing.all_on_pace(now, step, last))
    }

    /// When the decode set's latest finished step ended.
    fn last_decoded(&self, ended: u64) -> Ticks {
        match &self.flight {
            Some(flight) if ended > 0 => flight.after(ended),
            _ => self.decoded_at,
        }
    }

    /// Whether a run is in progress none of whose steps is longer than readers
    /// take for a token: then no member of the decode set runs out.
    fn steps_keep_pace(&self) -> bool {
        self.flight.as_ref().is_some_and(|flight| {
            flight.decodes
                && flight.start == self.decoded_at
                && flight.copying == 0
                && flight.series.at(flight.steps.saturating_sub(1)) < self.pace_interval
        })
    }

    /// Whether everybody is on pace whatever has happened in the run in progress:
    /// nobody outside the decode set has run out, nor whoever has had a token
    /// since, as each next one came in time; and who has come to answer since
    /// was given as long for the first.
    fn nobody_runs_out(&self, now: Ticks) -> bool {
        self.steps_keep_pace()
            && self
                .pacing
                .as_deref()
                .is_none_or(|pacing| pacing.is_patient() && pacing.left_without(now).is_none())
    }

    /// Whether the question of pace depends on steps that are not booked yet.
    pub(crate) fn pace_is_open(&mut self, now: Ticks) -> bool {
        let ended = self.ended(now);
        if ended > 0
            && !self.decode.newcomers().is_empty()
            && let Some(slot) = self.pacing.as_mut().and_then(|pacing| pacing.left_without(now))
        {
            // Unless it has got a token since, that is the answer.
            return self.decode.newcomers().iter().any(|newcomer| newcomer.0 == slot);
        }
        if self.steps_keep_pace() {
            return false;
        }
        let interval = self.pace_interval;
        ended > 0 && self.pacing.is_some() && now >= self.last_decoded(ended).saturating_add(interval)
    }

    fn running_tokens(&self, now: Ticks) -> u64 {
        let members = self.decode.len();
        let context = |&slot: &Slot| u64::from(self.table[slot].target());
        let partials: u64 = self.partials.iter().map(context).sum();
        self.decode.kv_tokens() + members * (1 + self.ended(now)) + partials
    }

    fn swapped_out(&self) -> u64 {
        self.swapped.len() as u64 + self.swapped_by_rank
    }

    fn waiting_blocks(&self, now: Ticks, trace: &Trace) -> u64 {
        let of = |slot: Slot| self.view(slot, now).blocks;
        if let Some(ranks) = &self.ranks {
            let queued = ranks.slots().into_iter();
            queued.filter(|&slot| !self.table[slot].is_admitted()).map(of).sum()
        } else {
            let queued = self.waiting.iter().map(|waiter| self.waiter_blocks(waiter, now, trace));
            let aside = self.ahead.waiters().map(|waiter| self.waiter_blocks(waiter, now, trace));
            let swapped = self.swapped.iter().map(|&slot| of(slot));
            queued.sum::<u64>() + aside.sum::<u64>() + swapped.sum::<u64>()
        }
    }

    fn head_blocks(&mut self, now: Ticks, trace: &Trace) -> u64 {
        if let Some(ranks) = &self.ranks {
            return ranks.front().map_or(0, |slot| self.view(slot, now).blocks);
        }
        if let Some(&slot) = self.swapped.first() {
            return self.view(slot, now).blocks;
        }
        let head = self.waiting.front().or_else(|| self.ahead.waiters().next());
        head.map_or(0, |waiter| self.waiter_blocks(waiter, now, trace))
    }

    /// Blocks that somebody in the queue needs to come in.
    fn waiter_blocks(&self, waiter: super::queue::Waiter, now: Ticks, trace: &Trace) -> u64 {
        match waiter.slot {
            Some(slot) => self.view(slot, now).blocks,
            None => self.blocks(self.first_chunk(trace.prompt_tokens[waiter.request as usize])),
        }
    }
}

/// Lends the fields of one instance between two steps, and of no request.
pub(super) struct OfInstance<'a> {
    pub(super) instance: &'a mut Instance,
    pub(super) now: Ticks,
    pub(super) trace: &'a Trace,
}

impl Scope for OfInstance<'_> {
    fn request(&mut self, _: ReqField, _: &mut Validity) -> Linear {
        debug_assert!(false, "Invariant: no request is asked about");
        Linear::fixed(0.0)
    }

    fn instance(&mut self, _: Who, field: InstField, class: u32) -> f64 {
        self.instance.compute_field(field, class, self.now, None, self.trace)
    }

    fn instances(&self) -> usize {
        0
    }

    fn has_role(&self, _: usize, _: &[u32]) -> bool {
        false
    }

    fn consider(&mut self, index: usize) -> usize {
        index
    }
}
