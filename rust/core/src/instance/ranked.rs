//! Scheduling by rank: keeping ranks up to date, and letting the best of those
//! who wait in.

use super::active::{Phase, Slot};
use super::flight::Flight;
use super::form::Forming;
use super::observe::OfInstance;
use super::ranks::{List, Look, Ranks};
use super::{Instance, Part, World};
use crate::config::{Admission, Preemption, Ranking};
use crate::kv::ContentOwner;
use crate::policy::{ReqField, holds_now};
use crate::time::Ticks;
use crate::trace::Trace;

/// What somebody who waits would take.
struct Offer {
    /// Tokens computed at once.
    tokens: u64,
    /// Free blocks that it needs.
    blocks: u64,
    /// Whether it may be cut or comes as it is.
    whole: bool,
    part: Part,
}

impl Instance {
    /// Looks at a request's rank anew, where there are ranks.
    #[inline]
    pub(super) fn place(&mut self, slot: Slot, now: Ticks, keys: bool, world: &World) {
        if self.ranks.is_some() {
            self.place_behind(slot, now, None, keys, world);
        }
    }

    /// The same, of a member that goes on as it was `behind` steps ago.
    #[inline(never)]
    fn place_behind(
        &mut self,
        slot: Slot,
        now: Ticks,
        behind: Option<u64>,
        keys: bool,
        world: &World,
    ) -> bool {
        let (behind, goes_on) = (behind.unwrap_or(0), behind.is_some());
        let mut view = self.base_view(slot, now, behind);
        if self.ranks_by_blocks {
            view.blocks = self.blocks_seen(slot, view.computed, now);
        }
        if self.paced_ranks {
            view.deadline = self.deadline(slot);
        }
        let phase = self.table[slot].phase;
        let waits = self.waits_to_decode(phase);
        view.decoding |= waits;
        let steps = if view.decoding { self.decode.step() - behind } else { self.usage.steps };
        let Some(ranks) = &mut self.ranks else { return false };
        let look = Look { keys, steps, goes_on, remembers: world.leap, waits };
        ranks.place(slot, &mut view, look, &world.trace)
    }

    /// Whether somebody outside the decode set waits to go on in it, and keeps
    /// its rank until it has more tokens.
    #[inline]
    fn waits_to_decode(&self, phase: Phase) -> bool {
        self.steady_ranks && matches!(phase, Phase::Landed | Phase::Swapped(true))
    }

    /// Moves a request to another list, and looks at its rank anew.
    pub(super) fn shift(&mut self, slot: Slot, to: List, now: Ticks, world: &World) {
        let steps = self.usage.steps;
        let waits = to == List::Queued && self.waits_to_decode(self.table[slot].phase);
        let step = self.decode.step();
        let Some(ranks) = &mut self.ranks else { return };
        if to == List::Running && !self.minds_admission {
            ranks.admit(slot, now, steps);
            return;
        }
        if waits && ranks.suspend(slot, step, now, steps) {
            return;
        }
        ranks.shift(slot, to, now, steps);
        if to != List::Gone
            && !self.place_behind(slot, now, None, true, world)
            && let Some(ranks) = &mut self.ranks
        {
            ranks.list(slot);
        }
    }

    /// Takes in a request that is new.
    #[inline(never)]
    pub(super) fn arrive_by_rank(&mut self, request: u32, now: Ticks, world: &World) -> bool {
        let row = request as usize;
        let (prompt, output) = (world.trace.prompt_tokens[row], world.trace.output_tokens[row]);
        let slot = self.table.insert(request, prompt, output);
        self.table[slot].phase = Phase::Preempted;
        self.open_track(slot, world);
        self.queue_by_rank(slot, now, 0, world)
    }

    /// Queues a request by rank that has come to this instance.
    pub(super) fn queue_by_rank(&mut self, slot: Slot, now: Ticks, attained: Ticks, world: &World) -> bool {
        // A step under way does not count as one that it has sat out.
        let begun = self.flight.as_ref().filter(|_| self.counts_idle).map_or(0, |flight| {
            let ended = flight.steps_ended(now);
            let under_way = flight.after(ended) < now;
            ended + u64::from(under_way)
        });
        let steps = self.usage.steps + begun;
        if let Some(ranks) = &mut self.ranks {
            ranks.enter(slot, now, steps, attained);
        }
        self.place(slot, now, true, world);
        self.ranks.as_ref().is_some_and(|ranks| ranks.front() == Some(slot))
    }

