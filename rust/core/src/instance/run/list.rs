//! Single steps in turn whose lengths are no series.

use serde::{Deserialize, Serialize};

use super::Run;
use crate::series::Series;
use crate::time::{HORIZON, Ticks};

/// The most steps that are listed at once, beside the one in progress.
const MOST: u64 = 64;

/// Steps by the moments at which they end, each of which starts when the one before it ends.
#[derive(Debug, Default, Serialize, Deserialize)]
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

    /// Lists the single step of `head`, and steps of these lengths after it, up to the first that would end after the clock's
    /// range. A step that takes no time is in no list: what else happens at its moment comes before the next one. Returns when
    /// the last one ends, and whether there is any after the first.
    pub(super) fn fill(&mut self, head: &Run, lengths: impl Iterator<Item = Ticks>) -> (Ticks, bool) {
        self.ends.clear();
        self.applied = 0;
        let mut last = head.end();
        self.ends.push(last);
        for length in lengths {
            let end = last.saturating_add(length);
            if head.series.first.min(length) == 0 || end > HORIZON {
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

    /// The run of the first step that is not applied, if another is applied before it. Its cost is extrapolated as that of
    /// `before`.
    pub(super) fn next_run(&self, before: &Run) -> Option<Run> {
        let (start, end) = (*self.ends.get(self.applied.wrapping_sub(1))?, *self.ends.get(self.applied)?);
        let series = Series { first: end - start, slope: 0 };
        Some(Run { start, copying: 0, series, steps: 1, begun: false, decodes: true, ..*before })
    }

    /// Takes the next `steps` steps to apply, by their ends.
    pub(crate) fn take(&mut self, steps: usize) -> &[Ticks] {
        let from = self.applied;
        self.applied += steps;
        &self.ends[from..self.applied]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: Ticks, copying: Ticks, first: Ticks) -> Run {
        Run { start, copying, series: Series { first, slope: 0 }, steps: 1, ..Run::default() }
    }

    #[test]
    fn twice_as_many_steps_are_listed_while_all_are_taken() {
        let mut list = StepList::default();
        let ahead: Vec<u64> = (0..8).map(|_| list.look_ahead()).collect();
        assert_eq!(ahead, [1, 2, 4, 8, 16, 32, 64, 64]);
        list.cut();
        assert_eq!([list.look_ahead(), list.look_ahead()], [1, 2]);
    }

    #[test]
    fn steps_are_applied_in_turn() {
        let mut list = StepList::default();
        let head = run(100, 3, 7);
        assert_eq!(list.fill(&head, [12, 9].into_iter()), (131, true));
        assert_eq!([109, 110, 121, 122, 131, 999].map(|now| list.ended(now)), [0, 1, 1, 2, 3, 3]);
        assert!(list.next_run(&head).is_none(), "the first one is in progress");
        assert_eq!(list.take(2), [110, 122]);
        assert_eq!((list.len(), list.ended(131)), (1, 1));
        let next = list.next_run(&head).expect("one is left");
        assert_eq!((next.start, next.end(), next.begun, next.decodes), (122, 131, false, true));
        list.take(1);
        assert!(list.len() == 0 && list.next_run(&head).is_none());
        assert_eq!(list.fill(&run(0, 0, 9), std::iter::empty()), (9, false), "it is filled anew");
    }

    #[test]
    fn no_step_ends_after_the_range_of_the_clock() {
        let mut list = StepList::default();
        assert_eq!(list.fill(&run(0, 0, HORIZON - 5), [5, 1, 1].into_iter()), (HORIZON, true));
        assert_eq!(list.fill(&run(0, 0, 7), [u64::MAX].into_iter()), (7, false));
    }

    #[test]
    fn steps_that_take_no_time_are_not_listed() {
        let mut list = StepList::default();
        assert_eq!(list.fill(&run(5, 0, 0), [3].into_iter()), (5, false));
        assert_eq!(list.fill(&run(5, 0, 1), [1, 0, 3].into_iter()), (7, true));
        assert_eq!(list.len(), 2);
    }
}
