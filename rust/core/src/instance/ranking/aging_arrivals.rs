//! Requests that have arrived and never been admitted, where those that wait for long enough go before all others, in the
//! order in which they came.
//!
//! A request that has come before another is in the better class before it, and ranks before it there. So only the first
//! in the order of coming need be asked whether it has waited for that long. While one has, it is the best, and requests
//! that come meanwhile are not ranked: a request takes its place in line, and its rank is evaluated only if the line ever
//! is without one that has waited too long.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::super::view::seconds;
use super::RankKey;
use crate::policy::sort_key_of;
use crate::time::{NEVER, Ticks};
use crate::trace::Trace;

/// The row of a request that has left.
const NO_ROW: u32 = u32::MAX;

/// How many ranks of requests that have left there may be beside those of present ones.
const SPARE: usize = 64;

/// After how much waiting a request changes its class, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Guard {
    /// The class of a request that arrives.
    pub(super) class: u32,
    /// The class of one that has waited for `patience`.
    pub(super) aged_class: u32,
    /// Whether the key of that class is the arrival; if not, it has no key.
    pub(super) by_arrival: bool,
    pub(super) patience: Ticks,
}

impl Guard {
    /// The rank of a request in the class of those that have waited.
    #[inline]
    fn aged_rank(self, row: u32, trace: &Trace) -> RankKey {
        let arrival = if self.by_arrival { seconds(trace.arrival[row as usize]) } else { 0.0 };
        RankKey::new(self.aged_class, [sort_key_of(arrival), 0, 0], row)
    }
}

/// A request that has come.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    came: Ticks,
    row: u32,
}

/// The best of the requests.
#[derive(Debug, Clone, Copy)]
struct Best {
    rank: RankKey,
    /// Its place in line.
    place: u64,
    /// When it was found to have waited for too long, if it has.
    aged: Option<Ticks>,
}

/// A request that has left the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) rank: RankKey,
    pub(super) class: u32,
    /// When it entered that class.
    pub(super) entered: Ticks,
    /// Whether it had waited for too long.
    pub(super) aged: bool,
}

/// The ranked requests that have no slot, where long waits go first. A request's place in line is counted from the first
/// that ever came.
#[derive(Debug)]
pub(super) struct AgingArrivals {
    guard: Guard,
    /// From the first that has not left on.
    line: VecDeque<Waiting>,
    /// The place of the first in line.
    front: u64,
    /// Number of requests.
    present: u64,
    /// The place of the first that is not ranked yet.
    unranked: u64,
    /// Ranks and places of the ranked requests, as long as they have not aged, and of some that have left.
    by_rank: BinaryHeap<Reverse<(RankKey, u64)>>,
    /// Ranked requests that have not left.
    ranked: usize,
    best: Option<Best>,
    /// The row of the latest that came.
    latest_row: Option<u32>,
}

impl AgingArrivals {
    /// No requests.
    pub(super) fn new(guard: Guard) -> Self {
        Self {
            guard,
            line: VecDeque::new(),
            front: 0,
            present: 0,
            unranked: 0,
            by_rank: BinaryHeap::new(),
            ranked: 0,
            best: None,
            latest_row: None,
        }
    }

