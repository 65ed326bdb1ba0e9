//! Copies between the GPU and a tier of the host, for which a step waits.
//!
//! Transfers of the network take their media for a time of their own. The copies of a step are made as it starts, and
//! lengthen it: by their whole time, or where they overlap with it, by what exceeds it.

use crate::config::CopyTime;
use crate::time::Ticks;

/// The copies of an instance, in blocks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Copies {
    timing: Timing,
    /// Copied to and from the host in the step being formed.
    pending: (u64, u64),
    /// Copied to and from the host by the end of the latest step that was formed, with those pending.
    total: (u64, u64),
}

crate::checkpoint::checkpointed!(Copies {
    values: pending, total;
    fixed: timing;
});

/// The times of copies.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Timing {
    /// Of copies to the host.
    pub(super) out: CopyTime,
    /// Of copies back.
    pub(super) back: CopyTime,
    /// Whether copies overlap with the step.
    pub(super) overlapped: bool,
}

impl Copies {
    pub(super) fn new(timing: Timing) -> Self {
        Self { timing, ..Self::default() }
    }

    /// Copies blocks to the host in the step being formed.
    pub(super) fn copy_out(&mut self, blocks: u64) {
        self.pending.0 += blocks;
        self.total.0 += blocks;
    }

    /// Copies blocks back in the step being formed.
    pub(super) fn copy_in(&mut self, blocks: u64) {
        self.pending.1 += blocks;
        self.total.1 += blocks;
    }

    /// Blocks copied to and from the host in the step being formed.
    pub(super) fn pending(&self) -> (u64, u64) {
        self.pending
    }

    /// Blocks copied to and from the host.
    pub(super) fn total(&self) -> (u64, u64) {
        self.total
    }

    /// Forgets the copies made while a step was formed, and returns what they add to it; it takes `step` ticks without
    /// them.
    pub(super) fn take_ticks(&mut self, step: Ticks) -> Ticks {
        if self.pending == (0, 0) { 0 } else { self.time(step) }
    }

    #[inline(never)]
    fn time(&mut self, step: Ticks) -> Ticks {
        let (outward, inward) = std::mem::take(&mut self.pending);
        let Timing { out, back, overlapped } = self.timing;
        let copies = out.of(outward).saturating_add(back.of(inward));
        if overlapped { copies.saturating_sub(step) } else { copies }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(out: Ticks, back: Ticks, overlapped: bool) -> Timing {
        let time = |block| CopyTime { fixed: 0, block };
        Timing { out: time(out), back: time(back), overlapped }
    }

    #[test]
    fn copies_are_timed_once() {
        for (overlapped, added) in [(false, 3 * 4 + 2 * 4), (true, 3 * 4 + 2 * 4 - 15)] {
            let mut copies = Copies::new(timing(3, 2, overlapped));
            copies.copy_out(4);
            copies.copy_in(4);
            assert_eq!(copies.take_ticks(15), added);
            assert_eq!((copies.take_ticks(15), copies.total()), (0, (4, 4)));
        }
    }

    #[test]
    fn copies_that_fit_beside_the_step_add_nothing() {
        let mut copies = Copies::new(timing(3, 2, true));
        copies.copy_out(2);
        assert_eq!(copies.take_ticks(6), 0);
    }
}