    /// Whether ranks may have changed by the decode set's latest step.
    #[inline]
    pub(super) fn has_ranks_due(&self, world: &World) -> bool {
        let reached = self.decode.step();
        let idle = |ranks: &Ranks| self.puts_ranks_off() && ranks.next_class() > reached;
        self.ranks.as_deref().is_some_and(|ranks| ranks.next_step() <= reached && !idle(ranks) || !world.leap)
    }

    /// Whether nobody asks now how those rank who run, before blocks run out.
    #[inline]
    fn puts_ranks_off(&self) -> bool {
        self.idle_ranks && (self.queued() == 0 || matches!(self.scheduler.admission, Admission::Wait))
    }

    /// Brings the ranks of the decode set's members up to date that were put off.
    #[inline(never)]
    pub(super) fn settle_ranks(&mut self, now: Ticks, world: &World) {
        let (reached, keys) = (self.decode.step(), self.looks_always());
        while let Some((_, slot)) = self.due_member(reached) {
            self.place_behind(slot, now, Some(0), keys, world);
        }
    }

    /// Brings the ranks of the decode set's members up to date with the
    /// `steps` steps of a flight that were just booked.
    #[inline(never)]
    pub(super) fn expire(&mut self, flight: &Flight, steps: u64, world: &World) {
        let Some(ranks) = &mut self.ranks else { return };
        let lasting = ranks.rules.refresh.is_set();
        if !world.leap {
            let now = flight.after(steps);
            for slot in ranks.slots() {
                if self.table[slot].phase == Phase::Decoding {
                    self.place_behind(slot, now, None, !lasting, world);
                }
            }
            return;
        }
        let reached = self.decode.step();
        while let Some((step, slot)) = self.due_member(reached) {
            let mut behind = reached - step;
            if behind > 0
                && let Some(ranks) = &self.ranks
            {
                // As long as it stays in its class, where it stands now is all that counts.
                behind = reached - ranks.same_class_until(slot, step, reached, flight.after(steps));
            }
            let when = flight.after(steps.saturating_sub(behind));
            let active = &self.table[slot];
            let generated = self.decode.generated(active) - behind as u32;
            let left = world.reasoning(active.request).and_then(|all| all.checked_sub(generated));
            let to_answer = left.filter(|left| *left > 0).map(u64::from);
            if let Some(ranks) = &mut self.ranks
                && ranks.count_quanta(slot, generated, to_answer, reached - behind, when)
            {
                continue;
            }
            self.place_behind(slot, when, Some(behind), !lasting, world);
        }
    }

    /// A member whose rank may have changed by the decode set's step `reached`, and
    /// at which step that was.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a run ends with it twice or thrice")]
    fn due_member(&mut self, reached: u64) -> Option<(u64, Slot)> {
        let ranks = self.ranks.as_mut()?;
        while let Some((step, slot)) = ranks.due_by_step(reached) {
            if self.table[slot].phase == Phase::Decoding {
                return Some((step, slot));
            }
            ranks.leave_steps(slot);
        }
        None
    }

    /// Brings all ranks up to date for a step that starts now.
    #[inline]
    pub(super) fn wake(&mut self, now: Ticks, world: &World) {
        if self.idle_ranks && !self.puts_ranks_off() {
            self.settle_ranks(now, world);
        }
        if !world.leap || self.ranks.as_deref().is_some_and(Ranks::may_change_by_itself) {
            self.refresh_ranks(now, world);
        }
    }

    #[inline(never)]
    fn refresh_ranks(&mut self, now: Ticks, world: &World) {
        let steps = self.usage.steps;
        let Some(ranks) = &mut self.ranks else { return };
        let refreshes = ranks.refreshes(now, steps);
        if refreshes || !world.leap {
            let keys = refreshes || !ranks.rules.refresh.is_set();
            for slot in ranks.slots() {
                self.place(slot, now, keys, world);
            }
            return;
        }
        let keys = !ranks.rules.refresh.is_set();
        while let Some(slot) = self.ranks.as_ref().and_then(|ranks| ranks.due_by_time(now)) {
            self.place(slot, now, keys, world);
        }
        while let Some(slot) = self.ranks.as_ref().and_then(|ranks| ranks.due_by_idle(steps)) {
            self.place(slot, now, keys, world);
        }
    }

