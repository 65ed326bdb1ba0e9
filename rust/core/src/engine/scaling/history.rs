//! The sizes that were wanted of a pool and its changes, and what size follows from them.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::engine::recent::{drop_old, is_within};
use crate::policy::{Amount, Scale, ScalingRules, Select};
use crate::time::Ticks;

/// The history of an action that sets the size of a pool.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::engine) struct History {
    /// The values that were read, for their mean.
    values: VecDeque<(Ticks, f64)>,
    /// The sizes that were wanted.
    wanted: VecDeque<(Ticks, u64)>,
    /// By how many instances the size changed.
    changes: VecDeque<(Ticks, i64)>,
}

impl History {
    /// The size that a pool of `present` instances is to have, now that the expression has a value; `None`: as it is.
    pub(super) fn size(&mut self, scale: &Scale, (value, present): (f64, u64), now: Ticks) -> Option<u64> {
        self.forget(scale.memory(), now);
        // A ratio of nothing to nothing says nothing, now or in a later mean.
        if value.is_nan() {
            return None;
        }
        self.values.push_back((now, value));
        let mean = self.mean(scale.averaged, now);
        if mean.is_nan() {
            return None;
        }
        // A cast takes what is below 0 for 0, and what is beyond the largest number for that.
        let wanted = (mean.ceil() as u64).clamp(scale.least, scale.most.unwrap_or(u64::MAX));
        self.wanted.push_back((now, wanted));
        let within = |window| self.wanted.iter().filter(move |(at, _)| is_within(*at, window, now));
        let grown = within(scale.up.window).map(|(_, size)| *size).fold(wanted, u64::min);
        let shrunk = within(scale.down.window).map(|(_, size)| *size).fold(wanted, u64::max);
        if present < grown {
            return Some(grown.min(self.most(&scale.up, present, now)));
        }
        if present > shrunk {
            return Some(shrunk.max(self.least(&scale.down, present, now)));
        }
        None
    }

    /// Notes by how many instances the size has changed.
    pub(super) fn changed(&mut self, by: i64, now: Ticks) {
        if by != 0 {
            self.changes.push_back((now, by));
        }
    }

    /// Drops what is too old to be read.
    fn forget(&mut self, memory: Ticks, now: Ticks) {
        drop_old(&mut self.values, memory, now);
        drop_old(&mut self.wanted, memory, now);
        drop_old(&mut self.changes, memory, now);
    }

    /// The mean of the values in a window, the present one among them.
    fn mean(&self, window: Ticks, now: Ticks) -> f64 {
        let read = self.values.iter().filter(|(at, _)| *at == now || is_within(*at, window, now));
        let (count, sum) = read.fold((0_u32, 0.0), |(count, sum), (_, value)| (count + 1, sum + value));
        sum / f64::from(count)
    }

    /// The largest size to which a pool of `present` instances may grow.
    fn most(&self, rules: &ScalingRules, present: u64, now: Ticks) -> u64 {
        let bounds = rules.limits.iter().map(|limit| {
            let start = self.size_before(present, limit.per, now);
            match limit.by {
                Amount::Instances(count) => start + i128::from(count),
                Amount::Percent(percent) => -(-start * (100 + i128::from(percent))).div_euclid(100),
            }
        });
        let bound = match rules.select {
            Select::Most => bounds.max(),
            Select::Least => bounds.min(),
        };
        bound.map_or(u64::MAX, |bound| clamped(bound).max(present))
    }

    /// The smallest size to which it may shrink.
    fn least(&self, rules: &ScalingRules, present: u64, now: Ticks) -> u64 {
        let bounds = rules.limits.iter().map(|limit| {
            let start = self.size_before(present, limit.per, now);
            match limit.by {
                Amount::Instances(count) => start - i128::from(count),
                Amount::Percent(percent) => (start * (100 - i128::from(percent))).div_euclid(100),
            }
        });
        let bound = match rules.select {
            Select::Most => bounds.min(),
            Select::Least => bounds.max(),
        };
        bound.map_or(0, |bound| clamped(bound).min(present))
    }

    /// The size before the changes of the latest ticks.
    fn size_before(&self, present: u64, ticks: Ticks, now: Ticks) -> i128 {
        let recent = self.changes.iter().filter(|(at, _)| is_within(*at, ticks, now));
        let changed: i128 = recent.map(|(_, by)| i128::from(*by)).sum();
        (i128::from(present) - changed).max(0)
    }
}

