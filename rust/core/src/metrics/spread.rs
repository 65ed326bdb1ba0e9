//! The spread of values: mean, maximum, and percentiles that interpolate linearly between ranks.
//!
//! As `numpy.quantile` by default, and vLLM's `bench serve`. Ranks are found by selection, which takes time in
//! proportion to the values; sorting 20,000 of them takes five times as long.

use crate::time::{NEVER, TICKS_PER_SECOND, Ticks};

/// Latencies of requests, from columns of moments.
#[derive(Debug, Clone, Copy)]
pub struct Spans<'a> {
    /// The moment at which each ends, [`NEVER`] if it does not.
    pub ends: &'a [Ticks],
    /// The moment at which each starts, likewise; `None`: the ends are durations.
    pub starts: Option<&'a [Ticks]>,
    /// Tokens of each, for a latency by gap between tokens; a request of one token has none.
    pub tokens: Option<&'a [u32]>,
    /// Which requests count; `None`: all.
    pub rows: Option<&'a [bool]>,
}

impl Spans<'_> {
    /// The latencies that there are, in seconds, in the order of the requests.
    ///
    /// All columns must have one entry a request.
    pub fn seconds(&self) -> impl Iterator<Item = f64> + '_ {
        let counts = |row: &usize| self.rows.is_none_or(|rows| rows[*row]);
        (0..self.ends.len()).filter(counts).filter_map(|row| self.seconds_of(row))
    }

    /// The latency of a request, in seconds; `None` if it has none.
    #[inline]
    fn seconds_of(&self, row: usize) -> Option<f64> {
        let (start, end) = (self.starts.map_or(0, |starts| starts[row]), self.ends[row]);
        let gaps = self.tokens.map(|tokens| tokens[row].saturating_sub(1));
        if end == NEVER || start == NEVER || gaps == Some(0) {
            return None;
        }
        let seconds = end.wrapping_sub(start) as f64 / TICKS_PER_SECOND as f64;
        Some(gaps.map_or(seconds, |gaps| seconds / f64::from(gaps)))
    }

    /// How many of the requests that count exceed none of the bounds, in seconds, of these latencies. A request without a
    /// latency does not exceed its bound.
    ///
    /// All columns must have one entry a request; there is at least one latency, and the first says which requests count.
    pub fn count_within(latencies: &[(Self, f64)]) -> usize {
        let Some((first, _)) = latencies.first() else { return 0 };
        let exceeds = |row: usize| {
            latencies.iter().any(|(spans, bound)| spans.seconds_of(row).is_some_and(|found| found > *bound))
        };
        let counts = |row: &usize| first.rows.is_none_or(|rows| rows[*row]);
        (0..first.ends.len()).filter(counts).filter(|&row| !exceeds(row)).count()
    }
}

/// Mean, maximum and quantiles of some values.
#[derive(Debug, Clone, PartialEq)]
pub struct Spread {
    /// How many values there are.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// The largest.
    pub max: f64,
    /// A quantile for each share asked for, in the same order.
    pub quantiles: Vec<f64>,
}

impl Spread {
    /// The spread of values that are not NaN; `None` if there are none.
    ///
    /// `shares` are from 0 to 1; others are taken as the nearest of these.
    ///
    /// ```
    /// let spread = paceline_core::Spread::of([4.0, 1.0, 2.0], &[0.5, 1.0]).expect("has values");
    /// assert_eq!((spread.count, spread.max), (3, 4.0));
    /// assert_eq!(spread.quantiles, [2.0, 4.0]);
    /// ```
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>, shares: &[f64]) -> Option<Self> {
        let values = values.into_iter();
        // The upper bound, as most values are there: growing step by step costs more than the selections.
        let mut keys: Vec<u64> = Vec::with_capacity(values.size_hint().1.unwrap_or_default());
        let (mut sum, mut largest) = (0.0, 0);
        keys.extend(values.map(|value| {
            let key = key(value);
            sum += value;
            largest = largest.max(key);
            key
        }));
        let count = keys.len();
        if count == 0 {
            return None;
        }
        let (mean, max) = (sum / count as f64, value(largest));
        let mut quantiles = vec![0.0; shares.len()];
        let mut order: Vec<usize> = (0..shares.len()).collect();
        // From the lowest share up: a selection leaves all larger values behind its rank.
        order.sort_by(|a, b| shares[*a].total_cmp(&shares[*b]));
        let mut rest = keys.as_mut_slice();
        let mut passed = 0;
        for at in order {
            let place = shares[at].clamp(0.0, 1.0) * (count - 1) as f64;
            let rank = place as usize;
            let (_, selected, higher) = rest.select_nth_unstable(rank - passed);
            let low = value(*selected);
            let next = higher.iter().min().map_or(low, |key| value(*key));
            quantiles[at] = low + (next - low) * place.fract();
            rest = &mut rest[rank - passed..];
            passed = rank;
        }
        Some(Self { count, mean, max, quantiles })
    }
}

