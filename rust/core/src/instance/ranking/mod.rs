//! The ranks of an instance's requests: running, queued and swapped out, in one
//! order.
//!
//! A rank is evaluated on events: a request arrives, is admitted, is preempted,
//! enters another class, or uses up a quantum. Between two events it is valid for
//! a known number of steps or ticks, which bounds a run. A rank that cannot have
//! changed is not evaluated.

mod entry;
mod expiry;
mod inputs;
mod key;
mod running_set;
mod waiting_set;

pub(crate) use entry::List;
pub(crate) use inputs::RankInputs;
pub(crate) use key::RankKey;

use entry::RankedRequest;
use expiry::{Expires, Expiry};
use running_set::RunningSet;
use waiting_set::WaitingSet;

use super::request::Slot;
use super::view::{OfRequest, RequestView};
use crate::config::{Class, MOST_KEYS, Ranking as RankingRules};
use crate::policy::{Condition, Expr, Field, ReqField, Validity, sort_key};
use crate::time::Ticks;
use crate::trace::Trace;

/// How a rank is evaluated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evaluation {
    /// Whether the class's keys are evaluated too.
    pub(crate) keys: bool,
    /// The step counter that applies: the decode set's for a member, the instance's
    /// for other requests.
    pub(crate) steps: u64,
    pub(crate) member: Membership,
}

/// What the request was, and will be, to the decode set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Membership {
    /// Nothing is known from an earlier evaluation.
    New,
    /// A member, as at the latest evaluation.
    Continues,
    /// Queued, and evaluated as the member that it will be once it resumes.
    Resumes,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Ranking {
    rules: RankingRules,
    inputs: RankInputs,
    requests: Vec<RankedRequest>,
    running: RunningSet,
    queued: WaitingSet,
    expiry: Expiry,
    classes: Classes,
    /// Requests by list.
    lists: [u64; 3],
    /// Answering requests in their first quantum.
    first_quantum: u64,
    /// Counts the steps formed, to know which requests entered a list in this one.
    round: u64,
    /// When all keys were last refreshed.
    refreshed: Ticks,
    /// Whether expiries are noted. Without leaping, every rank is evaluated at every
    /// step.
    leap: bool,
    /// Whether queued requests may displace running ones in this step.
    may_displace: bool,
}

/// The classes of a ranking.
#[derive(Debug)]
struct Classes {
    /// Which requests each class takes.
    conditions: Vec<Condition>,
    /// Requests in each class.
    members: Vec<u64>,
    /// Which keys of each class count quanta, where its other keys do not change
    /// while a request is in it.
    count_quanta: Vec<Option<[bool; MOST_KEYS]>>,
}

impl Ranking {
    /// A ranking of no requests. `caches`: whether the instance caches prefixes.
    pub(crate) fn new(rules: RankingRules, caches: bool, leap: bool) -> Self {
        let classes = Classes {
            members: vec![0; rules.classes.len()],
            conditions: rules.classes.iter().map(|class| Condition::new(class.when.as_ref())).collect(),
            count_quanta: rules.classes.iter().map(|class| keys_that_count_quanta(&rules, class)).collect(),
        };
        Self {
            inputs: RankInputs::new(&rules, caches),
            rules,
            requests: Vec::new(),
            running: RunningSet::default(),
            queued: WaitingSet::default(),
            expiry: Expiry::default(),
            classes,
            lists: [0; 3],
            first_quantum: 0,
            round: 0,
            refreshed: 0,
            leap,
            may_displace: false,
        }
    }

    /// What ranks are computed from.
    #[inline]
    pub(crate) fn inputs(&self) -> &RankInputs {
        &self.inputs
    }

    /// Whether keys are evaluated on every event, and not at intervals only.
    #[inline]
    pub(crate) fn evaluates_always(&self) -> bool {
        !self.rules.refresh.is_set()
    }

    /// The rank of a request.
    #[inline]
    pub(crate) fn rank(&self, slot: Slot) -> RankKey {
        self.requests[slot as usize].rank
    }

    /// Number of queued requests.
    #[inline]
    pub(crate) fn waiting(&self) -> u64 {
        self.lists[List::Queued as usize]
    }

    /// Number of requests in a class.
    pub(crate) fn in_class(&self, class: u32) -> u64 {
        self.classes.members.get(class as usize).copied().unwrap_or(0)
    }

    /// Answering requests in their first quantum; `None` without quanta.
    #[inline]
    pub(crate) fn in_first_quantum(&self) -> Option<u64> {
        (self.rules.quantum > 0).then_some(self.first_quantum)
    }

