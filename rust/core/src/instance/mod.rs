//! One replica of the model.
//!
//! An instance is a state machine that the engine drives: [`arrive`](Instance::arrive)
//! gives it a request, [`begin`](Instance::begin) forms a step or a run of certain steps,
//! [`finish`](Instance::finish) applies it. An event in the middle of a run truncates it at
//! the end of the step in progress. An instance knows nothing of other instances.
//!
//! Its state is in components, each with fields of its own and tests of its own. The
//! methods of `Instance`, in `scheduler`, `run`, `view`, `completion` and `migration`, are
//! what makes them work together.

mod ahead;
mod batch;
mod effects;
mod handover;
mod invariants;
mod observers;
mod queues;
mod ranking;
mod ranks;
mod request;
mod reserve;
mod run;
mod scheduler;
mod settings;
mod speculation;
mod tiers;
mod view;

pub(crate) use effects::{Cancelled, Effects, MigratingRequest};
pub(crate) use handover::{Acceptance, Origin, Pull};
pub(crate) use observers::PhaseChange;
pub use observers::{Part, StepColumns, StepRecord};
pub(crate) use scheduler::Prospect;
pub use tiers::{TierJob, TierLog, TierStep};
pub(crate) use view::{Asking, RequestView, seconds};

use std::sync::Arc;

use ahead::Unseen;
use batch::{Batch, Progress};
use handover::Transfers;
use observers::{Observers, Outbox};
use queues::Queues;
use ranking::Ranking;
use request::{AdmissionSeq, Phase, RequestTable, Slot};
use reserve::OutputReserve;
use run::RunState;
use settings::Settings;
use speculation::Speculator;
use tiers::Tiers;

use crate::config::{InstanceConfig, Pace, QueueOrder, Window};
use crate::kv::{BlockSize, KvStore, Prefixes, SharedStore};
use crate::metrics::{InstanceStats, Recorder, StoreStats};
use crate::time::Ticks;
use crate::trace::{RequestNumber, Trace};

/// One replica of the model.
#[derive(Debug)]
pub(crate) struct Instance {
    settings: Settings,
    /// The requests that the components refer to by slot.
    requests: RequestTable,
    kv: KvStore,
    batch: Batch,
    queues: Queues,
    /// The ranks of all requests, if requests are admitted by rank.
    ranking: Option<Box<Ranking>>,
    run: RunState,
    /// The drafts of the requests, if tokens are drafted.
    speculator: Option<Box<Speculator>>,
    /// The outcomes of the latest step that the next one does not know, if steps are decided ahead.
    unseen: Option<Box<Unseen>>,
    transfers: Transfers,
    /// Room that admissions leave for outputs to come, if they leave any.
    reserve: Option<Box<OutputReserve>>,
    /// The KV that it keeps in the host's memory, if it keeps any.
    tiers: Tiers,
    /// The observers of the requests: counts, columns and reports.
    observers: Observers,
    /// Requests that yielded their last token in the step that ends; empty between steps.
    completed: Vec<(AdmissionSeq, Slot)>,
}

crate::checkpoint::checkpointed!(Instance {
    values: requests, batch, queues, run, unseen, transfers, completed;
    parts: kv, ranking, speculator, reserve, tiers, observers;
    fixed: settings;

});

/// The fields of an instance that rules and results read, which are kept only for them.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that can be read")]
pub(crate) struct ObservedFields {
    /// Whether several certain steps are taken at once.
    pub(crate) leap: bool,
    /// How fast readers read, if there are any.
    pub(crate) pace: Option<Pace>,
    /// Whether it is asked if all readers are on pace.
    pub(crate) on_pace: bool,
    /// Whether a routing rule reads when one reader runs out.
    pub(crate) slack: bool,
    /// Whether intervals between tokens are read.
    pub(crate) intervals: bool,
    /// Whether predicted prefills are read.
    pub(crate) prefills: bool,
    /// Whether a rule is asked at the end of a prefill.
    pub(crate) asks_prefilled: bool,
    /// Whether a rule is asked at the end of reasoning.
    pub(crate) asks_answering: bool,
    /// When a step must start for its decisions to be kept; `None`: none are.
    pub(crate) records: Option<Window>,
    /// How requests that are handed over are accepted.
    pub(crate) handover: Option<Acceptance>,
}

