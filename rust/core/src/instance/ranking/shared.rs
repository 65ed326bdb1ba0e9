//! Keys that requests share: those that read accumulators.
//!
//! Such a key has one value for all requests of a group, and changes with each charge of the group. So queued requests are
//! kept by group ([`Cells`]), and only groups are ordered by these keys. A rank as it is evaluated has 0 in their places,
//! and is filled in where ranks of requests of several groups are compared.

use super::super::observers::{Groups, Member};
use super::super::request::Slot;
use super::RankKey;
use super::cells::{Cell, Cells, GatedRank};
use crate::config::{MOST_ACCUMULATORS, MOST_KEYS, Ranking as RankingRules};
use crate::policy::{
    Expr, InstField, InstanceRef, Linear, Number, ReqField, Scope, Validity, holds_now, sort_key_now,
};

/// The shared keys of a ranking, the values that they read, and the queued requests by group.
#[derive(Debug)]
pub(super) struct Shared {
    /// By class: the keys that are shared, each with its position.
    keys: Vec<Vec<(usize, Expr)>>,
    /// The condition for an admission.
    admits: Option<Expr>,
    /// By accumulator and group: its number.
    values: [Vec<f64>; MOST_ACCUMULATORS],
    /// By slot: the groups of its request.
    groups: Vec<Groups>,
    cells: Cells,
    /// The groups of the request that left the queue last.
    last: Option<Groups>,
}

crate::checkpoint::checkpointed!(Shared {
    values: values, groups, cells, last;
    fixed: keys, admits;
});

impl Shared {
    /// The shared keys of `rules`; `None` if no key reads an accumulator.
    pub(super) fn new(rules: &RankingRules) -> Option<Box<Self>> {
        if !rules.reads_accumulators() {
            return None;
        }
        let keys = |class: &crate::config::Class| {
            let all = class.keys.iter().cloned().enumerate();
            all.filter(|(_, key)| key.reads_accumulators()).collect()
        };
        Some(Box::new(Self {
            keys: rules.classes.iter().map(keys).collect(),
            admits: rules.admits.clone(),
            values: Default::default(),
            groups: Vec::new(),
            cells: Cells::default(),
            last: None,
        }))
    }

    /// Notes the groups of a request that comes to the queue.
    pub(super) fn open(&mut self, slot: Slot, groups: Groups) {
        let at = slot as usize;
        if at >= self.groups.len() {
            self.groups.resize(at + 1, Groups::default());
        }
        self.groups[at] = groups;
    }

    /// Notes the number of a group, and orders the group anew.
    pub(super) fn set_value(&mut self, (accumulator, group): Member, value: f64) {
        let values = &mut self.values[accumulator as usize];
        let at = group as usize;
        if at >= values.len() {
            values.resize(at + 1, 0.0);
        }
        if values[at].to_bits() != value.to_bits() {
            values[at] = value;
            let Self { keys, admits, values, cells, .. } = self;
            let read = |accumulator: usize, group: u32| value_of(values, accumulator, group);
            cells.order_group((accumulator, group), &|cell| gate(keys, admits.as_ref(), cell, &read));
        }
    }

    /// Puts a queued request of a class where its rank belongs.
    pub(super) fn place(&mut self, slot: Slot, class: u32, rank: RankKey) {
        let Self { keys, admits, values, groups, cells, .. } = self;
        let read = |accumulator: usize, group: u32| value_of(values, accumulator, group);
        cells.place(slot, (class, groups[slot as usize]), rank, &|cell| {
            gate(keys, admits.as_ref(), cell, &read)
        });
    }

    /// Removes a queued request.
    pub(super) fn remove(&mut self, slot: Slot) {
        let Self { keys, admits, values, cells, .. } = self;
        let read = |accumulator: usize, group: u32| value_of(values, accumulator, group);
        cells.remove(slot, &|cell| gate(keys, admits.as_ref(), cell, &read));
    }

    /// Notes that a request has left the queue.
    pub(super) fn note_left(&mut self, slot: Slot) {
        self.last = Some(self.groups[slot as usize]);
    }

    /// The groups of the request that left the queue last.
    pub(super) fn last(&self) -> Option<Groups> {
        self.last
    }

