//! What the end of a step, or of a run of equal steps, changes.

use super::active::{Phase, Slot};
use super::flight::Flight;
use super::moving::Occasion;
use super::ranks::List;
use super::{Chunk, Instance, World};
use crate::metrics::Status;
use crate::time::Ticks;

impl Instance {
    /// Applies the step or run in progress, which ends now. Returns how many
    /// requests it finished.
    pub(crate) fn finish(&mut self, now: Ticks, world: &mut World) -> u64 {
        if self.sequel.is_some() {
            self.pass_head(world);
        }
        let Some(flight) = self.flight.take() else { return 0 };
        self.under_way = 0;
        if flight.steps == 0 {
            return 0;
        }
        self.apply(&flight, flight.steps, world);
        if self.scheduler.schedule_ahead {
            self.ahead.started(flight.after(flight.steps - 1));
        }
        let before = self.usage.finished;
        if self.layers.is_last() {
            self.chunks.append(&mut self.layers.batch);
        }
        if !self.chunks.is_empty() {
            self.finish_chunks(flight.start, now, world);
        }
        while let Some(slot) = self.decode.complete() {
            self.leave_set(slot, Phase::Stalled, now);
            self.completed.push((self.table[slot].turn, slot));
        }
        if !self.completed.is_empty() {
            self.complete(now, world);
        }
        if !self.leaving.is_empty() {
            self.turn_out();
        }
        if cfg!(debug_assertions) {
            self.check();
        }
        self.usage.finished - before
    }

    /// Books `steps` of the flight's steps for the decode set and the clock.
    pub(super) fn apply(&mut self, flight: &Flight, steps: u64, world: &mut World) {
        let members = if flight.decodes { self.decode.len() } else { 0 };
        if self.log.is_some() {
            self.record_steps(flight, steps);
        }
        if members > 0 && (steps > 1 || !flight.begun) {
            let held = if flight.begun { self.decode.blocks_for_next() } else { 0 };
            let further = self.decode.blocks_for(steps) - held;
            self.memory.allocate_unassigned(further).expect("Invariant: a run never outgrows the pool");
            self.usage.peak_blocks = self.usage.peak_blocks.max(self.memory.used());
        }
        self.usage.extrapolated.add(flight.beyond, steps);
        if let Some(tally) = &mut self.tally {
            tally.add(&self.shape, steps);
        }
        if flight.copying > 0 {
            self.book_apart(flight, steps, world);
        } else {
            self.book(flight, steps, world);
        }
    }

    /// Books the first step, with its copies, and those after it.
    #[inline(never)]
    fn book_apart(&mut self, flight: &Flight, steps: u64, world: &mut World) {
        let (first, rest) = flight.split();
        for (flight, steps) in [(first, 1), (rest, steps - 1)] {
            if steps > 0 {
                self.book(&flight, steps, world);
            }
        }
    }

    /// Books `steps` steps whose lengths are a series.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "it is the rest of the function before it, once a step or run")]
    fn book(&mut self, flight: &Flight, steps: u64, world: &mut World) {
        let series = &flight.series;
        let members = if flight.decodes { self.decode.len() } else { 0 };
        let ticks = series.total(steps);
        let kv = self.decode.kv_tokens() + members + self.partial_kv;
        self.usage.steps += steps;
        self.usage.busy_ticks += ticks as u64;
        self.usage.decode_tokens += members * steps;
        self.usage.running_ticks += u128::from(self.running()) * ticks;
        self.usage.kv_token_ticks += series.integral(kv, members, steps);
        self.outstanding_tokens += members * steps;
        if members > 0 {
            self.liveness.token();
            self.decode.advance(flight.start, series, steps, &mut self.table, &mut world.gaps);
            self.decoded_at = flight.start + ticks as Ticks;
            if let Some(pacing) = &mut self.pacing {
                pacing.advance(flight, steps, self.decoded_at, self.decode.step());
                for &(slot, _) in self.decode.newcomers() {
                    pacing.goes_on_in_set(slot, self.decode.step() - steps + 1, flight.start + series.first);
                }
            }
            self.decode.forget_newcomers();
            while let Some((slot, step, generated)) = self.decode.pop_milestone(&self.table, steps) {
                self.pass(slot, step, generated, flight, steps, world);
            }
        }
        if self.intervals.is_some() {
            let alone = |chunk: &Chunk| self.table[chunk.slot].phase == Phase::Stalled;
            let decoded = members > 0 || self.chunks.iter().any(alone);
            if let Some(intervals) = self.intervals.as_mut().filter(|_| decoded) {
                intervals.add(flight.start, *series, steps);
            }
        }
        if flight.decodes && self.has_ranks_due(world) {
            self.expire(flight, steps, world);
        }
    }

    /// A member of the decode set yielded its `generated`th token, which may
    /// end its reasoning or begin its answer, with step `step` of a flight.
    #[inline(never)]
    fn pass(
        &mut self,
        slot: Slot,
        step: u64,
        generated: u32,
        flight: &Flight,
        steps: u64,
        world: &mut World,
    ) {
        let active = &self.table[slot];
        let request = active.request;
        let start = flight.after(step - 1);
        let end = flight.after(step);
        world.phases(request, generated, start, end);
        let Some(reasoning) = world.reasoning(request) else { return };
        // Who left the set and came back may pass here twice at one step.
        let passes = generated == reasoning && !active.answering;
        if passes {
            self.answering += 1;
            if self.asks_answering && active.output > reasoning {
                debug_assert_eq!(step, steps, "Invariant: a run ends where a rule is asked");
                self.turning.push((active.turn, Occasion::Answering, slot));
            }
            self.table[slot].answering = true;
        }
        let Some(pacing) = &mut self.pacing else { return };
        if passes {
            pacing.answers(slot, end);
        } else if generated == reasoning + 1 {
            pacing.first_in_set(slot, self.decode.step() - (steps - step), end);
        }
    }

