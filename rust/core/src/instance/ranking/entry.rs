//! The state of one ranked request.

use serde::{Deserialize, Serialize};

use super::RankKey;
use crate::config::{LAST_LEVEL, Levels, MOST_KEYS, Ranking as RankingRules};
use crate::policy::{Validity, sort_key_of};
use crate::time::Ticks;

/// Which list a ranked request is in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum List {
    /// None: the request has left.
    #[default]
    Gone,
    /// Queued for admission.
    Queued,
    /// Admitted.
    Running,
    /// Admitted, and left out of the latest step: it keeps its memory, and counts as idle.
    LeftOut,
}

/// A request, as the ranking knows it: two lines of a processor's cache.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[repr(align(64))]
pub(super) struct RankedRequest {
    /// Its rank, of class, keys and row.
    pub(super) rank: RankKey,
    pub(super) list: List,
    pub(super) class: u32,
    /// Whether the request has entered a class yet.
    pub(super) has_class: bool,
    /// Whether the request answers and is in its first quantum.
    pub(super) in_first_quantum: bool,
    /// Output tokens of the request when it entered its class.
    pub(super) entered_with: u32,
    /// When the request entered its class.
    pub(super) entered: Ticks,
    /// When the request entered its list, and the instance's steps then.
    pub(super) listed: (Ticks, u64),
    /// How long the request was admitted before.
    pub(super) attained: Ticks,
    /// The round in which the request last entered a list.
    pub(super) round: u64,
    /// Whether `progress` may differ from its default.
    has_progress: bool,
    progress: Progress,
}

/// State that a request has only if it is evaluated after its admission; most requests are not.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Progress {
    /// Steps that ran the request, less the tokens that they yielded; and how many when it entered its class.
    pub(super) silent: (i32, i32),
    /// The level that the request is at.
    pub(super) level: u32,
    /// How long it had been admitted when it came there.
    pub(super) level_from: Ticks,
    /// The decode set's step, and the moment, before which a member's class does not change.
    pub(super) class_due: (u64, u64),
    /// Whether any expiry was noted since the request entered its list.
    pub(super) any_noted: bool,
}

const _: () = assert!(size_of::<RankedRequest>() == 128);

impl RankedRequest {
    /// A request that has come to the instance.
    pub(super) fn queued(now: Ticks, steps: u64, attained: Ticks) -> Self {
        Self { list: List::Queued, listed: (now, steps), attained, ..Self::default() }
    }

    /// Becomes a request that has come, and has a rank in a class, which it entered at a moment.
    pub(super) fn renew(&mut self, rank: RankKey, (class, entered): (u32, Ticks)) {
        if self.has_progress {
            (self.progress, self.has_progress) = (Progress::default(), false);
        }
        (self.rank, self.class, self.has_class) = (rank, class, true);
        (self.entered, self.entered_with) = (entered, 0);
        (self.list, self.in_first_quantum, self.attained) = (List::Gone, false, 0);
    }

    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The same, to change.
    pub(super) fn progress_mut(&mut self) -> &mut Progress {
        self.has_progress = true;
        &mut self.progress
    }

    /// Forgets when the rank may change. Returns whether that was noted since the request entered its list.
    pub(super) fn forget_expiry(&mut self) -> bool {
        self.has_progress && std::mem::take(&mut self.progress.any_noted)
    }

    /// Enters a list.
    pub(super) fn enter_list(&mut self, list: List, now: Ticks, steps: u64, round: u64) {
        // A request that was left out has been idle since.
        let listed =
            if self.list == List::LeftOut && list == List::Queued { self.listed } else { (now, steps) };
        (self.list, self.listed, self.round) = (list, listed, round);
    }

    /// How long the request has been admitted in all.
    pub(super) fn attained(&self, now: Ticks) -> Ticks {
        self.attained + if self.list == List::Running { now - self.listed.0 } else { 0 }
    }

    /// The level, and the ticks until it may change.
    pub(super) fn view_level(&self, levels: &Levels, now: Ticks) -> (u32, Option<Ticks>) {
        let Progress { level, level_from, .. } = self.progress;
        let runs = self.list == List::Running && level < LAST_LEVEL;
        let ends = level_from.saturating_add(levels.quantum(level));
        (level, runs.then(|| ends.saturating_sub(self.attained(now)).saturating_add(1)))
    }

    /// Moves the request to the next level, if it has run for longer than the quantum of its own at `now`, when a step
    /// has ended that ran it. Returns whether it has.
    pub(super) fn sink(&mut self, levels: &Levels, now: Ticks) -> bool {
        let Progress { level, level_from, .. } = self.progress;
        let attained = self.attained(now);
        let sinks = level < LAST_LEVEL && attained - level_from > levels.quantum(level);
        if sinks {
            let progress = self.progress_mut();
            (progress.level, progress.level_from) = (level + 1, attained);
        }
        sinks
    }

    /// Sets those keys that count quanta. Returns whether that changed the rank.
    pub(super) fn set_quanta(&mut self, counts: [bool; MOST_KEYS], quanta: u32) -> bool {
        let quanta = sort_key_of(f64::from(quanta));
        let (mut keys, mut changed) = (self.rank.keys(), false);
        for (key, counts) in keys.iter_mut().zip(counts) {
            if counts && *key != quanta {
                (*key, changed) = (quanta, true);
            }
        }
        if changed {
            self.rank = RankKey::new(self.class, keys, self.rank.request());
        }
        changed
    }

    /// Whether the request stays in its class because of the class's hold, with
    /// `generated` output tokens by now.
    pub(super) fn is_held(
        &self,
        rules: &RankingRules,
        generated: u32,
        decoding: bool,
        validity: &mut Validity,
    ) -> bool {
        if !self.has_class {
            return false;
        }
        let class = &rules.classes[self.class as usize];
        let tokens = generated - self.entered_with;
        let steps = tokens.saturating_add_signed(self.progress.silent.0 - self.progress.silent.1);
        let left = class.hold.saturating_sub(tokens).max(class.hold_steps.saturating_sub(steps));
        if left > 0 && decoding {
            validity.within_steps(u64::from(left));
        }
        left > 0
    }
}
