//! Steps that start, or cannot.

use super::Effects;
use crate::config::GroupRule;
use crate::cost::{Extrapolation, Rise, StepShape};
use crate::hint::rare;
use crate::instance::run::Run;
use crate::instance::{Instance, StepRecord};
use crate::time::Ticks;

impl Effects<'_> {
    /// Ends the rest of an instance for which a step is formed at `now`.
    pub(in crate::instance) fn end_rest(&mut self, now: Ticks) {
        self.count_standstill(now);
        self.on.observers.load.end_rest(now);
        let waiting = self.waiting();
        self.on.observers.stats.occupancy.count_waiting(waiting, now);
        self.receive_arrivals(now);
    }

    /// Queues the arrivals that the step which is formed at `now` sees.
    pub(in crate::instance) fn receive_arrivals(&mut self, now: Ticks) {
        if self.on.settings.scheduler.holds_arrivals() {
            rare();
            self.on.queues.receive(self.on.settings.scheduler.schedule_ahead, now, self.trace);
        } else if self.on.queues.ahead().has_announced() {
            self.on.queues.receive(false, now, self.trace);
        }
    }

    /// Stays without a step from now on.
    pub(in crate::instance) fn rest(&mut self, now: Ticks) {
        // Offers may have been accepted, though no step forms.
        self.on.kv.note_peak();
        if !self.on.run.rests() {
            return;
        }
        self.on.observers.load.rest(now);
        if self.on.reserve.is_some() {
            rare();
            self.reset_reserve();
        }
        if self.on.batch.running() > 0 {
            self.on.run.stand_still(now);
        }
    }

    /// Ends a step that preempted requests: queues those that are queued once it is formed.
    pub(in crate::instance) fn requeue_after_step(&mut self) {
        self.on.transfers.admitted.forget_preempted();
        self.on.queues.requeue_after_step(&self.on.requests, self.trace);
    }

    /// Counts a step that holds prompts back for others, or begins to count anew.
    pub(in crate::instance) fn note_prompts_held(&mut self, held: bool) {
        self.on.queues.note_prompts_held(held);
    }

    /// Has the decode set not run in this step.
    pub(in crate::instance) fn pause_decode_set(&mut self, now: Ticks) {
        self.on.batch.pause_decode_set(now);
    }

    /// Moves the batch under way to its next group of layers. Returns whether there is one.
    pub(in crate::instance) fn advance_layers(&mut self) -> bool {
        self.on.batch.advance_layers()
    }

    /// Divides the prefills of this step into groups of layers, as the stage at `at` says. Returns whether there are any.
    pub(in crate::instance) fn start_layers(&mut self, depth: u32, rule: &GroupRule) -> bool {
        self.on.batch.start_layers(depth, rule, &self.on.requests)
    }

    /// Completes the batch of a step that was formed. Returns whether blocks were freed that the step did not see.
    pub(in crate::instance) fn close_batch(&mut self, decodes: bool, now: Ticks) -> bool {
        if self.on.settings.scheduler.decodes_first {
            rare();
            self.on.batch.sort_decodes_first(decodes, &mut self.on.requests);
        }
        let running = self.on.batch.running();
        self.on.observers.stats.occupancy.note_running(running);
        self.on.kv.note_peak();
        let freed = self.on.queues.ahead().defers();
        if self.on.settings.scheduler.schedule_ahead {
            rare();
            self.end_decision(true, now);
        }
        freed
    }

    /// Ticks that a step of `ticks` takes longer because of copies to and from the host, and of adapters that are loaded.
    pub(in crate::instance) fn take_copy_ticks(&mut self, ticks: Ticks) -> Ticks {
        let loads = self.on.observers.adapters.as_mut().map_or(0, |adapters| adapters.take_ticks());
        self.on.kv.take_copy_ticks(ticks).saturating_add(loads)
    }

    /// Notes the decisions of the step that starts.
    pub(in crate::instance) fn note_decisions(&mut self, record: StepRecord) {
        self.on.observers.log.begin(record);
    }

    /// Starts a run of the decode set alone, whose first step begins.
    pub(in crate::instance) fn start_decodes(&mut self, run: Run, shape: StepShape) {
        let members = self.on.batch.decode_set().len();
        self.on.observers.stats.occupancy.note_running(members);
        self.allocate_next_step();
        self.on.run.start(run, shape);
    }

    /// Starts a step or run.
    pub(in crate::instance) fn start_run(&mut self, run: Run, shape: StepShape) {
        self.on.run.start(run, shape);
        if self.on.batch.runs_chunks() {
            self.on.batch.begin_chunks();
            self.report_last_steps();
        }
    }

    /// How many single steps to list.
    pub(in crate::instance) fn look_ahead(&mut self) -> u64 {
        self.on.run.look_ahead()
    }

    /// Lists up to `most` single steps of the decode set that follow the one that has started. `rise`: the ticks of that one,
    /// and how they rise with the context. Returns when the last of them ends.
    pub(in crate::instance) fn list_steps(&mut self, rise: Option<Rise>, most: u64) -> Ticks {
        let Instance { settings, batch, run, .. } = &mut *self.on;
        let extrapolation = run.current().map_or_else(Extrapolation::default, |run| run.extrapolation);
        let mut gained = 0;
        let lengths = (1..).zip(batch.decode_set().gains()).map_while(|(step, gain)| {
            gained += gain;
            if let Some(rise) = rise {
                let ticks = rise.after(gained)?;
                debug_assert_eq!(
                    ticks,
                    settings.step_ticks(&batch.shape_after(step)),
                    "Invariant: it is a line"
                );
                return Some(ticks);
            }
            // Each step is looked up, as long as it is extrapolated as the first.
            let shape = batch.shape_after(step);
            let alike = settings.cost.extrapolation(&shape) == extrapolation;
            alike.then(|| settings.step_ticks(&shape))
        });
        run.list(lengths.take(most as usize))
    }

    /// Reports the requests whose prompt ends with the step that starts, if transfers overlap with that step.
    fn report_last_steps(&mut self) {
        if self.on.settings.handover.is_some_and(|handover| handover.overlaps) {
            self.report_each_last_step();
        }
    }

    #[inline(never)]
    fn report_each_last_step(&mut self) {
        for chunk in self.on.batch.chunks() {
            let state = &self.on.requests[chunk.slot];
            let ends = state.computed + chunk.tokens == state.target();
            if ends && state.generated == 0 {
                self.on.observers.outbox.last_step_begins(chunk.slot, &self.on.requests);
            }
        }
    }
}
