//! Evaluates expressions: their value, and how long it holds.
//!
//! Ranks are evaluated before each step. To leap over steps, the engine must know when a rank could change. So a field
//! is given as a straight line in the request's steps and in time. Where a line meets a constant, in a comparison or a
//! whole division, the meeting point bounds how long the value holds.

use super::expr::{Aggregate, Expr, Op};
use super::fields::{BlockField, Field, InstField, InstanceRef, ReqField};
use super::linear::Linear;
use super::number::Number;
use super::validity::Validity;

/// Gives an expression the values of its fields.
pub(crate) trait Scope {
    /// The value of a request field; `validity` is lowered to how long it stays on the line.
    fn request(&mut self, field: ReqField, validity: &mut Validity) -> Linear;
    /// The value of an instance field.
    fn instance(&mut self, which: InstanceRef, field: InstField, class: u32) -> f64;
    /// The same as a line over the steps of a run; `validity` is lowered to how long it stays on the line.
    fn line(&mut self, which: InstanceRef, field: InstField, class: u32, _: &mut Validity) -> Linear {
        Linear::fixed(self.instance(which, field, class))
    }
    /// The number of the request in a column of the trace; without this, expressions see 0.
    fn column(&self, _index: u32) -> f64 {
        0.0
    }
    /// A field of a block; without this, expressions see 0.
    fn block(&self, _field: BlockField) -> f64 {
        0.0
    }
    /// The number of an accumulator; without this, expressions see 0.
    fn accumulated(&mut self, _index: u32) -> f64 {
        0.0
    }
    /// The number of instances; without this and what follows, expressions see none.
    fn instances(&self) -> usize {
        0
    }
    /// Whether an instance has one of the roles.
    fn has_role(&self, _index: usize, _roles: &[u32]) -> bool {
        false
    }
    /// Makes another instance the candidate; returns the previous candidate.
    fn consider(&mut self, index: usize) -> usize {
        index
    }
}

/// Whether a condition holds; `validity` is lowered to how long the answer holds.
pub(crate) fn holds<S: Scope>(expr: &Expr, scope: &mut S, validity: &mut Validity) -> bool {
    is_true::<S, Linear>(expr, scope, validity)
}

/// Whether a condition holds now.
pub(crate) fn holds_now<S: Scope>(expr: &Expr, scope: &mut S) -> bool {
    is_true::<S, f64>(expr, scope, &mut Validity::EVER.clone())
}

/// The sort key of an expression's value, see [`sort_key_of`]; `validity` is lowered to how long it holds.
pub(crate) fn sort_key<S: Scope>(expr: &Expr, scope: &mut S, validity: &mut Validity) -> i64 {
    sort_key_of(evaluate::<S, Linear>(expr, scope, validity).value)
}

/// The sort key of an expression's present value.
pub(crate) fn sort_key_now<S: Scope>(expr: &Expr, scope: &mut S) -> i64 {
    sort_key_of(evaluate::<S, f64>(expr, scope, &mut Validity::EVER.clone()))
}

/// The present value of an expression.
pub(crate) fn value_now<S: Scope>(expr: &Expr, scope: &mut S) -> f64 {
    evaluate::<S, f64>(expr, scope, &mut Validity::EVER.clone())
}

/// The value of an expression; `validity` is lowered to how long it holds.
pub(crate) fn value<S: Scope>(expr: &Expr, scope: &mut S, validity: &mut Validity) -> f64 {
    evaluate::<S, Linear>(expr, scope, validity).freeze(validity)
}

