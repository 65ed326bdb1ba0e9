//! The state of each request in a tier, while it is on the instance and until its last copy has ended.

use super::Begun;
use crate::instance::request::Slot;
use crate::kv::{Access, Block, ContentOwner};
use crate::trace::RequestNumber;

/// The state of one request in a tier.
#[derive(Debug)]
pub(super) struct Used {
    pub(super) request: RequestNumber,
    pub(super) owner: ContentOwner,
    pub(super) access: Access,
    /// The places of its chunks that were read from a store below the tier for it.
    pub(super) fetched: Vec<u32>,
    /// The first chunk that it has not offered to store.
    pub(super) next_chunk: u32,
    /// The load that its admission began with, until it is admitted.
    pub(super) begun: Option<Begun>,
    /// Its copies that have not been reported.
    pub(super) jobs: Vec<u32>,
    /// Whether a step has seen that its load has ended.
    pub(super) promoted: bool,
    /// Whether its latest store found no room, or it has not offered chunks that another instance has sent.
    behind: bool,
    /// Of a request that has left: its chunks that may be stored, and its blocks.
    pub(super) rest: u32,
    pub(super) blocks: Vec<Block>,
    /// The slot that it keeps once it was cancelled, until its load has ended.
    pub(super) awaited: Option<Slot>,
    /// Whether it has finished, and the order of eviction knows.
    finished: bool,
}

const NONE: u32 = u32::MAX;

/// The requests of a tier.
#[derive(Debug, Default)]
pub(super) struct Uses {
    /// By number; those that are vacant are reused.
    all: Vec<Option<Used>>,
    vacant: Vec<u32>,
    by_slot: Vec<u32>,
    /// Those that are behind.
    behind: u64,
}

impl Uses {
    /// The number of the request in a slot.
    pub(super) fn id(&self, slot: Slot) -> Option<u32> {
        self.by_slot.get(slot as usize).copied().filter(|&id| id != NONE)
    }

    /// The request in a slot.
    pub(super) fn of(&self, slot: Slot) -> Option<&Used> {
        self.id(slot).map(|id| self.get(id))
    }

    /// A request.
    pub(super) fn get(&self, id: u32) -> &Used {
        self.all[id as usize].as_ref().expect("Invariant: a request is kept until its last copy has ended")
    }

    /// A request, to change.
    pub(super) fn get_mut(&mut self, id: u32) -> &mut Used {
        self.all[id as usize].as_mut().expect("Invariant: a request is kept until its last copy has ended")
    }

    /// The uses of chunks by a request, and the places of those that are read for it from a store below the tier.
    pub(super) fn fetching(&mut self, id: u32) -> (&mut Access, &mut Vec<u32>) {
        let used = self.get_mut(id);
        (&mut used.access, &mut used.fetched)
    }

    /// The number of the request in a slot, which may be new.
    pub(super) fn enter(&mut self, slot: Slot, request: RequestNumber, owner: ContentOwner) -> u32 {
        if let Some(id) = self.id(slot) {
            return id;
        }
        let used = Used {
            request,
            owner,
            access: Access::default(),
            fetched: Vec::new(),
            next_chunk: 0,
            begun: None,
            jobs: Vec::new(),
            promoted: false,
            behind: false,
            rest: 0,
            blocks: Vec::new(),
            awaited: None,
            finished: false,
        };
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() as u32 - 1
        });
        self.all[id as usize] = Some(used);
        if self.by_slot.len() <= slot as usize {
            self.by_slot.resize(slot as usize + 1, NONE);
        }
        self.by_slot[slot as usize] = id;
        id
    }

    /// Whether the latest store of a request found no room.
    pub(super) fn is_behind(&self) -> bool {
        self.behind > 0
    }

    /// Notes whether the latest store of a request found no room.
    pub(super) fn note_behind(&mut self, id: u32, behind: bool) {
        self.behind += u64::from(behind);
        let before = std::mem::replace(&mut self.get_mut(id).behind, behind);
        self.behind -= u64::from(before);
    }

    /// The request in a slot has left it.
    pub(super) fn leave(&mut self, slot: Slot) -> Option<u32> {
        let id = self.id(slot)?;
        self.by_slot[slot as usize] = NONE;
        Some(id)
    }

    /// The order of eviction knows that a request has finished.
    pub(super) fn finish(&mut self, id: u32) {
        self.get_mut(id).finished = true;
        self.forget_if_done(id);
    }

    /// A copy of a request has been reported. Returns the slot that the request has kept for a load, if it has.
    pub(super) fn end_job(&mut self, id: u32, job: u32) -> Option<Slot> {
        let used = self.get_mut(id);
        used.jobs.retain(|&other| other != job);
        let kept = used.awaited;
        self.forget_if_done(id);
        kept
    }

    fn forget_if_done(&mut self, id: u32) {
        let used = self.get(id);
        if used.finished && used.jobs.is_empty() {
            self.all[id as usize] = None;
            self.vacant.push(id);
        }
    }

    /// The numbers of those of the requests in these slots that wait for loads, as far as steps have seen.
    pub(super) fn requests(&self, slots: &[Slot]) -> Vec<u32> {
        let used = slots.iter().filter_map(|&slot| self.of(slot));
        used.filter(|used| !used.promoted).map(|used| used.request.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceRow;

    #[test]
    fn a_request_is_kept_until_its_last_copy_has_ended() {
        let mut uses = Uses::default();
        let owner = ContentOwner::of_prompt(TraceRow(5), 9);
        let id = uses.enter(3, RequestNumber(5), owner);
        assert_eq!((uses.enter(3, RequestNumber(5), owner), uses.id(2), uses.id(7)), (id, None, None));
        uses.get_mut(id).jobs.push(8);
        assert_eq!(uses.requests(&[3]), [5]);
        assert_eq!((uses.leave(3), uses.id(3)), (Some(id), None));
        uses.finish(id);
        assert_eq!(uses.get(id).request, RequestNumber(5), "its copy is under way");
        uses.end_job(id, 8);
        assert_eq!((uses.enter(0, RequestNumber(6), owner), uses.get(id).request.0), (id, 6));
    }
}
