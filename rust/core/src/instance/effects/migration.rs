//! Requests that migrate to another instance, and those that migrate in.
//!
//! A request that is migrated out leaves the batch at once; its blocks stay allocated
//! until its KV has been read. A request that is migrated in is queued. If it is admitted
//! at the first step formed after, it takes blocks and costs nothing more; if not, its KV
//! goes to the swap space, where preemption swaps.

use serde::{Deserialize, Serialize};

use super::Effects;
use crate::instance::Recorder;
use crate::instance::observers::{Fact, Track};
use crate::instance::queues::Queued;
use crate::instance::ranking::List;
use crate::instance::request::{Phase, RequestState, Slot};
use crate::kv::Tier;
use crate::metrics::{RequestTotals, Status};
use crate::time::{NEVER, Ticks};
use crate::trace::RequestNumber;

/// A request between two instances.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MigratingRequest {
    /// Row in the trace.
    pub(crate) request: RequestNumber,
    /// When it was migrated out.
    pub(crate) left: Ticks,
    /// Tokens whose KV is transferred.
    pub(crate) kv_tokens: u32,
    pub(super) totals: RequestTotals,
    last_token: Ticks,
    /// How long it has been admitted.
    attained: Ticks,
    track: Option<Track>,
}

impl MigratingRequest {
    /// A request that leaves at `left`, when the last step of its prompt ends.
    pub(in crate::instance) fn after_prefill(state: &RequestState, left: Ticks) -> Self {
        Self {
            request: state.request,
            left,
            kv_tokens: state.target(),
            totals: RequestTotals { generated: 1, ..state.totals() },
            last_token: left,
            attained: 0,
            track: None,
        }
    }

    /// A request that has just arrived, as it will be when its prompt ends.
    pub(crate) fn to_come(request: RequestNumber, prompt: u32) -> Self {
        Self {
            request,
            left: NEVER,
            kv_tokens: prompt,
            totals: RequestTotals { generated: 1, ..RequestTotals::default() },
            last_token: 0,
            attained: 0,
            track: None,
        }
    }

    /// Writes the final columns of a request in transfer when the replay ended.
    pub(crate) fn write_unfinished(&self, recorder: &mut Recorder) {
        recorder.close(self.request, Status::Waiting, self.totals);
    }
}