    /// Slots of all ranked requests.
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
    #[inline]
    pub(crate) fn describe(&self, slot: Slot, steps: u64, view: &mut RequestView) {
        let request = &self.requests[slot as usize];
        view.since = request.listed.0;
        view.attained = request.attained;
        view.idle_steps = steps.saturating_sub(request.listed.1);
        (view.joined, view.base) = request.entered;
        view.quantum = self.rules.quantum;
    }

    /// Starts to form a step. `may_displace`: whether queued requests may displace
    /// running ones in it.
    #[inline]
    pub(crate) fn begin_round(&mut self, may_displace: bool) {
        self.round += 1;
        self.may_displace = may_displace;
    }

    /// Whether queued requests may displace running ones in this step.
    #[inline]
    pub(crate) fn may_displace(&self) -> bool {
        self.may_displace
    }

    /// Adds a queued request that has come to the instance, where it has been
    /// admitted for `attained` before.
    pub(crate) fn enter(&mut self, slot: Slot, now: Ticks, steps: u64, attained: Ticks) {
        let at = slot as usize;
        if at >= self.requests.len() {
            self.requests.resize(at + 1, RankedRequest::default());
        }
        self.requests[at] = RankedRequest::queued(now, steps, attained);
        self.lists[List::Queued as usize] += 1;
    }

