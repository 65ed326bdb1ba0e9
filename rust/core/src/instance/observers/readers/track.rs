//! The state of one reader.

use serde::{Deserialize, Serialize};

use crate::time::Ticks;

/// Tokens of a request that are read, and how late they came: two lines of a processor's cache.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[repr(align(64))]
pub(crate) struct Track {
    /// Tokens to read so far.
    pub(super) visible: u64,
    /// The largest `t(j) - j·d` so far.
    pub(super) most: i128,
    /// When the first token came.
    pub(super) first: i128,
    /// Arrival and the time to the first token that is asked for.
    pub(super) asked: i128,
    /// Sum of `u(i) - (first + i·d)`.
    pub(super) late: i128,
    /// Sum of `max(u(i) - (asked + i·d), 0)`.
    pub(super) late_asked: i128,
    /// When the first token is due; [`NOT_DUE`] before reasoning ends.
    pub(super) due: i128,
    /// Whether the request is a member of the decode set and has tokens to read.
    pub(super) moving: bool,
    /// The set's step that yielded the last token counted here, while it is.
    pub(super) counted: u64,
    /// Changes with each change of the track, so that outdated entries are known.
    pub(super) stamp: u32,
}

const _: () = assert!(size_of::<Track>() == 128);

/// No moment: the request still reasons.
const NOT_DUE: i128 = i128::MAX;

impl Default for Track {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Track {
    /// The track of a request whose first token is asked for at `asked`.
    pub(super) fn new(asked: i128) -> Self {
        Self {
            visible: 0,
            most: 0,
            first: 0,
            asked,
            late: 0,
            late_asked: 0,
            due: NOT_DUE,
            moving: false,
            counted: 0,
            stamp: 0,
        }
    }

    /// Notes when the first token is due, unless it has come or that is noted already. Returns whether it was noted.
    pub(super) fn await_first(&mut self, due: i128) -> bool {
        let awaits = self.visible == 0 && self.due == NOT_DUE;
        if awaits {
            self.due = due;
        }
        awaits
    }

    /// Counts a token that came at `when`, of a reader that takes one every `interval`.
    pub(super) fn count(&mut self, when: Ticks, interval: i128) {
        let when = i128::from(when);
        if self.visible == 0 {
            (self.first, self.most, self.due) = (when, when, when);
        }
        self.most = self.most.max(when - i128::from(self.visible) * interval);
        self.late += self.most - self.first;
        self.late_asked += (self.most - self.asked).max(0);
        self.visible += 1;
        self.stamp = self.stamp.wrapping_add(1);
    }

    /// Token index at the set's step `k`, less `k` and negated.
    pub(super) fn shift(&self, step: u64) -> i128 {
        i128::from(step) - i128::from(self.visible) + 1
    }

    /// When the reader runs out of the tokens counted here, if it reads or the first
    /// token is due.
    pub(super) fn deadline(&self, interval: i128) -> Option<i128> {
        if self.due == NOT_DUE {
            return None;
        }
        if self.visible == 0 {
            return Some(self.due);
        }
        Some(self.most + i128::from(self.visible) * interval)
    }

    /// The quality of experience, counted from the first token.
    pub(super) fn experience(&self, interval: i128) -> f64 {
        self.quality(self.late, self.first, interval)
    }

    /// The quality of experience, counted from when the first token was asked for.
    pub(super) fn experience_as_asked(&self, interval: i128) -> f64 {
        self.quality(self.late_asked, self.asked, interval)
    }

    /// 1 less the area by which reading is `late`, over the area under the expected curve, which begins at `from`.
    fn quality(&self, late: i128, from: i128, interval: i128) -> f64 {
        if self.visible == 0 || late <= 0 {
            return 1.0;
        }
        let tokens = i128::from(self.visible);
        let end = self.most + tokens * interval;
        let twice = 2 * tokens * (end - from) - tokens * tokens * interval;
        (1.0 - 2.0 * late as f64 / twice as f64).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_never_waits_has_the_best_experience() {
        let mut track = Track::new(100);
        for when in [90, 95, 100, 105] {
            track.count(when, 10);
        }
        assert_eq!((track.experience(10), track.experience_as_asked(10)), (1.0, 1.0));
        assert_eq!(track.deadline(10), Some(130));
    }

    #[test]
    fn lateness_is_the_area_between_the_expected_and_the_actual_curve() {
        let mut track = Track::new(0);
        for when in [0, 30, 40] {
            track.count(when, 10);
        }
        // Read at 0, 30 and 40 instead of 0, 10 and 20; the last is read until 50.
        let lost = (30.0 - 10.0) + (40.0 - 20.0);
        let expected = (50.0 - 0.0) + (50.0 - 10.0) + (50.0 - 20.0) - 3.0 * 10.0 / 2.0;
        let quality = 1.0 - lost / expected;
        assert_eq!((track.experience(10), track.experience_as_asked(10)), (quality, quality));
    }

    #[test]
    fn nothing_is_due_before_reasoning_ends() {
        let mut track = Track::new(0);
        assert_eq!(track.deadline(10), None);
        assert!(track.await_first(25) && !track.await_first(40), "it is noted once");
        assert_eq!(track.deadline(10), Some(25));
        track.count(20, 10);
        assert!(!Track { due: NOT_DUE, ..track }.await_first(40), "the first token has come");
    }
}
