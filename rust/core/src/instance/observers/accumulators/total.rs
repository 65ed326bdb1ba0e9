//! The number of one group.

use serde::{Deserialize, Serialize};

use crate::config::UNITS;
use crate::time::Ticks;

/// The number of one group, and its charges.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Total {
    /// Units for each token of a prompt.
    pub(super) prompt: i64,
    /// Units for each token of an output.
    pub(super) output: i64,
    /// The number in units, where it does not fall; else what was charged since `then`, at that moment.
    pub(super) units: i128,
    /// The rest of a number that falls, in units, as of `then`.
    rest: f64,
    /// When a number that falls was last charged.
    then: Ticks,
}

impl Total {
    /// The number of a new group with these charges for prompts and outputs.
    pub(super) fn new((prompt, output): (i64, i64)) -> Self {
        Self { prompt, output, units: 0, rest: 0.0, then: 0 }
    }

    /// The number at a moment, in ones. One that falls is read to the nearest unit, so that numbers which are equal but for
    /// the rounding of their falls are equal.
    pub(super) fn value(&self, half_life: Ticks, now: Ticks) -> f64 {
        if half_life == 0 {
            return self.value_with(0);
        }
        (self.fallen(half_life, now) + 0.5).floor() / UNITS as f64
    }

    /// The number with more units, of one that does not fall.
    pub(super) fn value_with(&self, units: i128) -> f64 {
        (self.units + units) as f64 / UNITS as f64
    }

    /// The number in units, of one that falls.
    fn fallen(&self, half_life: Ticks, now: Ticks) -> f64 {
        let all = self.rest + self.units as f64;
        all * libm::exp2(-(now.saturating_sub(self.then) as f64 / half_life as f64))
    }

    /// Charges units at a moment. The order of charges at one moment does not matter, nor that steps were leapt over: a
    /// number that falls is charged step by step.
    pub(super) fn charge(&mut self, units: i128, half_life: Ticks, now: Ticks) {
        if half_life > 0 && now > self.then {
            (self.rest, self.units, self.then) = (self.fallen(half_life, now), 0, now);
        }
        self.units += units;
    }

    /// Rises to another number of the same accumulator, if that is larger. Returns whether it is.
    pub(super) fn rise_to(&mut self, other: &Self, half_life: Ticks, now: Ticks) -> bool {
        if half_life == 0 {
            let rises = other.units > self.units;
            self.units = self.units.max(other.units);
            return rises;
        }
        let (own, bound) = (self.fallen(half_life, now), other.fallen(half_life, now));
        if bound > own {
            (self.rest, self.units, self.then) = (bound, 0, now);
        }
        bound > own
    }
}