    /// Moves a request to another list, in which it has its place once it is
    /// [evaluated](Self::evaluate) or [placed](Self::place).
    pub(crate) fn move_to(&mut self, slot: Slot, list: List, now: Ticks, steps: u64) {
        self.unplace(slot);
        self.forget_expiry(slot);
        let round = self.round;
        let request = &mut self.requests[slot as usize];
        request.expires.on_resuming = None;
        if request.list == List::Running {
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
        let round = self.round;
        let request = &mut self.requests[slot as usize];
        self.lists[request.list as usize] -= 1;
        self.lists[List::Running as usize] += 1;
        request.enter_list(List::Running, now, steps, round);
        self.place(slot);
    }

    /// Queues a member of the decode set, which has taken `step` steps, whose rank
    /// does not change until it has more tokens. Returns whether that could be done
    /// without evaluating the rank; if not, the request is to be [moved](Self::move_to).
    pub(crate) fn suspend(&mut self, slot: Slot, step: u64, now: Ticks, steps: u64) -> bool {
        let known = self.requests[slot as usize].expires.is_noted;
        if known {
            let left = self.expiry.steps_left(slot, step);
            self.move_to(slot, List::Queued, now, steps);
            self.requests[slot as usize].expires.on_resuming = Some(left);
            self.place(slot);
        }
        known
    }

    /// Resumes a request as a member of the decode set, which has taken `step` steps.
    /// Returns whether its rank's expiry is known; if not, it is to be evaluated.
    pub(crate) fn resume(&mut self, slot: Slot, step: u64) -> bool {
        let expires = &mut self.requests[slot as usize].expires;
        let Some((rank, class)) = expires.on_resuming.take() else { return false };
        let at = |left: u64| Some(step.saturating_add(left)).filter(|_| left != u64::MAX);
        (expires.is_noted, expires.any_noted) = (true, true);
        expires.class = (step.saturating_add(class), Ticks::MAX);
        self.expiry.set_steps(slot, at(rank), at(class), step);
        true
    }

    /// Whether a request entered its list while the present step was formed.
    #[inline]
    pub(crate) fn moved_in_round(&self, slot: Slot) -> bool {
        self.requests[slot as usize].round == self.round
    }

    /// Evaluates the rank of a request. Returns whether it changed, in which case the
    /// request has its place in its list.
    pub(crate) fn evaluate(
        &mut self,
        slot: Slot,
        view: &mut RequestView,
        evaluation: Evaluation,
        trace: &Trace,
    ) -> bool {
        let Evaluation { keys, steps, member } = evaluation;
        let Self { rules, classes, requests, .. } = self;
        let request = &mut requests[slot as usize];
        let mut validity = Validity::EVER;
        let class = if request.is_held(rules, view.generated, view.decoding, &mut validity) {
            request.class
        } else if member == Membership::Continues
            && steps < request.expires.class.0
            && view.now < request.expires.class.1
        {
            let (step, moment) = request.expires.class;
            let left = |due: u64, now: u64| if due == u64::MAX { due } else { due - now };
            validity = Validity { steps: left(step, steps), ticks: left(moment, view.now) };
            request.class
        } else {
            classes.of(view, trace, &mut validity)
        };
        let entered = !request.has_class || class != request.class;
        if entered {
            classes.members[request.class as usize] -= u64::from(request.has_class);
            classes.members[class as usize] += 1;
            (request.class, request.has_class) = (class, true);
            request.entered = (view.now, view.generated);
            (view.joined, view.base) = request.entered;
            let mut held = Validity::EVER;
            if request.is_held(rules, view.generated, view.decoding, &mut held) {
                validity.steps = validity.steps.min(held.steps);
            }
        }
        let class_validity = validity;
        if rules.quantum > 0 {
            let answers = view.phase(trace) == 2;
            let first = answers && view.quanta() == 0;
            self.first_quantum = self.first_quantum + u64::from(first) - u64::from(request.in_first_quantum);
            request.in_first_quantum = first;
            let ends =
                if answers { view.steps_to_quantum().filter(|_| first) } else { view.steps_to_answer(trace) };
            if let Some(left) = ends {
                validity.within_steps(u64::from(left));
            }
        }
        let mut changed = entered;
        if let Some(counts) = classes.count_quanta[class as usize].filter(|_| !entered) {
            if let Some(left) = view.steps_to_quantum() {
                validity.within_steps(u64::from(left));
            }
            changed = request.set_quanta(counts, view.quanta());
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
            let rank = RankKey::new(class, found, view.row);
            changed |= rank != request.rank;
            (request.rank, request.keys) = (rank, found);
        }
        let (leap, resumes) = (self.leap, member == Membership::Resumes);
        let expires = &mut request.expires;
        if view.decoding {
            expires.class =
                (steps.saturating_add(class_validity.steps), view.now.saturating_add(class_validity.ticks));
        }
        expires.is_noted = leap && view.decoding && !resumes;
        expires.on_resuming = (leap && resumes).then_some((validity.steps, class_validity.steps));
        if changed {
            self.place(slot);
        }
        if leap && !resumes {
            self.note_expiry(slot, view, class_validity, validity, steps);
        }
        changed
    }

    /// Evaluates the rank of a member that stays in its class, where the rank changes
    /// with quanta only. The member has yielded `generated` tokens, and answers after
    /// `to_answer` steps if it does not yet. Returns whether that was so; if not, the
    /// rank is to be [evaluated](Self::evaluate) in full.
    pub(crate) fn count_quanta(
        &mut self,
        slot: Slot,
        generated: u32,
        to_answer: Option<u64>,
        step: u64,
        now: Ticks,
    ) -> bool {
        let quantum = self.rules.quantum;
        let request = &mut self.requests[slot as usize];
        let Some(counts) = self.classes.count_quanta[request.class as usize] else { return false };
        let (class_step, class_moment) = request.expires.class;
        if step >= class_step || now >= class_moment {
            return false;
        }
        let spent = generated - request.entered.1;
        let (quanta, left) = (spent / quantum, u64::from(quantum - spent % quantum));
        let changed = request.set_quanta(counts, quanta);
        let first = to_answer.is_none() && quanta == 0;
        self.first_quantum = self.first_quantum + u64::from(first) - u64::from(request.in_first_quantum);
        request.in_first_quantum = first;
        request.expires.is_noted = true;
        if changed {
            self.place(slot);
        }
        let due = (step + left.min(to_answer.unwrap_or(left))).min(class_step);
        self.expiry.set_step(slot, due, step);
        true
    }

    /// Notes when the rank of a request may change.
    fn note_expiry(&mut self, slot: Slot, view: &RequestView, class: Validity, rank: Validity, steps: u64) {
        if rank == Validity::EVER && class.steps == u64::MAX {
            self.forget_expiry(slot);
            return;
        }
        self.requests[slot as usize].expires.any_noted = true;
        let at = |base: u64, left: u64| Some(base.saturating_add(left)).filter(|_| left != u64::MAX);
        let (member, other) = if view.decoding { (steps, None) } else { (0, at(steps, rank.steps)) };
        let expires = Expires {
            step: at(member, rank.steps).filter(|_| view.decoding),
            class: at(member, class.steps).filter(|_| view.decoding),
            idle: other,
            time: at(view.now, rank.ticks),
        };
        self.expiry.set(slot, expires, steps);
    }

    /// Forgets when the rank of a request may change.
    #[inline]
    fn forget_expiry(&mut self, slot: Slot) {
        if std::mem::take(&mut self.requests[slot as usize].expires.any_noted) {
            self.expiry.remove(slot);
        }
    }

    /// Puts a request where its rank belongs in its list.
    pub(crate) fn place(&mut self, slot: Slot) {
        let request = &self.requests[slot as usize];
        match request.list {
            List::Gone => {}
            List::Queued => self.queued.set(slot, request.rank),
            List::Running => self.running.set(slot, request.rank),
        }
    }

    /// Removes a request from the order of its list.
    fn unplace(&mut self, slot: Slot) {
        match self.requests[slot as usize].list {
            List::Gone => {}
            List::Queued => self.queued.remove(slot),
            List::Running => self.running.remove(slot),
        }
    }

    /// The best queued request.
    #[inline]
    pub(crate) fn best_waiting(&self) -> Option<Slot> {
        if self.waiting() == 0 { None } else { self.queued.best() }
    }

    /// The worst running request.
    #[inline]
    pub(crate) fn worst_running(&mut self) -> Option<Slot> {
        self.running.worst().map(|(_, slot)| slot)
    }

    /// The running requests that rank worse than `rank`, the worst first, without
    /// those admitted while the present step was formed.
    pub(crate) fn worse_than(&mut self, rank: RankKey) -> impl Iterator<Item = Slot> + '_ {
        let Self { running, requests, round, .. } = self;
        running
            .worst_first()
            .take_while(move |(worse, _)| *worse > rank)
            .map(|(_, slot)| slot)
            .filter(|&slot| requests[slot as usize].round != *round)
    }

