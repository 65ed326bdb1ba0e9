//! Accumulators that change: with the tokens of the decode set, with a request that comes to the queue, and with quanta.

use super::Effects;
use crate::instance::Instance;
use crate::instance::observers::Steps;
use crate::instance::request::Slot;
use crate::time::Ticks;

impl Effects<'_> {
    /// Charges the tokens that the members of the decode set have yielded.
    #[inline(never)]
    pub(super) fn charge_members(&mut self, steps: &Steps) {
        let Instance { batch, requests, observers, .. } = &mut *self.on;
        if let Some(accumulators) = &mut observers.accumulators {
            accumulators.observe_members(batch.members(requests), steps);
        }
    }

    /// Adds a request to the ranking that comes to the queue, where it has been admitted for `attained` before. The numbers
    /// of its groups rise first, if it has none of them waiting. Returns whether it is the best queued one, or may be selected.
    pub(super) fn enter_ranking(&mut self, slot: Slot, now: Ticks, attained: Ticks) -> bool {
        if self.on.observers.accumulators.is_some() {
            self.open_groups(slot, now);
        }
        self.ranks().is_some_and(|mut ranks| ranks.enter(slot, now, attained))
    }

    #[inline(never)]
    fn open_groups(&mut self, slot: Slot, now: Ticks) {
        // The numbers are as of the last step that has ended.
        self.apply_until(now);
        let Instance { requests, observers, ranking, .. } = &mut *self.on;
        let (Some(accumulators), Some(ranking)) = (&mut observers.accumulators, ranking) else { return };
        accumulators.note_moment(now);
        accumulators.open(slot, requests[slot].request, self.trace);
        let (waiting, last) = ranking.groups_in_queue();
        accumulators.lift(slot, &waiting, last);
        ranking.open_groups(slot, accumulators.groups(slot));
    }

    /// Notes that a step is formed now, so that numbers which fall are as of now.
    pub(in crate::instance) fn note_moment(&mut self, now: Ticks) {
        if let Some(accumulators) = &mut self.on.observers.accumulators {
            accumulators.note_moment(now);
        }
    }

    /// Adds quanta until a queued request may be admitted. Returns whether any may.
    pub(in crate::instance) fn add_quanta(&mut self) -> bool {
        let Instance { observers, ranking, .. } = &mut *self.on;
        let (Some(accumulators), Some(ranking)) = (&mut observers.accumulators, ranking) else {
            return false;
        };
        if !accumulators.refill() {
            return false;
        }
        // Each time one number more is above 0.
        while ranking.best_queued().is_none() && accumulators.add_quanta() {
            ranking.read_accumulators(accumulators);
        }
        ranking.best_queued().is_some()
    }
}
