//! Handed-over requests that a step admits.

use serde::{Deserialize, Serialize};

use crate::trace::RequestNumber;

/// The received requests that were admitted in the step in progress, and run in it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::instance) struct Admitted {
    requests: Vec<RequestNumber>,
    /// Those that the step which is formed has preempted since.
    preempted: Vec<RequestNumber>,
}

impl Admitted {
    /// A received request is admitted.
    pub(in crate::instance) fn note(&mut self, request: RequestNumber) {
        self.requests.push(request);
    }

    /// A request is preempted in the step that is formed: if that admitted it, it does not run, unless it is admitted again.
    pub(in crate::instance) fn preempt(&mut self, request: RequestNumber) {
        if let Some(at) = self.requests.iter().position(|&admitted| admitted == request) {
            self.preempted.push(self.requests.remove(at));
        }
    }

    /// A request is admitted: if the same step has admitted it before and preempted it, it runs after all.
    pub(in crate::instance) fn admit_again(&mut self, request: RequestNumber) {
        if let Some(at) = self.preempted.iter().position(|&preempted| preempted == request) {
            self.requests.push(self.preempted.remove(at));
        }
    }

    /// The step that preempted requests is formed, or none is.
    pub(in crate::instance) fn forget_preempted(&mut self) {
        self.preempted.clear();
    }

    /// Whether there are any.
    pub(in crate::instance) fn any(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Removes and returns them.
    pub(in crate::instance) fn drain(&mut self) -> impl Iterator<Item = RequestNumber> + '_ {
        self.requests.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: RequestNumber = RequestNumber(10);
    const OTHER: RequestNumber = RequestNumber(11);

    fn both() -> Admitted {
        let mut admitted = Admitted::default();
        admitted.note(ONE);
        admitted.note(OTHER);
        assert!(admitted.any());
        admitted
    }

    #[test]
    fn a_request_that_is_preempted_in_the_step_that_admitted_it_does_not_run() {
        let mut admitted = both();
        admitted.preempt(ONE);
        admitted.preempt(RequestNumber(12));
        assert_eq!(admitted.drain().collect::<Vec<_>>(), [OTHER]);
        assert!(!admitted.any());
    }

    #[test]
    fn a_request_that_the_same_step_admits_again_runs() {
        let mut admitted = both();
        admitted.preempt(ONE);
        admitted.admit_again(OTHER);
        admitted.admit_again(ONE);
        assert_eq!(admitted.drain().collect::<Vec<_>>(), [OTHER, ONE]);
    }

    #[test]
    fn a_request_that_another_step_admits_was_admitted_before() {
        let mut admitted = both();
        admitted.preempt(ONE);
        admitted.forget_preempted();
        admitted.admit_again(ONE);
        assert_eq!(admitted.drain().collect::<Vec<_>>(), [OTHER]);
    }
}
