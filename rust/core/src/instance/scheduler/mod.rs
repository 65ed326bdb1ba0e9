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

use super::StepRecord;
use super::ranking::Ranking;
use super::ranks::Ranks;
use crate::config::{Admission, Stage};
use crate::error::Error;
use crate::hint::rare;
use crate::instance::effects::Effects;
use crate::time::Ticks;
use resume::ResumeRules;
use select::SelectRules;

impl Effects<'_> {
    /// Forms and starts the next step, or run of steps. Returns when to return, or
    /// `None` if no step can start before the next arrival.
    ///
    /// # Errors
    ///
    /// If the instance makes no progress, or the clock would leave its range.
    pub(crate) fn begin(&mut self, now: Ticks) -> Result<Option<Ticks>, Error> {
        debug_assert!(self.on.run.is_idle(), "Invariant: one step at a time");
        self.book_standstill(now);
        self.on.observers.load.end_rest(now);
        let queued = self.queued();
        self.on.observers.stats.book_waiting(queued - self.on.transfers.offered(), now);
        let ahead = self.on.settings.scheduler.schedule_ahead;
        if ahead {
            rare();
            self.on.queues.release_due(self.trace);
        }
        let deferred = self.refresh_ranks(queued > 0, now);
        if queued == 0
            && let Some(end) = self.start_decode_run(now)
        {
            return Ok(Some(end));
        }
        if deferred && let Some(mut ranks) = self.ranks() {
            ranks.refresh_for_step(now);
        }
        // The step is formed again only if every admitted request was preempted, which
        // leaves none to preempt; by rank, the second time is the last.
        let (draft, decodes) = loop {
            if self.on.ranking.is_some() {
                rare();
                self.begin_round(now);
            }
            let mut draft = self.open_draft(now);
            let decodes = self.run_stages(&mut draft);
            if draft.has_preempted() {
                rare();
                self.on.queues.requeue_after_step(&self.on.requests, self.trace);
            }
            let formed = (decodes && self.on.batch.decode_set().len() > 0) || self.on.batch.runs_chunks();
            // An instance whose memory is held is woken by each transfer that ends, and may form no step.
            if (formed || draft.has_preempted()) && self.on.observers.liveness.count_step(now) {
                rare();
                self.check_liveness(now)?;
            }
            if formed {
                break (draft, decodes);
            }
            // A step in which every request was preempted takes no time; its blocks are
            // free for the next one. Nor does one that could not be decided ahead.
            if !(draft.has_preempted() || ahead && self.release_all()) {
                self.rest(now);
                return Ok(draft.retry_at);
            }
        };
        self.start(draft, decodes).map(Some)
    }

    /// Stays without a step from now on.
    fn rest(&mut self, now: Ticks) {
        // Offers may have been accepted, though no step forms.
        self.on.kv.note_peak();
        self.on.observers.load.rest(now);
        if self.on.batch.running() > 0 {
            self.on.run.stand_still(now);
        }
    }

    /// Makes all ranks current for a step that starts now. Returns whether that is deferred: no request is queued, and the
    /// step may be known without it.
    fn refresh_ranks(&mut self, queued: bool, now: Ticks) -> bool {
        let Some(mut ranks) = self.ranks().filter(Ranks::may_refresh) else { return false };
        let deferred = !queued && ranks.can_be_deferred();
        if !deferred {
            ranks.refresh_for_step(now);
        }
        deferred
    }

    /// Starts to form a step: no request has been admitted or preempted in it.
    fn begin_round(&mut self, now: Ticks) {
        let may_displace = match &self.on.settings.scheduler.admission {
            Admission::Wait => false,
            Admission::Displace { when: None, .. } => true,
            Admission::Displace { .. } => self.displacement_condition_holds(now),
        };
        if let Some(ranking) = &mut self.on.ranking {
            ranking.begin_round(may_displace);
        }
    }

    /// Whether the condition of displacement holds of the instance.
    #[inline(never)]
    fn displacement_condition_holds(&mut self, now: Ticks) -> bool {
        let Some(condition) = self.on.settings.displaces_when.clone() else { return true };
        self.holds(&condition, now)
    }

    /// Starts the step that was formed. Returns when the step or run ends.
    fn start(&mut self, draft: StepDraft, decodes: bool) -> Result<Ticks, Error> {
        let now = draft.now;
        let dropped = self.on.queues.has_migrated_in() && self.store_migrated(now);
        if self.on.settings.scheduler.decodes_first {
            rare();
            self.on.batch.sort_decodes_first(decodes, &mut self.on.requests);
        }
        self.on.observers.stats.peak_running =
            self.on.observers.stats.peak_running.max(self.on.batch.running());
        self.on.kv.note_peak();
        let freed = self.on.queues.ahead().defers();
        if freed {
            rare();
            self.free_deferred();
        }
        let (mut run, shape) = self.time_step(draft, decodes)?;
        // Received requests were not admitted by rank: a queued request that ranks before one may displace it in the next
        // step.
        let displaces = self.on.transfers.has_admitted()
            && self.on.ranking.as_deref().is_some_and(|ranking| ranking.waiting() > 0);
        // A request whose KV was dropped may be admitted for less at the next step.
        if dropped || displaces || (self.on.settings.scheduler.schedule_ahead && self.has_news(freed)) {
            rare();
            run.steps = 1;
        }
        self.on.run.start(run, shape);
        let mut end = run.end();
        if self.on.batch.runs_chunks() {
            self.on.batch.begin_chunks();
            self.report_last_steps();
            if let Some((planned, shape)) = self.plan_after(&run) {
                end = self.on.run.plan(planned, shape);
            }
        }
        Ok(end)
    }

    /// The record of the step that was formed.
    pub(super) fn record(&self, draft: StepDraft, decodes: bool) -> StepRecord {
        StepRecord {
            start: draft.now,
            preempted: draft.preempted,
            copied: self.on.kv.cpu().copied(),
            free_blocks: self.on.kv.free(),
            ..StepRecord::of(&self.on.batch, decodes, &self.on.requests)
        }
    }

    /// Opens a step's draft.
    fn open_draft(&self, now: Ticks) -> StepDraft {
        let rules = &self.on.settings.scheduler;
        let ranked = self.on.ranking.as_deref().map_or(0, Ranking::waiting);
        let queued = self.on.queues.waiting().len() + ranked + self.on.queues.swapped().len() as u64;
        let queued = queued + self.received_in_order();
        // A lone request delays no other, so its chunks need no limit.
        let lone = self.admitted() + queued <= 1 && !rules.threshold_when_alone;
        let limit = rules.long_prefill_token_threshold;
        let chunk_limit = if limit == 0 || lone { u64::MAX } else { limit };
        StepDraft::new(now, rules.max_num_batched_tokens, chunk_limit)
    }

    /// Runs the stages in order. Returns whether the decode set runs in this step.
    fn run_stages(&mut self, draft: &mut StepDraft) -> bool {
        let max_num_seqs = self.on.settings.scheduler.max_num_seqs;
        for i in 0..self.on.settings.scheduler.stages.len() {
            let exclusive = self.on.settings.scheduler.exclusive_prefill
                && self.on.batch.runs_prefills(&self.on.requests);
            match self.on.settings.scheduler.stages[i] {
                Stage::Running => {
                    let rules = ResumeRules {
                        prefills: true,
                        preempts_prefills: true,
                        charged: true,
                        limit: u64::MAX,
                    };
                    self.resume_running(rules, draft);
                }
                Stage::Decodes { .. } if exclusive => {
                    rare();
                    self.on.batch.pause_decode_set(draft.now);
                    return false;
                }
                Stage::Decodes { charged, seated, over_prefills } => {
                    rare();
                    let prefills = if seated { self.on.batch.scheduled().count() as u64 } else { 0 };
                    let limit = max_num_seqs.saturating_sub(prefills);
                    let rules =
                        ResumeRules { prefills: false, preempts_prefills: over_prefills, charged, limit };
                    self.resume_running(rules, draft);
                }
                Stage::Prefills => {
                    rare();
                    self.continue_prefills(draft);
                }
                Stage::SwapIn { unless_preempted } => {
                    rare();
                    if !(self.on.queues.swapped().is_empty() || unless_preempted && draft.has_preempted()) {
                        self.swap_in(draft);
                    }
                }
                Stage::Admit { chunked, unless_preempted, unless_swapped, count_decodes, gather } => {
                    draft.count_decodes = count_decodes;
                    if (unless_preempted && draft.has_preempted())
                        || (unless_swapped && !self.on.queues.swapped().is_empty())
                        || gather.is_some_and(|gather| !self.has_gathered(gather, draft))
                    {
                        continue;
                    }
                    self.admit(chunked, draft);
                }
                Stage::Layered { .. } => {
                    rare();
                    self.run_layer_group(i, draft);
                }
                Stage::Select { chunked, charged, reserve_blocks, .. } => {
                    rare();
                    let rules = SelectRules { chunked, charged, reserve_blocks };
                    self.select(rules, draft);
                }
            }
        }
        true
    }

    /// Seats taken in the step that is formed.
    pub(super) fn seats_taken(&self, draft: &StepDraft) -> u64 {
        if draft.count_decodes { self.admitted() } else { self.on.batch.prefills(&self.on.requests) }
    }
}
