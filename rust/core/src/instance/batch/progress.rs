//! How many tokens a request has yielded after so many of its decode steps.
//!
//! Without speculation a step yields one token, and the map is the identity. With drafts of which some are accepted, a step
//! computes more tokens than it yields, and yields several. A request whose steps yield 2, 3, 2, 3, … tokens has the mean
//! acceptance of 1.5 drafts a step exactly, and its tokens after any number of steps are known in closed form.

use serde::{Deserialize, Serialize};

/// Tokens by decode steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Progress {
    /// One token a step.
    Identity,
    /// Numbers of tokens that repeat.
    Periodic(Periodic),
}

/// Steps that yield numbers of tokens that repeat, each at least 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Periodic {
    /// The sums of the first 0, 1, … numbers.
    sums: Box<[u32]>,
    /// Tokens that a step computes of a request: at least as many as it yields.
    width: u32,
    /// Tokens after a request's computed ones at the start of a step for which the step has blocks.
    slots: u32,
    /// Whether a request that ends has the KV of its last token, where its steps would have yielded more.
    commits_last: bool,
}

/// At which of the repeating numbers a request is; 0 for the identity.
pub(crate) type Cycle = u16;

impl Periodic {
    /// Steps that yield these numbers in turn. Each computes `width` tokens, and has blocks for `slots`.
    pub(in crate::instance) fn new(numbers: &[u32], (width, slots): (u32, u32)) -> Self {
        let sums = std::iter::once(0).chain(numbers.iter().scan(0, |sum, number| {
            *sum += number;
            Some(*sum)
        }));
        Self { sums: sums.collect(), width, slots, commits_last: false }
    }

    /// The same steps. `commits_last`: a request that ends has the KV of its last token, where they would have yielded more.
    pub(in crate::instance) fn with_last(self, commits_last: bool) -> Self {
        Self { commits_last, ..self }
    }

    pub(super) fn period(&self) -> u64 {
        self.sums.len() as u64 - 1
    }

    /// Tokens of a whole period.
    fn all(&self) -> u64 {
        u64::from(self.sums[self.sums.len() - 1])
    }

    /// Tokens that the first `steps` steps yield.
    pub(super) fn tokens_after(&self, steps: u64) -> u64 {
        let (whole, rest) = (steps / self.period(), steps % self.period());
        whole * self.all() + u64::from(self.sums[rest as usize])
    }

    /// The numbers of a period, from a place in it on.
    pub(super) fn from(&self, place: Cycle) -> impl Iterator<Item = u64> {
        let at = usize::from(place);
        let all = self.sums[at..].windows(2).chain(self.sums[..=at].windows(2));
        all.map(|sums| u64::from(sums[1] - sums[0]))
    }

    /// By how much [`Self::held_after`] grows in `k` steps after the first `steps`: each step has blocks from what the one before
    /// it has yielded.
    pub(super) fn held_in(&self, steps: u64, k: u64) -> u64 {
        let before = steps + self.period() - 1;
        if k == 1 {
            let at = (before % self.period()) as usize;
            return u64::from(self.sums[at + 1] - self.sums[at]);
        }
        self.tokens_after(before + k) - self.tokens_after(before)
    }

    /// At least the tokens that any `steps` steps in turn yield.
    pub(super) fn most_tokens(&self, steps: u64) -> u64 {
        (steps / self.period() + 1).saturating_mul(self.all())
    }

    /// The fewest steps that yield at least `tokens` tokens.
    fn steps_until(&self, tokens: u64) -> u64 {
        let (whole, rest) = (tokens / self.all(), tokens % self.all());
        whole * self.period() + self.sums.partition_point(|&sum| u64::from(sum) < rest) as u64
    }

    /// Tokens for which a request has blocks once it has taken `steps` steps, relative to the tokens that it had computed
    /// before the first: those of the latest step, which began with what the steps before it had yielded.
    pub(super) fn held_after(&self, steps: u64) -> i64 {
        let before = self.tokens_after(steps + self.period() - 1) as i64 - self.all() as i64;
        before + i64::from(self.slots)
    }

    /// Where in the period a request is that has yielded so many tokens, if a step ends there.
    pub(in crate::instance) fn place(&self, yielded: u64) -> Option<Cycle> {
        let steps = self.steps_until(yielded);
        (self.tokens_after(steps) == yielded).then_some((steps % self.period()) as Cycle)
    }

    /// Tokens that the step before a place in the period has blocks for past those that its request has computed after it.
    pub(in crate::instance) fn ahead(&self, place: Cycle) -> i64 {
        self.held_after(u64::from(place)) - self.tokens_after(u64::from(place)) as i64
    }
}

impl Progress {
    /// Steps after which the numbers repeat.
    pub(crate) fn period(&self) -> u64 {
        match self {
            Self::Identity => 1,
            Self::Periodic(numbers) => numbers.period(),
        }
    }

