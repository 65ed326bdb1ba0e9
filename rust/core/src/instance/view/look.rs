//! An instance as it is at a moment, its steps applied up to there.

use std::ops::Deref;

use super::{Asking, seconds, whole};
use crate::instance::Instance;
use crate::instance::queues::Queued;
use crate::instance::ranking::{BestQueued, Ranking};
use crate::instance::request::Slot;
use crate::kv::Tier;
use crate::policy::InstField;
use crate::time::Ticks;
use crate::trace::Trace;

/// An instance at a moment, with the trace of its requests.
#[derive(Debug, Clone, Copy)]
pub(in crate::instance) struct Look<'a> {
    pub(in crate::instance) on: &'a Instance,
    pub(in crate::instance) now: Ticks,
    pub(in crate::instance) trace: &'a Trace,
}

impl Deref for Look<'_> {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        self.on
    }
}

impl Look<'_> {
    /// A field once the finished steps of the run are applied, where it depends on them.
    #[inline(never)]
    pub(in crate::instance) fn field(
        &mut self,
        (field, class): (InstField, u32),
        asking: Option<&Asking>,
    ) -> f64 {
        match field {
            InstField::KvTokens | InstField::GpuKvTokens | InstField::OutstandingTokens => {
                whole(self.at_start(field).unwrap_or(0) + self.reader().growth(self.now))
            }
            InstField::CpuKvTokens => whole(self.kv.cpu_tokens()),
            InstField::FreeBlocks => whole(self.free_blocks(self.now)),
            InstField::FreeCpuBlocks => whole(self.kv.cpu().free()),
            InstField::KvUsage => {
                whole(self.settings.blocks - self.free_blocks(self.now)) / whole(self.settings.blocks)
            }
            InstField::Fits => asking.map_or(0.0, |asking| f64::from(u8::from(self.fits(asking)))),
            InstField::Running => whole(self.batch.running()),
            InstField::Waiting => whole(self.queued_here()),
            InstField::Swapped => whole(self.queues.swapped_out()),
            InstField::Requests => whole(self.unfinished()),
            InstField::Arrived => whole(self.observers.flow.arrived()),
            InstField::ArrivedTokens => whole(self.observers.flow.arrived_tokens()),
            InstField::Finished => whole(self.observers.stats.requests.finished),
            InstField::FinishedTokens => whole(self.observers.flow.finished_tokens()),
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
            InstField::RunningTokens => whole(self.reader().running_tokens(self.now)),
            InstField::ContextBlocks => whole(self.reader().context_blocks()),
            InstField::MeanTokenIntervalS => self.observers.load.mean_interval_s(),
            InstField::PrefillDelayS => seconds(self.observers.load.prefill_delay()),
            InstField::PrefillS => {
                asking.map_or(0.0, |asking| seconds(self.settings.predicted_prefill(asking.view.prompt)))
            }
            InstField::WaitingBlocks => whole(self.waiting_blocks()),
            InstField::HeadBlocks => whole(self.head_blocks()),
            InstField::IncomingRequests => whole(self.transfers.offered() + self.transfers.receiving()),
            InstField::IncomingTokens => {
                whole(self.transfers.wanted().0 + self.kv.account().held(Tier::Arriving).tokens)
            }
            InstField::IncomingBlocks => {
                whole(self.transfers.wanted().1 + self.kv.account().held(Tier::Arriving).blocks)
            }
            InstField::Role => {
                debug_assert!(false, "Invariant: an instance does not know its role");
                0.0
            }
            InstField::PrefixTokens => {
                asking.map_or(0.0, |asking| whole(self.reader().cached_tokens(asking.view, self.trace)))
            }
            InstField::TotalBlocks | InstField::BlockTokens | InstField::Index => {
                self.constant(field).unwrap_or(0.0)
            }
            // The readers keep this one, and the routers the others; conditions of a scheduler do not read these.
            InstField::AnsweringOnPace
            | InstField::RoutedRequests
            | InstField::RoutedTokens
            | InstField::RoutedSinceReport
            | InstField::RoutedEver
            | InstField::Gauge
            | InstField::IndexBlocks
            | InstField::IndexTokens
            | InstField::ActiveBlocks
            | InstField::ActiveNewBlocks
            | InstField::ActivePrefillTokens => 0.0,
        }
    }

    /// Whether the blocks are free that a request needs for its next step, beside those
    /// that it holds here.
    fn fits(&self, asking: &Asking) -> bool {
        let lacking = self.lacking_blocks(asking);
        lacking == 0 || lacking <= self.free_blocks(self.now)
    }

    /// Blocks that the admissions of all queued requests need.
    fn waiting_blocks(&self) -> u64 {
        let of = |slot: Slot| self.view(slot, self.now).takes.blocks;
        let (_, offered) = self.transfers.wanted_blocks();
        offered
            + if let Some(ranking) = &self.ranking {
                let queued = ranking.slots().into_iter();
                let slotted = queued.filter(|&slot| !self.requests[slot].phase.is_admitted()).map(of);
                let prompts =
                    ranking.without_slots().map(|request| self.trace.prompt_tokens[request.index()]);
                slotted.sum::<u64>()
                    + prompts.map(|prompt| self.reader().admission_blocks(prompt)).sum::<u64>()
            } else {
                let waiting = self.queues.waiting().iter().chain(self.queues.ahead().iter());
                let waiting: u64 = waiting.map(|queued| self.queued_blocks(queued)).sum();
                waiting + self.queues.swapped().iter().map(|&slot| of(slot)).sum::<u64>()
            }
    }

    /// Blocks that the admission of the first queued request needs.
    fn head_blocks(&self) -> u64 {
        if let Some(ranking) = &self.ranking {
            return match ranking.best_queued() {
                None => 0,
                Some(BestQueued::Arrival(request)) => {
                    self.reader().admission_blocks(self.trace.prompt_tokens[request.index()])
                }
                Some(BestQueued::Slot(slot)) => self.view(slot, self.now).takes.blocks,
            };
        }
        if let Some(&slot) = self.queues.swapped().first() {
            return self.view(slot, self.now).takes.blocks;
        }
        if self.transfers.offered() > 0 {
            return self.transfers.wanted_blocks().0;
        }
        let head = self.queues.waiting().front().or_else(|| self.queues.ahead().iter().next());
        head.map_or(0, |queued| self.queued_blocks(queued))
    }

    /// Blocks that the admission of a request in the waiting queue needs.
    fn queued_blocks(&self, queued: Queued) -> u64 {
        match queued.slot {
            Some(slot) => self.view(slot, self.now).takes.blocks,
            None => self.reader().admission_blocks(self.trace.prompt_tokens[queued.request.index()]),
        }
    }
}
