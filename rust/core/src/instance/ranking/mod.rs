//! The ranks of an instance's requests: running, queued and swapped out, in one
//! order.
//!
//! A rank is evaluated on events: a request arrives, is admitted, is preempted,
//! enters another class, or uses up a quantum. Between two events it is valid for
//! a known number of steps or ticks, which bounds a run. A rank that cannot have
//! changed is not evaluated.

mod arrival_order;
mod arrivals;
mod cells;
mod classes;
mod compare;
mod entry;
mod evaluate;
mod expiry;
mod inputs;
mod key;
mod new_arrivals;
mod running_set;
mod shared;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub(crate) use arrivals::BestQueued;
pub(crate) use entry::List;
pub(crate) use evaluate::Evaluation;
pub(crate) use inputs::RankInputs;
pub(crate) use key::RankKey;
pub(crate) use new_arrivals::NewArrival;

use classes::Classes;
use entry::RankedRequest;
use expiry::Expiry;
use new_arrivals::NewArrivals;
use running_set::RunningSet;
use shared::Shared;

use super::request::Slot;
use super::view::{InClass, OfRequest, RequestView, Stay};
use crate::collections::IndexedHeap;
use crate::config::{Levels, Ranking as RankingRules};
use crate::policy::holds_now;
use crate::time::{NEVER, Ticks};
use crate::trace::Trace;

/// The ranks of an instance's requests.
#[derive(Debug)]
pub(crate) struct Ranking {
    rules: RankingRules,
    inputs: RankInputs,
    requests: Vec<RankedRequest>,
    /// The requests with slots, in the order of their lists.
    sets: Sets,
    /// The keys that requests share, and the queued requests, if any key reads an accumulator.
    shared: Option<Box<Shared>>,
    /// Queued requests without a slot.
    new: NewArrivals,
    expiry: Expiry,
    classes: Classes,
    /// Requests by list.
    lists: [u64; 4],
    /// Answering requests in their first quantum.
    first_quantum: u64,
    round: Round,
    /// When all keys were last refreshed.
    refreshed: Ticks,
    /// Whether expiries are noted. Without leaping, every rank is evaluated at every
    /// step.
    leap: bool,
}

crate::checkpoint::checkpointed!(Ranking {
    values: requests, sets, new, expiry, lists, first_quantum, round, refreshed;
    parts: shared, classes;
    fixed: rules, inputs, leap;
});

/// The requests of each list, by rank.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Sets {
    running: RunningSet,
    queued: IndexedHeap<RankKey>,
    left_out: IndexedHeap<RankKey>,
}

/// The step that is being formed.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Round {
    /// Counts the steps formed, to know which requests entered a list in this one.
    number: u64,
    /// Whether queued requests may displace running ones in it.
    may_displace: bool,
}

impl Ranking {
    /// A ranking of no requests. `caches`: whether the instance caches prefixes.
    pub(crate) fn new(rules: RankingRules, caches: bool, leap: bool) -> Self {
        let classes = Classes::new(&rules);
        Self {
            inputs: RankInputs::new(&rules, caches),
            requests: Vec::new(),
            sets: Sets::default(),
            shared: Shared::new(&rules),
            new: NewArrivals::default(),
            expiry: Expiry::default(),
            classes,
            rules,
            lists: [0; 4],
            first_quantum: 0,
            round: Round::default(),
            refreshed: 0,
            leap,
        }
    }

    /// The fields from which ranks are computed.
    pub(crate) fn inputs(&self) -> &RankInputs {
        &self.inputs
    }

    /// Whether keys are evaluated on every event, and not at intervals only.
    pub(crate) fn evaluates_always(&self) -> bool {
        !self.rules.refresh.is_set()
    }

    /// Number of queued requests.
    pub(crate) fn waiting(&self) -> u64 {
        self.lists[List::Queued as usize] + self.without_slot()
    }

    /// Number of requests that the latest step does not run: queued, or left out.
    pub(crate) fn idle(&self) -> u64 {
        self.waiting() + self.lists[List::LeftOut as usize]
    }

    /// Number of requests that the latest step runs.
    pub(crate) fn running(&self) -> u64 {
        self.lists[List::Running as usize]
    }

