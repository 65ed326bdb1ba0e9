//! The steps of a cluster's instances.

use super::Cluster;
use crate::error::Error;
use crate::hint::rare;
use crate::instance::Prospect;
use crate::time::{HORIZON, NEVER, Ticks};

/// Steps.
impl Cluster {
    /// When the next step or run ends, and on which instance.
    pub(in crate::engine) fn next_end(&self) -> (Ticks, usize) {
        self.calendar.first()
    }

    /// Whether no other step ends at the moment at which a step of this instance has ended, and no request changed its
    /// phase in it.
    pub(in crate::engine) fn is_alone(&self, index: usize, now: Ticks) -> bool {
        !self.instances[index].outbox().has_phase_changes() && self.calendar.others_are_after(index, now)
    }

    /// Ends the step or run of an instance.
    pub(in crate::engine) fn end_step(&mut self, index: usize, now: Ticks) {
        self.events.all += 1;
        let finished = self.at(index).finish(now);
        self.outstanding[index] -= finished;
        self.settled += finished;
        self.leave_if_done(index, now);
    }

    /// Ends all steps that end now, by index, and marks their instances as free. Then ends the delays that end now.
    pub(in crate::engine) fn end_steps(&mut self, now: Ticks) {
        while let (time, index) = self.calendar.first()
            && time == now
        {
            self.end_step(index, now);
            self.free(index);
        }
        while self.roles.end_delay(now).is_some() {
            rare();
            self.events.all += 1;
            self.settle_role();
        }
    }

    /// Marks an instance as free to start a step at this moment.
    pub(in crate::engine) fn free(&mut self, index: usize) {
        self.calendar.clear(index);
        self.free.push(index);
    }

    /// Starts a step on an instance, if it has one to run.
    pub(in crate::engine) fn start_step(&mut self, index: usize, now: Ticks) -> Result<(), Error> {
        let end = self.at(index).begin(now)?;
        let instance = &mut self.instances[index];
        if instance.has_pulls() {
            rare();
            self.with_pulls.push(index);
        }
        if instance.outbox().has_last_steps() {
            rare();
            self.with_last_steps.push(index);
        }
        let ended = instance.outbox_mut().take_ended();
        if ended > 0 {
            rare();
            self.outstanding[index] -= ended;
            self.settled += ended;
        }
        self.calendar.set(index, end.unwrap_or(NEVER));
        self.leave_if_done(index, now);
        Ok(())
    }

    /// Starts a step on every free instance.
    pub(in crate::engine) fn start_steps(&mut self, now: Ticks) -> Result<(), Error> {
        for at in 0..self.free.len() {
            self.start_step(self.free[at], now)?;
        }
        self.free.clear();
        Ok(())
    }

    /// Starts a step on every free instance of these, which are in the order of their index. The others stay free.
    #[inline(never)]
    pub(in crate::engine) fn start_steps_of(&mut self, these: &[usize], now: Ticks) -> Result<(), Error> {
        self.sort_free();
        let mut kept = Vec::new();
        for index in std::mem::take(&mut self.free) {
            if these.binary_search(&index).is_ok() {
                self.start_step(index, now)?;
            } else {
                kept.push(index);
            }
        }
        self.free.append(&mut kept);
        Ok(())
    }

    /// Whether an instance is free to start a step at this moment.
    pub(in crate::engine) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Sorts the free instances by index and removes duplicates.
    pub(in crate::engine) fn sort_free(&mut self) {
        self.free.sort_unstable();
        self.free.dedup();
    }

    /// Whether none of these instances runs a step.
    pub(in crate::engine) fn are_idle(&self, these: &[usize]) -> bool {
        these.iter().all(|&index| self.instances[index].is_idle())
    }

    /// The prospect of each of these instances, of a step that starts now.
    pub(in crate::engine) fn prospects(
        &mut self,
        these: &[usize],
        now: Ticks,
    ) -> impl Iterator<Item = Prospect> {
        these.iter().map(move |&index| self.at(index).prospect(now))
    }

    /// Has the step that each of these instances forms next hold its prompts back, or not.
    pub(in crate::engine) fn hold_prompts(&mut self, these: &[usize], held: bool) {
        for &index in these {
            self.instances[index].hold_prompts(held);
        }
    }

    /// Makes the step in progress of each of these instances take `ticks`.
    ///
    /// # Errors
    ///
    /// If a step would end past the range of the clock.
    pub(in crate::engine) fn stretch_steps(
        &mut self,
        these: &[usize],
        ticks: Ticks,
        now: Ticks,
    ) -> Result<(), Error> {
        for &index in these {
            if let Some(end) = self.instances[index].stretch_step(ticks) {
                if end > HORIZON {
                    return Err(Error::past_clock(now, index));
                }
                self.calendar.set(index, end);
            }
        }
        Ok(())
    }

    /// Updates the calendar after something happened to an instance: its run now ends at `end`, or where it did before.
    pub(super) fn reschedule(&mut self, index: usize, end: Option<Ticks>, now: Ticks) {
        match end {
            Some(end) if end > now => self.calendar.set(index, end),
            Some(_) => {
                // A step of the run ends at this very moment, and the run with it.
                self.end_step(index, now);
                self.free(index);
            }
            None => {
                if self.instances[index].may_start() && !self.free.contains(&index) {
                    self.free.push(index);
                }
            }
        }
    }

    /// The error of a replay in which nothing can happen any more although requests are left of those that are `expected`,
    /// `held` of them at routers.
    #[cold]
    pub(in crate::engine) fn no_progress(&self, expected: u64, held: usize, now: Ticks) -> Error {
        let left = expected.saturating_sub(self.settled);
        let blocked = self.instances.iter().find_map(|instance| instance.blockage(now));
        let rule = if held > 0 {
            format!(
                "the router holds {held} requests, and every instance is idle; routing.on_arrival must let a \
                request go once no other is left; it is not asked again because time passes, but because of a report, \
                and a request may give up"
            )
        } else {
            format!("{left} requests are on no instance and not in transfer")
        };
        blocked.unwrap_or(Error::NoProgress { instance: 0, at: now, rule })
    }
}
