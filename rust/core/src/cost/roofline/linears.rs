//! The time of all matrix multiplications together, as one line for each range of tokens.

use super::Linear;
use crate::time::Ticks;

/// The sum of some multiplications, each of which is bound by memory for few tokens and by arithmetic for many: straight
/// lines, from one number of tokens on up to the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Lines {
    /// By the first number of tokens for which a line holds.
    lines: Vec<(u64, Ticks, Ticks)>,
}

impl Lines {
    /// The sum of `linears`.
    pub(super) fn new(linears: &[Linear]) -> Self {
        let mut starts: Vec<u64> = linears.iter().filter_map(first_bound_by_arithmetic).chain([1]).collect();
        starts.sort_unstable();
        starts.dedup();
        let line = |from: u64| {
            linears.iter().fold((from, 0_u64, 0_u64), |(from, fixed, token), linear| {
                let by_arithmetic = first_bound_by_arithmetic(linear).is_some_and(|first| first <= from);
                let by_memory = (linear.weights, linear.token_bytes);
                let (more, each) = if by_arithmetic { (0, linear.token_flops) } else { by_memory };
                (from, fixed.saturating_add(more), token.saturating_add(each))
            })
        };
        Self { lines: starts.into_iter().map(line).collect() }
    }

    /// Ticks for `n` tokens; `None` if there are no lines.
    pub(super) fn at(&self, n: u64) -> Option<Ticks> {
        if n == 0 {
            return Some(0);
        }
        let (_, fixed, token) = self.lines.iter().rev().find(|line| line.0 <= n)?;
        Some(fixed.saturating_add(token.saturating_mul(n)))
    }
}

/// The fewest tokens, at least one, for which a multiplication takes as long by arithmetic as by memory; `None` if there
/// are none.
fn first_bound_by_arithmetic(linear: &Linear) -> Option<u64> {
    let ahead = linear.token_flops.checked_sub(linear.token_bytes).filter(|&ahead| ahead > 0)?;
    Some(linear.weights.div_ceil(ahead).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn linear() -> impl Strategy<Value = Linear> {
        let ticks = || prop_oneof![0u64..50, Just(u64::MAX), any::<u64>()];
        (ticks(), ticks(), ticks()).prop_map(|(weights, token_bytes, token_flops)| Linear {
            weights,
            token_bytes,
            token_flops,
        })
    }

    proptest! {
        #[test]
        fn one_line_gives_the_sum_of_the_multiplications(
            linears in prop::collection::vec(linear(), 0..6),
            n in prop_oneof![0u64..80, any::<u64>()],
        ) {
            let sum = linears.iter().fold(0_u64, |sum, linear| sum.saturating_add(linear.at(n)));
            prop_assert_eq!(Lines::new(&linears).at(n), Some(sum));
        }
    }

    #[test]
    fn without_lines_there_is_no_sum() {
        assert_eq!(Lines::default().at(3), None);
    }
}
