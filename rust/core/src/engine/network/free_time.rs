//! The time in which a medium is free.
//!
//! Free gaps between transfers are kept, not busy intervals, and the past is dropped. Gaps are in chunks with the length
//! of their longest gap, so that a search skips chunks in which no gap is long enough.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::time::Ticks;

/// The most gaps in a chunk.
const MOST: usize = 64;

/// A free gap: from its start up to its end, which is not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Gap {
    start: Ticks,
    end: Ticks,
}

impl Gap {
    /// The length.
    fn length(self) -> Ticks {
        self.end - self.start
    }
}

/// Consecutive gaps.
#[derive(Debug, Serialize, Deserialize)]
struct Chunk {
    /// At least one, in order, with busy time between them.
    gaps: Vec<Gap>,
    /// At least the length of the longest.
    longest: Ticks,
}

impl Chunk {
    /// A chunk of some gaps.
    fn new(gaps: Vec<Gap>) -> Self {
        let longest = gaps.iter().map(|gap| gap.length()).max().unwrap_or(0);
        Self { gaps, longest }
    }

    /// The end of the last gap.
    fn end(&self) -> Ticks {
        self.gaps.last().map_or(0, |gap| gap.end)
    }
}

/// The free time of one medium, of which transfers take intervals.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FreeTime {
    /// The gaps between transfers, in order: mostly none, as a transfer to an idle medium leaves none.
    chunks: VecDeque<Chunk>,
    /// From when on the medium is free forever.
    endless: Ticks,
}

impl FreeTime {
    /// A medium that is free forever.
    pub(super) fn new() -> Self {
        Self { chunks: VecDeque::new(), endless: 0 }
    }

    /// Forgets the time before `now`: nothing is sent in the past.
    pub(super) fn forget(&mut self, now: Ticks) {
        self.endless = self.endless.max(now);
        if !self.chunks.is_empty() {
            self.forget_gaps(now);
        }
    }

    /// Drops gaps that end by `now`.
    #[inline(never)]
    fn forget_gaps(&mut self, now: Ticks) {
        while self.chunks.front().is_some_and(|chunk| chunk.end() <= now) {
            self.chunks.pop_front();
        }
        if let Some(first) = self.chunks.front_mut() {
            let past = first.gaps.partition_point(|gap| gap.end <= now);
            first.gaps.drain(..past);
        }
    }

    /// The earliest start, at `from` or later, of a free interval of `length` ticks.
    pub(super) fn earliest(&self, from: Ticks, length: Ticks) -> Ticks {
        let gap = if self.chunks.is_empty() { None } else { self.earliest_in_gap(from, length) };
        gap.unwrap_or_else(|| self.endless.max(from))
    }

    /// As [`Self::earliest`], between transfers.
    #[inline(never)]
    fn earliest_in_gap(&self, from: Ticks, length: Ticks) -> Option<Ticks> {
        let first = self.chunks.partition_point(|chunk| chunk.end() <= from);
        for chunk in self.chunks.range(first..).filter(|chunk| chunk.longest >= length) {
            let after = chunk.gaps.partition_point(|gap| gap.end <= from);
            let mut starts = chunk.gaps[after..].iter().map(|gap| (gap.start.max(from), gap.end));
            if let Some((start, _)) = starts.find(|(start, end)| end - start >= length) {
                return Some(start);
            }
        }
        None
    }

    /// Takes a free interval, at least one tick long.
    pub(super) fn take(&mut self, start: Ticks, length: Ticks) {
        let end = start.saturating_add(length);
        if start < self.endless {
            return self.take_of_gap(start, end);
        }
        if start > self.endless {
            self.add_gap(Gap { start: self.endless, end: start });
        }
        self.endless = end;
    }

    /// Adds a gap behind all others.
    #[inline(never)]
    fn add_gap(&mut self, gap: Gap) {
        match self.chunks.back_mut().filter(|chunk| chunk.gaps.len() < MOST) {
            Some(chunk) => {
                chunk.gaps.push(gap);
                chunk.longest = chunk.longest.max(gap.length());
            }
            None => self.chunks.push_back(Chunk::new(vec![gap])),
        }
    }

    /// Takes an interval between transfers.
    #[inline(never)]
    fn take_of_gap(&mut self, start: Ticks, end: Ticks) {
        let at = self.chunks.partition_point(|chunk| chunk.end() <= start);
        let Some(chunk) = self.chunks.get_mut(at) else {
            debug_assert!(false, "Invariant: the interval is free");
            return;
        };
        let place = chunk.gaps.partition_point(|gap| gap.end <= start);
        let gap = chunk.gaps[place];
        debug_assert!(gap.start <= start && end <= gap.end, "the interval is free");
        let before = Gap { start: gap.start, end: start };
        let after = Gap { start: end, end: gap.end };
        match (start > gap.start, gap.end > end) {
            (true, true) => {
                chunk.gaps[place] = before;
                chunk.gaps.insert(place + 1, after);
            }
            (true, false) => chunk.gaps[place] = before,
            (false, true) => chunk.gaps[place] = after,
            (false, false) => {
                chunk.gaps.remove(place);
            }
        }
        if chunk.gaps.is_empty() {
            self.chunks.remove(at);
        } else if chunk.gaps.len() > MOST {
            let right = chunk.gaps.split_off(MOST / 2);
            *chunk = Chunk::new(std::mem::take(&mut chunk.gaps));
            self.chunks.insert(at + 1, Chunk::new(right));
        } else if gap.length() == chunk.longest {
            chunk.longest = chunk.gaps.iter().map(|gap| gap.length()).max().unwrap_or(0);
        }
    }

