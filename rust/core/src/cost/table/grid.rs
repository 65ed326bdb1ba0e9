//! Places on an axis, straight lines between points, and curves made of them.

use serde::Deserialize;

use crate::time::{HORIZON, Ticks};

/// The largest value a table may hold: eleven days, so that sums and products
/// in 128 bits stay far from the ends.
pub(super) const LARGEST: i64 = 1_000_000 * 1_000_000_000_000;

/// Where a coordinate lies on an axis: `num / den` of the way from point `lo`
/// to the next; past the last point more than all of the last stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The point at or below the coordinate.
    pub(super) lo: usize,
    /// The numerator of the share.
    pub(super) num: i128,
    /// The denominator of the share.
    pub(super) den: i128,
}

impl Place {
    /// Finds `above / below` on a rising axis.
    pub(super) fn of(axis: &[u64], above: u128, below: u128) -> Self {
        let passed = axis.partition_point(|&point| u128::from(point) * below <= above);
        if passed == 0 || axis.len() == 1 {
            return Self { lo: 0, num: 0, den: 1 };
        }
        let lo = (passed - 1).min(axis.len() - 2);
        let from = u128::from(axis[lo]) * below;
        let width = u128::from(axis[lo + 1] - axis[lo]) * below;
        Self { lo, num: (above - from) as i128, den: width as i128 }
    }

    /// The same, at the last point where the coordinate lies past it.
    pub(super) fn within(axis: &[u64], at: u64) -> Self {
        let place = Self::of(axis, u128::from(at), 1);
        Self { num: place.num.min(place.den), ..place }
    }

    /// The value on the line from `lo` to `hi`, rounded down.
    pub(super) fn between(self, lo: i128, hi: i128) -> i128 {
        lo.saturating_add((hi.saturating_sub(lo)).saturating_mul(self.num).div_euclid(self.den))
    }
}

/// Ticks over one axis.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Points")]
pub struct Curve {
    /// The points, rising.
    at: Vec<u64>,
    /// The value at each point.
    ticks: Vec<i64>,
}

/// A curve as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Points {
    at: Vec<u64>,
    ticks: Vec<i64>,
}

impl Curve {
    /// The value at `n`; nothing at all takes no time.
    pub fn at(&self, n: u64) -> Ticks {
        if n == 0 {
            return 0;
        }
        let place = Place::of(&self.at, u128::from(n), 1);
        let lo = i128::from(self.ticks[place.lo]);
        let value = if place.num == 0 { lo } else { place.between(lo, self.ticks[place.lo + 1].into()) };
        Ticks::try_from(value.max(0)).unwrap_or(HORIZON)
    }

    /// Whether `n` lies past the last point.
    pub fn ends_before(&self, n: u64) -> bool {
        self.at.last().is_some_and(|&end| n > end)
    }
}

impl TryFrom<Points> for Curve {
    type Error = String;

    fn try_from(points: Points) -> Result<Self, String> {
        check_axis("at", &points.at)?;
        check_ticks(&points.ticks, points.at.len())?;
        Ok(Self { at: points.at, ticks: points.ticks })
    }
}

/// Refuses an axis that is empty, does not rise, or is absurdly long.
pub(super) fn check_axis(name: &str, axis: &[u64]) -> Result<(), String> {
    if axis.is_empty() {
        return Err(format!("{name} must have at least 1 point, had 0"));
    }
    if let Some(i) = (1..axis.len()).find(|&i| axis[i] <= axis[i - 1]) {
        return Err(format!("{name} must rise, was {} after {}", axis[i], axis[i - 1]));
    }
    match axis.last() {
        Some(&last) if last > u64::from(u32::MAX) => {
            Err(format!("{name} must be at most {}, was {last}", u32::MAX))
        }
        _ => Ok(()),
    }
}

/// Refuses values of the wrong number or size.
pub(super) fn check_ticks(ticks: &[i64], points: usize) -> Result<(), String> {
    if ticks.len() != points {
        return Err(format!("ticks must have a value for each of {points} points, had {}", ticks.len()));
    }
    match ticks.iter().find(|value| !(0..=LARGEST).contains(*value)) {
        Some(value) => Err(format!("ticks must be 0 to {LARGEST}, was {value}")),
        None => Ok(()),
    }
}