    /// Takes a request into the decode set that lacks one token.
    pub(super) fn join_set(&mut self, slot: Slot, world: &World) {
        let active = &mut self.table[slot];
        if let Some(reasoning) = world.reasoning(active.request) {
            self.decode.mark(slot, active, reasoning);
        }
        self.decode.join(slot, active);
    }

    /// Takes a request out of the decode set that stays with the instance.
    pub(super) fn set_aside(&mut self, slot: Slot, now: Ticks) {
        self.leave_set(slot, Phase::Stalled, now);
        if let Some(pacing) = &mut self.pacing {
            pacing.watch(slot);
        }
    }

    /// Takes a request out of the decode set.
    pub(super) fn leave_set(&mut self, slot: Slot, phase: Phase, now: Ticks) {
        if let Some(pacing) = &mut self.pacing {
            pacing.leave(slot, self.decode.step());
        }
        self.decode.leave(slot, &mut self.table[slot], phase, now);
        if let Some(pacing) = &mut self.pacing
            && self.decode.len() == 0
        {
            pacing.clear();
        }
    }

    /// Starts to follow a request's reader, if anybody asks.
    pub(super) fn open_track(&mut self, slot: Slot, world: &World) {
        let request = self.table[slot].request;
        if let Some(pacing) = &mut self.pacing {
            pacing.open(slot, world.trace.arrival[request as usize]);
        }
    }

    /// Moves on the requests whose chunks ran in the step that ends now.
    pub(super) fn finish_chunks(&mut self, start: Ticks, now: Ticks, world: &mut World) {
        let chunks = std::mem::take(&mut self.chunks);
        for &Chunk { slot, tokens, .. } in &chunks {
            let active = &mut self.table[slot];
            active.computed += tokens;
            if active.computed < active.target() {
                self.place(slot, now, self.looks_always(), world);
                continue;
            }
            active.generated += 1;
            self.liveness.token();
            self.outstanding_tokens += 1;
            if active.generated == 1 {
                world.columns.first_token[active.request as usize] = now;
                if self.predicts {
                    let prompt = active.prompt;
                    self.prefill_delay -= self.predicted_prefill(prompt);
                }
            } else {
                let gap = now - active.last_token;
                active.max_gap = active.max_gap.max(gap);
                world.gaps.add(gap, 1);
            }
            let active = &mut self.table[slot];
            active.last_token = now;
            self.partial_kv -= u64::from(active.computed);
            let (request, generated) = (active.request, active.generated);
            let goes_on = generated < active.output;
            world.phases(request, generated, start, now);
            let reasoning = world.reasoning(request).unwrap_or(0);
            let ends_reasoning = generated == reasoning.max(1);
            self.answering += u64::from(ends_reasoning);
            self.table[slot].answering |= ends_reasoning;
            if let Some(pacing) = &mut self.pacing {
                if generated > reasoning {
                    pacing.token(slot, now);
                } else if ends_reasoning {
                    pacing.answers(slot, now);
                }
            }
            if goes_on {
                self.join_set(slot, world);
                let turn = self.table[slot].turn;
                if let Some(pacing) = &mut self.pacing {
                    pacing.join(slot, self.decode.step());
                }
                if self.asks_prefilled && generated == 1 {
                    self.turning.push((turn, Occasion::Prefilled, slot));
                }
                if self.asks_answering && generated == reasoning {
                    self.turning.push((turn, Occasion::Answering, slot));
                }
                self.place(slot, now, self.looks_always(), world);
            } else {
                let active = &mut self.table[slot];
                active.phase = Phase::Stalled;
                self.completed.push((active.turn, slot));
            }
        }
        let table = &self.table;
        self.partials.retain(|&slot| {
            let active = &table[slot];
            active.phase != Phase::Decoding
                && active.computed < active.target()
                && active.generated < active.output
        });
        self.chunks = chunks;
        self.chunks.clear();
    }

    /// Lets the requests go that have yielded all their tokens, in the order of
    /// admission: with a prefix cache it is the order in which blocks are reused.
    fn complete(&mut self, now: Ticks, world: &mut World) {
        let mut completed = std::mem::take(&mut self.completed);
        if self.memory.caches() {
            completed.sort_unstable();
        }
        for (_, slot) in completed.drain(..) {
            self.shift(slot, List::Gone, now, world);
            let active = &self.table[slot];
            self.usage.finished += 1;
            self.outstanding_tokens -= u64::from(active.prompt) + u64::from(active.output);
            let row = active.request as usize;
            let columns = &mut world.columns;
            columns.finish[row] = now;
            if active.generated > 1 {
                columns.max_itl[row] = active.max_gap;
            }
            columns.preemptions[row] = active.preemptions;
            columns.generated[row] = active.generated;
            columns.status[row] = Status::Finished as u8;
            self.answering -= 1;
            if let Some(pacing) = &mut self.pacing {
                let (answering, asked) = pacing.experience(slot);
                columns.qoe_answering[row] = answering;
                if let Some(asked) = asked {
                    columns.qoe[row] = asked;
                }
                pacing.take(slot);
            }
            if self.scheduler.schedule_ahead {
                self.linger(slot, true);
            } else {
                self.let_go(slot);
            }
        }
        self.completed = completed;
    }
}
