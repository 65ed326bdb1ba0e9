//! The run after a step.
//!
//! Mostly a step that brings prompts through is followed by a run of the decode
//! set with those who came, and where nobody waits that run is known when the
//! step starts. So it is planned then, and the two are one stretch to the
//! engine. Whoever looks at the instance, or comes to it, once the step has
//! ended has the step booked first; who comes before calls the plan off.

use super::flight::Flight;
use super::{Chunk, Instance, World};
use crate::cost::StepShape;
use crate::series::Series;
use crate::time::{HORIZON, Ticks};

impl Instance {
    /// Starts a run of the decode set where nobody waits and nobody else is here:
    /// what forming it stage by stage comes to. Returns when it ends.
    pub(super) fn go_on_alone(&mut self, now: Ticks, world: &World) -> Option<Ticks> {
        // Copies of an earlier attempt are charged to the step that is formed.
        if !self.landed.is_empty() || self.copied != (0, 0) {
            return None;
        }
        let (mut flight, shape) = self.plan(now, false, world)?;
        flight.begun = true;
        if let Some(ranks) = &mut self.ranks {
            ranks.round += 1;
            flight.steps = flight.steps.min(self.steps_in_rank(&flight));
        }
        self.preempted.clear();
        self.usage.peak_running = self.usage.peak_running.max(self.decode.len());
        self.hold_next();
        self.shape = shape;
        let end = flight.end();
        self.flight = Some(flight);
        Some(end)
    }

    /// The run after the step that starts, if it is known.
    pub(super) fn plan_after(&self, head: &Flight, world: &World) -> Option<(Flight, StepShape)> {
        let known = self.ranks.is_none() || self.steady_ranks || self.idle_ranks;
        if self.queued() > 0 || !known {
            return None;
        }
        self.plan(head.end(), head.decodes, world)
    }

    /// The run that begins at `start` where nobody waits, if it is known: every
    /// chunk ends its prompt before, nobody is done, and no rule is to be asked.
    /// `ran`: the decode set takes a step before.
    fn plan(&self, start: Ticks, ran: bool, world: &World) -> Option<(Flight, StepShape)> {
        if !self.plans || !world.leap || self.chunks.len() != self.partials.len() {
            return None;
        }
        let members = self.decode.len();
        let taken = u64::from(ran && members > 0);
        let mut most = u64::MAX;
        if members > 0 {
            most = self.decode.steps_to_completion();
            if self.asks_answering {
                most = most.min(self.decode.steps_to_turn());
            }
            most = most.checked_sub(taken)?;
        }
        let mut kv = self.decode.kv_tokens() + taken * members;
        let mut longest = self.decode.keeps_longest().then(|| self.decode.longest() + taken);
        for &Chunk { slot, tokens, .. } in &self.chunks {
            let active = &self.table[slot];
            let after = active.computed + tokens;
            let generated = active.generated + 1;
            let asks = self.asks_prefilled && generated == 1;
            if after < active.target() || generated >= active.output || asks {
                return None;
            }
            most = most.min(u64::from(active.output - generated));
            if self.asks_answering
                && let Some(reasoning) = world.reasoning(active.request).filter(|all| *all >= generated)
            {
                most = most.min(u64::from(reasoning - generated));
            }
            kv += u64::from(after);
            longest = longest.map(|longest| longest.max(u64::from(after)));
        }
        let come = self.chunks.len() as u64;
        let all = members + come;
        let rules = &self.scheduler;
        if most == 0 || all == 0 || all > rules.max_num_seqs || all > rules.max_num_batched_tokens {
            return None;
        }
        let (prefill_layers, layers) = self.layers.share();
        let shape = StepShape {
            decode_requests: all,
            decode_kv: kv + all,
            decode_max_kv: longest.unwrap_or(0) + 1,
            sampled: all,
            prefill_layers,
            layers,
            ..StepShape::default()
        };
        let run = self.cost.run(&shape, most);
        let steps = self.steps_with_room(run.steps, come, taken)?;
        let series = Series { first: run.first, slope: run.slope };
        let beyond = self.cost.beyond(&shape);
        let flight = Flight { start, copying: 0, series, steps, begun: false, beyond, decodes: true };
        let ends = u128::from(start) + series.total(steps);
        (ends <= u128::from(HORIZON)).then_some((flight, shape))
    }

    /// For how many steps, up to `most`, there are surely blocks for the decode
    /// set, after `taken` whose blocks it has, and for `come` more. No more than
    /// there are, and mostly all that there are.
    fn steps_with_room(&self, most: u64, come: u64, taken: u64) -> Option<u64> {
        let spare = u64::from(self.scheduler.spare_block);
        let free = self.memory.free().checked_sub(spare)?;
        let block = u64::from(self.block_tokens);
        let all = self.decode.len() + come;
        // Enough for all, with as many tokens as most have in a block: mostly so.
        if (most / block + 2).saturating_mul(all) <= free {
            return Some(most);
        }
        let rest = free.checked_sub(come.saturating_mul(most / block + 1))?;
        let held = if taken > 0 { self.decode.blocks_for_next() } else { 0 };
        let steps = if self.decode.len() > 0 {
            self.decode.steps_covered(rest + held, most + taken).checked_sub(taken)?
        } else {
            most
        };
        (steps > 0).then_some(steps)
    }

    /// Whether the step in progress has ended by `now` and the run after it has
    /// begun, though nobody has booked that.
    #[inline]
    pub(super) fn is_past_head(&self, now: Ticks) -> bool {
        self.sequel.as_ref().is_some_and(|(run, _)| run.start <= now)
    }

    /// Books the step in progress if it has ended by `now`, which begins the run
    /// planned to follow it.
    #[inline]
    pub(super) fn settle_head(&mut self, now: Ticks, world: &mut World) {
        if self.is_past_head(now) {
            self.pass_head(world);
        }
    }

    /// Books the step in progress, so that the run planned to follow it is.
    #[inline(never)]
    pub(super) fn pass_head(&mut self, world: &mut World) {
        let (Some(head), Some((run, shape))) = (self.flight.take(), self.sequel.take()) else { return };
        self.under_way = 0;
        self.apply(&head, 1, world);
        self.finish_chunks(head.start, run.start, world);
        if cfg!(debug_assertions) {
            self.check();
        }
        debug_assert_eq!(shape, self.shape(true), "Invariant: a run is what it was planned to be");
        self.shape = shape;
        self.flight = Some(run);
    }

    /// What the decode set's steps have added that have ended, one a member, and
    /// the step's `chunks` if it has: since the step or run in progress began.
    #[inline]
    pub(super) fn grown(&self, now: Ticks, chunks: u64) -> u64 {
        let members = self.decode.len();
        let Some((run, _)) = self.sequel.as_ref().filter(|(run, _)| run.start <= now) else {
            return self.ended(now) * members;
        };
        let head = if self.flight.as_ref().is_some_and(|head| head.decodes) { members } else { 0 };
        head + chunks + run.steps_ended(now) * (members + self.chunks.len() as u64)
    }
}
