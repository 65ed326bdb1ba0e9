//! The gaps between tokens that members of the decode set see.
//!
//! Members get their tokens at the same moments, so they share the set's gaps,
//! and a member's longest gap is a maximum over a suffix of them. Two kinds of
//! member have a first gap of their own:
//!
//! - If a step runs without the set (only prefills), the next gap of the present
//!   members is longer than that of members that join meanwhile. They are kept
//!   as a cohort until the set runs again.
//! - A request that resumes with its KV, from the CPU's memory or from another
//!   instance, had its latest token before it joined. It is kept as a late joiner
//!   until its first step with the set has ended.

use serde::{Deserialize, Serialize};

use super::super::Part;
use super::super::request::{RequestTable, Slot};
use crate::collections::SuffixMaxima;
use crate::hint::rare;
use crate::metrics::Sketch;
use crate::series::Series;
use crate::time::Ticks;

/// Gaps of the decode set.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Gaps {
    maxima: SuffixMaxima<Ticks>,
    /// Index of the latest gap in `maxima`.
    mark: u64,
    cohorts: Vec<Cohort>,
    late_joiners: Vec<(Slot, Part)>,
}

/// Members that joined by `mark` and got their latest token at `last_token`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Cohort {
    mark: u64,
    last_token: Ticks,
    members: u64,
}

impl Gaps {
    /// Index of the latest gap: a member that joins now sees only later ones.
    pub(super) fn mark(&self) -> u64 {
        self.mark
    }

    /// Notes that a member that has just joined got its latest token before the
    /// end of the set's latest step.
    pub(super) fn join_late(&mut self, slot: Slot, part: Part) {
        self.late_joiners.push((slot, part));
    }

    /// Members whose first step with the set has not been applied, and why each
    /// runs in it.
    pub(super) fn late_joiners(&self) -> &[(Slot, Part)] {
        &self.late_joiners
    }

    /// Makes late joiners members like all others.
    pub(super) fn forget_late_joiners(&mut self) {
        self.late_joiners.clear();
    }

    /// A member that joined at `joined` leaves. Returns its longest gap and, if
    /// that was before the set's latest step, when it got its latest token.
    pub(super) fn leave(&mut self, joined: u64) -> (Ticks, Option<Ticks>) {
        let cohort = self.cohorts.iter_mut().find(|cohort| joined <= cohort.mark);
        let last_token = cohort.map(|cohort| {
            cohort.members -= 1;
            cohort.last_token
        });
        (self.maxima.since(joined).unwrap_or(0), last_token)
    }

    /// Forgets all gaps: the set is empty.
    pub(super) fn clear(&mut self) {
        self.maxima.clear();
        self.cohorts.clear();
        self.late_joiners.clear();
    }

    /// The set of `members` does not run in a step that starts at `now`, when its
    /// latest step ended.
    pub(super) fn pause(&mut self, members: u64, now: Ticks) {
        let paused: u64 = self.cohorts.iter().map(|cohort| cohort.members).sum();
        if members > paused {
            self.cohorts.push(Cohort { mark: self.mark, last_token: now, members: members - paused });
            self.mark += 1;
        }
    }

    /// Counts the gaps of `k` steps of `members` members, the first of which starts
    /// at `start` and whose lengths are `series`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of applying a run, the engine's innermost work")]
    pub(super) fn advance(
        &mut self,
        start: Ticks,
        series: &Series,
        k: u64,
        members: u64,
        requests: &mut RequestTable,
        sketch: &mut Sketch,
    ) {
        if self.cohorts.is_empty() && self.late_joiners.is_empty() {
            sketch.add_series(members, series, k);
        } else {
            rare();
            self.resume(start + series.first, series, members, requests, sketch);
            let rest = Series { first: series.at(1), slope: series.slope };
            sketch.add_series(members, &rest, k - 1);
        }
        // The last one is the longest. What late joiners waited for was at least as long as the first.
        self.mark += 1;
        self.maxima.push(self.mark, series.at(k - 1));
    }

    /// As [`Self::advance`], of steps that end at `ends`.
    pub(super) fn advance_listed(
        &mut self,
        start: Ticks,
        ends: &[Ticks],
        members: u64,
        requests: &mut RequestTable,
        sketch: &mut Sketch,
    ) {
        let Some((&first, rest)) = ends.split_first() else { return };
        let series = Series { first: first - start, slope: 0 };
        self.advance(start, &series, 1, members, requests, sketch);
        self.forget_late_joiners();
        let (mut latest, mut longest) = (first, 0);
        for &end in rest {
            sketch.add(end - latest, members);
            longest = longest.max(end - latest);
            latest = end;
        }
        if !rest.is_empty() {
            self.mark += 1;
            self.maxima.push(self.mark, longest);
        }
    }

    /// Counts the gaps that end with a run's first step, at `end`, where cohorts
    /// resume or late joiners take their first step.
    #[inline(never)]
    fn resume(
        &mut self,
        end: Ticks,
        series: &Series,
        members: u64,
        requests: &mut RequestTable,
        sketch: &mut Sketch,
    ) {
        let mut paused = 0;
        for cohort in self.cohorts.drain(..).filter(|cohort| cohort.members > 0) {
            let gap = end - cohort.last_token;
            sketch.add(gap, cohort.members);
            // Only members that joined by the cohort's mark had this gap.
            self.maxima.push(cohort.mark + 1, gap);
            paused += cohort.members;
        }
        sketch.add(series.first, members - paused - self.late_joiners.len() as u64);
        for &(slot, _) in &self.late_joiners {
            let state = &mut requests[slot];
            let gap = end - state.times.last_token;
            sketch.add(gap, 1);
            state.times.max_gap = state.times.max_gap.max(gap);
            state.member.joined = self.mark;
        }
    }
}
