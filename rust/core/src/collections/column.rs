//! A column of values by row, the first of which may be forgotten.

use std::ops::{Index, IndexMut, Range};

use serde::{Deserialize, Serialize};
/// Values by row. Rows keep their numbers: once those before `base` are forgotten, only their values are gone.
///
/// A replay whose requests are streamed forgets those that have ended, so that a column takes memory for the others only.
#[derive(Clone, Serialize, Deserialize)]
pub struct Column<T> {
    /// The first row that is kept.
    base: usize,
    /// The values from there on.
    values: Vec<T>,
}

impl<T> Column<T> {
    /// The number of rows, those that are forgotten included.
    pub fn len(&self) -> usize {
        self.base + self.values.len()
    }

    /// Whether there has never been a row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows that are kept.
    pub fn kept(&self) -> Range<usize> {
        self.base..self.len()
    }

    /// The value of a row, if it is kept.
    pub fn get(&self, row: usize) -> Option<&T> {
        self.values.get(row.wrapping_sub(self.base))
    }

    /// The value of a row to change, if it is kept.
    pub fn get_mut(&mut self, row: usize) -> Option<&mut T> {
        self.values.get_mut(row.wrapping_sub(self.base))
    }

    /// The values that are kept.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.values.iter()
    }

    /// The values that are kept, in the order of the rows.
    pub fn as_slice(&self) -> &[T] {
        &self.values
    }

    /// The same, to change.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.values
    }

    /// The last value, if it is kept.
    pub fn last(&self) -> Option<&T> {
        self.values.last()
    }

    /// The values that are kept, of a column of which none is forgotten all.
    pub fn into_vec(self) -> Vec<T> {
        self.values
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, value: T) {
        self.values.push(value);
    }

    /// Makes room for rows.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.values.reserve(more);
    }

    /// The values of some rows, all of which are kept.
    pub(crate) fn range(&self, rows: Range<usize>) -> &[T] {
        &self.values[rows.start - self.base..rows.end - self.base]
    }

    /// Swaps the values of two rows.
    pub(crate) fn swap(&mut self, one: usize, other: usize) {
        self.values.swap(one - self.base, other - self.base);
    }

    /// Forgets the rows before `row`, which the column has.
    pub(crate) fn forget(&mut self, row: usize) {
        self.take_before(row);
    }

    /// Forgets the rows before `row`, and returns the values of those that were kept. A column that has never had a row
    /// stays without.
    pub(crate) fn take_before(&mut self, row: usize) -> Vec<T> {
        let before = row.saturating_sub(self.base).min(self.values.len());
        self.base += before;
        let rest = self.values.split_off(before);
        std::mem::replace(&mut self.values, rest)
    }
}

impl<T: Clone> Column<T> {
    /// A column of which only some rows are kept, all with the same value.
    pub(crate) fn filled(kept: Range<usize>, value: T) -> Self {
        Self { base: kept.start, values: vec![value; kept.len()] }
    }

    /// Adds or removes rows at the end until there are `n`.
    pub(crate) fn resize(&mut self, n: usize, value: T) {
        self.values.resize(n - self.base, value);
    }
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self { base: 0, values: Vec::new() }
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Column<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.values.fmt(f)
    }
}

impl<T> From<Vec<T>> for Column<T> {
    fn from(values: Vec<T>) -> Self {
        Self { base: 0, values }
    }
}

impl<T> FromIterator<T> for Column<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Vec::from_iter(values).into()
    }
}

impl<T> Extend<T> for Column<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        self.values.extend(values);
    }
}

impl<T> IntoIterator for Column<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.values.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a Column<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.values.iter()
    }
}

impl<T> Index<usize> for Column<T> {
    type Output = T;

    fn index(&self, row: usize) -> &T {
        &self.values[row.wrapping_sub(self.base)]
    }
}

impl<T> IndexMut<usize> for Column<T> {
    fn index_mut(&mut self, row: usize) -> &mut T {
        &mut self.values[row.wrapping_sub(self.base)]
    }
}

impl<T: PartialEq> PartialEq for Column<T> {
    fn eq(&self, other: &Self) -> bool {
        self.base == other.base && self.values == other.values
    }
}

impl<T: PartialEq> PartialEq<Vec<T>> for Column<T> {
    fn eq(&self, other: &Vec<T>) -> bool {
        self.base == 0 && self.values == *other
    }
}

impl<T: PartialEq, const N: usize> PartialEq<[T; N]> for Column<T> {
    fn eq(&self, other: &[T; N]) -> bool {
        self.base == 0 && self.values == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_numbers_when_those_before_are_forgotten() {
        let mut column: Column<u32> = (10..15).collect();
        assert_eq!(column.take_before(2), [10, 11]);
        assert_eq!((column.len(), column.kept(), column[2], column.get(1)), (5, 2..5, 12, None));
        column.push(15);
        column.swap(2, 5);
        assert_eq!((column[2], column[5], column.range(3..5)), (15, 12, &[13, 14][..]));
        assert_eq!(column.take_before(1), [0; 0], "they are forgotten already");
        column.forget(6);
        assert!(column.get(5).is_none() && !column.is_empty());
        column.resize(8, 7);
        assert_eq!((column.kept(), column[7]), (6..8, 7));
    }

    #[test]
    fn a_column_that_was_never_filled_stays_empty() {
        let mut column = Column::<u64>::default();
        column.forget(9);
        assert!(column.is_empty() && column.kept().is_empty());
        assert_eq!(Column::filled(3..5, 1).kept(), 3..5);
    }
}
