//! How long a value surely stays as it is.

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
}
