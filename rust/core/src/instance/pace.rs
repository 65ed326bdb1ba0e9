//! How far behind its tokens each reader is.
//!
//! A reader takes visible token `i` at `u(i) = max(t(i), u(i-1) + d)`, so that
//! `u(i) = i·d + max over j <= i of (t(j) - j·d)`: a running maximum. All members
//! of the decode set get their tokens at the same moments, so the maximum that a
//! member has seen is one over a suffix of the set's, and a sum of running maxima
//! over thousands of tokens is a product, except where the set was slower than
//! readers read. Those stretches are kept, and summed up in closed form too.
//!
//! Source: the pacer and the quality of experience of Andes (Liu et al., 2024);
//! PASCAL (Cho et al., HPCA 2026, section V.A) counts from the first token read.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::active::Slot;
use super::flight::Flight;
use crate::collections::IndexedHeap;
use crate::collections::SuffixMaxima;
use crate::config::Pace;
use crate::series::Series;
use crate::time::Ticks;

/// What is kept of one reader.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Track {
    /// Tokens to read so far.
    visible: u64,
    /// The largest `t(j) - j·d` so far.
    most: i128,
    /// When the first came.
    first: i128,
    /// Arrival and the time to the first token that was asked for.
    asked: i128,
    /// Sum of `u(i) - (first + i·d)`.
    late: i128,
    /// Sum of `max(u(i) - (asked + i·d), 0)`.
    late_asked: i128,
    /// When the first is due, or nothing before reasoning ends.
    due: Option<i128>,
    /// Whether it is a member of the decode set that has something to read.
    moving: bool,
    /// The set's step that brought the last token counted here, while it is.
    counted: u64,
    stamp: u32,
}

/// Steps of the set that were slower than readers read, or came after a pause.
#[derive(Debug, Clone, Copy)]
struct Slow {
    /// Steps that the set had taken before.
    before: u64,
    start: Ticks,
    series: Series,
    steps: u64,
}

impl Slow {
    /// `T(k) - k·d` for the set's step `k`, which is one of these.
    fn at(&self, step: u64, interval: i128) -> i128 {
        let time = u128::from(self.start) + self.series.total(step - self.before);
        time as i128 - i128::from(step) * interval
    }

    /// The sum of `T(k) - k·d` over the set's steps after `from`, up to `to`.
    fn sum(&self, from: u64, to: u64, interval: i128) -> i128 {
        let (a, b) = (from - self.before, to - self.before);
        let count = i128::from(to - from);
        let times = self.series.sum_of_totals(b) - self.series.sum_of_totals(a);
        let steps = (i128::from(from) + 1 + i128::from(to)) * count / 2;
        i128::from(self.start) * count + times as i128 - steps * interval
    }
}

/// The readers of one instance's requests.
#[derive(Debug)]
pub(crate) struct Pacing {
    interval: i128,
    to_first: i128,
    ttft: Option<i128>,
    /// Whether anybody asks if all are on pace.
    watched: bool,
    tracks: Vec<Track>,
    /// Maxima of `T(k) - k·d` by the set's step `k`.
    maxima: SuffixMaxima<i128>,
    /// When the set's latest step ended, and which it was.
    latest: (Ticks, u64),
    slow: Vec<Slow>,
    /// When readers outside the set, or without anything yet, run out.
    fixed: IndexedHeap<Ticks>,
    /// A lower bound of a member's `most`, as the set counts steps; of the
    /// latest to join, apart until it is asked for.
    moving: BinaryHeap<Reverse<(i128, Slot, u32)>>,
    joined: Vec<(i128, Slot, u32)>,
}

impl Pacing {
    pub(crate) fn new(pace: Pace, watched: bool) -> Self {
        Self {
            interval: i128::from(pace.interval),
            to_first: i128::from(pace.first),
            ttft: pace.ttft.map(i128::from),
            watched,
            tracks: Vec::new(),
            maxima: SuffixMaxima::default(),
            latest: (0, 0),
            slow: Vec::new(),
            fixed: IndexedHeap::default(),
            moving: BinaryHeap::new(),
            joined: Vec::new(),
        }
    }

