//! A part of the simulated time.

use serde::Deserialize;

use crate::time::Ticks;

/// The moments from `from` on and before `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Its first moment.
    pub from: Ticks,
    /// The moment at which it is over.
    pub to: Ticks,
}

impl Window {
    /// All moments.
    pub const ALL: Self = Self { from: 0, to: Ticks::MAX };

    /// Whether a moment is in it.
    pub fn contains(&self, moment: Ticks) -> bool {
        (self.from..self.to).contains(&moment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_its_first_moment_and_not_its_end() {
        let window = Window { from: 3, to: 5 };
        assert_eq!([2, 3, 4, 5].map(|moment| window.contains(moment)), [false, true, true, false]);
        assert!(Window::ALL.contains(0));
    }
}
