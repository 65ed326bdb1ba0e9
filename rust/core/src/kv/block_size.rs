//! How many tokens a block has, division by that, and the blocks of a request.

use serde::{Deserialize, Serialize};

/// The tokens of a block. In most configurations they are a power of two, by which a shift divides: a division takes ten
/// times as long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BlockSize {
    tokens: u32,
    /// The logarithm of `tokens`, if it is a power of two.
    shift: Option<u32>,
    /// Blocks of a request beside those of its tokens.
    states: u32,
}

impl BlockSize {
    /// Blocks of `tokens` tokens, at least one; a request holds `states` blocks besides.
    pub(crate) fn new(tokens: u32, states: u32) -> Self {
        Self { tokens, shift: tokens.is_power_of_two().then(|| tokens.ilog2()), states }
    }

    /// The tokens of a block.
    pub(crate) fn tokens(self) -> u32 {
        self.tokens
    }

    /// How many blocks `tokens` tokens fill, and how many tokens are left, if a block's tokens are not a power of two.
    #[cold]
    #[inline(never)]
    fn divide(self, tokens: u64) -> (u64, u64) {
        let size = u64::from(self.tokens);
        (tokens / size, tokens % size)
    }

    /// How many blocks `tokens` tokens fill.
    pub(crate) fn filled_by(self, tokens: u64) -> u64 {
        match self.shift {
            Some(shift) => tokens >> shift,
            None => self.divide(tokens).0,
        }
    }

    /// How many blocks `tokens` tokens need.
    pub(crate) fn needed_for(self, tokens: u64) -> u64 {
        let filled = self.filled_by(tokens);
        filled + u64::from(filled * u64::from(self.tokens) < tokens)
    }

    /// How many blocks a request with `tokens` tokens holds. Without a token it has no states either.
    pub(crate) fn held_with(self, tokens: u64) -> u64 {
        self.needed_for(tokens) + u64::from(tokens > 0) * u64::from(self.states)
    }

    /// How many of `tokens` tokens are in a block that they do not fill.
    pub(crate) fn rest_of(self, tokens: u64) -> u32 {
        match self.shift {
            Some(_) => tokens as u32 & (self.tokens - 1),
            None => self.divide(tokens).1 as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_power_of_two_divides_as_any_other_number_does(
            size in prop_oneof![1u32..70, (0u32..32).prop_map(|shift| 1 << shift)],
            tokens in prop_oneof![0u64..200, 0u64..1 << 40],
        ) {
            let (block, size) = (BlockSize::new(size, 3), u64::from(size));
            prop_assert_eq!(block.filled_by(tokens), tokens / size);
            prop_assert_eq!(block.needed_for(tokens), tokens.div_ceil(size));
            // Three blocks of states are as much as three blocks full of tokens.
            prop_assert_eq!(block.held_with(tokens), if tokens == 0 { 0 } else { (tokens + 3 * size).div_ceil(size) });
            prop_assert_eq!(u64::from(block.rest_of(tokens)), tokens % size);
            prop_assert_eq!(u64::from(block.tokens()), size);
        }
    }
}
