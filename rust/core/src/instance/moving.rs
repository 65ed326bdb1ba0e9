//! Requests that leave an instance for another, and those that come.
//!
//! Who leaves is out of the batch at once; its blocks stay taken until its
//! memory has been read. Who lands queues up, and its memory waits with it: let
//! in at the first step formed there it takes blocks and costs nothing more,
//! else its memory goes to the CPU, where memory is swapped.

use super::active::{Active, Phase, Slot};
use super::pace::Track;
use super::queue::Waiter;
use super::ranks::List;
use super::{Instance, World};
use crate::metrics::{Columns, Status};
use crate::time::Ticks;

/// Why a request's place may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Occasion {
    /// It was told to leave, and no rule is asked for it any more.
    Told,
    /// Its prompt is through.
    Prefilled,
    /// Its reasoning has ended.
    Answering,
}

/// A request between two instances.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) request: u32,
    /// When it left.
    pub(crate) left: Ticks,
    /// Tokens whose KV goes with it.
    pub(crate) kv_tokens: u32,
    generated: u32,
    preemptions: u32,
    last_token: Ticks,
    max_gap: Ticks,
    attained: Ticks,
    track: Option<Track>,
}

impl Parcel {
    /// Writes down where a request stood that was on its way at the end.
    pub(crate) fn write_unfinished(&self, columns: &mut Columns) {
        let row = self.request as usize;
        columns.status[row] = Status::Waiting as u8;
        columns.generated[row] = self.generated;
        columns.preemptions[row] = self.preemptions;
        if self.generated > 1 {
            columns.max_itl[row] = self.max_gap;
        }
    }
}

impl Instance {
    /// Puts those for whom a rule is to be asked since the latest step ended in
    /// order of admission.
    pub(crate) fn sort_turning(&mut self) {
        self.turning.sort_unstable_by(|one, other| other.cmp(one));
    }

    /// The first of them who has not been asked about.
    pub(crate) fn pop_turning(&mut self) -> Option<(Occasion, Slot)> {
        self.turning.pop().map(|(_, occasion, slot)| (occasion, slot))
    }

    /// Whether anybody is to be asked about.
    #[inline]
    pub(crate) fn is_turning(&self) -> bool {
        !self.turning.is_empty()
    }

    /// Whether a slot still has the request that a rule was to be asked for.
    pub(crate) fn still_runs(&self, slot: Slot, request: u32) -> bool {
        let active = &self.table[slot];
        active.request == request && active.is_admitted()
    }

    /// Slots of those who decode, by row.
    pub(crate) fn decoding(&self) -> Vec<Slot> {
        let decodes = |slot: &Slot| matches!(self.table[*slot].phase, Phase::Decoding | Phase::Stalled);
        let admitted = self.order.iter().filter(|&&(turn, slot)| self.table.holds(turn, slot));
        let mut slots: Vec<Slot> = admitted.map(|&(_, slot)| slot).filter(decodes).collect();
        slots.sort_unstable_by_key(|&slot| self.table[slot].request);
        slots
    }

    /// Blocks for so many tokens.
    pub(crate) fn blocks_of(&self, tokens: u32) -> u64 {
        self.blocks(tokens)
    }

    /// The request in a slot.
    pub(crate) fn request_in(&self, slot: Slot) -> u32 {
        self.table[slot].request
    }

    /// Tells a request to leave once the step in progress has ended.
    pub(crate) fn tell_to_leave(&mut self, slot: Slot) {
        self.leaving.push((slot, self.table[slot].request));
    }

    /// At a step's end: asks about those who were told to leave and still run.
    #[inline(never)]
    pub(super) fn turn_out(&mut self) {
        let mut leaving = std::mem::take(&mut self.leaving);
        for (slot, request) in leaving.drain(..) {
            let active = &self.table[slot];
            if active.request == request && matches!(active.phase, Phase::Decoding | Phase::Stalled) {
                self.turning.push((active.turn, Occasion::Told, slot));
            }
        }
        self.leaving = leaving;
    }

