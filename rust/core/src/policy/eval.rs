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
pub(crate) struct Linear {
    pub(crate) value: f64,
    pub(crate) per_step: f64,
    pub(crate) per_tick: f64,
}

impl Linear {
    #[inline]
    fn is_fixed(self) -> bool {
        self.per_step == 0.0 && self.per_tick == 0.0
    }

    #[inline]
    fn scaled(self, by: f64) -> Self {
        Self { value: self.value * by, per_step: self.per_step * by, per_tick: self.per_tick * by }
    }
}

/// How many steps, and how many ticks, a value surely stays what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) steps: u64,
    pub(crate) ticks: u64,
}

impl Validity {
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

    /// The line will not have passed `distance` further from where it is.
    fn before_passing(&mut self, line: Linear, up: f64, down: f64) {
        if line.per_step != 0.0 && line.per_tick != 0.0 {
            line.freeze(self);
            return;
        }
        if line.per_step != 0.0 {
            let distance = if line.per_step > 0.0 { up } else { down };
            self.within_steps((distance / line.per_step.abs()).floor() as u64);
        }
        if line.per_tick != 0.0 {
            let distance = if line.per_tick > 0.0 { up } else { down };
            // Doubles hold some 2^53 ticks exactly: stay clear of rounding.
            let ticks = (distance / line.per_tick.abs() * (1.0 - 1e-12)).floor() - 4096.0;
            self.within_ticks(ticks.max(0.0) as u64);
        }
    }
}

/// What expressions compute with: a number, where only the present moment is
/// asked for, or a line, where it is asked how long the answer holds.
pub(crate) trait Number: Copy {
    fn of(line: Linear) -> Self;
    fn fixed(value: f64) -> Self;
    /// The number. A line of no further use may be another at any moment.
    fn freeze(self, validity: &mut Validity) -> f64;
    fn plus(self, other: Self, sign: f64) -> Self;
    fn times(self, other: Self, validity: &mut Validity) -> Self;
    fn divided(self, by: Self, validity: &mut Validity) -> Self;
    /// The whole number below `self / by`.
    fn divided_whole(self, by: Self, validity: &mut Validity) -> Self;
    /// A boundary is noted that `self` meets `up` or `down` further on.
    fn bounded(self, up: f64, down: f64, validity: &mut Validity);
    /// The present value.
    fn value(self) -> f64;

    #[inline]
    fn truth(value: bool) -> Self {
        Self::fixed(if value { 1.0 } else { 0.0 })
    }
}

impl Number for f64 {
    #[inline]
    fn of(line: Linear) -> Self {
        line.value
    }

    #[inline]
    fn fixed(value: f64) -> Self {
        value
    }

    #[inline]
    fn freeze(self, _: &mut Validity) -> f64 {
        self
    }

    #[inline]
    fn plus(self, other: Self, sign: f64) -> Self {
        self + sign * other
    }

    #[inline]
    fn times(self, other: Self, _: &mut Validity) -> Self {
        self * other
    }

    #[inline]
    fn divided(self, by: Self, _: &mut Validity) -> Self {
        self / by
    }

    #[inline]
    fn divided_whole(self, by: Self, _: &mut Validity) -> Self {
        (self / by).floor()
    }

    #[inline]
    fn bounded(self, _: f64, _: f64, _: &mut Validity) {}

    #[inline]
    fn value(self) -> f64 {
        self
    }
}

impl Number for Linear {
    #[inline]
    fn of(line: Linear) -> Self {
        line
    }

    #[inline]
    fn fixed(value: f64) -> Self {
        Self { value, per_step: 0.0, per_tick: 0.0 }
    }

    #[inline]
    fn freeze(self, validity: &mut Validity) -> f64 {
        if self.per_step != 0.0 {
            validity.within_steps(1);
        }
        if self.per_tick != 0.0 {
            validity.within_ticks(1);
        }
        self.value
    }

    #[inline]
    fn plus(self, other: Self, sign: f64) -> Self {
        Self {
            value: self.value + sign * other.value,
            per_step: self.per_step + sign * other.per_step,
            per_tick: self.per_tick + sign * other.per_tick,
        }
    }

