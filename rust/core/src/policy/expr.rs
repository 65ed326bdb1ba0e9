//! Expressions: small trees of fields, constants and operations.
//!
//! All values are IEEE doubles, and all operations are basic ones, which give the same bits on any machine. Truth values
//! are 1 and 0. Counts of tokens and blocks are exact in a double. Rounding a moment cannot change an order, only make a
//! tie, which is broken by the row in the trace.

use serde::Deserialize;

use super::fields::{Field, InstField, ReqField};

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// `a + b + …`
    Add,
    /// `a - b`
    Sub,
    /// `a * b * …`
    Mul,
    /// `a / b`
    Div,
    /// The largest whole number that is at most `a / b`.
    Floordiv,
    /// The smallest of the arguments.
    Min,
    /// The largest of the arguments.
    Max,
    /// `-a`
    Neg,
    /// `|a|`
    Abs,
    /// The largest whole `n` with `2^n <= a`, but at least 0.
    Ilog2,
    /// `a < b`
    Lt,
    /// `a <= b`
    Le,
    /// `a > b`
    Gt,
    /// `a >= b`
    Ge,
    /// `a == b`
    Eq,
    /// `a != b`
    Ne,
    /// Whether all arguments hold.
    And,
    /// Whether an argument holds.
    Or,
    /// Whether the argument does not hold.
    Not,
    /// The second argument if the first holds, else the third.
    If,
}

impl Op {
    /// Whether its value is a truth value.
    pub(super) fn tells(self) -> bool {
        use Op::{And, Eq, Ge, Gt, Le, Lt, Ne, Not, Or};
        matches!(self, And | Or | Not | Lt | Le | Gt | Ge | Eq | Ne)
    }

    /// Whether it combines its arguments one after another.
    pub(super) fn combines(self) -> bool {
        matches!(self, Self::Add | Self::Sub | Self::Mul | Self::Div | Self::Floordiv | Self::Min | Self::Max)
    }

    /// Whether it compares two numbers.
    pub(crate) fn compares(self) -> bool {
        matches!(self, Self::Lt | Self::Le | Self::Gt | Self::Ge | Self::Eq | Self::Ne)
    }

    /// Whether its value changes in jumps although its arguments drift.
    pub(crate) fn jumps(self) -> bool {
        self.compares() || matches!(self, Self::Floordiv | Self::Ilog2)
    }

    /// Whether it takes this number of arguments.
    fn takes(self, arguments: usize) -> bool {
        match self {
            Self::Add | Self::Mul | Self::Min | Self::Max | Self::And | Self::Or => arguments >= 1,
            Self::Neg | Self::Abs | Self::Ilog2 | Self::Not => arguments == 1,
            Self::If => arguments == 3,
            _ => arguments == 2,
        }
    }
}

/// How the values of all instances are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregate {
    /// Their mean; 0 without instances.
    Mean,
    /// The smallest; 0 without instances.
    Min,
    /// The largest; 0 without instances.
    Max,
    /// Their sum.
    Sum,
    /// The number of instances for which it holds.
    Count,
    /// Whether it holds for an instance.
    Any,
    /// Whether it holds for all instances.
    All,
}

/// An expression.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Wire")]
pub enum Expr {
    /// A number.
    Const(f64),
    /// A field.
    Field(Field),
    /// An operation.
    Op(Op, Vec<Expr>),
    /// An aggregate over the instances of these roles, or over all instances.
    Over(Aggregate, Box<Expr>, Option<Vec<u32>>),
}

impl Expr {
    /// Whether it reads a request field for which `test` holds.
    pub(crate) fn looks_at_request(&self, test: &dyn Fn(ReqField) -> bool) -> bool {
        match self {
            Self::Field(Field::Req(field)) => test(*field),
            // Like the score it is the trace's, and never changes.
            Self::Field(Field::Column(_)) => test(ReqField::Score),
            Self::Const(_) | Self::Field(_) => false,
            Self::Op(_, arguments) => arguments.iter().any(|argument| argument.looks_at_request(test)),
            Self::Over(_, of, _) => of.looks_at_request(test),
        }
    }

