//! Where each request of an instance stands among all others there: those who
//! run, those who wait and those who were swapped out, in one order.
//!
//! A rank is settled by events: a request arrives, is admitted, gives way,
//! enters another class, uses up a quantum. Between two events it holds for a
//! known number of steps, or of ticks, which bounds a leap. So nobody is looked
//! at whose rank cannot have changed. The two orders that are asked for, the
//! best of those who wait and the worst of those who run, are heaps whose
//! outdated entries are passed over.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::active::Slot;
use super::view::{OfRequest, RequestView};
use crate::config::{MOST_KEYS, Ranking};
use crate::policy::{Until, holds, sort_key};
use crate::time::Ticks;
use crate::trace::Trace;

/// A place in the order; smaller is better.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    class: u32,
    keys: [i64; MOST_KEYS],
    row: u32,
}

/// Which list a request is in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum List {
    /// None: it has left.
    #[default]
    Gone,
    /// It waits for admission.
    Queued,
    /// It is admitted.
    Running,
}

/// What is kept of one request.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Entry {
    pub(super) rank: Rank,
    pub(super) list: List,
    /// Tells entries of the two orders from outdated ones.
    rank_stamp: u32,
    /// The same for the moments at which its rank may change.
    until_stamp: u32,
    /// Whether it has entered a class yet.
    placed: bool,
    /// Tokens that it had yielded when it entered its class.
    pub(super) base: u32,
    /// When that was.
    pub(super) joined: Ticks,
    /// Since when it is in its list.
    pub(super) since: Ticks,
    /// Steps that the instance had taken then.
    pub(super) since_steps: u64,
    /// How long it was admitted before.
    pub(super) attained: Ticks,
    /// The latest step in whose forming it came in, or gave way.
    shifted: u64,
    /// Answering, and in its first quantum.
    fresh: bool,
    /// The decode set's step at which its class may change, as last noted.
    class_due: u64,
    class_stamp: u32,
}

type Moment = Reverse<(u64, Slot, u32)>;

/// See the module.
#[derive(Debug)]
pub(super) struct Ranks {
    pub(super) rules: Ranking,
    entries: Vec<Entry>,
    running: BinaryHeap<(Rank, Slot, u32)>,
    queued: BinaryHeap<Reverse<(Rank, Slot, u32)>>,
    /// By the decode set's step counter, of its members.
    by_step: BinaryHeap<Moment>,
    /// The same, of changes of class alone.
    by_class: BinaryHeap<Moment>,
    /// By the instance's step counter, of those who wait.
    by_idle: BinaryHeap<Moment>,
    by_time: BinaryHeap<Moment>,
    members: Vec<u64>,
    fresh: u64,
    lists: [u64; 3],
    /// Counts the steps formed, to know who gave way in the present one.
    pub(super) round: u64,
    refreshed: Ticks,
}

impl Ranks {
    pub(super) fn new(rules: Ranking) -> Self {
        Self {
            members: vec![0; rules.classes.len()],
            rules,
            entries: Vec::new(),
            running: BinaryHeap::new(),
            queued: BinaryHeap::new(),
            by_step: BinaryHeap::new(),
            by_class: BinaryHeap::new(),
            by_idle: BinaryHeap::new(),
            by_time: BinaryHeap::new(),
            fresh: 0,
            lists: [0; 3],
            round: 0,
            refreshed: 0,
        }
    }

    #[inline]
    pub(super) fn entry(&self, slot: Slot) -> &Entry {
        &self.entries[slot as usize]
    }

    /// Requests that wait for admission.
    #[inline]
    pub(super) fn waiting(&self) -> u64 {
        self.lists[List::Queued as usize]
    }

    /// Requests in a class.
    pub(super) fn in_class(&self, class: u32) -> u64 {
        self.members.get(class as usize).copied().unwrap_or(0)
    }

    /// Answering requests in their first quantum.
    #[inline]
    pub(super) fn fresh(&self) -> u64 {
        self.fresh
    }

    /// Slots with a rank.
    pub(super) fn slots(&self) -> Vec<Slot> {
        let live = |slot: &usize| self.entries[*slot].list != List::Gone;
        (0..self.entries.len()).filter(live).map(|slot| slot as Slot).collect()
    }

