//! Ending a replay while something is still under way.

use super::active::Phase;
use super::{Instance, World};
use crate::metrics::Status;
use crate::time::Ticks;

impl Instance {
    /// Stops at `now`. Steps that have ended count; the one in progress yields
    /// nothing, but its share of the time does count.
    pub(crate) fn halt(&mut self, now: Ticks, world: &mut World) {
        self.settle_head(now, world);
        self.book_standing(now);
        self.usage.waited(self.queued(), now);
        let mut latest = now;
        if let Some(flight) = self.flight.take() {
            let ended = flight.steps_ended(now);
            let members = if flight.decodes { self.decode.len() } else { 0 };
            if ended > 0 {
                self.apply(&flight, ended, world);
            }
            if ended > 0 || !flight.begun {
                // The step in progress holds its blocks already.
                self.hold_next();
            }
            latest = flight.after(ended);
            let since = u128::from(now - latest);
            let held = self.decode.kv_tokens() + members + self.partial_kv;
            self.usage.busy_ticks += since as u64;
            self.usage.running_ticks += since * u128::from(self.running());
            self.usage.kv_token_ticks += since * u128::from(held);
        }
        self.write_unfinished(latest, world);
    }

    fn write_unfinished(&mut self, latest: Ticks, world: &mut World) {
        self.catch_up(&world.trace);
        for waiter in self.waiting.iter().filter(|waiter| waiter.slot.is_none()) {
            world.columns.status[waiter.request as usize] = Status::Waiting as u8;
        }
        for (turn, slot) in std::mem::take(&mut self.order) {
            if self.table.holds(turn, slot) && self.table[slot].phase == Phase::Decoding {
                self.leave_set(slot, Phase::Stalled, latest);
            }
        }
        for active in self.table.iter().filter(|active| active.phase != Phase::Sending) {
            let row = active.request as usize;
            let status = if active.is_admitted() { Status::Running } else { Status::Waiting };
            world.columns.status[row] = status as u8;
            world.columns.generated[row] = active.generated;
            world.columns.preemptions[row] = active.preemptions;
            if active.generated > 1 {
                world.columns.max_itl[row] = active.max_gap;
            }
        }
    }
}
