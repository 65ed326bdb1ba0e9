//! What a policy is made of, as data: expressions over what a scheduler could
//! see, and rules that choose by them.
//!
//! Nothing here knows of an instance: whoever evaluates an expression lends it
//! a [`Scope`], which says what each field is at that moment.

mod condition;
mod eval;
mod expr;
mod fields;
mod rule;

pub(crate) use condition::Condition;
pub(crate) use eval::{Linear, Number, Scope, Validity, holds_now, sort_key, sort_key_now, sort_key_of};
pub use expr::{Aggregate, Expr, Op};
pub use fields::{Field, InstField, ReqField, Who};
pub use rule::{Action, Choice, Live, Monitor, Pick, Routing, Rule};
