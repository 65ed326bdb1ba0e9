//! Booking the steps of a run.

use super::Run;
use crate::hint::rare;
use crate::instance::observers::{Ended, Fact, Steps};
use crate::instance::request::{Phase, Slot};
use crate::instance::{Instance, Recorder};
use crate::time::Ticks;
use crate::trace::Trace;

impl Instance {
    /// Books the step or run in progress, which ends now. Returns how many requests
    /// finished with it.
    pub(crate) fn finish(&mut self, now: Ticks, trace: &Trace, recorder: &mut Recorder) -> u64 {
        if self.run.planned().is_some() {
            self.apply_planned_head(trace, recorder);
        }
        let Some(run) = self.run.take() else { return 0 };
        self.batch.end_step();
        if run.steps == 0 {
            return 0;
        }
        self.apply(&run, run.steps, trace, recorder);
        let before = self.observers.stats.finished;
        self.batch.finish_layers();
        self.observe_layers((run.start, now), trace, recorder);
        if !self.batch.chunks().is_empty() {
            self.finish_chunks(run.start, now, trace, recorder);
        }
        self.finish_decodes(now);
        if !self.scratch.completed.is_empty() {
            self.complete(now, trace, recorder);
        }
        self.observers.outbox.report_departures(&self.requests);
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
        self.observers.stats.finished - before
    }

    /// Books those steps of the run in progress that have ended by `now`, so that what is
    /// kept by request is as of the last of them.
    pub(crate) fn apply_until(&mut self, now: Ticks, trace: &Trace, recorder: &mut Recorder) {
        self.apply_head(now, trace, recorder);
        if self.run.begin_before(now) {
            self.allocate_next_step();
        }
        let ended = self.run.ended(now);
        let Some(mut run) = self.run.take_if(|run| ended > 0 && ended < run.steps) else { return };
        let set = self.batch.decode_set();
        let later = set.blocks_for(ended + 1) - set.blocks_for_next();
        self.apply(&run, ended, trace, recorder);
        run.start = run.after(ended);
        run.copying = 0;
        run.series.first = run.series.at(ended);
        run.steps -= ended;
        run.begun = run.start < now;
        if run.begun {
            self.allocate_next_step();
        }
        self.observers.log.resume(run.start, ended, later);
        self.run.resume(run, ended);
    }

    /// Begins the step of the run in progress that starts at `now`: what happens at this moment from here on comes after
    /// the start of the step.
    pub(crate) fn begin_step(&mut self, now: Ticks, trace: &Trace, recorder: &mut Recorder) {
        self.apply_until(now, trace, recorder);
        if self.run.begin_before(now + 1) {
            self.allocate_next_step();
        }
    }

    /// Allocates the blocks of the decode set's step that has begun.
    pub(in crate::instance) fn allocate_next_step(&mut self) {
        self.kv.allocate_unassigned(self.batch.decode_set().blocks_for_next());
        self.kv.note_peak();
    }

    /// Books `steps` of the run's steps, for the decode set and the clock.
    pub(super) fn apply(&mut self, run: &Run, steps: u64, trace: &Trace, recorder: &mut Recorder) {
        let set = self.batch.decode_set();
        if self.observers.log.is_kept() {
            rare();
            self.observers.log.write(run, steps, &mut recorder.room, |ended| {
                set.blocks_for(ended + 1) - set.blocks_for_next()
            });
        }
        if run.decodes && set.len() > 0 && (steps > 1 || !run.begun) {
            let held = if run.begun { set.blocks_for_next() } else { 0 };
            self.kv.allocate_unassigned(set.blocks_for(steps) - held);
            self.kv.note_peak();
        }
        if self.settings.scheduler.schedule_ahead {
            rare();
            self.queues.ahead_mut().started(run.after(steps - 1));
        }
        if self.transfers.has_admitted() {
            rare();
            for row in self.transfers.drain_admitted() {
                recorder.columns.first_decode[row as usize] += run.after(1) - run.start;
            }
        }
        let members = if run.decodes { self.batch.decode_set().len() } else { 0 };
        let ends_prefills = self.batch.layers().is_last();
        let shape = self.run.shape();
        self.observers.observe_run(&Ended { run, steps, shape, members, ends_prefills });
        if run.copying > 0 {
            rare();
            self.book_apart(run, steps, trace, recorder);
        } else {
            self.book(run, steps, trace, recorder);
        }
    }

    /// Books the first step, with its copies, and those after it.
    #[inline(never)]
    fn book_apart(&mut self, run: &Run, steps: u64, trace: &Trace, recorder: &mut Recorder) {
        let (first, rest) = run.split();
        for (run, steps) in [(first, 1), (rest, steps - 1)] {
            if steps > 0 {
                self.book(&run, steps, trace, recorder);
            }
        }
    }

    /// Books `steps` steps whose lengths are a series.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "it is the rest of the function before it, once a step or run")]
    fn book(&mut self, run: &Run, steps: u64, trace: &Trace, recorder: &mut Recorder) {
        let series = &run.series;
        let members = if run.decodes { self.batch.decode_set().len() } else { 0 };
        let ticks = series.total(steps);
        self.observers.observe_steps(&Steps {
            start: run.start,
            series: *series,
            count: steps,
            ticks,
            members,
            running: self.batch.running(),
            kv: self.batch.kv_tokens() + members,
            decodes: members > 0 || self.batch.runs_lone_decodes(&self.requests),
        });
        if members > 0 {
            self.batch.advance(run.start, series, steps, &mut self.requests, &mut recorder.gaps);
            if self.observers.readers.exist() {
                rare();
                let set = self.batch.decode_set();
                let late = set.late_joiners().iter().map(|joiner| joiner.0);
                self.observers.readers.advance(run, steps, self.batch.decoded_at(), set.step(), late);
            }
            self.batch.forget_late_joiners();
            while let Some((slot, step, generated)) = self.batch.pop_milestone(&self.requests, steps) {
                rare();
                let at = self.batch.decode_set().step() - (steps - step);
                let moments = (run.after(step - 1), run.after(step));
                self.pass_milestone((slot, generated), at, moments, trace, recorder);
            }
        }
        if let Some(mut ranks) = self.ranks(trace) {
            ranks.refresh_after(run, steps, members > 0);
        }
    }

    /// A member of the decode set yielded its `generated`th token, which may end its
    /// reasoning or begin its answer, with the set's `step`, from `start` to `end`.
    #[inline(never)]
    fn pass_milestone(
        &mut self,
        (slot, generated): (Slot, u32),
        step: u64,
        (start, end): (Ticks, Ticks),
        trace: &Trace,
        recorder: &mut Recorder,
    ) {
        let state = &mut self.requests[slot];
        state.answering |= trace.reasoning(state.request as usize) == Some(generated);
        self.observe(Fact::Passed { generated, step, start }, slot, end, trace, recorder);
    }

    /// Moves members of the decode set that have yielded their last token out of it.
    fn finish_decodes(&mut self, now: Ticks) {
        while let Some(slot) = self.batch.decode_set().completed() {
            self.leave_decode_set(slot, Phase::Stalled, now);
            self.scratch.completed.push((self.requests[slot].seq, slot));
        }
    }
}