    /// A request whose rank may have changed by the decode set's `step`, and at which
    /// step that was. Evaluating it notes when its rank may change next.
    #[inline]
    pub(crate) fn due_by_step(&self, step: u64) -> Option<(u64, Slot)> {
        self.expiry.due_by_step(step)
    }

    /// A queued request whose rank may have changed by the instance's `steps`.
    #[inline]
    pub(crate) fn due_by_idle(&self, steps: u64) -> Option<Slot> {
        self.expiry.due_by_idle(steps)
    }

    /// A request whose rank may have changed by `now`.
    #[inline]
    pub(crate) fn due_by_time(&self, now: Ticks) -> Option<Slot> {
        self.expiry.due_by_time(now)
    }

    /// The last of the decode set's steps from `from` to `to`, the latter of which
    /// ended at `now`, up to which a member's class does not change.
    #[inline]
    pub(crate) fn same_class_until(&self, slot: Slot, from: u64, to: u64, now: Ticks) -> u64 {
        let (step, moment) = self.requests[slot as usize].expires.class;
        if now < moment { step.clamp(from, to) } else { from }
    }

    /// Forgets at which step of the decode set the rank of a request may change: it is
    /// not a member.
    pub(crate) fn forget_step(&mut self, slot: Slot) {
        self.expiry.remove_step(slot);
        self.requests[slot as usize].expires.is_noted = false;
    }

    /// The decode set's step at which a rank may change next.
    #[inline]
    pub(crate) fn next_step(&self) -> u64 {
        self.expiry.next_step()
    }

    /// The decode set's step at which a class may change next.
    #[inline]
    pub(crate) fn next_class(&self) -> u64 {
        self.expiry.next_class()
    }

    /// The instance's step at which the rank of a queued request may change next.
    #[inline]
    pub(crate) fn next_idle(&self) -> u64 {
        self.expiry.next_idle()
    }

    /// When a rank may change next, or all are refreshed next.
    #[inline]
    pub(crate) fn next_time(&self) -> Ticks {
        let next = self.expiry.next_time();
        match self.rules.refresh.ticks {
            0 => next,
            period => next.min((self.refreshed / period + 1).saturating_mul(period)),
        }
    }

    /// Steps of the instance until all ranks are refreshed.
    pub(crate) fn steps_to_refresh(&self, steps: u64) -> u64 {
        match self.rules.refresh.steps {
            0 => u64::MAX,
            period => period - steps % period,
        }
    }