impl Instance {
    pub(crate) fn new(
        index: usize,
        config: &InstanceConfig,
        prefixes: &Arc<Prefixes>,
        observed: ObservedFields,
    ) -> Self {
        let scheduler = &config.scheduler;
        let rules = match &scheduler.order {
            QueueOrder::Ranked(rules) => Some(rules.as_ref()),
            _ => None,
        };
        let caches = scheduler.prefix_cache.is_some();
        let settings = Settings::new(index, config, &observed);
        let unseen = scheduler.schedule_ahead.then(Box::default);
        let speculator = settings.drafts.config().cloned().map(|config| Box::new(Speculator::new(config)));
        // Ranks and readers are told of each token of a request that yields several.
        let alike = observed.leap && rules.is_none() && observed.pace.is_none() && !scheduler.schedule_ahead;
        let drops_last = settings.drafts.config().is_some_and(|drafts| drafts.drops_last_block);
        let periodic = speculator.as_ref().filter(|_| alike).and_then(|speculator| speculator.periodic());
        Self {
            settings,
            requests: RequestTable::default(),
            kv: KvStore::new(config, prefixes),
            batch: Batch::new(
                periodic.map_or(Progress::Identity, Progress::Periodic),
                BlockSize::new(config.block_tokens, config.state_blocks),
                config.cost.reads_longest(),
            )
            .with_rows(scheduler.has_prefix_tree()),
            queues: Queues::new(&scheduler.order, scheduler.requeue_last, scheduler.receive_interval),
            ranking: rules.map(|rules| Box::new(Ranking::new(rules.clone(), caches, observed.leap))),
            run: RunState::new(config.pipeline.as_ref()),
            speculator,
            unseen,
            transfers: Transfers::default(),
            reserve: scheduler.output_reserve.map(|rules| Box::new(OutputReserve::new(rules))),
            tiers: Tiers::new(config, drops_last, observed.records.is_some()),
            observers: Observers::new(config, observed),
            completed: Vec::new(),
        }
    }

    /// Has the stores be below the tiers whose settings have them.
    pub(crate) fn set_store(&mut self, config: &InstanceConfig, stores: &[SharedStore]) {
        self.tiers.set_store(config, stores);
    }

    /// The number of the store below its tier, and the counters of that.
    pub(crate) fn store_stats(&self) -> Option<(u32, StoreStats)> {
        self.tiers.store_stats()
    }

