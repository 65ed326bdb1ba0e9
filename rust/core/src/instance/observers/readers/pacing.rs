//! When each reader runs out of tokens, and the quality of experience.
//!
//! A reader takes visible token `i` at `u(i) = max(t(i), u(i-1) + d)`, so that
//! `u(i) = i·d + max over j <= i of (t(j) - j·d)`: a running maximum. All members
//! of the decode set get their tokens at the same moments, so a member's maximum is
//! one over a suffix of the set's. A sum of running maxima over thousands of tokens
//! is a product, except over steps that are longer than `d`. Those are kept, and
//! summed in closed form.
//!
//! Source: the pacer and the quality of experience of Andes (Liu et al., 2024);
//! PASCAL (Cho et al., HPCA 2026, section V.A) counts from the first token read.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use super::slow_steps::SlowSteps;
use super::track::Track;
use crate::collections::{IndexedHeap, SuffixMaxima};
use crate::config::Pace;
use crate::instance::request::Slot;
use crate::instance::run::Run;
use crate::time::Ticks;

/// The readers of one instance's requests.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Pacing {
    /// Ticks in which a reader takes a token.
    interval: i128,
    /// Ticks from the end of reasoning to when the first token is due.
    to_first: i128,
    /// Ticks from arrival to when the first token is asked for.
    ttft: Option<i128>,
    /// Whether it is asked if all readers are on pace.
    asks_on_pace: bool,
    tracks: Vec<Track>,
    /// Maxima of `T(k) - k·d` by the set's step `k`.
    maxima: SuffixMaxima<i128>,
    /// When the set's latest step ended, and which it was.
    latest: (Ticks, u64),
    slow: Vec<SlowSteps>,
    /// When the readers of requests outside the set, or without tokens yet, run out.
    outside: IndexedHeap<Ticks>,
    /// Lower bounds of members' `most`, as the set counts steps.
    bounds: BinaryHeap<Reverse<Bound>>,
    /// Bounds of the latest to join, apart until one is asked for.
    joined: Vec<Bound>,
}

/// A lower bound, whose it is, and the stamp of the track then.
type Bound = (i128, Slot, u32);

impl Pacing {
    /// No readers. `asks_on_pace`: whether it is asked if all readers are on pace.
    pub(crate) fn new(pace: Pace, asks_on_pace: bool) -> Self {
        Self {
            interval: i128::from(pace.interval),
            to_first: i128::from(pace.first),
            ttft: pace.ttft.map(i128::from),
            asks_on_pace,
            tracks: Vec::new(),
            maxima: SuffixMaxima::default(),
            latest: (0, 0),
            slow: Vec::new(),
            outside: IndexedHeap::default(),
            bounds: BinaryHeap::new(),
            joined: Vec::new(),
        }
    }

    /// Ticks in which a reader takes a token.
    pub(crate) fn interval(&self) -> Ticks {
        self.interval as Ticks
    }

    /// Adds the reader of a request that arrived at `arrival`.
    pub(crate) fn open(&mut self, slot: Slot, arrival: Ticks) {
        self.receive(slot, Track::new(i128::from(arrival) + self.ttft.unwrap_or(0)));
    }

    /// Adds the reader of a request that was migrated in.
    pub(crate) fn receive(&mut self, slot: Slot, track: Track) {
        let at = slot as usize;
        if at >= self.tracks.len() {
            self.tracks.resize(at + 1, Track::default());
        }
        let stamp = self.tracks[at].stamp.wrapping_add(1);
        self.tracks[at] = Track { stamp, ..track };
        self.note_deadline(slot);
    }

    /// Removes a reader, and returns its track.
    pub(crate) fn remove(&mut self, slot: Slot) -> Track {
        let track = &mut self.tracks[slot as usize];
        let removed = *track;
        *track = Track { stamp: removed.stamp.wrapping_add(1), ..Track::default() };
        self.outside.remove(slot);
        removed
    }

