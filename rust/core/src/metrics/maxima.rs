//! The longest gap between tokens since a request joined, without touching
//! every request at every step.
//!
//! All members of a decode set see the same gaps while they are in it, so the
//! longest gap of one is the maximum over a suffix of the set's gaps. A
//! decreasing stack answers that by binary search.

/// Maxima over suffixes of a growing sequence.
#[derive(Debug, Clone)]
pub(crate) struct SuffixMaxima<T> {
    /// (index of the last value covered, value), values strictly decreasing.
    stack: Vec<(u64, T)>,
}

impl<T> Default for SuffixMaxima<T> {
    fn default() -> Self {
        Self { stack: Vec::new() }
    }
}

impl<T: Copy + PartialOrd> SuffixMaxima<T> {
    /// Appends values that end at `index` and of which `value` is the largest.
    #[inline]
    pub(crate) fn push(&mut self, index: u64, value: T) {
        while self.stack.last().is_some_and(|&(_, held)| held <= value) {
            self.stack.pop();
        }
        self.stack.push((index, value));
    }

    /// The largest value appended after `index`, if there is one.
    #[inline]
    pub(crate) fn since(&self, index: u64) -> Option<T> {
        let at = self.stack.partition_point(|&(last, _)| last <= index);
        self.stack.get(at).map(|&(_, value)| value)
    }

    /// Forgets everything: nobody is left who could ask.
    pub(crate) fn clear(&mut self) {
        self.stack.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn suffix_maxima_equal_a_scan(values in prop::collection::vec(0u64..50, 1..100)) {
            let mut maxima = SuffixMaxima::default();
            for (i, &value) in values.iter().enumerate() {
                maxima.push(i as u64 + 1, value);
            }
            for from in 0..=values.len() {
                let scan = values[from..].iter().copied().max();
                prop_assert_eq!(maxima.since(from as u64), scan);
            }
        }
    }
}
