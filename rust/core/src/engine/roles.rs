//! The roles of instances: the pool that each is in, and how it changes its pool.
//!
//! A role is the number of a pool. An instance that is told to change its pool (a flip) joins the other pool at once,
//! unless there is a pool for instances on their way there: it is in that one until a condition on the instance holds or a
//! delay has ended. A role is only read by rules; the requests on the instance stay.
//!
//! A flip leaves as many instances in a pool, or on their way there, as it has to keep; so a pool of which each flip keeps
//! one never loses its last.

use serde::{Deserialize, Serialize};

use crate::collections::{Id, IndexedHeap};
use crate::config::Leaving;
use crate::policy::{Expr, Moment};
use crate::time::Ticks;

/// The pool of each instance, and the changes of pools under way.
#[derive(Debug)]
pub(super) struct Roles {
    /// The role of each instance.
    present: Vec<u32>,
    /// By role: the instances that have it, in order.
    members: Vec<Vec<usize>>,
    /// By pool: the instances in it or on their way there.
    bound: Vec<u64>,
    /// The pools of instances on their way from one pool to another.
    leaving: Vec<Leaving>,
    /// Instances that wait for a condition.
    waiting: usize,
    /// When the delay of each instance ends.
    due: IndexedHeap<Ticks>,
    /// All changes, in order.
    history: Vec<FlipRecord>,
}

crate::checkpoint::checkpointed!(Roles {
    values: present, members, bound, waiting, due, history;
    fixed: leaving;
});

/// Why a role changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// A rule was asked, about this request unless a monitor asked it.
    Rule(Moment, Option<u32>),
    /// The condition of its pool holds.
    Done,
    /// The delay of its pool has ended.
    Delay,
    /// A caller that drives the replay from outside.
    Outside,
}

impl Cause {
    /// Its name in a result.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rule(Moment::Arrival, _) => "on_arrival",
            Self::Rule(Moment::Prefilled, _) => "on_prefilled",
            Self::Rule(Moment::Answering, _) => "on_answering",
            Self::Rule(Moment::Monitor, _) => "every",
            Self::Done => "condition",
            Self::Delay => "delay",
            Self::Outside => "set_pool",
        }
    }

    /// The row of the request about which a rule was asked.
    pub fn request(self) -> Option<u32> {
        match self {
            Self::Rule(_, request) => request,
            Self::Done | Self::Delay | Self::Outside => None,
        }
    }
}

/// A change of an instance's role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlipRecord {
    /// When it changed.
    pub time: Ticks,
    /// The instance.
    pub instance: u32,
    /// The role before.
    pub from: u32,
    /// The role after.
    pub to: u32,
    /// Why it changed.
    pub cause: Cause,
}

/// An order of a rule that an instance change its pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flipping {
    /// The pool to join.
    pub(super) to: u32,
    /// How many instances stay, in the pool that it leaves or on their way there.
    pub(super) keep: u64,
    /// Why.
    pub(super) cause: Cause,
}

impl Roles {
    /// The roles of instances at the start, and the pools of those that change theirs.
    pub(super) fn new(present: Vec<u32>, leaving: Vec<Leaving>) -> Self {
        let mut roles = Self {
            due: IndexedHeap::default(),
            members: Vec::new(),
            bound: Vec::new(),
            leaving,
            waiting: 0,
            history: Vec::new(),
            present,
        };
        for index in 0..roles.present.len() {
            roles.count(roles.destination(index), 1);
            roles.join(index, roles.present[index]);
        }
        roles
    }

    /// The role of an instance.
    pub(super) fn of(&self, index: usize) -> u32 {
        self.present[index]
    }

    /// Whether an instance is in one of these pools.
    pub(super) fn is_in(&self, index: usize, pools: &[u32]) -> bool {
        pools.contains(&self.present[index])
    }

    /// Lists the instances in these pools, in order.
    pub(super) fn list(&self, pools: &[u32], into: &mut Vec<usize>) {
        for &pool in pools {
            into.extend_from_slice(self.members.get(pool as usize).map_or(&[], Vec::as_slice));
        }
        if pools.len() > 1 {
            into.sort_unstable();
            into.dedup();
        }
    }

