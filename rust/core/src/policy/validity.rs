//! How long a value surely stays as it is.

use super::linear::Linear;

/// A number of steps of the request and a number of ticks during which a value surely stays as it is.
///
/// The bounds are never too long. If they are too short, the expression is only evaluated once more than needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Validity {
    /// Steps of the request, at least 1.
    pub(crate) steps: u64,
    /// Ticks, at least 1.
    pub(crate) ticks: u64,
}

impl Validity {
    /// Of a value that depends on neither steps nor time.
    pub(crate) const EVER: Self = Self { steps: u64::MAX, ticks: u64::MAX };

    /// Lowers the steps to at most `steps`, but at least 1.
    pub(crate) fn within_steps(&mut self, steps: u64) {
        self.steps = self.steps.min(steps.max(1));
    }

    /// Lowers the ticks to at most `ticks`, but at least 1.
    pub(crate) fn within_ticks(&mut self, ticks: u64) {
        self.ticks = self.ticks.min(ticks.max(1));
    }

    /// Ends before `line` has risen by more than `up` or fallen by more than `down`.
    pub(super) fn end_before(&mut self, line: Linear, up: f64, down: f64) {
        if line.per_step != 0.0 && line.per_tick != 0.0 {
            // How far the line moves depends on how long the steps take.
            self.within_steps(1);
            self.within_ticks(1);
            return;
        }
        if line.per_step != 0.0 {
            let distance = if line.per_step > 0.0 { up } else { down };
            self.within_steps((distance / line.per_step.abs()).floor() as u64);
        }
        if line.per_tick != 0.0 {
            let distance = if line.per_tick > 0.0 { up } else { down };
            // Doubles hold about 2^53 ticks exactly: keep clear of rounding.
            let ticks = (distance / line.per_tick.abs() * (1.0 - 1e-12)).floor() - 4096.0;
            self.within_ticks(ticks.max(0.0) as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_validity_only_gets_shorter_and_lasts_at_least_one_step() {
        let mut validity = Validity::EVER;
        validity.within_steps(7);
        validity.within_steps(9);
        assert_eq!(validity, Validity { steps: 7, ticks: u64::MAX });
        validity.within_steps(0);
        validity.within_ticks(0);
        assert_eq!(validity, Validity { steps: 1, ticks: 1 });
    }

    #[test]
    fn a_line_ends_it_in_the_direction_in_which_it_moves() {
        let line = |per_step, per_tick| Linear { value: 100.0, per_step, per_tick };
        let steps = |per_step, up, down| {
            let mut validity = Validity::EVER;
            validity.end_before(line(per_step, 0.0), up, down);
            validity.steps
        };
        assert_eq!(steps(2.0, 11.0, 1.0), 5, "five steps of 2 stay within 11");
        assert_eq!(steps(-2.0, 11.0, 7.0), 3);
        assert_eq!(steps(2.0, f64::INFINITY, 0.0), u64::MAX);
        let mut validity = Validity::EVER;
        validity.end_before(line(0.0, 1e-12), 1.0, 0.0);
        let (early, exact) = (validity.ticks, 1_000_000_000_000);
        assert!(early < exact && early > exact - 10_000, "a second is 10^12 ticks, less a margin: {early}");
    }
}
