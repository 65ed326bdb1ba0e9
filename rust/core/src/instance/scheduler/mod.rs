//! Forming a step, stage by stage.
//!
//! A scheduler is a list of stages: running requests resume, swapped-out requests
//! resume, queued requests are admitted. vLLM V1 resumes all running requests, then
//! admits. vLLM V0 admits, and decodes only if no prompt was admitted. Sarathi decodes,
//! continues prefills, then admits. The rules that stages share (what an admission
//! allocates, which request is preempted) are in the configuration.
//!
//! A stage reads the instance, and changes nothing but its draft. What it decides it has done by an
//! [effect](super::effects), so that the next decision sees it.

mod admit;
mod decode_run;
mod displace;
mod draft;
mod duration;
mod grown;
mod hosted_tree;
mod joining;
mod layered;
mod limits;
mod listed;
mod offers;
mod outputs;
mod preempt;
mod prefixes;
mod prompt_batch;
mod reserve;
mod resume;
mod select;
mod speculate;
mod swap;
mod tiers;

pub(crate) use draft::StepDraft;
pub(crate) use prompt_batch::Prospect;

use super::StepRecord;
use super::effects::Effects;
use super::ranking::Ranking;
use crate::config::{Admission, Stage};
use crate::error::Error;
use crate::hint::rare;
use crate::time::Ticks;
use resume::ResumeRules;
use select::SelectRules;

/// The stages that form a step, with the room that is left in it.
#[derive(Debug)]
pub(crate) struct Stages<'a> {
    effects: Effects<'a>,
    draft: StepDraft,
}

impl Effects<'_> {
    /// Forms and starts the next step, or run of steps. Returns when to return, or `None` if no step can start before the
    /// next arrival.
    ///
    /// # Errors
    ///
    /// If the instance makes no progress, or the clock would leave its range.
    pub(crate) fn begin(&mut self, now: Ticks) -> Result<Option<Ticks>, Error> {
        if self.run.pipeline().is_some() {
            rare();
            return self.fill_pipeline(now);
        }
        Ok(match self.begin_one(now)? {
            Formed::Batch(end) => Some(end),
            Formed::Nothing(retry_at) => retry_at,
        })
    }

    /// As [`Self::begin`], of one step.
    pub(super) fn begin_one(&mut self, now: Ticks) -> Result<Formed, Error> {
        debug_assert!(self.run.is_idle(), "Invariant: one step at a time");
        if let Some(ends) = self.wake_tier(now) {
            rare();
            return Ok(Formed::Nothing(Some(ends)));
        }
        self.end_rest(now);
        let queued = self.queued() > 0;
        self.note_moment(now);
        let deferred = self.refresh_ranks(queued, now);
        if !queued && let Some(end) = self.start_decode_run(now) {
            return Ok(Formed::Batch(end));
        }
        if deferred {
            self.refresh_deferred_ranks(now);
        }
        Stages::new(self.again(), now).form()
    }
}

/// The outcome of forming a step.
#[derive(Debug, Clone, Copy)]
pub(super) enum Formed {
    /// A batch, which runs until its step or run ends, or leaves the pipeline.
    Batch(Ticks),
    /// No batch. When to try again, if not because of an event.
    Nothing(Option<Ticks>),
}

impl<'a> Stages<'a> {
    /// The stages of a step that starts at `now`.
    fn new(effects: Effects<'a>, now: Ticks) -> Self {
        Self { effects, draft: StepDraft::new(now) }
    }

    /// Forms a step by the stages, and starts it.
    fn form(&mut self) -> Result<Formed, Error> {
        let now = self.draft.now;
        // The step is formed again only if every admitted request was preempted, which
        // leaves none to preempt; by rank, the second time is the last.
        loop {
            if self.effects.ranking.is_some() {
                rare();
                let may_displace = self.may_displace();
                self.effects.begin_round(may_displace);
            }
            self.open_draft();
            self.effects.open_tier_step(now);
            let decodes = self.run_round();
            let fewer = self.effects.forget_finished(now);
            let preempted = self.draft.has_preempted();
            if preempted {
                rare();
                self.effects.requeue_after_step();
                self.effects.begin_reads_again(now);
            }
            let batch = &self.effects.batch;
            let formed = (decodes && batch.decode_set().len() > 0) || batch.runs_chunks();
            // An instance whose memory is held is woken by each transfer that ends, and may form no step.
            if formed || preempted {
                self.effects.count_step(now)?;
            }
            if formed {
                return self.start(decodes).map(Formed::Batch);
            }
            // A step in which every request was preempted takes no time; its blocks are
            // free for the next one. Nor does one that could not be decided ahead.
            let unseen = self.catch_up();
            // With batches under way, the next one is formed once this one has had its place.
            let again = (self.passes_step() || preempted || unseen || fewer) && self.effects.run.rests();
            if !again || self.draft.loads.waits {
                self.effects.rest(now);
                return Ok(Formed::Nothing(self.draft.retry_at));
            }
            // The requests just preempted have cached tokens now.
            self.effects.refresh_ranks_again(now);
            self.draft = StepDraft::new(now);
        }
    }