    /// Number of requests.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        self.present
    }

    /// Whether the request at `row` does not follow all that came before it: a router had held it. It cannot be added.
    #[inline]
    pub(super) fn is_broken_by(&self, row: u32) -> bool {
        self.latest_row.is_some_and(|latest| latest > row)
    }

    /// Adds a request that comes now. `rank` evaluates its rank in the class of those that arrive, by its row. Returns
    /// whether it is the best.
    #[inline]
    pub(super) fn add(&mut self, row: u32, now: Ticks, rank: impl Fn(u32) -> RankKey) -> bool {
        debug_assert!(!self.is_broken_by(row), "Invariant: requests come in the order of the trace");
        self.latest_row = Some(row);
        self.line.push_back(Waiting { came: now, row });
        self.present += 1;
        !self.has_aged() && self.rank_late(rank)
    }

    /// Ranks those that are not ranked yet. Returns whether the last of them is the best.
    fn rank_late(&mut self, rank: impl Fn(u32) -> RankKey) -> bool {
        let mut is_best = false;
        for place in self.unranked..self.front + self.line.len() as u64 {
            let rank = rank(self.line[(place - self.front) as usize].row);
            self.by_rank.push(Reverse((rank, place)));
            self.ranked += 1;
            is_best = self.best.is_none_or(|best| rank < best.rank);
            if is_best {
                self.best = Some(Best { rank, place, aged: None });
            }
        }
        self.unranked = self.front + self.line.len() as u64;
        is_best
    }

    /// Finds the best at `now`. `rank` evaluates the rank of a request in the class of those that arrive, by its row.
    #[inline]
    pub(super) fn settle(&mut self, now: Ticks, trace: &Trace, rank: impl Fn(u32) -> RankKey) {
        if self.has_aged() {
            return;
        }
        if let Some(first) = self.line.front().filter(|first| self.due(first) <= now) {
            let rank = self.guard.aged_rank(first.row, trace);
            self.best = Some(Best { rank, place: self.front, aged: Some(now) });
        } else if self.best.is_none() && self.present > 0 {
            self.find_best(rank);
        }
    }

    #[inline(never)]
    fn find_best(&mut self, rank: impl Fn(u32) -> RankKey) {
        while let Some(&Reverse((rank, place))) = self.by_rank.peek() {
            if is_present(&self.line, self.front, place) {
                self.best = Some(Best { rank, place, aged: None });
                break;
            }
            self.by_rank.pop();
        }
        self.rank_late(rank);
    }

    /// The rank of the best, once that is [found](Self::settle) after another was taken.
    #[inline]
    pub(super) fn first(&self) -> Option<RankKey> {
        self.best.map(|best| best.rank)
    }

    /// Removes the best. The next is to be [found](Self::settle).
    pub(super) fn take(&mut self) -> Option<Taken> {
        let Best { rank, place, aged } = self.best.take()?;
        let index = (place - self.front) as usize;
        let came = self.line[index].came;
        self.line[index].row = NO_ROW;
        while self.line.front().is_some_and(|first| first.row == NO_ROW) {
            self.line.pop_front();
            self.front += 1;
        }
        self.present -= 1;
        if place < self.unranked {
            self.ranked -= 1;
            if self.by_rank.len() > 2 * self.ranked + SPARE {
                self.forget_those_that_left();
            }
        } else {
            self.unranked = self.front;
        }
        let class = if aged.is_some() { self.guard.aged_class } else { self.guard.class };
        Some(Taken { rank, class, entered: aged.unwrap_or(came), aged: aged.is_some() })
    }

    #[inline(never)]
    fn forget_those_that_left(&mut self) {
        let (line, front) = (&self.line, self.front);
        self.by_rank.retain(|&Reverse((_, place))| is_present(line, front, place));
    }

    /// When the best may be another though none comes or leaves.
    #[inline]
    pub(super) fn next_due(&self) -> Ticks {
        match self.line.front() {
            Some(first) if !self.has_aged() => self.due(first),
            _ => NEVER,
        }
    }

    #[inline]
    fn due(&self, waiting: &Waiting) -> Ticks {
        waiting.came.saturating_add(self.guard.patience)
    }

    #[inline]
    fn has_aged(&self) -> bool {
        self.best.is_some_and(|best| best.aged.is_some())
    }

    /// The rows of all requests.
    pub(super) fn rows(&self) -> impl Iterator<Item = u32> + '_ {
        self.line.iter().map(|waiting| waiting.row).filter(|&row| row != NO_ROW)
    }

    /// All requests in the order in which they came: row, moment, class and when that was entered.
    pub(super) fn all(&self) -> impl Iterator<Item = (u32, Ticks, (u32, Ticks))> + '_ {
        let aged = self.best.and_then(|best| best.aged.map(|since| (best.place - self.front, since)));
        self.line.iter().zip(0..).filter(|(waiting, _)| waiting.row != NO_ROW).map(move |(waiting, index)| {
            let class = match aged {
                Some((first, since)) if first == index => (self.guard.aged_class, since),
                _ => (self.guard.class, waiting.came),
            };
            (waiting.row, waiting.came, class)
        })
    }

    /// When a request changes its class.
    #[inline]
    pub(super) fn guard(&self) -> Guard {
        self.guard
    }
}

