//! Evaluating the rank of a request.

use super::super::request::Slot;
use super::super::view::{OfRequest, RequestView};
use super::expiry::Expires;
use super::{RankKey, Ranking};
use crate::config::{LAST_LEVEL, MOST_KEYS};
use crate::policy::{Validity, sort_key, value_now};
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
    /// Whether the request is a member of the decode set, as at its latest evaluation.
    pub(crate) continues: bool,
}

/// The request that is evaluated, as the rules read it, and for how long they give what they gave.
struct Read<'a> {
    view: &'a mut RequestView,
    trace: &'a Trace,
    validity: Validity,
}

impl Ranking {
    /// Evaluates the rank of a request. Returns whether it changed, in which case the
    /// request has its place in its list.
    pub(crate) fn evaluate(
        &mut self,
        slot: Slot,
        view: &mut RequestView,
        evaluation: Evaluation,
        trace: &Trace,
    ) -> bool {
        let mut read = Read { view, trace, validity: Validity::EVER };
        self.enter_level(slot, &mut read);
        let class = self.class_of(slot, evaluation, &mut read);
        let entered = self.enter_class(slot, class, &mut read);
        let in_class = read.validity;
        // Levels count time whether or not a key reads them.
        if let Some(left) = read.view.class.level.1 {
            read.validity.within_ticks(left);
        }
        self.note_quantum(slot, &mut read);
        let changed = self.set_rank(slot, entered, evaluation.keys, &mut read);
        let Read { view, validity, .. } = read;
        let steps = evaluation.steps;
        if view.decoding {
            self.requests[slot as usize].progress_mut().class_due =
                (steps.saturating_add(in_class.steps), view.now.saturating_add(in_class.ticks));
        }
        if changed {
            self.place(slot);
        }
        if self.leap {
            self.note_expiry(slot, view, in_class, validity, steps);
        }
        changed
    }

    /// Gives a request that has no class yet the level at which requests come.
    fn enter_level(&mut self, slot: Slot, Read { view, trace, .. }: &mut Read) {
        let request = &mut self.requests[slot as usize];
        let Some(levels) = self.rules.levels.as_ref().filter(|_| !request.has_class) else { return };
        let entry = value_now(&levels.entry, &mut OfRequest { view, trace });
        let level = entry.clamp(0.0, f64::from(LAST_LEVEL)) as u32;
        let attained = request.attained(view.now);
        let progress = request.progress_mut();
        (progress.level, progress.level_from) = (level, attained);
        view.class.level = request.view_level(levels, view.now);
    }

    /// The class of a request: its own while that holds it, or while it is known that no other takes it; else the first
    /// that takes it.
    fn class_of(&self, slot: Slot, evaluation: Evaluation, read: &mut Read) -> u32 {
        let Read { view, trace, validity } = read;
        let request = &self.requests[slot as usize];
        if request.is_held(&self.rules, view.generated, view.decoding, validity) {
            return request.class;
        }
        let (step, moment) = request.progress().class_due;
        if evaluation.continues && evaluation.steps < step && view.now < moment {
            let left = |due: u64, now: u64| if due == u64::MAX { due } else { due - now };
            *validity = Validity { steps: left(step, evaluation.steps), ticks: left(moment, view.now) };
            return request.class;
        }
        self.classes.conditions.first_that_takes(view, trace, validity)
    }

    /// Has a request enter a class, unless it is in it. Returns whether it did.
    fn enter_class(&mut self, slot: Slot, class: u32, read: &mut Read) -> bool {
        let (request, view) = (&mut self.requests[slot as usize], &mut *read.view);
        if request.has_class && class == request.class {
            return false;
        }
        let members = &mut self.classes.members;
        members[request.class as usize] -= u64::from(request.has_class);
        members[class as usize] += 1;
        (request.class, request.has_class) = (class, true);
        (request.entered, request.entered_with) = (view.now, view.generated);
        let silent = request.progress().silent.0;
        if silent != request.progress().silent.1 {
            request.progress_mut().silent.1 = silent;
        }
        (view.class.joined, view.class.base) = (request.entered, request.entered_with);
        let mut held = Validity::EVER;
        if request.is_held(&self.rules, view.generated, view.decoding, &mut held) {
            read.validity.steps = read.validity.steps.min(held.steps);
        }
        true
    }