    /// A step is formed: nobody has come in or given way in it yet.
    #[inline]
    pub(super) fn begin_round(&mut self, now: Ticks, trace: &Trace) {
        if let Some(ranks) = &mut self.ranks {
            ranks.round += 1;
        }
        self.may_displace = match &self.scheduler.admission {
            Admission::Wait => false,
            Admission::Displace { when: None, .. } => true,
            Admission::Displace { .. } => self.is_moved_to_displace(now, trace),
        };
    }

    /// Whether what must hold for anybody to be displaced does.
    #[inline(never)]
    fn is_moved_to_displace(&mut self, now: Ticks, trace: &Trace) -> bool {
        let admission = std::mem::take(&mut self.scheduler.admission);
        let moved = match &admission {
            Admission::Displace { when: Some(when), .. } => {
                holds_now(when, &mut OfInstance { instance: self, now, trace })
            }
            _ => true,
        };
        self.scheduler.admission = admission;
        moved
    }

    /// For how many of a run's steps no rank changes that somebody who waits
    /// could profit from, nor one by the clock.
    #[inline]
    pub(super) fn steps_in_rank(&self, flight: &Flight) -> u64 {
        let steady = self.steady_ranks || self.idle_ranks;
        if steady && self.queued() == 0 { u64::MAX } else { self.steps_before_ranks_change(flight) }
    }

    /// Ends the run in progress before a rank changes of a request that arrived at
    /// `now`. Returns when the run now ends, if that changed.
    pub(super) fn cut_by_rank(&mut self, now: Ticks) -> Option<Ticks> {
        let ranks = self.ranks.as_deref()?;
        if !ranks.may_change_by_itself() {
            return None;
        }
        let flight = self.flight.filter(|flight| flight.steps > 1)?;
        let most = self.steps_before_ranks_change(&flight).max(flight.steps_to_reach(now));
        if most >= flight.steps {
            return None;
        }
        self.flight = Some(Flight { steps: most, ..flight });
        Some(flight.after(most))
    }

    #[inline(never)]
    fn steps_before_ranks_change(&self, flight: &Flight) -> u64 {
        let (reached, taken) = (self.decode.step(), self.usage.steps);
        let Some(ranks) = &self.ranks else { return u64::MAX };
        let mut most = ranks.steps_to_refresh(taken);
        let next = ranks.next_time();
        if next != Ticks::MAX {
            most = most.min(flight.steps_to_reach(next));
        }
        if ranks.waiting() > 0 {
            most = most.min(ranks.next_idle().saturating_sub(taken).max(1));
            match self.scheduler.admission {
                // How those rank who run matters to nobody before blocks run out.
                Admission::Wait => {}
                Admission::Displace { when: Some(_), .. } => return 1,
                Admission::Displace { when: None, .. } => {
                    most = most.min(ranks.next_step().saturating_sub(reached).max(1));
                }
            }
        }
        if self.paced_ranks { 1 } else { most }
    }

    /// Admits by rank until somebody does not get in.
    #[inline(never)]
    pub(super) fn admit_by_rank(
        &mut self,
        chunked: bool,
        forming: &mut Forming,
        now: Ticks,
        world: &mut World,
    ) {
        while forming.left > 0 {
            let Some(slot) = self.ranks.as_deref().and_then(Ranks::front) else { break };
            if self.ranks.as_ref().is_some_and(|ranks| ranks.gave_way(slot)) {
                break;
            }
            let tokens = u64::from(self.table[slot].target() - self.table[slot].computed);
            if !chunked && tokens > self.scheduler.max_num_batched_tokens {
                self.drop_by_rank(slot, now, world);
                continue;
            }
            let mut hits = std::mem::take(&mut self.hits);
            let offer = self.offer(slot, chunked, forming, &mut hits);
            let seated = self.seats_taken(forming) < self.scheduler.max_num_seqs;
            let fits = offer.whole
                && (seated && offer.blocks <= self.memory.free()
                    || self.make_room(slot, offer.blocks, &hits, forming, now, world));
            if fits {
                self.come_in(slot, &offer, &hits, forming, now, world);
            }
            self.hits = hits;
            if !fits {
                break;
            }
        }
    }