    /// The reasoning of a request ended at `when`.
    pub(crate) fn begin_answer(&mut self, slot: Slot, when: Ticks) {
        let due = i128::from(when) + self.to_first;
        if self.tracks[slot as usize].await_first(due) {
            self.note_deadline(slot);
        }
    }

    /// A request outside the set yields a visible token, after which it joins the set
    /// or finishes.
    pub(crate) fn token(&mut self, slot: Slot, when: Ticks) {
        self.tracks[slot as usize].count(when, self.interval);
        self.outside.remove(slot);
    }

    /// A member of the set yields its first visible token at the set's `step`.
    pub(crate) fn first_in_set(&mut self, slot: Slot, step: u64, when: Ticks) {
        if self.tracks[slot as usize].visible > 0 {
            return;
        }
        self.token(slot, when);
        self.join(slot, step);
    }

    /// A late joiner yields its first token with the set, at the set's `step`, if its
    /// reader had tokens before.
    pub(crate) fn first_after_joining_late(&mut self, slot: Slot, step: u64, when: Ticks) {
        if self.tracks[slot as usize].visible > 0 {
            self.token(slot, when);
            self.join(slot, step);
        }
    }

    /// A request joins the set, which has taken `step` steps.
    pub(crate) fn join(&mut self, slot: Slot, step: u64) {
        if self.tracks[slot as usize].visible > 0 {
            self.follow(slot, step);
        }
    }

    /// Follows a member whose reader has tokens to read.
    #[inline(never)]
    fn follow(&mut self, slot: Slot, step: u64) {
        let interval = self.interval;
        let track = &mut self.tracks[slot as usize];
        track.moving = true;
        track.counted = step;
        track.stamp = track.stamp.wrapping_add(1);
        if self.asks_on_pace {
            let bound = track.most - track.shift(step) * interval;
            self.joined.push((bound, slot, track.stamp));
            if self.joined.len() > 64 + 4 * self.tracks.len() {
                self.take_in_joined();
            }
        }
    }

    /// Adds the bounds of the latest to join to the heap, and drops outdated ones.
    #[inline(never)]
    fn take_in_joined(&mut self) {
        let tracks = &self.tracks;
        self.bounds.retain(|&Reverse((_, slot, stamp))| tracks[slot as usize].stamp == stamp);
        let joined = self.joined.drain(..).filter(|&(_, slot, stamp)| tracks[slot as usize].stamp == stamp);
        self.bounds.extend(joined.map(Reverse));
    }

    /// A member leaves the set, which has taken `step` steps. If it stays on the
    /// instance, its [deadline is to be noted](Self::note_deadline).
    pub(crate) fn leave(&mut self, slot: Slot, step: u64) {
        if !self.tracks[slot as usize].moving {
            return;
        }
        let track = self.counted(slot, step);
        self.tracks[slot as usize] =
            Track { moving: false, stamp: self.tracks[slot as usize].stamp.wrapping_add(1), ..track };
    }

    /// Forgets the set's steps: it is empty.
    pub(crate) fn clear(&mut self) {
        self.maxima.clear();
        self.slow.clear();
    }

    /// The set has taken `steps` steps of a run, which ended at `end`, and `after` in all.
    pub(crate) fn advance(&mut self, run: &Run, steps: u64, end: Ticks, after: u64) {
        // Steps shorter than the interval, without a pause before, raise no maximum.
        let follows = run.start == self.latest.0 && after - steps == self.latest.1 && self.latest.1 > 0;
        if !follows || i128::from(run.series.at(steps - 1)) > self.interval {
            self.note_slow(run, steps, after);
        }
        self.latest = (end, after);
    }

    #[inline(never)]
    fn note_slow(&mut self, run: &Run, steps: u64, after: u64) {
        let interval = self.interval;
        let slow = SlowSteps { before: after - steps, start: run.start, series: run.series, steps };
        let (first, last) = (slow.at(slow.before + 1, interval), slow.at(after, interval));
        let (ended, step) = self.latest;
        let latest = if step == 0 { i128::MIN } else { i128::from(ended) - i128::from(step) * interval };
        if first > latest || i128::from(run.series.at(steps - 1)) > interval {
            if self.slow.len() >= MANY && self.slow.len().is_power_of_two() {
                self.forget_slow();
            }
            self.slow.push(slow);
            self.maxima.push(slow.before + 1, first);
            if steps > 1 {
                self.maxima.push(after, last);
            }
        }
    }

