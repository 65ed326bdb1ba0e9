//! Copies that a step decided ahead does not know of.
//!
//! With asynchronous scheduling a step is given to the worker as the forward pass of the step before it begins. The worker
//! then waits for the copies that the step needs, looks for those that have ended, and reports them with the outputs of the
//! step. The step after it has been decided by then, so the one after that is the first to know (`step_with_batch_queue`
//! in `vllm/v1/engine/core.py`, vLLM 0.33.0).

use super::ChunkTier;
use super::Copied;
use crate::instance::tiers::transfers::Job;
use crate::time::Ticks;

/// Copies that a step decided ahead does not know of, and when steps look for them.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// When the forward pass of the latest step began; `None`: no step is in flight.
    begun: Option<Ticks>,
    /// When the latest step looked for copies that have ended.
    looked: Ticks,
    /// When the copies have ended that the step which was formed waits for, if there are any.
    pub(super) waits: Option<Ticks>,
    /// Copies that have ended, as the latest step reported.
    pub(super) unseen: Vec<(u32, Job<Copied>)>,
    /// Requests that have left: the step after the one that was formed knows of it.
    pub(super) ended: Vec<u32>,
    /// Whether the step after the one that was formed knows more than that.
    pub(super) news: bool,
}

impl Ahead {
    /// When the latest step looked for copies that have ended.
    pub(super) fn looked(&self) -> Ticks {
        self.looked
    }

    /// When a step looks for copies whose forward pass begins at `begins`.
    fn looks(&self, begins: Ticks) -> Ticks {
        self.begun.unwrap_or(begins).max(self.waits.unwrap_or(0))
    }

    /// Steps have run: the forward pass of the last one began at `begun`, of the one before it in the same run at `before`.
    fn run(&mut self, before: Option<Ticks>, begun: Ticks) {
        self.looked = before.unwrap_or_else(|| self.looks(begun));
        (self.begun, self.waits) = (Some(begun), None);
    }
}

impl ChunkTier {
    /// When the step that was formed looks for copies that have ended, and its forward pass begins at `begins`; `None`: as
    /// that begins.
    pub(in crate::instance) fn looks_ahead(&self, begins: Ticks) -> Option<Ticks> {
        self.ahead.as_ref().map(|ahead| ahead.looks(begins))
    }

    /// Whether the step after the one that was formed knows of copies and requests that this one does not.
    pub(in crate::instance) fn has_news(&self) -> bool {
        self.ahead.as_ref().is_some_and(|ahead| ahead.news)
    }

    /// Steps have run: the forward pass of the last one began at `begun`, of the one before it in the same run at `before`.
    pub(in crate::instance) fn note_launches(&mut self, before: Option<Ticks>, begun: Ticks) {
        if let Some(ahead) = &mut self.ahead {
            ahead.run(before, begun);
        }
    }

    /// Whether a step was in flight as the step was decided that is formed.
    pub(in crate::instance) fn has_launched(&self) -> bool {
        self.ahead.as_ref().is_some_and(|ahead| ahead.begun.is_some())
    }

    /// Makes known what the latest step reported.
    pub(in crate::instance) fn learn_reports(&mut self) {
        let Some(ahead) = &mut self.ahead else { return };
        let (unseen, ended) = (std::mem::take(&mut ahead.unseen), std::mem::take(&mut ahead.ended));
        ahead.news |= !unseen.is_empty() || !ended.is_empty();
        for id in ended {
            self.fence(id);
        }
        for (id, job) in unseen {
            self.end_job(id, &job, self.copies.step.row.start);
        }
    }

    /// No step is in flight.
    pub(in crate::instance) fn land(&mut self) {
        if let Some(ahead) = &mut self.ahead {
            ahead.begun = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_looks_for_copies_as_the_one_before_it_begins() {
        let mut ahead = Ahead::default();
        assert_eq!(ahead.looks(7), 7, "no step is in flight: it is given to the worker as it starts");
        ahead.run(None, 7);
        assert_eq!((ahead.looked(), ahead.looks(20)), (7, 7));
        ahead.waits = Some(15);
        assert_eq!(ahead.looks(20), 15, "the worker waits for a copy first");
        ahead.run(None, 20);
        assert_eq!((ahead.looked(), ahead.looks(30)), (15, 20));
        ahead.run(Some(50), 60);
        assert_eq!((ahead.looked(), ahead.looks(70)), (50, 60), "the last two of a run of steps");
    }
}
