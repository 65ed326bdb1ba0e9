//! Policies as data: expressions over the fields of requests and instances, and rules that choose by them.
//!
//! Nothing here knows the engine. An expression is evaluated in a `Scope`, which gives the value of each field.

mod alike;
mod books;
mod changes;
mod choice;
mod condition;
mod evaluate;
mod expr;
mod fields;
mod gauge;
mod linear;
mod monitor;
mod number;
mod routing;
mod rule;
mod scale;
mod validity;

pub(crate) use alike::{Alike, Kind};
pub use books::{ActiveConfig, BooksConfig, IndexConfig, Learns, PromptText, TrackedOutputs, TreeConfig};
pub(crate) use changes::Changes;
pub use choice::Choice;
pub(crate) use condition::Condition;
pub(crate) use evaluate::{Scope, holds_now, sort_key, sort_key_now, sort_key_of, value, value_now};
pub use expr::{Aggregate, Expr, Op};
pub(crate) use fields::Source;
pub use fields::{BlockField, Field, InstField, InstanceRef, ReqField};
pub use gauge::{Gauge, Take};
pub(crate) use linear::Linear;
pub use monitor::{Action, Live, Monitor};
pub(crate) use number::Number;
pub use routing::Routing;
pub use rule::{AffinityKey, Blocks, Flip, Moment, Pick, Rule, Softmax, Ties};
pub use scale::{Amount, Scale, ScalingLimit, ScalingRules, Select};
pub(crate) use validity::Validity;
