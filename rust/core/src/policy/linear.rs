//! Values that change linearly with steps and time.

use super::number::Number;
use super::validity::Validity;

/// A value and how it changes: `value + per_step * steps + per_tick * ticks`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Linear {
    /// The value now.
    pub(crate) value: f64,
    /// Its change in a step of the request.
    pub(crate) per_step: f64,
    /// Its change in a tick.
    pub(crate) per_tick: f64,
}

impl Linear {
    /// Whether the value never changes.
    fn is_fixed(self) -> bool {
        self.per_step == 0.0 && self.per_tick == 0.0
    }

    /// The line times a number.
    fn scaled(self, by: f64) -> Self {
        Self { value: self.value * by, per_step: self.per_step * by, per_tick: self.per_tick * by }
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
            validity.end_before(self, up, down);
        }
    }

    fn value(self) -> f64 {
        self.value
    }
}
