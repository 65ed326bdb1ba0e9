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
            Some(end) => self.reasoning_ends.set(slot, end, step),
            None => self.answer_starts.push((starts, slot)),
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
        let end = self.reasoning_ends.due(step);
        let start = self.next_start().filter(|(start, _)| *start <= step);
        let (step, slot) = match (end, start) {
            (Some(end), Some(start)) => end.min(start),
            (end, start) => end.or(start)?,
        };
        if end == Some((step, slot)) {
            self.reasoning_ends.remove(slot);
            self.answer_starts.push((step + 1, slot));
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
}
