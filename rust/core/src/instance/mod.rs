//! One replica of the model.
//!
//! An instance is a state machine that the engine drives: [`arrive`](Instance::arrive)
//! gives it a request, [`begin`](Instance::begin) forms a step or a run of certain steps,
//! [`finish`](Instance::finish) books it. An event in the middle of a run truncates it at
//! the end of the step in progress. An instance knows nothing of other instances.
//!
//! Its state is in components, each with fields of its own and tests of its own. The
//! methods of `Instance`, in `scheduler`, `run`, `view`, `completion` and `migration`, are
//! what makes them work together.

mod batch;
mod blockage;
mod completion;
mod handover;
mod invariants;
mod migration;
mod observers;
mod queues;
mod ranking;
mod ranks;
mod request;
mod run;
mod scheduler;
mod settings;
mod view;

pub(crate) use handover::{Acceptance, Origin, Pull};
pub(crate) use migration::MigratingRequest;
pub(crate) use observers::PhaseChange;
pub use observers::{Part, StepColumns, StepRecord};
pub(crate) use view::{Asking, RequestView, seconds};

use std::sync::Arc;

use batch::Batch;
use handover::Transfers;
use observers::Observers;
use queues::{Queued, Queues};
use ranking::Ranking;
use request::{AdmissionSeq, RequestTable, Slot};
use run::RunState;
use settings::Settings;

use crate::config::{InstanceConfig, Pace, QueueOrder, Window};
use crate::cost::Cost;
use crate::hint::rare;
use crate::kv::{Block, BlockSize, KvStore, Prefixes};
use crate::metrics::{InstanceStats, Reason, Recorder};
use crate::time::Ticks;
use crate::trace::Trace;

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
    transfers: Transfers,
    /// The observers of the requests: counts, columns and reports.
    observers: Observers,
    scratch: Scratch,
}

