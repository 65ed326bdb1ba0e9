//! Accumulators: numbers that a scheduler keeps by group of requests, fed by what happens to them.

use serde::Deserialize;

use crate::time::Ticks;

/// Units of an accumulator in one: charges are whole numbers of units, so that sums do not depend on their order.
pub(crate) const UNITS: i64 = 1 << 20;

/// The largest charge of a token, in units: 2^20 in weighted tokens.
pub(crate) const MOST_CHARGE: i64 = 1 << 40;

/// The most accumulators of a scheduler.
pub(crate) const MOST_ACCUMULATORS: usize = 4;

/// A number for each group of requests. It starts at 0.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accumulator {
    /// The attribute by which requests are grouped.
    pub by: Grouping,
    /// The charges, and when they are made.
    pub charges: Charges,
    /// The charges of groups that differ from these, by code.
    #[serde(default)]
    pub groups: Vec<GroupCharges>,
    /// The rule by which the number of a group rises as its first request comes to the queue.
    #[serde(default)]
    pub lift: Lift,
    /// Units that are added to each number that is not above 0, if no waiting request may be admitted; 0: none.
    #[serde(default)]
    pub quantum: i64,
    /// Ticks in which a number falls to its half; 0: it does not fall.
    #[serde(default)]
    pub half_life: Ticks,
}

/// The attribute by which requests are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// All requests are one group.
    All,
    /// They have the same tenant; requests without a tenant are one group.
    Tenant,
    /// They have the same session; a request without a session is a group by itself.
    Session,
}

/// The charges to the group of a request, in units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Charges {
    /// For each token of its prompt.
    pub prompt: i64,
    /// For each token of its output.
    pub output: i64,
    /// For the request itself, as it is admitted for the first time.
    #[serde(default)]
    pub request: i64,
    /// While it is in the batch: charged as it is admitted, and taken back as it leaves.
    pub running: i64,
    /// Which tokens count, and when they are charged.
    pub when: Charged,
}

/// Which tokens an accumulator counts, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Charged {
    /// The prompt at the first admission, and each token of the output as it is yielded.
    Served,
    /// At each admission without KV the tokens that it computes, so without those that are cached; and each token of the
    /// output as it is yielded.
    Computed,
    /// Prompt and output when the request has finished.
    Finished,
}

/// The charges of one group, in place of the accumulator's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupCharges {
    /// The code of the group.
    pub code: u32,
    /// For each token of a prompt, in units.
    pub prompt: i64,
    /// For each token of an output, in units.
    pub output: i64,
}

/// To what the number of a group rises, at least, as a request of it comes to the queue in which it has no other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lift {
    /// Nothing.
    #[default]
    None,
    /// The smallest number of the other groups with waiting requests, if there are any.
    Waiting,
    /// The same; if no request waits, the number of the group whose request left the queue last.
    WaitingOrLast,
}

impl Accumulator {
    /// The charges for the tokens of a group's prompts and outputs, by the code of the group.
    pub(crate) fn charges_of(&self, code: u32) -> (i64, i64) {
        let own = self.groups.iter().find(|group| group.code == code);
        own.map_or((self.charges.prompt, self.charges.output), |group| (group.prompt, group.output))
    }

    /// The rule about its numbers that it breaks.
    pub(super) fn broken_rule(&self) -> Option<String> {
        let Charges { prompt, output, request, running, .. } = self.charges;
        let own = self.groups.iter().flat_map(|group| [group.prompt, group.output]);
        let large = |charge: &i64| charge.unsigned_abs() > MOST_CHARGE.unsigned_abs();
        let mut all = [prompt, output, request, running, self.quantum].into_iter().chain(own);
        if let Some(charge) = all.find(large) {
            return Some(format!("must have charges of -{MOST_CHARGE} to {MOST_CHARGE} units, was {charge}"));
        }
        if self.quantum < 0 {
            return Some(format!("must have a quantum of 0 or more units, was {}", self.quantum));
        }
        (self.half_life > 0 && (self.quantum > 0 || running != 0)).then(|| {
            "must have no quantum and no charge of running requests where numbers fall by half".into()
        })
    }
}
