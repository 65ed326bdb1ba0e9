//! The fields from which ranks are computed, and the moments at which they must be computed because of them.

use std::cell::Cell;

use crate::config::{Ranking as RankingRules, Refresh};
use crate::policy::{Changes, Expr, ReqField};
use crate::trace::LIMIT;

/// A set of request fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Fields(u32);

impl Fields {
    const fn one(field: ReqField) -> Self {
        Self(1 << field as u32)
    }

    const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// The fields that ranks read, and when a rank must be evaluated because of them.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that follows of the rules")]
pub(crate) struct RankInputs {
    /// Fields that classes and keys read.
    fields: Fields,
    /// When values of these change.
    changes: Changes,
    /// When values change that the conditions of classes read.
    condition_changes: Changes,
    /// Whether an admission may change a rank.
    with_admission: bool,
    refresh: Refresh,
    quantum: u32,
    /// Whether requests sink through levels as they run.
    levels: bool,
    /// Whether a class holds its requests for some tokens or steps, and not for good.
    holds_end: bool,
    /// Whether only tokens change the rank of a decoding request: not time, and not its being admitted or preempted.
    by_tokens: bool,
    /// Whether ranks of running requests may be evaluated late.
    deferrable: bool,
    /// Whether the end of a step is the last event before the next step that may change a rank.
    current: bool,
}

impl RankInputs {
    /// The inputs of a ranking. `caches`: whether the instance caches prefixes.
    pub(super) fn new(rules: &RankingRules, caches: bool) -> Self {
        let (fields, changes) = read_by(rules.exprs());
        let (_, condition_changes) = read_by(rules.classes.iter().filter_map(|class| class.when.as_ref()));
        // An admission finds the KV of a cached prefix.
        let finds_kv = caches && fields.meets(Fields::one(ReqField::KvTokens));
        let ends = |hold: u32| hold > 0 && hold < LIMIT;
        let with_admission =
            finds_kv || rules.levels.is_some() || rules.refresh.is_set() || changes.meets(Changes::ADMISSION);
        let inputs = Self {
            fields,
            changes,
            condition_changes,
            with_admission,
            refresh: rules.refresh,
            quantum: rules.quantum,
            levels: rules.levels.is_some(),
            holds_end: rules.classes.iter().flat_map(|class| [class.hold, class.hold_steps]).any(ends),
            by_tokens: false,
            deferrable: false,
            current: false,
        };
        let (by_tokens, deferrable) = (inputs.changes_by_tokens_only(), inputs.may_be_late());
        let drifts = inputs.holds_end || inputs.reads_steps_or_slack() || !by_tokens;
        Self { by_tokens, deferrable, current: !drifts && !deferrable, ..inputs }
    }

    fn changes_by_tokens_only(&self) -> bool {
        const OTHERWISE: Changes = Changes::TIME.or(Changes::ADMISSION).or(Changes::PREEMPTION);
        !self.refresh.is_set() && !self.levels && !self.changes.meets(OTHERWISE)
    }

    /// Classes and first quanta can be read at any time, and keys that are refreshed at intervals must be current then.
    fn may_be_late(&self) -> bool {
        let fresh = !self.refresh.is_set() || self.refresh.steps == 1;
        fresh && self.quantum == 0 && !self.levels && !self.classes_change_with_time()
    }

    /// Whether all ranks are current as soon as a step has ended: none is deferred, and neither time nor waiting changes
    /// one.
    pub(crate) fn are_current_after_steps(&self) -> bool {
        self.current
    }

    /// Whether ranks read a field.
    pub(crate) fn read(&self, field: ReqField) -> bool {
        self.fields.meets(Fields::one(field))
    }

    /// Whether the rank of a request may change when the request is admitted.
    pub(crate) fn change_with_admission(&self) -> bool {
        self.with_admission
    }

    /// Whether the rank of a request that was never admitted, which has no tokens and has used up no quanta, depends on the
    /// trace and on time only.
    pub(crate) fn depend_on_trace_and_time_at_first(&self) -> bool {
        !self.refresh.is_set() && !self.levels && !self.reads_steps_or_slack()
    }

    fn reads_steps_or_slack(&self) -> bool {
        const EITHER: Fields = Fields::one(ReqField::SlackS).or(Fields::one(ReqField::IdleSteps));
        self.fields.meets(EITHER)
    }