    /// Takes in a request that is new here.
    pub(super) fn enter(&mut self, slot: Slot, now: Ticks, steps: u64, attained: Ticks) {
        let at = slot as usize;
        if at >= self.entries.len() {
            self.entries.resize(at + 1, Entry::default());
        }
        let old = self.entries[at];
        self.entries[at] = Entry {
            list: List::Queued,
            rank_stamp: old.rank_stamp.wrapping_add(1),
            until_stamp: old.until_stamp.wrapping_add(1),
            class_stamp: old.class_stamp.wrapping_add(1),
            since: now,
            since_steps: steps,
            attained,
            ..Entry::default()
        };
        self.lists[List::Queued as usize] += 1;
    }

    /// Moves a request to another list.
    pub(super) fn shift(&mut self, slot: Slot, to: List, now: Ticks, steps: u64) {
        let entry = &mut self.entries[slot as usize];
        if entry.list == List::Running {
            entry.attained += now - entry.since;
        }
        entry.shifted = self.round;
        self.lists[entry.list as usize] -= 1;
        self.lists[to as usize] += 1;
        (entry.list, entry.since, entry.since_steps) = (to, now, steps);
        entry.rank_stamp = entry.rank_stamp.wrapping_add(1);
        entry.until_stamp = entry.until_stamp.wrapping_add(1);
        if to == List::Gone {
            self.members[entry.rank.class as usize] -= u64::from(entry.placed);
            self.fresh -= u64::from(entry.fresh);
            (entry.placed, entry.fresh) = (false, false);
        }
    }

    /// Admits a request whose rank stays what it is.
    pub(super) fn admit(&mut self, slot: Slot, now: Ticks, steps: u64) {
        let entry = &mut self.entries[slot as usize];
        self.lists[entry.list as usize] -= 1;
        self.lists[List::Running as usize] += 1;
        (entry.list, entry.since, entry.since_steps) = (List::Running, now, steps);
        entry.shifted = self.round;
        entry.rank_stamp = entry.rank_stamp.wrapping_add(1);
        self.list(slot);
    }

    /// Whether a request that waits gave way while the present step was formed.
    #[inline]
    pub(super) fn gave_way(&self, slot: Slot) -> bool {
        self.entry(slot).shifted == self.round
    }

    /// Whether a request that runs came in while the present step was formed.
    #[inline]
    pub(super) fn has_just_come(&self, slot: Slot) -> bool {
        self.entry(slot).shifted == self.round
    }

