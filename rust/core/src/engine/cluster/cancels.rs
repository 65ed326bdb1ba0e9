//! Requests that their clients cancel.

use super::Cluster;
use crate::instance::{Cancelled, Origin};
use crate::metrics::{Reason, RequestTotals, Status};
use crate::time::Ticks;
use crate::trace::RequestNumber;

impl Cluster {
    /// Whether a request has finished or was cancelled, and has left its instance.
    pub(in crate::engine) fn has_ended(&self, request: RequestNumber) -> bool {
        let ended = |&status: &u8| status == Status::Finished as u8 || status == Status::Cancelled as u8;
        // A request that has ended may be forgotten.
        self.recorder.columns.status.get(request.index()).is_none_or(ended)
    }

    /// Whether a request was cancelled that has not left.
    pub(in crate::engine) fn is_cancelled(&self, request: RequestNumber) -> bool {
        self.recorder.is_cancelled(request.index()) && !self.has_ended(request)
    }

    /// Whether a client sends a request again that has ended so.
    pub(in crate::engine) fn may_be_repeated(&self, request: RequestNumber, status: Status) -> bool {
        let reason = self.recorder.columns.reason[request.index()];
        match status {
            Status::Cancelled => reason == Reason::TimedOut as u8,
            Status::Rejected => reason == Reason::Policy as u8,
            Status::GaveUp => true,
            _ => false,
        }
    }

    /// Cancels a request that is on no instance yet. `held`: a router holds it.
    pub(in crate::engine) fn cancel_unrouted(&mut self, row: usize, reason: Reason, held: bool, now: Ticks) {
        if held {
            self.note_held(row, now);
        }
        self.recorder.cancel(row, reason, now);
        self.recorder.columns.status[row] = Status::Cancelled as u8;
        // Others that are held may wait behind it.
        self.recorder.changes += 1;
        self.settled += 1;
    }

    /// Cancels a request that was routed, and is on no instance until its target accepts it.
    pub(in crate::engine) fn cancel_announced(&mut self, request: RequestNumber, reason: Reason, now: Ticks) {
        let source = self.recorder.columns.instance[request.index()] as usize;
        self.instances[source].count_unqueued_cancel();
        self.recorder.cancel(request.index(), reason, now);
        self.recorder.close(request, Status::Cancelled, RequestTotals::default());
        self.settled += 1;
    }

    /// Whether a request has ended, in whatever way.
    pub(in crate::engine) fn is_settled(&self, request: RequestNumber) -> bool {
        let ended = |&status: &u8| status != Status::NotArrived as u8;
        // A request that has ended may be forgotten.
        self.recorder.columns.status.get(request.index()).is_none_or(ended)
    }

    /// Cancels a request that was sent to an instance. If its KV was offered, returns the instance that had the offer, and
    /// where the KV is.
    pub(in crate::engine) fn cancel(
        &mut self,
        request: RequestNumber,
        reason: Reason,
        now: Ticks,
    ) -> Option<(usize, Origin)> {
        self.recorder.cancel(request.index(), reason, now);
        self.remove_cancelled(request, now)
    }

    /// Removes a request from its instance that was cancelled, now or once the step in progress has ended.
    pub(in crate::engine) fn remove_cancelled(
        &mut self,
        request: RequestNumber,
        now: Ticks,
    ) -> Option<(usize, Origin)> {
        let index = self.recorder.columns.place(request.index()) as usize;
        self.catch_up(index, now);
        self.truncate_run(index, now);
        let cancelled = self.at(index).cancel(request, now);
        if cancelled != Cancelled::Later {
            self.outstanding[index] -= 1;
            self.settled += 1;
        }
        self.leave_if_done(index, now);
        match cancelled {
            Cancelled::Offered(origin) => Some((index, origin)),
            Cancelled::Left | Cancelled::Later => None,
        }
    }
}