    fn times(self, other: Self, validity: &mut Validity) -> Self {
        if other.is_fixed() {
            self.scaled(other.value)
        } else if self.is_fixed() {
            other.scaled(self.value)
        } else {
            Self::fixed(self.freeze(validity) * other.freeze(validity))
        }
    }

    fn divided(self, by: Self, validity: &mut Validity) -> Self {
        if !by.is_fixed() {
            return Self::fixed(self.freeze(validity) / by.freeze(validity));
        }
        Self {
            value: self.value / by.value,
            per_step: self.per_step / by.value,
            per_tick: self.per_tick / by.value,
        }
    }

    fn divided_whole(self, by: Self, validity: &mut Validity) -> Self {
        if !by.is_fixed() || by.value <= 0.0 {
            return Self::fixed((self.freeze(validity) / by.freeze(validity)).floor());
        }
        let whole = (self.value / by.value).floor();
        self.bounded((whole + 1.0) * by.value - self.value, self.value - whole * by.value, validity);
        Self::fixed(whole)
    }

    #[inline]
    fn bounded(self, up: f64, down: f64, validity: &mut Validity) {
        if !self.is_fixed() {
            validity.before_passing(self, up, down);
        }
    }

    #[inline]
    fn value(self) -> f64 {
        self.value
    }
}

/// What lends an expression its fields.
pub(crate) trait Scope {
    /// A field of the request.
    fn request(&mut self, field: ReqField, validity: &mut Validity) -> Linear;
    /// A field of an instance.
    fn instance(&mut self, who: Who, field: InstField, class: u32) -> f64;
    /// How many instances there are.
    fn instances(&self) -> usize;
    /// Whether an instance has one of the roles.
    fn has_role(&self, index: usize, roles: &[u32]) -> bool;
    /// Considers another instance; returns the one considered before.
    fn consider(&mut self, index: usize) -> usize;
}

/// Whether a condition holds, and for how long.
#[inline]
pub(crate) fn holds<S: Scope>(expr: &Expr, scope: &mut S, validity: &mut Validity) -> bool {
    is_true::<S, Linear>(expr, scope, validity)
}

/// Whether a condition holds now.
#[inline]
pub(crate) fn holds_now<S: Scope>(expr: &Expr, scope: &mut S) -> bool {
    is_true::<S, f64>(expr, scope, &mut Validity::EVER.clone())
}

/// What an expression is sorted by, and for how long: a whole number that
/// orders as its value does, and the same on any machine. What is no number
/// comes last.
#[inline]
pub(crate) fn sort_key<S: Scope>(expr: &Expr, scope: &mut S, validity: &mut Validity) -> i64 {
    sort_key_of(evaluate::<S, Linear>(expr, scope, validity).value)
}

/// What an expression is sorted by now.
#[inline]
pub(crate) fn sort_key_now<S: Scope>(expr: &Expr, scope: &mut S) -> i64 {
    sort_key_of(evaluate::<S, f64>(expr, scope, &mut Validity::EVER.clone()))
}

