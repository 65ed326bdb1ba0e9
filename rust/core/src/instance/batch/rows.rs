//! The rows of the requests that decode, where their order decides.
//!
//! A batch of `sglang` 0.5.23 is a list (`merge_batch` and `mix_with_running` in `srt/managers/schedule_batch.py`): requests
//! that have run their prompts are appended to those that decode, or these to them if both ran in one step.

use serde::{Deserialize, Serialize};

use super::super::request::Slot;

/// The rows of a batch. A request that does not decode is behind all that do.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Rows {
    /// The row of each request, by slot.
    of: Vec<i64>,
    /// The least and the greatest row so far.
    taken: (i64, i64),
}

impl Rows {
    /// The row of a request.
    pub(crate) fn row(&self, slot: Slot) -> i64 {
        self.of.get(slot as usize).copied().unwrap_or(i64::MAX)
    }

    /// Notes that a request is admitted, which does not decode yet.
    pub(super) fn admit(&mut self, slot: Slot) {
        if let Some(row) = self.of.get_mut(slot as usize) {
            *row = i64::MAX;
        }
    }

    /// Gives requests that decode from now on their rows, in this order: behind the others; if they ran `beside` these,
    /// before them.
    pub(crate) fn append(&mut self, slots: &[Slot], beside: bool) {
        let many = slots.len() as i64;
        let first = if beside {
            self.taken.0 -= many;
            self.taken.0
        } else {
            self.taken.1 += many;
            self.taken.1 + 1 - many
        };
        for (row, &slot) in (first..).zip(slots) {
            let index = slot as usize;
            if index >= self.of.len() {
                self.of.resize(index + 1, i64::MAX);
            }
            self.of[index] = row;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(rows: &Rows) -> Vec<u32> {
        let mut slots: Vec<u32> = (0..6).collect();
        slots.sort_by_key(|&slot| rows.row(slot));
        slots
    }

    #[test]
    fn requests_are_appended_or_put_before_those_that_ran_beside_them() {
        let mut rows = Rows::default();
        rows.append(&[3, 1], false);
        rows.append(&[5], false);
        assert_eq!(order(&rows), [3, 1, 5, 0, 2, 4]);
        rows.append(&[4, 0], true);
        assert_eq!(order(&rows), [4, 0, 3, 1, 5, 2]);
        rows.admit(3);
        assert_eq!(order(&rows), [4, 0, 1, 5, 2, 3], "it computes its prompt again");
    }

    #[test]
    fn requests_are_appended_behind_those_that_were_put_before_others() {
        let mut rows = Rows::default();
        rows.append(&[2], true);
        rows.append(&[0, 1], false);
        assert_eq!(order(&rows), [2, 0, 1, 3, 4, 5]);
    }
}
