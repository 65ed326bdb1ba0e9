//! Maxima over the suffixes of a growing sequence.

use serde::{Deserialize, Serialize};

/// The largest value appended after any index, by binary search in a stack of decreasing values.
///
/// All members of a decode set see the same gaps while they are in it, so that the longest gap of one is the
/// maximum over the gaps since it joined.
#[derive(Debug, Clone, Serialize, Deserialize)]
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
    /// Appends values that end at `index`, the largest of which is `value`.
    pub(crate) fn push(&mut self, index: u64, value: T) {
        while self.stack.last().is_some_and(|&(_, held)| held <= value) {
            self.stack.pop();
        }
        self.stack.push((index, value));
    }

    /// The largest value appended after `index`; `None` if there is none.
    pub(crate) fn since(&self, index: u64) -> Option<T> {
        let at = self.stack.partition_point(|&(last, _)| last <= index);
        self.stack.get(at).map(|&(_, value)| value)
    }

    /// Removes all values.
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
        fn suffix_maxima_equal_a_scan(
            // Values pushed one by one, or several at once by the largest of them.
            runs in prop::collection::vec((prop::collection::vec(0u64..50, 1..5), any::<bool>()), 1..60),
        ) {
            let mut maxima = SuffixMaxima::default();
            let mut values: Vec<u64> = Vec::new();
            // Where a suffix may start: after each push.
            let mut starts = vec![0];
            for (run, at_once) in runs {
                for chunk in if at_once { vec![&run[..]] } else { run.chunks(1).collect() } {
                    values.extend(chunk);
                    maxima.push(values.len() as u64, *chunk.iter().max().unwrap());
                    starts.push(values.len());
                }
                for &from in &starts {
                    prop_assert_eq!(maxima.since(from as u64), values[from..].iter().copied().max());
                }
            }
            maxima.clear();
            prop_assert_eq!(maxima.since(0), None);
        }
    }
}
