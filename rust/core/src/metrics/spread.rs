//! The spread of values: mean, maximum, and percentiles that interpolate linearly between ranks.
//!
//! As `numpy.quantile` by default, and vLLM's `bench serve`. Ranks are found by selection, which takes time in
//! proportion to the values; sorting 20,000 of them takes five times as long.

use std::ops::Range;

use crate::time::{NEVER, TICKS_PER_SECOND, Ticks};

/// Latencies of requests, from columns of moments with one entry a request.
#[derive(Debug, Clone, Copy)]
pub struct Spans<'a> {
    /// The moment at which each ends, [`NEVER`] if it does not.
    pub ends: &'a [Ticks],
    /// The moment at which each starts, likewise; `None`: the ends are durations.
    pub starts: Option<&'a [Ticks]>,
    /// Tokens of each, for a latency by gap between tokens; a request of one token has none.
    pub tokens: Option<&'a [u32]>,
}

/// Requests whose latencies are computed at a time: so few that they stay in the processor's first cache.
const CHUNK: usize = 1024;

impl Spans<'_> {
    /// Replaces `values` by the latency of each request of some rows in seconds, NaN if it has none.
    fn seconds(&self, rows: Range<usize>, values: &mut Vec<f64>) {
        // Divides in any case, which the processor does for several requests at once.
        let seconds = |ticks: Ticks, known: bool| {
            let seconds = ticks as f64 / TICKS_PER_SECOND as f64;
            if known { seconds } else { f64::NAN }
        };
        values.clear();
        let ends = &self.ends[rows.clone()];
        if let Some(starts) = self.starts {
            let both = ends.iter().zip(&starts[rows.clone()]);
            let known = |end, start| end != NEVER && start != NEVER;
            values.extend(both.map(|(&end, &start)| seconds(end.wrapping_sub(start), known(end, start))));
        } else {
            values.extend(ends.iter().map(|&end| seconds(end, end != NEVER)));
        }
        if let Some(tokens) = self.tokens {
            for (value, &tokens) in values.iter_mut().zip(&tokens[rows]) {
                let gaps = tokens.saturating_sub(1);
                let by_gap = *value / f64::from(gaps);
                *value = if gaps == 0 { f64::NAN } else { by_gap };
            }
        }
    }
}

/// Latencies of the same requests, reduced to figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The spread of each latency, `None` if no request has it.
    pub spreads: Vec<Option<Spread>>,
    /// Candidates that exceed none of the bounds. One without a latency does not exceed its bound.
    pub within: usize,
}

