//! The fields of an instance that a policy reads.
//!
//! Fields that depend on steps are as of the last finished step. A run in progress is
//! applied up to there only if the field may have changed in it; fields that grow by one
//! for each step and member of the decode set are computed from its length.

use super::{Reader, RequestView, seconds, seconds_at_least, whole};
use crate::instance::Instance;
use crate::instance::ranking::Ranking;
use crate::instance::request::{Phase, Slot};
use crate::kv::Tier;
use crate::policy::InstField;
use crate::time::Ticks;
use crate::trace::RequestNumber;

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
        let Self { settings, requests, batch, run, observers, kv, .. } = self;
        Reader { settings, requests, batch, run, observers, kv }
    }

    /// The view of a request, its blocks and reader included where they are read.
    pub(crate) fn view(&self, slot: Slot, now: Ticks) -> RequestView {
        self.reader().view(slot, self.ranking.as_deref(), now)
    }

    /// Whether a field of what is kept by request may change once the steps are applied
    /// that have ended.
    pub(in crate::instance) fn is_behind(&self, field: InstField, now: Ticks) -> bool {
        let next_rank = || self.ranking.as_deref().map_or(u64::MAX, Ranking::next_step);
        let next_milestone = self.batch.decode_set().next_milestone();
        let shares = || self.ranking.as_deref().is_some_and(Ranking::shares_keys);
        let next = match field {
            InstField::HeadBlocks if shares() => 0,
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
    pub(in crate::instance) fn free_blocks(&self, now: Ticks) -> u64 {
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
    pub(in crate::instance) fn at_start(&self, field: InstField) -> Option<u64> {
        match field {
            InstField::KvTokens => Some(self.gpu_kv_tokens() + self.kv.cpu_tokens()),
            InstField::GpuKvTokens => Some(self.gpu_kv_tokens()),
            InstField::OutstandingTokens => Some(self.observers.load.outstanding_tokens()),
            _ => None,
        }
    }

    /// Tokens of KV in the memory of the GPU, as of when the run in progress began.
    pub(super) fn gpu_kv_tokens(&self) -> u64 {
        let account = self.kv.account();
        let places = [Tier::Arriving, Tier::Ready, Tier::Loading, Tier::Loaded];
        let held: u64 = places.into_iter().map(|tier| account.held(tier).tokens).sum();
        // What is handed over counts until it has been read; what migrates does not.
        let departing =
            if self.settings.handover.is_some() { account.held(Tier::Departing).tokens } else { 0 };
        self.batch.finished_kv_tokens() + held + departing
    }

    /// Unfinished requests that were sent here.
    pub(in crate::instance) fn unfinished(&self) -> u64 {
        self.batch.running() + self.queued() + self.transfers.receiving() - self.transfers.expected()
    }

    /// Queued requests: those that do not run and are not swapped out.
    pub(in crate::instance) fn queued_here(&self) -> u64 {
        self.unfinished() - self.batch.running() - self.queues.swapped_out()
    }

    /// Prompt tokens and output tokens so far, over the unfinished requests that were
    /// sent here, as of the last step that ended by `now`.
    pub(crate) fn outstanding_tokens(&self, now: Ticks) -> u64 {
        self.observers.load.outstanding_tokens() + self.reader().growth(now)
    }

    /// By how much a field grows in each step that the decode set takes alone while nothing else happens; `None` if it
    /// changes otherwise, or may.
    pub(in crate::instance) fn growth_in_run(&self, field: InstField) -> Option<u64> {
        match field {
            InstField::TotalBlocks
            | InstField::BlockTokens
            | InstField::Index
            | InstField::Running
            | InstField::Waiting
            | InstField::Swapped
            | InstField::Requests
            | InstField::Arrived
            | InstField::ArrivedTokens
            | InstField::Finished
            | InstField::FinishedTokens
            | InstField::PrefillingRequests
            | InstField::DecodingRequests
            | InstField::PrefillDelayS
            | InstField::CpuKvTokens
            | InstField::FreeCpuBlocks => Some(0),
            InstField::RunningTokens | InstField::OutstandingTokens => self.yield_in_run(),
            // KV that was handed over leaves when it has been read.
            InstField::KvTokens | InstField::GpuKvTokens if self.settings.handover.is_none() => {
                self.yield_in_run()
            }
            _ => None,
        }
    }

    /// Tokens of each step of the decode set, if all its steps yield as many.
    fn yield_in_run(&self) -> Option<u64> {
        let set = self.batch.decode_set();
        (set.width() == 1).then(|| set.len())
    }

    /// Whether a field only grows within a run, or has a bound that takes less time than the field.
    pub(crate) fn has_bound(field: InstField) -> bool {
        use InstField::{GpuKvTokens, KvTokens, OutstandingTokens, PrefillDelayS};
        matches!(field, KvTokens | GpuKvTokens | OutstandingTokens | PrefillDelayS)
    }

    /// A lower bound of a field now, if the field has one.
    pub(crate) fn at_least(&self, field: InstField) -> Option<f64> {
        match field {
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

    /// How many requests are in a class, if that is read without applying anything.
    pub(crate) fn in_class_at_once(&self, class: u32, now: Ticks) -> Option<f64> {
        let ranking = self.ranking.as_deref()?;
        let taken = self.batch.decode_set().step();
        let changes = self.run.is_past_head(now) || self.run.passes(ranking.next_class(), taken);
        (!changes).then(|| whole(ranking.in_class(class)))
    }

    /// A field that is read without applying anything and in few instructions. Rules often
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

    pub(in crate::instance) fn in_class(&self, class: u32) -> u64 {
        self.ranking.as_ref().map_or(0, |ranking| ranking.in_class(class))
    }

    /// The row and the output tokens of each request on it. The finished steps are applied.
    pub(crate) fn output_tokens(&self) -> impl Iterator<Item = (RequestNumber, u32)> {
        self.requests.iter().map(|state| {
            let generated = match state.phase {
                Phase::Decoding => self.batch.decode_set().computed(state) + 1 - state.prompt,
                _ => state.generated,
            };
            (state.request, generated)
        })
    }

    /// Blocks that a request needs for its next step, beside those that it holds here.
    pub(crate) fn lacking_blocks(&self, asking: &Asking) -> u64 {
        let view = asking.view;
        let held = match asking.place {
            Some((index, slot)) if index == self.settings.index as usize => {
                let state = &self.requests[slot];
                if state.phase == Phase::Decoding { view.takes.blocks } else { state.blocks.count() }
            }
            _ => 0,
        };
        let needed = if asking.place.is_some() { view.computed + 1 } else { view.prompt };
        self.settings.blocks_for(needed).saturating_sub(held)
    }
}
