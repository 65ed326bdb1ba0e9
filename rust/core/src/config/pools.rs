//! Pools of instances that have been told to change their pool.

use super::limits::MOST_ROLE;
use serde::Deserialize;

use super::{Admission, Config};
use crate::error::Error;
use crate::policy::{Action, Expr, Field, InstField, InstanceRef, Rule};
use crate::time::Ticks;

/// A pool of instances on the way from one pool to another.
///
/// It has a condition or a delay: an instance of it joins the other pool once the condition holds, or after the delay.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leaving {
    /// The role of its instances.
    pub role: u32,
    /// The pool that they leave.
    pub from: u32,
    /// The pool that they join.
    pub to: u32,
    /// The condition: it reads fields of the instance that change only where `InstField::changes_at_events` says.
    #[serde(default)]
    pub done: Option<Expr>,
    /// The delay.
    #[serde(default)]
    pub delay: Option<Ticks>,
}

impl Config {
    /// Checks the pools of leaving instances, and the pools that flips name.
    pub(super) fn check_pools(&self) -> Result<(), Error> {
        for (i, leaving) in self.leaving.iter().enumerate() {
            let refuse = |field: &str, rule: &str| Err(Error::config(format!("leaving[{i}]{field}"), rule));
            if leaving.done.is_some() == leaving.delay.is_some() {
                return refuse("", "must have one of done and delay");
            }
            if leaving.done.as_ref().is_some_and(|done| !is_of_events(done)) {
                return refuse(".done", "must read only fields of the instance that change at events");
            }
            if self.leaving[..i].iter().any(|other| other.role == leaving.role) {
                return refuse(".role", "must differ from those of the other pools");
            }
            if leaving.from == leaving.to || self.is_leaving(leaving.from) || self.is_leaving(leaving.to) {
                return refuse("", "must lead from one pool to another, neither of which is left itself");
            }
        }
        for (i, instance) in self.instances.iter().enumerate() {
            if let Admission::Displace { when: Some(when), .. } = &instance.scheduler.admission
                && when.looks_at(&|field| field == InstField::Role)
            {
                let field = format!("instances[{i}].scheduler.admission.when");
                return Err(Error::config(field, "must not read inst.role, which only routing knows"));
            }
        }
        let mut wrong = false;
        self.routing.each_rule(&mut |rule| {
            wrong |= matches!(rule, Rule::Flip(flip) if self.is_leaving(flip.to));
        });
        if wrong {
            return Err(Error::config("routing.flip.to", "must not be a pool of leaving instances"));
        }
        let mut largest = 0;
        self.routing.each_rule(&mut |rule| {
            if let Rule::Flip(flip) = rule {
                largest = largest.max(flip.to);
            }
        });
        if largest > MOST_ROLE {
            let rule = format!("must be 0 to {MOST_ROLE}, was {largest}");
            return Err(Error::config("routing.flip.to", rule));
        }
        let mut actions = self.routing.every.iter().flat_map(|monitor| &monitor.actions);
        if actions.any(|action| matches!(action, Action::Flip { rule } if !rule.flips())) {
            return Err(Error::config("routing.every.actions.rule", "must be a flip"));
        }
        Ok(())
    }

    /// Whether a role is that of leaving instances.
    fn is_leaving(&self, role: u32) -> bool {
        self.leaving.iter().any(|leaving| leaving.role == role)
    }
}

/// Whether an expression reads only fields of the instance under consideration, and only those that change at events.
fn is_of_events(expr: &Expr) -> bool {
    match expr {
        Expr::Const(_) => true,
        Expr::Field(Field::Inst(InstanceRef::Candidate, field, _)) => field.changes_at_events(),
        Expr::Field(_) | Expr::Over(..) => false,
        Expr::Op(_, arguments) => arguments.iter().all(is_of_events),
    }
}

impl InstField {
    /// Whether it is constant but for arrivals, migrations, and the moments at which a step starts or a run ends: so that
    /// it is known when it changes.
    fn changes_at_events(self) -> bool {
        matches!(
            self,
            Self::Running
                | Self::Waiting
                | Self::Swapped
                | Self::Requests
                | Self::PrefillingRequests
                | Self::DecodingRequests
                | Self::TotalBlocks
                | Self::BlockTokens
                | Self::Index
        )
    }
}
