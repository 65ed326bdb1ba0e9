//! A mergeable sketch of tick counts with a stated relative error.
//!
//! Log-linear buckets: every power of two is cut into 128 buckets of equal
//! width, so a value reported as its bucket's middle is off by at most one
//! part in 256. Count, sum, sum of squares, minimum and maximum are exact. All
//! of it is integer addition, so merging commutes and the order in which gaps
//! arrive changes nothing. (The layout is that of `HdrHistogram` by Gil Tene;
//! the bound is the same kind that `DDSketch` gives.)

use serde::{Deserialize, Serialize};

use crate::series::Series;
use crate::time::Ticks;

/// The logarithm of the buckets in a power of two.
const SUB_BITS: u32 = 7;
/// Buckets in a power of two.
const SUB: u64 = 1 << SUB_BITS;

/// Counts of values by bucket, with exact moments.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SketchWire", into = "SketchWire")]
pub struct Sketch {
    /// Counts by bucket, up to the last that has one.
    counts: Vec<u64>,
    /// The number of values.
    count: u64,
    /// Their sum.
    sum: u128,
    /// The sum of their squares.
    sum_of_squares: u128,
    /// The smallest value.
    min: Ticks,
    /// The largest value.
    max: Ticks,
}

/// How a sketch is written down: only the buckets that hold something.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SketchWire {
    /// (bucket, count) of the buckets that have values.
    buckets: Vec<(u32, u64)>,
    count: u64,
    sum: String,
    sum_of_squares: String,
    min: Ticks,
    max: Ticks,
}

impl From<Sketch> for SketchWire {
    fn from(sketch: Sketch) -> Self {
        let held = sketch.counts.iter().enumerate().filter(|(_, n)| **n > 0);
        Self {
            buckets: held.map(|(i, n)| (i as u32, *n)).collect(),
            count: sketch.count,
            sum: sketch.sum.to_string(),
            sum_of_squares: sketch.sum_of_squares.to_string(),
            min: sketch.min,
            max: sketch.max,
        }
    }
}

impl TryFrom<SketchWire> for Sketch {
    type Error = String;

    /// Refuses what no values could have left behind.
    fn try_from(wire: SketchWire) -> Result<Self, String> {
        let number = |name: &str, text: &str| {
            text.parse::<u128>().map_err(|_| format!("{name} must be a whole number, was {text:?}"))
        };
        let mut sketch = Self {
            count: wire.count,
            sum: number("sum", &wire.sum)?,
            sum_of_squares: number("sum_of_squares", &wire.sum_of_squares)?,
            min: wire.min,
            max: wire.max,
            ..Self::default()
        };
        let mut held = 0_u64;
        for (index, n) in wire.buckets {
            let most = bucket(Ticks::MAX);
            if index as usize > most {
                return Err(format!("a bucket must be 0 to {most}, was {index}"));
            }
            let after = held.checked_add(n).filter(|&sum| sum <= wire.count);
            held = after.ok_or_else(|| format!("buckets must hold {} values, held more", wire.count))?;
            *sketch.slot(index as usize) += n;
        }
        if held != sketch.count {
            return Err(format!("buckets must hold {} values, held {held}", sketch.count));
        }
        if sketch.min > sketch.max {
            return Err(format!("min must be at most max, {}, was {}", sketch.max, sketch.min));
        }
        let (count, sum) = (u128::from(sketch.count), sketch.sum);
        if sum < count * u128::from(sketch.min) || sum > count * u128::from(sketch.max) {
            return Err(format!("sum must be {count} values of min to max, was {sum}"));
        }
        Ok(sketch)
    }
}

/// The bucket that holds `value`.
fn bucket(value: Ticks) -> usize {
    if value < SUB {
        return value as usize;
    }
    let shift = value.ilog2() - SUB_BITS;
    ((u64::from(shift) << SUB_BITS) + (value >> shift)) as usize
}

/// The smallest value that falls into bucket `index`.
fn lower_bound(index: usize) -> u128 {
    let index = index as u64;
    if index < 2 * SUB {
        return u128::from(index);
    }
    let shift = (index >> SUB_BITS) - 1;
    u128::from((index & (SUB - 1)) + SUB) << shift
}

