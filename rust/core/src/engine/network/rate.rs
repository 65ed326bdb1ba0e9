//! The rate of a medium, exact.
//!
//! A rate is a double, which is a whole number of 53 bits times a power of two. So the ticks of a message are a quotient of
//! whole numbers, and rounding up is the only rounding.

#[cfg(test)]
use crate::config::{LEAST_RATE as LEAST, MOST_RATE as MOST};
use crate::time::{TICKS_PER_SECOND, Ticks};

/// The bits of a double's mantissa that are stored.
const STORED_BITS: u32 = f64::MANTISSA_DIGITS - 1;

/// Bytes a second: `mantissa × 2^exponent`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rate {
    mantissa: u64,
    exponent: i32,
}

impl Rate {
    /// The rate that a double says, within the range that a configuration may have.
    pub(super) fn new(bytes_per_s: f64) -> Self {
        let bits = bytes_per_s.to_bits();
        let mantissa = bits & ((1 << STORED_BITS) - 1) | 1 << STORED_BITS;
        let exponent = (bits >> STORED_BITS) as i32 - (f64::MAX_EXP - 1) - STORED_BITS as i32;
        Self { mantissa, exponent }
    }

    /// The ticks that so many bytes take, rounded up; the largest number if the clock cannot hold them.
    pub(super) fn ticks(self, bytes: u64) -> Ticks {
        // Below 2^104, as a second has fewer than 2^40 ticks.
        let work = u128::from(bytes) * u128::from(TICKS_PER_SECOND);
        let mantissa = u128::from(self.mantissa);
        let ticks = if self.exponent >= 0 {
            Some(work.div_ceil(mantissa << self.exponent))
        } else {
            // `work × 2^shift` need not fit. The quotient by parts does, or the clock does not hold it: the remainder has
            // 53 bits, and the shift is at most 72.
            let shift = self.exponent.unsigned_abs();
            let (whole, rest) = (work / mantissa, work % mantissa);
            whole
                .checked_mul(1 << shift)
                .and_then(|whole| whole.checked_add((rest << shift).div_ceil(mantissa)))
        };
        ticks.and_then(|ticks| Ticks::try_from(ticks).ok()).unwrap_or(Ticks::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fractions_of_a_byte_a_second_count() {
        assert_eq!(Rate::new(0.125).ticks(10), 80 * TICKS_PER_SECOND);
        assert_eq!(Rate::new(1.5).ticks(3), 2 * TICKS_PER_SECOND);
        assert_eq!(Rate::new(LEAST).ticks(1), (1 << 20) * TICKS_PER_SECOND);
        // 2^64 x 10^12 / 2^100 is 14.6.
        assert_eq!(Rate::new(MOST).ticks(u64::MAX), 15);
        assert_eq!(Rate::new(LEAST).ticks(u64::MAX), Ticks::MAX);
    }

    proptest! {
        #[test]
        fn a_whole_rate_divides_as_whole_numbers_do(rate in 1_u64..1 << 53, bytes: u64) {
            let exact = (u128::from(bytes) * u128::from(TICKS_PER_SECOND)).div_ceil(u128::from(rate));
            prop_assert_eq!(Rate::new(rate as f64).ticks(bytes), Ticks::try_from(exact).unwrap_or(Ticks::MAX));
        }

        #[test]
        fn a_rate_in_quarters_takes_a_quarter_of_the_time_of_four_times_the_bytes(
            quarters in 1_u64..1 << 53, bytes in 0_u64..1 << 62,
        ) {
            let whole = Rate::new(quarters as f64).ticks(4 * bytes);
            prop_assert_eq!(Rate::new(quarters as f64 / 4.0).ticks(bytes), whole);
        }
    }
}