    /// Forgets steps that no member has left to count.
    fn forget_slow(&mut self) {
        let earliest = self.tracks.iter().filter(|track| track.moving).map(|track| track.counted).min();
        let earliest = earliest.unwrap_or(u64::MAX);
        self.slow.retain(|slow| slow.last() > earliest);
    }

    /// A member's track with all tokens counted up to the set's `step`.
    fn counted(&self, slot: Slot, step: u64) -> Track {
        let mut track = self.tracks[slot as usize];
        let count = step - track.counted;
        if count == 0 {
            return track;
        }
        let away = track.shift(track.counted) * self.interval;
        let tokens = i128::from(count);
        let (sum, most) = self.running(track.most - away, track.counted, step);
        track.late += sum + (away - track.first) * tokens;
        if self.ttft.is_some() {
            let floor = track.asked - away;
            let (sum, _) = self.running((track.most - away).max(floor), track.counted, step);
            track.late_asked += sum - floor * tokens;
        }
        track.most = most + away;
        track.visible += count;
        track.counted = step;
        track
    }

    /// The sum of the running maxima of `T(k) - k·d`, from `most` on, over the
    /// set's steps after `from` up to `to`; and the last of them.
    fn running(&self, mut most: i128, from: u64, to: u64) -> (i128, i128) {
        if self.maxima.since(from).is_none_or(|highest| highest <= most) {
            return (most * i128::from(to - from), most);
        }
        let (mut sum, mut at) = (0, from);
        let begin = self.slow.partition_point(|slow| slow.last() <= from);
        for slow in &self.slow[begin..] {
            if slow.before >= to {
                break;
            }
            let (start, end) = (slow.before.max(at), to.min(slow.last()));
            let (risen, highest) = slow.running(most, start, end, self.interval);
            sum += most * i128::from(start - at) + risen;
            (most, at) = (highest, end);
        }
        (sum + most * i128::from(to - at), most)
    }

    /// When a reader runs out of tokens, if it reads or its first token is due; the set
    /// has taken `step` steps.
    pub(crate) fn deadline(&self, slot: Slot, step: u64) -> Option<i128> {
        let track = &self.tracks[slot as usize];
        if track.moving {
            let away = track.shift(track.counted) * self.interval;
            let seen = self.maxima.since(track.counted).map_or(track.most, |highest| highest + away);
            let visible = track.visible + (step - track.counted);
            return Some(track.most.max(seen) + i128::from(visible) * self.interval);
        }
        track.deadline(self.interval)
    }

    /// Notes when the reader of a request outside the set runs out.
    pub(crate) fn note_deadline(&mut self, slot: Slot) {
        let track = &self.tracks[slot as usize];
        if !self.asks_on_pace || track.moving {
            return;
        }
        let Some(deadline) = track.deadline(self.interval) else { return };
        self.outside.set(slot, Ticks::try_from(deadline.max(0)).unwrap_or(Ticks::MAX));
    }

    /// Whether every reader has tokens left at `now`. The set took its latest step, the
    /// `step`th, at `ended`.
    pub(crate) fn all_on_pace(&mut self, now: Ticks, step: u64, ended: Ticks) -> bool {
        if self.out_of_tokens(now).is_some() {
            return false;
        }
        let now = i128::from(now);
        // A token that has just come lasts for one interval.
        if now < i128::from(ended) + self.interval {
            return true;
        }
        if !self.joined.is_empty() {
            self.take_in_joined();
        }
        let next = (i128::from(step) + 1) * self.interval;
        while let Some(&Reverse((bound, slot, stamp))) = self.bounds.peek() {
            let track = &self.tracks[slot as usize];
            if track.stamp != stamp {
                self.bounds.pop();
                continue;
            }
            let most = self.maxima.since(track.counted).map_or(bound, |highest| bound.max(highest));
            if most == bound {
                return bound + next > now;
            }
            self.bounds.pop();
            self.bounds.push(Reverse((most, slot, stamp)));
        }
        true
    }

