//! Applying the steps of a run.

use super::Effects;
use crate::hint::rare;
use crate::instance::observers::{Ended, Fact, Lengths, Steps};
use crate::instance::request::{Phase, Slot};
use crate::instance::run::{Run, StepList};
use crate::time::Ticks;

impl Effects<'_> {
    /// Applies the step or run in progress, which ends now. Returns how many requests
    /// finished with it.
    pub(crate) fn finish(&mut self, now: Ticks) -> u64 {
        if self.on.run.pipeline().is_some() {
            rare();
            return self.leave_pipeline(now);
        }
        if self.on.run.is_idle() {
            return 0;
        }
        let list = self.on.run.take_list();
        let run = self.on.run.end();
        self.on.batch.end_step();
        if run.steps == 0 {
            return 0;
        }
        match list {
            None => self.apply(&run, run.steps),
            Some(list) => {
                let all = list.len();
                self.apply_list(&run, list, all);
            }
        }
        let before = self.ended();
        self.on.batch.finish_layers();
        self.observe_layers((run.start, now));
        if !self.on.batch.chunks().is_empty() {
            self.finish_chunks(run.start, now, run.decodes);
        }
        if !self.on.batch.discarded().is_empty() {
            rare();
            self.discard_chunks(now);
        }
        self.finish_decodes(now);
        self.end_requests(now);
        if self.on.tiers.chunks.is_some() {
            rare();
            self.end_tier_step(&run, now);
        }
        if cfg!(debug_assertions) {
            self.check_invariants();
            self.kv.gpu().check_accounts();
        }
        self.ended() - before
    }

    /// Has the requests leave that have yielded their last token, or were cancelled in the step that ends.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as before it was named")]
    pub(super) fn end_requests(&mut self, now: Ticks) {
        if !self.on.completed.is_empty() {
            self.complete(now);
        }
        if self.on.kv.gpu().is_tree() {
            rare();
            self.insert_continuing(now);
        }
        if self.on.observers.outbox.has_cancelled() {
            rare();
            self.cancel_after_step(now);
        }
        self.on.observers.outbox.report_departures(&self.on.requests);
    }

    /// Requests that finished here, or were cancelled.
    pub(super) fn ended(&self) -> u64 {
        self.on.observers.stats.requests.finished + self.on.observers.stats.requests.cancelled
    }

    /// Applies those steps of the run in progress that have ended by `now`, so that what is
    /// kept by request is as of the last of them.
    pub(crate) fn apply_until(&mut self, now: Ticks) {
        self.apply_listed(now);
        if self.on.run.begin_before(now) {
            self.allocate_next_step();
        }
        let ended = self.on.run.ended(now);
        if ended == 0 || self.on.run.current().is_none_or(|run| ended >= run.steps) {
            return;
        }
        let mut run = self.on.run.end();
        let set = self.on.batch.decode_set();
        let later = set.blocks_for(ended + 1) - set.blocks_for_next();
        self.apply(&run, ended);
        let before = run.after(ended - 1);
        run.start = run.after(ended);
        run.copying = 0;
        run.series.first = run.series.at(ended);
        run.steps -= ended;
        run.begun = run.start < now;
        if run.begun {
            self.allocate_next_step();
        }
        self.on.observers.log.resume((before, run.start), ended, later);
        self.on.run.resume(run, ended);
    }

    /// Begins the step of the run in progress that starts at `now`: what happens at this moment from here on comes after
    /// the start of the step.
    pub(crate) fn begin_step(&mut self, now: Ticks) {
        self.apply_until(now);
        if self.on.run.begin_before(now + 1) {
            self.allocate_next_step();
        }
    }

    /// Allocates the blocks of the decode set's step that has begun.
    pub(in crate::instance) fn allocate_next_step(&mut self) {
        self.on.kv.allocate_unassigned(self.on.batch.decode_set().blocks_for_next());
        self.settle_decodes(1);
        self.on.kv.note_peak();
    }

    /// Applies `steps` of the run's steps, for the decode set and the clock.
    pub(super) fn apply(&mut self, run: &Run, steps: u64) {
        let set = self.on.batch.decode_set();
        if self.on.observers.log.is_kept() {
            rare();
            self.on.observers.log.write(run, steps, &mut self.recorder.room, |ended| {
                set.blocks_for(ended + 1) - set.blocks_for_next()
            });
        }
        if run.decodes && set.len() > 0 {
            self.allocate_steps(run, steps);
        }
        if self.on.settings.scheduler.schedule_ahead {
            rare();
            self.on.queues.ahead_mut().started(run.after(steps - 1));
            self.note_step(run.decodes && self.on.batch.decode_set().len() > 0);
            self.note_launches(run, steps);
        }
        if self.on.settings.scheduler.receive_interval > 1 {
            rare();
            let prompts = self.on.batch.runs_prefills(&self.on.requests);
            self.on.queues.receipts_mut().advance(steps, prompts);
        }
        if self.on.reserve.is_some() {
            rare();
            self.advance_reserve(steps);
        }
        self.note_first_decodes(run);
        let members = if run.decodes { self.on.batch.decode_set().len() } else { 0 };
        let ends_prefills = self.on.batch.layers().is_last();
        let shape = self.on.run.shape();
        let (discarded, discarded_tokens) = self.on.batch.count_discarded();
        let ended = Ended { run, steps, shape, members, discarded, discarded_tokens, ends_prefills };
        self.on.observers.observe_run(&ended);
        if run.copying > 0 {
            rare();
            self.apply_apart(run, steps);
        } else {
            self.apply_series(run, steps);
        }
    }

    /// Allocates the blocks of the decode set in `steps` of the run's steps, of which the first has its own once it has begun.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as before it was named")]
    fn allocate_steps(&mut self, run: &Run, steps: u64) {
        if steps > 1 || !run.begun {
            let set = self.on.batch.decode_set();
            let held = if run.begun { set.blocks_for_next() } else { 0 };
            self.on.kv.allocate_unassigned(set.blocks_for(steps) - held);
            self.settle_decodes(steps);
            self.on.kv.note_peak();
        }
    }

    /// Notes the time of the first step of requests that were handed over.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as before it was named")]
    fn note_first_decodes(&mut self, run: &Run) {
        if self.on.transfers.admitted.any() {
            rare();
            for request in self.on.transfers.admitted.drain() {
                self.recorder.columns.first_decode[request.index()] += run.after(1) - run.start;
            }
        }
    }

    /// Applies the first `steps` steps of a list, the first of which is `run`: steps of the decode set alone.
    #[inline(never)]
    pub(super) fn apply_list(&mut self, run: &Run, mut list: StepList, steps: usize) {
        let ends = list.take(steps);
        let count = steps as u64;
        self.allocate_steps(run, count);
        if self.on.reserve.is_some() {
            rare();
            self.advance_reserve(count);
        }
        self.note_first_decodes(run);
        let set = self.on.batch.decode_set();
        let (members, mut kv) = (set.len(), self.on.batch.kv_tokens_in_step(true));
        let drafts = set.drafts(count).unwrap_or_default();
        let (mut start, mut kv_ticks, mut shape) = (run.start, 0, *self.on.run.shape());
        let (discarded, discarded_tokens, ends_prefills) = (0, 0, true);
        for (&end, gained) in ends.iter().zip(set.gains()) {
            self.on.observers.observe_run(&Ended {
                run,
                steps: 1,
                shape: &shape,
                members,
                discarded,
                discarded_tokens,
                ends_prefills,
            });
            kv_ticks += u128::from(kv) * u128::from(end - start);
            (start, kv, shape.decode_kv) = (end, kv + gained, shape.decode_kv + gained);
        }
        self.on.observers.observe_steps(&Steps {
            start: run.start,
            lengths: Lengths::Ends(ends),
            count,
            ticks: u128::from(start - run.start),
            members,
            tokens: members * count + drafts.accepted - drafts.trimmed,
            drafts: Some(drafts),
            running: self.on.batch.running(),
            kv_ticks,
            decodes: true,
        });
        let (requests, gaps) = (&mut self.on.requests, &mut self.recorder.gaps);
        self.on.batch.advance_listed((run.start, ends), drafts, requests, gaps);
        shape.decode_max_kv = self.on.batch.longest_in_step(0);
        self.on.run.keep_list(list, shape);
    }

    /// Applies the first step, with its copies, and those after it.
    #[inline(never)]
    fn apply_apart(&mut self, run: &Run, steps: u64) {
        let (first, rest) = run.split();
        for (run, steps) in [(first, 1), (rest, steps - 1)] {
            if steps > 0 {
                self.apply_series(&run, steps);
            }
        }
    }

    /// Applies `steps` steps whose lengths are a series.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "it is the rest of the function before it, once a step or run")]
    fn apply_series(&mut self, run: &Run, steps: u64) {
        let series = &run.series;
        let members = if run.decodes { self.on.batch.decode_set().len() } else { 0 };
        let drafts = if members > 0 { self.on.batch.decode_set().drafts(steps) } else { None };
        let ticks = series.total(steps);
        let told = Steps {
            start: run.start,
            lengths: Lengths::Series(*series),
            count: steps,
            ticks,
            members,
            tokens: members * steps + drafts.map_or(0, |drafts| drafts.accepted - drafts.trimmed),
            drafts,
            running: self.on.batch.running(),
            kv_ticks: series.integral(self.on.batch.kv_tokens_in_step(members > 0), members, steps),
            decodes: members > 0 || self.on.batch.runs_lone_decodes(&self.on.requests),
        };
        self.on.observers.observe_steps(&told);
        if members > 0 && self.on.observers.accumulators.is_some() {
            rare();
            self.charge_members(&told);
        }
        if members > 0 {
            let steps_drafts = (steps, drafts);
            self.on.batch.advance(
                run.start,
                series,
                steps_drafts,
                &mut self.on.requests,
                &mut self.recorder.gaps,
            );
            if self.on.observers.readers.exist() {
                rare();
                let set = self.on.batch.decode_set();
                let late = set.late_joiners().iter().map(|joiner| joiner.0);
                self.on.observers.readers.advance(run, steps, self.on.batch.decoded_at(), set.step(), late);
            }
            self.on.batch.forget_late_joiners();
            while let Some((slot, step, generated)) = self.on.batch.pop_milestone(&self.on.requests, steps) {
                rare();
                let at = self.on.batch.decode_set().step() - (steps - step);
                let moments = (run.after(step - 1), run.after(step));
                self.pass_milestone((slot, generated), at, moments);
            }
        }
        if let Some(mut ranks) = self.ranks() {
            ranks.refresh_after(run, steps, members > 0);
        }
    }

    /// A member of the decode set yielded its `generated`th token, which may end its
    /// reasoning or begin its answer, with the set's `step`, from `start` to `end`.
    #[inline(never)]
    fn pass_milestone(&mut self, (slot, generated): (Slot, u32), step: u64, (start, end): (Ticks, Ticks)) {
        let state = &mut self.on.requests[slot];
        state.answering |= self.trace.reasoning(state.request.index()) == Some(generated);
        self.observe(Fact::Passed { generated, step, start }, slot, end);
    }

    /// Moves members of the decode set that have yielded their last token out of it; and those whose next step yields tokens
    /// of their reasoning and of their answer, which go on outside the set.
    fn finish_decodes(&mut self, now: Ticks) {
        while let Some(slot) = self.on.batch.decode_set().departing() {
            self.leave_decode_set(slot, Phase::Stalled, now);
            self.note_decoded(slot);
            let state = &self.on.requests[slot];
            if state.generated == state.output {
                self.on.completed.push((state.seq, slot));
            } else {
                rare();
                self.assign_blocks(slot);
                self.on.batch.keep_outside(slot, &self.on.requests);
            }
        }
    }
}
