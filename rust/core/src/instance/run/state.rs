//! Which run an instance is in, and which steps are listed to follow it.

use serde::{Deserialize, Serialize};

use super::{Pipeline, Run, StepList};
use crate::config::PipelineConfig;
use crate::cost::StepShape;
use crate::instance::queues::Receipts;
use crate::time::Ticks;

/// The run in progress, and what is listed to follow it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct RunState {
    progress: Progress,
    /// The run in progress, if there is one.
    run: Run,
    /// The shape of the first step in progress.
    shape: StepShape,
    /// The single step in progress and those that follow it, if several are listed.
    list: StepList,
    /// Since when requests are admitted and no step can be formed.
    standstill: Option<Ticks>,
    /// The batches that are under way at a time, where they may be several. Then no run is in progress.
    pipeline: Option<Box<Pipeline>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Progress {
    /// No step is in progress.
    #[default]
    Idle,
    /// A run is in progress.
    Running,
    /// One step is in progress, the first of the list.
    Listed,
}

impl RunState {
    /// No run. `pipeline`: the stages through which several batches pass at a time, if they do.
    pub(crate) fn new(pipeline: Option<&PipelineConfig>) -> Self {
        Self { pipeline: pipeline.map(|config| Box::new(Pipeline::new(config))), ..Self::default() }
    }

    /// The batches under way, where they may be several.
    pub(crate) fn pipeline(&self) -> Option<&Pipeline> {
        self.pipeline.as_deref()
    }

    /// The same, to change.
    pub(crate) fn pipeline_mut(&mut self) -> Option<&mut Pipeline> {
        self.pipeline.as_deref_mut()
    }

    /// Whether no step is in progress, and no batch under way.
    pub(crate) fn rests(&self) -> bool {
        self.is_idle() && self.pipeline().is_none_or(Pipeline::is_empty)
    }

    /// Whether a step may be formed.
    pub(crate) fn may_start(&self) -> bool {
        self.is_idle() && self.pipeline().is_none_or(Pipeline::has_room)
    }

