//! The time in which a medium is free.
//!
//! Free gaps are kept, not busy intervals: a medium that is never busy has one gap, and the past is dropped. Gaps are in
//! chunks with the length of their longest gap, so that a search skips chunks in which no gap is long enough.

use std::collections::VecDeque;

use crate::time::{NEVER, Ticks};

/// The most gaps in a chunk.
const MOST: usize = 64;

/// A free gap: from its start up to its end, which is not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
#[derive(Debug)]
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
#[derive(Debug)]
pub(super) struct FreeTime {
    /// At least one chunk, in order; the last gap of all ends never.
    chunks: VecDeque<Chunk>,
}

impl FreeTime {
    /// A medium that is free forever.
    pub(super) fn new() -> Self {
        Self { chunks: VecDeque::from([Chunk::new(vec![Gap { start: 0, end: NEVER }])]) }
    }

    /// Drops gaps that end by `now`: nothing is sent in the past.
    pub(super) fn forget(&mut self, now: Ticks) {
        while self.chunks.len() > 1 && self.chunks[0].end() <= now {
            self.chunks.pop_front();
        }
        let first = &mut self.chunks[0];
        let past = first.gaps.partition_point(|gap| gap.end <= now).min(first.gaps.len() - 1);
        first.gaps.drain(..past);
    }

    /// The earliest start, at `from` or later, of a free interval of `length` ticks.
    pub(super) fn earliest(&self, from: Ticks, length: Ticks) -> Ticks {
        let first = self.chunks.partition_point(|chunk| chunk.end() <= from);
        for chunk in self.chunks.range(first.min(self.chunks.len() - 1)..) {
            if chunk.longest < length {
                continue;
            }
            let after = chunk.gaps.partition_point(|gap| gap.end <= from);
            let mut starts = chunk.gaps[after..].iter().map(|gap| (gap.start.max(from), gap.end));
            if let Some((start, _)) = starts.find(|(start, end)| end - start >= length) {
                return start;
            }
        }
        // The last gap has no end: only an interval that passes the clock's range is left.
        self.last_start().max(from)
    }

    /// Takes a free interval, at least one tick long.
    pub(super) fn take(&mut self, start: Ticks, length: Ticks) {
        let end = start.saturating_add(length);
        let at = self.chunks.partition_point(|chunk| chunk.end() <= start).min(self.chunks.len() - 1);
        let chunk = &mut self.chunks[at];
        let place = chunk.gaps.partition_point(|gap| gap.end <= start).min(chunk.gaps.len() - 1);
        let gap = chunk.gaps[place];
        debug_assert!(gap.start <= start && end <= gap.end, "the interval is free");
        let before = Gap { start: gap.start, end: start };
        let after = Gap { start: end, end: gap.end };
        // The last gap stays even if the clock's range is used up.
        let (keep_before, keep_after) = (start > gap.start, gap.end > end || gap.end == NEVER);
        match (keep_before, keep_after) {
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

    /// The time from `moment` on that has been taken.
    pub(super) fn taken_from(&self, moment: Ticks) -> Ticks {
        let last = self.last_start();
        let free: Ticks = self
            .chunks
            .iter()
            .flat_map(|chunk| &chunk.gaps)
            .map(|gap| gap.end.min(last).saturating_sub(gap.start.max(moment)))
            .sum();
        last.saturating_sub(moment) - free
    }

    /// The start of the gap without an end.
    fn last_start(&self) -> Ticks {
        self.chunks.back().and_then(|chunk| chunk.gaps.last()).map_or(0, |gap| gap.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    /// A medium of which as many even ticks are taken: so many gaps begin at odd ones, and the last has no end.
    fn with_gaps(gaps: u64) -> FreeTime {
        let mut free = FreeTime::new();
        for gap in 0..gaps {
            free.take(2 * gap, 1);
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
    fn a_chunk_of_too_many_gaps_is_split_in_two() {
        for (gaps, chunks) in [(64, vec![64]), (65, vec![32, 33]), (96, vec![32, 64]), (97, vec![32, 32, 33])]
        {
            let free = with_gaps(gaps);
            assert_eq!(free.chunks.iter().map(|chunk| chunk.gaps.len()).collect::<Vec<_>>(), chunks);
            check(&free);
        }
    }

    #[test]
    fn gaps_that_have_ended_are_forgotten_and_the_last_never() {
        // Gaps are odd ticks up to 191, and all ticks from 193 on. The first chunk's last gap is the tick 63.
        for (now, chunks, first) in
            [(62, 3, 63), (63, 3, 63), (64, 2, 65), (127, 2, 127), (128, 1, 129), (10_000, 1, 193)]
        {
            let mut free = with_gaps(97);
            free.forget(now);
            assert_eq!((free.chunks.len(), free.chunks[0].gaps[0].start), (chunks, first), "at {now}");
        }
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
