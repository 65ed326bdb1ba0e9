//! Forming a step, stage by stage.
//!
//! A scheduler is a list of stages: running requests resume, swapped-out requests
//! resume, queued requests are admitted. vLLM V1 resumes all running requests, then
//! admits. vLLM V0 admits, and decodes only if no prompt was admitted. Sarathi decodes,
//! continues prefills, then admits. The rules that stages share (what an admission
//! allocates, which request is preempted) are in the configuration.

mod admit;
mod displace;
mod draft;
mod layered;
mod preempt;
mod resume;
mod select;
mod swap;

pub(crate) use draft::StepDraft;

use super::ranking::Ranking;
use super::ranks::Ranks;
use super::view::OfInstance;
use super::{Instance, Recorder, StepRecord};
use crate::config::{Admission, Stage};
use crate::error::Error;
use crate::hint::rare;
use crate::policy::holds_now;
use crate::time::Ticks;
use crate::trace::Trace;
use resume::ResumeRules;
use select::SelectRules;

impl Instance {
    /// Forms and starts the next step, or run of steps. Returns when to return, or
    /// `None` if no step can start before the next arrival.
    ///
    /// # Errors
    ///
    /// If the instance makes no progress, or the clock would leave its range.
    pub(crate) fn begin(
        &mut self,
        now: Ticks,
        trace: &Trace,
        recorder: &mut Recorder,
    ) -> Result<Option<Ticks>, Error> {
        debug_assert!(self.run.is_idle(), "Invariant: one step at a time");
        self.book_standstill(now);
        self.observers.load.end_rest(now);
        let queued = self.queued();
        self.observers.stats.book_waiting(queued - self.transfers.offered(), now);
        let ahead = self.settings.scheduler.schedule_ahead;
        if ahead {
            rare();
            self.queues.release_due(trace);
        }
        let deferred = self.refresh_ranks(queued > 0, now, trace);
        if queued == 0
            && let Some(end) = self.start_decode_run(now, trace)
        {
            return Ok(Some(end));
        }
        if deferred && let Some(mut ranks) = self.ranks(trace) {
            ranks.refresh_for_step(now);
        }
        // The step is formed again only if every admitted request was preempted, which
        // leaves none to preempt; by rank, the second time is the last.
        let (draft, decodes) = loop {
            if self.ranking.is_some() {
                rare();
                self.begin_round(now, trace);
            }
            let mut draft = self.open_draft(now);
            let decodes = self.run_stages(&mut draft, trace, recorder);
            if draft.has_preempted() {
                rare();
                self.queues.requeue_after_step(&self.requests, trace);
            }
            let formed = (decodes && self.batch.decode_set().len() > 0) || self.batch.runs_chunks();
            // An instance whose memory is held is woken by each transfer that ends, and may form no step.
            if (formed || draft.has_preempted()) && self.observers.liveness.count_step(now) {
                rare();
                self.check_liveness(now)?;
            }
            if formed {
                break (draft, decodes);
            }
            // A step in which every request was preempted takes no time; its blocks are
            // free for the next one. Nor does one that could not be decided ahead.
            if !(draft.has_preempted() || ahead && self.release_all(trace)) {
                self.rest(now);
                return Ok(draft.retry_at);
            }
        };
        self.start(draft, decodes, trace).map(Some)
    }

    /// Stays without a step from now on.
    fn rest(&mut self, now: Ticks) {
        // Offers may have been accepted, though no step forms.
        self.kv.note_peak();
        self.observers.load.rest(now);
        if self.batch.running() > 0 {
            self.run.stand_still(now);
        }
    }

    /// Makes all ranks current for a step that starts now. Returns whether that is deferred: no request is queued, and the
    /// step may be known without it.
    fn refresh_ranks(&mut self, queued: bool, now: Ticks, trace: &Trace) -> bool {
        let Some(mut ranks) = self.ranks(trace).filter(Ranks::may_refresh) else { return false };
        let deferred = !queued && ranks.can_be_deferred();
        if !deferred {
            ranks.refresh_for_step(now);
        }
        deferred
    }

    /// Starts to form a step: no request has been admitted or preempted in it.
    fn begin_round(&mut self, now: Ticks, trace: &Trace) {
        let may_displace = match &self.settings.scheduler.admission {
            Admission::Wait => false,
            Admission::Displace { when: None, .. } => true,
            Admission::Displace { .. } => self.displacement_condition_holds(now, trace),
        };
        if let Some(ranking) = &mut self.ranking {
            ranking.begin_round(may_displace);
        }
    }

    /// Whether the condition of displacement holds of the instance.
    #[inline(never)]
    fn displacement_condition_holds(&mut self, now: Ticks, trace: &Trace) -> bool {
        let Some(condition) = self.settings.displaces_when.clone() else { return true };
        holds_now(&condition, &mut OfInstance { instance: self, now, trace })
    }