    /// Takes a decoding request out of the batch. Its blocks stay taken until
    /// [`Self::sent`].
    #[inline(never)]
    pub(crate) fn depart(&mut self, slot: Slot, now: Ticks, world: &mut World) -> Parcel {
        let stands = self.standing_since.is_some();
        self.book_standing(now);
        self.standing_since = stands.then_some(now);
        let active = &self.table[slot];
        let unranked = active.attained + (now - active.admitted_at);
        let attained = self.ranks.as_ref().map_or(unranked, |ranks| {
            let entry = ranks.entry(slot);
            entry.attained + if entry.list == List::Running { now - entry.since } else { 0 }
        });
        if self.table[slot].phase == Phase::Decoding {
            self.leave_set(slot, Phase::Stalled, now);
            let active = &mut self.table[slot];
            let (owner, count, computed) = (active.owner(), active.count, active.computed);
            self.memory.settle(owner, count, computed, &self.prefixes, &mut active.held);
        } else {
            self.partials.retain(|&other| other != slot);
            self.partial_kv -= u64::from(self.table[slot].computed);
        }
        self.usage.waited(self.queued(), now);
        self.shift(slot, List::Gone, now, world);
        let track = self.pacing.as_mut().map(|pacing| pacing.take(slot));
        let active = &mut self.table[slot];
        active.phase = Phase::Sending;
        let parcel = Parcel {
            request: active.request,
            left: now,
            kv_tokens: active.computed,
            generated: active.generated,
            preemptions: active.preemptions,
            last_token: active.last_token,
            max_gap: active.max_gap,
            attained,
            track,
        };
        self.outstanding_tokens -= u64::from(active.prompt) + u64::from(active.generated);
        self.answering -= u64::from(world.is_answering(parcel.request, parcel.generated));
        self.usage.sent += 1;
        parcel
    }

    /// Lets the blocks go whose content has been read. Returns when the run in
    /// progress now ends, if that changed: room may be what somebody waits for.
    #[inline(never)]
    pub(crate) fn sent(&mut self, slot: Slot, now: Ticks, world: &mut World) -> Option<Ticks> {
        // The most blocks held at once may have been held until now.
        self.catch_up_with(now, world);
        if self.scheduler.schedule_ahead {
            self.linger(slot, false);
        } else {
            self.let_go(slot);
        }
        // Where steps are written down, so is what each of them found free.
        let sees = self.queued() > 0 || self.log.is_some() || self.scheduler.schedule_ahead;
        if sees { self.cut(now) } else { None }
    }

    /// Takes in a request with its memory. Returns when the run in progress now
    /// ends, if that changed.
    #[inline(never)]
    pub(crate) fn land(&mut self, parcel: &Parcel, now: Ticks, world: &mut World) -> Option<Ticks> {
        self.settle_head(now, world);
        self.usage.waited(self.queued(), now);
        let row = parcel.request as usize;
        let (prompt, output) = (world.trace.prompt_tokens[row], world.trace.output_tokens[row]);
        let slot = self.table.insert(parcel.request, prompt, output);
        let count = self.blocks(parcel.kv_tokens);
        let active: &mut Active = &mut self.table[slot];
        active.phase = Phase::Landed;
        active.computed = parcel.kv_tokens;
        active.generated = parcel.generated;
        active.preemptions = parcel.preemptions;
        active.last_token = parcel.last_token;
        active.max_gap = parcel.max_gap;
        active.count = count;
        active.answering = world.is_answering(parcel.request, parcel.generated);
        active.out_since = now;
        (active.came_at, active.attained) = (now, parcel.attained);
        self.cpu_kv += u64::from(parcel.kv_tokens);
        self.outstanding_tokens += u64::from(prompt) + u64::from(parcel.generated);
        self.answering += u64::from(world.is_answering(parcel.request, parcel.generated));
        self.usage.landed += 1;
        if let (Some(pacing), Some(track)) = (&mut self.pacing, parcel.track) {
            pacing.put(slot, track);
        }
        let columns = &mut world.columns;
        columns.transfer[row] += now - parcel.left;
        let reasoning = world.trace.reasoning_tokens.as_ref().map(|column| column[row]);
        if reasoning == Some(parcel.generated) {
            columns.transfer_answering[row] += now - parcel.left;
        }
        columns.migrations[row] += 1;
        columns.last_instance[row] = self.index;
        if self.ranks.is_some() {
            self.queue_by_rank(slot, now, parcel.attained, world);
            self.landed.push(slot);
        } else if self.scheduler.schedule_ahead {
            self.ahead.arrive(Waiter { request: parcel.request, slot: Some(slot) }, now);
        } else {
            self.waiting.come_back(parcel.request, slot, &world.trace);
        }
        self.usage.peak_waiting = self.usage.peak_waiting.max(self.queued());
        // What it may cost to come in depends on the step at which it does.
        self.cut(now)
    }
}