/// Lists that are reused.
#[derive(Debug, Default)]
struct Scratch {
    /// Requests that yielded their last token in the step that ends.
    completed: Vec<(AdmissionSeq, Slot)>,
    /// Blocks that the prefix cache has of the request to admit.
    hits: Vec<Block>,
    /// Requests to displace.
    victims: Vec<Slot>,
}

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
    /// Whether the engine must see each first token as it is yielded.
    pub(crate) asked_again: bool,
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
        Self {
            settings: Settings::new(index, config, &observed),
            requests: RequestTable::default(),
            kv: KvStore::new(config, prefixes),
            batch: Batch::new(
                BlockSize::new(config.block_tokens, config.state_blocks),
                matches!(config.cost, Cost::Table(_)),
            ),
            queues: Queues::new(&scheduler.order),
            ranking: rules.map(|rules| Box::new(Ranking::new(rules.clone(), caches, observed.leap))),
            run: RunState::default(),
            transfers: Transfers::default(),
            observers: Observers::new(config, observed),
            scratch: Scratch::default(),
        }
    }

    /// Why this instance can never serve such a request, if it cannot.
    pub(crate) fn rejects(&self, prompt: u32, output: u32) -> Reason {
        self.settings.rejects(prompt, output)
    }

    /// Whether two instances reject the same requests.
    pub(crate) fn rejects_like(&self, other: &Self) -> bool {
        self.settings.rejects_like(&other.settings)
    }

    /// Queues a request. Returns when the run in progress now ends, if the arrival
    /// truncates it.
    pub(crate) fn arrive(
        &mut self,
        request: u32,
        now: Ticks,
        trace: &Trace,
        recorder: &mut Recorder,
    ) -> Option<Ticks> {
        self.apply_head(now, trace, recorder);
        self.observers.stats.book_waiting(self.waiting(), now);
        let row = request as usize;
        let prompt = trace.prompt_tokens[row];
        let prefill = if self.settings.predicts { self.settings.predicted_prefill(prompt) } else { 0 };
        self.observers.load.add_arrival(prompt, prefill);
        let ahead = self.settings.scheduler.schedule_ahead;
        let first = if ahead {
            rare();
            self.queues.ahead_mut().push(Queued { request, slot: None }, now);
            true
        } else if self.ranking.is_some() {
            rare();
            self.rank_arrival(request, now, trace)
        } else {
            self.queues.waiting_mut().push_arrival(request, trace)
        };
        self.observers.stats.peak_waiting = self.observers.stats.peak_waiting.max(self.waiting());
        recorder.columns.instance[row] = self.settings.index;
        if let Some(last) = recorder.columns.last_instance.get_mut(row) {
            *last = self.settings.index;
        }
        // While the head of the queue is blocked, a later arrival cannot be admitted before
        // the next completion, which ends the run anyway; unless its rank drifts.
        if ahead {
            rare();
            self.run.truncate_after_next(now)
        } else if first {
            self.run.truncate(now)
        } else {
            self.truncate_by_rank(now, trace)
        }
    }

    /// Adds a new request to the ranking. Returns whether it is the best queued one, or may be selected.
    #[inline(never)]
    fn rank_arrival(&mut self, request: u32, now: Ticks, trace: &Trace) -> bool {
        let Some(mut ranks) = self.ranks(trace) else { return false };
        if ranks.keep_arrivals() {
            return ranks.add_arrival(request, now);
        }
        let slot = self.add_request(request, trace);
        self.ranks(trace).is_some_and(|mut ranks| ranks.enter(slot, now, 0))
    }

    /// Ends the run in progress before the rank of a request changes that arrived at `now`. Returns when the run now ends,
    /// if that changed.
    fn truncate_by_rank(&mut self, now: Ticks, trace: &Trace) -> Option<Ticks> {
        let run = *self.run.current().filter(|run| run.steps > 1)?;
        let steps = self.ranks(trace)?.steps_after_arrival(&run)?;
        self.run.truncate_to(steps, now)
    }

    /// Whether no step is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.run.is_idle()
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
        let handed = self.transfers.offered() + self.received_in_order();
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

    /// Blocks that so many tokens fill.
    pub(crate) fn token_blocks(&self, tokens: u32) -> u64 {
        self.settings.token_blocks(tokens)
    }

    /// Bytes of the KV of so many tokens.
    pub(crate) fn kv_bytes(&self, tokens: u32) -> u64 {
        self.settings.kv_bytes(tokens)
    }

    /// Bytes with which a request of `tokens` tokens of KV continues elsewhere: that KV, and its states.
    pub(crate) fn moved_bytes(&self, tokens: u32) -> u64 {
        self.settings.moved_bytes(tokens)
    }

    /// Whether requests have states, which are transferred though no KV is lacking.
    pub(crate) fn has_states(&self) -> bool {
        self.settings.has_states()
    }

    /// Layers in which a token's KV is.
    pub(crate) fn kv_layers(&self) -> u32 {
        self.settings.kv_layers
    }

    /// Ticks that the prefill of a lone prompt takes.
    pub(crate) fn predicted_prefill(&self, prompt: u32) -> Ticks {
        self.settings.predicted_prefill(prompt)
    }

    /// Sets whether the end of each prefill is to end the step or run in progress, as something waits for it.
    pub(crate) fn await_prefills(&mut self, awaited: bool) {
        self.observers.outbox.await_prefills(awaited);
    }

    /// Requests dropped since the last call.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        self.observers.outbox.take_dropped()
    }

    /// Books the time in which requests were admitted and no step could be formed.
    fn book_standstill(&mut self, now: Ticks) {
        if let Some(since) = self.run.take_standstill() {
            rare();
            let ticks = u128::from(now - since);
            self.observers.stats.running_ticks += ticks * u128::from(self.batch.running());
            self.observers.stats.kv_token_ticks += ticks * u128::from(self.batch.kv_tokens());
        }
    }

    /// The same, before the batch changes while no step can be formed.
    fn rebook_standstill(&mut self, now: Ticks) {
        let stands = self.run.stands_still();
        self.book_standstill(now);
        if stands {
            self.run.stand_still(now);
        }
    }

    /// The counters of the instance so far.
    pub(crate) fn stats(&self) -> InstanceStats {
        let mut stats = self.observers.stats.clone();
        self.kv.write_stats(&mut stats);
        stats.traffic = self.observers.moved(&stats);
        stats
    }

    /// The decisions of all steps, where they are kept.
    pub(crate) fn take_log(&mut self) -> StepColumns {
        self.observers.log.take()
    }
}