    /// The time from `moment` on that has been taken; no time before `moment` is needed any more.
    pub(super) fn taken_from(&self, moment: Ticks) -> Ticks {
        let gaps = self.chunks.iter().flat_map(|chunk| &chunk.gaps);
        let free: Ticks = gaps.map(|gap| gap.end.saturating_sub(gap.start.max(moment))).sum();
        self.endless.saturating_sub(moment) - free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::NEVER;
    use proptest::prelude::*;

    #[test]
    fn a_short_interval_goes_between_two_that_are_taken() {
        let mut free = FreeTime::new();
        free.take(0, 10);
        free.take(15, 10);
        assert_eq!((free.earliest(0, 5), free.earliest(0, 6), free.earliest(11, 5)), (10, 25, 25));
        free.take(10, 5);
        assert_eq!((free.earliest(0, 1), free.taken_from(0), free.taken_from(20)), (25, 25, 5));
    }

    #[test]
    fn an_interval_past_the_clocks_range_takes_the_last_gap() {
        let mut free = FreeTime::new();
        free.take(5, NEVER);
        assert_eq!((free.earliest(0, 5), free.earliest(0, 6)), (0, NEVER));
        free.take(NEVER, NEVER);
        assert_eq!(free.earliest(6, 1), NEVER);
    }

    /// A medium of which as many odd ticks are taken, so that the even ticks before them are gaps.
    fn with_gaps(gaps: u64) -> FreeTime {
        let mut free = FreeTime::new();
        for gap in 0..gaps {
            free.take(2 * gap + 1, 1);
        }
        free
    }

    /// Checks that no chunk is empty or too large, and that each has the length of its longest gap.
    fn check(free: &FreeTime) {
        for chunk in &free.chunks {
            assert!((1..=MOST).contains(&chunk.gaps.len()));
            assert_eq!(chunk.longest, chunk.gaps.iter().map(|gap| gap.length()).max().unwrap());
        }
    }

    #[test]
    fn gaps_fill_a_chunk_before_the_next_and_one_of_too_many_is_split_in_two() {
        let lengths = |free: &FreeTime| free.chunks.iter().map(|chunk| chunk.gaps.len()).collect::<Vec<_>>();
        for (gaps, chunks) in [(1, vec![1]), (64, vec![64]), (65, vec![64, 1]), (129, vec![64, 64, 1])] {
            let free = with_gaps(gaps);
            assert_eq!(lengths(&free), chunks);
            check(&free);
        }
        // The middle of the first gap is taken.
        let mut free = FreeTime::new();
        for gap in 0..64 {
            free.take(4 * gap + 3, 1);
        }
        free.take(1, 1);
        assert_eq!(lengths(&free), [32, 33]);
        check(&free);
    }

    #[test]
    fn gaps_that_have_ended_are_forgotten() {
        // Gaps are the even ticks up to 192, and all ticks from 194 on. The first chunk's last gap is the tick 126.
        for (now, gaps, first) in
            [(63, 65, Some(64)), (126, 34, Some(126)), (127, 33, Some(128)), (193, 0, None)]
        {
            let mut free = with_gaps(97);
            free.forget(now);
            let left: Vec<_> =
                free.chunks.iter().flat_map(|chunk| &chunk.gaps).map(|gap| gap.start).collect();
            assert_eq!((left.len(), left.first().copied()), (gaps, first), "at {now}");
        }
        // Idle time that has passed is no gap, and was not taken.
        let mut free = with_gaps(0);
        free.forget(10_000);
        free.take(10_000, 5);
        assert!(free.chunks.is_empty());
        assert_eq!((free.earliest(0, 1), free.taken_from(10_002)), (10_005, 3));
    }

    proptest! {
        #[test]
        fn among_many_gaps_the_earliest_that_is_long_enough_is_found(
            wanted in prop::collection::vec((0u64..1200, 1u64..9), 20..60),
        ) {
            // Taken: the first of every eight ticks.
            let (mut free, mut busy) = (FreeTime::new(), vec![false; 2400]);
            for eighth in 0..150 {
                free.take(8 * eighth, 1);
                busy[8 * eighth as usize] = true;
            }
            for (from, length) in wanted {
                let is_free = |at: &Ticks| !busy[*at as usize..][..length as usize].contains(&true);
                let expected = (from..busy.len() as Ticks).find(is_free).unwrap();
                prop_assert_eq!(free.earliest(from, length), expected);
                free.take(expected, length);
                busy[expected as usize..][..length as usize].fill(true);
                check(&free);
            }
            prop_assert_eq!(free.taken_from(0), busy.iter().filter(|&&busy| busy).count() as u64);
        }

        #[test]
        fn free_time_is_that_of_a_list_of_ticks(
            wanted in prop::collection::vec((0u64..3, 0u64..40, 1u64..7), 1..400),
        ) {
            let (mut free, mut busy) = (FreeTime::new(), vec![false; 8000]);
            let mut now = 0;
            for (passed, ahead, length) in wanted {
                now += passed;
                free.forget(now);
                let from = (now + ahead) as usize;
                let expected = (from..8000).find(|&at| !busy[at..at + length as usize].contains(&true)).unwrap();
                let found = free.earliest(from as u64, length);
                prop_assert_eq!(found, expected as u64);
                free.take(found, length);
                busy[expected..expected + length as usize].fill(true);
                let taken = busy[now as usize..].iter().filter(|&&busy| busy).count();
                prop_assert_eq!(free.taken_from(now), taken as u64);
            }
        }
    }
}
