//! Single steps in turn whose lengths are no series.

use crate::time::{HORIZON, Ticks};

/// The most steps that are listed at once, beside the one in progress.
const MOST: u64 = 64;

/// Steps by the moments at which they end, each of which starts when the one before it ends.
#[derive(Debug, Default)]
pub(crate) struct StepList {
    /// When each step ends.
    ends: Vec<Ticks>,
    /// How many of them are applied.
    applied: usize,
    /// How many steps to list next: more and more, while all are taken.
    foresight: u64,
}

impl StepList {
    /// How many steps to list now: twice as many as the time before, but for one if these were not all taken.
    pub(super) fn look_ahead(&mut self) -> u64 {
        self.foresight = (2 * self.foresight).clamp(1, MOST);
        self.foresight
    }

    /// Lists a step that ends at `end`, and steps of these lengths after it, up to the first that would end after the clock's
    /// range. Returns when the last one ends, and whether there is any after the first.
    pub(super) fn fill(&mut self, end: Ticks, lengths: impl Iterator<Item = Ticks>) -> (Ticks, bool) {
        self.ends.clear();
        self.applied = 0;
        let mut last = end;
        self.ends.push(end);
        for length in lengths {
            let end = last.saturating_add(length);
            if end > HORIZON {
                break;
            }
            self.ends.push(end);
            last = end;
        }
        (last, self.ends.len() > 1)
    }

    /// Notes that the steps after the first one are not taken.
    pub(super) fn cut(&mut self) {
        self.foresight = 0;
    }

    /// Steps that are not applied.
    pub(crate) fn len(&self) -> usize {
        self.ends.len() - self.applied
    }

    /// Steps that are not applied and have ended by `now`.
    pub(crate) fn ended(&self, now: Ticks) -> usize {
        self.ends[self.applied..].partition_point(|&end| end <= now)
    }

    /// When the first step that is not applied starts, if another is applied before it, and its length.
    pub(super) fn first(&self) -> Option<(Ticks, Ticks)> {
        let (start, end) = (*self.ends.get(self.applied.wrapping_sub(1))?, *self.ends.get(self.applied)?);
        Some((start, end - start))
    }

    /// Takes the next `steps` steps to apply, by their ends.
    pub(crate) fn take(&mut self, steps: usize) -> &[Ticks] {
        let from = self.applied;
        self.applied += steps;
        &self.ends[from..self.applied]
    }
}