/// Whether the request at a place has not left.
#[inline]
fn is_present(line: &VecDeque<Waiting>, front: u64, place: u64) -> bool {
    place >= front && line[(place - front) as usize].row != NO_ROW
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MOST_KEYS;
    use proptest::prelude::*;

    const GUARD: Guard = Guard { class: 1, aged_class: 0, by_arrival: true, patience: 10 };

    fn trace(arrival: Vec<Ticks>) -> Trace {
        Trace { arrival, ..Trace::default() }
    }

    /// The rank of a row that came at a moment, in a class.
    fn rank(class: u32, row: u32, came: Ticks, scores: &[i64]) -> RankKey {
        let key = if class == 0 { sort_key_of(seconds(came)) } else { scores[row as usize] };
        let mut keys = [0; MOST_KEYS];
        keys[0] = key;
        RankKey::new(class, keys, row)
    }

    proptest! {
        #[test]
        fn the_best_equals_that_of_a_scan_which_ranks_all_at_every_moment(
            moves in prop::collection::vec((0u64..6, 0i64..9, 0usize..3), 1..400),
        ) {
            let scores: Vec<i64> = moves.iter().map(|&(_, score, _)| score).collect();
            let arrivals = moves.iter().scan(0, |now, &(passed, ..)| { *now += passed; Some(*now) });
            let trace = trace(arrivals.collect());
            let mut aging = AgingArrivals::new(GUARD);
            let score = |row| rank(GUARD.class, row, 0, &scores);
            // Rows and moments of all requests.
            let mut all: Vec<(u32, Ticks)> = Vec::new();
            let mut now = 0;
            for (row, &(passed, _, leave)) in moves.iter().enumerate() {
                now += passed;
                let scan = |all: &[(u32, Ticks)], settled: Ticks| {
                    let class = |came: Ticks| u32::from(came + GUARD.patience > settled);
                    all.iter().map(|&(row, came)| rank(class(came), row, came, &scores)).min()
                };
                let row = row as u32;
                let before = aging.first();
                let is_best = aging.add(row, now, score);
                prop_assert_eq!(is_best, before.is_none_or(|before| score(row) < before));
                all.push((row, now));
                for _ in 0..leave {
                    aging.settle(now, &trace, score);
                    let best = scan(&all, now);
                    prop_assert_eq!(aging.first(), best);
                    let due = all.iter().map(|&(_, came)| came + GUARD.patience).min();
                    let aged = due.is_some_and(|due| due <= now);
                    prop_assert_eq!(aging.next_due(), due.filter(|_| !aged).unwrap_or(NEVER));
                    let taken = aging.take();
                    prop_assert_eq!(taken.map(|taken| (taken.rank, taken.aged)), best.map(|best| (best, aged)));
                    all.retain(|&(row, _)| Some(row) != best.map(RankKey::row));
                }
                aging.settle(now, &trace, score);
                prop_assert_eq!(aging.len(), all.len() as u64);
                prop_assert_eq!(aging.rows().collect::<Vec<_>>(), all.iter().map(|one| one.0).collect::<Vec<_>>());
                prop_assert!(aging.by_rank.len() <= 2 * all.len() + SPARE + 1);
            }
        }
    }

    #[test]
    fn a_request_that_comes_behind_an_aged_one_is_not_ranked() {
        let mut aging = AgingArrivals::new(GUARD);
        let scores = [7, 3, 5];
        let (trace, score) = (trace(vec![0, 12, 12]), |row| rank(1, row, 0, &scores));
        assert!(aging.add(0, 0, score));
        aging.settle(10, &trace, score);
        for row in 1..3 {
            assert!(!aging.add(row, 12, |_| unreachable!("it is not ranked")));
        }
        let classes: Vec<_> = aging.all().collect();
        assert_eq!(classes, [(0, 0, (0, 10)), (1, 12, (1, 12)), (2, 12, (1, 12))]);
        let first = aging.take().expect("one was added");
        assert_eq!((first.class, first.entered, first.aged, first.rank.row()), (0, 10, true, 0));
        aging.settle(13, &trace, score);
        let second = aging.take().expect("two were added");
        assert_eq!((second.class, second.entered, second.aged, second.rank.row()), (1, 12, false, 1));
        assert!(aging.is_broken_by(1) && !aging.is_broken_by(3));
    }
}
