//! Numbers of 53 significant bits, in integers.
//!
//! vLLM keeps the target of adaptive replacement as a Python float, and compares its whole part with the size of a list.
//! Sums of quotients are rounded there, so exact fractions could decide otherwise. These numbers are rounded as IEEE 754
//! says of its binary64 format: to the nearest, and to the even one of two that are equally near.

use std::cmp::Ordering;

/// Significant bits.
const BITS: u32 = 53;

/// Exponents differ by more than this: the smaller number is less than a hundred-thousandth of the last bit.
const FAR: i32 = 70;

/// A number that is not negative: `mantissa * 2^exponent`. The mantissa has 53 bits, or is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Binary64 {
    mantissa: u64,
    exponent: i32,
}

impl Binary64 {
    pub(super) const ZERO: Self = Self { mantissa: 0, exponent: 0 };

    /// The number nearest to `value * 2^exponent`. `more`: a little more than that, less than the last bit of `value`.
    fn rounded(value: u128, exponent: i32, more: bool) -> Self {
        if value == 0 {
            return Self::ZERO;
        }
        let bits = 128 - value.leading_zeros();
        if bits <= BITS {
            let shift = BITS - bits;
            return Self { mantissa: (value as u64) << shift, exponent: exponent - shift as i32 };
        }
        let shift = bits - BITS;
        let (mut mantissa, rest) = ((value >> shift) as u64, value & ((1 << shift) - 1));
        let half = 1 << (shift - 1);
        let up = match rest.cmp(&half) {
            Ordering::Greater => true,
            Ordering::Equal => more || mantissa & 1 == 1,
            Ordering::Less => false,
        };
        let mut exponent = exponent + shift as i32;
        mantissa += u64::from(up);
        if mantissa == 1 << BITS {
            (mantissa, exponent) = (mantissa >> 1, exponent + 1);
        }
        Self { mantissa, exponent }
    }

    /// A whole number below 2^53.
    pub(super) fn whole(value: u64) -> Self {
        debug_assert!(value < 1 << BITS, "Invariant: counts of chunks have 32 bits");
        Self::rounded(u128::from(value), 0, false)
    }

    /// The quotient of two whole numbers below 2^53.
    pub(super) fn quotient(of: u64, by: u64) -> Self {
        // So many bits that the quotient has more than it keeps.
        const SHIFT: u32 = 64 + BITS;
        let (of, by) = (u128::from(of), u128::from(by));
        let shift = SHIFT.min(of.leading_zeros());
        let scaled = of << shift;
        Self::rounded(scaled / by, -(shift as i32), scaled % by > 0)
    }

    /// The sum.
    pub(super) fn plus(self, other: Self) -> Self {
        let (more, less) = if self < other { (other, self) } else { (self, other) };
        let apart = more.exponent - less.exponent;
        if less.mantissa == 0 || apart > FAR {
            return more;
        }
        Self::rounded((u128::from(more.mantissa) << apart) + u128::from(less.mantissa), less.exponent, false)
    }

    /// The difference, or 0 if `other` is more.
    pub(super) fn minus(self, other: Self) -> Self {
        if self <= other {
            return Self::ZERO;
        }
        let apart = self.exponent - other.exponent;
        if other.mantissa == 0 || apart > FAR {
            return self;
        }
        Self::rounded(
            (u128::from(self.mantissa) << apart) - u128::from(other.mantissa),
            other.exponent,
            false,
        )
    }

    /// The whole part.
    pub(super) fn floor(self) -> u64 {
        match self.exponent {
            exponent if exponent >= 0 => self.mantissa << exponent,
            exponent if exponent > -64 => self.mantissa >> -exponent,
            _ => 0,
        }
    }
}

impl PartialOrd for Binary64 {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Binary64 {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.mantissa, other.mantissa) {
            (0, _) | (_, 0) => self.mantissa.cmp(&other.mantissa),
            _ => (self.exponent, self.mantissa).cmp(&(other.exponent, other.mantissa)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn float(number: Binary64) -> f64 {
        number.mantissa as f64 * f64::from(number.exponent).exp2()
    }

    proptest! {
        #[test]
        fn sums_of_quotients_are_rounded_as_the_processor_does(
            steps in prop::collection::vec((any::<bool>(), 1u64..5000, 1u64..5000), 1..60),
        ) {
            let (mut number, mut expected) = (Binary64::ZERO, 0.0_f64);
            for (up, of, by) in steps {
                let quotient = Binary64::quotient(of, by);
                let by_processor = of as f64 / by as f64;
                prop_assert_eq!(float(quotient).to_bits(), by_processor.to_bits());
                if up {
                    (number, expected) = (number.plus(quotient), expected + by_processor);
                } else {
                    (number, expected) = (number.minus(quotient), (expected - by_processor).max(0.0));
                }
                prop_assert_eq!(float(number).to_bits(), expected.to_bits());
                prop_assert_eq!(number.floor(), expected as u64);
            }
        }

        #[test]
        fn numbers_compare_as_their_values(a in 0u64..100, b in 0u64..100, by in 1u64..9) {
            let order = Binary64::quotient(a, by).cmp(&Binary64::quotient(b, by));
            prop_assert_eq!(order, a.cmp(&b));
            prop_assert_eq!(Binary64::whole(a).floor(), a);
        }
    }

    #[test]
    fn numbers_far_apart_and_sums_that_carry_are_rounded_as_the_processor_does() {
        let most = (1_u64 << 53) - 1;
        // A half more than the greatest mantissa is rounded to a power of two; what is far smaller is lost.
        for (one, other) in [
            ((most, 1), (1, 2)),
            ((1 << 40, 1), (1, 1 << 52)),
            ((1, 3), (0, 1)),
            ((1, 1 << 12), (1, 1 << 20)),
        ] {
            let [a, b] = [one, other].map(|(of, by)| Binary64::quotient(of, by));
            let [x, y] = [one, other].map(|(of, by)| of as f64 / by as f64);
            for (ours, expected) in
                [(a.plus(b), x + y), (b.plus(a), x + y), (a.minus(b), x - y), (b.minus(a), 0.0), (b, y)]
            {
                assert_eq!(float(ours).to_bits(), expected.to_bits(), "{one:?} and {other:?}");
                assert_eq!(ours.floor(), expected as u64, "{one:?} and {other:?}");
            }
        }
    }

    #[test]
    fn the_rest_of_a_quotient_decides_where_its_bits_are_as_near_to_two_numbers() {
        for (of, by) in [(10, 8_473_070_352_297_200), (20, 5_394_698_515_596_137)] {
            let by_processor = of as f64 / by as f64;
            assert_eq!(float(Binary64::quotient(of, by)).to_bits(), by_processor.to_bits());
        }
    }

    #[test]
    fn a_sum_that_is_rounded_to_a_power_of_two_equals_it() {
        let [most, half] = [((1 << 53) - 1, 1), (1, 2)].map(|(of, by)| Binary64::quotient(of, by));
        assert_eq!(most.plus(half), most.plus(Binary64::whole(1)));
    }

    #[test]
    fn three_thirds_of_seven_are_a_little_more() {
        // In Python, 7/3 + 7/3 + 7/3 == 7.0, and ten tenths are less than 1.
        let sum =
            |of, by, times| (0..times).fold(Binary64::ZERO, |sum, _| sum.plus(Binary64::quotient(of, by)));
        assert_eq!((sum(7, 3, 3).floor(), sum(1, 10, 10).floor()), (7, 0));
    }
}