    /// Whether the best of those who wait could come in at a coming step, before
    /// anybody leaves: into what is free, or in somebody's place.
    #[inline(never)]
    pub(super) fn front_may_come_in(&mut self, forming: &Forming) -> bool {
        let Some(ranks) = &mut self.ranks else { return false };
        let Some(slot) = ranks.front() else { return false };
        let displaces = matches!(self.scheduler.admission, Admission::Displace { .. });
        let worst = ranks.worst().filter(|_| displaces);
        if worst.is_some_and(|worst| ranks.entry(worst).rank > ranks.entry(slot).rank) {
            return true;
        }
        // A whole prompt that has outgrown a step is dropped at the next one.
        let active = &self.table[slot];
        let lacking = u64::from(active.target() - active.computed);
        if !self.scheduler.cuts_prompts() && lacking > self.scheduler.max_num_batched_tokens {
            return true;
        }
        let mut hits = std::mem::take(&mut self.hits);
        let offer = self.offer(slot, true, forming, &mut hits);
        self.hits = hits;
        offer.blocks <= self.memory.free()
    }

    /// What somebody who waits would take now; `hits`: the blocks that the
    /// prefix cache has of it.
    fn offer(&self, slot: Slot, chunked: bool, forming: &Forming, hits: &mut Vec<u32>) -> Offer {
        hits.clear();
        let active = &self.table[slot];
        let lacking = u64::from(active.target() - active.computed);
        let limit = if chunked { forming.chunk_limit } else { u64::MAX };
        let reserve = self.watermark() + u64::from(self.scheduler.spare_block);
        match active.phase {
            Phase::Swapped(true) | Phase::Landed => Offer {
                tokens: lacking,
                blocks: self.blocks(active.computed + 1).max(active.count) + reserve,
                whole: lacking <= forming.left,
                part: if active.phase == Phase::Landed { Part::Landed } else { Part::SwappedInDecode },
            },
            Phase::Swapped(false) => {
                let wanted = lacking.min(limit);
                let tokens = if chunked { wanted.min(forming.left) } else { wanted };
                Offer {
                    tokens,
                    blocks: self.blocks(active.computed + tokens as u32).max(active.count) + reserve,
                    whole: tokens <= forming.left,
                    part: Part::SwappedInChunk,
                }
            }
            _ => {
                let target = active.target();
                let unheld = if self.memory.caches() {
                    let owner = ContentOwner { request: active.request, prompt: active.prompt };
                    self.memory.find(owner, (target - 1) / self.block_tokens, &self.prefixes, hits)
                } else {
                    0
                };
                let hit = hits.len() as u32 * self.block_tokens;
                let wanted = u64::from(target - hit).min(limit);
                let tokens = wanted.min(forming.left);
                Offer {
                    tokens,
                    blocks: self.admission_needs(target, hit, tokens as u32, unheld),
                    whole: chunked || tokens == wanted,
                    part: Part::Admitted,
                }
            }
        }
    }

    #[inline(never)]
    fn come_in(
        &mut self,
        slot: Slot,
        offer: &Offer,
        hits: &[u32],
        forming: &mut Forming,
        now: Ticks,
        world: &mut World,
    ) {
        let active = &self.table[slot];
        let (phase, count) = (active.phase, active.count);
        let (computed, target) = (active.computed, active.target());
        self.readmitted(slot, now, world);
        match phase {
            Phase::Swapped(_) | Phase::Landed => {
                if let Phase::Swapped(_) = phase {
                    self.swap_space.give_back(count);
                    self.copied.1 += count;
                    self.usage.swapped_in_blocks += count;
                    self.swapped_by_rank -= 1;
                }
                self.cpu_kv -= u64::from(computed);
                let grown = self.blocks(computed + offer.tokens as u32).max(count);
                let active = &mut self.table[slot];
                active.count = 0;
                let taken = self.memory.take(grown, &mut active.held);
                taken.expect("Invariant: admission found the blocks free");
                active.count = grown;
                if phase == Phase::Swapped(false) {
                    active.phase = Phase::Prefilling;
                    self.partial_kv += u64::from(computed);
                    self.enter(slot);
                    self.schedule_chunk(slot, offer.tokens as u32, offer.part, forming);
                } else {
                    self.come_back(slot, offer.tokens as u32, offer.part, forming, world);
                }
            }
            _ => {
                let row = self.table[slot].request as usize;
                let hit = hits.len() as u32 * self.block_tokens;
                if self.memory.caches() {
                    self.usage.prefix_queries += u64::from(target);
                    self.usage.prefix_hits += u64::from(hit);
                    if world.columns.scheduled[row] == now {
                        world.columns.cached[row] = hit;
                    }
                }
                self.table[slot].phase = Phase::Prefilling;
                self.enter(slot);
                let active = &mut self.table[slot];
                let unheld = self.memory.unheld(hits);
                self.memory.adopt(hits, unheld, &mut active.held);
                active.computed = hit;
                active.count = hits.len() as u64;
                self.partial_kv += u64::from(hit);
                self.schedule_chunk(slot, offer.tokens as u32, offer.part, forming);
            }
        }
        // Its rank sees the blocks that it now has.
        self.shift(slot, List::Running, now, world);
        if !self.minds_admission && self.table[slot].phase == Phase::Decoding {
            let step = self.decode.step();
            if !self.ranks.as_mut().is_some_and(|ranks| ranks.resume(slot, step)) {
                self.place(slot, now, true, world);
            }
        }
    }