/// The product, or `u128::MAX` if it exceeds that: in most cases both factors are far from it.
fn times(squares: u128, weight: u64) -> u128 {
    if squares >> 96 == 0 && weight >> 32 == 0 {
        return squares * u128::from(weight);
    }
    saturated(squares, weight)
}

/// The same, where the product may exceed the range.
#[cold]
#[inline(never)]
fn saturated(squares: u128, weight: u64) -> u128 {
    squares.saturating_mul(u128::from(weight))
}

impl Sketch {
    /// The largest relative error of a quantile.
    pub const RELATIVE_ERROR: f64 = 1.0 / 256.0;

    /// The count of a bucket, which is added if there is none.
    fn slot(&mut self, index: usize) -> &mut u64 {
        if index >= self.counts.len() {
            self.grow(index);
        }
        &mut self.counts[index]
    }

    /// Adds buckets up to this one.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, index: usize) {
        self.counts.resize(index + 1, 0);
    }

    /// Adds `weight` copies of `value`.
    pub fn add(&mut self, value: Ticks, weight: u64) {
        if weight == 0 {
            return;
        }
        if self.count == 0 {
            (self.min, self.max) = (value, value);
        } else {
            self.min = self.min.min(value);
            self.max = self.max.max(value);
        }
        self.count += weight;
        self.sum += u128::from(weight) * u128::from(value);
        let square = u128::from(value) * u128::from(value);
        self.sum_of_squares = self.sum_of_squares.saturating_add(times(square, weight));
        *self.slot(bucket(value)) += weight;
    }

    /// Adds `weight` copies of each of the first `steps` lengths of `series`.
    pub fn add_series(&mut self, weight: u64, series: &Series, steps: u64) {
        if weight == 0 || steps == 0 {
            return;
        }
        if steps == 1 {
            self.add(series.first, weight);
            return;
        }
        let last = series.at(steps - 1);
        if self.count == 0 {
            (self.min, self.max) = (series.first, last);
        } else {
            self.min = self.min.min(series.first);
            self.max = self.max.max(last);
        }
        self.count += weight * steps;
        self.sum += u128::from(weight) * series.total(steps);
        let squares = times(series.total_of_squares(steps), weight);
        self.sum_of_squares = self.sum_of_squares.saturating_add(squares);
        let (from, to) = (bucket(series.first), bucket(last));
        if from == to {
            *self.slot(from) += weight * steps;
            return;
        }
        self.spread(weight, series, steps);
    }

    /// Counts lengths that fall into several buckets.
    #[inline(never)]
    fn spread(&mut self, weight: u64, series: &Series, steps: u64) {
        let mut i = 0;
        while i < steps {
            let value = series.at(i);
            let index = bucket(value);
            let room = lower_bound(index + 1) - u128::from(value);
            // The room of a bucket is 1 to 2^64: what one less is fits into 64 bits.
            let inside = ((room - 1) as u64 / series.slope).min(steps - i - 1) + 1;
            *self.slot(index) += weight * inside;
            i += inside;
        }
    }

    /// Adds everything that `other` holds.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        for (index, n) in other.counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            *self.slot(index) += n;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
        self.sum_of_squares = self.sum_of_squares.saturating_add(other.sum_of_squares);
    }

    /// How many values were added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their exact sum.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The smallest value, if there is one.
    pub fn min(&self) -> Option<Ticks> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest value, if there is one.
    pub fn max(&self) -> Option<Ticks> {
        (self.count > 0).then_some(self.max)
    }

    /// Population variance in ticks squared, from the exact moments. (The sum
    /// of squares stops at 2^128, which a billion gaps of an hour each reach.)
    pub fn variance(&self) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        // Centred on the whole-tick mean first: the two large terms cancel in
        // integers, where nothing is lost.
        let count = u128::from(self.count);
        let mean = self.sum / count;
        let rest = (self.sum - mean * count) as f64 / self.count as f64;
        let centred = self
            .sum_of_squares
            .saturating_sub(mean.saturating_mul(self.sum))
            .saturating_sub(mean.saturating_mul(self.sum - mean * count));
        Some(centred as f64 / self.count as f64 - rest * rest)
    }

    /// The value at quantile `q` in `[0, 1]`: the middle of the bucket that
    /// holds the value of rank `ceil(q * count)`, kept within the extremes.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        if self.count == 0 || !(0.0..=1.0).contains(&q) {
            return None;
        }
        let rank = ((q * self.count as f64).ceil() as u64).clamp(1, self.count);
        let mut seen = 0;
        for (index, n) in self.counts.iter().enumerate() {
            seen += n;
            if seen >= rank {
                let middle = (lower_bound(index) + lower_bound(index + 1) - 1) as f64 / 2.0;
                return Some(middle.clamp(self.min as f64, self.max as f64));
            }
        }
        Some(self.max as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_tile_the_integers() {
        for index in 0..bucket(Ticks::MAX) {
            let lower = lower_bound(index) as u64;
            let upper = (lower_bound(index + 1) - 1) as u64;
            assert_eq!((bucket(lower), bucket(upper)), (index, index));
        }
    }

    #[test]
    fn what_no_values_leave_behind_is_refused() {
        let text = |buckets: &str, count: u64, sum: &str, min: u64, max: u64| {
            format!(
                r#"{{"buckets": {buckets}, "count": {count}, "sum": "{sum}", "sum_of_squares": "9", "min": {min}, "max": {max}}}"#
            )
        };
        let read = |text: String| serde_json::from_str::<Sketch>(&text).map_err(|error| error.to_string());
        assert_eq!(read(text("[[3, 1]]", 1, "3", 3, 3)).unwrap().max(), Some(3));
        let refused = [
            (text("[[3, 1]]", 1, "3", 4, 3), "min must be at most max"),
            (text("[[3, 1]]", 2, "3", 3, 3), "buckets must hold 2 values, held 1"),
            (text("[[3, 18446744073709551615], [4, 1]]", 1, "3", 3, 3), "held more"),
            (text("[[4000000000, 1]]", 1, "3", 3, 3), "a bucket must be 0 to"),
            (text("[[3, 1]]", 1, "7", 3, 3), "sum must be 1 values of min to max, was 7"),
            (text("[[3, 1]]", 1, "-1", 3, 3), "sum must be a whole number"),
        ];
        for (text, rule) in refused {
            assert!(read(text.clone()).unwrap_err().contains(rule), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_series_equals_its_values(
            first in 0u64..10_000_000, slope in 0u64..100_000, steps in 1u64..300, weight in 1u64..5,
        ) {
            let series = Series { first, slope };
            let mut at_once = Sketch::default();
            at_once.add_series(weight, &series, steps);
            let mut one_by_one = Sketch::default();
            for i in 0..steps {
                one_by_one.add(series.at(i), weight);
            }
            prop_assert_eq!(&at_once, &one_by_one);
            let text = serde_json::to_string(&at_once).unwrap();
            prop_assert_eq!(at_once, serde_json::from_str::<Sketch>(&text).unwrap());
        }

        #[test]
        fn quantiles_keep_the_stated_error(
            mut values in prop::collection::vec(1u64..u64::MAX / 2, 1..200), q in 0.0f64..=1.0,
        ) {
            let mut sketch = Sketch::default();
            for &value in &values {
                sketch.add(value, 1);
            }
            values.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1] as f64;
            let off = (sketch.quantile(q).unwrap() - exact).abs() / exact;
            prop_assert!(off <= Sketch::RELATIVE_ERROR * 1.000_001, "off by {off}");
        }

        #[test]
        fn merging_commutes(
            left in prop::collection::vec(1u64..1_000_000, 0..50),
            right in prop::collection::vec(1u64..1_000_000, 0..50),
        ) {
            let fill = |values: &[u64]| {
                let mut sketch = Sketch::default();
                for &value in values {
                    sketch.add(value, 1);
                }
                sketch
            };
            let (mut ab, mut ba) = (fill(&left), fill(&right));
            ab.merge(&fill(&right));
            ba.merge(&fill(&left));
            prop_assert_eq!(ab.count(), (left.len() + right.len()) as u64);
            prop_assert_eq!(serde_json::to_string(&ab).unwrap(), serde_json::to_string(&ba).unwrap());
        }
    }
}
