//! State of each request of an instance, in slots that are reused.
//!
//! Reuse keeps the states in use close together in memory however long the
//! trace is.

use serde::{Deserialize, Serialize};

use super::Phase;
use crate::instance::batch::Cycle;
use crate::kv::{BlockTable, ContentOwner, Residency, Tier};
use crate::metrics::RequestTotals;
use crate::time::Ticks;
use crate::trace::{RequestNumber, Trace, TraceRow};

/// Index of a request's state in [`RequestTable`].
pub(crate) type Slot = u32;

/// Position in the order of admission; no two admissions share one.
pub(crate) type AdmissionSeq = u64;

/// State of one request: two lines of a processor's cache.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[repr(align(64))]
pub(crate) struct RequestState {
    pub(crate) request: RequestNumber,
    /// Its entry in the trace.
    pub(crate) entry: TraceEntry,
    /// Prompt tokens.
    pub(crate) prompt: u32,
    /// Output tokens with which it ends: all, or those after which its client cancels it.
    pub(crate) output: u32,
    /// Tokens whose KV exists; stale while the request is in the decode set.
    pub(crate) computed: u32,
    /// Output tokens so far; stale while the request is in the decode set.
    pub(crate) generated: u32,
    /// Preemptions so far.
    pub(crate) preemptions: u32,
    /// Current state.
    pub(crate) phase: Phase,
    /// Whether its reasoning has ended.
    pub(crate) answering: bool,
    /// Where a member of the decode set is in the period of its progress.
    pub(crate) cycle: Cycle,
    /// Position in the order of admission, of the latest admission.
    pub(crate) seq: AdmissionSeq,
    /// Its KV blocks; stale while the request is in the decode set.
    pub(crate) blocks: BlockTable,
    /// The state of a member of the decode set.
    pub(crate) member: Member,
    /// Moments and spans of its life.
    pub(crate) times: Times,
}

const _: () = assert!(size_of::<RequestState>() == 128);

/// The entry of a request in the trace.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct TraceEntry {
    pub(crate) row: TraceRow,
    /// Output tokens, all told.
    pub(crate) output: u32,
}

/// The state of a member of the decode set.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Member {
    /// Computed tokens less those of its progress at the set's step counter.
    pub(crate) offset: i64,
    /// The set's count of gaps when the request joined.
    pub(crate) joined: u64,
}

/// Moments and spans of a request's life on its instance.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Times {
    /// When the request was last preempted; `Ticks::MAX` while it is admitted.
    pub(crate) out_since: Ticks,
    /// When the request came to the instance; set where requests are not ranked.
    pub(crate) came_at: Ticks,
    /// When the request was last admitted.
    pub(crate) admitted_at: Ticks,
    /// How long the request was admitted before that.
    pub(crate) attained: Ticks,
    /// When its latest token was yielded; stale while the request is in the decode set.
    pub(crate) last_token: Ticks,
    /// Its longest gap between two tokens so far.
    pub(crate) max_gap: Ticks,
}

impl Default for Times {
    fn default() -> Self {
        Self { out_since: Ticks::MAX, came_at: 0, admitted_at: 0, attained: 0, last_token: 0, max_gap: 0 }
    }
}

impl RequestState {
    /// A request that has not run.
    fn new(request: RequestNumber, row: TraceRow, prompt: u32, output: u32) -> Self {
        Self {
            request,
            entry: TraceEntry { row, output },
            prompt,
            output,
            computed: 0,
            generated: 0,
            preemptions: 0,
            phase: Phase::Preempted,
            answering: false,
            cycle: 0,
            seq: 0,
            blocks: BlockTable::default(),
            member: Member::default(),
            times: Times::default(),
        }
    }

    /// Tokens to compute before the next token is yielded.
    pub(crate) fn target(&self) -> u32 {
        self.prompt + self.generated
    }

    /// Tokens to compute that have no KV.
    pub(crate) fn lacking(&self) -> u32 {
        self.target() - self.computed
    }

    /// Its counts, to write.
    pub(crate) fn totals(&self) -> RequestTotals {
        RequestTotals {
            generated: self.generated,
            preemptions: self.preemptions,
            max_gap: self.times.max_gap,
        }
    }

    /// Where its KV is, if it has KV and is not admitted.
    pub(crate) fn residency(&self) -> Option<Residency> {
        let tier = match self.phase {
            Phase::Swapped { .. } => Tier::Host,
            Phase::MigratedIn => Tier::Landed,
            Phase::Reserved | Phase::Receiving => Tier::Arriving,
            Phase::Received | Phase::Restored => Tier::Ready,
            Phase::Loading => Tier::Loading,
            Phase::Loaded => Tier::Loaded,
            Phase::MigratingOut => Tier::Departing,
            _ => return None,
        };
        Some(Residency::new(tier, self.computed, self.blocks.count()))
    }

