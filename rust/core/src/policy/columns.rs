//! Values of an expression for all instances at once.
//!
//! An operation runs over a column of all instances' values, and an aggregate is computed once. The values are the same,
//! bit for bit, as those of the expression for each instance by itself.

use super::evaluate::{combine, ilog2, truth_of};
use super::expr::{Aggregate, Expr, Op};
use super::fields::{Field, InstField, InstanceRef, ReqField};
use super::validity::Validity;

/// Gives an expression the values of its fields, for all instances at once.
pub(crate) trait Columns {
    /// The number of instances.
    fn instances(&self) -> usize;
    /// A field of the request, which is the same for all instances.
    fn of_request(&mut self, field: ReqField) -> f64;
    /// Writes a field of all instances to `column`, which is empty.
    fn of_instances(&mut self, field: InstField, column: &mut Vec<f64>);
}

/// Whether an expression can be evaluated for all instances at once: it reads only fields for which `test` holds, of the
/// candidate, and no field of the request that depends on the candidate.
pub(crate) fn is_columnar(expr: &Expr, test: &dyn Fn(InstField) -> bool) -> bool {
    match expr {
        Expr::Const(_) => true,
        Expr::Field(Field::Req(field)) => *field != ReqField::PrefillS,
        Expr::Field(Field::Inst(which, field, _)) => *which == InstanceRef::Candidate && test(*field),
        Expr::Op(_, arguments) => arguments.iter().all(|argument| is_columnar(argument, test)),
        Expr::Over(_, of, within) => within.is_none() && is_columnar(of, test),
    }
}

/// The values of an expression.
#[derive(Debug)]
enum Column {
    /// The same for all instances.
    Same(f64),
    /// By instance.
    Each(Vec<f64>),
}

impl Column {
    /// The column of a function of each value.
    fn map(self, f: impl Fn(f64) -> f64) -> Self {
        match self {
            Self::Same(value) => Self::Same(f(value)),
            Self::Each(mut values) => {
                for value in &mut values {
                    *value = f(*value);
                }
                Self::Each(values)
            }
        }
    }

    /// The column of a function of each value and the other column's.
    fn zip(self, other: &Self, f: impl Fn(f64, f64) -> f64) -> Self {
        match (self, other) {
            (Self::Same(a), Self::Same(b)) => Self::Same(f(a, *b)),
            (Self::Same(a), Self::Each(b)) => Self::Each(b.iter().map(|&b| f(a, b)).collect()),
            (first, &Self::Same(b)) => first.map(|a| f(a, b)),
            (Self::Each(mut a), Self::Each(b)) => {
                for (a, &b) in a.iter_mut().zip(b) {
                    *a = f(*a, b);
                }
                Self::Each(a)
            }
        }
    }

    /// The value of an instance.
    fn at(&self, index: usize) -> f64 {
        match self {
            Self::Same(value) => *value,
            Self::Each(values) => values[index],
        }
    }
}

/// The values of an expression by instance. The expression is columnar.
pub(crate) fn column_now<C: Columns>(expr: &Expr, of: &mut C) -> Vec<f64> {
    match evaluate(expr, of) {
        Column::Same(value) => vec![value; of.instances()],
        Column::Each(values) => values,
    }
}

fn evaluate<C: Columns>(expr: &Expr, of: &mut C) -> Column {
    match expr {
        Expr::Const(value) => Column::Same(*value),
        Expr::Field(Field::Req(field)) => Column::Same(of.of_request(*field)),
        Expr::Field(Field::Inst(_, field, _)) => {
            let mut values = Vec::with_capacity(of.instances());
            of.of_instances(*field, &mut values);
            Column::Each(values)
        }
        Expr::Op(op, arguments) => operate(*op, arguments, of),
        Expr::Over(aggregate, inner, _) => {
            let values = evaluate(inner, of);
            Column::Same(over(*aggregate, (0..of.instances()).map(|index| values.at(index))))
        }
    }
}

fn operate<C: Columns>(op: Op, arguments: &[Expr], of: &mut C) -> Column {
    let first = evaluate(&arguments[0], of);
    let value_of = |holds: bool| if holds { 1.0 } else { 0.0 };
    match op {
        Op::Neg => return first.map(|value| 0.0 - value),
        Op::Abs => return first.map(f64::abs),
        Op::Not => return first.map(|value| value_of(value == 0.0)),
        Op::Ilog2 => return first.map(|value| ilog2(value, &mut Validity::EVER.clone())),
        Op::If => {
            let (then, other) = (evaluate(&arguments[1], of), evaluate(&arguments[2], of));
            let chosen = |i: usize| if first.at(i) == 0.0 { other.at(i) } else { then.at(i) };
            return match &first {
                Column::Same(value) => {
                    if *value == 0.0 {
                        other
                    } else {
                        then
                    }
                }
                Column::Each(values) => Column::Each((0..values.len()).map(chosen).collect()),
            };
        }
        Op::And | Op::Or => {
            let mut result = first.map(|value| value_of(value != 0.0));
            for argument in &arguments[1..] {
                let second = evaluate(argument, of);
                result = if op == Op::And {
                    result.zip(&second, |a, b| value_of(a != 0.0 && b != 0.0))
                } else {
                    result.zip(&second, |a, b| value_of(a != 0.0 || b != 0.0))
                };
            }
            return result;
        }
        Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne => {
            let second = evaluate(&arguments[1], of);
            return first.zip(&second, |a, b| value_of(truth_of(op, a, b)));
        }
        _ => {}
    }
    let mut result = first;
    for argument in &arguments[1..] {
        let second = evaluate(argument, of);
        // The operation is matched outside of the loop over instances.
        result = match op {
            Op::Add => result.zip(&second, |a, b| a + b),
            Op::Sub => result.zip(&second, |a, b| a - b),
            Op::Mul => result.zip(&second, |a, b| a * b),
            Op::Div => result.zip(&second, |a, b| a / b),
            _ => result.zip(&second, |a, b| combine(op, a, b, &mut Validity::EVER.clone())),
        };
    }
    result
}

