//! Reports of an instance to the engine between steps: requests whose phase
//! changed, requests told to leave, and requests that were dropped.

use serde::{Deserialize, Serialize};

use super::fact::{Fact, Subject};
use crate::hint::rare;
use crate::instance::request::{AdmissionSeq, RequestTable, Slot};
use crate::trace::RequestNumber;

/// Why the engine is asked about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum PhaseChange {
    /// It was told to leave; no rule is asked.
    Departure,
    /// Its prefill has ended.
    Prefilled,
    /// Its reasoning has ended.
    Answering,
}

/// The reports that the engine has not taken yet.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outbox {
    phase_changes: Vec<(AdmissionSeq, PhaseChange, Slot)>,
    /// Requests told to leave, with their rows: a slot may be reused meanwhile.
    leaving: Vec<(Slot, RequestNumber)>,
    /// Requests that are cancelled, and leave once the step in progress has ended, with their rows.
    cancelled: Vec<(Slot, RequestNumber)>,
    /// Requests whose prompt ends with the step in progress, if that is reported and the engine has not asked since.
    last_steps: Vec<(AdmissionSeq, Slot)>,
    /// Requests that were dropped, or have ended, as steps were formed since the engine last asked.
    ended: u64,
    reports: Reports,
}

/// Which phase changes a rule is asked about.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Reports {
    /// The end of a prefill.
    pub(crate) prefilled: bool,
    /// The end of reasoning.
    pub(crate) answering: bool,
}

impl Outbox {
    pub(crate) fn new(reports: Reports) -> Self {
        Self { reports, ..Self::default() }
    }

    /// Which phase changes a rule is asked about.
    pub(crate) fn reports(&self) -> Reports {
        self.reports
    }

    /// Reports changes of phase that a rule is asked about, and requests that were dropped.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the fact is known where it is told")]
    pub(super) fn observe(&mut self, fact: Fact, of: Subject) {
        let Reports { prefilled, answering } = self.reports;
        match fact {
            Fact::Joined { .. } if prefilled || answering => {
                rare();
                let generated = of.state.generated;
                if prefilled && generated == 1 {
                    self.phase_changed(of, PhaseChange::Prefilled);
                }
                if answering && of.reasoning() == Some(generated) {
                    self.phase_changed(of, PhaseChange::Answering);
                }
            }
            Fact::Verified { yielded } if prefilled || answering => {
                rare();
                let generated = of.state.generated;
                if prefilled && generated == 1 {
                    self.phase_changed(of, PhaseChange::Prefilled);
                }
                // The tokens that the step yielded may end the reasoning before the last of them.
                let ends = |reasoning: u32| reasoning <= generated && generated - yielded < reasoning;
                if answering && of.reasoning().is_some_and(ends) {
                    self.phase_changed(of, PhaseChange::Answering);
                }
            }
            Fact::Passed { generated, .. }
                if answering && of.reasoning() == Some(generated) && of.state.output > generated =>
            {
                self.phase_changed(of, PhaseChange::Answering);
            }
            Fact::Dropped => self.ended += 1,
            _ => {}
        }
    }

    fn phase_changed(&mut self, of: Subject, change: PhaseChange) {
        self.phase_changes.push((of.state.seq, change, of.slot));
    }

    /// Reports that the prompt of a request ends with the step that starts.
    pub(crate) fn last_step_begins(&mut self, slot: Slot, requests: &RequestTable) {
        self.last_steps.push((requests[slot].seq, slot));
    }

    /// Whether there is any such report.
    pub(crate) fn has_last_steps(&self) -> bool {
        !self.last_steps.is_empty()
    }

    /// Removes and returns these requests, in the order of admission.
    pub(crate) fn take_last_steps(&mut self) -> Vec<Slot> {
        self.last_steps.sort_unstable();
        self.last_steps.drain(..).map(|(_, slot)| slot).collect()
    }

    /// Has a request leave once the step in progress has ended.
    pub(crate) fn request_departure(&mut self, slot: Slot, requests: &RequestTable) {
        self.leaving.push((slot, requests[slot].request));
    }

    /// Has a cancelled request leave once the step in progress has ended.
    pub(crate) fn cancel_after_step(&mut self, slot: Slot, requests: &RequestTable) {
        self.cancelled.push((slot, requests[slot].request));
    }