    /// Looks at a request anew; `keys`: at what ranks it in its class too.
    /// `steps` is the counter by which it counts its steps: the decode set's
    /// for a member, the instance's for others; `remembers`: it is noted when to
    /// look again. Returns whether its rank changed, which puts it in its list.
    pub(super) fn place(
        &mut self,
        slot: Slot,
        view: &RequestView,
        keys: bool,
        steps: u64,
        remembers: bool,
        trace: &Trace,
    ) -> bool {
        let mut entry = self.entries[slot as usize];
        let mut until = Until::EVER;
        let mut view = *view;
        let held = self.held(&entry, &view, &mut until);
        let class = if held {
            entry.rank.class
        } else {
            let mut scope = OfRequest { view: &view, trace };
            let takes = |class: &crate::config::Class| {
                class.when.as_ref().is_none_or(|when| holds(when, &mut scope, &mut until))
            };
            self.rules.classes.iter().position(takes).unwrap_or(0) as u32
        };
        let entered = !entry.placed || class != entry.rank.class;
        if entered {
            self.members[entry.rank.class as usize] -= u64::from(entry.placed);
            self.members[class as usize] += 1;
            (entry.base, entry.joined, entry.placed) = (view.generated, view.now, true);
            (view.base, view.joined) = (entry.base, entry.joined);
            let mut anew = Until::EVER;
            if self.held(&Entry { rank: Rank { class, ..entry.rank }, ..entry }, &view, &mut anew) {
                until.steps = until.steps.min(anew.steps);
            }
        }
        let class_until = until.steps;
        let fresh = self.rules.quantum > 0 && view.phase(trace) == 2 && view.quanta() == 0;
        if self.rules.quantum > 0 {
            for left in
                [view.steps_to_answer(trace), view.steps_to_quantum().filter(|_| fresh)].into_iter().flatten()
            {
                until.within_steps(u64::from(left));
            }
        }
        self.fresh = self.fresh + u64::from(fresh) - u64::from(entry.fresh);
        entry.fresh = fresh;
        let mut rank = Rank { class, row: view.row, ..entry.rank };
        if keys || entered || !self.rules.refresh.is_set() {
            let lasting = until;
            let mut scope = OfRequest { view: &view, trace };
            rank.keys = [0; MOST_KEYS];
            for (key, expr) in rank.keys.iter_mut().zip(&self.rules.classes[class as usize].keys) {
                *key = sort_key(expr, &mut scope, &mut until);
            }
            if self.rules.refresh.is_set() {
                until = lasting;
            }
        }
        let changed = rank != entry.rank || entered;
        entry.rank = rank;
        if changed {
            entry.rank_stamp = entry.rank_stamp.wrapping_add(1);
        }
        entry.until_stamp = entry.until_stamp.wrapping_add(1);
        let class_due = if view.decoding { steps.saturating_add(class_until) } else { u64::MAX };
        if class_due != entry.class_due && remembers {
            entry.class_due = class_due;
            entry.class_stamp = entry.class_stamp.wrapping_add(1);
            if class_due != u64::MAX {
                self.by_class.push(Reverse((class_due, slot, entry.class_stamp)));
            }
        }
        self.entries[slot as usize] = entry;
        if self.by_class.len() as u64 > 64 + 4 * self.lists[List::Running as usize] {
            let entries = &self.entries;
            self.by_class.retain(|&Reverse((_, slot, stamp))| entries[slot as usize].class_stamp == stamp);
        }
        if changed {
            self.list(slot);
        }
        if remembers {
            self.remember(slot, &view, until, steps);
        }
        changed
    }

    /// Whether a request stays in its class whatever holds of it now.
    fn held(&self, entry: &Entry, view: &RequestView, until: &mut Until) -> bool {
        if !entry.placed {
            return false;
        }
        let hold = self.rules.classes[entry.rank.class as usize].hold;
        let left = hold.saturating_sub(view.generated - entry.base);
        if left > 0 && view.decoding {
            until.within_steps(u64::from(left));
        }
        left > 0
    }

    /// Notes when a request is to be looked at again.
    fn remember(&mut self, slot: Slot, view: &RequestView, until: Until, steps: u64) {
        let stamp = self.entries[slot as usize].until_stamp;
        if until.steps != u64::MAX {
            let heap = if view.decoding { &mut self.by_step } else { &mut self.by_idle };
            heap.push(Reverse((steps.saturating_add(until.steps), slot, stamp)));
        }
        if until.ticks != u64::MAX {
            self.by_time.push(Reverse((view.now.saturating_add(until.ticks), slot, stamp)));
        }
    }

    /// Puts a request where its rank belongs, in the order of its list.
    pub(super) fn list(&mut self, slot: Slot) {
        let entry = &self.entries[slot as usize];
        let (rank, stamp) = (entry.rank, entry.rank_stamp);
        match entry.list {
            List::Gone => {}
            List::Queued => {
                self.queued.push(Reverse((rank, slot, stamp)));
                let entries = &self.entries;
                if self.queued.len() as u64 > 64 + 4 * self.lists[List::Queued as usize] {
                    self.queued
                        .retain(|&Reverse((_, slot, stamp))| entries[slot as usize].rank_stamp == stamp);
                }
            }
            List::Running => {
                self.running.push((rank, slot, stamp));
                let entries = &self.entries;
                if self.running.len() as u64 > 64 + 4 * self.lists[List::Running as usize] {
                    self.running.retain(|&(_, slot, stamp)| entries[slot as usize].rank_stamp == stamp);
                }
            }
        }
    }

