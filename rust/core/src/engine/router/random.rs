//! Seeded random numbers.
//!
//! [`WyRand`] is wyrand as the crate fastrand 2 has it, whose numbers routers written in Rust draw. A draw below a bound
//! has no bias: it multiplies and rejects (Lemire, "Fast random integer generation in an interval", 2019).

use serde::{Deserialize, Serialize};

/// A generator whose numbers follow from its seed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct WyRand {
    /// The state.
    state: u64,
}

impl WyRand {
    /// A generator with this seed.
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub(super) fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x2d35_8dcc_aa6c_78a5);
        let product = u128::from(self.state) * u128::from(self.state ^ 0x8bb8_4b93_962e_acc9);
        (product as u64) ^ (product >> 64) as u64
    }

    /// A whole number below `n`, which is above 0.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        let mut product = u128::from(self.bits()) * u128::from(n);
        if (product as u64) < n {
            let least = n.wrapping_neg() % n;
            while (product as u64) < least {
                product = u128::from(self.bits()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// A number from 0 to below 1.
    pub(super) fn unit(&mut self) -> f64 {
        loop {
            let drawn = (self.bits() >> 1) as f64 / (1_u64 << 63) as f64;
            if drawn < 1.0 {
                return drawn;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_below_a_bound_are_uniform_and_depend_only_on_the_seed() {
        let mut random = WyRand::new(7);
        let mut counts = [0_u32; 5];
        for _ in 0..5_000 {
            counts[random.below(5) as usize] += 1;
        }
        // The standard deviation of a count is 28.
        assert!(counts.iter().all(|&count| (880..1_120).contains(&count)), "{counts:?}");
        let draws = |seed| (0..4).map(|_| WyRand::new(seed).bits()).collect::<Vec<_>>();
        assert_eq!(draws(3), draws(3));
        assert_ne!(draws(3), draws(4));
    }

    #[test]
    fn units_fill_the_interval() {
        let mut random = WyRand::new(1);
        let drawn: Vec<_> = (0..2_000).map(|_| random.unit()).collect();
        let mean = drawn.iter().sum::<f64>() / 2_000.0;
        assert!(drawn.iter().all(|one| (0.0..1.0).contains(one)));
        assert!((mean - 0.5).abs() < 0.03, "the standard deviation of the mean is 0.0065, was {mean}");
    }
}