    /// Owner of the content of its blocks.
    pub(crate) fn owner(&self) -> ContentOwner {
        ContentOwner { row: self.entry.row, prompt: self.prompt, known: self.target() }
    }
}

/// The requests of one instance.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct RequestTable {
    slots: Vec<RequestState>,
    vacant: Vec<Slot>,
}

impl RequestTable {
    /// Adds a request of a trace that has not run and is queued. Returns its slot.
    pub(crate) fn enter(&mut self, request: RequestNumber, trace: &Trace) -> Slot {
        let (prompt, output) = (trace.prompt_tokens[request.index()], trace.output_tokens[request.index()]);
        self.add(RequestState::new(request, trace.origin(request), prompt, output))
    }

    /// Adds a request whose number is its row in the trace.
    #[cfg(test)]
    pub(crate) fn insert(&mut self, number: u32, prompt: u32, output: u32) -> Slot {
        self.add(RequestState::new(RequestNumber(number), TraceRow(number), prompt, output))
    }

    fn add(&mut self, mut state: RequestState) -> Slot {
        if let Some(slot) = self.vacant.pop() {
            let vacant = &mut self[slot];
            state.blocks = std::mem::take(&mut vacant.blocks);
            state.blocks.clear();
            *vacant = state;
            return slot;
        }
        self.slots.push(state);
        (self.slots.len() - 1) as Slot
    }

    /// Frees a slot.
    pub(crate) fn release(&mut self, slot: Slot) {
        self.slots[slot as usize].phase = Phase::Vacant;
        self.vacant.push(slot);
    }

    /// The slot of a request that has not left.
    pub(crate) fn find(&self, request: RequestNumber) -> Option<Slot> {
        let gone = |phase| {
            matches!(phase, Phase::Vacant | Phase::Deferred | Phase::Ended { .. } | Phase::MigratingOut)
        };
        let of = |state: &RequestState| state.request == request && !gone(state.phase);
        self.slots.iter().position(of).map(|slot| slot as Slot)
    }

    /// Whether a request has left, and its blocks are read.
    pub(crate) fn is_read(&self, request: RequestNumber) -> bool {
        self.slots.iter().any(|state| state.request == request && state.phase == Phase::MigratingOut)
    }

    /// All requests, in slot order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &RequestState> {
        self.slots.iter().filter(|state| state.phase != Phase::Vacant)
    }

    /// Whether an entry of the admission order is current: the request is still
    /// admitted, and was not admitted anew since.
    pub(crate) fn is_current(&self, seq: AdmissionSeq, slot: Slot) -> bool {
        let state = &self[slot];
        state.seq == seq && state.phase.is_admitted()
    }

    /// The same, also for a request that has ended and that the step which is formed still counts as running.
    pub(crate) fn counts(&self, seq: AdmissionSeq, slot: Slot) -> bool {
        let state = &self[slot];
        state.seq == seq && (state.phase.is_admitted() || state.phase.has_ended())
    }
}

/// Fails for a slot that the table does not have: in one place, as the table is read in some two hundred.
#[cold]
#[inline(never)]
fn lacks(slot: Slot) -> ! {
    panic!("Invariant: the table has slot {slot}")
}

impl std::ops::Index<Slot> for RequestTable {
    type Output = RequestState;

    fn index(&self, slot: Slot) -> &RequestState {
        self.slots.get(slot as usize).unwrap_or_else(|| lacks(slot))
    }
}

impl std::ops::IndexMut<Slot> for RequestTable {
    fn index_mut(&mut self, slot: Slot) -> &mut RequestState {
        self.slots.get_mut(slot as usize).unwrap_or_else(|| lacks(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_slot_is_reused_with_fresh_state() {
        let mut table = RequestTable::default();
        let (first, second) = (table.insert(7, 10, 5), table.insert(8, 11, 6));
        table[first].generated = 3;
        table[first].blocks.set_count(2);
        table.release(first);
        assert_eq!(table.iter().map(|state| state.request.0).collect::<Vec<_>>(), [8]);
        let third = table.insert(9, 12, 7);
        assert_eq!(third, first);
        assert_eq!((table[third].request.0, table[third].generated, table[third].blocks.count()), (9, 0, 0));
        assert_eq!(table[second].target(), 11);
    }

    #[test]
    fn an_entry_is_current_until_the_request_leaves_or_is_admitted_anew() {
        let mut table = RequestTable::default();
        let slot = table.insert(0, 1, 1);
        table[slot].seq = 4;
        assert!(!table.is_current(4, slot), "it is queued");
        table[slot].phase = Phase::Prefilling;
        assert!(table.is_current(4, slot));
        table[slot].seq = 9;
        assert!(!table.is_current(4, slot) && !table.counts(4, slot), "it was admitted anew");
        table[slot].phase = Phase::Ended { decoding: true };
        assert!(!table.is_current(9, slot) && table.counts(9, slot));
        table.release(slot);
        assert!(!table.is_current(9, slot));
    }
}