/// What a value is sorted by.
#[inline]
pub(crate) fn sort_key_of(value: f64) -> i64 {
    if value.is_nan() {
        return i64::MAX;
    }
    // Adding nothing makes the two zeros one.
    let bits = (value + 0.0).to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

fn is_true<S: Scope, N: Number>(expr: &Expr, scope: &mut S, validity: &mut Validity) -> bool {
    let Expr::Op(op, arguments) = expr else {
        return evaluate::<S, N>(expr, scope, validity).freeze(validity) != 0.0;
    };
    match op {
        Op::And => arguments.iter().all(|argument| is_true::<S, N>(argument, scope, validity)),
        Op::Or => arguments.iter().any(|argument| is_true::<S, N>(argument, scope, validity)),
        Op::Not => !is_true::<S, N>(&arguments[0], scope, validity),
        Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne => {
            let first: N = evaluate(&arguments[0], scope, validity);
            let second: N = evaluate(&arguments[1], scope, validity);
            compare(*op, first, second, validity)
        }
        _ => operate::<S, N>(*op, arguments, scope, validity).freeze(validity) != 0.0,
    }
}

/// What an expression is worth; `validity` is lowered to how long.
#[inline]
fn evaluate<S: Scope, N: Number>(expr: &Expr, scope: &mut S, validity: &mut Validity) -> N {
    match expr {
        Expr::Const(value) => N::fixed(*value),
        Expr::Field(Field::Req(field)) => N::of(scope.request(*field, validity)),
        Expr::Field(Field::Inst(who, field, class)) => N::fixed(scope.instance(*who, *field, *class)),
        Expr::Op(op, _) if op.tells() => N::truth(is_true::<S, N>(expr, scope, validity)),
        Expr::Op(op, arguments) => operate(*op, arguments, scope, validity),
        Expr::Over(aggregate, of, within) => N::fixed(over(*aggregate, of, within.as_deref(), scope)),
    }
}

#[inline(never)]
fn operate<S: Scope, N: Number>(op: Op, arguments: &[Expr], scope: &mut S, validity: &mut Validity) -> N {
    if op == Op::If {
        let chosen = if is_true::<S, N>(&arguments[0], scope, validity) { 1 } else { 2 };
        return evaluate(&arguments[chosen], scope, validity);
    }
    let mut worth: N = evaluate(&arguments[0], scope, validity);
    match op {
        Op::Neg => return N::fixed(0.0).plus(worth, -1.0),
        Op::Abs => return N::fixed(worth.freeze(validity).abs()),
        Op::Ilog2 => return ilog2(worth, validity),
        _ => {}
    }
    for argument in &arguments[1..] {
        let second = evaluate(argument, scope, validity);
        worth = combine(op, worth, second, validity);
    }
    worth
}

#[inline]
fn combine<N: Number>(op: Op, first: N, second: N, validity: &mut Validity) -> N {
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

#[inline]
#[expect(clippy::float_cmp, reason = "a policy's == and != are exact")]
pub(super) fn compare<N: Number>(op: Op, first: N, second: N, validity: &mut Validity) -> bool {
    // Once the one has passed the other it does not come back.
    let gap = first.plus(second, -1.0);
    let up = if gap.value() <= 0.0 { -gap.value() } else { f64::INFINITY };
    let down = if gap.value() >= 0.0 { gap.value() } else { f64::INFINITY };
    gap.bounded(up, down, validity);
    let (a, b) = (first.value(), second.value());
    match op {
        Op::Lt => a < b,
        Op::Le => a <= b,
        Op::Gt => a > b,
        Op::Ge => a >= b,
        Op::Eq => a == b,
        _ => a != b,
    }
}

fn ilog2<N: Number>(of: N, validity: &mut Validity) -> N {
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

fn over<S: Scope>(aggregate: Aggregate, of: &Expr, within: Option<&[u32]>, scope: &mut S) -> f64 {
    let (mut count, mut holding, mut sum) = (0_u32, 0_u32, 0.0);
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for index in 0..scope.instances() {
        if within.is_some_and(|roles| !scope.has_role(index, roles)) {
            continue;
        }
        let before = scope.consider(index);
        let value: f64 = evaluate(of, scope, &mut Validity::EVER.clone());
        scope.consider(before);
        count += 1;
        holding += u32::from(value != 0.0);
        sum += value;
        least = least.min(value);
        most = most.max(value);
    }
    match aggregate {
        Aggregate::Count => f64::from(holding),
        Aggregate::Sum => sum,
        Aggregate::Any => f64::from(u8::from(holding > 0)),
        Aggregate::All => f64::from(u8::from(holding == count)),
        _ if count == 0 => 0.0,
        Aggregate::Mean => sum / f64::from(count),
        Aggregate::Min => least,
        Aggregate::Max => most,
    }
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
        fn request(&mut self, field: ReqField, _: &mut Validity) -> Linear {
            match field {
                ReqField::GeneratedTokens => {
                    Linear { value: self.tokens, per_step: self.per_token, per_tick: 0.0 }
                }
                ReqField::AgeS => Linear { value: self.seconds, per_step: 0.0, per_tick: 1e-12 },
                _ => Linear::fixed(7.0),
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
    fn keys_order_as_their_values_and_no_number_comes_last() {
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