    /// Whether a request that ends has the KV of its last token, where its steps would have yielded more.
    pub(crate) fn commits_last(&self) -> bool {
        matches!(self, Self::Periodic(Periodic { commits_last: true, .. }))
    }

    /// Tokens that a step computes of a request.
    pub(crate) fn width(&self) -> u64 {
        match self {
            Self::Identity => 1,
            Self::Periodic(numbers) => u64::from(numbers.width),
        }
    }

    /// Tokens that the first `steps` steps yield.
    pub(crate) fn tokens_after(&self, steps: u64) -> u64 {
        match self {
            Self::Identity => steps,
            Self::Periodic(numbers) => numbers.tokens_after(steps),
        }
    }

    /// As [`Periodic::held_after`]. A step that yields one token has a block for it.
    pub(crate) fn held_after(&self, steps: u64) -> i64 {
        match self {
            Self::Identity => steps as i64,
            Self::Periodic(numbers) => numbers.held_after(steps),
        }
    }

    /// Steps in which a request that has yielded so many tokens yields `tokens` more.
    pub(crate) fn steps_for(&self, yielded: u64, tokens: u64) -> u64 {
        match self {
            Self::Identity => tokens,
            Self::Periodic(numbers) => {
                let taken = numbers.steps_until(yielded);
                numbers.steps_until(numbers.tokens_after(taken) + tokens) - taken
            }
        }
    }

    /// Where a request is in the period that has yielded so many tokens, when others have taken `step` steps.
    pub(crate) fn cycle(&self, yielded: u64, step: u64) -> Cycle {
        match self {
            Self::Identity => 0,
            Self::Periodic(numbers) => {
                let period = numbers.period();
                ((numbers.steps_until(yielded) % period + period - step % period) % period) as Cycle
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn periodic(numbers: &[u32]) -> Progress {
        Progress::Periodic(Periodic::new(numbers, (6, 8)))
    }

    #[test]
    fn two_and_three_tokens_in_turn() {
        let map = periodic(&[2, 3]);
        assert_eq!([0, 1, 2, 3, 4].map(|steps| map.tokens_after(steps)), [0, 2, 5, 7, 10]);
        assert_eq!([0, 1, 2, 3, 5, 6, 7, 8].map(|tokens| map.steps_for(0, tokens)), [0, 1, 1, 2, 2, 3, 3, 4]);
        // The step that ends with 5 tokens began with 2, and has blocks for 8 more.
        assert_eq!([1, 2, 3].map(|steps| map.held_after(steps)), [8, 10, 13]);
        let Progress::Periodic(numbers) = map else { unreachable!() };
        assert_eq!(
            [0, 2, 4, 5, 7].map(|yielded| numbers.place(yielded)),
            [Some(0), Some(1), None, Some(0), Some(1)]
        );
        // After a step that yielded 2 of its 8 slots, 6 are ahead; after one that yielded 3, 5.
        assert_eq!([1, 0].map(|place| numbers.ahead(place)), [6, 5]);
        assert!(!periodic(&[2]).commits_last() && !Progress::Identity.commits_last());
        assert!(Progress::Periodic(numbers.with_last(true)).commits_last());
    }

    proptest! {
        #[test]
        fn the_map_is_the_sum_step_by_step(numbers in prop::collection::vec(1u32..6, 1..7), steps in 0u64..60) {
            let map = periodic(&numbers);
            let yielded = |step: u64| u64::from(numbers[(step % map.period()) as usize]);
            let tokens: u64 = (0..steps).map(yielded).sum();
            prop_assert_eq!(map.tokens_after(steps), tokens);
            prop_assert_eq!(map.steps_for(0, tokens), steps);
            prop_assert_eq!(map.steps_for(0, tokens + 1), steps + 1);
            // A request that has taken `steps` steps when others have taken `step` yields the same from there on.
            let step = 3 * steps / 2 + 1;
            let cycle = u64::from(map.cycle(tokens, step));
            let gained = |from: u64, k: u64| map.tokens_after(from + k) - map.tokens_after(from);
            let Progress::Periodic(numbers) = &map else { unreachable!() };
            for k in 0..20 {
                prop_assert!(numbers.most_tokens(k) >= gained(steps, k));
                prop_assert_eq!(gained(step + cycle, k), gained(steps, k));
                prop_assert_eq!(map.steps_for(tokens, gained(steps, k)), k);
            }
        }

        #[test]
        fn ones_in_turn_are_the_identity(period in 1usize..5, value in 0u64..100) {
            let map = periodic(&vec![1; period]);
            prop_assert_eq!(map.tokens_after(value), Progress::Identity.tokens_after(value));
            prop_assert_eq!(map.steps_for(0, value), Progress::Identity.steps_for(0, value));
        }
    }
}