impl Effects<'_> {
    /// Removes a decoding request from the batch. Its blocks stay allocated until
    /// [`Self::finish_transfer`].
    #[inline(never)]
    pub(crate) fn migrate_out(&mut self, slot: Slot, now: Ticks) -> MigratingRequest {
        self.restart_standstill(now);
        self.count_pending_of(slot);
        let times = self.on.requests[slot].times;
        let attained = match &self.on.ranking {
            Some(ranking) => ranking.attained(slot, now),
            None => times.attained + (now - times.admitted_at),
        };
        if self.on.requests[slot].phase == Phase::Decoding {
            self.leave_decode_set(slot, Phase::Stalled, now);
            self.assign_blocks(slot);
        } else {
            self.on.batch.remove(slot, &self.on.requests);
        }
        self.learn_outcome(slot);
        self.depart_from_tier(slot);
        self.on.observers.stats.occupancy.count_waiting(self.waiting(), now);
        if let Some(mut ranks) = self.ranks() {
            ranks.move_to(slot, List::Gone, now);
        }
        let track = self.on.observers.readers.remove(slot);
        self.on.requests[slot].phase = Phase::MigratingOut;
        self.observe(Fact::Left, slot, now);
        let state = &self.on.requests[slot];
        self.on.kv.enter(Tier::Departing, state.computed, &state.blocks);
        MigratingRequest {
            request: state.request,
            left: now,
            kv_tokens: state.computed,
            totals: state.totals(),
            last_token: state.times.last_token,
            attained,
            track,
        }
    }

    /// Releases the blocks of a request whose KV has been read. Returns when the run in
    /// progress now ends, if that changed: a queued request may fit now.
    #[inline(never)]
    pub(crate) fn finish_transfer(&mut self, slot: Slot, now: Ticks) -> Option<Ticks> {
        // The peak of the blocks may have been held until now.
        self.apply_until(now);
        let state = &self.on.requests[slot];
        self.on.kv.leave(Tier::Departing, state.computed, &state.blocks);
        self.free_or_defer(slot, false, now);
        // Decision logs have the free blocks of each step.
        let seen =
            self.queued() > 0 || self.on.observers.log.is_kept() || self.on.settings.scheduler.schedule_ahead;
        if seen { self.on.run.truncate(now) } else { None }
    }

    /// Queues a request that was migrated in with its KV. Returns when the run in progress
    /// now ends, if that changed.
    #[inline(never)]
    pub(crate) fn migrate_in(&mut self, migrated: &MigratingRequest, now: Ticks) -> Option<Ticks> {
        self.apply_listed(now);
        self.on.observers.stats.occupancy.count_waiting(self.waiting(), now);
        let slot = self.insert_migrated(migrated, Phase::MigratedIn, now);
        let row = migrated.request.index();
        let state = &mut self.on.requests[slot];
        let blocks = self.on.settings.blocks_for(migrated.kv_tokens);
        self.on.kv.receive(migrated.kv_tokens, blocks, &mut state.blocks);
        let landed = Fact::Landed { transfer: now - migrated.left, wait: 0, expired: false };
        self.observe(landed, slot, now);
        self.recorder.columns.last_instance[row] = self.on.settings.index;
        let queued = Queued { request: migrated.request, slot: Some(slot) };
        if self.on.ranking.is_some() {
            self.enter_ranking(slot, now, migrated.attained);
            self.on.queues.push_migrated(slot);
        } else if self.on.settings.scheduler.holds_arrivals() {
            self.on.queues.ahead_mut().push(queued, now);
        } else {
            self.on.queues.waiting_mut().push_migrated(queued.request, slot, self.trace);
        }
        let waiting = self.waiting();
        self.on.observers.stats.occupancy.note_waiting(waiting);
        // The cost of its admission depends on the step that admits it.
        self.on.run.truncate(now)
    }

    /// Adds a request that comes from another instance, with its load and its reader.
    pub(super) fn insert_migrated(&mut self, migrated: &MigratingRequest, phase: Phase, now: Ticks) -> Slot {
        let slot = self.place_migrated(migrated, phase, now);
        self.count_migrated(slot, migrated, now);
        slot
    }

    /// Adds a request that comes from another instance, without its load and its reader.
    pub(super) fn place_migrated(&mut self, migrated: &MigratingRequest, phase: Phase, now: Ticks) -> Slot {
        let RequestTotals { generated, preemptions, max_gap } = migrated.totals;
        let slot = self.on.requests.enter(migrated.request, self.trace);
        self.cut_output(slot);
        self.forget_drafts(slot);
        let answers = self.trace.is_answering(migrated.request.index(), generated);
        let state = &mut self.on.requests[slot];
        state.phase = phase;
        (state.computed, state.generated, state.preemptions) = (migrated.kv_tokens, generated, preemptions);
        state.answering = answers;
        let times = &mut state.times;
        (times.last_token, times.max_gap) = (migrated.last_token, max_gap);
        (times.came_at, times.out_since) = (now, now);
        slot
    }

    /// Adds the load and the reader of a request that has left its source and is in a slot here.
    pub(super) fn count_migrated(&mut self, slot: Slot, migrated: &MigratingRequest, now: Ticks) {
        let state = &mut self.on.requests[slot];
        let times = &mut state.times;
        (times.last_token, times.attained) = (migrated.last_token, migrated.attained);
        (times.came_at, times.out_since) = (now, now);
        self.observe(Fact::Came, slot, now);
        self.on.observers.readers.receive(slot, migrated.track);
    }
}
