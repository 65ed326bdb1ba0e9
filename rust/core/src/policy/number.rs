//! The two kinds of values with which expressions are evaluated.

use super::linear::Linear;
use super::validity::Validity;

/// A value with which expressions are evaluated: an `f64` if only the present value is needed, or a [`Linear`] if it is
/// also needed how long the value holds.
///
/// Where an operation takes a `validity`, it lowers it so that the result holds that long.
pub(crate) trait Number: Copy {
    /// The value of a line.
    fn of(line: Linear) -> Self;
    /// A value that never changes.
    fn fixed(value: f64) -> Self;
    /// The present value as a constant, which holds until the value first changes.
    fn freeze(self, validity: &mut Validity) -> f64;
    /// `self + sign * other`.
    fn plus(self, other: Self, sign: f64) -> Self;
    /// `self * other`.
    fn times(self, other: Self, validity: &mut Validity) -> Self;
    /// `self / by`.
    fn divided(self, by: Self, validity: &mut Validity) -> Self;
    /// The largest whole number that is at most `self / by`.
    fn divided_whole(self, by: Self, validity: &mut Validity) -> Self;
    /// Ends `validity` before the value has risen by more than `up` or fallen by more than `down`.
    fn bounded(self, up: f64, down: f64, validity: &mut Validity);
    /// The present value.
    fn value(self) -> f64;

    /// 1 if `value` is true, else 0.
    fn truth(value: bool) -> Self {
        Self::fixed(if value { 1.0 } else { 0.0 })
    }
}

impl Number for f64 {
    fn of(line: Linear) -> Self {
        line.value
    }

    fn fixed(value: f64) -> Self {
        value
    }

    fn freeze(self, _: &mut Validity) -> f64 {
        self
    }

    fn plus(self, other: Self, sign: f64) -> Self {
        self + sign * other
    }

    fn times(self, other: Self, _: &mut Validity) -> Self {
        self * other
    }

    fn divided(self, by: Self, _: &mut Validity) -> Self {
        self / by
    }

    fn divided_whole(self, by: Self, _: &mut Validity) -> Self {
        (self / by).floor()
    }

    fn bounded(self, _: f64, _: f64, _: &mut Validity) {}

    fn value(self) -> f64 {
        self
    }
}

impl Number for Linear {
    fn of(line: Linear) -> Self {
        line
    }

    fn fixed(value: f64) -> Self {
        Self { value, per_step: 0.0, per_tick: 0.0 }
    }

    fn freeze(self, validity: &mut Validity) -> f64 {
        if self.per_step != 0.0 {
            validity.within_steps(1);
        }
        if self.per_tick != 0.0 {
            validity.within_ticks(1);
        }
        self.value
    }

    fn plus(self, other: Self, sign: f64) -> Self {
        Self {
            value: self.value + sign * other.value,
            per_step: self.per_step + sign * other.per_step,
            per_tick: self.per_tick + sign * other.per_tick,
        }
    }

    fn times(self, other: Self, validity: &mut Validity) -> Self {
        if other.is_fixed() {
            self.scaled(other.value)
        } else if self.is_fixed() {
            other.scaled(self.value)
        } else {
            Self::fixed(self.freeze(validity) * other.freeze(validity))
        }
    }

    fn divided(self, by: Self, validity: &mut Validity) -> Self {
        if !by.is_fixed() {
            return Self::fixed(self.freeze(validity) / by.freeze(validity));
        }
        Self {
            value: self.value / by.value,
            per_step: self.per_step / by.value,
            per_tick: self.per_tick / by.value,
        }
    }

    fn divided_whole(self, by: Self, validity: &mut Validity) -> Self {
        if !by.is_fixed() || by.value <= 0.0 {
            return Self::fixed((self.freeze(validity) / by.freeze(validity)).floor());
        }
        let whole = (self.value / by.value).floor();
        self.bounded((whole + 1.0) * by.value - self.value, self.value - whole * by.value, validity);
        Self::fixed(whole)
    }

    fn bounded(self, up: f64, down: f64, validity: &mut Validity) {
        if !self.is_fixed() {
            self.end(validity, up, down);
        }
    }

    fn value(self) -> f64 {
        self.value
    }
}
