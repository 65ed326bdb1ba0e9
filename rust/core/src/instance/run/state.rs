//! Which run an instance is in, and which is planned to follow it.

use std::cell::Cell;

use super::{Run, StepList};
use crate::cost::StepShape;
use crate::instance::queues::Receipts;
use crate::time::Ticks;

/// The run in progress, and what is planned to follow it.
#[derive(Debug, Default)]
pub(crate) struct RunState {
    progress: Progress,
    /// The run in progress, if there is one.
    run: Run,
    /// The shape of the first step in progress.
    shape: StepShape,
    /// The planned run, if there is one, and the shape of its first step.
    next: (Run, StepShape),
    /// The single step in progress and those that follow it, if several are listed.
    list: StepList,
    /// The latest answer of [`Self::ended`], by its arguments: rules ask several times at one moment.
    ended: Cell<LatestEnded>,
    /// Since when requests are admitted and no step can be formed.
    standstill: Option<Ticks>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Progress {
    /// No step is in progress.
    #[default]
    Idle,
    /// A run is in progress.
    Running,
    /// One step is in progress, and the run that follows it is known.
    Planned,
    /// One step is in progress, the first of the list.
    Listed,
}

/// Steps of a run, by its start and length, that have ended at a moment.
#[derive(Debug, Clone, Copy, Default)]
struct LatestEnded {
    now: Ticks,
    start: Ticks,
    steps: u64,
    ended: u64,
}

impl RunState {
    /// Whether no step is in progress.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.progress == Progress::Idle
    }

    /// The run in progress; of a planned pair, the step before the planned run.
    #[inline]
    pub(crate) fn current(&self) -> Option<&Run> {
        if self.is_idle() { None } else { Some(&self.run) }
    }

    /// The run planned to follow the step in progress.
    #[inline]
    pub(crate) fn planned(&self) -> Option<&Run> {
        if self.progress == Progress::Planned { Some(&self.next.0) } else { None }
    }

    /// The run in progress, if none is planned to follow it.
    #[inline]
    fn running_mut(&mut self) -> Option<&mut Run> {
        if self.progress == Progress::Running { Some(&mut self.run) } else { None }
    }

    /// The shape of the first step in progress.
    #[inline]
    pub(crate) fn shape(&self) -> &StepShape {
        &self.shape
    }

    /// Starts a run, the first step of which has `shape`.
    pub(crate) fn start(&mut self, run: Run, shape: StepShape) {
        debug_assert!(self.is_idle(), "Invariant: one run at a time");
        (self.progress, self.run, self.shape) = (Progress::Running, run, shape);
    }

    /// Plans the run that follows the single step in progress. Returns when it ends.
    pub(crate) fn plan(&mut self, run: Run, shape: StepShape) -> Ticks {
        debug_assert!(self.progress == Progress::Running, "Invariant: one run is planned");
        (self.progress, self.next) = (Progress::Planned, (run, shape));
        run.end()
    }

    /// How many single steps to list now.
    pub(crate) fn look_ahead(&mut self) -> u64 {
        self.list.look_ahead()
    }

    /// Lists single steps that follow the one in progress, by their lengths. Returns when the last of them ends.
    pub(crate) fn list(&mut self, lengths: impl Iterator<Item = Ticks>) -> Ticks {
        debug_assert!(self.progress == Progress::Running, "Invariant: one list is planned");
        let (end, follow) = self.list.fill(self.run.end(), lengths);
        if follow {
            self.progress = Progress::Listed;
        }
        end
    }

    /// Takes the list of the steps in progress, or an empty one. It may be given back to [`Self::keep_list`].
    #[inline]
    pub(crate) fn take_list(&mut self) -> StepList {
        if self.progress == Progress::Listed { std::mem::take(&mut self.list) } else { StepList::default() }
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

    /// Single steps of the one in progress and those listed to follow it that have ended by `now`.
    pub(crate) fn single_steps_ended(&self, now: Ticks) -> u64 {
        match self.progress {
            Progress::Listed => self.list.ended(now) as u64,
            _ => u64::from(self.current().is_some_and(|run| run.steps > 0 && run.end() <= now)),
        }
    }

    /// Ends the run in progress, and returns it. Cancels what is planned.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Run> {
        let run = self.current().copied();
        self.progress = Progress::Idle;
        run
    }

