//! Where each request of an instance stands among all others there: those who
//! run, those who wait and those who were swapped out, in one order.
//!
//! A rank is settled by events: a request arrives, is admitted, gives way,
//! enters another class, uses up a quantum. Between two events it holds for a
//! known number of steps, or of ticks, which bounds a leap. So nobody is looked
//! at whose rank cannot have changed.

use super::active::Slot;
use super::lists::{Falling, Queued, Running};
use super::rank::Rank;
use super::view::{OfRequest, RequestView};
use crate::collections::IndexedHeap;
use crate::collections::StepWheel;
use crate::config::{Class, MOST_KEYS, Ranking};
use crate::policy::{Condition, Expr, Field, ReqField, Validity, sort_key, sort_key_of};
use crate::time::Ticks;
use crate::trace::Trace;

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

/// How a request is looked at.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub(super) struct Look {
    /// Whether also at what ranks it in its class.
    pub(super) keys: bool,
    /// The counter by which it counts its steps: the decode set's for a member,
    /// the instance's for others.
    pub(super) steps: u64,
    /// Whether it was a member already when it was last looked at.
    pub(super) goes_on: bool,
    /// Whether it is noted when to look again.
    pub(super) remembers: bool,
    /// Whether it is looked at as the member that it will be.
    pub(super) waits: bool,
}