    /// Notes whether a request answers and is in its first quantum, and when that changes.
    fn note_quantum(&mut self, slot: Slot, Read { view, trace, validity }: &mut Read) {
        if self.rules.quantum == 0 {
            return;
        }
        let answers = view.phase(trace) == 2;
        let first = answers && view.quanta() == 0;
        self.set_first_quantum(slot, first);
        let ends =
            if answers { view.steps_to_quantum().filter(|_| first) } else { view.steps_to_answer(trace) };
        if let Some(left) = ends {
            validity.within_steps(u64::from(left));
        }
    }

    /// Notes whether a request answers and is in its first quantum.
    fn set_first_quantum(&mut self, slot: Slot, first: bool) {
        let request = &mut self.requests[slot as usize];
        self.first_quantum = self.first_quantum + u64::from(first) - u64::from(request.in_first_quantum);
        request.in_first_quantum = first;
    }

    /// Sets the rank of a request in its class, which it has `entered` just now or was in; `keys`: whether keys are
    /// evaluated. Returns whether it changed.
    fn set_rank(&mut self, slot: Slot, entered: bool, keys: bool, read: &mut Read) -> bool {
        let Self { rules, classes, requests, shared, .. } = self;
        let (request, Read { view, trace, validity }) = (&mut requests[slot as usize], read);
        let class = request.class;
        if let Some(counts) = classes.count_quanta[class as usize].filter(|_| !entered) {
            if let Some(left) = view.steps_to_quantum() {
                validity.within_steps(u64::from(left));
            }
            return request.set_quanta(counts, view.quanta());
        }
        if !(keys || entered || !rules.refresh.is_set()) {
            return entered;
        }
        let lasting = *validity;
        let mut scope = OfRequest { view, trace };
        let mut found = [0; MOST_KEYS];
        for (key, expr) in found.iter_mut().zip(&rules.classes[class as usize].keys) {
            // A shared key is filled in where ranks are compared.
            if shared.is_none() || !expr.reads_accumulators() {
                *key = sort_key(expr, &mut scope, validity);
            }
        }
        if rules.refresh.is_set() {
            *validity = lasting;
        }
        let rank = RankKey::new(class, found, view.request);
        let changed = entered || rank != request.rank;
        request.rank = rank;
        changed
    }

    /// Evaluates the rank of a member that stays in its class, where the rank changes
    /// with quanta only. The member has yielded `generated` tokens. Returns whether that
    /// was so; if not, the rank is to be [evaluated](Self::evaluate) in full.
    pub(crate) fn count_quanta(&mut self, slot: Slot, generated: u32, step: u64, now: Ticks) -> bool {
        let quantum = self.rules.quantum;
        let request = &mut self.requests[slot as usize];
        let Some(counts) = self.classes.count_quanta[request.class as usize] else { return false };
        let (class_step, class_moment) = request.progress().class_due;
        if step >= class_step || now >= class_moment {
            return false;
        }
        let spent = generated - request.entered_with;
        let (quanta, left) = (spent / quantum, u64::from(quantum - spent % quantum));
        let changed = request.set_quanta(counts, quanta);
        // A rank is due in the first quantum only as the answer begins.
        self.set_first_quantum(slot, quanta == 0);
        if changed {
            self.place(slot);
        }
        self.expiry.set_step(slot, (step + left).min(class_step), step);
        true
    }

    /// Notes when the rank of a request may change.
    fn note_expiry(&mut self, slot: Slot, view: &RequestView, class: Validity, rank: Validity, steps: u64) {
        if rank == Validity::EVER && class.steps == u64::MAX {
            self.forget_expiry(slot);
            return;
        }
        self.requests[slot as usize].progress_mut().any_noted = true;
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
}