    /// Whether no step is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.progress == Progress::Idle
    }

    /// The run in progress; of a list, its first step.
    pub(crate) fn current(&self) -> Option<&Run> {
        if self.is_idle() { None } else { Some(&self.run) }
    }

    /// The run in progress, if nothing is listed to follow it.
    fn running_mut(&mut self) -> Option<&mut Run> {
        if self.progress == Progress::Running { Some(&mut self.run) } else { None }
    }

    /// The shape of the first step in progress.
    pub(crate) fn shape(&self) -> &StepShape {
        &self.shape
    }

    /// Starts a run, the first step of which has `shape`.
    pub(crate) fn start(&mut self, run: Run, shape: StepShape) {
        debug_assert!(self.is_idle(), "Invariant: one run at a time");
        (self.progress, self.run, self.shape) = (Progress::Running, run, shape);
    }

    /// How many single steps to list now.
    pub(crate) fn look_ahead(&mut self) -> u64 {
        self.list.look_ahead()
    }

    /// Lists single steps that follow the one in progress, by their lengths. Returns when the last of them ends.
    pub(crate) fn list(&mut self, lengths: impl Iterator<Item = Ticks>) -> Ticks {
        debug_assert!(self.progress == Progress::Running, "Invariant: one list is planned");
        let (end, follow) = self.list.fill(&self.run, lengths);
        if follow {
            self.progress = Progress::Listed;
        }
        end
    }

    /// Takes the list of the steps in progress, if they are listed. It may be given back to [`Self::keep_list`].
    pub(crate) fn take_list(&mut self) -> Option<StepList> {
        (self.progress == Progress::Listed).then(|| std::mem::take(&mut self.list))
    }

    /// Keeps a list whose first steps are applied, or all of them. If some are not, the run of the first of these starts, the
    /// shape of which is `shape`.
    pub(crate) fn keep_list(&mut self, list: StepList, shape: StepShape) {
        self.list = list;
        if let Some(run) = self.list.next_run(&self.run) {
            (self.run, self.shape) = (run, shape);
            self.progress = if self.list.len() > 1 { Progress::Listed } else { Progress::Running };
        }
    }

    /// Listed single steps that have ended by `now` and are not applied.
    pub(crate) fn single_steps_ended(&self, now: Ticks) -> u64 {
        match self.progress {
            Progress::Listed => self.list.ended(now) as u64,
            // A single step that has ended is applied.
            _ => 0,
        }
    }

    /// Ends the run in progress, and returns it.
    pub(crate) fn end(&mut self) -> Run {
        debug_assert!(!self.is_idle(), "Invariant: a run is in progress");
        self.progress = Progress::Idle;
        self.run
    }

    /// Puts back what is left of a run whose first `ended` steps are applied.
    pub(crate) fn resume(&mut self, run: Run, ended: u64) {
        debug_assert!(self.is_idle(), "Invariant: one run at a time");
        self.shape.decode_kv += ended * self.shape.decode_requests;
        if self.shape.decode_max_kv > 0 {
            self.shape.decode_max_kv += ended;
        }
        (self.progress, self.run) = (Progress::Running, run);
    }

    /// Marks the first step of the run as begun, if it started before `now`. Returns whether it was not before.
    pub(crate) fn begin_before(&mut self, now: Ticks) -> bool {
        let begins = !self.is_idle() && !self.run.begun && self.run.start < now;
        self.run.begun |= begins;
        begins
    }

    /// Whether the first step of a list has ended by `now`, and the next one has begun.
    pub(crate) fn is_past_head(&self, now: Ticks) -> bool {
        self.progress == Progress::Listed && self.run.end() <= now
    }

    /// Steps of the run in progress that have ended by `now`, where it has several and the decode set runs.
    pub(crate) fn ended(&self, now: Ticks) -> u64 {
        match self.current() {
            Some(run) if run.decodes && run.steps > 1 => run.steps_ended(now),
            _ => 0,
        }
    }

    /// Notes that requests are admitted and no step can be formed.
    pub(crate) fn stand_still(&mut self, now: Ticks) {
        self.standstill = Some(now);
    }

    /// Whether requests are admitted and no step could be formed.
    pub(crate) fn stands_still(&self) -> bool {
        self.standstill.is_some()
    }

    /// Since when requests are admitted and no step can be formed, if that is so.
    pub(crate) fn standstill(&self) -> Option<Ticks> {
        self.standstill
    }

    /// Ends the time in which no step could be formed. Returns when it began.
    pub(crate) fn take_standstill(&mut self) -> Option<Ticks> {
        self.standstill.take()
    }

    /// Whether a step of the decode set is in progress at `now`, as far as its steps are applied.
    pub(crate) fn is_in_step(&self, now: Ticks) -> bool {
        self.current().is_some_and(|run| run.decodes && (run.begun || run.start < now))
    }

    /// Whether the decode set, which has taken `taken` steps, takes `step` in the run in
    /// progress, and not with its last step.
    pub(crate) fn passes(&self, step: u64, taken: u64) -> bool {
        self.current().is_some_and(|run| run.decodes && run.steps > 1 && step < taken + run.steps)
    }

    /// Whether such a step, or at least the first of the run, has ended by `now`.
    pub(crate) fn has_passed(&self, step: u64, taken: u64, now: Ticks) -> bool {
        let ended = |run: &Run| run.after(step.saturating_sub(taken).max(1)) <= now;
        self.passes(step, taken) && self.current().is_some_and(ended)
    }

    /// Tokens that the step in progress computes.
    pub(crate) fn step_tokens(&self) -> Option<u64> {
        self.current().map(|_| self.shape.tokens())
    }

    /// Whether the step in progress computes prompt tokens.
    pub(crate) fn step_has_prompts(&self) -> bool {
        self.current().is_some() && self.shape.prefill_tokens > 0
    }

    /// Ticks that the step in progress takes.
    pub(crate) fn step_ticks(&self) -> Option<Ticks> {
        self.current().map(|run| run.copying + run.series.first)
    }

    /// Has the step in progress take `ticks`. Returns when it ends.
    pub(crate) fn stretch(&mut self, ticks: Ticks) -> Option<Ticks> {
        let run = self.running_mut()?;
        debug_assert_eq!(run.steps, 1, "Invariant: steps in lockstep are single");
        (run.copying, run.series.first) = (0, ticks);
        Some(run.start.saturating_add(ticks))
    }

    /// Truncates the run in progress after the step that runs at `now`; a step that ends at `now` is the last.
    /// Cancels the listed steps. Returns when the run now ends, if that changed.
    pub(crate) fn truncate(&mut self, now: Ticks) -> Option<Ticks> {
        let run = &mut self.run;
        match self.progress {
            Progress::Idle => None,
            _ if !run.begun && run.start == now => {
                run.steps = 0;
                self.progress = Progress::Running;
                Some(now)
            }
            Progress::Listed => {
                let end = run.end();
                debug_assert!(now < end, "Invariant: a step that has ended is applied");
                self.list.cut();
                self.progress = Progress::Running;
                Some(end)
            }
            Progress::Running => {
                let steps = run.steps_to_reach(now);
                shorten(run, steps)
            }
        }
    }

    /// Truncates the run in progress where an arrival at `now` is received; by `ahead` the step after the one that runs
    /// then is decided already. Returns when the run now ends, if that changed.
    pub(crate) fn truncate_at_receipt(
        &mut self,
        receipts: &Receipts,
        ahead: bool,
        now: Ticks,
    ) -> Option<Ticks> {
        match self.running_mut().filter(|run| run.begun || run.start != now) {
            Some(run) => {
                // The step after one that starts now is decided then.
                let reached = if run.start == now { 0 } else { run.steps_to_reach(now) };
                let seen = (reached + u64::from(ahead)).max(1);
                shorten(run, receipts.steps_to_next(seen))
            }
            None => self.truncate(now),
        }
    }

    /// Truncates the run in progress to `most` steps, and not before the step that
    /// runs at `now`. Returns when the run now ends, if that changed.
    pub(crate) fn truncate_to(&mut self, most: u64, now: Ticks) -> Option<Ticks> {
        let run = self.running_mut()?;
        let steps = most.max(run.steps_to_reach(now));
        shorten(run, steps)
    }
}

/// Shortens a run to `steps` steps. Returns when it now ends, if it was longer.
fn shorten(run: &mut Run, steps: u64) -> Option<Ticks> {
    if steps >= run.steps {
        return None;
    }
    run.steps = steps;
    Some(run.end())
}