    /// Starts to follow a request that arrived at `arrival`.
    pub(crate) fn open(&mut self, slot: Slot, arrival: Ticks) {
        let asked = i128::from(arrival) + self.ttft.unwrap_or(0);
        self.put(slot, Track { asked, ..Track::default() });
    }

    /// Goes on following one that was followed elsewhere.
    pub(crate) fn put(&mut self, slot: Slot, track: Track) {
        let at = slot as usize;
        if at >= self.tracks.len() {
            self.tracks.resize(at + 1, Track::default());
        }
        let stamp = self.tracks[at].stamp.wrapping_add(1);
        self.tracks[at] = Track { stamp, ..track };
        self.watch(slot);
    }

    /// Stops to follow a request.
    pub(crate) fn take(&mut self, slot: Slot) -> Track {
        let track = &mut self.tracks[slot as usize];
        let taken = *track;
        *track = Track { stamp: taken.stamp.wrapping_add(1), ..Track::default() };
        self.fixed.remove(slot);
        taken
    }

    /// A request's reasoning ended at `when`.
    pub(crate) fn answers(&mut self, slot: Slot, when: Ticks) {
        let due = i128::from(when) + self.to_first;
        let track = &mut self.tracks[slot as usize];
        if track.visible == 0 && track.due.is_none() {
            track.due = Some(due);
            self.watch(slot);
        }
    }

    /// A request outside the set yields a visible token, after which it joins
    /// the set or is done.
    pub(crate) fn token(&mut self, slot: Slot, when: Ticks) {
        let when = i128::from(when);
        let interval = self.interval;
        let track = &mut self.tracks[slot as usize];
        if track.visible == 0 {
            (track.first, track.most, track.due) = (when, when, Some(when));
        }
        track.most = track.most.max(when - i128::from(track.visible) * interval);
        track.late += track.most - track.first;
        track.late_asked += (track.most - track.asked).max(0);
        track.visible += 1;
        track.stamp = track.stamp.wrapping_add(1);
        self.fixed.remove(slot);
    }

    /// A member of the set yields its first visible token at the set's `step`.
    pub(crate) fn first_in_set(&mut self, slot: Slot, step: u64, when: Ticks) {
        if self.tracks[slot as usize].visible > 0 {
            return;
        }
        self.token(slot, when);
        self.join(slot, step);
    }

    /// A request that had something to read before it joined yields its first
    /// token with the set, at the set's `step`.
    pub(crate) fn goes_on_in_set(&mut self, slot: Slot, step: u64, when: Ticks) {
        if self.tracks[slot as usize].visible > 0 {
            self.token(slot, when);
            self.join(slot, step);
        }
    }

    /// A request joins the set, which has taken `step` steps.
    #[inline]
    pub(crate) fn join(&mut self, slot: Slot, step: u64) {
        if self.tracks[slot as usize].visible > 0 {
            self.goes_on(slot, step);
        }
    }

    /// The same, of one whose reader has something to read.
    #[inline(never)]
    fn goes_on(&mut self, slot: Slot, step: u64) {
        let interval = self.interval;
        let track = &mut self.tracks[slot as usize];
        track.moving = true;
        track.counted = step;
        track.stamp = track.stamp.wrapping_add(1);
        if self.watched {
            let bound = track.most - shift(track, step) * interval;
            self.joined.push((bound, slot, track.stamp));
            if self.joined.len() > 64 + 4 * self.tracks.len() {
                self.forget_joined();
            }
        }
    }

    /// Takes in who has joined, with those before who are members still.
    #[inline(never)]
    fn forget_joined(&mut self) {
        let tracks = &self.tracks;
        self.moving.retain(|&Reverse((_, slot, stamp))| tracks[slot as usize].stamp == stamp);
        let joined = self.joined.drain(..).filter(|&(_, slot, stamp)| tracks[slot as usize].stamp == stamp);
        self.moving.extend(joined.map(Reverse));
    }

    /// A member leaves the set, which has taken `step` steps. Who stays with the
    /// instance is to be [watched](Self::watch).
    pub(crate) fn leave(&mut self, slot: Slot, step: u64) {
        if !self.tracks[slot as usize].moving {
            return;
        }
        let track = self.counted(slot, step);
        self.tracks[slot as usize] =
            Track { moving: false, stamp: self.tracks[slot as usize].stamp.wrapping_add(1), ..track };
    }

