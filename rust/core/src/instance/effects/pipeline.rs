//! Batches that enter a pipeline, and leave it.
//!
//! Requests stay outside the decode set, as no batch has all of those that decode.

use super::Effects;
use crate::cost::StepShape;
use crate::error::Error;
use crate::instance::batch::Flying;
use crate::instance::observers::{Ended, Fact, Lengths, Steps};
use crate::instance::request::{Phase, Slot};
use crate::instance::run::{Passing, Pipeline, Run};
use crate::instance::scheduler::Formed;
use crate::series::Series;
use crate::time::{HORIZON, Ticks};

impl Effects<'_> {
    /// Forms batches while the pipeline has places for them. Returns when the next batch leaves it, or when to return before.
    ///
    /// # Errors
    ///
    /// As [`Effects::begin`].
    #[inline(never)]
    pub(in crate::instance) fn fill_pipeline(&mut self, now: Ticks) -> Result<Option<Ticks>, Error> {
        self.count_pipeline(now);
        let mut retry_at = None;
        loop {
            while self.run.pipeline().is_some_and(Pipeline::has_room) {
                let Formed::Nothing(retry) = self.begin_one(now)? else { continue };
                retry_at = retry;
                if !self.on.run.pipeline_mut().is_some_and(Pipeline::add_empty) {
                    break;
                }
            }
            let Some(pipeline) = self.on.run.pipeline_mut() else { return Ok(None) };
            if !pipeline.drop_empty(now) {
                // A gathered batch may start, and have a place, before the next one leaves.
                return Ok(pipeline.next_end().into_iter().chain(retry_at).min());
            }
        }
    }

    /// Has the batch that was formed enter the pipeline. Returns when it leaves.
    ///
    /// # Errors
    ///
    /// If that is past the range of the clock.
    #[inline(never)]
    pub(in crate::instance) fn enter_pipeline(
        &mut self,
        mut run: Run,
        shape: StepShape,
    ) -> Result<Ticks, Error> {
        let Some(pipeline) = self.on.run.pipeline_mut() else { return Ok(run.end()) };
        let end = pipeline.pass(run.start, run.copying.saturating_add(run.series.first));
        if end > HORIZON {
            return Err(Error::past_clock(run.start, self.on.settings.index as usize));
        }
        (run.copying, run.series) = (0, Series { first: end - run.start, slope: 0 });
        let record = self.on.observers.log.take_current();
        pipeline.add(Passing { run, shape, record });
        self.on.batch.launch((run.start, end), &mut self.on.requests);
        Ok(end)
    }

    /// Ends the batch that leaves the pipeline at `now`. Returns how many requests left the instance with it.
    #[inline(never)]
    pub(super) fn leave_pipeline(&mut self, now: Ticks) -> u64 {
        self.count_pipeline(now);
        let passing = self.on.run.pipeline_mut().and_then(|pipeline| pipeline.take(now));
        let Some(batch) = passing else { return 0 };
        self.observe_batch(&batch, now);
        let before = self.ended();
        if let Some(record) = batch.record {
            self.on.observers.log.begin(*record);
            self.on.observers.log.write(&batch.run, 1, &mut self.recorder.room, |_| 0);
        }
        for chunk in self.on.batch.land() {
            self.end_chunk(chunk, (batch.run.start, now));
        }
        self.end_requests(now);
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
        self.ended() - before
    }

    /// Tells observers of a batch that has ended, whose time is counted.
    fn observe_batch(&mut self, Passing { run, shape, .. }: &Passing, now: Ticks) {
        self.on.observers.observe_run(&Ended {
            run,
            steps: 1,
            shape,
            members: 0,
            discarded: 0,
            discarded_tokens: 0,
            ends_prefills: true,
        });
        if shape.decode_requests > 0 {
            self.on.observers.load.add_interval(now - run.start);
        }
        self.observe_pipeline(1, 0, now);
    }

    /// Ends a chunk of a batch from `start` to `now`.
    fn end_chunk(&mut self, chunk: Flying, (start, now): (Ticks, Ticks)) {
        let slot = chunk.slot;
        let state = &mut self.on.requests[slot];
        if !state.phase.is_admitted() {
            // It was preempted since, and is out of the batch from now on.
            state.times.out_since = now;
        }
        self.observe(Fact::Computed { start: chunk.alone_from }, slot, now);
        if !chunk.yields {
            return;
        }
        self.yield_token(slot, (start, now));
        let state = &mut self.on.requests[slot];
        if state.generated == state.output {
            self.leave_with_last_token(slot, now);
        } else if state.phase == Phase::Prefilling {
            state.phase = Phase::Stalled;
        }
    }

    /// A request leaves that has yielded its last token: one that runs, or one that was preempted since and is queued.
    fn leave_with_last_token(&mut self, slot: Slot, now: Ticks) {
        if self.on.requests[slot].phase.is_admitted() {
            self.on.batch.remove(slot, &self.on.requests);
            self.on.requests[slot].phase = Phase::Stalled;
        } else {
            self.on.observers.stats.occupancy.count_waiting(self.waiting(), now);
            self.on.queues.remove_waiting(self.on.requests[slot].request, Some(slot));
        }
        self.on.batch.forget_flying(slot);
        self.on.completed.push((self.on.requests[slot].seq, slot));
    }

    /// Counts the time up to `now` in which batches were under way.
    pub(super) fn count_pipeline(&mut self, now: Ticks) {
        let ticks = self.on.run.pipeline_mut().map_or(0, |pipeline| pipeline.count(now));
        if ticks > 0 {
            self.observe_pipeline(0, ticks, now);
        }
    }

    /// Tells observers of `steps` batches that end at `now`, or of the time up to then in which batches were under way.
    fn observe_pipeline(&mut self, steps: u64, ticks: Ticks, now: Ticks) {
        let running = self.on.batch.running();
        self.on.observers.observe_steps(&Steps {
            start: now - ticks,
            lengths: Lengths::Series(Series { first: ticks, slope: 0 }),
            count: steps,
            ticks: u128::from(ticks),
            members: 0,
            tokens: 0,
            drafts: None,
            running,
            kv_ticks: u128::from(ticks) * u128::from(self.on.batch.kv_tokens()),
            decodes: false,
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::Simulation;
    use crate::config::PipelineConfig;
    use crate::engine::fixtures::config;
    use crate::trace::Trace;

    /// The instance of a request that goes where tokens follow each other most closely, after one of `output` tokens that the
    /// first of two instances has run.
    fn second_instance(output: u32) -> u32 {
        let rule = r#"{"rule": "pick", "min": [{"field": "inst.mean_token_interval_s"}]}"#;
        let mut config = config(&[9, 9], &format!(r#"{{"on_arrival": {rule}}}"#));
        for instance in &mut config.instances {
            instance.pipeline = Some(PipelineConfig { stages: vec![1, 1], batches: 2, empty_batches: false });
        }
        let trace = Trace {
            arrival: vec![0, 1000].into(),
            prompt_tokens: vec![32, 32].into(),
            output_tokens: vec![output, 1].into(),
            ..Trace::default()
        };
        let mut simulation = Simulation::new(&config, trace).unwrap();
        while !simulation.advance(1).unwrap() {}
        simulation.into_outcome().columns.instance[1]
    }

    #[test]
    fn a_batch_counts_as_an_interval_between_tokens_if_it_decodes() {
        assert_eq!(second_instance(1), 0, "neither instance has decoded");
        assert_eq!(second_instance(3), 1, "the first one has");
    }
}