impl Measured {
    /// Measures latencies, each with its bound in seconds if it has one.
    ///
    /// `rows`: the requests whose latencies count, `None`: all. `candidates`: the requests that `within` counts. All columns
    /// must have one entry a request. `shares` are those of the quantiles, as of [`Spread::of`].
    #[must_use]
    pub fn of(
        latencies: &[(Spans<'_>, Option<f64>)],
        rows: Option<&[bool]>,
        candidates: &[bool],
        shares: &[f64],
    ) -> Self {
        let mut within = candidates.to_vec();
        let (mut values, mut keys) = (Vec::with_capacity(CHUNK), Vec::new());
        let mut spreads = Vec::with_capacity(latencies.len());
        for (spans, bound) in latencies {
            let mut sample = Sample::of_at_most(spans.ends.len(), &mut keys);
            for start in (0..spans.ends.len()).step_by(CHUNK) {
                let chunk = start..spans.ends.len().min(start + CHUNK);
                spans.seconds(chunk.clone(), &mut values);
                if let Some(bound) = bound {
                    for (within, value) in within[chunk.clone()].iter_mut().zip(&values) {
                        let exceeds = value > bound;
                        *within &= !exceeds;
                    }
                }
                if let Some(rows) = rows {
                    let uncounted = values.iter_mut().zip(&rows[chunk]).filter(|(_, counts)| !**counts);
                    uncounted.for_each(|(value, _)| *value = f64::NAN);
                }
                sample.add(&values);
            }
            spreads.push(sample.spread(shares));
        }
        Self { spreads, within: within.into_iter().filter(|within| *within).count() }
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
    /// The spread of values, of which NaN is none; `None` if there are none.
    ///
    /// `shares` are from 0 to 1; others are taken as the nearest of these.
    ///
    /// ```
    /// let spread = paceline_core::Spread::of(&[4.0, f64::NAN, 1.0, 2.0], &[0.5, 1.0]).expect("has values");
    /// assert_eq!((spread.count, spread.max), (3, 4.0));
    /// assert_eq!(spread.quantiles, [2.0, 4.0]);
    /// ```
    #[must_use]
    pub fn of(values: &[f64], shares: &[f64]) -> Option<Self> {
        let mut keys = Vec::new();
        let mut sample = Sample::of_at_most(values.len(), &mut keys);
        sample.add(values);
        sample.spread(shares)
    }
}

/// Values of which a spread is to be found.
struct Sample<'a> {
    /// The first `count` are the keys of the values.
    keys: &'a mut Vec<u64>,
    count: usize,
    sum: f64,
    largest: u64,
}

impl<'a> Sample<'a> {
    /// No values, with room for `most`. `keys` is working memory.
    fn of_at_most(most: usize, keys: &'a mut Vec<u64>) -> Self {
        keys.resize(most, 0);
        Self { keys, count: 0, sum: 0.0, largest: 0 }
    }

    /// Adds values, of which NaN is none.
    #[inline(never)] // Inlined, it lacks a register for the sum, and takes three times as long.
    fn add(&mut self, values: &[f64]) {
        let (mut count, mut sum, mut largest) = (self.count, self.sum, self.largest);
        let keys = self.keys.as_mut_slice();
        // Without a branch: a key that does not count is overwritten by the next one.
        for &value in values {
            let counts = !value.is_nan();
            let key = if counts { key(value) } else { 0 };
            keys[count] = key;
            count += usize::from(counts);
            sum += if counts { value } else { 0.0 };
            largest = largest.max(key);
        }
        (self.count, self.sum, self.largest) = (count, sum, largest);
    }

    /// The spread of the values; `None` if there are none.
    fn spread(self, shares: &[f64]) -> Option<Spread> {
        let Self { keys, count, sum, largest } = self;
        if count == 0 {
            return None;
        }
        let (mean, max) = (sum / count as f64, value(largest));
        let mut quantiles = vec![0.0; shares.len()];
        let mut order: Vec<usize> = (0..shares.len()).collect();
        // From the lowest share up: a selection leaves all larger values behind its rank.
        order.sort_by(|a, b| shares[*a].total_cmp(&shares[*b]));
        let mut rest = &mut keys[..count];
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
        Some(Spread { count, mean, max, quantiles })
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

    fn within(latencies: &[(Spans<'_>, Option<f64>)], candidates: &[bool]) -> usize {
        Measured::of(latencies, None, candidates, &[]).within
    }

    #[test]
    fn a_candidate_is_within_its_bounds_if_it_exceeds_none_of_them() {
        let second = TICKS_PER_SECOND;
        let (starts, ends) = ([0, second, second, 0], [second, 3 * second, NEVER, 4 * second]);
        let spans = Spans { ends: &ends, starts: Some(&starts), tokens: None };
        // The latencies are 1 s, 2 s, none and 4 s; by gaps 1 s, 1 s, none, and none as there is one token.
        assert_eq!(within(&[(spans, Some(2.0))], &[true; 4]), 3);
        assert_eq!(within(&[(spans, None)], &[true; 4]), 4);
        let tokens = [2, 3, 5, 1];
        let gaps = Spans { tokens: Some(&tokens), ..spans };
        assert_eq!(within(&[(gaps, Some(0.5))], &[true; 4]), 2);
        assert_eq!(within(&[(spans, Some(1.0)), (gaps, Some(1.0))], &[true; 4]), 2);
        assert_eq!(within(&[(spans, Some(2.0)), (gaps, Some(9.0))], &[true, false, false, true]), 1);
    }

    #[test]
    fn rows_say_which_latencies_count_but_not_which_candidates_do() {
        let ends = [TICKS_PER_SECOND, 2 * TICKS_PER_SECOND];
        let spans = Spans { ends: &ends, starts: None, tokens: None };
        let found = Measured::of(&[(spans, Some(1.5))], Some(&[false, true]), &[true, true], &[]);
        assert_eq!(found.spreads[0].as_ref().map(|spread| (spread.count, spread.max)), Some((1, 2.0)));
        assert_eq!(found.within, 1);
    }

    #[test]
    fn there_is_no_spread_of_nothing() {
        assert_eq!(Spread::of(&[], &[0.5]), None);
        assert_eq!(Spread::of(&[f64::NAN], &[0.5]), None);
    }

    #[test]
    fn quantiles_lie_between_ranks() {
        let spread = Spread::of(&[3.0, 1.0, 2.0, 4.0], &[0.0, 0.25, 0.5, 1.0]).expect("has values");
        assert_eq!(spread.quantiles, [1.0, 1.75, 2.5, 4.0]);
        assert_eq!((spread.count, spread.mean, spread.max), (4, 2.5, 4.0));
    }

    /// The latencies that there are.
    fn seconds(spans: Spans<'_>) -> Vec<f64> {
        let mut values = Vec::new();
        spans.seconds(0..spans.ends.len(), &mut values);
        values.retain(|value| !value.is_nan());
        values
    }

    #[test]
    fn a_latency_needs_its_moments_and_its_gaps() {
        let second = TICKS_PER_SECOND;
        let all = Spans {
            ends: &[5 * second, NEVER, 7 * second, 9 * second],
            starts: Some(&[second, second, NEVER, 3 * second]),
            tokens: None,
        };
        assert_eq!(seconds(all), [4.0, 6.0]);
        assert_eq!(seconds(Spans { tokens: Some(&[3, 3, 3, 1]), ..all }), [2.0]);
        assert_eq!(seconds(Spans { starts: None, ..all }), [5.0, 7.0, 9.0]);
    }

    proptest! {
        #[test]
        fn selection_finds_what_sorting_finds(
            values in prop::collection::vec(
                prop_oneof![-5.0_f64..5.0, Just(1.0), Just(-0.0), Just(f64::NAN)], 0..60
            ),
            shares in prop::collection::vec(prop_oneof![0.0_f64..=1.0, Just(0.5), Just(1.0)], 0..6),
        ) {
            let mut sorted: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
            sorted.sort_by(f64::total_cmp);
            let found = Spread::of(&values, &shares);
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
