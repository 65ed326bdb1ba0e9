//! The routed experts of a step: what is read depends on how many are hit.

use serde::Deserialize;

use super::super::points::between;
use crate::time::Ticks;

/// Routed experts of all layers that have some:
/// `max(weights(n) + token_bytes * n, token_flops * n)` for `n` tokens.
///
/// Experts that no token of the batch is routed to are not read. How many are
/// is a curve in the tokens, in closed form or measured; Python turns it into
/// ticks at whole numbers of tokens, and what lies between is interpolated here
/// in integers. The tokens stay the same over a run, and so does this.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experts {
    /// Tokens and the ticks to read the weights that they need, by rising
    /// tokens. Before the first point the line starts at 0 tokens and 0 ticks;
    /// past the last one the ticks stay.
    pub weights: Vec<(u64, Ticks)>,
    /// Ticks to read and write one token's activations in its experts.
    pub token_bytes: Ticks,
    /// Ticks to multiply one token in its experts.
    pub token_flops: Ticks,
}

impl Experts {
    /// Ticks for `n` tokens.
    pub(super) fn at(&self, n: u64) -> Ticks {
        if n == 0 {
            return 0;
        }
        between(&self.weights, n)
            .saturating_add(self.token_bytes.saturating_mul(n))
            .max(self.token_flops.saturating_mul(n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experts() -> Experts {
        Experts { weights: vec![(1, 80), (2, 150), (10, 501)], token_bytes: 3, token_flops: 40 }
    }

    #[test]
    fn nothing_is_read_for_no_tokens() {
        assert_eq!(experts().at(0), 0);
    }

    #[test]
    fn the_curve_is_met_at_its_points_and_straight_between_them() {
        let free = Experts { token_bytes: 0, token_flops: 0, ..experts() };
        assert_eq!(
            [1, 2, 3, 9, 10, 11, u64::MAX].map(|n| free.at(n)),
            [80, 150, 193, 457, 501, 501, 501],
            "351 over 8 tokens, rounded down"
        );
    }

    #[test]
    fn the_line_to_the_first_point_starts_at_nothing() {
        let late = Experts { weights: vec![(4, 100)], token_bytes: 0, token_flops: 0 };
        assert_eq!([1, 2, 3, 4].map(|n| late.at(n)), [25, 50, 75, 100]);
    }

    #[test]
    fn many_tokens_wait_for_arithmetic() {
        assert_eq!(experts().at(10), 531);
        assert_eq!(experts().at(14), 560);
    }

    #[test]
    fn no_points_and_far_points_do_no_harm() {
        let none = Experts { weights: Vec::new(), token_bytes: 1, token_flops: 0 };
        assert_eq!(none.at(7), 7);
        let far = Experts { weights: vec![(u64::MAX, u64::MAX)], token_bytes: 0, token_flops: 0 };
        assert_eq!(far.at(u64::MAX - 1), u64::MAX - 1);
    }
}