    /// Has the next decision see what this one did not. Returns whether there was anything.
    fn catch_up(&mut self) -> bool {
        let rules = &self.effects.settings.scheduler;
        if rules.schedule_ahead {
            return self.effects.release_all(self.draft.now);
        }
        rules.holds_arrivals() && self.effects.receive_all()
    }

    /// Whether queued requests may displace running ones in the step that is formed.
    fn may_displace(&mut self) -> bool {
        match &self.effects.settings.scheduler.admission {
            Admission::Wait => false,
            Admission::Displace { when: None, .. } => true,
            Admission::Displace { .. } => self.displacement_condition_holds(),
        }
    }

    /// Whether the condition of displacement holds of the instance.
    #[inline(never)]
    fn displacement_condition_holds(&mut self) -> bool {
        let Some(condition) = self.effects.settings.displaces_when.clone() else { return true };
        self.effects.holds(&condition, self.draft.now)
    }

    /// Starts the step that was formed. Returns when the step or run ends.
    fn start(&mut self, decodes: bool) -> Result<Ticks, Error> {
        let now = self.draft.now;
        let dropped = self.effects.queues.has_migrated_in() && self.effects.store_migrated(now);
        self.draft.free_blocks = self.effects.kv.free();
        self.effects.begin_loads();
        self.settle_prefixes(decodes);
        // What ends the decision is not known to the step.
        let waits = self.effects.close_tier_step(decodes, now) + self.effects.begin_forward(now);
        let freed = self.effects.close_batch(decodes, now);
        let ahead = self.effects.settings.scheduler.schedule_ahead;
        let accepts = ahead && self.reserves_for_accepted();
        // The next step has fewer free blocks, and may see requests that were received at once.
        let accepted = accepts && self.accept_offers(true);
        let (mut run, shape, rise) = self.time_step(decodes, waits)?;
        // Received requests were not admitted by rank: a queued request that ranks before one may displace it in the next
        // step.
        let displaces = self.effects.transfers.admitted.any()
            && self.effects.ranking.as_deref().is_some_and(|ranking| ranking.waiting() > 0);
        // A request whose KV was dropped may be admitted for less at the next step.
        let logs = freed && self.effects.observers.log.is_kept();
        // A router learns at the end of the step that a request was dropped, and may let another go.
        let lone = dropped || self.draft.removed.dropped;
        let offers = (ahead || self.reserves_for_accepted()) && self.has_offers();
        if lone || displaces || offers || accepted || ahead && logs || self.effects.logs_tree_copies() {
            rare();
            run.steps = 1;
        } else if self.effects.settings.scheduler.holds_arrivals() {
            rare();
            run.steps = self.effects.queues.steps_without_news(freed, run.steps);
        }
        if self.effects.run.pipeline().is_some() {
            rare();
            return self.effects.enter_pipeline(run, shape);
        }
        self.effects.start_run(run, shape);
        Ok(if lone || self.effects.batch.runs_chunks() { run.end() } else { self.list_steps(&run, rise) })
    }

    /// Whether acceptances leave room for those that run, which changes with each step.
    pub(super) fn reserves_for_accepted(&self) -> bool {
        self.effects.settings.handover.is_some_and(|rules| rules.reserve.is_some())
    }

    /// Whether requests are handed over, or swapped out, that the step just decided may not have seen.
    fn has_offers(&self) -> bool {
        let transfers = &self.effects.transfers;
        self.effects.waits_for_acceptance() + transfers.received() > 0
    }

    /// The record of the step that was formed.
    fn record(&mut self, decodes: bool) -> StepRecord {
        let ahead = self.effects.settings.scheduler.schedule_ahead;
        StepRecord {
            start: self.draft.now,
            preempted: std::mem::take(&mut self.draft.preempted),
            copied: self.effects.kv.cpu().copied(),
            decided: ahead.then(|| self.effects.queues.ahead().latest_start().min(self.draft.now)),
            free_blocks: self.draft.free_blocks,
            drafted: self.drafted(decodes),
            ..StepRecord::of(&self.effects.batch, decodes, &self.effects.requests)
        }
    }