/// The sort key of a value: a whole number that orders as the value does, the same on any machine. NaN is the largest.
pub(crate) fn sort_key_of(value: f64) -> i64 {
    if value.is_nan() {
        return i64::MAX;
    }
    // Adding 0 turns -0 into 0.
    let bits = (value + 0.0).to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

/// Whether a condition holds, computed with `N`.
fn is_true<S: Scope, N: Number>(expr: &Expr, scope: &mut S, validity: &mut Validity) -> bool {
    match expr {
        Expr::Op(op, arguments) => is_true_of::<S, N>(*op, arguments, scope, validity),
        _ => evaluate::<S, N>(expr, scope, validity).freeze(validity) != 0.0,
    }
}

/// Whether the value of an operation is not 0.
#[inline(never)]
fn is_true_of<S: Scope, N: Number>(
    op: Op,
    arguments: &[Expr],
    scope: &mut S,
    validity: &mut Validity,
) -> bool {
    match op {
        Op::And => arguments.iter().all(|argument| is_true::<S, N>(argument, scope, validity)),
        Op::Or => arguments.iter().any(|argument| is_true::<S, N>(argument, scope, validity)),
        Op::Not => !is_true::<S, N>(&arguments[0], scope, validity),
        Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne => {
            let first: N = evaluate(&arguments[0], scope, validity);
            let second: N = evaluate(&arguments[1], scope, validity);
            compare(op, first, second, validity)
        }
        _ => operate::<S, N>(op, arguments, scope, validity).freeze(validity) != 0.0,
    }
}

/// The value of an expression; `validity` is lowered to how long it holds. Constants and fields, which are most of what an
/// expression consists of, take no call.
#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "a call takes longer than a constant or a field of an operation does"
)]
fn evaluate<S: Scope, N: Number>(expr: &Expr, scope: &mut S, validity: &mut Validity) -> N {
    match expr {
        Expr::Const(value) => N::fixed(*value),
        Expr::Field(Field::Req(field)) => N::of(scope.request(*field, validity)),
        Expr::Field(Field::Inst(which, field, class)) => N::of(scope.line(*which, *field, *class, validity)),
        Expr::Field(Field::Accumulator(index)) => N::fixed(scope.accumulated(*index)),
        Expr::Field(Field::Column(index)) => N::fixed(scope.column(*index)),
        Expr::Field(Field::Block(field)) => N::fixed(scope.block(*field)),
        Expr::Op(op, arguments) => operate(*op, arguments, scope, validity),
        Expr::Over(aggregate, of, within) => N::fixed(over(*aggregate, of, within.as_deref(), scope)),
    }
}

/// The value of an operation.
#[inline(never)]
fn operate<S: Scope, N: Number>(op: Op, arguments: &[Expr], scope: &mut S, validity: &mut Validity) -> N {
    let [first, others @ ..] = arguments else { return N::fixed(0.0) };
    if !op.combines() {
        return operate_otherwise(op, arguments, scope, validity);
    }
    let mut value: N = evaluate(first, scope, validity);
    for argument in others {
        let second = evaluate(argument, scope, validity);
        value = combine(op, value, second, validity);
    }
    value
}

/// The value of an operation that does not combine its arguments one after another.
#[inline(never)]
fn operate_otherwise<S: Scope, N: Number>(
    op: Op,
    arguments: &[Expr],
    scope: &mut S,
    validity: &mut Validity,
) -> N {
    if op.tells() {
        return N::truth(is_true_of::<S, N>(op, arguments, scope, validity));
    }
    if op == Op::If {
        let chosen = if is_true::<S, N>(&arguments[0], scope, validity) { 1 } else { 2 };
        return evaluate(&arguments[chosen], scope, validity);
    }
    let value: N = evaluate(&arguments[0], scope, validity);
    match op {
        Op::Neg => N::fixed(0.0).plus(value, -1.0),
        Op::Abs => N::fixed(value.freeze(validity).abs()),
        _ => ilog2(value, validity),
    }
}

/// The value of an operation of two values.
pub(super) fn combine<N: Number>(op: Op, first: N, second: N, validity: &mut Validity) -> N {
    match op {
        Op::Add => first.plus(second, 1.0),
        Op::Sub => first.plus(second, -1.0),
        Op::Mul => first.times(second, validity),
        Op::Div => first.divided(second, validity),
        Op::Floordiv => first.divided_whole(second, validity),
        Op::Min => N::fixed(first.freeze(validity).min(second.freeze(validity))),
        _ => N::fixed(first.freeze(validity).max(second.freeze(validity))),
    }
}

/// Whether a comparison holds.
pub(super) fn compare<N: Number>(op: Op, first: N, second: N, validity: &mut Validity) -> bool {
    // On a line, one value passes the other only once.
    let gap = first.plus(second, -1.0);
    let up = if gap.value() <= 0.0 { -gap.value() } else { f64::INFINITY };
    let down = if gap.value() >= 0.0 { gap.value() } else { f64::INFINITY };
    gap.bounded(up, down, validity);
    truth_of(op, first.value(), second.value())
}