    /// The effects on the instance, of requests in `trace` and with a result in `recorder`.
    pub(crate) fn effects<'a>(&'a mut self, trace: &'a Trace, recorder: &'a mut Recorder) -> Effects<'a> {
        Effects::new(self, trace, recorder)
    }

    /// Takes the contents that requests share, and returns those that it had.
    pub(crate) fn share(&mut self, prefixes: Arc<Prefixes>) -> Arc<Prefixes> {
        self.kv.gpu_mut().share(prefixes)
    }

    /// The contents that requests share.
    pub(crate) fn contents(&self) -> &Arc<Prefixes> {
        self.kv.gpu().prefixes()
    }

    /// The first in the order of arrival of the requests that the instance has, those that have ended and hold blocks
    /// included.
    pub(crate) fn oldest_request(&self) -> Option<RequestNumber> {
        self.requests.iter().map(|state| state.request).min()
    }

    /// The numbers of the shared contents that are cached, and the most there are.
    pub(crate) fn shared_contents(&self) -> (usize, impl Iterator<Item = u32>) {
        self.kv.gpu().shared_contents()
    }

    /// Whether no step is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.run.rests()
    }

    /// Whether it may start a step.
    pub(crate) fn may_start(&self) -> bool {
        self.run.may_start()
    }

    /// Truncates the run in progress after the step that runs at `now`. Returns when the
    /// run now ends, if that changed.
    pub(crate) fn truncate_run(&mut self, now: Ticks) -> Option<Ticks> {
        self.run.truncate(now)
    }

    /// Tokens that the step in progress computes.
    pub(crate) fn step_tokens(&self) -> Option<u64> {
        self.run.step_tokens()
    }

    /// Has the step to form hold prompts back for the instances that step together, or not.
    pub(crate) fn hold_prompts(&mut self, held: bool) {
        self.queues.hold_together(held);
    }

    /// Whether the step in progress computes prompt tokens.
    pub(crate) fn step_has_prompts(&self) -> bool {
        self.run.step_has_prompts()
    }

    /// Ticks that the step in progress takes.
    pub(crate) fn step_ticks(&self) -> Option<Ticks> {
        self.run.step_ticks()
    }

    /// Has the step in progress take `ticks`. Returns when it ends.
    pub(crate) fn stretch_step(&mut self, ticks: Ticks) -> Option<Ticks> {
        self.run.stretch(ticks)
    }

    /// Queued requests: new, preempted, swapped out, handed over or migrated in. Those whose KV is on its way are not
    /// among them.
    fn queued(&self) -> u64 {
        let loading = self.tiers.chunks.as_deref().map_or(0, |tier| tier.loading().len() as u64);
        let handed = self.transfers.offered() + self.received_in_order() + loading;
        self.queues.len() + self.ranking.as_deref().map_or(0, Ranking::waiting) + handed
    }

    /// Requests that wait on this instance: the queued ones but for those whose KV is elsewhere, which count as in
    /// transfer.
    fn waiting(&self) -> u64 {
        self.queued() - self.transfers.offered()
    }

    /// Requests whose KV has been received and that wait in the order of that.
    fn received_in_order(&self) -> u64 {
        if self.ranking.is_some() { 0 } else { self.transfers.received() }
    }

    /// Requests that take a seat, as far as the step that is formed sees.
    fn admitted(&self) -> u64 {
        self.batch.running() + self.queues.ahead().seats()
    }

    /// The settings, which do not change.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The reports to the engine.
    pub(crate) fn outbox(&self) -> &Outbox {
        &self.observers.outbox
    }

    /// The same, to take from.
    pub(crate) fn outbox_mut(&mut self) -> &mut Outbox {
        &mut self.observers.outbox
    }

    /// Has a request leave the batch once the step in progress has ended.
    pub(crate) fn request_departure(&mut self, slot: Slot) {
        self.observers.outbox.request_departure(slot, &self.requests);
    }

    /// Whether a slot still has a request that is admitted.
    pub(crate) fn still_runs(&self, slot: Slot, request: RequestNumber) -> bool {
        let state = &self.requests[slot];
        state.request == request && state.phase.is_admitted()
    }

    /// The request in a slot.
    pub(crate) fn request_in(&self, slot: Slot) -> RequestNumber {
        self.requests[slot].request
    }

    /// Whether an expected request, whose blocks are reserved, was called off.
    pub(crate) fn is_called_off(&self, slot: Slot) -> bool {
        self.requests[slot].phase == Phase::Reserved
    }

    /// Slots of the admitted requests that have yielded a token, in the order of arrival.
    pub(crate) fn decoding(&self) -> Vec<Slot> {
        let current = self.batch.order().current(&self.requests);
        let mut slots: Vec<Slot> = current.filter(|&slot| self.requests[slot].phase.decodes()).collect();
        slots.sort_unstable_by_key(|&slot| self.requests[slot].request);
        slots
    }

    /// A request as it will be when its prompt ends at `left`.
    pub(crate) fn anticipate(&self, slot: Slot, left: Ticks) -> MigratingRequest {
        MigratingRequest::after_prefill(&self.requests[slot], left)
    }

    /// Start and end of the step in progress.
    pub(crate) fn current_step(&self) -> Option<(Ticks, Ticks)> {
        self.run.current().map(|run| (run.start, run.after(1)))
    }

    /// Counts a request that was cancelled before it was queued here.
    pub(crate) fn count_unqueued_cancel(&mut self) {
        self.observers.stats.requests.cancelled += 1;
    }

    /// Whether requests were accepted whose KV is to be read.
    pub(crate) fn has_pulls(&self) -> bool {
        self.transfers.has_pulls()
    }

    /// Moves the requests that were accepted to `pulls`, which is empty.
    pub(crate) fn take_pulls(&mut self, pulls: &mut Vec<Pull>) {
        self.transfers.take_pulls(pulls);
    }

    /// The counters of the instance so far.
    pub(crate) fn stats(&self) -> InstanceStats {
        let mut stats = self.observers.stats.clone();
        self.kv.write_stats(&mut stats);
        stats.traffic = self.observers.moved(&stats);
        stats.tier = self.tiers.stats(self.kv.gpu());
        stats.store = self.tiers.store_copies();
        stats
    }

    /// The decisions of all steps, where they are kept.
    pub(crate) fn take_log(&mut self) -> StepColumns {
        self.observers.log.take()
    }

    /// The actions of steps on the tier, where decisions are kept and there is one.
    pub(crate) fn take_tier_log(&mut self) -> Option<Box<TierLog>> {
        self.tiers.take_log()
    }
}