/// A number of instances.
fn clamped(size: i128) -> u64 {
    u64::try_from(size.max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool of 1 to 10 instances with these rules, as JSON.
    fn scale(rules: &str) -> Scale {
        let text = format!(
            r#"{{"pool": 0, "off": 1, "wanted": {{"const": 0}}, "least": 1, "most": 10,
                "start": {{"min": []}}, "stop": {{"min": []}}, {rules}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    /// The sizes that follow one after another, as each is set, from the values that are read 10 ticks apart.
    fn sizes(scale: &Scale, first: u64, values: &[f64]) -> Vec<u64> {
        let (mut history, mut present) = (History::default(), first);
        let run = |(i, value): (usize, &f64)| {
            let now = 10 * (i as u64 + 1);
            let size = history.size(scale, (*value, present), now).unwrap_or(present);
            history.changed(size as i64 - present as i64, now);
            present = size;
            size
        };
        values.iter().enumerate().map(run).collect()
    }

    #[test]
    fn without_rules_the_size_is_what_is_wanted_rounded_up_within_the_bounds() {
        let plain = scale(r#""averaged": 0"#);
        let values = [2.0, 2.1, 0.0, -3.0, 99.0, f64::INFINITY, f64::NAN, 1.0];
        assert_eq!(sizes(&plain, 4, &values), [2, 3, 1, 1, 10, 10, 10, 1]);
    }

    #[test]
    fn a_pool_shrinks_once_no_larger_size_was_wanted_within_the_window() {
        let steady = scale(r#""down": {"window": 30, "limits": [], "select": "most"}"#);
        // At 40 the size of 10 is 30 ticks old, and the largest one since is 3.
        assert_eq!(sizes(&steady, 2, &[6.0, 3.0, 2.0, 2.0, 2.0]), [6, 6, 6, 3, 2]);
    }

    #[test]
    fn a_pool_grows_once_no_smaller_size_was_wanted_within_the_window() {
        let steady = scale(r#""up": {"window": 20, "limits": [], "select": "most"}"#);
        assert_eq!(sizes(&steady, 2, &[2.0, 6.0, 7.0, 5.0, 9.0]), [2, 2, 6, 5, 5]);
    }

    #[test]
    fn values_are_averaged_over_their_window() {
        // 4; 3; (2 + 6) / 2 = 4; (6 + 1) / 2 = 3.5.
        assert_eq!(sizes(&scale(r#""averaged": 20"#), 1, &[4.0, 2.0, 6.0, 1.0]), [4, 3, 4, 4]);
    }

    #[test]
    fn what_is_no_number_is_left_out_of_later_means() {
        assert_eq!(sizes(&scale(r#""averaged": 20"#), 1, &[4.0, f64::NAN, 6.0]), [4, 4, 6]);
    }

    #[test]
    fn limits_count_changes_within_their_time() {
        let by = |limits: &str, select: &str| {
            scale(&format!(r#""up": {{"window": 0, "limits": [{limits}], "select": "{select}"}}"#))
        };
        let two = r#"{"per": 20, "by": {"instances": 2}}"#;
        let half = r#"{"per": 10, "by": {"percent": 50}}"#;
        // 3 at 10, and no more within 20 ticks; 5 at 30.
        assert_eq!(sizes(&by(two, "most"), 1, &[9.0; 4]), [3, 3, 5, 5]);
        // Half of 1, 2, 3 and 5, rounded up.
        assert_eq!(sizes(&by(half, "most"), 1, &[9.0; 4]), [2, 3, 5, 8]);
        let both = format!("{two}, {half}");
        // 1 + 2; the size of 1 before 20 ticks, + 2, or 3 * 1.5; 3 + 2, or 5 * 1.5.
        assert_eq!(sizes(&by(&both, "most"), 1, &[9.0; 3]), [3, 5, 8]);
        // 1.5; 1 + 2, as 1 is the size of 20 ticks before; 2 + 2.
        assert_eq!(sizes(&by(&both, "least"), 1, &[9.0; 3]), [2, 3, 4]);
    }

    #[test]
    fn limits_hold_for_shrinking_too() {
        let by = |limits: &str| {
            scale(&format!(r#""down": {{"window": 0, "limits": [{limits}], "select": "most"}}"#))
        };
        assert_eq!(sizes(&by(r#"{"per": 20, "by": {"instances": 2}}"#), 8, &[1.0; 4]), [6, 6, 4, 4]);
        // Half of 9, rounded down; of 4; of 2.
        assert_eq!(sizes(&by(r#"{"per": 10, "by": {"percent": 50}}"#), 9, &[1.0; 3]), [4, 2, 1]);
        assert_eq!(sizes(&by(r#"{"per": 10, "by": {"percent": 100}}"#), 9, &[1.0]), [1]);
        assert_eq!(sizes(&by(r#"{"per": 10, "by": {"instances": 0}}"#), 9, &[1.0]), [9]);
    }
}
