//! The adapters in the GPU's memory, and those of running requests.
//!
//! As in vLLM (`vllm/lora/worker_manager.py`, `LRUCacheWorkerLoRAManager`), the GPU has a slot for each of so many adapters.
//! An adapter that no slot has is loaded for the step that admits a request of it, into a free slot or into that of the
//! adapter that has not been used for the longest.

use serde::{Deserialize, Serialize};

use super::fact::{Fact, Subject};
use crate::time::Ticks;

/// The adapters of one instance.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::instance) struct Adapters {
    most: usize,
    /// Ticks to load one.
    load: Ticks,
    slots: Vec<Loaded>,
    /// Adapters that have been left by their last running request so far.
    left: u64,
    /// Adapters loaded for the step that is formed.
    pending: u64,
    /// Whether requests that end keep their adapters until [`Self::end`].
    ahead: bool,
}

/// An adapter in a slot.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Loaded {
    adapter: u32,
    /// Running requests of it.
    running: u32,
    /// How many had been left when its last running request left it.
    left: u64,
}

impl Adapters {
    /// Slots for at most `most` adapters, each of which takes `load` ticks to load; `None` without slots.
    /// `ahead`: steps are decided ahead, so that requests that end keep their adapters until [`Self::end`].
    pub(super) fn new(most: u64, load: Ticks, ahead: bool) -> Option<Box<Self>> {
        let adapters = Self { most: most as usize, load, slots: Vec::new(), left: 0, pending: 0, ahead };
        (most > 0).then(|| Box::new(adapters))
    }

    /// Whether a request of an adapter may run beside those that run.
    pub(in crate::instance) fn may_join(&self, adapter: u32) -> bool {
        let has = |slot: &Loaded| slot.adapter == adapter || slot.running == 0;
        self.slots.len() < self.most || self.slots.iter().any(has)
    }

    /// Ticks of the adapters that were loaded since the last call.
    pub(in crate::instance) fn take_ticks(&mut self) -> Ticks {
        std::mem::take(&mut self.pending).saturating_mul(self.load)
    }

    /// Whether a fact is one of which adapters are told. It is known where the fact is told.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "so that the test drops out")]
    pub(super) fn minds(fact: Fact) -> bool {
        matches!(
            fact,
            Fact::Admitted { .. } | Fact::Preempted | Fact::Finished | Fact::Cancelled { ran: true }
        )
    }

    /// Notes a request that runs from now on, or no longer.
    #[inline(never)]
    pub(super) fn observe(&mut self, fact: Fact, of: Subject) {
        let Some(adapter) = of.trace.adapter_of(of.index()) else { return };
        match fact {
            Fact::Admitted { .. } => self.enter(adapter),
            Fact::Finished | Fact::Cancelled { ran: true } if self.ahead => {}
            // It was preempted before it had its last token, or before the end of the step in which it was to be cut short.
            Fact::Finished | Fact::Cancelled { ran: true } if !of.state.phase.is_admitted() => {}
            Fact::Preempted | Fact::Finished | Fact::Cancelled { ran: true } => self.leave(adapter),
            _ => {}
        }
    }

    /// Notes a request that has ended and that no step counts as running any more.
    pub(in crate::instance) fn end(&mut self, adapter: Option<u32>) {
        if let Some(adapter) = adapter {
            self.leave(adapter);
        }
    }

    fn enter(&mut self, adapter: u32) {
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.adapter == adapter) {
            slot.running += 1;
            return;
        }
        self.pending += 1;
        if self.slots.len() >= self.most {
            let idle = self.slots.iter().enumerate().filter(|(_, slot)| slot.running == 0);
            let oldest = idle.min_by_key(|(_, slot)| slot.left).map(|(at, _)| at);
            debug_assert!(oldest.is_some(), "Invariant: a request joins only if a slot is free");
            self.slots.swap_remove(oldest.unwrap_or(0));
        }
        self.slots.push(Loaded { adapter, running: 1, left: 0 });
    }

    fn leave(&mut self, adapter: u32) {
        let Some(slot) = self.slots.iter_mut().find(|slot| slot.adapter == adapter) else { return };
        slot.running -= 1;
        if slot.running == 0 {
            self.left += 1;
            slot.left = self.left;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_adapter_that_was_left_first_gives_up_its_slot() {
        let mut adapters = Adapters::new(2, 5, false).unwrap();
        adapters.enter(7);
        adapters.enter(8);
        adapters.enter(7);
        assert!(adapters.may_join(8) && !adapters.may_join(9), "both slots are in use");
        assert_eq!((adapters.take_ticks(), adapters.take_ticks()), (10, 0));
        adapters.leave(8);
        adapters.leave(7);
        assert!(adapters.may_join(9), "no request of 8 runs");
        adapters.leave(7);
        adapters.enter(9);
        adapters.enter(7);
        assert_eq!(adapters.take_ticks(), 5, "9 has taken the slot of 8, and 7 is still loaded");
        assert!(!adapters.may_join(8));
    }
}
