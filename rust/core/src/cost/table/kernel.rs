//! Attention over its four axes.

use serde::Deserialize;

use super::grid::{Place, check_axis, check_ticks};
use super::skew::ALPHA_ONE;

/// Ticks over prompt tokens computed, their history, decoding requests and
/// those requests' context. An axis that a kind of step lacks has one point.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Points")]
pub struct Kernel {
    /// Prompt tokens computed in the step.
    pub tokens: Vec<u64>,
    /// Tokens computed before, of the prompts in the step.
    pub history: Vec<u64>,
    /// Decoding requests.
    pub requests: Vec<u64>,
    /// Tokens in the context of each of those.
    pub context: Vec<u64>,
    /// Row by row, the context running fastest.
    ticks: Vec<i64>,
}

/// A kernel as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Points {
    tokens: Vec<u64>,
    history: Vec<u64>,
    requests: Vec<u64>,
    context: Vec<u64>,
    ticks: Vec<i64>,
}

impl TryFrom<Points> for Kernel {
    type Error = String;

    fn try_from(points: Points) -> Result<Self, String> {
        let Points { tokens, history, requests, context, ticks } = points;
        let axes =
            [("tokens", &tokens), ("history", &history), ("requests", &requests), ("context", &context)];
        for (name, axis) in axes {
            check_axis(name, axis)?;
        }
        check_ticks(&ticks, axes.iter().map(|(_, axis)| axis.len()).product())?;
        Ok(Self { tokens, history, requests, context, ticks })
    }
}

/// A kernel at one place on all axes but the context.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column<'a> {
    /// The kernel.
    kernel: &'a Kernel,
    /// The place on each axis but the context.
    places: [Place; 3],
}

/// A value on a stretch of a column, and how it continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Along {
    /// Ticks.
    pub(super) value: i128,
    /// The ticks that each further token of context adds.
    pub(super) slope: i128,
    /// Steps, this one included, until the stretch ends.
    pub(super) left: u64,
}

impl Kernel {
    /// The last point of the context.
    pub(super) fn context_end(&self) -> u64 {
        self.context[self.context.len() - 1]
    }

    /// The column at these prompt tokens, this history and these requests.
    pub(super) fn column(&self, tokens: u64, history: (u128, u128), requests: u64) -> Column<'_> {
        Column {
            kernel: self,
            places: [
                Place::of(&self.tokens, u128::from(tokens), 1),
                Place::of(&self.history, history.0, history.1),
                Place::of(&self.requests, u128::from(requests), 1),
            ],
        }
    }
}

impl Column<'_> {
    /// The value at point `context` of the last axis: linear on the other three.
    fn point(&self, context: usize) -> i128 {
        let kernel = self.kernel;
        let widths = [kernel.history.len(), kernel.requests.len(), kernel.context.len()];
        self.fold(0, 0, widths, context)
    }

    /// The value at point `context` of the last axis, with the axes from `axis` on still to be interpolated.
    fn fold(&self, axis: usize, row: usize, widths: [usize; 3], context: usize) -> i128 {
        let Some(&place) = self.places.get(axis) else {
            return i128::from(self.kernel.ticks[row + context]);
        };
        let next = |index: usize| self.fold(axis + 1, (row + index) * widths[axis], widths, context);
        let lo = next(place.lo);
        if place.num == 0 { lo } else { place.between(lo, next(place.lo + 1)) }
    }

    /// The value at a context of `whole + part / of` tokens.
    pub(super) fn at(&self, whole: u64, part: u64, of: u64) -> Along {
        let axis = &self.kernel.context;
        let passed = axis.partition_point(|&point| point <= whole);
        if axis.len() == 1 {
            return Along { value: self.point(0), ..Along::LEVEL };
        }
        if passed == 0 {
            return Along { value: self.point(0), slope: 0, left: axis[0] - whole };
        }
        let cell = passed - 1;
        let from = cell.min(axis.len() - 2);
        let (start, end) = (self.point(from), self.point(from + 1));
        let slope = per_token(end.saturating_sub(start), axis[from + 1] - axis[from]);
        let anchor = if cell == from { start } else { end };
        let value = anchor
            .saturating_add(slope.saturating_mul(i128::from(whole - axis[cell])))
            .saturating_add((slope.saturating_mul(i128::from(part))).div_euclid(i128::from(of)));
        let left = axis.get(passed).map_or(u64::MAX, |&end| end - whole);
        Along { value, slope, left }
    }
}

/// The rise of a stretch per token, to the nearest multiple of [`ALPHA_ONE`].
fn per_token(rise: i128, width: u64) -> i128 {
    let unit = i128::from(width) * i128::from(ALPHA_ONE);
    rise.saturating_add(unit / 2).div_euclid(unit) * i128::from(ALPHA_ONE)
}

impl Along {
    /// No attention: 0 ticks for ever.
    pub(super) const LEVEL: Self = Self { value: 0, slope: 0, left: u64::MAX };

    /// `self + alpha * (top - self)`, with `alpha` in units of 1 / [`ALPHA_ONE`].
    /// Both slopes are multiples of that, so the blend's slope is whole.
    pub(super) fn blend(self, top: Self, alpha: i64, left: u64) -> Self {
        let (one, alpha) = (i128::from(ALPHA_ONE), i128::from(alpha));
        let mix = |low: i128, high: i128| {
            (one - alpha).saturating_mul(low).saturating_add(alpha.saturating_mul(high)).div_euclid(one)
        };
        Self {
            value: mix(self.value, top.value),
            slope: mix(self.slope, top.slope),
            left: self.left.min(top.left).min(left),
        }
    }
}
