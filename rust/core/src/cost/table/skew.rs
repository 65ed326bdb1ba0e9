//! The time that a batch of unequal contexts takes beyond one of equal contexts.

use serde::Deserialize;

use super::grid::{Place, check_axis};

/// The unit in which `alpha` is used: this many are 1.
pub const ALPHA_ONE: i64 = 1 << 10;

/// The unit in which tables hold it, finer so that interpolation loses nothing.
const TABLE_ONE: i64 = 1 << 20;

/// `alpha` over prompt tokens computed, decoding requests, and the ratio of the
/// mean context to the longest.
///
/// A thread block works for one request, so a batch lasts at least as long as
/// its longest context; how much longer than its mean is a matter of how far
/// the longest stands out and of how many others there are to fill the GPU in
/// the meantime. The ratio is cut into equal cells, each with the `alpha` of
/// its middle.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Points")]
pub struct Skew {
    /// Prompt tokens computed; 0 for steps that only decode.
    tokens: Vec<u64>,
    /// Decoding requests.
    requests: Vec<u64>,
    /// The number of cells of the ratio.
    cells: u64,
    /// In units of 1 / `TABLE_ONE`, the cell running fastest.
    alpha: Vec<i64>,
}

/// A skew as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Points {
    tokens: Vec<u64>,
    requests: Vec<u64>,
    cells: u64,
    alpha: Vec<i64>,
}

impl TryFrom<Points> for Skew {
    type Error = String;

    fn try_from(points: Points) -> Result<Self, String> {
        let Points { tokens, requests, cells, alpha } = points;
        check_axis("tokens", &tokens)?;
        check_axis("requests", &requests)?;
        if !(1..=1 << 16).contains(&cells) {
            return Err(format!("cells must be 1 to 65536, was {cells}"));
        }
        let wanted = tokens.len() * requests.len() * cells as usize;
        if alpha.len() != wanted {
            return Err(format!("alpha must have {wanted} values, had {}", alpha.len()));
        }
        match alpha.iter().find(|value| value.abs() > 64 * TABLE_ONE) {
            Some(value) => Err(format!("alpha must be at most 64 either way, was {value} / {TABLE_ONE}")),
            None => Ok(Self { tokens, requests, cells, alpha }),
        }
    }
}

impl Skew {
    /// `alpha`, and for how many steps it holds while all contexts grow by one
    /// a step. The longest context is longer than the mean.
    pub(super) fn at(&self, tokens: u64, requests: u64, context: u64, longest: u64) -> (i64, u64) {
        let cells = u128::from(self.cells);
        // No real batch has 2^96 request-tokens or more; the product only must not wrap.
        let most = (u128::from(requests) * u128::from(longest)).min(1 << 96);
        let cell = (u128::from(context) * cells / most).min(cells - 1);
        let left = if cell + 1 == cells {
            u64::MAX
        } else {
            // The first i with (context + n i) * cells >= (cell + 1) * n * (longest + i).
            let gap = ((cell + 1) * most).saturating_sub(u128::from(context) * cells);
            let closing = u128::from(requests) * (cells - cell - 1);
            u64::try_from(gap.div_ceil(closing)).unwrap_or(u64::MAX).max(1)
        };
        (self.alpha(tokens, requests, cell as usize), left)
    }

    /// Linear in requests and, where the step prefills, in prompt tokens, from
    /// end to end of what was measured and level past it.
    fn alpha(&self, tokens: u64, requests: u64, cell: usize) -> i64 {
        // A step without prompt tokens runs another kernel: its row is for itself.
        let plain = usize::from(self.tokens[0] == 0 && self.tokens.len() > 1);
        let row = if tokens == 0 || plain == 0 {
            Place::within(&self.tokens, tokens)
        } else {
            let place = Place::within(&self.tokens[plain..], tokens);
            Place { lo: place.lo + plain, ..place }
        };
        let column = Place::within(&self.requests, requests);
        let cells = self.cells as usize;
        let value = |row: usize, column: usize| {
            i128::from(self.alpha[(row * self.requests.len() + column) * cells + cell])
        };
        let along = |row: usize| {
            let lo = value(row, column.lo);
            if column.num == 0 { lo } else { column.between(lo, value(row, column.lo + 1)) }
        };
        let lo = along(row.lo);
        let alpha = if row.num == 0 { lo } else { row.between(lo, along(row.lo + 1)) };
        let unit = i128::from(TABLE_ONE / ALPHA_ONE);
        (alpha + unit / 2).div_euclid(unit) as i64
    }
}
