//! Conditions on a request, in the form in which they are quickly looked at.

use super::eval::{Linear, Number, Scope, Validity, compare, holds};
use super::expr::{Expr, Op};
use super::fields::{Field, ReqField};

/// A condition: mostly that some fields compare so with numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Condition {
    /// All of these hold; without any, it always does.
    All(Vec<Comparison>),
    /// Anything else.
    Other(Expr),
}

/// A field of a request, and how it compares with a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Comparison {
    field: ReqField,
    op: Op,
    with: f64,
}

impl Condition {
    /// What an expression says, or nothing, which always holds.
    pub(crate) fn new(expr: Option<&Expr>) -> Self {
        let mut all = Vec::new();
        match expr {
            Some(expr) if !split(expr, &mut all) => Self::Other(expr.clone()),
            _ => Self::All(all),
        }
    }

    /// Whether it holds, and for how long.
    #[inline]
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

/// Takes an expression apart into comparisons, if it is some of them joined.
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
