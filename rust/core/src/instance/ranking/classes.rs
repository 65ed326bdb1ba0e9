//! The classes of a ranking.

use super::super::view::{OfRequest, RequestView};
use crate::config::{Class, MOST_KEYS, Ranking as RankingRules};
use crate::policy::{Changes, Condition, Expr, Field, ReqField, Validity};
use crate::trace::{LIMIT, Trace};

/// Which requests each class takes.
#[derive(Debug)]
pub(super) struct Conditions(Vec<Condition>);

/// The rules of the classes, and the number of requests in each.
#[derive(Debug)]
pub(super) struct Classes {
    pub(super) conditions: Conditions,
    /// Requests in each class.
    pub(super) members: Vec<u64>,
    /// Which keys of each class count quanta, where its other keys do not change
    /// while a request is in it.
    pub(super) count_quanta: Vec<Option<[bool; MOST_KEYS]>>,
    /// Whether a request never leaves a class, in which its rank does not change.
    pub(super) settles: Vec<bool>,
}

crate::checkpoint::checkpointed!(Classes {
    values: members;
    fixed: conditions, count_quanta, settles;
});

impl Classes {
    /// The classes of `rules`, without requests.
    pub(super) fn new(rules: &RankingRules) -> Self {
        Self {
            members: vec![0; rules.classes.len()],
            conditions: Conditions::new(rules),
            count_quanta: rules.classes.iter().map(|class| keys_that_count_quanta(rules, class)).collect(),
            settles: rules.classes.iter().map(|class| settles(rules, class)).collect(),
        }
    }
}

impl Conditions {
    /// The conditions of all classes.
    fn new(rules: &RankingRules) -> Self {
        Self(rules.classes.iter().map(|class| Condition::new(class.when.as_ref())).collect())
    }

    /// The first class that takes a request.
    pub(super) fn first_that_takes(&self, view: &RequestView, trace: &Trace, validity: &mut Validity) -> u32 {
        let mut scope = OfRequest { view, trace };
        let taken = self.0.iter().position(|takes| takes.holds(&mut scope, validity));
        taken.unwrap_or(0) as u32
    }
}

/// Whether a class is held for longer than any request runs, and its keys do not change while a request is in it.
fn settles(rules: &RankingRules, class: &Class) -> bool {
    let changes = |field: ReqField| field.changes().meets(Changes::BESIDE_CLASS);
    class.hold >= LIMIT
        && rules.levels.is_none()
        && rules.quantum == 0
        && !class.keys.iter().any(|key| key.looks_at_request(&changes))
}

/// Which keys of a class count quanta, if its other keys do not change while a request
/// is in it, and the class has no hold.
fn keys_that_count_quanta(rules: &RankingRules, class: &Class) -> Option<[bool; MOST_KEYS]> {
    let changes = |field: ReqField| field.changes().meets(Changes::BESIDE_CLASS);
    let mut counts = [false; MOST_KEYS];
    for (counts, key) in counts.iter_mut().zip(&class.keys) {
        *counts = matches!(key, Expr::Field(Field::Req(ReqField::Quanta)));
        if !*counts && key.looks_at_request(&changes) {
            return None;
        }
    }
    (rules.quantum > 0
        && rules.levels.is_none()
        && class.hold == 0
        && class.hold_steps == 0
        && !rules.refresh.is_set())
    .then_some(counts)
}
