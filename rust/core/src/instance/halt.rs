//! Ending a replay while something is still under way.

use super::active::Stage;
use super::{Instance, Waiter, World};
use crate::metrics::Status;
use crate::time::Ticks;

impl Instance {
    /// Stops at `now`. Steps that have ended count; the one in progress yields
    /// nothing, but its share of the time does count.
    pub(crate) fn halt(&mut self, now: Ticks, world: &mut World) {
        self.usage.waited(self.waiting.len() as u64, now);
        if let Some(flight) = self.flight.take() {
            let ended = flight.steps_ended(now);
            if ended > 0 {
                // The step in progress holds its blocks already.
                let begun = self.decode.blocks_for(ended + 1) - self.decode.blocks_for(ended);
                self.apply(&flight, ended, world);
                let taken = self.pool.take(begun);
                debug_assert!(taken.is_ok(), "Invariant: a run never outgrows the pool");
            }
            let since = u128::from(now - flight.start) - flight.series.total(ended);
            let held = self.decode.kv_tokens() + self.decode.len() + self.partial_kv;
            self.usage.busy_ticks += since as u64;
            self.usage.running_ticks += since * u128::from(self.admitted());
            self.usage.kv_token_ticks += since * u128::from(held);
        }
        self.write_unfinished(now, world);
    }

    fn write_unfinished(&mut self, now: Ticks, world: &mut World) {
        for &waiter in &self.waiting {
            if let Waiter::New(request) = waiter {
                world.columns.status[request as usize] = Status::Waiting as u8;
            }
        }
        let slots: Vec<_> = self.order.iter().map(|&(_, slot)| slot).collect();
        for slot in slots {
            if self.table[slot].stage == Stage::Decoding {
                self.decode.leave(&mut self.table[slot], Stage::Prefilling, now);
            }
        }
        for active in self.table.iter() {
            let row = active.request as usize;
            let waits = active.stage == Stage::Preempted;
            world.columns.status[row] = if waits { Status::Waiting } else { Status::Running } as u8;
            world.columns.generated[row] = active.generated;
            world.columns.preemptions[row] = active.preemptions;
            if active.generated > 1 {
                world.columns.max_itl[row] = active.max_gap;
            }
        }
    }
}
