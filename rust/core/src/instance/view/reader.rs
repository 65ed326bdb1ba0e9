//! The requests of an instance, as policies read them.

use super::{InClass, OfRequest, RequestView, Stay, Takes};
use crate::instance::batch::Batch;
use crate::instance::observers::Observers;
use crate::instance::ranking::Ranking;
use crate::instance::request::{Phase, RequestTable, Slot};
use crate::instance::run::RunState;
use crate::instance::settings::Settings;
use crate::kv::{ContentOwner, KvStore};
use crate::policy::{Expr, sort_key_now};
use crate::time::Ticks;
use crate::trace::{RequestNumber, Trace};

/// Reads the requests of an instance: their states, those in the decode set as of its latest step, and their readers.
#[derive(Debug, Clone, Copy)]
pub(in crate::instance) struct Reader<'a> {
    pub(in crate::instance) settings: &'a Settings,
    pub(in crate::instance) requests: &'a RequestTable,
    pub(in crate::instance) batch: &'a Batch,
    pub(in crate::instance) run: &'a RunState,
    pub(in crate::instance) observers: &'a Observers,
    pub(in crate::instance) kv: &'a KvStore,
}

impl Reader<'_> {
    /// Prompt tokens of a request that the prefix cache holds.
    pub(in crate::instance) fn cached_tokens(&self, view: &RequestView, trace: &Trace) -> u64 {
        let owner = ContentOwner::of_prompt(trace.origin(view.request), view.prompt);
        u64::from(self.kv.gpu().matched(owner, view.prompt)) * u64::from(self.settings.block.tokens())
    }

    /// The view of a request, its blocks and reader included where they are read.
    pub(in crate::instance) fn view(&self, slot: Slot, ranking: Option<&Ranking>, now: Ticks) -> RequestView {
        let mut view = self.base_view(slot, ranking, now, 0);
        view.takes.blocks = self.seen_blocks(slot, view.computed, now);
        if self.observers.readers.reads_slack() {
            view.deadline = self.deadline(slot);
        }
        view
    }

    /// The view of a request without its blocks and reader; of a member of the decode
    /// set, as it was `behind` of the set's steps ago.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "so that the compiler drops what the caller does not read")]
    pub(in crate::instance) fn base_view(
        &self,
        slot: Slot,
        ranking: Option<&Ranking>,
        now: Ticks,
        behind: u64,
    ) -> RequestView {
        let state = &self.requests[slot];
        let decoding = state.phase == Phase::Decoding;
        let (computed, generated) = if decoding {
            let computed = self.batch.decode_set().computed(state) - behind as u32;
            (computed, computed + 1 - state.prompt)
        } else {
            (state.computed, state.generated)
        };
        let mut view = RequestView {
            request: state.request,
            now,
            prompt: state.prompt,
            output: state.entry.output,
            generated,
            computed,
            decoding,
            running: state.phase.is_admitted(),
            preemptions: state.preemptions,
            takes: Takes { prefill: self.settings.prefill_where_read(state.prompt), ..Takes::default() },
            ..RequestView::default()
        };
        if let Some(ranking) = ranking {
            ranking.describe(slot, self.observers.stats.work.steps, &mut view);
        } else {
            let times = &state.times;
            let since = if view.running { times.admitted_at } else { times.out_since.min(now) };
            view.stay = Stay { since, attained: times.attained, ..Stay::default() };
            view.class.joined = times.came_at;
        }
        view
    }

    /// The view of a request that came to the instance at `came` and has no slot yet.
    pub(in crate::instance) fn arrival(
        &self,
        request: RequestNumber,
        came: Ticks,
        now: Ticks,
        trace: &Trace,
    ) -> RequestView {
        let view = RequestView::arriving(request, came, trace);
        let (blocks, prefill) =
            (self.admission_blocks(view.prompt), self.settings.prefill_where_read(view.prompt));
        RequestView {
            now,
            class: InClass { joined: now, ..view.class },
            takes: Takes { blocks, prefill, ..view.takes },
            ..view
        }
    }

    /// The sort key of an expression over the fields of a request that never change.
    pub(in crate::instance) fn sort_key_of_arrival(
        &self,
        of: &Expr,
        request: RequestNumber,
        now: Ticks,
        trace: &Trace,
    ) -> i64 {
        let view = self.arrival(request, now, now, trace);
        sort_key_now(of, &mut OfRequest { view: &view, trace })
    }

    /// Blocks that a request with `computed` tokens holds if it is admitted; else blocks
    /// that its admission needs.
    pub(in crate::instance) fn seen_blocks(&self, slot: Slot, computed: u32, now: Ticks) -> u64 {
        let state = &self.requests[slot];
        match state.phase {
            // In the middle of a step a member holds the block of its next token, as does
            // one that was admitted to the set while the step is formed.
            Phase::Decoding => {
                let late = || self.batch.decode_set().late_joiners().iter().any(|joiner| joiner.0 == slot);
                let in_step = self.run.is_in_step(now) || (self.run.is_idle() && late());
                self.batch.decode_set().seen_blocks(state, computed, in_step)
            }
            Phase::Swapped { .. } | Phase::MigratedIn => {
                self.settings.blocks_for(computed + 1).max(state.blocks.count())
            }
            Phase::Offered => self.settings.blocks_for(computed + 1),
            Phase::Received | Phase::Restored => 0,
            Phase::Loading | Phase::Loaded => {
                self.settings.blocks_for(state.target()).saturating_sub(state.blocks.count())
            }
            Phase::Preempted => self.admission_blocks(state.target()),
            _ => state.blocks.count(),
        }
    }

    /// Blocks that the admission of `tokens` tokens allocates, without a cached prefix.
    pub(in crate::instance) fn admission_blocks(&self, tokens: u32) -> u64 {
        self.settings.blocks_for(self.settings.allocated_tokens(tokens))
    }

    /// When the reader of a request runs out of tokens, if it has one.
    pub(in crate::instance) fn deadline(&self, slot: Slot) -> Option<i128> {
        self.observers.readers.deadline(slot, self.batch.decode_set().step())
    }
}
