//! Conditions on a request, in a form that is quick to evaluate.

use super::evaluate::{Scope, compare, holds};
use super::expr::{Expr, Op};
use super::fields::{Field, ReqField};
use super::linear::Linear;
use super::number::Number;
use super::validity::Validity;

/// A condition, in most cases some comparisons of fields with numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Condition {
    /// It holds if all of these hold; if there are none, it always holds.
    All(Vec<Comparison>),
    /// Any other expression.
    Other(Expr),
}

/// The comparison of a request field with a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Comparison {
    /// The field.
    field: ReqField,
    /// The comparison.
    op: Op,
    /// The number.
    with: f64,
}

impl Condition {
    /// The condition of an expression; without an expression it always holds.
    pub(crate) fn new(expr: Option<&Expr>) -> Self {
        let mut all = Vec::new();
        match expr {
            Some(expr) if !split(expr, &mut all) => Self::Other(expr.clone()),
            _ => Self::All(all),
        }
    }

    /// Whether it holds; `validity` is lowered to how long the answer holds.
    pub(crate) fn holds<S: Scope>(&self, scope: &mut S, validity: &mut Validity) -> bool {
        match self {
            Self::All(all) => all.iter().all(|one| {
                let field = scope.request(one.field, validity);
                compare(one.op, field, Linear::fixed(one.with), validity)
            }),
            Self::Other(expr) => holds(expr, scope, validity),
        }
    }
}

/// Splits an expression into comparisons that all must hold. Returns whether it consists of nothing else.
fn split(expr: &Expr, all: &mut Vec<Comparison>) -> bool {
    match expr {
        Expr::Op(Op::And, arguments) => arguments.iter().all(|argument| split(argument, all)),
        Expr::Op(op @ (Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne), arguments) => {
            let [Expr::Field(Field::Req(field)), Expr::Const(with)] = arguments.as_slice() else {
                return false;
            };
            all.push(Comparison { field: *field, op: *op, with: *with });
            true
        }
        _ => false,
    }
}