    /// The best queued request that may be admitted.
    pub(super) fn first(&self) -> Option<(RankKey, Slot)> {
        let ((closed, rank), cell) = self.cells.first()?;
        let slot = self.cells.head(cell)?;
        (!closed).then_some((rank, slot))
    }

    /// The groups of which requests are queued.
    pub(super) fn waiting(&self) -> Vec<Groups> {
        self.cells.occupied().map(|(_, cell)| cell.groups()).collect()
    }

    /// The rank of a request of a class, with its shared keys.
    pub(super) fn fill(&self, slot: Slot, class: u32, rank: RankKey) -> RankKey {
        let read = |accumulator: usize, group: u32| value_of(&self.values, accumulator, group);
        filled(&self.keys[class as usize], (class, &self.groups[slot as usize]), rank, &read)
    }

    /// Steps up to the first, at most `most`, before which another group is first, or may not be admitted any more.
    /// `value`: the number of a group after some steps; `grows`: whether that changes.
    pub(super) fn steps_to_reorder(
        &self,
        most: u64,
        grows: &impl Fn(Member) -> bool,
        value: &impl Fn(Member, u64) -> f64,
    ) -> u64 {
        let Some((first, at)) = self.cells.first() else { return u64::MAX };
        let moves = |cell: &Cell| {
            (0..).zip(cell.groups()).take(MOST_ACCUMULATORS).any(|(index, group)| grows((index, group)))
        };
        let (moving, fixed): (Vec<_>, Vec<_>) = self.cells.occupied().partition(|(_, cell)| moves(cell));
        if moving.is_empty() {
            return u64::MAX;
        }
        let fixed = fixed.into_iter().map(|(id, cell)| {
            let read = |accumulator: usize, group: u32| value_of(&self.values, accumulator, group);
            (gate(&self.keys, self.admits.as_ref(), cell, &read), id)
        });
        let fixed = fixed.min();
        for steps in 1..most {
            let read = |accumulator: usize, group: u32| value((accumulator as u32, group), steps);
            let moved =
                moving.iter().map(|(id, cell)| (gate(&self.keys, self.admits.as_ref(), cell, &read), *id));
            let best = moved.chain(fixed).min();
            if best.is_none_or(|((closed, _), id)| id != at || closed != first.0) {
                return steps;
            }
        }
        most
    }
}

/// The number of a group, which starts at 0.
fn value_of(values: &[Vec<f64>; MOST_ACCUMULATORS], accumulator: usize, group: u32) -> f64 {
    values[accumulator].get(group as usize).copied().unwrap_or(0.0)
}

/// The rank of the head of a cell, with its shared keys and whether it may not be admitted.
fn gate(
    keys: &[Vec<(usize, Expr)>],
    admits: Option<&Expr>,
    cell: &Cell,
    read: &impl Fn(usize, u32) -> f64,
) -> GatedRank {
    let groups = cell.groups();
    let closed = admits.is_some_and(|admits| !holds_now(admits, &mut OfGroups { groups: &groups, read }));
    (closed, filled(&keys[cell.class() as usize], (cell.class(), &groups), cell.best(), read))
}

/// A rank with its shared keys.
fn filled(
    keys: &[(usize, Expr)],
    (class, groups): (u32, &Groups),
    rank: RankKey,
    read: &impl Fn(usize, u32) -> f64,
) -> RankKey {
    if keys.is_empty() {
        return rank;
    }
    let mut all: [i64; MOST_KEYS] = rank.keys();
    for (at, expr) in keys {
        all[*at] = sort_key_now(expr, &mut OfGroups { groups, read });
    }
    RankKey::new(class, all, rank.request())
}

/// The scope of an expression that reads the numbers of groups only.
struct OfGroups<'a, F> {
    groups: &'a Groups,
    read: &'a F,
}

impl<F: Fn(usize, u32) -> f64> Scope for OfGroups<'_, F> {
    fn request(&mut self, _: ReqField, _: &mut Validity) -> Linear {
        debug_assert!(false, "Invariant: a shared key reads no request");
        Linear::fixed(0.0)
    }

    fn instance(&mut self, _: InstanceRef, _: InstField, _: u32) -> f64 {
        debug_assert!(false, "Invariant: ranks do not look at instances");
        0.0
    }

    fn accumulated(&mut self, index: u32) -> f64 {
        (self.read)(index as usize, self.groups[index as usize])
    }
}