    /// The set is empty: nobody is left who saw its steps.
    pub(crate) fn clear(&mut self) {
        self.maxima.clear();
        self.slow.clear();
    }

    /// The set has taken `steps` steps of a flight, which ended at `end`, and
    /// `after` in all.
    #[inline]
    pub(crate) fn advance(&mut self, flight: &Flight, steps: u64, end: Ticks, after: u64) {
        // Where the set is faster than its readers, no maximum changes.
        let goes_on = flight.start == self.latest.0 && after - steps == self.latest.1 && self.latest.1 > 0;
        if !goes_on || i128::from(flight.series.at(steps - 1)) > self.interval {
            self.note_slow(flight, steps, after);
        }
        self.latest = (end, after);
    }

    #[inline(never)]
    fn note_slow(&mut self, flight: &Flight, steps: u64, after: u64) {
        let interval = self.interval;
        let run = Slow { before: after - steps, start: flight.start, series: flight.series, steps };
        let (first, last) = (run.at(run.before + 1, interval), run.at(after, interval));
        let (ended, step) = self.latest;
        let latest = if step == 0 { i128::MIN } else { i128::from(ended) - i128::from(step) * interval };
        if first > latest || i128::from(flight.series.at(steps - 1)) > interval {
            if self.slow.len() >= 4096 && self.slow.len().is_power_of_two() {
                self.forget();
            }
            self.slow.push(run);
            self.maxima.push(run.before + 1, first);
            if steps > 1 {
                self.maxima.push(after, last);
            }
        }
    }

    /// Lets go of what no member will ask for.
    fn forget(&mut self) {
        let earliest = self.tracks.iter().filter(|track| track.moving).map(|track| track.counted).min();
        let earliest = earliest.unwrap_or(u64::MAX);
        self.slow.retain(|slow| slow.before + slow.steps > earliest);
    }

    /// A member's track with all tokens counted up to the set's `step`.
    fn counted(&self, slot: Slot, step: u64) -> Track {
        let mut track = self.tracks[slot as usize];
        let count = step - track.counted;
        if count == 0 {
            return track;
        }
        let away = shift(&track, track.counted) * self.interval;
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
        let begin = self.slow.partition_point(|slow| slow.before + slow.steps <= from);
        for slow in &self.slow[begin..] {
            if slow.before >= to {
                break;
            }
            let (start, end) = (slow.before.max(at), to.min(slow.before + slow.steps));
            sum += most * i128::from(start - at);
            // Over one run the curve falls, then rises: once the first step is
            // in, the maximum grows only in a last stretch, at each step.
            most = most.max(slow.at(start + 1, self.interval));
            let (mut low, mut high) = (start + 1, end + 1);
            while low < high {
                let middle = u64::midpoint(low, high);
                if slow.at(middle, self.interval) > most { high = middle } else { low = middle + 1 }
            }
            sum += most * i128::from(low - 1 - start);
            if low <= end {
                sum += slow.sum(low - 1, end, self.interval);
                most = slow.at(end, self.interval);
            }
            at = end;
        }
        (sum + most * i128::from(to - at), most)
    }

    /// When a reader has nothing left to read, if it reads; the set has taken
    /// `step` steps.
    pub(crate) fn deadline(&self, slot: Slot, step: u64) -> Option<i128> {
        let track = &self.tracks[slot as usize];
        if track.moving {
            let away = shift(track, track.counted) * self.interval;
            let seen = self.maxima.since(track.counted).map_or(track.most, |highest| highest + away);
            let visible = track.visible + (step - track.counted);
            return Some(track.most.max(seen) + i128::from(visible) * self.interval);
        }
        track.due?;
        Some(self.fixed_deadline(track))
    }

    fn fixed_deadline(&self, track: &Track) -> i128 {
        if track.visible == 0 {
            return track.due.unwrap_or(i128::MAX);
        }
        track.most + i128::from(track.visible) * self.interval
    }

    /// Notes when a reader outside the set runs out.
    pub(crate) fn watch(&mut self, slot: Slot) {
        let track = &self.tracks[slot as usize];
        if !self.watched || track.due.is_none() || track.moving {
            return;
        }
        let deadline = self.fixed_deadline(track).max(0);
        self.fixed.set(slot, Ticks::try_from(deadline).unwrap_or(Ticks::MAX));
    }

