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
        let Evaluation { keys, steps, continues } = evaluation;
        let Self { rules, classes, requests, shared, .. } = self;
        let request = &mut requests[slot as usize];
        let mut validity = Validity::EVER;
        if let Some(levels) = rules.levels.as_ref().filter(|_| !request.has_class) {
            let entry = value_now(&levels.entry, &mut OfRequest { view, trace });
            let level = entry.clamp(0.0, f64::from(LAST_LEVEL)) as u32;
            let attained = request.attained(view.now);
            let progress = request.progress_mut();
            (progress.level, progress.level_from) = (level, attained);
            view.class.level = request.view_level(levels, view.now);
        }
        let class = if request.is_held(rules, view.generated, view.decoding, &mut validity) {
            request.class
        } else if continues
            && steps < request.progress().class_due.0
            && view.now < request.progress().class_due.1
        {
            let (step, moment) = request.progress().class_due;
            let left = |due: u64, now: u64| if due == u64::MAX { due } else { due - now };
            validity = Validity { steps: left(step, steps), ticks: left(moment, view.now) };
            request.class
        } else {
            classes.conditions.first_that_takes(view, trace, &mut validity)
        };
        let entered = !request.has_class || class != request.class;
        if entered {
            classes.members[request.class as usize] -= u64::from(request.has_class);
            classes.members[class as usize] += 1;
            (request.class, request.has_class) = (class, true);
            (request.entered, request.entered_with) = (view.now, view.generated);
            let silent = request.progress().silent.0;
            if silent != request.progress().silent.1 {
                request.progress_mut().silent.1 = silent;
            }
            (view.class.joined, view.class.base) = (request.entered, request.entered_with);
            let mut held = Validity::EVER;
            if request.is_held(rules, view.generated, view.decoding, &mut held) {
                validity.steps = validity.steps.min(held.steps);
            }
        }
        let class_validity = validity;
        // Levels count time whether or not a key reads them.
        if let Some(left) = view.class.level.1 {
            validity.within_ticks(left);
        }
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
                // A shared key is filled in where ranks are compared.
                if shared.is_none() || !expr.reads_accumulators() {
                    *key = sort_key(expr, &mut scope, &mut validity);
                }
            }
            if rules.refresh.is_set() {
                validity = lasting;
            }
            let rank = RankKey::new(class, found, view.request);
            changed |= rank != request.rank;
            request.rank = rank;
        }
        if view.decoding {
            request.progress_mut().class_due =
                (steps.saturating_add(class_validity.steps), view.now.saturating_add(class_validity.ticks));
        }
        if changed {
            self.place(slot);
        }
        if self.leap {
            self.note_expiry(slot, view, class_validity, validity, steps);
        }
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
        let first = quanta == 0;
        self.first_quantum = self.first_quantum + u64::from(first) - u64::from(request.in_first_quantum);
        request.in_first_quantum = first;
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