    /// Gives the draft its limits.
    pub(super) fn open_draft(&mut self) {
        self.draft.limits = self.step_limits();
        self.draft.limits.chunk = self.chunk_limit(self.draft.limits.threshold);
        self.draft.tokens_left = self.draft.limits.tokens;
    }

    /// The most tokens of a prompt that a step formed now would take. `threshold`: beside other requests; 0: no limit.
    pub(super) fn chunk_limit(&self, threshold: u64) -> u64 {
        if threshold == 0 {
            return u64::MAX;
        }
        let rules = &self.effects.settings.scheduler;
        let ranked = self.effects.ranking.as_deref().map_or(0, Ranking::waiting);
        let queued =
            self.effects.queues.waiting().len() + ranked + self.effects.queues.swapped().len() as u64;
        let queued = queued + self.effects.received_in_order();
        // A lone request delays no other, so its chunks need no limit.
        let lone = self.effects.admitted() + queued <= 1 && !rules.threshold_when_alone;
        if lone { u64::MAX } else { threshold }
    }

    /// Runs the stages, with what admissions leave for outputs to come. Returns whether the decode set runs in this step.
    fn run_round(&mut self) -> bool {
        if !self.effects.settings.scheduler.reserves() {
            return self.run_stages();
        }
        rare();
        self.open_reserve();
        let decodes = self.run_stages();
        self.end_round_of_reserve(decodes);
        decodes
    }

    /// Runs the stages in order. Returns whether the decode set runs in this step.
    fn run_stages(&mut self) -> bool {
        let max_num_seqs = self.effects.settings.scheduler.max_num_seqs;
        for i in 0..self.effects.settings.scheduler.stages.len() {
            let exclusive = self.effects.settings.scheduler.exclusive_prefill
                && self.effects.batch.runs_prefills(&self.effects.requests);
            match self.effects.settings.scheduler.stages[i] {
                Stage::Running => {
                    let rules = ResumeRules {
                        prefills: true,
                        preempts_prefills: true,
                        charged: true,
                        limit: u64::MAX,
                    };
                    self.resume_running(rules);
                }
                Stage::Decodes { .. } if exclusive => {
                    rare();
                    let now = self.draft.now;
                    self.effects.pause_decode_set(now);
                    return false;
                }
                Stage::Decodes { sits_out, .. }
                    if sits_out && self.decodes_sit_out() || self.awaits_departures() =>
                {
                    rare();
                    let now = self.draft.now;
                    self.effects.evict_unheld();
                    self.effects.pause_decode_set(now);
                    return false;
                }
                Stage::Decodes { charged, seated, over_prefills, .. } => {
                    rare();
                    let prefills = if seated { self.effects.batch.scheduled().count() as u64 } else { 0 };
                    let limit = max_num_seqs.saturating_sub(prefills);
                    let rules =
                        ResumeRules { prefills: false, preempts_prefills: over_prefills, charged, limit };
                    self.resume_running(rules);
                }
                Stage::Prefills => {
                    rare();
                    self.continue_prefills();
                }
                Stage::SwapIn { .. } if self.effects.resumes_as_accepted() => {
                    rare();
                    if self.accepts_in_stage() {
                        self.restore_swapped();
                    }
                }
                Stage::SwapIn { unless_preempted } => {
                    rare();
                    if !(self.effects.queues.swapped().is_empty()
                        || unless_preempted && self.draft.has_preempted())
                    {
                        self.swap_in();
                    }
                }
                Stage::Admit { chunked, unless_preempted, unless_swapped, count_decodes, gather } => {
                    self.draft.count_decodes = count_decodes;
                    if (unless_preempted && self.draft.has_preempted())
                        || (unless_swapped && !self.effects.queues.swapped().is_empty())
                        || gather.is_some_and(|gather| !self.has_gathered(gather))
                        || self.holds_prompts()
                    {
                        continue;
                    }
                    self.admit(chunked);
                }
                Stage::Layered { .. } => {
                    rare();
                    self.run_layer_group(i);
                }
                Stage::Select { chunked, charged, reserve_blocks, .. } => {
                    rare();
                    let rules = SelectRules { chunked, charged, reserve_blocks };
                    self.select(rules);
                }
            }
        }
        true
    }

    /// Seats taken in the step that is formed.
    pub(super) fn seats_taken(&self) -> u64 {
        if self.draft.count_decodes {
            self.effects.admitted()
        } else {
            self.effects.batch.prefills(&self.effects.requests)
        }
    }
}
