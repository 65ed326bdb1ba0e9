//! Effects: what happens to an instance and its requests.
//!
//! Requests, their memory and the batch change here and nowhere else; beside that the engine only takes reports from an
//! instance and truncates its run. Each effect keeps the components consistent with each other, and tells the
//! observers of it as a [`Fact`]. A stage of the scheduler, a router or a monitor reads the instance, decides, and calls
//! effects.

mod accumulators;
mod admission;
mod ahead;
mod arrive;
mod cancel;
mod candidate;
mod completion;
mod expected;
mod fields;
mod halt;
mod hosted_tree;
mod listed;
mod liveness;
mod memory;
mod migration;
mod offers;
mod pipeline;
mod preemption;
mod prefixes;
mod ranks;
mod reserve;
mod standstill;
mod start;
mod steps;
mod swapped;
mod tiers;
mod verify;

pub(crate) use cancel::Cancelled;
pub(super) use candidate::{AdmissionOffer, Candidate, ChunkLoad, Place};
pub(crate) use migration::MigratingRequest;
pub(super) use tiers::AfterStep;

use std::ops::Deref;

use super::observers::{Fact, Subject};
use super::ranks::Ranks;
use super::request::Slot;
use super::view::Reader;
use super::{Instance, Recorder};
use crate::hint::rare;
use crate::time::Ticks;
use crate::trace::Trace;

/// An instance that changes, with the trace of its requests and the recorder of the result.
#[derive(Debug)]
pub(crate) struct Effects<'a> {
    /// Written here only.
    on: &'a mut Instance,
    pub(in crate::instance) trace: &'a Trace,
    recorder: &'a mut Recorder,
}

/// The instance is read through its effects, and not written.
impl Deref for Effects<'_> {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        self.on
    }
}

impl<'a> Effects<'a> {
    pub(super) fn new(on: &'a mut Instance, trace: &'a Trace, recorder: &'a mut Recorder) -> Self {
        Self { on, trace, recorder }
    }
}

impl Effects<'_> {
    /// The same effects, for a while.
    pub(super) fn again(&mut self) -> Effects<'_> {
        Effects { on: &mut *self.on, trace: self.trace, recorder: &mut *self.recorder }
    }

    /// The ranks of the requests, if they are ranked.
    fn ranks(&mut self) -> Option<Ranks<'_>> {
        let Instance { settings, requests, batch, run, observers, kv, queues, transfers, ranking, .. } =
            &mut *self.on;
        let ranking = ranking.as_deref_mut()?;
        rare();
        if let Some(accumulators) = &mut observers.accumulators {
            ranking.read_accumulators(accumulators);
        }
        let reader = Reader { settings, requests, batch, run, observers, kv };
        Some(Ranks::new(ranking, reader, queues.len() + transfers.offered(), self.trace))
    }

    /// Tells all observers what happened to a request.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the fact is known where it is told, so that most observers drop out"
    )]
    fn observe(&mut self, fact: Fact, slot: Slot, now: Ticks) {
        let Instance { settings, requests, observers, .. } = &mut *self.on;
        let state = &requests[slot];
        let prefill = settings.prefill_where_read(state.prompt);
        observers.observe(fact, Subject { slot, state, prefill, now, trace: self.trace }, self.recorder);
    }
}