/// Whether a comparison of numbers holds.
#[expect(clippy::float_cmp, reason = "a policy's == and != are exact")]
pub(super) fn truth_of(op: Op, a: f64, b: f64) -> bool {
    match op {
        Op::Lt => a < b,
        Op::Le => a <= b,
        Op::Gt => a > b,
        Op::Ge => a >= b,
        Op::Eq => a == b,
        _ => a != b,
    }
}

/// The largest `n` with `2^n` at most the value; below 2 it is 0.
pub(super) fn ilog2<N: Number>(of: N, validity: &mut Validity) -> N {
    let value = of.value();
    if value < 2.0 || !value.is_finite() {
        of.bounded(2.0 - value, f64::INFINITY, validity);
        return N::fixed(0.0);
    }
    let exponent = (value.to_bits() >> 52) as i32 - 1023;
    let floor = f64::from_bits(((exponent + 1023) as u64) << 52);
    of.bounded(2.0 * floor - value, value - floor, validity);
    N::fixed(f64::from(exponent))
}

/// The value of an aggregate over instances.
fn over<S: Scope>(aggregate: Aggregate, of: &Expr, within: Option<&[u32]>, scope: &mut S) -> f64 {
    let mut tally = Tally::default();
    for index in 0..scope.instances() {
        if within.is_some_and(|roles| !scope.has_role(index, roles)) {
            continue;
        }
        let before = scope.consider(index);
        let value: f64 = evaluate(of, scope, &mut Validity::EVER.clone());
        scope.consider(before);
        tally.add(value);
    }
    tally.value(aggregate)
}

/// The count, sum and extremes of the values that an aggregate combines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tally {
    count: u32,
    /// Values that are not 0.
    holding: u32,
    sum: f64,
    least: f64,
    most: f64,
}

impl Default for Tally {
    fn default() -> Self {
        Self { count: 0, holding: 0, sum: 0.0, least: f64::INFINITY, most: f64::NEG_INFINITY }
    }
}

impl Tally {
    /// Adds a value.
    pub(super) fn add(&mut self, value: f64) {
        self.count += 1;
        self.holding += u32::from(value != 0.0);
        self.sum += value;
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }

    /// The value of an aggregate of all values that were added.
    pub(super) fn value(self, aggregate: Aggregate) -> f64 {
        match aggregate {
            Aggregate::Count => f64::from(self.holding),
            Aggregate::Sum => self.sum,
            Aggregate::Any => f64::from(u8::from(self.holding > 0)),
            Aggregate::All => f64::from(u8::from(self.holding == self.count)),
            _ if self.count == 0 => 0.0,
            Aggregate::Mean => self.sum / f64::from(self.count),
            Aggregate::Min => self.least,
            Aggregate::Max => self.most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A request with these tokens and this age.
    struct At {
        tokens: f64,
        per_token: f64,
        seconds: f64,
    }

    impl Scope for At {
        fn request(&mut self, field: ReqField, _: &mut Validity) -> Linear {
            match field {
                ReqField::GeneratedTokens => {
                    Linear { value: self.tokens, per_step: self.per_token, per_tick: 0.0 }
                }
                ReqField::AgeS => Linear { value: self.seconds, per_step: 0.0, per_tick: 1e-12 },
                _ => Linear::fixed(7.0),
            }
        }
        fn instance(&mut self, _: InstanceRef, _: InstField, _: u32) -> f64 {
            3.0
        }
        fn instances(&self) -> usize {
            1
        }
        fn has_role(&self, _: usize, _: &[u32]) -> bool {
            true
        }
        fn consider(&mut self, index: usize) -> usize {
            index
        }
    }

    fn parse(text: &str) -> Expr {
        serde_json::from_str(text).unwrap()
    }

    fn leaf() -> impl Strategy<Value = Expr> {
        prop_oneof![
            (-20i32..200).prop_map(|n| Expr::Const(f64::from(n))),
            Just(Expr::Field(Field::Req(ReqField::GeneratedTokens))),
            Just(Expr::Field(Field::Req(ReqField::AgeS))),
            Just(Expr::Field(Field::Req(ReqField::Priority))),
        ]
    }

    fn expression() -> impl Strategy<Value = Expr> {
        let ops = prop::sample::select(vec![
            Op::Add,
            Op::Sub,
            Op::Mul,
            Op::Min,
            Op::Max,
            Op::Lt,
            Op::Le,
            Op::Gt,
            Op::Ge,
            Op::Eq,
            Op::Ne,
            Op::And,
            Op::Or,
        ]);
        leaf().prop_recursive(4, 24, 2, move |inner| {
            prop_oneof![
                (ops.clone(), inner.clone(), inner.clone()).prop_map(|(op, a, b)| Expr::Op(op, vec![a, b])),
                (inner.clone(), 1u8..40)
                    .prop_map(|(a, by)| Expr::Op(Op::Floordiv, vec![a, Expr::Const(f64::from(by))])),
                inner.clone().prop_map(|a| Expr::Op(Op::Ilog2, vec![a])),
                inner.prop_map(|a| Expr::Op(Op::Not, vec![a])),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn a_condition_holds_as_long_as_its_validity(
            left in expression(), op in prop::sample::select(vec![Op::Lt, Op::Ge, Op::Eq, Op::Ne]),
            right in expression(), tokens in 0u16..300, moving in any::<bool>(),
            seconds in 0u16..300, part in 0.0f64..1.0,
        ) {
            let condition = Expr::Op(op, vec![left, right]);
            let per_token = if moving { 1.0 } else { 0.0 };
            let mut now = At { tokens: f64::from(tokens), per_token, seconds: f64::from(seconds) };
            let mut validity = Validity::EVER;
            let truth = holds(&condition, &mut now, &mut validity);
            let steps = ((validity.steps - 1).min(400) as f64 * part).floor();
            let ticks = ((validity.ticks - 1).min(400_000_000_000_000) as f64 * part).floor();
            let mut later = At {
                tokens: f64::from(tokens) + per_token * steps, per_token,
                seconds: f64::from(seconds) + ticks * 1e-12,
            };
            prop_assert_eq!(holds_now(&condition, &mut later), truth);
        }
    }

    #[test]
    fn a_threshold_on_tokens_says_when_it_is_reached() {
        let condition = parse(r#"{"op": "ge", "args": [{"field": "req.generated_tokens"}, {"const": 500}]}"#);
        let mut validity = Validity::EVER;
        let mut at = At { tokens: 120.0, per_token: 1.0, seconds: 0.0 };
        assert!(!holds(&condition, &mut at, &mut validity));
        assert_eq!(validity, Validity { steps: 380, ticks: u64::MAX });
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "whole numbers, and exact")]
    fn whole_divisions_and_logarithms_change_at_their_boundaries() {
        let field = r#"{"field": "req.generated_tokens"}"#;
        let mut at = At { tokens: 1003.0, per_token: 1.0, seconds: 0.0 };
        let quanta = parse(&format!(r#"{{"op": "floordiv", "args": [{field}, {{"const": 500}}]}}"#));
        let mut validity = Validity::EVER;
        assert_eq!(evaluate::<_, Linear>(&quanta, &mut at, &mut validity).value, 2.0);
        assert_eq!(validity.steps, 497);
        let level = parse(&format!(r#"{{"op": "ilog2", "args": [{field}]}}"#));
        let mut validity = Validity::EVER;
        assert_eq!(evaluate::<_, Linear>(&level, &mut at, &mut validity).value, 9.0);
        assert_eq!(validity.steps, 21);
    }

    #[test]
    fn keys_order_as_their_values_and_nan_is_last() {
        let values =
            [f64::NEG_INFINITY, -1e18, -1.5, -1.0, -1e-12, 0.0, 1e-12, 1.0, 2.0, 1e18, f64::INFINITY];
        assert!(values.windows(2).all(|pair| sort_key_of(pair[0]) < sort_key_of(pair[1])));
        assert_eq!(sort_key_of(-0.0), sort_key_of(0.0));
        assert!([f64::NAN, -f64::NAN].iter().all(|&nan| sort_key_of(nan) > sort_key_of(f64::INFINITY)));
    }

    #[test]
    fn an_unknown_field_is_refused() {
        let error = serde_json::from_str::<Expr>(r#"{"field": "req.lenght"}"#).unwrap_err();
        assert!(error.to_string().contains("req.lenght"));
    }
}