    /// Ends the run in progress if `ends` says so, and returns it.
    #[inline]
    pub(crate) fn take_if(&mut self, ends: impl FnOnce(&Run) -> bool) -> Option<Run> {
        if self.current().is_some_and(ends) { self.take() } else { None }
    }

    /// Ends the step in progress if a run is planned to follow it. Returns both, and the shape of the run's first step.
    pub(crate) fn take_planned(&mut self) -> Option<(Run, Run, StepShape)> {
        if self.progress != Progress::Planned {
            return None;
        }
        self.progress = Progress::Idle;
        Some((self.run, self.next.0, self.next.1))
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

    /// Whether the step in progress has ended by `now`: the planned run, or the list's next step, has begun.
    #[inline]
    pub(crate) fn is_past_head(&self, now: Ticks) -> bool {
        match self.progress {
            Progress::Idle | Progress::Running => false,
            Progress::Planned => self.next.0.start <= now,
            Progress::Listed => self.run.end() <= now,
        }
    }

    /// Steps of the run in progress that have ended by `now`, where it has several and the decode set runs.
    #[inline]
    pub(crate) fn ended(&self, now: Ticks) -> u64 {
        match self.current() {
            Some(run) if run.decodes && run.steps > 1 => {
                let latest = self.ended.get();
                if (latest.now, latest.start, latest.steps) == (now, run.start, run.steps) {
                    return latest.ended;
                }
                let ended = run.steps_ended(now);
                self.ended.set(LatestEnded { now, start: run.start, steps: run.steps, ended });
                ended
            }
            _ => 0,
        }
    }

    /// Tokens that the steps which ended by `now` have added since the step or run in progress began: one for each of
    /// `members` and step, `head` by the chunks of the step in progress once it has ended, and one for each of the
    /// `joining` requests in each step after it.
    #[inline]
    pub(crate) fn growth(&self, now: Ticks, members: u64, head: u64, joining: u64) -> u64 {
        let Some(run) = self.planned().filter(|run| run.start <= now) else {
            return self.ended(now) * members;
        };
        let decoded = if self.run.decodes { members } else { 0 };
        decoded + head + run.steps_ended(now) * (members + joining)
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
    #[inline]
    pub(crate) fn take_standstill(&mut self) -> Option<Ticks> {
        self.standstill.take()
    }

    /// Whether a step of the decode set is in progress at `now`, as far as its steps are applied.
    #[inline]
    pub(crate) fn is_in_step(&self, now: Ticks) -> bool {
        self.current().is_some_and(|run| run.decodes && (run.begun || run.start < now))
    }

    /// Whether the decode set, which has taken `taken` steps, takes `step` in the run in
    /// progress, and not with its last step.
    #[inline]
    pub(crate) fn passes(&self, step: u64, taken: u64) -> bool {
        self.current().is_some_and(|run| run.decodes && run.steps > 1 && step < taken + run.steps)
    }

    /// Whether such a step, or at least the first of the run, has ended by `now`.
    #[inline]
    pub(crate) fn has_passed(&self, step: u64, taken: u64, now: Ticks) -> bool {
        let ended = |run: &Run| run.after(step.saturating_sub(taken).max(1)) <= now;
        self.passes(step, taken) && self.current().is_some_and(ended)
    }

    /// Tokens that the step in progress computes.
    pub(crate) fn step_tokens(&self) -> Option<u64> {
        self.current().map(|_| self.shape.tokens())
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
    /// Cancels the planned run. Returns when the run now ends, if that changed.
    pub(crate) fn truncate(&mut self, now: Ticks) -> Option<Ticks> {
        let run = &mut self.run;
        match self.progress {
            Progress::Idle => None,
            _ if !run.begun && run.start == now => {
                run.steps = 0;
                self.progress = Progress::Running;
                Some(now)
            }
            Progress::Planned | Progress::Listed => {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Extrapolation;
    use crate::series::Series;

    fn run(start: Ticks, steps: u64) -> Run {
        let series = Series { first: 10, slope: 0 };
        let extrapolation = Extrapolation::default();
        Run { start, copying: 0, series, steps, begun: true, extrapolation, decodes: true }
    }

    #[test]
    fn a_run_is_truncated_at_the_end_of_its_step() {
        let mut state = RunState::default();
        state.start(run(100, 5), StepShape::default());
        assert_eq!(state.truncate(150), None, "its last step ends then");
        assert_eq!(state.truncate(121), Some(130));
        assert_eq!(state.truncate(130), None);
        assert_eq!(state.truncate(120), Some(120), "a step that ends then is the last");
        assert_eq!(state.take().map(|run| run.steps), Some(2));
        assert!(state.is_idle() && state.truncate(125).is_none());
    }

    #[test]
    fn an_arrival_as_a_step_starts_is_seen_by_the_step_decided_then() {
        let truncated = |now, ahead| {
            let mut state = RunState::default();
            state.start(run(100, 9), StepShape::default());
            state.truncate_at_receipt(&Receipts::new(1), ahead, now)
        };
        // The second step is decided as the first starts, at 100, and the third as the second does, at 110.
        assert_eq!([100, 101, 110, 111].map(|now| truncated(now, true)), [110, 120, 120, 130].map(Some));
        assert_eq!([100, 101, 110, 111].map(|now| truncated(now, false)), [110, 110, 110, 120].map(Some));
    }

    #[test]
    fn a_run_is_truncated_where_an_arrival_is_received() {
        let truncated = |interval, ahead| {
            let mut state = RunState::default();
            state.start(run(100, 9), StepShape::default());
            state.truncate_at_receipt(&Receipts::new(interval), ahead, 131)
        };
        // The fourth step runs then; by a decision ahead, the fifth is decided.
        assert_eq!([truncated(1, false), truncated(1, true)], [Some(140), Some(150)]);
        assert_eq!([truncated(4, false), truncated(4, true)], [Some(140), Some(180)]);
        assert_eq!(truncated(10, false), None, "the run ends before");
    }

    #[test]
    fn truncating_cancels_the_listed_steps() {
        let mut state = RunState::default();
        state.start(run(100, 1), StepShape::default());
        assert_eq!((state.look_ahead(), state.look_ahead()), (1, 2));
        assert_eq!(state.list([12, 14].into_iter()), 136);
        assert!(!state.is_past_head(109) && state.is_past_head(110) && state.planned().is_none());
        assert_eq!([109, 110, 122, 136].map(|now| state.single_steps_ended(now)), [0, 1, 2, 3]);
        assert_eq!(state.truncate(105), Some(110));
        assert!(!state.is_past_head(110) && state.take_list().len() == 0);
        assert_eq!(state.look_ahead(), 1, "these were not all taken");
    }

    #[test]
    fn a_list_whose_first_steps_are_applied_goes_on() {
        let mut state = RunState::default();
        state.start(run(100, 1), StepShape::default());
        state.list([12, 14].into_iter());
        for (start, end, past) in [(110, 122, true), (122, 136, false)] {
            let mut list = state.take_list();
            state.take();
            list.take(1);
            state.keep_list(list, StepShape { decode_kv: start, ..StepShape::default() });
            let run = state.current().copied().expect("a step is in progress");
            assert_eq!((run.start, run.end(), state.shape().decode_kv), (start, end, start));
            assert_eq!(state.is_past_head(136), past, "nothing follows the last one");
        }
    }

    #[test]
    fn truncating_cancels_the_planned_run() {
        let mut state = RunState::default();
        state.start(run(100, 1), StepShape::default());
        assert_eq!(state.plan(run(110, 4), StepShape::default()), 150);
        assert!(!state.is_past_head(109) && state.is_past_head(110));
        assert_eq!(state.truncate(105), Some(110));
        assert!(state.planned().is_none() && state.current().is_some_and(|run| run.start == 100));
    }

    #[test]
    fn the_planned_run_follows_the_step_in_progress() {
        let mut state = RunState::default();
        state.start(run(100, 1), StepShape::default());
        let shape = StepShape { decode_requests: 3, ..StepShape::default() };
        state.plan(run(110, 4), shape);
        assert_eq!(state.growth(109, 2, 5, 1), 0);
        assert_eq!(state.growth(130, 2, 5, 1), 2 + 5 + 2 * 3);
        let (head, run, shape) = state.take_planned().expect("a run is planned");
        assert_eq!(state.shape().decode_requests, 0, "it is the step's");
        state.start(run, shape);
        assert_eq!((head.start, state.shape().decode_requests, state.ended(130)), (100, 3, 2));
    }

    #[test]
    fn what_is_left_of_a_run_has_the_shape_of_its_first_step() {
        let mut state = RunState::default();
        let shape =
            StepShape { decode_requests: 3, decode_kv: 30, decode_max_kv: 12, ..StepShape::default() };
        state.start(run(100, 5), shape);
        let run = state.take_if(|run| run.steps > 2).expect("it has five steps");
        state.resume(run, 2);
        assert_eq!((state.shape().decode_kv, state.shape().decode_max_kv), (36, 14));
    }

    #[test]
    fn a_run_that_starts_at_a_moment_has_not_begun_then() {
        let mut state = RunState::default();
        assert!(!state.begin_before(101) && !state.is_in_step(101), "nothing is in progress");
        state.start(Run { begun: false, ..run(100, 5) }, StepShape::default());
        assert!(!state.begin_before(100) && !state.is_in_step(100));
        assert!(state.is_in_step(101));
        assert!(state.begin_before(101) && !state.begin_before(101), "it begins once");
        assert!(state.is_in_step(100), "its first step has its blocks");
        state.take();
        state.start(Run { decodes: false, ..run(100, 1) }, StepShape::default());
        assert!(!state.is_in_step(101), "the decode set takes no step");
    }

    #[test]
    fn a_run_decided_ahead_that_has_not_begun_is_dropped_at_its_start() {
        for (now, end) in [(100, 100), (105, 120)] {
            let mut state = RunState::default();
            state.start(Run { begun: false, ..run(100, 5) }, StepShape::default());
            assert_eq!(state.truncate_at_receipt(&Receipts::new(1), true, now), Some(end));
        }
    }

    #[test]
    fn steps_of_a_run_of_several_end_before_it_does() {
        let mut state = RunState::default();
        state.start(run(100, 5), StepShape::default());
        assert_eq!([109, 110, 139, 140].map(|now| state.ended(now)), [0, 1, 3, 4]);
        let reached = |step| [109, 110, 139, 140].map(|now| state.has_passed(step, 10, now));
        assert_eq!(reached(9), [false, true, true, true], "no step has ended at 109");
        assert_eq!(reached(11), [false, true, true, true], "the set takes its 11th to 15th step");
        assert_eq!(reached(14), [false, false, false, true]);
        assert!(!state.passes(15, 10), "the run ends with it");
        state.take();
        assert!(!state.passes(11, 10));
        state.start(run(100, 1), StepShape::default());
        assert_eq!(state.ended(110), 0, "a single step is applied at its end");
        assert!(!state.passes(0, 10) && !state.passes(11, 10), "it is the last step");
        assert_eq!(state.plan(run(110, 4), StepShape::default()), 150);
        assert_eq!(state.growth(110, 2, 5, 1), 2 + 5, "the step has ended, and none of the run's");
    }

    #[test]
    fn the_step_in_progress_has_tokens_and_ticks() {
        let mut state = RunState::default();
        assert_eq!((state.step_tokens(), state.step_ticks()), (None, None));
        let shape = StepShape { decode_requests: 3, prefill_tokens: 7, ..StepShape::default() };
        state.start(Run { copying: 4, ..run(100, 1) }, shape);
        assert_eq!((state.step_tokens(), state.step_ticks()), (Some(10), Some(14)));
    }

    #[test]
    fn a_shape_without_decodes_grows_by_none() {
        let mut state = RunState::default();
        state.start(run(100, 5), StepShape::default());
        let run = state.take().expect("it is in progress");
        state.resume(run, 2);
        assert_eq!((state.shape().decode_kv, state.shape().decode_max_kv), (0, 0));
    }

    #[test]
    fn a_standstill_ends_once() {
        let mut state = RunState::default();
        state.stand_still(40);
        assert!(state.stands_still());
        assert_eq!((state.take_standstill(), state.take_standstill()), (Some(40), None));
        assert!(!state.stands_still());
    }
}