    /// The pool that an instance is in, or is on its way to.
    pub(super) fn destination(&self, index: usize) -> u32 {
        self.left(index).map_or(self.present[index], |leaving| leaving.to)
    }

    /// How many instances are in a pool or on their way there.
    pub(super) fn bound_for(&self, pool: u32) -> u64 {
        self.bound.get(pool as usize).copied().unwrap_or(0)
    }

    /// Whether `keep` instances stay in the pool of an instance, or on their way there, if the instance leaves it.
    pub(super) fn can_spare(&self, index: usize, keep: u64) -> bool {
        self.bound[self.destination(index) as usize] > keep
    }

    /// The role that an instance takes on the way to a pool: the pool itself, unless the instance has to be elsewhere first.
    /// `holds_up`: whether the instance does not meet the condition of such a pool. An instance that is on its way already
    /// may have work of both the pool that it left and the one that it was to join, so both are considered, in this order.
    pub(super) fn way(&self, index: usize, to: u32, mut holds_up: impl FnMut(&Expr) -> bool) -> u32 {
        let (first, second) =
            self.left(index).map_or((self.present[index], to), |leaving| (leaving.from, leaving.to));
        for from in [first, second] {
            let mut ways = self.leaving.iter().filter(|way| (way.from, way.to) == (from, to));
            let held = ways.find(|way| match &way.done {
                Some(done) => holds_up(done),
                None => way.delay != Some(0),
            });
            if let Some(way) = held {
                return way.role;
            }
        }
        to
    }

    /// The condition that an instance waits for, if it does.
    pub(super) fn condition(&self, index: usize) -> Option<&Expr> {
        self.left(index).and_then(|leaving| leaving.done.as_ref())
    }

    /// Whether an instance waits for a condition.
    pub(super) fn any_waits(&self) -> bool {
        self.waiting > 0
    }

    /// When the next delay ends; `Ticks::MAX` if there is none.
    pub(super) fn next_due(&self) -> Ticks {
        self.due.next()
    }

    /// Ends a delay that ends by `now`: its instance joins its pool. Returns the instance; `None` if no delay ends by then.
    pub(super) fn end_delay(&mut self, now: Ticks) -> Option<usize> {
        let (_, index) = self.due.first().filter(|(due, _)| *due <= now)?;
        let index = index as usize;
        self.change(index, self.destination(index), Cause::Delay, now);
        Some(index)
    }

    /// Changes the role of an instance.
    pub(super) fn change(&mut self, index: usize, role: u32, cause: Cause, now: Ticks) {
        let from = self.present[index];
        self.waiting -= usize::from(self.condition(index).is_some());
        self.count(self.destination(index), -1);
        self.present[index] = role;
        self.members[from as usize].retain(|&member| member != index);
        self.join(index, role);
        self.count(self.destination(index), 1);
        self.waiting += usize::from(self.condition(index).is_some());
        let delay = self.left(index).and_then(|leaving| leaving.delay);
        self.due.set_or_remove(index as Id, delay.map(|delay| now.saturating_add(delay)));
        self.history.push(FlipRecord { time: now, instance: index as u32, from, to: role, cause });
    }

    /// How many changes there were.
    pub(super) fn changes(&self) -> u64 {
        self.history.len() as u64
    }

    /// All changes, in order. `origins`: the row in the trace of each request, by its number, where that is another.
    pub(super) fn into_history(mut self, origins: Option<&[u32]>) -> Vec<FlipRecord> {
        if let Some(origins) = origins {
            for record in &mut self.history {
                if let Cause::Rule(_, Some(request)) = &mut record.cause {
                    *request = origins[*request as usize];
                }
            }
        }
        self.history
    }

    /// The pool of leaving instances that an instance is in, if it is in one.
    fn left(&self, index: usize) -> Option<&Leaving> {
        self.leaving.iter().find(|leaving| leaving.role == self.present[index])
    }

