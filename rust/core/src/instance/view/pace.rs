//! Whether the readers of an instance's requests have tokens left, steps that are not applied included.

use super::Reader;
use crate::time::Ticks;

impl Reader<'_> {
    /// The decode set's latest finished step, and when it ended: what decides if every reader has tokens left, unless the
    /// run in progress keeps pace.
    pub(in crate::instance) fn latest_step(&self, now: Ticks) -> Option<(u64, Ticks)> {
        if self.steps_keep_pace() {
            return None;
        }
        let ended = self.run.ended(now);
        Some((self.batch.decode_set().step() + ended, self.last_decoded(ended)))
    }

    /// When the decode set's latest finished step ended, of which `ended` are not applied.
    pub(in crate::instance) fn last_decoded(&self, ended: u64) -> Ticks {
        match self.run.current() {
            Some(run) if ended > 0 => run.after(ended),
            _ => self.batch.decoded_at(),
        }
    }

    /// Whether a run is in progress whose steps are shorter than readers take for a
    /// token: then no member of the decode set runs out.
    pub(in crate::instance) fn steps_keep_pace(&self) -> bool {
        self.run.current().is_some_and(|run| {
            run.decodes
                && run.start == self.batch.decoded_at()
                && run.copying == 0
                && run.series.at(run.steps.saturating_sub(1)) < self.observers.readers.interval()
        })
    }

    /// Whether every reader has tokens left, whatever the run in progress has done: those
    /// outside the decode set had not run out when it began, each next token came in time
    /// for the members, and a member that began to answer had at least as long.
    pub(in crate::instance) fn all_stay_on_pace(&self, now: Ticks) -> bool {
        self.steps_keep_pace()
            && self.observers.readers.are_patient()
            && self.observers.readers.out_of_tokens(now).is_none()
    }

    /// Whether it depends on steps that are not applied if every reader has tokens left.
    pub(in crate::instance) fn pace_depends_on_run(&self, now: Ticks) -> bool {
        let ended = self.run.ended(now);
        let late = self.batch.decode_set().late_joiners();
        if ended > 0
            && !late.is_empty()
            && let Some(slot) = self.observers.readers.out_of_tokens(now)
        {
            // If the request has not had a token since, its reader has run out.
            return late.iter().any(|joiner| joiner.0 == slot);
        }
        if self.steps_keep_pace() {
            return false;
        }
        let interval = self.observers.readers.interval();
        ended > 0
            && self.observers.readers.exist()
            && now >= self.last_decoded(ended).saturating_add(interval)
    }
}