    /// Puts the memory of those who landed and found no room with the CPU.
    /// Returns whether there was none for somebody's.
    #[inline(never)]
    pub(super) fn shelve(&mut self, now: Ticks, world: &World) -> bool {
        let overflows = self.usage.swap_overflows;
        let mut landed = std::mem::take(&mut self.landed);
        for slot in landed.drain(..) {
            if self.table[slot].phase != Phase::Landed || self.ranks.is_none() {
                continue;
            }
            if !matches!(self.scheduler.preemption, Preemption::Swap { .. }) {
                continue;
            }
            let count = self.table[slot].count;
            if self.swap_space.take(count).is_ok() {
                self.table[slot].phase = Phase::Swapped(true);
                self.swapped_by_rank += 1;
            } else {
                self.usage.swap_overflows += 1;
                let active = &mut self.table[slot];
                self.cpu_kv -= u64::from(active.computed);
                (active.computed, active.count, active.phase) = (0, 0, Phase::Preempted);
                self.place(slot, now, true, world);
            }
        }
        self.landed = landed;
        self.usage.swap_overflows > overflows
    }

    #[inline(never)]
    fn drop_by_rank(&mut self, slot: Slot, now: Ticks, world: &mut World) {
        self.shift(slot, List::Gone, now, world);
        self.write_given_up(slot, world);
    }
}

/// Whether ranks look at a field.
pub(super) fn looks_at(ranking: &Ranking, wanted: ReqField) -> bool {
    ranking.exprs().any(|expr| expr.looks_at_request(&|field| field == wanted))
}

/// Whether a rank may be another once its request is admitted.
pub(super) fn looks_at_admission(ranking: &Ranking, caches: bool) -> bool {
    let changes = |field: ReqField| {
        let always = [
            ReqField::WaitingS,
            ReqField::IdleSteps,
            ReqField::AttainedS,
            ReqField::Running,
            ReqField::Blocks,
        ];
        always.contains(&field) || caches && field == ReqField::KvTokens
    };
    ranking.refresh.is_set() || ranking.exprs().any(|expr| expr.looks_at_request(&changes))
}

/// Whether those who run need no rank before blocks run out or somebody waits.
/// Who is in which class, and in its first quantum, is asked for at any time; and
/// keys that are looked at every so often must be.
pub(super) fn may_idle(ranking: &Ranking) -> bool {
    let drifts = |field| matches!(field, ReqField::AgeS | ReqField::AttainedS | ReqField::SlackS);
    let mut conditions = ranking.classes.iter().filter_map(|class| class.when.as_ref());
    let fresh = !ranking.refresh.is_set() || ranking.refresh.steps == 1;
    fresh && ranking.quantum == 0 && !conditions.any(|when| when.looks_at_request(&drifts))
}

/// Whether the rank of a request that decodes changes by its tokens alone, and
/// not by its being in the batch, or out of it, or by time.
pub(super) fn changes_by_tokens(ranking: &Ranking) -> bool {
    let otherwise = |field: ReqField| {
        matches!(
            field,
            ReqField::AgeS
                | ReqField::WaitingS
                | ReqField::IdleSteps
                | ReqField::AttainedS
                | ReqField::Running
                | ReqField::Blocks
                | ReqField::Preemptions
                | ReqField::SlackS
        )
    };
    !ranking.refresh.is_set() && !ranking.exprs().any(|expr| expr.looks_at_request(&otherwise))
}