/// The value of an aggregate.
fn over(aggregate: Aggregate, values: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut holding, mut sum) = (0_u32, 0_u32, 0.0);
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
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
    use crate::policy::{Linear, Number, Scope, value_now};
    use proptest::prelude::*;

    /// Instances that are their two fields.
    #[derive(Debug)]
    struct Two(Vec<(f64, f64)>, usize);

    impl Two {
        fn get(&self, index: usize, field: InstField) -> f64 {
            let (a, b) = self.0[index];
            if field == InstField::Requests { a } else { b }
        }
    }

    impl Columns for Two {
        fn instances(&self) -> usize {
            self.0.len()
        }
        fn of_request(&mut self, _: ReqField) -> f64 {
            5.0
        }
        fn of_instances(&mut self, field: InstField, column: &mut Vec<f64>) {
            column.extend((0..self.0.len()).map(|index| self.get(index, field)));
        }
    }

    impl Scope for Two {
        fn request(&mut self, _: ReqField, _: &mut Validity) -> Linear {
            Linear::fixed(5.0)
        }
        fn instance(&mut self, _: InstanceRef, field: InstField, _: u32) -> f64 {
            self.get(self.1, field)
        }
        fn instances(&self) -> usize {
            self.0.len()
        }
        fn has_role(&self, _: usize, _: &[u32]) -> bool {
            true
        }
        fn consider(&mut self, index: usize) -> usize {
            std::mem::replace(&mut self.1, index)
        }
    }

    fn leaf() -> impl Strategy<Value = Expr> {
        let candidate = |field| Expr::Field(Field::Inst(InstanceRef::Candidate, field, 0));
        prop_oneof![
            prop::sample::select(vec![-1.5, 0.0, -0.0, 2.0, 7.0]).prop_map(Expr::Const),
            Just(candidate(InstField::Requests)),
            Just(candidate(InstField::Waiting)),
            Just(Expr::Field(Field::Req(ReqField::PromptTokens))),
        ]
    }

    fn expr() -> impl Strategy<Value = Expr> {
        use Op::{
            Abs, Add, And, Div, Eq, Floordiv, Ge, Gt, If, Ilog2, Le, Lt, Max, Min, Mul, Ne, Neg, Not, Or, Sub,
        };
        leaf().prop_recursive(4, 24, 3, |inner| {
            let one = prop::sample::select(vec![Neg, Abs, Not, Ilog2]);
            let two = prop::sample::select(vec![Sub, Div, Floordiv, Lt, Le, Gt, Ge, Eq, Ne]);
            let many = prop::sample::select(vec![Add, Mul, Min, Max, And, Or]);
            let aggregate = prop::sample::select(vec![
                Aggregate::Mean,
                Aggregate::Min,
                Aggregate::Max,
                Aggregate::Sum,
                Aggregate::Count,
                Aggregate::Any,
                Aggregate::All,
            ]);
            prop_oneof![
                (one, inner.clone()).prop_map(|(op, a)| Expr::Op(op, vec![a])),
                (two, inner.clone(), inner.clone()).prop_map(|(op, a, b)| Expr::Op(op, vec![a, b])),
                (many, prop::collection::vec(inner.clone(), 1..4)).prop_map(|(op, all)| Expr::Op(op, all)),
                prop::collection::vec(inner.clone(), 3).prop_map(|all| Expr::Op(If, all)),
                (aggregate, inner).prop_map(|(by, of)| Expr::Over(by, Box::new(of), None)),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_column_has_the_value_of_each_instance(
            expr in expr(), values in prop::collection::vec((-3_i8..9, -3_i8..9), 1..6),
        ) {
            prop_assert!(is_columnar(&expr, &|_| true));
            let mut two = Two(values.into_iter().map(|(a, b)| (f64::from(a), f64::from(b))).collect(), 0);
            let column = column_now(&expr, &mut two);
            for (index, value) in column.iter().enumerate() {
                two.consider(index);
                let alone = value_now(&expr, &mut two);
                // Not-a-number is one value in an order, whatever its bits.
                let equal = value.to_bits() == alone.to_bits() || value.is_nan() && alone.is_nan();
                prop_assert!(equal, "{value} and {alone} at {index}");
            }
        }
    }
}
