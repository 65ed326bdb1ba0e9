//! Seeded random numbers, for rules that draw.
//!
//! The generator is splitmix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014), modulo
//! the number of outcomes: the modulo favours low outcomes by less than one in 2^50 for any number of instances.

use serde::{Deserialize, Serialize};

/// The increment of the generator's state.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// A sequence of random numbers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Draws(u64);

impl Draws {
    /// The sequence of a router: of the first, the seed itself begins it.
    pub(super) fn new(seed: u64, router: u64) -> Self {
        Self(if router == 0 { seed } else { seed ^ mix(router.wrapping_mul(GAMMA)) })
    }

    /// A number below `n`, which is at least 1.
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(GAMMA);
        (mix(self.0) % n as u64) as usize
    }

    /// Puts `k` different numbers below `n` into `drawn`, or all if there are fewer. The second and later draws count
    /// the numbers that are left, around from the one after the last drawn.
    pub(super) fn sample(&mut self, n: usize, k: usize, drawn: &mut Vec<usize>) {
        drawn.clear();
        if n <= 1 {
            drawn.extend(0..n);
            return;
        }
        let mut at = self.below(n);
        drawn.push(at);
        for left in (1..n).rev().take(k.saturating_sub(1)) {
            for _ in 0..=self.below(left) {
                at = (at + 1) % n;
                while drawn.contains(&at) {
                    at = (at + 1) % n;
                }
            }
            drawn.push(at);
        }
    }
}

/// A number in which every bit depends on every bit of `x`.
pub(in crate::engine) fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_generator_is_splitmix64() {
        // The first outputs for the seed 1234567, as in the public test vectors of splitmix64.
        let mut state = 1_234_567_u64;
        let outputs = [0; 3].map(|_: u64| {
            state = state.wrapping_add(GAMMA);
            mix(state)
        });
        assert_eq!(
            outputs,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
        assert_eq!(Draws::new(1_234_567, 0).below(1000), 317);
    }

    #[test]
    fn routers_have_sequences_of_their_own() {
        let sequence = |router| {
            let mut draws = Draws::new(7, router);
            [0; 8].map(|_: usize| draws.below(1 << 30))
        };
        assert_ne!(sequence(0), sequence(1));
        assert_ne!(sequence(1), sequence(2));
    }

    proptest! {
        #[test]
        fn a_sample_has_different_numbers_and_every_number_of_two_is_as_drawn(
            seed in any::<u64>(), n in 0usize..40, k in 1usize..50,
        ) {
            let mut drawn = Vec::new();
            Draws::new(seed, 0).sample(n, k, &mut drawn);
            let mut sorted = drawn.clone();
            sorted.sort_unstable();
            sorted.dedup();
            prop_assert_eq!(sorted.len(), k.min(n));
            prop_assert!(sorted.iter().all(|&i| i < n));
            if n >= 2 && k >= 2 {
                let mut draws = Draws::new(seed, 0);
                let first = draws.below(n);
                prop_assert_eq!(&drawn[..2], &[first, (first + 1 + draws.below(n - 1)) % n]);
            }
        }
    }
}