    /// Whether its value changes from step to step, or with time. A comparison, a whole division by a constant and a
    /// logarithm do not count: they change at moments that are known ahead, whatever their arguments.
    pub(crate) fn drifts(&self) -> bool {
        match self {
            Self::Field(Field::Req(field)) => field.drifts(),
            Self::Const(_) | Self::Field(_) => false,
            Self::Op(op, arguments) => {
                let divides = *op == Op::Floordiv && matches!(arguments.last(), Some(Self::Const(_)));
                let jumps = divides || *op == Op::Ilog2 || op.compares();
                !jumps && arguments.iter().any(Self::drifts)
            }
            Self::Over(_, of, _) => of.drifts(),
        }
    }

    /// Whether it has an aggregate over instances.
    pub(crate) fn aggregates(&self) -> bool {
        match self {
            Self::Over(..) => true,
            Self::Const(_) | Self::Field(_) => false,
            Self::Op(_, arguments) => arguments.iter().any(Self::aggregates),
        }
    }

    /// Calls `f` with each field that it reads.
    pub(crate) fn visit_fields(&self, f: &mut dyn FnMut(Field)) {
        match self {
            Self::Const(_) => {}
            Self::Field(field) => f(*field),
            Self::Op(_, arguments) => arguments.iter().for_each(|argument| argument.visit_fields(f)),
            Self::Over(_, of, _) => of.visit_fields(f),
        }
    }

    /// Whether it reads an accumulator for whose index `test` holds.
    pub(crate) fn reads_accumulator(&self, test: &dyn Fn(u32) -> bool) -> bool {
        match self {
            Self::Field(Field::Accumulator(index)) => test(*index),
            Self::Const(_) | Self::Field(_) => false,
            Self::Op(_, arguments) => arguments.iter().any(|argument| argument.reads_accumulator(test)),
            Self::Over(_, of, _) => of.reads_accumulator(test),
        }
    }

    /// Whether it reads an accumulator.
    pub(crate) fn reads_accumulators(&self) -> bool {
        self.reads_accumulator(&|_| true)
    }

    /// Calls `f` with each instance field that it reads, and the class.
    pub(crate) fn visit_instance_fields(&self, f: &mut dyn FnMut(InstField, u32)) {
        match self {
            Self::Field(Field::Inst(_, field, class)) => f(*field, *class),
            Self::Const(_) | Self::Field(_) => {}
            Self::Op(_, arguments) => {
                for argument in arguments {
                    argument.visit_instance_fields(f);
                }
            }
            Self::Over(_, of, _) => of.visit_instance_fields(f),
        }
    }

    /// Whether it reads an instance field for which `test` holds.
    pub(crate) fn looks_at(&self, test: &dyn Fn(InstField) -> bool) -> bool {
        match self {
            Self::Field(Field::Inst(_, field, _)) => test(*field),
            Self::Const(_) | Self::Field(_) => false,
            Self::Op(_, arguments) => arguments.iter().any(|argument| argument.looks_at(test)),
            Self::Over(_, of, _) => of.looks_at(test),
        }
    }
}

/// An expression in JSON, which has the members of exactly one kind.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Wire {
    r#const: Option<f64>,
    field: Option<String>,
    class: Option<u32>,
    op: Option<Op>,
    args: Option<Vec<Expr>>,
    over: Option<Aggregate>,
    of: Option<Box<Expr>>,
    within: Option<Vec<u32>>,
}

impl TryFrom<Wire> for Expr {
    type Error = String;

    fn try_from(wire: Wire) -> Result<Self, String> {
        match wire {
            Wire {
                r#const: Some(value),
                field: None,
                class: None,
                op: None,
                args: None,
                over: None,
                of: None,
                within: None,
            } => Ok(Self::Const(value)),
            Wire {
                field: Some(field),
                class,
                r#const: None,
                op: None,
                args: None,
                over: None,
                of: None,
                within: None,
            } => Field::named(&field, class.unwrap_or(0))
                .map(Self::Field)
                .ok_or_else(|| format!("an expression's field must be one that there is, was {field:?}")),
            Wire {
                op: Some(op),
                args: Some(args),
                r#const: None,
                field: None,
                class: None,
                over: None,
                of: None,
                within: None,
            } => {
                if op.takes(args.len()) {
                    Ok(Self::Op(op, args))
                } else {
                    Err(format!("{op:?} does not take {} arguments", args.len()))
                }
            }
            Wire {
                over: Some(over),
                of: Some(of),
                within,
                r#const: None,
                field: None,
                class: None,
                op: None,
                args: None,
            } => Ok(Self::Over(over, of, within)),
            _ => Err("an expression must have const, or field (and class), or op and args, or over and of \
                (and within), and nothing else"
                .into()),
        }
    }
}