    /// Whether cancelled requests leave once the step in progress has ended.
    pub(crate) fn has_cancelled(&self) -> bool {
        !self.cancelled.is_empty()
    }

    /// Takes these requests, in the order in which they were cancelled.
    pub(crate) fn take_cancelled(&mut self) -> Vec<(Slot, RequestNumber)> {
        std::mem::take(&mut self.cancelled)
    }

    /// At the end of a step: reports the requests told to leave that still decode.
    pub(crate) fn report_departures(&mut self, requests: &RequestTable) {
        if !self.leaving.is_empty() {
            self.report_each_departure(requests);
        }
    }

    #[inline(never)]
    fn report_each_departure(&mut self, requests: &RequestTable) {
        for (slot, request) in self.leaving.drain(..) {
            let state = &requests[slot];
            if state.request == request && state.phase.decodes() {
                self.phase_changes.push((state.seq, PhaseChange::Departure, slot));
            }
        }
    }

    /// Whether there is any phase change to ask about.
    pub(crate) fn has_phase_changes(&self) -> bool {
        !self.phase_changes.is_empty()
    }

    /// Sorts the phase changes by the order of admission.
    pub(crate) fn sort_phase_changes(&mut self) {
        self.phase_changes.sort_unstable_by(|one, other| other.cmp(one));
    }

    /// Removes and returns the first phase change.
    pub(crate) fn pop_phase_change(&mut self) -> Option<(PhaseChange, Slot)> {
        self.phase_changes.pop().map(|(_, change, slot)| (change, slot))
    }

    /// Notes requests that have ended as a step was formed.
    pub(crate) fn note_ended(&mut self, requests: u64) {
        self.ended += requests;
    }

    /// Requests that were dropped, or have ended, as steps were formed since the last call.
    pub(crate) fn take_ended(&mut self) -> u64 {
        std::mem::take(&mut self.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::request::Phase;
    use crate::trace::Trace;

    #[test]
    fn phase_changes_come_in_the_order_of_admission() {
        let (mut outbox, mut requests) = (Outbox::default(), RequestTable::default());
        for (row, seq) in [(0, 5), (1, 3), (2, 4)] {
            let slot = requests.insert(row, 1, 1);
            requests[slot].seq = seq;
        }
        let trace = Trace::default();
        let mut changes = |slot: Slot, change| {
            let subject = Subject { slot, state: &requests[slot], prefill: 0, now: 0, trace: &trace };
            outbox.phase_changed(subject, change);
        };
        changes(0, PhaseChange::Prefilled);
        changes(1, PhaseChange::Answering);
        changes(1, PhaseChange::Prefilled);
        changes(2, PhaseChange::Prefilled);
        outbox.sort_phase_changes();
        let order: Vec<_> = std::iter::from_fn(|| outbox.pop_phase_change()).collect();
        let (prefilled, answering) = (PhaseChange::Prefilled, PhaseChange::Answering);
        assert_eq!(order, [(prefilled, 1), (answering, 1), (prefilled, 2), (prefilled, 0)]);
    }

    #[test]
    fn last_steps_come_once_and_in_the_order_of_admission() {
        let (mut outbox, mut requests) = (Outbox::default(), RequestTable::default());
        for (row, seq) in [(0, 5), (1, 3)] {
            let slot = requests.insert(row, 1, 2);
            requests[slot].seq = seq;
            outbox.last_step_begins(slot, &requests);
        }
        assert!(outbox.has_last_steps());
        assert_eq!((outbox.take_last_steps(), outbox.has_last_steps()), (vec![1, 0], false));
    }

    #[test]
    fn a_request_told_to_leave_is_reported_only_while_it_decodes() {
        let (mut outbox, mut requests) = (Outbox::default(), RequestTable::default());
        for (row, phase) in [(0, Phase::Decoding), (1, Phase::Preempted), (2, Phase::Stalled)] {
            let slot = requests.insert(row, 1, 1);
            requests[slot].phase = phase;
            outbox.request_departure(slot, &requests);
        }
        requests.release(0);
        requests.insert(9, 1, 1);
        requests[0].phase = Phase::Decoding;
        outbox.report_departures(&requests);
        assert_eq!(outbox.pop_phase_change(), Some((PhaseChange::Departure, 2)));
        assert!(!outbox.has_phase_changes(), "the slot of row 0 has another request");
    }
}