    /// Whether the rank of a request never changes again.
    pub(crate) fn is_settled(&self, slot: Slot) -> bool {
        let request = &self.requests[slot as usize];
        request.has_class && self.classes.settles[request.class as usize]
    }

    /// The list that a request is in.
    pub(crate) fn list(&self, slot: Slot) -> List {
        self.requests[slot as usize].list
    }

    /// Counts a step that ran a request and did not yield one token, but `tokens`.
    pub(crate) fn count_step_of(&mut self, slot: Slot, tokens: u32) {
        self.requests[slot as usize].progress_mut().silent.0 += 1 - tokens as i32;
    }

    /// Number of requests in a class.
    pub(crate) fn in_class(&self, class: u32) -> u64 {
        self.classes.members.get(class as usize).copied().unwrap_or(0)
    }

    /// Answering requests in their first quantum; `None` without quanta.
    pub(crate) fn in_first_quantum(&self) -> Option<u64> {
        (self.rules.quantum > 0).then_some(self.first_quantum)
    }

    /// Slots of all ranked requests that have one.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        let live = |slot: &usize| self.requests[*slot].list != List::Gone;
        (0..self.requests.len()).filter(live).map(|slot| slot as Slot).collect()
    }

    /// How long a request has been admitted.
    pub(crate) fn attained(&self, slot: Slot, now: Ticks) -> Ticks {
        self.requests[slot as usize].attained(now)
    }

    /// Fills in what the ranking knows of a request, whose instance has taken `steps`
    /// steps.
    pub(crate) fn describe(&self, slot: Slot, steps: u64, view: &mut RequestView) {
        let request = &self.requests[slot as usize];
        view.running &= request.list != List::LeftOut;
        let (since, steps_then) = request.listed;
        let idle_steps = steps.saturating_sub(steps_then);
        view.stay = Stay { since, idle_steps, attained: request.attained };
        let level = self.rules.levels.as_ref().map(|levels| request.view_level(levels, view.now));
        view.class = InClass {
            joined: request.entered,
            base: request.entered_with,
            quantum: self.rules.quantum,
            level: level.unwrap_or_default(),
        };
    }

    /// Whether time may have changed the class or the level of a request that ran up to `now`.
    pub(crate) fn is_due_by_time(&self, now: Ticks) -> bool {
        let timed = self.rules.levels.is_some() || self.inputs.classes_change_with_time();
        timed && self.expiry.next_time() <= now
    }

    /// Whether time may have changed the class of a member of the decode set by `now`.
    pub(crate) fn class_is_due(&self, slot: Slot, now: Ticks) -> bool {
        self.requests[slot as usize].progress().class_due.1 <= now
    }

    /// Moves a request to the next level, if it has run for longer than the quantum of its own at `now`, when a step has
    /// ended that ran it. Returns whether it has.
    pub(crate) fn sink(&mut self, slot: Slot, now: Ticks) -> bool {
        self.rules.levels.as_ref().is_some_and(|levels| self.requests[slot as usize].sink(levels, now))
    }

    /// The longest quantum of a level that a request is at; 0 without levels.
    pub(crate) fn longest_quantum(&self) -> Ticks {
        let Some(levels) = &self.rules.levels else { return 0 };
        let live = self.requests.iter().filter(|request| request.list != List::Gone);
        live.map(|request| levels.quantum(request.progress().level)).max().unwrap_or(0)
    }

    /// Whether requests that do not run may go to the first level at the step after `steps`.
    pub(crate) fn may_promote(&self, steps: u64) -> bool {
        let due = |levels: &Levels| {
            levels.promote.is_some() && levels.every > 0 && steps > 0 && steps.is_multiple_of(levels.every)
        };
        self.rules.levels.as_ref().is_some_and(due)
    }

    /// Slots of the requests that do not run and are at another level than the first.
    pub(crate) fn idle_below_first(&self) -> Vec<Slot> {
        let below = |slot: &usize| {
            let request = &self.requests[*slot];
            matches!(request.list, List::Queued | List::LeftOut) && request.progress().level > 0
        };
        (0..self.requests.len()).filter(below).map(|slot| slot as Slot).collect()
    }

    /// Moves a request to the first level if the condition for that holds. Returns whether it does.
    pub(crate) fn promote(&mut self, slot: Slot, view: &RequestView, trace: &Trace) -> bool {
        let promote = self.rules.levels.as_ref().and_then(|levels| levels.promote.as_ref());
        let holds = promote.is_some_and(|promote| holds_now(promote, &mut OfRequest { view, trace }));
        if holds {
            self.requests[slot as usize].progress_mut().level = 0;
        }
        holds
    }

    /// Starts to form a step. `may_displace`: whether queued requests may displace
    /// running ones in it.
    pub(crate) fn begin_round(&mut self, may_displace: bool) {
        self.round.number += 1;
        self.round.may_displace = may_displace;
    }

    /// Whether queued requests may displace running ones in this step.
    pub(crate) fn may_displace(&self) -> bool {
        self.round.may_displace
    }

    /// Adds a queued request that has come to the instance, where it has been
    /// admitted for `attained` before.
    pub(crate) fn enter(&mut self, slot: Slot, now: Ticks, steps: u64, attained: Ticks) {
        *self.slot_mut(slot) = RankedRequest::queued(now, steps, attained);
        self.lists[List::Queued as usize] += 1;
    }

    /// The place of a request that gets a slot.
    fn slot_mut(&mut self, slot: Slot) -> &mut RankedRequest {
        let at = slot as usize;
        if at >= self.requests.len() {
            self.requests.resize(at + 1, RankedRequest::default());
        }
        &mut self.requests[at]
    }

    /// Moves a request to another list, in which it has its place once it is
    /// [evaluated](Self::evaluate) or [placed](Self::place).
    pub(crate) fn move_to(&mut self, slot: Slot, list: List, now: Ticks, steps: u64) {
        self.unplace(slot);
        self.forget_expiry(slot);
        let round = self.round.number;
        self.note_left_queue(slot, list);
        let request = &mut self.requests[slot as usize];
        if request.list == List::Running && list != List::Gone {
            request.attained += now - request.listed.0;
        }
        self.lists[request.list as usize] -= 1;
        self.lists[list as usize] += 1;
        request.enter_list(list, now, steps, round);
        if list == List::Gone {
            self.classes.members[request.class as usize] -= u64::from(request.has_class);
            self.first_quantum -= u64::from(request.in_first_quantum);
            (request.has_class, request.in_first_quantum) = (false, false);
        }
    }

    /// Admits a request whose rank does not change by that.
    pub(crate) fn admit(&mut self, slot: Slot, now: Ticks, steps: u64) {
        self.unplace(slot);
        let round = self.round.number;
        self.note_left_queue(slot, List::Running);
        let request = &mut self.requests[slot as usize];
        self.lists[request.list as usize] -= 1;
        self.lists[List::Running as usize] += 1;
        request.enter_list(List::Running, now, steps, round);
        self.place(slot);
    }

    /// Whether a request entered its list while the present step was formed.
    pub(crate) fn moved_in_round(&self, slot: Slot) -> bool {
        self.requests[slot as usize].round == self.round.number
    }

    /// Forgets when the rank of a request may change.
    pub(super) fn forget_expiry(&mut self, slot: Slot) {
        if self.requests[slot as usize].forget_expiry() {
            self.expiry.remove(slot);
        }
    }

    /// Puts a request where its rank belongs in its list.
    pub(crate) fn place(&mut self, slot: Slot) {
        let request = &self.requests[slot as usize];
        match request.list {
            List::Gone => {}
            List::Queued => match &mut self.shared {
                Some(shared) => shared.place(slot, request.class, request.rank),
                None => self.sets.queued.set(slot, request.rank),
            },
            List::LeftOut => self.sets.left_out.set(slot, request.rank),
            List::Running => self.sets.running.set(slot, request.rank),
        }
    }

    /// Removes a request from the order of its list.
    fn unplace(&mut self, slot: Slot) {
        match self.requests[slot as usize].list {
            List::Gone => {}
            List::Queued => match &mut self.shared {
                Some(shared) => shared.remove(slot),
                None => self.sets.queued.remove(slot),
            },
            List::LeftOut => self.sets.left_out.remove(slot),
            List::Running => self.sets.running.remove(slot),
        }
    }

    /// The best request that the latest step does not run, queued or left out.
    pub(crate) fn best_idle(&self) -> Option<(RankKey, Slot)> {
        match (self.sets.queued.first(), self.sets.left_out.first()) {
            (Some(queued), Some(left)) => Some(if queued.0 < left.0 { queued } else { left }),
            (queued, left) => queued.or(left),
        }
    }

    /// Takes a request out of the order of its list, in which [`Self::place`] puts it back.
    pub(crate) fn take(&mut self, slot: Slot) {
        self.unplace(slot);
    }

    /// The running requests, the worst first.
    pub(crate) fn running_worst_first(&self) -> Vec<(RankKey, Slot)> {
        self.sets.running.sorted()
    }

    /// A request whose rank may have changed by the decode set's `step`, and at which
    /// step that was. Evaluating it notes when its rank may change next.
    pub(crate) fn due_by_step(&self, step: u64) -> Option<(u64, Slot)> {
        self.expiry.due_by_step(step)
    }

    /// A queued request whose rank may have changed by the instance's `steps`.
    pub(crate) fn due_by_idle(&self, steps: u64) -> Option<Slot> {
        self.expiry.due_by_idle(steps)
    }

    /// A request whose rank may have changed by `now`.
    pub(crate) fn due_by_time(&self, now: Ticks) -> Option<Slot> {
        self.expiry.due_by_time(now)
    }

    /// The last of the decode set's steps from `from` to `to`, the latter of which
    /// ended at `now`, up to which a member's class does not change.
    pub(crate) fn same_class_until(&self, slot: Slot, from: u64, to: u64, now: Ticks) -> u64 {
        let (step, moment) = self.requests[slot as usize].progress().class_due;
        if now < moment { step.clamp(from, to) } else { from }
    }

    /// Forgets at which step of the decode set the rank of a request may change: it is
    /// not a member.
    pub(crate) fn forget_step(&mut self, slot: Slot) {
        self.expiry.remove_step(slot);
    }

    /// The decode set's step at which a rank may change next.
    pub(crate) fn next_step(&self) -> u64 {
        self.expiry.next_step()
    }

    /// The decode set's step at which a class may change next.
    pub(crate) fn next_class(&self) -> u64 {
        self.expiry.next_class()
    }

    /// The instance's step at which the rank of a queued request may change next.
    pub(crate) fn next_idle(&self) -> u64 {
        self.expiry.next_idle()
    }

    /// When a rank may change next, or all are refreshed next.
    pub(crate) fn next_time(&self) -> Ticks {
        let next = self.expiry.next_time().min(self.next_due_arrival());
        match self.rules.refresh.ticks {
            0 => next,
            period => next.min((self.refreshed / period + 1).saturating_mul(period)),
        }
    }

    /// Steps of the instance until all ranks are refreshed, or requests may go to the first level.
    pub(crate) fn steps_to_refresh(&self, steps: u64) -> u64 {
        let left = |period: u64| if period == 0 { u64::MAX } else { period - steps % period };
        let promotes = self.rules.levels.as_ref().map_or(0, |levels| levels.every);
        left(self.rules.refresh.steps).min(left(promotes))
    }

    /// Whether a rank may change though nothing happens to its request: by the clock,
    /// while it is queued, or by a refresh.
    pub(crate) fn may_drift(&self) -> bool {
        self.rules.refresh.is_set()
            || self.rules.levels.is_some()
            || self.expiry.has_drifting()
            || self.next_due_arrival() < NEVER
    }

    /// Whether all ranks are refreshed at a step that starts at `now`, after `steps`.
    pub(crate) fn refreshes(&mut self, now: Ticks, steps: u64) -> bool {
        let refresh = self.rules.refresh;
        let by_time = refresh.ticks > 0 && now / refresh.ticks > self.refreshed / refresh.ticks;
        // A step that could not be formed is counted again.
        let by_step = refresh.steps > 0 && steps.is_multiple_of(refresh.steps);
        self.refreshed = now;
        by_time || by_step
    }
}