    /// Whether a rank may change though nothing happens to its request: by the clock,
    /// while it is queued, or by a refresh.
    #[inline]
    pub(crate) fn may_drift(&self) -> bool {
        self.rules.refresh.is_set() || self.expiry.has_drifting()
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

impl Classes {
    /// The first class that takes a request.
    fn of(&self, view: &RequestView, trace: &Trace, validity: &mut Validity) -> u32 {
        let mut scope = OfRequest { view, trace };
        let taken = self.conditions.iter().position(|takes| takes.holds(&mut scope, validity));
        taken.unwrap_or(0) as u32
    }
}

/// Which keys of a class count quanta, if its other keys do not change while a request
/// is in it, and the class has no hold.
fn keys_that_count_quanta(rules: &RankingRules, class: &Class) -> Option<[bool; MOST_KEYS]> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ranking(json: &str) -> Ranking {
        Ranking::new(serde_json::from_str(json).expect("it is a ranking"), false, true)
    }

    fn trace(rows: usize) -> Trace {
        Trace {
            arrival: (0..rows as u64).collect(),
            prompt_tokens: vec![10; rows],
            output_tokens: vec![100; rows],
            ..Trace::default()
        }
    }

    fn evaluate(ranking: &mut Ranking, slot: Slot, generated: u32, now: Ticks, trace: &Trace) -> bool {
        let mut view = RequestView::arriving(slot, now, trace);
        (view.generated, view.decoding) = (generated, generated > 0);
        ranking.describe(slot, 0, &mut view);
        let evaluation = Evaluation { keys: true, steps: u64::from(generated), member: Membership::New };
        ranking.evaluate(slot, &mut view, evaluation, trace)
    }

    const BY_TOKENS: &str = r#"{"classes": [{"keys": [{"field": "req.generated_tokens"}]}]}"#;

    #[test]
    fn the_best_waiting_and_the_worst_running_follow_the_keys() {
        let (mut ranking, trace) = (ranking(BY_TOKENS), trace(4));
        for slot in 0..4 {
            ranking.enter(slot, 0, 0, 0);
            evaluate(&mut ranking, slot, 10 - slot, 0, &trace);
        }
        assert_eq!((ranking.waiting(), ranking.best_waiting()), (4, Some(3)));
        for slot in [0, 1, 3] {
            ranking.admit(slot, 5, 1);
        }
        ranking.begin_round(true);
        assert_eq!(
            (ranking.waiting(), ranking.best_waiting(), ranking.worst_running()),
            (1, Some(2), Some(0))
        );
        let rank = ranking.rank(2);
        assert_eq!(ranking.worse_than(rank).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn a_request_admitted_in_this_step_is_not_displaced_in_it() {
        let (mut ranking, trace) = (ranking(BY_TOKENS), trace(2));
        for slot in 0..2 {
            ranking.enter(slot, 0, 0, 0);
            evaluate(&mut ranking, slot, 9 - slot, 0, &trace);
        }
        ranking.begin_round(true);
        ranking.admit(0, 5, 1);
        let rank = ranking.rank(1);
        assert!(ranking.moved_in_round(0) && ranking.worse_than(rank).next().is_none());
        ranking.begin_round(true);
        assert_eq!(ranking.worse_than(rank).next(), Some(0));
    }

    #[test]
    fn a_class_is_left_when_its_condition_ends_but_not_while_it_holds_its_members() {
        let json = r#"{"classes": [
            {"when": {"op": "lt", "args": [{"field": "req.generated_tokens"}, {"const": 5}]}, "hold": HOLD, "keys": []},
            {"keys": []}]}"#;
        for (hold, in_first) in [("0", 0), ("20", 1)] {
            let (mut ranking, trace) = (ranking(&json.replace("HOLD", hold)), trace(1));
            ranking.enter(0, 0, 0, 0);
            assert!(evaluate(&mut ranking, 0, 1, 0, &trace));
            assert_eq!(ranking.in_class(0), 1);
            evaluate(&mut ranking, 0, 6, 0, &trace);
            assert_eq!((ranking.in_class(0), ranking.in_class(1)), (in_first, 1 - in_first));
            ranking.move_to(0, List::Gone, 0, 0);
            assert_eq!((ranking.in_class(0), ranking.in_class(1)), (0, 0));
        }
    }

    #[test]
    fn a_suspended_member_resumes_with_the_steps_that_its_rank_had_left() {
        let json = r#"{"classes": [{"keys": [{"op": "floordiv", "args":
            [{"field": "req.generated_tokens"}, {"const": 8}]}]}]}"#;
        let (mut ranking, trace) = (ranking(json), trace(1));
        ranking.enter(0, 0, 0, 0);
        ranking.admit(0, 0, 0);
        evaluate(&mut ranking, 0, 3, 0, &trace);
        assert_eq!(ranking.next_step(), 8, "its eighth token changes its rank");
        assert!(ranking.suspend(0, 4, 10, 4));
        assert_eq!((ranking.next_step(), ranking.best_waiting()), (u64::MAX, Some(0)));
        ranking.admit(0, 20, 30);
        assert!(ranking.resume(0, 30));
        assert_eq!(ranking.next_step(), 34);
    }

    #[test]
    fn attained_time_counts_while_a_request_is_admitted() {
        let (mut ranking, trace) = (ranking(BY_TOKENS), trace(1));
        ranking.enter(0, 0, 0, 7);
        evaluate(&mut ranking, 0, 0, 0, &trace);
        ranking.admit(0, 100, 0);
        assert_eq!(ranking.attained(0, 130), 37);
        ranking.move_to(0, List::Queued, 130, 0);
        assert_eq!(ranking.attained(0, 900), 37);
    }
}
