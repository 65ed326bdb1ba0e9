//! The members that yield their last tokens with a step of the set, where a step yields several tokens.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// The members that end, by the step of the set.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Endings {
    by_step: FxHashMap<u64, Ending>,
}

/// The members that end with one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ending {
    pub(super) members: u64,
    /// Tokens that the step has accepted past their last ones.
    pub(super) surplus: u64,
}

impl Endings {
    /// Adds a member that ends with `step`.
    pub(super) fn add(&mut self, step: u64, surplus: u64) {
        let ending = self.by_step.entry(step).or_default();
        ending.members += 1;
        ending.surplus += surplus;
    }

    /// Removes such a member.
    pub(super) fn remove(&mut self, step: u64, surplus: u64) {
        let Some(ending) = self.by_step.get_mut(&step) else { return };
        ending.members -= 1;
        ending.surplus -= surplus;
        if ending.members == 0 {
            self.by_step.remove(&step);
        }
    }

    /// The members that end with `step`.
    pub(super) fn at(&self, step: u64) -> Ending {
        self.by_step.get(&step).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_counted_by_the_step_that_ends_them() {
        let mut endings = Endings::default();
        endings.add(7, 2);
        endings.add(7, 0);
        endings.add(9, 1);
        assert_eq!([7, 8, 9].map(|step| endings.at(step).members), [2, 0, 1]);
        endings.remove(7, 2);
        assert_eq!(endings.at(7), Ending { members: 1, surplus: 0 });
        endings.remove(9, 1);
        assert_eq!(endings.by_step.len(), 1);
    }
}
