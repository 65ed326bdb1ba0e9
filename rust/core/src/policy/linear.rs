//! Values that change linearly with steps and time.

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
    pub(super) fn is_fixed(self) -> bool {
        self.per_step == 0.0 && self.per_tick == 0.0
    }

    /// The line times a number.
    pub(super) fn scaled(self, by: f64) -> Self {
        Self { value: self.value * by, per_step: self.per_step * by, per_tick: self.per_tick * by }
    }

    /// Ends `validity` before the line has risen by more than `up` or fallen by more than `down`.
    pub(super) fn end(self, validity: &mut Validity, up: f64, down: f64) {
        if self.per_step != 0.0 && self.per_tick != 0.0 {
            // How far it moves depends on how long the steps take.
            validity.within_steps(1);
            validity.within_ticks(1);
            return;
        }
        if self.per_step != 0.0 {
            let distance = if self.per_step > 0.0 { up } else { down };
            validity.within_steps((distance / self.per_step.abs()).floor() as u64);
        }
        if self.per_tick != 0.0 {
            let distance = if self.per_tick > 0.0 { up } else { down };
            // Doubles hold about 2^53 ticks exactly: keep clear of rounding.
            let ticks = (distance / self.per_tick.abs() * (1.0 - 1e-12)).floor() - 4096.0;
            validity.within_ticks(ticks.max(0.0) as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_it_in_the_direction_in_which_it_moves() {
        let line = |per_step, per_tick| Linear { value: 100.0, per_step, per_tick };
        let steps = |per_step, up, down| {
            let mut validity = Validity::EVER;
            line(per_step, 0.0).end(&mut validity, up, down);
            validity.steps
        };
        assert_eq!(steps(2.0, 11.0, 1.0), 5, "five steps of 2 stay within 11");
        assert_eq!(steps(-2.0, 11.0, 7.0), 3);
        assert_eq!(steps(2.0, f64::INFINITY, 0.0), u64::MAX);
        let mut validity = Validity::EVER;
        line(0.0, 1e-12).end(&mut validity, 1.0, 0.0);
        let (early, exact) = (validity.ticks, 1_000_000_000_000);
        assert!(early < exact && early > exact - 10_000, "a second is 10^12 ticks, less a margin: {early}");
    }
}
