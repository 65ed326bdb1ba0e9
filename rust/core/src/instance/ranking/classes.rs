//! The classes of a ranking.

use super::super::view::{OfRequest, RequestView};
use crate::config::{Class, MOST_KEYS, Ranking as RankingRules};
use crate::policy::{Changes, Condition, Expr, Field, ReqField, Validity};
use crate::trace::Trace;

/// See the module.
#[derive(Debug)]
pub(super) struct Classes {
    /// Which requests each class takes.
    conditions: Vec<Condition>,
    /// Requests in each class.
    pub(super) members: Vec<u64>,
    /// Which keys of each class count quanta, where its other keys do not change
    /// while a request is in it.
    pub(super) count_quanta: Vec<Option<[bool; MOST_KEYS]>>,
}

impl Classes {
    /// The classes of `rules`, without requests.
    pub(super) fn new(rules: &RankingRules) -> Self {
        Self {
            members: vec![0; rules.classes.len()],
            conditions: rules.classes.iter().map(|class| Condition::new(class.when.as_ref())).collect(),
            count_quanta: rules.classes.iter().map(|class| keys_that_count_quanta(rules, class)).collect(),
        }
    }

    /// The first class that takes a request.
    pub(super) fn of(&self, view: &RequestView, trace: &Trace, validity: &mut Validity) -> u32 {
        let mut scope = OfRequest { view, trace };
        let taken = self.conditions.iter().position(|takes| takes.holds(&mut scope, validity));
        taken.unwrap_or(0) as u32
    }
}

/// Which keys of a class count quanta, if its other keys do not change while a request
/// is in it, and the class has no hold.
fn keys_that_count_quanta(rules: &RankingRules, class: &Class) -> Option<[bool; MOST_KEYS]> {
    const BESIDE_CLASS: Changes = Changes::TOKEN
        .or(Changes::SOME_TOKENS)
        .or(Changes::TIME)
        .or(Changes::QUEUED_TIME)
        .or(Changes::QUEUED_STEP)
        .or(Changes::ADMISSION)
        .or(Changes::PREEMPTION);
    let changes = |field: ReqField| field.changes().meets(BESIDE_CLASS);
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
