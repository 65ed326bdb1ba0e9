//! When members of the decode set end their reasoning and begin their answers.

use serde::{Deserialize, Serialize};

use super::super::request::Slot;
use crate::collections::StepWheel;

/// The steps of the set at which a member's phase changes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Milestones {
    /// Members that reason, by the step that yields their last reasoning token.
    reasoning_ends: StepWheel,
    /// Members whose reasoning has ended, with the step that yields the first
    /// answer token, which is their next one. There are few at any time.
    answer_starts: Vec<(u64, Slot)>,
    /// By slot: whether one step yields the last reasoning token and the first of the answer. Empty where steps yield one token.
    together: Vec<bool>,
}

impl Milestones {
    /// Notes the milestones of a member that joins at `step`: the steps that yield its last reasoning token and its first
    /// answer token, if they are to come.
    pub(super) fn add(
        &mut self,
        slot: Slot,
        reasoning_end: Option<u64>,
        answer_start: Option<u64>,
        step: u64,
    ) {
        let Some(starts) = answer_start.filter(|start| *start > step) else { return };
        match reasoning_end.filter(|end| *end > step) {
            Some(end) => {
                self.reasoning_ends.set(slot, end, step);
                self.note_together(slot, starts == end);
            }
            None => self.answer_starts.push((starts, slot)),
        }
    }

    /// Notes whether the step that yields a member's last reasoning token yields its first answer token, too.
    fn note_together(&mut self, slot: Slot, together: bool) {
        let at = slot as usize;
        if together && at >= self.together.len() {
            self.together.resize(at + 1, false);
        }
        if let Some(noted) = self.together.get_mut(at) {
            *noted = together;
        }
    }

    /// Removes the milestones of a member.
    pub(super) fn remove(&mut self, slot: Slot) {
        self.reasoning_ends.remove(slot);
        if !self.answer_starts.is_empty() {
            self.answer_starts.retain(|&(_, other)| other != slot);
        }
    }

    /// The step at which the phase of a member may change next.
    pub(super) fn next(&self) -> u64 {
        self.reasoning_ends.next().min(self.next_start().map_or(u64::MAX, |(step, _)| step))
    }

    /// The step at which a member ends its reasoning next.
    pub(super) fn next_reasoning_end(&self) -> u64 {
        self.reasoning_ends.next()
    }

    fn next_start(&self) -> Option<(u64, Slot)> {
        self.answer_starts.iter().min().copied()
    }

    /// Removes and returns the first milestone up to `step`: the step and the member.
    pub(super) fn pop(&mut self, step: u64) -> Option<(u64, Slot)> {
        let none =
            self.reasoning_ends.next() > step && self.answer_starts.iter().all(|&(start, _)| start > step);
        if none { None } else { self.pop_due(step) }
    }

    #[inline(never)]
    fn pop_due(&mut self, reached: u64) -> Option<(u64, Slot)> {
        let end = self.reasoning_ends.due(reached);
        let start = self.next_start().filter(|(step, _)| *step <= reached);
        let (step, slot) = match (end, start) {
            (Some(end), Some(start)) => end.min(start),
            (end, start) => end.or(start)?,
        };
        if end == Some((step, slot)) {
            self.reasoning_ends.remove(slot);
            let together = self.together.get(slot as usize).is_some_and(|&noted| noted);
            self.answer_starts.push((step + u64::from(!together), slot));
        } else {
            self.answer_starts.retain(|&(_, other)| other != slot);
        }
        Some((step, slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasoning_ends_one_step_before_the_answer_starts() {
        let mut milestones = Milestones::default();
        milestones.add(0, Some(13), Some(14), 10);
        milestones.add(1, Some(10), Some(11), 10);
        milestones.add(2, None, None, 10);
        assert_eq!((milestones.next(), milestones.next_reasoning_end()), (11, 13));
        assert_eq!(milestones.pop(20), Some((11, 1)), "the member answers with its next token");
        assert_eq!(milestones.pop(20), Some((13, 0)));
        assert_eq!(milestones.pop(13), None, "the answer starts a step later");
        assert_eq!(milestones.pop(14), Some((14, 0)));
        assert_eq!(milestones.pop(99), None);
    }

    #[test]
    fn a_removed_member_has_no_milestones() {
        let mut milestones = Milestones::default();
        milestones.add(0, Some(13), Some(14), 10);
        milestones.add(1, Some(10), Some(11), 10);
        milestones.remove(0);
        milestones.remove(1);
        assert_eq!((milestones.next(), milestones.pop(99)), (u64::MAX, None));
    }

    #[test]
    fn one_step_may_end_the_reasoning_and_start_the_answer() {
        let mut milestones = Milestones::default();
        milestones.add(3, Some(13), Some(13), 10);
        assert_eq!(
            (milestones.pop(12), milestones.pop(13), milestones.pop(13)),
            (None, Some((13, 3)), Some((13, 3)))
        );
        assert_eq!((milestones.pop(99), milestones.next()), (None, u64::MAX));
    }
}