    /// Whether the rank of a request does not change as it runs: it was evaluated when the request was admitted.
    pub(crate) fn stay_while_running(&self) -> bool {
        const RUNNING: Changes = Changes::TOKEN.or(Changes::SOME_TOKENS).or(Changes::TIME);
        let fixed = !self.refresh.is_set() && !self.levels && self.quantum == 0 && !self.holds_end;
        fixed && !self.changes.meets(RUNNING)
    }

    /// Whether ranks of running requests need not be current while no request is queued and
    /// blocks suffice.
    pub(crate) fn can_be_deferred(&self) -> bool {
        self.deferrable
    }

    /// Whether no change of a rank need end a run while no request is queued.
    pub(crate) fn end_no_run(&self) -> bool {
        self.by_tokens || self.deferrable
    }

    /// Whether time alone may move a request to another class.
    pub(crate) fn classes_change_with_time(&self) -> bool {
        self.condition_changes.meets(Changes::TIME)
    }
}

/// The fields that any of the expressions reads, and when their values change.
fn read_by<'a>(exprs: impl Iterator<Item = &'a Expr>) -> (Fields, Changes) {
    let (fields, changes) = (Cell::new(0), Cell::new(Changes::NEVER));
    for expr in exprs {
        // The test holds of no field, so every field is visited.
        expr.looks_at_request(&|field| {
            fields.set(fields.get() | Fields::one(field).0);
            changes.set(changes.get().or(field.changes()));
            false
        });
    }
    (Fields(fields.get()), changes.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(json: &str, caches: bool) -> RankInputs {
        let rules: RankingRules = serde_json::from_str(json).expect("it is a ranking");
        RankInputs::new(&rules, caches)
    }

    #[test]
    fn what_changes_a_rank_follows_from_the_fields_that_it_reads() {
        let by_arrival = inputs(r#"{"classes": [{"keys": [{"field": "req.arrival_s"}]}]}"#, true);
        assert!(by_arrival.read(ReqField::ArrivalS) && !by_arrival.read(ReqField::AgeS));
        assert!(by_arrival.by_tokens && by_arrival.can_be_deferred());
        assert!(!by_arrival.change_with_admission());
        let by_wait = inputs(r#"{"classes": [{"keys": [{"field": "req.waiting_s"}]}]}"#, false);
        assert!(by_wait.change_with_admission() && !by_wait.by_tokens);
        let by_kv = r#"{"classes": [{"keys": [{"field": "req.kv_tokens"}]}]}"#;
        assert!(inputs(by_kv, true).change_with_admission() && !inputs(by_kv, false).change_with_admission());
    }

    #[test]
    fn a_rank_stays_while_a_request_runs_unless_tokens_or_time_change_it() {
        let class = |when: &str, hold: &str, key: &str| {
            format!(
                r#"{{"classes": [{{"when": {{"op": "gt", "args": [{{"field": "{when}"}}, {{"const": 5}}]}},
                "hold": {hold}, "keys": []}}, {{"keys": [{{"field": "{key}"}}]}}]}}"#
            )
        };
        let stays =
            |when: &str, hold: &str, key: &str| inputs(&class(when, hold, key), true).stay_while_running();
        assert!(
            stays("req.waiting_s", "0", "req.score") && stays("req.waiting_s", "4294967295", "req.score")
        );
        assert!(!stays("req.age_s", "0", "req.score") && !stays("req.waiting_s", "7", "req.score"));
        assert!(!stays("req.phase", "0", "req.score") && !stays("req.waiting_s", "0", "req.kv_tokens"));
    }

    #[test]
    fn a_condition_on_time_must_be_evaluated_on_time() {
        let key = inputs(r#"{"classes": [{"keys": [{"field": "req.age_s"}]}]}"#, false);
        assert!(key.can_be_deferred(), "a key is read only when two requests are compared");
        let old = r#"{"classes": [{"when": {"op": "gt", "args": [{"field": "req.age_s"}, {"const": 5}]}, "keys": []}, {"keys": []}]}"#;
        assert!(!inputs(old, false).can_be_deferred());
        let quanta = inputs(r#"{"classes": [{"keys": [{"field": "req.quanta"}]}], "quantum": 100}"#, false);
        assert!(!quanta.can_be_deferred());
    }
}
