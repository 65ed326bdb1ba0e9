//! The fields of an instance that a policy reads.
//!
//! Fields that depend on steps are as of the last finished step. A run in progress is
//! booked up to there only if the field may have changed in it; fields that grow by one
//! for each step and member of the decode set are computed from its length.

use super::{Reader, RequestView, seconds, seconds_at_least, whole};
use crate::instance::queues::Queued;
use crate::instance::ranking::{BestQueued, Ranking};
use crate::instance::request::{Phase, Slot};
use crate::instance::{Instance, Recorder};
use crate::kv::ContentOwner;
use crate::policy::{Expr, InstField, InstanceRef, Linear, Number, ReqField, Scope, Validity, holds_now};
use crate::time::Ticks;
use crate::trace::Trace;

/// A request for which a rule is evaluated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking<'a> {
    /// The view of the request.
    pub(crate) view: &'a RequestView,
    /// The instance and the slot that the request has, if any.
    pub(crate) place: Option<(usize, Slot)>,
}

impl Instance {
    /// Reads the requests.
    pub(in crate::instance) fn reader(&self) -> Reader<'_> {
        let Self { settings, requests, batch, run, observers, .. } = self;
        Reader { settings, requests, batch, run, observers }
    }

    /// The view of a request, its blocks and reader included where they are read.
    pub(crate) fn view(&self, slot: Slot, now: Ticks) -> RequestView {
        self.reader().view(slot, self.ranking.as_deref(), now)
    }

    /// Whether a field of what is kept by request may change once the steps are booked
    /// that have ended.
    fn is_behind(&self, field: InstField, now: Ticks) -> bool {
        let next_rank = || self.ranking.as_deref().map_or(u64::MAX, Ranking::next_step);
        let next_milestone = self.batch.decode_set().next_milestone();
        let next = match field {
            InstField::ClassRequests => self.ranking.as_deref().map_or(u64::MAX, Ranking::next_class),
            InstField::AnsweringOnPace if self.reader().pace_depends_on_run(now) => return true,
            InstField::AnsweringOnPace | InstField::AnsweringRequests | InstField::ReasoningRequests => {
                next_milestone
            }
            InstField::FreshAnsweringRequests | InstField::WaitingBlocks | InstField::HeadBlocks => {
                next_rank().min(next_milestone)
            }
            InstField::MeanTokenIntervalS | InstField::ContextBlocks => 0,
            _ => return false,
        };
        self.run.has_passed(next, self.batch.decode_set().step(), now)
    }

    /// Blocks that no request holds at `now`.
    fn free_blocks(&self, now: Ticks) -> u64 {
        let set = self.batch.decode_set();
        let taken = self.run.current().filter(|run| run.decodes).map_or(0, |run| {
            let ended = self.run.ended(now);
            let in_step = run.after(ended) < now;
            let held = if run.begun { set.blocks_for_next() } else { 0 };
            set.blocks_for(ended + u64::from(in_step)).saturating_sub(held)
        });
        self.kv.free() - taken.min(self.kv.free())
    }

    /// A field as of when the run in progress began, if it grows by one for each step
    /// and member of the decode set.
    fn at_start(&self, field: InstField) -> Option<u64> {
        match field {
            InstField::KvTokens => Some(self.gpu_kv_tokens() + self.kv.cpu_tokens()),
            InstField::GpuKvTokens => Some(self.gpu_kv_tokens()),
            InstField::OutstandingTokens => Some(self.observers.load.outstanding_tokens()),
            _ => None,
        }
    }

    /// Tokens of KV in the memory of the GPU, as of when the run in progress began.
    pub(super) fn gpu_kv_tokens(&self) -> u64 {
        self.batch.finished_kv_tokens() + self.transfers.kv_tokens()
    }

    /// Unfinished requests that were sent here.
    fn unfinished(&self) -> u64 {
        self.batch.running() + self.queued() + self.transfers.receiving() - self.transfers.expected()
    }

    /// Prompt tokens and output tokens so far, over the unfinished requests that were
    /// sent here, as of the last step that ended by `now`.
    pub(crate) fn outstanding_tokens(&self, now: Ticks) -> u64 {
        self.observers.load.outstanding_tokens() + self.reader().growth_of(InstField::OutstandingTokens, now)
    }

    /// A lower bound of [`Self::outstanding_tokens`] until the step or run in progress
    /// ends.
    pub(crate) fn outstanding_tokens_at_least(&self) -> u64 {
        self.observers.load.outstanding_tokens()
    }

    /// Whether a field only grows within a run, or has a bound that takes less time than the field.
    pub(crate) fn has_bound(field: InstField) -> bool {
        use InstField::{GpuKvTokens, KvTokens, OutstandingTokens, PrefillDelayS};
        matches!(field, KvTokens | GpuKvTokens | OutstandingTokens | PrefillDelayS)
    }

    /// A lower bound of a field now, if the field has one.
    pub(crate) fn at_least(&self, field: InstField) -> Option<f64> {
        match field {
            // The end of a step that is not booked yet may have shortened it.
            InstField::PrefillDelayS if self.run.planned().is_some() => None,
            InstField::PrefillDelayS => Some(seconds_at_least(self.observers.load.prefill_delay())),
            _ => self.at_start(field).map(whole),
        }
    }

    /// A field that never changes.
    pub(crate) fn constant(&self, field: InstField) -> Option<f64> {
        match field {
            InstField::TotalBlocks => Some(whole(self.settings.blocks)),
            InstField::BlockTokens => Some(f64::from(self.settings.block.tokens())),
            InstField::Index => Some(f64::from(self.settings.index)),
            _ => None,
        }
    }

    /// How many requests are in a class, if that is read without booking anything.
    pub(crate) fn in_class_at_once(&self, class: u32, now: Ticks) -> Option<f64> {
        let ranking = self.ranking.as_deref()?;
        let taken = self.batch.decode_set().step();
        let changes = self.run.is_past_head(now) || self.run.passes(ranking.next_class(), taken);
        (!changes).then(|| whole(ranking.in_class(class)))
    }

    /// A field that is read without booking anything and in few instructions. Rules often
    /// read one of all instances.
    pub(crate) fn field_at_once(&self, field: InstField, class: u32, now: Ticks) -> Option<f64> {
        match field {
            InstField::ClassRequests => self.in_class_at_once(class, now),
            // Changes as requests join, and as steps with prefills end.
            InstField::PrefillDelayS if !self.run.is_past_head(now) => {
                Some(seconds(self.observers.load.prefill_delay()))
            }
            InstField::AnsweringOnPace | InstField::FreeBlocks => None,
            _ => self.constant(field),
        }
    }

    /// A field as of the last finished step, for a request that is asked about.
    #[inline(never)]
    pub(crate) fn field(
        &mut self,
        (field, class): (InstField, u32),
        now: Ticks,
        asking: &Asking,
        trace: &Trace,
        recorder: &mut Recorder,
    ) -> f64 {
        if let Some(first) = self.at_start(field) {
            return whole(first + self.reader().growth_of(field, now));
        }
        self.apply_head(now, trace, recorder);
        match field {
            InstField::FreeBlocks => return whole(self.free_blocks(now)),
            InstField::AnsweringOnPace if self.reader().all_stay_on_pace(now) => return 1.0,
            _ => {}
        }
        // A block that a run takes may evict cached content.
        let evicts = field == InstField::PrefixTokens && self.kv.gpu().caches();
        if evicts || self.is_behind(field, now) {
            self.apply_until(now, trace, recorder);
        }
        match field {
            InstField::ClassRequests => whole(self.in_class(class)),
            InstField::AnsweringOnPace => f64::from(u8::from(self.is_on_pace(now))),
            _ => self.booked_field((field, class), now, Some(asking), trace),
        }
    }

    /// Whether a condition holds that reads the fields of this instance alone.
    pub(crate) fn meets(
        &mut self,
        condition: &Expr,
        now: Ticks,
        trace: &Trace,
        recorder: &mut Recorder,
    ) -> bool {
        self.apply_head(now, trace, recorder);
        holds_now(condition, &mut OfInstance { instance: self, now, trace })
    }

    fn in_class(&self, class: u32) -> u64 {
        self.ranking.as_ref().map_or(0, |ranking| ranking.in_class(class))
    }

    /// A field once the finished steps of the run are booked, where it depends on them.
    #[inline(never)]
    fn booked_field(
        &mut self,
        (field, class): (InstField, u32),
        now: Ticks,
        asking: Option<&Asking>,
        trace: &Trace,
    ) -> f64 {
        match field {
            InstField::KvTokens | InstField::GpuKvTokens | InstField::OutstandingTokens => {
                whole(self.at_start(field).unwrap_or(0) + self.reader().growth_of(field, now))
            }
            InstField::CpuKvTokens => whole(self.kv.cpu_tokens()),
            InstField::FreeBlocks => whole(self.free_blocks(now)),
            InstField::FreeCpuBlocks => whole(self.kv.cpu().free()),
            InstField::KvUsage => {
                whole(self.settings.blocks - self.free_blocks(now)) / whole(self.settings.blocks)
            }
            InstField::Fits => asking.map_or(0.0, |asking| f64::from(u8::from(self.fits(asking, now)))),
            InstField::Running => whole(self.batch.running()),
            InstField::Waiting => whole(self.unfinished() - self.batch.running() - self.queues.swapped_out()),
            InstField::Swapped => whole(self.queues.swapped_out()),
            InstField::Requests => whole(self.unfinished()),
            InstField::PrefillingRequests => whole(self.observers.load.prefilling()),
            InstField::DecodingRequests => whole(self.observers.load.decoding()),
            InstField::ReasoningRequests => whole(self.unfinished() - self.observers.load.answering()),
            InstField::AnsweringRequests => whole(self.observers.load.answering()),
            InstField::FreshAnsweringRequests => {
                // Without quanta, no request ever uses one up. A request that is handed over is ranked once its KV
                // has been received, and has used up none before.
                let first = self.ranking.as_deref().and_then(Ranking::in_first_quantum);
                let first = first.map(|first| first + self.transfers.answering());
                whole(first.unwrap_or(self.observers.load.answering()))
            }
            InstField::ClassRequests => whole(self.in_class(class)),
            InstField::AnsweringOnPace => f64::from(u8::from(self.is_on_pace(now))),
            InstField::RunningTokens => whole(self.reader().running_tokens(now)),
            InstField::ContextBlocks => whole(self.reader().context_blocks()),
            InstField::MeanTokenIntervalS => self.observers.load.mean_interval_s(),
            InstField::PrefillDelayS => seconds(self.observers.load.prefill_delay()),
            InstField::PrefillS => {
                asking.map_or(0.0, |asking| seconds(self.settings.predicted_prefill(asking.view.prompt)))
            }
            InstField::WaitingBlocks => whole(self.waiting_blocks(now, trace)),
            InstField::HeadBlocks => whole(self.head_blocks(now, trace)),
            InstField::IncomingRequests => whole(self.transfers.offered() + self.transfers.receiving()),
            InstField::IncomingTokens => whole(self.transfers.incoming_tokens()),
            InstField::IncomingBlocks => whole(self.transfers.incoming_blocks()),
            InstField::Role => {
                debug_assert!(false, "Invariant: an instance does not know its role");
                0.0
            }
            InstField::PrefixTokens => {
                asking.map_or(0.0, |asking| whole(self.cached_tokens(asking.view, trace)))
            }
            InstField::TotalBlocks | InstField::BlockTokens | InstField::Index => {
                self.constant(field).unwrap_or(0.0)
            }
            // The routers keep these; conditions of a scheduler do not read them.
            InstField::RoutedRequests
            | InstField::RoutedTokens
            | InstField::RoutedSinceReport
            | InstField::RoutedEver
            | InstField::IndexBlocks
            | InstField::IndexTokens
            | InstField::ActiveBlocks
            | InstField::ActiveNewBlocks
            | InstField::ActivePrefillTokens => 0.0,
        }
    }

    /// The row and the output tokens of each request on it. The finished steps are booked.
    pub(crate) fn output_tokens(&self) -> impl Iterator<Item = (u32, u32)> {
        self.requests.iter().map(|state| {
            let generated = match state.phase {
                Phase::Decoding => self.batch.decode_set().computed(state) + 1 - state.prompt,
                _ => state.generated,
            };
            (state.request, generated)
        })
    }

    /// Whether every reader has tokens left.
    fn is_on_pace(&mut self, now: Ticks) -> bool {
        match self.reader().latest_step(now) {
            Some((step, ended)) => self.observers.readers.all_on_pace(now, step, ended),
            None => self.observers.readers.out_of_tokens(now).is_none(),
        }
    }

    /// Prompt tokens of a request that the prefix cache holds.
    fn cached_tokens(&self, view: &RequestView, trace: &Trace) -> u64 {
        let owner = ContentOwner { request: trace.origin(view.row), prompt: view.prompt };
        u64::from(self.kv.gpu().matched(owner, view.prompt)) * u64::from(self.settings.block.tokens())
    }

    /// Whether the blocks are free that a request needs for its next step, beside those
    /// that it holds here.
    fn fits(&self, asking: &Asking, now: Ticks) -> bool {
        let lacking = self.lacking_blocks(asking);
        lacking == 0 || lacking <= self.free_blocks(now)
    }

    /// Blocks that a request needs for its next step, beside those that it holds here.
    pub(crate) fn lacking_blocks(&self, asking: &Asking) -> u64 {
        let view = asking.view;
        let held = match asking.place {
            Some((index, slot)) if index == self.settings.index as usize => {
                let state = &self.requests[slot];
                if state.phase == Phase::Decoding { view.blocks } else { state.blocks.count() }
            }
            _ => 0,
        };
        let needed = if asking.place.is_some() { view.computed + 1 } else { view.prompt };
        self.settings.blocks_for(needed).saturating_sub(held)
    }

    /// Blocks that the admissions of all queued requests need.
    fn waiting_blocks(&self, now: Ticks, trace: &Trace) -> u64 {
        let of = |slot: Slot| self.view(slot, now).blocks;
        let (_, offered) = self.transfers.wanted_blocks();
        offered
            + if let Some(ranking) = &self.ranking {
                let queued = ranking.slots().into_iter();
                let slotted = queued.filter(|&slot| !self.requests[slot].phase.is_admitted()).map(of);
                let prompts = ranking.rows_without_slot().map(|row| trace.prompt_tokens[row as usize]);
                slotted.sum::<u64>()
                    + prompts.map(|prompt| self.reader().admission_blocks(prompt)).sum::<u64>()
            } else {
                let waiting = self.queues.waiting().iter().chain(self.queues.ahead().iter());
                let waiting: u64 = waiting.map(|queued| self.queued_blocks(queued, now, trace)).sum();
                waiting + self.queues.swapped().iter().map(|&slot| of(slot)).sum::<u64>()
            }
    }

    /// Blocks that the admission of the first queued request needs.
    fn head_blocks(&self, now: Ticks, trace: &Trace) -> u64 {
        if let Some(ranking) = &self.ranking {
            return match ranking.best_queued() {
                None => 0,
                Some(BestQueued::Arrival(row)) => {
                    self.reader().admission_blocks(trace.prompt_tokens[row as usize])
                }
                Some(BestQueued::Slot(slot)) => self.view(slot, now).blocks,
            };
        }
        if let Some(&slot) = self.queues.swapped().first() {
            return self.view(slot, now).blocks;
        }
        if self.transfers.offered() > 0 {
            return self.transfers.wanted_blocks().0;
        }
        let head = self.queues.waiting().front().or_else(|| self.queues.ahead().iter().next());
        head.map_or(0, |queued| self.queued_blocks(queued, now, trace))
    }

    /// Blocks that the admission of a request in the waiting queue needs.
    fn queued_blocks(&self, queued: Queued, now: Ticks, trace: &Trace) -> u64 {
        match queued.slot {
            Some(slot) => self.view(slot, now).blocks,
            None => self.reader().admission_blocks(trace.prompt_tokens[queued.request as usize]),
        }
    }
}

/// The scope of an expression that reads the fields of one instance between two steps,
/// and of no request.
pub(in crate::instance) struct OfInstance<'a> {
    pub(in crate::instance) instance: &'a mut Instance,
    pub(in crate::instance) now: Ticks,
    pub(in crate::instance) trace: &'a Trace,
}

impl Scope for OfInstance<'_> {
    fn request(&mut self, _: ReqField, _: &mut Validity) -> Linear {
        debug_assert!(false, "Invariant: no request is asked about");
        Linear::fixed(0.0)
    }

    fn instance(&mut self, _: InstanceRef, field: InstField, class: u32) -> f64 {
        self.instance.booked_field((field, class), self.now, None, self.trace)
    }
}
