//! Ranks of requests compared, with the keys that they share.

use super::super::observers::{Accumulators, Groups};
use super::super::request::Slot;
use super::{List, RankKey, Ranking};

impl Ranking {
    /// The rank of a request.
    pub(crate) fn rank(&self, slot: Slot) -> RankKey {
        let request = &self.requests[slot as usize];
        match &self.shared {
            Some(shared) => shared.fill(slot, request.class, request.rank),
            None => request.rank,
        }
    }

    /// The worst running request.
    pub(crate) fn worst_running(&mut self) -> Option<Slot> {
        if self.shared.is_some() {
            return self.sets.running.slots().max_by_key(|&slot| self.rank(slot));
        }
        self.sets.running.worst().map(|(_, slot)| slot)
    }

    /// The running requests that rank worse than `rank`, the worst first, without
    /// those admitted while the present step was formed.
    pub(crate) fn worse_than(&mut self, rank: RankKey) -> Vec<Slot> {
        let worse = if self.shared.is_some() {
            let ranked = self.sets.running.slots().map(|slot| (self.rank(slot), slot));
            let mut worse: Vec<_> = ranked.filter(|(other, _)| *other > rank).collect();
            worse.sort_unstable_by(|one, other| other.cmp(one));
            worse
        } else {
            self.sets.running.worse_than(rank)
        };
        worse.into_iter().map(|(_, slot)| slot).filter(|&slot| !self.moved_in_round(slot)).collect()
    }

    /// Whether any key reads an accumulator.
    pub(crate) fn shares_keys(&self) -> bool {
        self.shared.is_some()
    }

    /// Makes the keys current that read the accumulators which have changed.
    pub(crate) fn read_accumulators(&mut self, accumulators: &mut Accumulators) {
        let Some(shared) = &mut self.shared else { return };
        for member in accumulators.take_changed() {
            shared.set_value(member, accumulators.value(member));
        }
    }

    /// Notes the groups of a request that comes to the queue.
    pub(crate) fn open_groups(&mut self, slot: Slot, groups: Groups) {
        if let Some(shared) = &mut self.shared {
            shared.open(slot, groups);
        }
    }

    /// Notes that a request moves to another list, if it leaves the queue by that.
    pub(super) fn note_left_queue(&mut self, slot: Slot, to: List) {
        if let Some(shared) = &mut self.shared
            && self.requests[slot as usize].list == List::Queued
            && to != List::Queued
        {
            shared.note_left(slot);
        }
    }

    /// The groups of which requests are queued, and those of the request that left the queue last.
    pub(crate) fn groups_in_queue(&self) -> (Vec<Groups>, Option<Groups>) {
        self.shared.as_ref().map_or((Vec::new(), None), |shared| (shared.waiting(), shared.last()))
    }

    /// Steps up to the first, at most `most`, before which the charges of decodes put another group first, or close the
    /// first. `growth`: the units of a step, in order.
    pub(crate) fn steps_to_reorder(
        &self,
        most: u64,
        accumulators: &Accumulators,
        growth: &[((u32, u32), i128)],
    ) -> u64 {
        let Some(shared) = &self.shared else { return u64::MAX };
        let units = |member| growth.binary_search_by_key(&member, |(member, _)| *member).ok();
        shared.steps_to_reorder(most, &|member| units(member).is_some(), &|member, steps| {
            let charged = units(member).map_or(0, |at| growth[at].1) * i128::from(steps);
            accumulators.value_with(member, charged)
        })
    }
}
