//! When requests are cancelled: at the time-out of their clients, or as the trace says.

use crate::collections::DueTimes;
use crate::metrics::Reason;
use crate::time::{NEVER, Ticks};
use crate::trace::{RequestNumber, Trace};

/// The moments at which requests are cancelled that have arrived and not ended.
#[derive(Debug)]
pub(in crate::engine) struct Cancels {
    /// By number.
    due: DueTimes,
    /// Ticks that clients wait for an answer; [`NEVER`]: for ever.
    timeout: Ticks,
}

crate::checkpoint::checkpointed!(Cancels {
    values: due;
    fixed: timeout;
});

impl Cancels {
    /// The cancels of a trace whose clients wait so long; `None` if there are none.
    pub(in crate::engine) fn new(timeout: Option<Ticks>, trace: &Trace) -> Option<Self> {
        let any = timeout.is_some() || trace.waits.cancels.after.is_some();
        any.then(|| Self { due: DueTimes::default(), timeout: timeout.unwrap_or(NEVER) })
    }

    /// Notes a request that arrives now and was sent at `sent`. Returns why it is cancelled, if its time is up.
    pub(super) fn arrive(&mut self, number: u32, sent: Ticks, now: Ticks, trace: &Trace) -> Option<Reason> {
        let at = sent.saturating_add(self.timeout.min(trace.cancel_after(RequestNumber(number))));
        if at <= now {
            return Some(self.reason(number, trace));
        }
        if at != NEVER {
            self.due.set(number, at);
        }
        None
    }

    /// Why a request is cancelled. A client that goes away at the moment of its time-out does not send again.
    fn reason(&self, number: u32, trace: &Trace) -> Reason {
        if trace.cancel_after(RequestNumber(number)) <= self.timeout {
            Reason::Cancelled
        } else {
            Reason::TimedOut
        }
    }

    /// Forgets a request that has ended.
    pub(super) fn end(&mut self, number: u32) {
        self.due.remove(number);
    }

    /// Forgets the requests before `number`, which have ended.
    pub(super) fn forget(&mut self, number: u32) {
        self.due.forget(number);
    }

    /// When the next request is cancelled.
    pub(super) fn next(&self) -> Ticks {
        self.due.next()
    }

    /// Removes and returns the next request that is cancelled by `now`, and why: in order of the moments, then of arrival.
    pub(super) fn pop(&mut self, now: Ticks, trace: &Trace) -> Option<(u32, Reason)> {
        let (_, number) = self.due.first().filter(|&(at, _)| at <= now)?;
        self.due.remove(number);
        Some((number, self.reason(number, trace)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::fixtures::{row, trace};
    use crate::trace::{self, Waits};

    #[test]
    fn a_request_is_cancelled_at_the_earlier_of_two_moments() {
        let after = Some(vec![NEVER, 30, 50, 70]);
        let rows: Vec<_> = (0..4).map(|at| row(at, 8, 2)).collect();
        let trace = Trace {
            waits: Waits {
                cancels: trace::Cancels { after: after.map(Into::into), tokens: None },
                ..Waits::default()
            },
            ..trace(&rows)
        };
        let mut cancels = Cancels::new(Some(50), &trace).unwrap();
        for number in 0..4 {
            assert_eq!(cancels.arrive(number, 10, 12, &trace), None);
        }
        assert_eq!((cancels.next(), cancels.pop(39, &trace)), (40, None));
        assert_eq!(cancels.pop(40, &trace), Some((1, Reason::Cancelled)));
        cancels.end(3);
        let left: Vec<_> = std::iter::from_fn(|| cancels.pop(60, &trace)).collect();
        assert_eq!(left, [(0, Reason::TimedOut), (2, Reason::Cancelled)]);
        assert_eq!(cancels.arrive(3, 0, 50, &trace), Some(Reason::TimedOut), "its time is up as it arrives");
        assert!(Cancels::new(None, &Trace::default()).is_none());
    }
}