/// What is kept of one request.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub(super) struct Entry {
    pub(super) rank: Rank,
    class: u32,
    pub(super) list: List,
    keys: [i64; MOST_KEYS],
    /// Whether it has entered a class yet.
    placed: bool,
    /// Answering, and in its first quantum.
    fresh: bool,
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
    /// The decode set's step, and the moment, before which a member's class
    /// surely stays what it is.
    class_due: (u64, Ticks),
    /// Whether it is noted when a member is to be looked at again.
    noted: bool,
    /// Whether anything was noted of it since it came into its list.
    awaited: bool,
    /// Tokens until its rank, and its class, may change, of one who waits to
    /// decode on and whose rank only tokens can change.
    left: Option<(u64, u64)>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Ranks {
    pub(super) rules: Ranking,
    entries: Vec<Entry>,
    running: Running,
    queued: Queued,
    /// By the decode set's step counter, of its members.
    by_step: StepWheel,
    /// The same, of changes of class alone.
    by_class: StepWheel,
    /// By the instance's step counter, of those who wait.
    by_idle: IndexedHeap<u64>,
    by_time: IndexedHeap<Ticks>,
    /// Whom each class takes.
    takes: Vec<Condition>,
    /// How many each has.
    members: Vec<u64>,
    /// Which keys of a class are the quanta used up, where the others are what
    /// they are as long as one is in it; else nothing.
    by_quanta: Vec<Option<[bool; MOST_KEYS]>>,
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
            takes: rules.classes.iter().map(|class| Condition::new(class.when.as_ref())).collect(),
            by_quanta: rules.classes.iter().map(|class| by_quanta(&rules, class)).collect(),
            rules,
            entries: Vec::new(),
            running: Running::default(),
            queued: Queued::default(),
            by_step: StepWheel::default(),
            by_class: StepWheel::default(),
            by_idle: IndexedHeap::default(),
            by_time: IndexedHeap::default(),
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
        self.entries[at] =
            Entry { list: List::Queued, since: now, since_steps: steps, attained, ..Entry::default() };
        self.lists[List::Queued as usize] += 1;
    }

    /// Moves a request to another list, where it has its place once it is
    /// [listed](Self::list).
    pub(super) fn shift(&mut self, slot: Slot, to: List, now: Ticks, steps: u64) {
        self.entries[slot as usize].left = None;
        self.unlist(slot);
        self.forget(slot);
        let entry = &mut self.entries[slot as usize];
        if entry.list == List::Running {
            entry.attained += now - entry.since;
        }
        entry.shifted = self.round;
        self.lists[entry.list as usize] -= 1;
        self.lists[to as usize] += 1;
        (entry.list, entry.since, entry.since_steps) = (to, now, steps);
        if to == List::Gone {
            self.members[entry.class as usize] -= u64::from(entry.placed);
            self.fresh -= u64::from(entry.fresh);
            (entry.placed, entry.fresh) = (false, false);
        }
    }

    /// Nothing is awaited of a request any more.
    #[inline]
    fn forget(&mut self, slot: Slot) {
        if std::mem::take(&mut self.entries[slot as usize].awaited) {
            self.forget_awaited(slot);
        }
    }

    #[inline(never)]
    fn forget_awaited(&mut self, slot: Slot) {
        self.by_step.remove(slot);
        self.by_class.remove(slot);
        self.by_idle.remove(slot);
        self.by_time.remove(slot);
    }

    /// Has a member of the decode set, which has taken `step` steps, wait whose
    /// rank stays what it is until it has more tokens. Returns whether that is
    /// known of it; else it is to be [shifted](Self::shift).
    pub(super) fn suspend(&mut self, slot: Slot, step: u64, now: Ticks, steps: u64) -> bool {
        let known = self.entries[slot as usize].noted;
        if known {
            let left =
                |agenda: &StepWheel| agenda.step(slot).map_or(u64::MAX, |due| due.saturating_sub(step));
            let left = (left(&self.by_step), left(&self.by_class));
            self.shift(slot, List::Queued, now, steps);
            self.entries[slot as usize].left = Some(left);
            self.list(slot);
        }
        known
    }

    /// Has somebody go on as a member of the decode set, which has taken `step`
    /// steps. Returns whether it is known when to look at it again.
    pub(super) fn resume(&mut self, slot: Slot, step: u64) -> bool {
        let entry = &mut self.entries[slot as usize];
        let Some((rank, class)) = entry.left.take() else { return false };
        let at = |left: u64| Some(step.saturating_add(left)).filter(|_| left != u64::MAX);
        (entry.noted, entry.awaited) = (true, true);
        entry.class_due = (step.saturating_add(class), Ticks::MAX);
        self.by_step.set_or_remove(slot, at(rank), step);
        self.by_class.set_or_remove(slot, at(class), step);
        true
    }

    /// Admits a request whose rank stays what it is.
    pub(super) fn admit(&mut self, slot: Slot, now: Ticks, steps: u64) {
        self.unlist(slot);
        let entry = &mut self.entries[slot as usize];
        self.lists[entry.list as usize] -= 1;
        self.lists[List::Running as usize] += 1;
        (entry.list, entry.since, entry.since_steps) = (List::Running, now, steps);
        entry.shifted = self.round;
        self.list(slot);
    }

    /// Whether a request that waits gave way while the present step was formed.
    #[inline]
    pub(super) fn gave_way(&self, slot: Slot) -> bool {
        self.entry(slot).shifted == self.round
    }

    /// Looks at a request anew. Returns whether its rank changed, which puts it
    /// in its list.
    pub(super) fn place(&mut self, slot: Slot, view: &mut RequestView, look: Look, trace: &Trace) -> bool {
        let Look { keys, steps, goes_on, remembers, waits } = look;
        let Self { rules, takes, entries, members, by_quanta, .. } = self;
        let entry = &mut entries[slot as usize];
        let mut validity = Validity::EVER;
        let class = if entry.is_held(rules, view, &mut validity) {
            entry.class
        } else if goes_on && steps < entry.class_due.0 && view.now < entry.class_due.1 {
            let (step, moment) = entry.class_due;
            let left = |due: u64, now: u64| if due == u64::MAX { due } else { due - now };
            validity = Validity { steps: left(step, steps), ticks: left(moment, view.now) };
            entry.class
        } else {
            class_of(takes, view, trace, &mut validity)
        };
        let entered = !entry.placed || class != entry.class;
        if entered {
            members[entry.class as usize] -= u64::from(entry.placed);
            members[class as usize] += 1;
            entry.class = class;
            (entry.base, entry.joined, entry.placed) = (view.generated, view.now, true);
            (view.base, view.joined) = (entry.base, entry.joined);
            let mut anew = Validity::EVER;
            if entry.is_held(rules, view, &mut anew) {
                validity.steps = validity.steps.min(anew.steps);
            }
        }
        let class_until = validity;
        if rules.quantum > 0 {
            let answers = view.phase(trace) == 2;
            let fresh = answers && view.quanta() == 0;
            self.fresh = self.fresh + u64::from(fresh) - u64::from(entry.fresh);
            entry.fresh = fresh;
            let ends =
                if answers { view.steps_to_quantum().filter(|_| fresh) } else { view.steps_to_answer(trace) };
            if let Some(left) = ends {
                validity.within_steps(u64::from(left));
            }
        }
        let mut changed = entered;
        if let Some(counts) = by_quanta[class as usize].filter(|_| !entered) {
            if let Some(left) = view.steps_to_quantum() {
                validity.within_steps(u64::from(left));
            }
            changed = entry.count(counts, view.quanta());
        } else if keys || entered || !rules.refresh.is_set() {
            let lasting = validity;
            let mut scope = OfRequest { view, trace };
            let mut found = [0; MOST_KEYS];
            for (key, expr) in found.iter_mut().zip(&rules.classes[class as usize].keys) {
                *key = sort_key(expr, &mut scope, &mut validity);
            }
            if rules.refresh.is_set() {
                validity = lasting;
            }
            let rank = Rank::new(class, found, view.row);
            changed |= rank != entry.rank;
            (entry.rank, entry.keys) = (rank, found);
        }
        if view.decoding {
            entry.class_due =
                (steps.saturating_add(class_until.steps), view.now.saturating_add(class_until.ticks));
        }
        entry.noted = remembers && view.decoding && !waits;
        entry.left = (remembers && waits).then_some((validity.steps, class_until.steps));
        if changed {
            self.list(slot);
        }
        if remembers && !waits {
            self.remember(slot, view, class_until, validity, steps);
        }
        changed
    }

    /// Looks anew at a member that goes on in its class, whose rank changes with
    /// its quanta alone; it has yielded `generated` tokens and, after `to_answer`
    /// steps if that is known, answers. Returns whether it was such a one; else
    /// it is to be [placed](Self::place).
    pub(super) fn count_quanta(
        &mut self,
        slot: Slot,
        generated: u32,
        to_answer: Option<u64>,
        step: u64,
        now: Ticks,
    ) -> bool {
        let quantum = self.rules.quantum;
        let entry = &mut self.entries[slot as usize];
        let Some(counts) = self.by_quanta[entry.class as usize] else { return false };
        let (class_due, moment) = entry.class_due;
        if step >= class_due || now >= moment {
            return false;
        }
        let spent = generated - entry.base;
        let (quanta, left) = (spent / quantum, u64::from(quantum - spent % quantum));
        let changed = entry.count(counts, quanta);
        let fresh = to_answer.is_none() && quanta == 0;
        self.fresh = self.fresh + u64::from(fresh) - u64::from(entry.fresh);
        entry.fresh = fresh;
        entry.noted = true;
        if changed {
            self.list(slot);
        }
        let due = (step + left.min(to_answer.unwrap_or(left))).min(class_due);
        self.by_step.set(slot, due, step);
        true
    }

    /// Notes when a request is to be looked at again.
    fn remember(&mut self, slot: Slot, view: &RequestView, class: Validity, validity: Validity, steps: u64) {
        if validity == Validity::EVER && class.steps == u64::MAX {
            self.forget(slot);
            return;
        }
        self.entries[slot as usize].awaited = true;
        let at =
            |base: u64, validity: u64| Some(base.saturating_add(validity)).filter(|_| validity != u64::MAX);
        let (moving, idle) =
            if view.decoding { (validity.steps, u64::MAX) } else { (u64::MAX, validity.steps) };
        let class = if view.decoding { class.steps } else { u64::MAX };
        self.by_step.set_or_remove(slot, at(steps, moving), steps);
        self.by_class.set_or_remove(slot, at(steps, class), steps);
        self.by_idle.set_or_remove(slot, at(steps, idle));
        self.by_time.set_or_remove(slot, at(view.now, validity.ticks));
    }

    /// Puts a request where its rank belongs, in the order of its list.
    pub(super) fn list(&mut self, slot: Slot) {
        let entry = &self.entries[slot as usize];
        match entry.list {
            List::Gone => {}
            List::Queued => self.queued.set(slot, entry.rank),
            List::Running => self.running.set(slot, entry.rank),
        }
    }

    /// Takes a request out of the order of its list.
    fn unlist(&mut self, slot: Slot) {
        match self.entries[slot as usize].list {
            List::Gone => {}
            List::Queued => self.queued.remove(slot),
            List::Running => self.running.remove(slot),
        }
    }

    /// The best of those who wait.
    #[inline]
    pub(super) fn front(&self) -> Option<Slot> {
        if self.waiting() == 0 { None } else { self.queued.best() }
    }

    /// The worst of those who run.
    #[inline]
    pub(super) fn worst(&mut self) -> Option<Slot> {
        self.running.worst().map(|(_, slot)| slot)
    }

    /// Those who run with a worse rank than `rank`, the worst first; but not
    /// those who came in while the present step was formed.
    pub(super) fn worse_than(&mut self, rank: Rank) -> impl Iterator<Item = Slot> + '_ {
        let Self { running, entries, round, .. } = self;
        Falling::new(running)
            .take_while(move |(worse, _)| *worse > rank)
            .map(|(_, slot)| slot)
            .filter(|&slot| entries[slot as usize].shifted != *round)
    }

    /// A member of the decode set whose rank may have changed by its step
    /// counter's `steps`, and at which step that was. To look at it notes when
    /// to look again.
    #[inline]
    pub(super) fn due_by_step(&self, steps: u64) -> Option<(u64, Slot)> {
        self.by_step.due(steps)
    }

    /// Up to which of the decode set's steps from `from` to `to`, the last of which
    /// ended at `now`, a member's class surely stays what it is.
    #[inline]
    pub(super) fn same_class_until(&self, slot: Slot, from: u64, to: u64, now: Ticks) -> u64 {
        let (step, moment) = self.entry(slot).class_due;
        if now < moment { step.clamp(from, to) } else { from }
    }

    /// Nothing is due of a request at any of the decode set's steps.
    pub(super) fn leave_steps(&mut self, slot: Slot) {
        self.by_step.remove(slot);
        self.entries[slot as usize].noted = false;
    }

    /// One who waits and whose rank may have changed by the instance's `steps`.
    #[inline]
    pub(super) fn due_by_idle(&self, steps: u64) -> Option<Slot> {
        self.by_idle.first().filter(|(due, _)| *due <= steps).map(|(_, slot)| slot)
    }

    /// Somebody whose rank may have changed by `now`.
    #[inline]
    pub(super) fn due_by_time(&self, now: Ticks) -> Option<Slot> {
        self.by_time.first().filter(|(due, _)| *due <= now).map(|(_, slot)| slot)
    }

    /// The decode set's step at which a rank may change next.
    #[inline]
    pub(super) fn next_step(&self) -> u64 {
        self.by_step.next()
    }

    /// The decode set's step at which a class may change next.
    #[inline]
    pub(super) fn next_class(&self) -> u64 {
        self.by_class.next()
    }

    /// The instance's step at which one may, of those who wait.
    #[inline]
    pub(super) fn next_idle(&self) -> u64 {
        self.by_idle.next()
    }

    /// When one may, of anybody; or when all are to be looked at.
    #[inline]
    pub(super) fn next_time(&self) -> Ticks {
        let next = self.by_time.next();
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

    /// Whether a rank may change though nothing happens to its request: by the
    /// clock, while it waits, or because all are looked at every so often.
    #[inline]
    pub(super) fn may_change_by_itself(&self) -> bool {
        self.rules.refresh.is_set() || !self.by_time.is_empty() || !self.by_idle.is_empty()
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

impl Entry {
    /// Has those of its keys that count quanta be `quanta`. Returns whether they
    /// were not, which changes its rank.
    #[inline]
    fn count(&mut self, counts: [bool; MOST_KEYS], quanta: u32) -> bool {
        let quanta = sort_key_of(f64::from(quanta));
        let mut changed = false;
        for (key, counts) in self.keys.iter_mut().zip(counts) {
            if counts && *key != quanta {
                (*key, changed) = (quanta, true);
            }
        }
        if changed {
            self.rank = Rank::new(self.class, self.keys, self.rank.row());
        }
        changed
    }

    /// Whether a request stays in its class whatever holds of it now.
    #[inline]
    fn is_held(&self, rules: &Ranking, view: &RequestView, validity: &mut Validity) -> bool {
        if !self.placed {
            return false;
        }
        let left = rules.classes[self.class as usize].hold.saturating_sub(view.generated - self.base);
        if left > 0 && view.decoding {
            validity.within_steps(u64::from(left));
        }
        left > 0
    }
}

/// The first class that takes a request.
fn class_of(takes: &[Condition], view: &RequestView, trace: &Trace, validity: &mut Validity) -> u32 {
    let mut scope = OfRequest { view, trace };
    takes.iter().position(|takes| takes.holds(&mut scope, validity)).unwrap_or(0) as u32
}

/// Which keys of a class are the quanta used up, if all others are what they are
/// as long as a request is in it, and nothing holds it there.
fn by_quanta(rules: &Ranking, class: &Class) -> Option<[bool; MOST_KEYS]> {
    let fixed = |field: ReqField| {
        matches!(
            field,
            ReqField::ArrivalS
                | ReqField::JoinedS
                | ReqField::PromptTokens
                | ReqField::Priority
                | ReqField::Score
                | ReqField::Tenant
                | ReqField::OutputTokens
                | ReqField::ReasoningTokens
        )
    };
    let mut counts = [false; MOST_KEYS];
    for (counts, key) in counts.iter_mut().zip(&class.keys) {
        *counts = matches!(key, Expr::Field(Field::Req(ReqField::Quanta)));
        if !*counts && key.looks_at_request(&|field| !fixed(field)) {
            return None;
        }
    }
    (rules.quantum > 0 && class.hold == 0 && !rules.refresh.is_set()).then_some(counts)
}