    /// Starts the step that was formed. Returns when the step or run ends.
    fn start(&mut self, draft: StepDraft, decodes: bool, trace: &Trace) -> Result<Ticks, Error> {
        let now = draft.now;
        let dropped = self.queues.has_migrated_in() && self.store_migrated(now, trace);
        if self.settings.scheduler.decodes_first {
            rare();
            self.batch.sort_decodes_first(decodes, &mut self.requests);
        }
        self.observers.stats.peak_running = self.observers.stats.peak_running.max(self.batch.running());
        self.kv.note_peak();
        let freed = self.queues.ahead().defers();
        if freed {
            rare();
            self.free_deferred();
        }
        let (mut run, shape) = self.time_step(draft, decodes, trace)?;
        // Received requests were not admitted by rank: a queued request that ranks before one may displace it in the next
        // step.
        let displaces = self.transfers.has_admitted()
            && self.ranking.as_deref().is_some_and(|ranking| ranking.waiting() > 0);
        // A request whose KV was dropped may be admitted for less at the next step.
        if dropped || displaces || (self.settings.scheduler.schedule_ahead && self.has_news(freed)) {
            rare();
            run.steps = 1;
        }
        self.run.start(run, shape);
        let mut end = run.end();
        if self.batch.runs_chunks() {
            self.batch.begin_chunks();
            self.report_last_steps();
            if let Some((planned, shape)) = self.plan_after(&run, trace) {
                end = self.run.plan(planned, shape);
            }
        }
        Ok(end)
    }

    /// The record of the step that was formed.
    pub(super) fn record(&self, draft: StepDraft, decodes: bool) -> StepRecord {
        StepRecord {
            start: draft.now,
            preempted: draft.preempted,
            copied: self.kv.cpu().copied(),
            free_blocks: self.kv.free(),
            ..StepRecord::of(&self.batch, decodes, &self.requests)
        }
    }

    /// Opens a step's draft.
    fn open_draft(&self, now: Ticks) -> StepDraft {
        let rules = &self.settings.scheduler;
        let ranked = self.ranking.as_deref().map_or(0, Ranking::waiting);
        let queued = self.queues.waiting().len() + ranked + self.queues.swapped().len() as u64;
        let queued = queued + self.received_in_order();
        // A lone request delays no other, so its chunks need no limit.
        let lone = self.admitted() + queued <= 1 && !rules.threshold_when_alone;
        let limit = rules.long_prefill_token_threshold;
        let chunk_limit = if limit == 0 || lone { u64::MAX } else { limit };
        StepDraft::new(now, rules.max_num_batched_tokens, chunk_limit)
    }

    /// Runs the stages in order. Returns whether the decode set runs in this step.
    fn run_stages(&mut self, draft: &mut StepDraft, trace: &Trace, recorder: &mut Recorder) -> bool {
        let max_num_seqs = self.settings.scheduler.max_num_seqs;
        for i in 0..self.settings.scheduler.stages.len() {
            let exclusive =
                self.settings.scheduler.exclusive_prefill && self.batch.runs_prefills(&self.requests);
            match self.settings.scheduler.stages[i] {
                Stage::Running => {
                    let rules = ResumeRules {
                        prefills: true,
                        preempts_prefills: true,
                        charged: true,
                        limit: u64::MAX,
                    };
                    self.resume_running(rules, draft, trace, recorder);
                }
                Stage::Decodes { .. } if exclusive => {
                    rare();
                    self.batch.pause_decode_set(draft.now);
                    return false;
                }
                Stage::Decodes { charged, seated, over_prefills } => {
                    rare();
                    let prefills = if seated { self.batch.scheduled().count() as u64 } else { 0 };
                    let limit = max_num_seqs.saturating_sub(prefills);
                    let rules =
                        ResumeRules { prefills: false, preempts_prefills: over_prefills, charged, limit };
                    self.resume_running(rules, draft, trace, recorder);
                }
                Stage::Prefills => {
                    rare();
                    self.continue_prefills(draft);
                }
                Stage::SwapIn { unless_preempted } => {
                    rare();
                    if !(self.queues.swapped().is_empty() || unless_preempted && draft.has_preempted()) {
                        self.swap_in(draft, trace, recorder);
                    }
                }
                Stage::Admit { chunked, unless_preempted, unless_swapped, count_decodes, gather } => {
                    draft.count_decodes = count_decodes;
                    if (unless_preempted && draft.has_preempted())
                        || (unless_swapped && !self.queues.swapped().is_empty())
                        || gather.is_some_and(|gather| !self.has_gathered(gather, draft, trace))
                    {
                        continue;
                    }
                    self.admit(chunked, draft, trace, recorder);
                }
                Stage::Layered { .. } => {
                    rare();
                    self.run_layer_group(i, draft, trace, recorder);
                }
                Stage::Select { chunked, charged, reserve_blocks, .. } => {
                    rare();
                    let rules = SelectRules { chunked, charged, reserve_blocks };
                    self.select(rules, draft, trace, recorder);
                }
            }
        }
        true
    }

    /// Seats taken in the step that is formed.
    pub(super) fn seats_taken(&self, draft: &StepDraft) -> u64 {
        if draft.count_decodes { self.admitted() } else { self.batch.prefills(&self.requests) }
    }
}
