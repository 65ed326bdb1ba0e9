//! Numbers of blocks, and of what they hold.

use serde::{Deserialize, Serialize};

use crate::trace::TraceRow;

/// The number of a block.
pub type Block = u32;

/// The content of a full block, as a number that is equal for equal contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content(u64);

impl Content {
    /// Of a block that is not full, or whose content was lost.
    pub(super) const UNKNOWN: Self = Self(0);
    /// The bit of contents that belong to one request.
    const OWN: u64 = 1 << 63;

    /// A content that several requests may have, by its number.
    pub fn shared(number: u32) -> Self {
        Self(u64::from(number) + 1)
    }

    /// A content that only one request has, by its position in the request.
    pub fn own(row: TraceRow, position: u32) -> Self {
        Self(Self::OWN | u64::from(row.0) << 32 | u64::from(position))
    }

    /// The number of a shared content.
    pub(super) fn number(self) -> Option<usize> {
        (self.0 & Self::OWN == 0 && self.0 > 0).then(|| (self.0 - 1) as usize)
    }

    /// A number for each content.
    pub(crate) fn key(self) -> u64 {
        self.0
    }
}

/// Contents of blocks that follow one another in a sequence: their keys follow one another, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) first: Content,
    pub(super) count: u32,
}

impl Contents {
    /// A content alone.
    #[cfg(test)]
    pub(super) fn one(content: Content) -> Self {
        Self { first: content, count: 1 }
    }

    /// Each of them, in order.
    pub(super) fn iter(self) -> impl Iterator<Item = Content> {
        (0..u64::from(self.count)).map(move |at| Content(self.first.0 + at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_content_has_its_number_and_no_other_has_one() {
        for number in [0, 7, u32::MAX - 1] {
            assert_eq!(Content::shared(number).number(), Some(number as usize));
        }
        assert_eq!(Content::UNKNOWN.number(), None);
        for position in [0, 7] {
            assert_eq!(Content::own(TraceRow(0), position).number(), None);
        }
    }

    #[test]
    fn contents_that_follow_one_another_are_those_of_numbers_and_positions_that_do() {
        let all = |first| Contents { first, count: 3 }.iter().collect::<Vec<_>>();
        assert_eq!(all(Content::shared(7)), [7, 8, 9].map(Content::shared));
        assert_eq!(all(Content::own(TraceRow(2), 4)), [4, 5, 6].map(|at| Content::own(TraceRow(2), at)));
    }
}