    /// A request outside the set, or without tokens yet, whose reader has run out.
    pub(crate) fn out_of_tokens(&self, now: Ticks) -> Option<Slot> {
        self.outside.first().filter(|(deadline, _)| *deadline <= now).map(|(_, slot)| slot)
    }

    /// Whether readers wait at least as long for the first token as for any other.
    pub(crate) fn is_patient(&self) -> bool {
        self.to_first >= self.interval
    }

    /// The quality of experience of a request that is done: counted from its first
    /// visible token and, if that is asked for by some time, from then.
    pub(crate) fn experience(&self, slot: Slot) -> (f64, Option<f64>) {
        let track = &self.tracks[slot as usize];
        (track.experience(self.interval), self.ttft.map(|_| track.experience_as_asked(self.interval)))
    }
}

/// So many slow stretches are kept before some are forgotten.
const MANY: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Extrapolation;
    use crate::series::Series;
    use proptest::prelude::*;

    fn run(start: Ticks, first: Ticks, slope: Ticks, steps: u64) -> Run {
        let series = Series { first, slope };
        let extrapolation = Extrapolation::default();
        Run { start, copying: 0, series, steps, begun: true, extrapolation, decodes: true }
    }

    /// Token by token, from the definition.
    fn by_definition(times: &[i128], interval: i128, from: i128) -> (i128, i128) {
        let (mut reader, mut late) = (i128::MIN, 0);
        for (i, &time) in times.iter().enumerate() {
            reader = time.max(reader + interval);
            late += (reader - from - i as i128 * interval).max(0);
        }
        (late, reader + interval)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]
        #[test]
        fn sums_over_runs_equal_those_token_by_token(
            runs in prop::collection::vec((0u64..400, 1u64..30, 0u64..6, 1u64..40), 1..12),
            interval in 1u64..40, ttft in 0u64..300, begin in 0usize..12, into in 0u64..40, end in 0usize..12,
        ) {
            let pace = Pace { interval, first: interval, ttft: Some(ttft) };
            let mut pacing = Pacing::new(pace, true);
            pacing.open(0, 0);
            let begin = begin % runs.len();
            let end = begin + end % (runs.len() - begin);
            let (mut now, mut step, mut times) = (0, 0, Vec::new());
            for (i, &(pause, first, slope, steps)) in runs.iter().enumerate() {
                let ran = run(now + pause, first, slope, steps);
                step += steps;
                pacing.advance(&ran, steps, ran.end(), step);
                let from = if i == begin { into % steps } else { 0 };
                if i == begin {
                    let when = ran.start + ran.series.total(from + 1) as u64;
                    pacing.first_in_set(0, step - steps + from + 1, when);
                    times.push(i128::from(when));
                }
                if (begin..=end).contains(&i) {
                    let skip = from + u64::from(i == begin);
                    times.extend(
                        (skip..steps).map(|k| i128::from(ran.start) + ran.series.total(k + 1) as i128),
                    );
                    let due = by_definition(&times, i128::from(interval), 0).1;
                    prop_assert_eq!(pacing.deadline(0, step), Some(due));
                    let probe = (due.unsigned_abs() as u64).max(ran.end());
                    prop_assert!(!pacing.all_on_pace(probe, step, ran.end()));
                }
                if i == end {
                    pacing.leave(0, step);
                }
                now = ran.end();
            }
            let track = pacing.tracks[0];
            let interval = i128::from(interval);
            prop_assert_eq!(track.visible, times.len() as u64);
            prop_assert_eq!(track.late, by_definition(&times, interval, times[0]).0);
            prop_assert_eq!(track.late_asked, by_definition(&times, interval, i128::from(ttft)).0);
        }
    }
}