    /// Adds an instance to those of a role.
    fn join(&mut self, index: usize, role: u32) {
        let role = role as usize;
        if self.members.len() <= role {
            self.members.resize(role + 1, Vec::new());
        }
        let at = self.members[role].partition_point(|&member| member < index);
        self.members[role].insert(at, index);
    }

    /// Counts instances that are in a pool or on their way there.
    fn count(&mut self, pool: u32, change: i64) {
        let pool = pool as usize;
        if pool >= self.bound.len() {
            self.bound.resize(pool + 1, 0);
        }
        self.bound[pool] = self.bound[pool].wrapping_add_signed(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::NEVER;

    /// Pools 0 and 1, and 2 for instances on their way from 0 to 1, which wait for a condition, and 3 for the way back.
    fn pools(present: &[u32]) -> Roles {
        let done = |text: &str| Some(serde_json::from_str(text).unwrap());
        let way = |role, from, to, field: &str| Leaving {
            role,
            from,
            to,
            done: done(&format!(r#"{{"field": "inst.{field}"}}"#)),
            delay: None,
        };
        Roles::new(present.to_vec(), vec![way(2, 0, 1, "waiting"), way(3, 1, 0, "running")])
    }

    #[test]
    fn an_instance_counts_in_the_pool_to_which_it_is_on_its_way() {
        let mut roles = pools(&[0, 0, 1]);
        assert!(roles.can_spare(0, 1) && !roles.can_spare(2, 1), "the only instance of its pool stays");
        roles.change(0, 2, Cause::Done, 5);
        assert_eq!((roles.of(0), roles.destination(0)), (2, 1));
        assert!(!roles.can_spare(1, 1), "one of two has left");
        assert!(roles.can_spare(0, 1) && roles.can_spare(2, 1), "each has the other beside it");
        assert!(roles.is_in(0, &[1, 2]) && !roles.is_in(0, &[0, 1]));
    }

    #[test]
    fn an_instance_goes_by_a_pool_of_leaving_instances_only_if_it_has_work() {
        let mut roles = pools(&[0, 0]);
        assert_eq!(roles.way(0, 1, |_| true), 2);
        assert_eq!(roles.way(0, 1, |_| false), 1);
        assert_eq!(roles.way(0, 7, |_| true), 7, "no pool leads there");
        // Flipped back on its way, it leaves pool 1, for which it may have work already.
        roles.change(0, 2, Cause::Done, 5);
        assert_eq!(roles.way(0, 0, |_| true), 3);
        assert_eq!(roles.way(0, 0, |_| false), 0);
    }

    #[test]
    fn instances_wait_for_a_condition_or_for_the_end_of_a_delay() {
        let mut roles = pools(&[0, 1]);
        roles.leaving.push(Leaving { role: 5, from: 4, to: 0, done: None, delay: Some(30) });
        assert!(!roles.any_waits() && roles.next_due() == NEVER);
        roles.change(1, 3, Cause::Done, 5);
        assert!(roles.any_waits() && roles.condition(1).is_some() && roles.condition(0).is_none());
        roles.change(1, 4, Cause::Done, 6);
        assert_eq!((roles.any_waits(), roles.way(1, 0, |_| false)), (false, 5));
        roles.change(1, 5, Cause::Rule(Moment::Arrival, Some(9)), 10);
        assert_eq!((roles.next_due(), roles.end_delay(39)), (40, None));
        assert_eq!((roles.end_delay(40), roles.of(1), roles.next_due()), (Some(1), 0, NEVER));
        // The request that arrived as the tenth is the fourth row of the trace.
        let origins = [0, 1, 2, 4, 5, 6, 7, 8, 9, 3];
        let causes: Vec<_> = roles
            .into_history(Some(&origins))
            .iter()
            .map(|flip| (flip.to, flip.cause.name(), flip.cause.request()))
            .collect();
        let expected =
            [(3, "condition", None), (4, "condition", None), (5, "on_arrival", Some(3)), (0, "delay", None)];
        assert_eq!(causes, expected);
    }
}