    /// The best of those who wait.
    pub(super) fn front(&mut self) -> Option<Slot> {
        while let Some(&Reverse((_, slot, stamp))) = self.queued.peek() {
            if self.entries[slot as usize].rank_stamp == stamp {
                return Some(slot);
            }
            self.queued.pop();
        }
        None
    }

    /// The worst of those who run.
    pub(super) fn worst(&mut self) -> Option<Slot> {
        while let Some(&(_, slot, stamp)) = self.running.peek() {
            if self.entries[slot as usize].rank_stamp == stamp {
                return Some(slot);
            }
            self.running.pop();
        }
        None
    }

    /// Takes the worst of those who run out of their order, for now: `list`
    /// puts it back.
    pub(super) fn pop_worst(&mut self) -> Option<Slot> {
        let slot = self.worst()?;
        self.running.pop();
        Some(slot)
    }

    /// A member of the decode set whose rank may have changed by its step
    /// counter's `steps`, and at which step that was.
    pub(super) fn pop_step(&mut self, steps: u64) -> Option<(u64, Slot)> {
        pop_moment(&mut self.by_step, &self.entries, steps)
    }

    /// One who waits and whose rank may have changed by the instance's `steps`.
    pub(super) fn pop_idle(&mut self, steps: u64) -> Option<(u64, Slot)> {
        pop_moment(&mut self.by_idle, &self.entries, steps)
    }

    /// Somebody whose rank may have changed by `now`.
    pub(super) fn pop_time(&mut self, now: Ticks) -> Option<(u64, Slot)> {
        pop_moment(&mut self.by_time, &self.entries, now)
    }

    /// The decode set's step at which a rank may change next.
    pub(super) fn next_step(&mut self) -> u64 {
        peek_moment(&mut self.by_step, &self.entries)
    }

    /// The decode set's step at which a class may change next.
    pub(super) fn next_class(&mut self) -> u64 {
        while let Some(&Reverse((at, slot, stamp))) = self.by_class.peek() {
            let entry = &self.entries[slot as usize];
            if entry.class_stamp == stamp && entry.list == List::Running {
                return at;
            }
            self.by_class.pop();
        }
        u64::MAX
    }

    /// The instance's step at which one may, of those who wait.
    pub(super) fn next_idle(&mut self) -> u64 {
        peek_moment(&mut self.by_idle, &self.entries)
    }

    /// When one may, of anybody; or when all are to be looked at.
    pub(super) fn next_time(&mut self) -> Ticks {
        let next = peek_moment(&mut self.by_time, &self.entries);
        match self.rules.refresh.ticks {
            0 => next,
            period => next.min((self.refreshed / period + 1).saturating_mul(period)),
        }
    }

    /// Steps of the instance until all are to be looked at.
    pub(super) fn steps_to_refresh(&self, steps: u64) -> u64 {
        match self.rules.refresh.steps {
            0 => u64::MAX,
            period => period - steps % period,
        }
    }

    /// Whether all are to be looked at, at a step that starts at `now`.
    pub(super) fn refreshes(&mut self, now: Ticks, steps: u64) -> bool {
        let rules = self.rules.refresh;
        let by_time = rules.ticks > 0 && now / rules.ticks > self.refreshed / rules.ticks;
        // Though it may have been tried before in vain, after as many steps.
        let by_step = rules.steps > 0 && steps.is_multiple_of(rules.steps);
        self.refreshed = now;
        by_time || by_step
    }
}

fn pop_moment(heap: &mut BinaryHeap<Moment>, entries: &[Entry], by: u64) -> Option<(u64, Slot)> {
    while let Some(&Reverse((at, slot, stamp))) = heap.peek() {
        let current = entries[slot as usize].until_stamp == stamp;
        if current && at > by {
            return None;
        }
        heap.pop();
        if current {
            return Some((at, slot));
        }
    }
    None
}

fn peek_moment(heap: &mut BinaryHeap<Moment>, entries: &[Entry]) -> u64 {
    while let Some(&Reverse((at, slot, stamp))) = heap.peek() {
        if entries[slot as usize].until_stamp == stamp {
            return at;
        }
        heap.pop();
    }
    u64::MAX
}