const SIGN: u64 = 1 << 63;

/// A number that orders as the value does: integers compare faster.
const fn key(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

const fn value(key: u64) -> f64 {
    f64::from_bits(if key & SIGN == 0 { !key } else { key & !SIGN })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The quantile of sorted values as numpy has it.
    fn interpolated(sorted: &[f64], share: f64) -> f64 {
        let place = share * (sorted.len() - 1) as f64;
        let low = place.floor() as usize;
        let high = (low + 1).min(sorted.len() - 1);
        sorted[low] + (sorted[high] - sorted[low]) * (place - low as f64)
    }

    #[test]
    fn a_request_is_within_its_bounds_if_it_exceeds_none_of_them() {
        let second = TICKS_PER_SECOND;
        let (starts, ends) = ([0, second, second, 0], [second, 3 * second, NEVER, 4 * second]);
        let spans = Spans { ends: &ends, starts: Some(&starts), tokens: None, rows: None };
        // The latencies are 1 s, 2 s, none and 4 s; by gaps 1 s, 1 s, none, and none as there is one token.
        assert_eq!(Spans::count_within(&[(spans, 2.0)]), 3);
        let tokens = [2, 3, 5, 1];
        let gaps = Spans { tokens: Some(&tokens), ..spans };
        assert_eq!(Spans::count_within(&[(gaps, 0.5)]), 2);
        assert_eq!(Spans::count_within(&[(spans, 1.0), (gaps, 1.0)]), 2);
        let rows = [true, false, false, true];
        assert_eq!(Spans::count_within(&[(Spans { rows: Some(&rows), ..spans }, 2.0), (gaps, 9.0)]), 1);
    }

    #[test]
    fn there_is_no_spread_of_nothing() {
        assert_eq!(Spread::of([], &[0.5]), None);
    }

    #[test]
    fn quantiles_lie_between_ranks() {
        let spread = Spread::of([3.0, 1.0, 2.0, 4.0], &[0.0, 0.25, 0.5, 1.0]).expect("has values");
        assert_eq!(spread.quantiles, [1.0, 1.75, 2.5, 4.0]);
        assert_eq!((spread.count, spread.mean, spread.max), (4, 2.5, 4.0));
    }

    #[test]
    fn a_latency_needs_its_moments_and_its_gaps() {
        let second = TICKS_PER_SECOND;
        let all = Spans {
            ends: &[5 * second, NEVER, 7 * second, 9 * second],
            starts: Some(&[second, second, NEVER, 3 * second]),
            tokens: None,
            rows: None,
        };
        assert_eq!(all.seconds().collect::<Vec<_>>(), [4.0, 6.0]);
        let by_gap = Spans { tokens: Some(&[3, 3, 3, 1]), ..all };
        assert_eq!(by_gap.seconds().collect::<Vec<_>>(), [2.0]);
        let last = Spans { rows: Some(&[false, true, true, true]), ..all };
        assert_eq!(last.seconds().collect::<Vec<_>>(), [6.0]);
        let durations = Spans { starts: None, ..all };
        assert_eq!(durations.seconds().collect::<Vec<_>>(), [5.0, 7.0, 9.0]);
    }

    proptest! {
        #[test]
        fn selection_finds_what_sorting_finds(
            values in prop::collection::vec(
                prop_oneof![-5.0_f64..5.0, Just(1.0), Just(-0.0)], 0..60
            ),
            shares in prop::collection::vec(prop_oneof![0.0_f64..=1.0, Just(0.5), Just(1.0)], 0..6),
        ) {
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let found = Spread::of(values, &shares);
            prop_assert_eq!(found.is_some(), !sorted.is_empty());
            if let Some(found) = found {
                let expected: Vec<f64> = shares.iter().map(|share| interpolated(&sorted, *share)).collect();
                prop_assert_eq!(found.quantiles, expected);
                prop_assert_eq!(Some(&found.max), sorted.last());
                prop_assert_eq!(found.count, sorted.len());
            }
        }
    }
}
