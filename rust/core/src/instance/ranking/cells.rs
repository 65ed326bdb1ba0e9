//! Queued requests by class and groups, and these cells in an order.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::super::observers::{Groups, Member};
use super::super::request::Slot;
use super::RankKey;
use crate::collections::{Id, IndexedHeap};

/// A rank, and before it whether the request may not be admitted.
pub(super) type GatedRank = (bool, RankKey);

/// The queued requests of one class and one group in each accumulator.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Cell {
    class: u32,
    groups: Groups,
    /// The requests by rank, without the keys that they share.
    members: BTreeSet<(RankKey, Slot)>,
}

/// All queued requests.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Cells {
    all: Vec<Cell>,
    by_kind: BTreeMap<(u32, Groups), Id>,
    /// The cells of a group of an accumulator.
    of_group: BTreeMap<Member, Vec<Id>>,
    /// By slot: its cell and its rank there.
    placed: Vec<Option<(Id, RankKey)>>,
    /// The cells that have requests, by the rank of the best.
    order: IndexedHeap<GatedRank>,
}

impl Cell {
    /// The class of its requests.
    pub(super) fn class(&self) -> u32 {
        self.class
    }

    /// The groups of its requests.
    pub(super) fn groups(&self) -> Groups {
        self.groups
    }

    /// The rank of its best request, without the keys that they share. It has a request.
    pub(super) fn best(&self) -> RankKey {
        self.members.first().map_or_else(RankKey::default, |(rank, _)| *rank)
    }
}

impl Cells {
    /// Puts a request where its rank belongs. `rank_of`: the rank of a cell.
    pub(super) fn place(
        &mut self,
        slot: Slot,
        kind: (u32, Groups),
        rank: RankKey,
        rank_of: &impl Fn(&Cell) -> GatedRank,
    ) {
        self.remove(slot, rank_of);
        let id = self.cell(kind);
        self.all[id as usize].members.insert((rank, slot));
        let at = slot as usize;
        if at >= self.placed.len() {
            self.placed.resize(at + 1, None);
        }
        self.placed[at] = Some((id, rank));
        self.put_in_order(id, rank_of);
    }

    /// Removes a request, if it is in a cell.
    pub(super) fn remove(&mut self, slot: Slot, rank_of: &impl Fn(&Cell) -> GatedRank) {
        if let Some((id, rank)) = self.placed.get_mut(slot as usize).and_then(Option::take) {
            self.all[id as usize].members.remove(&(rank, slot));
            self.put_in_order(id, rank_of);
        }
    }

    /// Orders the cells of a group anew.
    pub(super) fn order_group(&mut self, group: Member, rank_of: &impl Fn(&Cell) -> GatedRank) {
        let Self { all: cells, of_group, order, .. } = self;
        for &id in of_group.get(&group).into_iter().flatten() {
            let cell = &cells[id as usize];
            if !cell.members.is_empty() {
                order.set(id, rank_of(cell));
            }
        }
    }

    /// The best cell and its rank.
    pub(super) fn first(&self) -> Option<(GatedRank, Id)> {
        self.order.first()
    }

    /// The best request of a cell.
    pub(super) fn head(&self, id: Id) -> Option<Slot> {
        self.all[id as usize].members.first().map(|(_, slot)| *slot)
    }

    /// The cells that have requests.
    pub(super) fn occupied(&self) -> impl Iterator<Item = (Id, &Cell)> {
        (0..).zip(&self.all).filter(|(_, cell)| !cell.members.is_empty())
    }

    /// The cell of a class and groups.
    fn cell(&mut self, kind: (u32, Groups)) -> Id {
        let Self { all: cells, by_kind, of_group, .. } = self;
        *by_kind.entry(kind).or_insert_with(|| {
            let id = cells.len() as Id;
            let (class, groups) = kind;
            cells.push(Cell { class, groups, members: BTreeSet::new() });
            for (accumulator, group) in (0..).zip(groups) {
                of_group.entry((accumulator, group)).or_default().push(id);
            }
            id
        })
    }

    fn put_in_order(&mut self, id: Id, rank_of: &impl Fn(&Cell) -> GatedRank) {
        let cell = &self.all[id as usize];
        let rank = (!cell.members.is_empty()).then(|| rank_of(cell));
        self.order.set_or_remove(id, rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::RequestNumber;

    fn rank(number: u32) -> RankKey {
        RankKey::new(0, [0; crate::config::MOST_KEYS], RequestNumber(number))
    }

    #[test]
    fn cells_are_in_the_order_of_their_best_requests_and_of_what_they_share() {
        let mut cells = Cells::default();
        // The number of a cell is that of its group, and cells with group 9 are closed.
        let rank_of = |cell: &Cell| (cell.groups()[0] == 9, cell.best());
        for (slot, group) in [(4, 9), (5, 1), (6, 1), (7, 2)] {
            cells.place(slot, (0, [group, 0, 0, 0]), rank(slot), &rank_of);
        }
        let (best, id) = cells.first().expect("requests are queued");
        assert_eq!((best, cells.head(id)), ((false, rank(5)), Some(5)));
        cells.remove(5, &rank_of);
        cells.remove(6, &rank_of);
        assert_eq!(cells.first().and_then(|(_, id)| cells.head(id)), Some(7));
        cells.remove(7, &rank_of);
        assert_eq!(cells.first().map(|(best, _)| best), Some((true, rank(4))));
        assert_eq!(cells.occupied().count(), 1);
        // A request that changes its class has its place in another cell.
        cells.place(4, (1, [9, 0, 0, 0]), rank(4), &|_| (false, rank(4)));
        assert_eq!(cells.occupied().map(|(_, cell)| cell.class()).collect::<Vec<_>>(), [1]);
        cells.order_group((0, 9), &|_| (true, rank(4)));
        assert_eq!(cells.first().map(|((closed, _), _)| closed), Some(true));
    }
}
