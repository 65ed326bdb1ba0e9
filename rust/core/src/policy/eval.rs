//! What an expression is worth, and for how long.
//!
//! A scheduler's ranks are looked at before each step; to leap over steps, the
//! engine must know when one could change. So a field is given as a straight
//! line in the request's steps and in time, and where lines meet a constant, in
//! a comparison or a whole division, the meeting point bounds how long the value
//! holds. The bound is never too long; where it is too short, the expression is
//! only looked at once more.

use super::expr::{Aggregate, Expr, Op};
use super::fields::{Field, InstField, ReqField, Who};

/// A value and how it drifts: `value + per_step * steps + per_tick * ticks`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Form {
    pub(crate) value: f64,
    pub(crate) per_step: f64,
    pub(crate) per_tick: f64,
}

impl Form {
    #[inline]
    pub(crate) fn fixed(value: f64) -> Self {
        Self { value, per_step: 0.0, per_tick: 0.0 }
    }

    #[inline]
    fn truth(value: bool) -> Self {
        Self::fixed(if value { 1.0 } else { 0.0 })
    }

    #[inline]
    fn is_fixed(self) -> bool {
        self.per_step == 0.0 && self.per_tick == 0.0
    }

    #[inline]
    fn plus(self, other: Self, sign: f64) -> Self {
        Self {
            value: self.value + sign * other.value,
            per_step: self.per_step + sign * other.per_step,
            per_tick: self.per_tick + sign * other.per_tick,
        }
    }
}

/// How many steps, and how many ticks, a value surely stays what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Until {
    pub(crate) steps: u64,
    pub(crate) ticks: u64,
}

impl Until {
    /// It never changes by itself.
    pub(crate) const EVER: Self = Self { steps: u64::MAX, ticks: u64::MAX };

    #[inline]
    pub(crate) fn within_steps(&mut self, steps: u64) {
        self.steps = self.steps.min(steps.max(1));
    }

    #[inline]
    fn within_ticks(&mut self, ticks: u64) {
        self.ticks = self.ticks.min(ticks.max(1));
    }

    /// A line of no further use: it may be another at any moment.
    fn unless_fixed(&mut self, form: Form) -> f64 {
        if form.per_step != 0.0 {
            self.within_steps(1);
        }
        if form.per_tick != 0.0 {
            self.within_ticks(1);
        }
        form.value
    }

    /// The line will not have passed `distance` further from where it is.
    fn before_passing(&mut self, form: Form, up: f64, down: f64) {
        if form.per_step != 0.0 && form.per_tick != 0.0 {
            self.unless_fixed(form);
            return;
        }
        if form.per_step != 0.0 {
            let distance = if form.per_step > 0.0 { up } else { down };
            self.within_steps((distance / form.per_step.abs()).floor() as u64);
        }
        if form.per_tick != 0.0 {
            let distance = if form.per_tick > 0.0 { up } else { down };
            // Doubles hold some 2^53 ticks exactly: stay clear of rounding.
            let ticks = (distance / form.per_tick.abs() * (1.0 - 1e-12)).floor() - 4096.0;
            self.within_ticks(ticks.max(0.0) as u64);
        }
    }
}

/// What lends an expression its fields.
pub(crate) trait Scope {
    /// A field of the request.
    fn request(&mut self, field: ReqField, until: &mut Until) -> Form;
    /// A field of an instance.
    fn instance(&mut self, who: Who, field: InstField, class: u32) -> f64;
    /// How many instances there are.
    fn instances(&self) -> usize;
    /// Whether an instance has one of the roles.
    fn has_role(&self, index: usize, roles: &[u32]) -> bool;
    /// Considers another instance; returns the one considered before.
    fn consider(&mut self, index: usize) -> usize;
}

/// Whether a condition holds.
#[inline]
pub(crate) fn holds<S: Scope>(expr: &Expr, scope: &mut S, until: &mut Until) -> bool {
    let form = evaluate(expr, scope, until);
    until.unless_fixed(form) != 0.0
}

/// What an expression is sorted by: a whole number that orders as its value
/// does, and the same on any machine. What is no number comes last.
#[inline]
pub(crate) fn sort_key<S: Scope>(expr: &Expr, scope: &mut S, until: &mut Until) -> i64 {
    ordered(evaluate(expr, scope, until).value)
}

