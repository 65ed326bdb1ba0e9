//! The class of a request that was never admitted, where only how long it has waited decides that.

use super::super::view::{RequestView, seconds};
use super::aging_arrivals::Guard;
use super::classes::Conditions;
use crate::config::Ranking as RankingRules;
use crate::policy::{Changes, Expr, Field, Op, ReqField, Validity};
use crate::time::Ticks;
use crate::trace::Trace;

/// The classes of a queued request by the time it has waited.
#[derive(Debug)]
pub(super) struct ClassByWait {
    /// From how many ticks of waiting on a request is in which class, the first from 0 on.
    from: Vec<(Ticks, u32)>,
}

impl ClassByWait {
    /// `None` if classes depend on anything else, or if keys depend on anything but the trace.
    pub(super) fn new(rules: &RankingRules, conditions: &Conditions) -> Option<Self> {
        let mut moments = vec![0];
        for class in &rules.classes {
            let by_wait = class.when.iter().all(|when| collect_moments(when, &mut moments));
            if !by_wait || !class.keys.iter().all(reads_trace_only) {
                return None;
            }
        }
        moments.sort_unstable();
        let no_rows = Trace::default();
        let mut from: Vec<_> = moments
            .into_iter()
            .map(|now| {
                let view = RequestView { now, ..RequestView::default() };
                (now, conditions.first_that_takes(&view, &no_rows, &mut Validity::EVER.clone()))
            })
            .collect();
        from.dedup_by_key(|&mut (_, class)| class);
        Some(Self { from })
    }

    /// The guard that classes are, if requests that wait for long enough enter a better class, in which those that came
    /// before others rank before them, and enter no class else.
    pub(super) fn guard(&self, rules: &RankingRules) -> Option<Guard> {
        let [(_, class), (patience, aged_class)] = self.from[..] else { return None };
        let [first, aged] = [class, aged_class].map(|class| &rules.classes[class as usize]);
        let by_arrival = matches!(aged.keys[..], [Expr::Field(Field::Req(ReqField::ArrivalS))]);
        let in_order = by_arrival || aged.keys.is_empty();
        let guards = aged_class < class && in_order && first.hold == 0 && first.hold_steps == 0;
        guards.then_some(Guard { class, aged_class, by_arrival, patience })
    }

    /// The class of a request that has waited for so long, and after how many ticks of waiting it enters the next.
    #[inline]
    pub(super) fn at(&self, waited: Ticks) -> (u32, Option<Ticks>) {
        let next = self.from.iter().position(|&(from, _)| from > waited).unwrap_or(self.from.len());
        (self.from[next - 1].1, self.from.get(next).map(|&(from, _)| from))
    }
}

/// Whether an expression reads columns of the trace only. An instance predicts the time of a prefill.
fn reads_trace_only(key: &Expr) -> bool {
    !key.looks_at_request(&|field| field.changes() != Changes::NEVER || field == ReqField::PrefillS)
}

/// Adds the first ticks of waiting at which comparisons of the waiting time may have another result. Returns whether the
/// condition reads nothing else.
fn collect_moments(condition: &Expr, moments: &mut Vec<Ticks>) -> bool {
    match condition {
        Expr::Const(_) => true,
        Expr::Op(Op::And | Op::Or | Op::Not, parts) => {
            parts.iter().all(|part| collect_moments(part, moments))
        }
        Expr::Op(op, sides) if op.compares() => match sides.as_slice() {
            [Expr::Field(Field::Req(ReqField::WaitingS)), Expr::Const(bound)]
            | [Expr::Const(bound), Expr::Field(Field::Req(ReqField::WaitingS))] => {
                moments.extend(first_tick(|ticks| seconds(ticks) >= *bound));
                moments.extend(first_tick(|ticks| seconds(ticks) > *bound));
                true
            }
            _ => false,
        },
        _ => false,
    }
}

/// The first tick for which a condition holds that holds of all later ones.
fn first_tick(holds: impl Fn(Ticks) -> bool) -> Option<Ticks> {
    let (mut first, mut last) = (0, Ticks::MAX);
    while first < last {
        let middle = first + (last - first) / 2;
        if holds(middle) {
            last = middle;
        } else {
            first = middle + 1;
        }
    }
    holds(first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::ranking::classes::Classes;
    use proptest::prelude::*;

    fn rules(first: &str, second: &str, key: &str) -> RankingRules {
        let class = |when: &str, key: &str| format!(r#"{{"when": {when}, "keys": [{{"field": "{key}"}}]}}"#);
        let json = format!(
            r#"{{"classes": [{}, {}, {{"keys": []}}]}}"#,
            class(first, key),
            class(second, "req.arrival_s")
        );
        serde_json::from_str(&json).expect("it is a ranking")
    }

    fn comparison(op: &str, field: &str, bound: f64) -> String {
        format!(r#"{{"op": "{op}", "args": [{{"field": "{field}"}}, {{"const": {bound}}}]}}"#)
    }

    proptest! {
        #[test]
        fn the_class_is_that_of_the_conditions_at_any_wait(
            ops in prop::collection::vec(prop::sample::select(vec!["gt", "ge", "lt", "le", "eq", "ne"]), 3),
            bounds in prop::collection::vec(0u32..40, 3), wait in 0u64..5_000, off in -2i64..3,
        ) {
            let at = |i: usize| comparison(ops[i], "req.waiting_s", f64::from(bounds[i]) / 8.0);
            let second = format!(r#"{{"op": "or", "args": [{}, {{"op": "not", "args": [{}]}}]}}"#, at(1), at(2));
            let rules = rules(&at(0), &second, "req.score");
            let classes = Classes::new(&rules);
            let by_wait = ClassByWait::new(&rules, &classes.conditions).expect("only waits count");
            // Around every thousandth of a second, to the tick.
            let waited = (wait * 1_000_000_000).saturating_add_signed(off);
            let view = RequestView { now: waited, ..RequestView::default() };
            let expected = |view: &RequestView| classes.conditions.first_that_takes(view, &Trace::default(), &mut Validity::EVER.clone());
            let (class, next) = by_wait.at(waited);
            prop_assert_eq!(class, expected(&view));
            for now in next.into_iter().flat_map(|next| [next - 1, next]) {
                let changes = now == next.unwrap();
                let then = expected(&RequestView { now, ..view });
                prop_assert_eq!(then != class, changes);
            }
        }
    }

    #[test]
    fn anything_but_the_wait_needs_the_conditions() {
        let known = |rules: &RankingRules| Classes::new(rules).by_wait.is_some();
        let waits = comparison("gt", "req.waiting_s", 5.0);
        assert!(known(&rules(&waits, &waits, "req.score")));
        assert!(!known(&rules(&waits, &comparison("gt", "req.age_s", 5.0), "req.score")));
        assert!(!known(&rules(&waits, &waits, "req.joined_s")));
        assert!(!known(&rules(&waits, &waits, "req.generated_tokens")));
    }
}
