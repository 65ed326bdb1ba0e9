//! Instances that start their steps together, in groups.

use serde::Deserialize;

use super::Config;
use super::limits::{MOST, on_clock, within};
use crate::cost::Curve;
use crate::error::Error;
use crate::time::Ticks;

/// A group of instances whose steps start together, and the resources that they share.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lockstep {
    /// The instances, by index. Each is in one group at most; one that is in none steps on its own.
    pub members: Vec<usize>,
    /// Ticks of the part of a step that all members share, by the tokens of all.
    pub shared: Curve,
    /// Up to this many tokens on one member, every member computes as many tokens as the one with the most.
    pub padded: u64,
    /// Ticks that a step takes at least in which a member computes prompt tokens.
    #[serde(default)]
    pub prompts: Ticks,
    /// At which steps the members agree whether to go on; `None`: no step is run if no member has a request.
    #[serde(default)]
    pub sync: Option<Sync>,
    /// When prompts wait until every member has one; `None`: they do not.
    #[serde(default)]
    pub balance: Option<Balance>,
}

/// When the members of a group hold prompts back: until each has one that fits, so that all compute prompts in the
/// same steps. A member that has prompts and runs no request ends the wait of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Balance {
    /// The steps in which not every member has a prompt, in a row, of which the last lets prompts pass.
    pub timeout_steps: u64,
    /// The steps for which prompts wait on, once every member has one and runs requests.
    pub gather_steps: u64,
}

/// The steps at which the members of a group agree whether to go on. Up to the next such step they step on, though
/// none has a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sync {
    /// Every so many steps.
    pub every: u64,
    /// Whether the first step is one of them.
    pub first: bool,
}

impl Config {
    /// The groups of instances that step together.
    pub(crate) fn groups(&self) -> &[Lockstep] {
        self.lockstep.as_deref().unwrap_or_default()
    }

    /// The group of an instance; `None` if it steps on its own.
    pub(crate) fn group_of(&self, index: usize) -> Option<&Lockstep> {
        self.groups().iter().find(|group| group.members.contains(&index))
    }

    /// Checks the numbers of groups.
    pub(super) fn check_group_limits(&self) -> Result<(), Error> {
        for (i, group) in self.groups().iter().enumerate() {
            let at = |field: &'static str| move || format!("lockstep[{i}].{field}");
            within(at("padded"), 0, MOST, group.padded)?;
            on_clock(at("prompts"), group.prompts)?;
            within(at("sync.every"), 1, MOST, group.sync.map_or(1, |sync| sync.every))?;
            let steps = group.balance.map_or((1, 0), |balance| (balance.timeout_steps, balance.gather_steps));
            within(at("balance.timeout_steps"), 1, MOST, steps.0)?;
            within(at("balance.gather_steps"), 0, MOST, steps.1)?;
        }
        Ok(())
    }

    /// Checks the members of groups.
    pub(super) fn check_groups(&self) -> Result<(), Error> {
        let n = self.instances.len();
        let mut found = vec![None; n];
        for (i, group) in self.groups().iter().enumerate() {
            let refuse = |rule: String| Err(Error::config(format!("lockstep[{i}].members"), rule));
            if group.members.is_empty() {
                return refuse("must be at least 1 instance, were none".into());
            }
            for &member in &group.members {
                match found.get_mut(member) {
                    None => return refuse(format!("must be indexes of the {n} instances, had {member}")),
                    Some(Some(other)) => {
                        return refuse(format!(
                            "must be in no other group, and once in this one, but instance {member} is in group {other}, too"
                        ));
                    }
                    Some(group) => *group = Some(i),
                }
            }
        }
        if self.routers.relay.is_some() && !self.groups().is_empty() && self.groups()[0].members.len() != n {
            let rule = "must be null where instances step together in several groups, or some on their own, was given: its \
                        messages bear the number of the step that all take";
            return Err(Error::config("routers.relay", rule));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::fixtures;

    /// The refusal of groups with these members, of three instances.
    fn refusal(groups: &[&[usize]]) -> Option<String> {
        let mut config = fixtures::config(&[10; 3], r#"{"on_arrival": {"rule": "round_robin"}}"#);
        config.lockstep = Some(groups.iter().map(|members| fixtures::group(members)).collect());
        config.check_groups().err().map(|error| error.to_string())
    }

    #[test]
    fn an_instance_is_in_one_group_at_most() {
        assert_eq!(refusal(&[]), None);
        assert_eq!(refusal(&[&[0, 2]]), None);
        assert_eq!(refusal(&[&[2], &[1, 0]]), None);
        let said = |groups: &[&[usize]]| refusal(groups).expect("a refusal");
        assert!(said(&[&[0], &[1, 0]]).contains("lockstep[1].members: must be in no other group"));
        assert!(
            said(&[&[1, 1]]).contains("lockstep[0].members: must be in no other group, and once in this one")
        );
        assert!(said(&[&[0, 3]]).contains("lockstep[0].members: must be indexes of the 3 instances, had 3"));
        assert!(said(&[&[0], &[]]).contains("lockstep[1].members: must be at least 1 instance"));
    }
}