#[inline]
fn ordered(value: f64) -> i64 {
    if value.is_nan() {
        return i64::MAX;
    }
    // Adding nothing makes the two zeros one.
    let bits = (value + 0.0).to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

/// What an expression is worth; `until` is lowered to how long.
fn evaluate<S: Scope>(expr: &Expr, scope: &mut S, until: &mut Until) -> Form {
    match expr {
        Expr::Const(value) => Form::fixed(*value),
        Expr::Field(Field::Req(field)) => scope.request(*field, until),
        Expr::Field(Field::Inst(who, field, class)) => Form::fixed(scope.instance(*who, *field, *class)),
        Expr::Op(op, arguments) => operate(*op, arguments, scope, until),
        Expr::Over(aggregate, of, within) => over(*aggregate, of, within.as_deref(), scope),
    }
}

fn operate<S: Scope>(op: Op, arguments: &[Expr], scope: &mut S, until: &mut Until) -> Form {
    match op {
        Op::And | Op::Or => {
            let settles = op == Op::Or;
            let found = arguments.iter().any(|argument| holds(argument, scope, until) == settles);
            return Form::truth(found == settles);
        }
        Op::If => {
            let chosen = if holds(&arguments[0], scope, until) { 1 } else { 2 };
            return evaluate(&arguments[chosen], scope, until);
        }
        _ => {}
    }
    let first = evaluate(&arguments[0], scope, until);
    match op {
        Op::Not => return Form::truth(until.unless_fixed(first) == 0.0),
        Op::Neg => return Form::fixed(0.0).plus(first, -1.0),
        Op::Abs => return Form::fixed(until.unless_fixed(first).abs()),
        Op::Ilog2 => return ilog2(first, until),
        _ => {}
    }
    arguments[1..].iter().fold(first, |first, argument| {
        let second = evaluate(argument, scope, until);
        combine(op, first, second, until)
    })
}

fn combine(op: Op, first: Form, second: Form, until: &mut Until) -> Form {
    match op {
        Op::Add => first.plus(second, 1.0),
        Op::Sub => first.plus(second, -1.0),
        Op::Mul if second.is_fixed() => scaled(first, second.value),
        Op::Mul if first.is_fixed() => scaled(second, first.value),
        Op::Div if second.is_fixed() => Form {
            value: first.value / second.value,
            per_step: first.per_step / second.value,
            per_tick: first.per_tick / second.value,
        },
        Op::Floordiv if second.is_fixed() && second.value > 0.0 => {
            let whole = (first.value / second.value).floor();
            let up = (whole + 1.0) * second.value - first.value;
            let down = first.value - whole * second.value;
            until.before_passing(first, up, down);
            Form::fixed(whole)
        }
        Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne => compare(op, first, second, until),
        _ => {
            let (a, b) = (until.unless_fixed(first), until.unless_fixed(second));
            Form::fixed(match op {
                Op::Mul => a * b,
                Op::Div => a / b,
                Op::Floordiv => (a / b).floor(),
                Op::Min => a.min(b),
                _ => a.max(b),
            })
        }
    }
}

#[inline]
fn scaled(form: Form, by: f64) -> Form {
    Form { value: form.value * by, per_step: form.per_step * by, per_tick: form.per_tick * by }
}

#[expect(clippy::float_cmp, reason = "a policy's == and != are exact")]
fn compare(op: Op, first: Form, second: Form, until: &mut Until) -> Form {
    let gap = first.plus(second, -1.0);
    if !gap.is_fixed() {
        // Once it has passed nothing it does not come back.
        let up = if gap.value <= 0.0 { -gap.value } else { f64::INFINITY };
        let down = if gap.value >= 0.0 { gap.value } else { f64::INFINITY };
        until.before_passing(gap, up, down);
    }
    let (a, b) = (first.value, second.value);
    Form::truth(match op {
        Op::Lt => a < b,
        Op::Le => a <= b,
        Op::Gt => a > b,
        Op::Ge => a >= b,
        Op::Eq => a == b,
        _ => a != b,
    })
}

fn ilog2(form: Form, until: &mut Until) -> Form {
    if form.value < 2.0 || !form.value.is_finite() {
        until.before_passing(form, 2.0 - form.value, f64::INFINITY);
        return Form::fixed(0.0);
    }
    let exponent = (form.value.to_bits() >> 52) as i32 - 1023;
    let floor = f64::from_bits(((exponent + 1023) as u64) << 52);
    until.before_passing(form, 2.0 * floor - form.value, form.value - floor);
    Form::fixed(f64::from(exponent))
}

fn over<S: Scope>(aggregate: Aggregate, of: &Expr, within: Option<&[u32]>, scope: &mut S) -> Form {
    let (mut count, mut holding, mut sum) = (0_u32, 0_u32, 0.0);
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for index in 0..scope.instances() {
        if within.is_some_and(|roles| !scope.has_role(index, roles)) {
            continue;
        }
        let before = scope.consider(index);
        let value = evaluate(of, scope, &mut Until::EVER.clone()).value;
        scope.consider(before);
        count += 1;
        holding += u32::from(value != 0.0);
        sum += value;
        least = least.min(value);
        most = most.max(value);
    }
    Form::fixed(match aggregate {
        Aggregate::Count => f64::from(holding),
        Aggregate::Sum => sum,
        Aggregate::Any => f64::from(u8::from(holding > 0)),
        Aggregate::All => f64::from(u8::from(holding == count)),
        _ if count == 0 => 0.0,
        Aggregate::Mean => sum / f64::from(count),
        Aggregate::Min => least,
        Aggregate::Max => most,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A request whose tokens and whose age are what is asked for.
    struct At {
        tokens: f64,
        per_token: f64,
        seconds: f64,
    }

    impl Scope for At {
        fn request(&mut self, field: ReqField, _: &mut Until) -> Form {
            match field {
                ReqField::GeneratedTokens => {
                    Form { value: self.tokens, per_step: self.per_token, per_tick: 0.0 }
                }
                ReqField::AgeS => Form { value: self.seconds, per_step: 0.0, per_tick: 1e-12 },
                _ => Form::fixed(7.0),
            }
        }
        fn instance(&mut self, _: Who, _: InstField, _: u32) -> f64 {
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
        fn a_condition_stays_what_it_is_for_as_long_as_it_says(
            left in expression(), op in prop::sample::select(vec![Op::Lt, Op::Ge, Op::Eq, Op::Ne]),
            right in expression(), tokens in 0u16..300, moving in any::<bool>(),
            seconds in 0u16..300, part in 0.0f64..1.0,
        ) {
            let condition = Expr::Op(op, vec![left, right]);
            let per_token = if moving { 1.0 } else { 0.0 };
            let mut now = At { tokens: f64::from(tokens), per_token, seconds: f64::from(seconds) };
            let mut until = Until::EVER;
            let truth = holds(&condition, &mut now, &mut until);
            let steps = ((until.steps - 1).min(400) as f64 * part).floor();
            let ticks = ((until.ticks - 1).min(400_000_000_000_000) as f64 * part).floor();
            let mut later = At {
                tokens: f64::from(tokens) + per_token * steps, per_token,
                seconds: f64::from(seconds) + ticks * 1e-12,
            };
            prop_assert_eq!(holds(&condition, &mut later, &mut Until::EVER.clone()), truth);
        }
    }

    #[test]
    fn a_threshold_on_tokens_says_when_it_is_reached() {
        let condition = parse(r#"{"op": "ge", "args": [{"field": "req.generated_tokens"}, {"const": 500}]}"#);
        let mut until = Until::EVER;
        let mut at = At { tokens: 120.0, per_token: 1.0, seconds: 0.0 };
        assert!(!holds(&condition, &mut at, &mut until));
        assert_eq!(until, Until { steps: 380, ticks: u64::MAX });
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "whole numbers, and exact")]
    fn whole_divisions_and_logarithms_change_at_their_boundaries() {
        let field = r#"{"field": "req.generated_tokens"}"#;
        let mut at = At { tokens: 1003.0, per_token: 1.0, seconds: 0.0 };
        let quanta = parse(&format!(r#"{{"op": "floordiv", "args": [{field}, {{"const": 500}}]}}"#));
        let mut until = Until::EVER;
        assert_eq!(evaluate(&quanta, &mut at, &mut until).value, 2.0);
        assert_eq!(until.steps, 497);
        let level = parse(&format!(r#"{{"op": "ilog2", "args": [{field}]}}"#));
        let mut until = Until::EVER;
        assert_eq!(evaluate(&level, &mut at, &mut until).value, 9.0);
        assert_eq!(until.steps, 21);
    }

    #[test]
    fn keys_order_as_their_values_and_no_number_comes_last() {
        let values =
            [f64::NEG_INFINITY, -1e18, -1.5, -1.0, -1e-12, 0.0, 1e-12, 1.0, 2.0, 1e18, f64::INFINITY];
        assert!(values.windows(2).all(|pair| ordered(pair[0]) < ordered(pair[1])));
        assert_eq!(ordered(-0.0), ordered(0.0));
        assert!([f64::NAN, -f64::NAN].iter().all(|&nan| ordered(nan) > ordered(f64::INFINITY)));
    }

    #[test]
    fn an_unknown_field_is_refused() {
        let error = serde_json::from_str::<Expr>(r#"{"field": "req.lenght"}"#).unwrap_err();
        assert!(error.to_string().contains("req.lenght"));
    }
}