    /// Whether every reader has something left at `now`. The set took its
    /// latest step, the `step`th, at `ended`.
    pub(crate) fn all_on_pace(&mut self, now: Ticks, step: u64, ended: Ticks) -> bool {
        if self.left_without(now).is_some() {
            return false;
        }
        let now = i128::from(now);
        // Whoever has just got a token has it to read for one interval.
        if now < i128::from(ended) + self.interval {
            return true;
        }
        if !self.joined.is_empty() {
            self.forget_joined();
        }
        let next = (i128::from(step) + 1) * self.interval;
        while let Some(&Reverse((bound, slot, stamp))) = self.moving.peek() {
            let track = &self.tracks[slot as usize];
            if track.stamp != stamp {
                self.moving.pop();
                continue;
            }
            let most = self.maxima.since(track.counted).map_or(bound, |highest| bound.max(highest));
            if most == bound {
                return bound + next > now;
            }
            self.moving.pop();
            self.moving.push(Reverse((most, slot, stamp)));
        }
        true
    }

    /// A reader who has nothing left and whose request does not decode, or who
    /// has got nothing yet.
    #[inline]
    pub(crate) fn left_without(&self, now: Ticks) -> Option<Slot> {
        self.fixed.first().filter(|(deadline, _)| *deadline <= now).map(|(_, slot)| slot)
    }

    /// Whether readers wait as long for the first token as for any other.
    #[inline]
    pub(crate) fn is_patient(&self) -> bool {
        self.to_first >= self.interval
    }

    /// The quality of experience of a request that is done: counted from its
    /// first visible token, and from when that was asked for.
    pub(crate) fn experience(&self, slot: Slot) -> (f64, Option<f64>) {
        let track = &self.tracks[slot as usize];
        let end = track.most + i128::from(track.visible) * self.interval;
        let of = |late: i128, from: i128| {
            if track.visible == 0 || late <= 0 {
                return 1.0;
            }
            let tokens = i128::from(track.visible);
            let twice = 2 * tokens * (end - from) - tokens * tokens * self.interval;
            (1.0 - 2.0 * late as f64 / twice as f64).clamp(0.0, 1.0)
        };
        (of(track.late, track.first), self.ttft.map(|_| of(track.late_asked, track.asked)))
    }
}

/// A member's token index at the set's step `k` is `k` less this.
#[inline]
fn shift(track: &Track, step: u64) -> i128 {
    i128::from(step) - i128::from(track.visible) + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Extrapolation;
    use proptest::prelude::*;

    fn flight(start: Ticks, first: Ticks, slope: Ticks, steps: u64) -> Flight {
        let series = Series { first, slope };
        Flight {
            start,
            copying: 0,
            series,
            steps,
            begun: true,
            beyond: Extrapolation::default(),
            decodes: true,
        }
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
                let flight = flight(now + pause, first, slope, steps);
                step += steps;
                pacing.advance(&flight, steps, flight.end(), step);
                let from = if i == begin { into % steps } else { 0 };
                if i == begin {
                    let when = flight.start + flight.series.total(from + 1) as u64;
                    pacing.first_in_set(0, step - steps + from + 1, when);
                    times.push(i128::from(when));
                }
                if (begin..=end).contains(&i) {
                    let skip = from + u64::from(i == begin);
                    times.extend(
                        (skip..steps).map(|k| i128::from(flight.start) + flight.series.total(k + 1) as i128),
                    );
                    let due = by_definition(&times, i128::from(interval), 0).1;
                    prop_assert_eq!(pacing.deadline(0, step), Some(due));
                    let probe = (due.unsigned_abs() as u64).max(flight.end());
                    prop_assert!(!pacing.all_on_pace(probe, step, flight.end()));
                }
                if i == end {
                    pacing.leave(0, step);
                }
                now = flight.end();
            }
            let track = pacing.tracks[0];
            let interval = i128::from(interval);
            prop_assert_eq!(track.visible, times.len() as u64);
            prop_assert_eq!(track.late, by_definition(&times, interval, times[0]).0);
            prop_assert_eq!(track.late_asked, by_definition(&times, interval, i128::from(ttft)).0);
        }
    }
}
