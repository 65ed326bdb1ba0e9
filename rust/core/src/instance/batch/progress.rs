//! How many tokens a request has yielded after so many of its decode steps.
//!
//! Without speculation a step yields one token, and the map is the identity. With drafts of which some are accepted, a step
//! yields several. A request whose steps yield 2, 3, 2, 3, … tokens has the mean acceptance of 1.5 drafts a step exactly,
//! and its tokens after any number of steps are known in closed form.

/// Tokens by decode steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Progress {
    /// One token a step.
    Identity,
    /// Numbers of tokens that repeat: the sums of the first 0, 1, … of them. Each is at least 1.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "no mechanism of the engine yields more than one token yet")
    )]
    Periodic(Box<[u32]>),
}

/// At which of the repeating numbers a request is; 0 for the identity.
pub(crate) type Cycle = u16;

impl Progress {
    /// A map whose steps yield these numbers of tokens in turn.
    #[cfg(test)]
    pub(super) fn periodic(numbers: &[u32]) -> Self {
        assert!(numbers.iter().all(|&number| number > 0) && !numbers.is_empty());
        let sums = std::iter::once(0).chain(numbers.iter().scan(0, |sum, number| {
            *sum += number;
            Some(*sum)
        }));
        Self::Periodic(sums.collect())
    }

    /// Steps after which the numbers repeat.
    pub(crate) fn period(&self) -> u64 {
        match self {
            Self::Identity => 1,
            Self::Periodic(sums) => sums.len() as u64 - 1,
        }
    }

    /// Tokens that the first `steps` steps yield.
    #[inline]
    pub(crate) fn tokens_after(&self, steps: u64) -> u64 {
        match self {
            Self::Identity => steps,
            Self::Periodic(sums) => tokens_after(sums, steps),
        }
    }

    /// Steps in which a request that has yielded so many tokens yields `tokens` more.
    #[inline]
    pub(crate) fn steps_for(&self, yielded: u64, tokens: u64) -> u64 {
        match self {
            Self::Identity => tokens,
            Self::Periodic(sums) => {
                let taken = steps_until(sums, yielded);
                steps_until(sums, tokens_after(sums, taken) + tokens) - taken
            }
        }
    }

    /// Where a request is in the period that has yielded so many tokens, when others have taken `step` steps.
    #[inline]
    pub(crate) fn cycle(&self, yielded: u64, step: u64) -> Cycle {
        match self {
            Self::Identity => 0,
            Self::Periodic(sums) => cycle(sums, yielded, step),
        }
    }
}

/// Where in the period a request is that has yielded so many tokens, when others have taken `step` steps.
#[cold]
#[inline(never)]
fn cycle(sums: &[u32], yielded: u64, step: u64) -> Cycle {
    let period = sums.len() as u64 - 1;
    ((steps_until(sums, yielded) % period + period - step % period) % period) as Cycle
}

/// Tokens of the first `steps` steps, of a period whose sums these are.
#[cold]
#[inline(never)]
fn tokens_after(sums: &[u32], steps: u64) -> u64 {
    let period = sums.len() - 1;
    let (whole, rest) = (steps / period as u64, steps % period as u64);
    whole * u64::from(sums[period]) + u64::from(sums[rest as usize])
}

/// The fewest steps that yield at least `tokens` tokens.
#[cold]
#[inline(never)]
fn steps_until(sums: &[u32], tokens: u64) -> u64 {
    let (period, all) = (sums.len() as u64 - 1, u64::from(sums[sums.len() - 1]));
    let (whole, rest) = (tokens / all, tokens % all);
    whole * period + sums.partition_point(|&sum| u64::from(sum) < rest) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_and_three_tokens_in_turn() {
        let map = Progress::periodic(&[2, 3]);
        assert_eq!([0, 1, 2, 3, 4].map(|steps| map.tokens_after(steps)), [0, 2, 5, 7, 10]);
        assert_eq!([0, 1, 2, 3, 5, 6, 7, 8].map(|tokens| map.steps_for(0, tokens)), [0, 1, 1, 2, 2, 3, 3, 4]);
    }

    proptest! {
        #[test]
        fn the_map_is_the_sum_step_by_step(numbers in prop::collection::vec(1u32..6, 1..7), steps in 0u64..60) {
            let map = Progress::periodic(&numbers);
            let yielded = |step: u64| u64::from(numbers[(step % map.period()) as usize]);
            let tokens: u64 = (0..steps).map(yielded).sum();
            prop_assert_eq!(map.tokens_after(steps), tokens);
            prop_assert_eq!(map.steps_for(0, tokens), steps);
            prop_assert_eq!(map.steps_for(0, tokens + 1), steps + 1);
            // A request that has taken `steps` steps when others have taken `step` yields the same from there on.
            let step = 3 * steps / 2 + 1;
            let cycle = u64::from(map.cycle(tokens, step));
            let gained = |from: u64, k: u64| map.tokens_after(from + k) - map.tokens_after(from);
            for k in 0..20 {
                prop_assert_eq!(gained(step + cycle, k), gained(steps, k));
                prop_assert_eq!(map.steps_for(tokens, gained(steps, k)), k);
            }
        }

        #[test]
        fn ones_in_turn_are_the_identity(period in 1usize..5, value in 0u64..100) {
            let map = Progress::periodic(&vec![1; period]);
            prop_assert_eq!(map.tokens_after(value), Progress::Identity.tokens_after(value));
            prop_assert_eq!(map.steps_for(0, value), Progress::Identity.steps_for(0, value));
        }
    }
}
