//! Columns by request and gaps between tokens, as the instances of a replay write them.

use serde::{Deserialize, Serialize};

use super::RecordRoom;
use super::{Columns, Event, EventKind, OptionalColumns, Reason, Sketch, Status, add_part, put_used};
use crate::time::{NEVER, Ticks};
use crate::trace::RequestNumber;

/// The columns by request, the gaps and the notices of a replay, as instances write them.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// One entry a request.
    pub(crate) columns: Columns,
    /// The columns that there are beside those of every replay.
    optional: OptionalColumns,
    /// Gaps between the tokens of a request, over all requests.
    pub(crate) gaps: Sketch,
    /// First tokens, and requests that left their instance for good, so far.
    pub(crate) changes: u64,
    /// Requests that left their instance for good since the list was last emptied, by row; `None`: not listed.
    pub(crate) closed: Option<Vec<u32>>,
    /// Requests that have ended since the list was last emptied, and how; `None`: not listed.
    pub(crate) ends: Option<Vec<(u32, Status)>>,
    /// How many entries of recorded steps there is room for.
    pub(crate) room: RecordRoom,
    /// Notices of requests since they were last taken; `None` if nothing reads them.
    pub(crate) notices: Option<Vec<Notice>>,
    /// Events of requests since they were last taken; `None` if they are not kept.
    pub(crate) events: Option<Vec<Event>>,
}

crate::checkpoint::checkpointed!(Recorder {
    values: columns, gaps, changes, closed, ends, room, notices, events;
    fixed: optional;
});

/// A notice of a request, by row. Those of one request are in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Notice {
    /// It yielded its first token.
    FirstToken(u32),
    /// It finished, or was dropped.
    Closed(u32),
    /// It left, as its client had cancelled it.
    Cancelled(u32),
}

impl Notice {
    /// The row of the request.
    pub(crate) fn row(self) -> u32 {
        match self {
            Self::FirstToken(row) | Self::Closed(row) | Self::Cancelled(row) => row,
        }
    }
}

/// Counts of one request, when it finishes or the replay ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RequestTotals {
    /// Tokens yielded.
    pub(crate) generated: u32,
    /// Preemptions.
    pub(crate) preemptions: u32,
    /// The longest gap between two tokens.
    pub(crate) max_gap: Ticks,
}

impl Recorder {
    /// A recorder for `n` requests that have not arrived.
    pub(crate) fn new(n: usize, optional: OptionalColumns) -> Self {
        let columns = Columns::new(n, optional);
        Self {
            columns,
            optional,
            gaps: Sketch::default(),
            changes: 0,
            closed: None,
            ends: None,
            room: RecordRoom::default(),
            notices: None,
            events: None,
        }
    }

    /// Adds `n` requests that have not arrived.
    pub(crate) fn grow(&mut self, n: usize) {
        if self.columns.status.is_empty() {
            self.columns = Columns::new(n, self.optional);
        } else {
            self.columns.grow(n);
        }
    }

    /// Writes that a request yielded its first token.
    pub(crate) fn first_token(&mut self, row: usize, now: Ticks) {
        self.columns.first_token[row] = now;
        self.changes += 1;
        if let Some(notices) = &mut self.notices {
            notices.push(Notice::FirstToken(row as u32));
        }
    }

    /// Writes that a request with `reasoning` reasoning tokens yielded its `generated`th
    /// token in a step from `start` to `end`, if that ended its reasoning or began its
    /// answer.
    pub(crate) fn token(
        &mut self,
        request: RequestNumber,
        (generated, reasoning): (u32, u32),
        start: Ticks,
        end: Ticks,
    ) {
        let row = request.index();
        if generated == reasoning {
            self.columns.reasoning_end[row] = end;
        } else if generated == reasoning + 1 {
            self.columns.answer_started[row] = start;
            self.columns.first_answer[row] = end;
        }
    }

    /// Writes that a request was migrated after `transfer` ticks. `before_answer`: whether
    /// it was between its reasoning and its answer.
    pub(crate) fn migrated(&mut self, row: usize, transfer: Ticks, before_answer: bool) {
        let columns = &mut self.columns;
        columns.transfer[row] += transfer;
        if before_answer {
            columns.transfer_answering[row] += transfer;
        }
        columns.migrations[row] += 1;
    }

    /// Lists a request that has ended, if those are listed.
    fn end(&mut self, row: u32, status: Status) {
        if let Some(ends) = &mut self.ends {
            ends.push((row, status));
        }
    }

    /// Writes that a request was rejected on arrival.
    pub(crate) fn reject(&mut self, row: usize, reason: Reason) {
        self.note(EventKind::Rejected, row, NEVER);
        self.end(row as u32, Status::Rejected);
        self.columns.status[row] = Status::Rejected as u8;
        self.columns.reason[row] = reason as u8;
    }

    /// Writes that a client cancelled a request, which is told of now. It may be on an instance for a while.
    pub(crate) fn cancel(&mut self, row: usize, reason: Reason, now: Ticks) {
        self.note(EventKind::Cancelled, row, now);
        self.end(row as u32, Status::Cancelled);
        self.columns.cancelled_at[row] = now;
        self.columns.reason[row] = reason as u8;
    }

    /// Whether a client has cancelled a request.
    pub(crate) fn is_cancelled(&self, row: usize) -> bool {
        self.columns.cancelled_at.get(row).is_some_and(|&at| at != NEVER)
    }

    /// Writes that the router held a request for `ticks`, and then sent it to an instance or gave it up.
    pub(crate) fn held(&mut self, row: usize, ticks: Ticks) {
        self.columns.held[row] = ticks;
    }

    /// Writes the status of a request that the router still holds, or that gave up.
    pub(crate) fn not_routed(&mut self, row: usize, status: Status) {
        self.end(row as u32, status);
        if status == Status::GaveUp {
            self.note(EventKind::GaveUp, row, NEVER);
        }
        self.columns.status[row] = status as u8;
    }

    /// Counts a preemption of a request that has ended.
    pub(crate) fn count_preemption(&mut self, request: RequestNumber) {
        let rows = self.columns.status.kept();
        add_part(&mut self.columns.preemptions, rows, request.index(), 1);
    }

    /// Writes the final columns of a request.
    pub(crate) fn close(&mut self, request: RequestNumber, status: Status, totals: RequestTotals) {
        let row = request.index();
        // Of a request that was cancelled, the source was told then.
        let cancelled = self.is_cancelled(row);
        if !cancelled {
            self.end(request.0, status);
        }
        let status = if cancelled { Status::Cancelled } else { status };
        if let Some(notices) = &mut self.notices {
            notices.push(if cancelled { Notice::Cancelled(request.0) } else { Notice::Closed(request.0) });
        }
        let columns = &mut self.columns;
        self.changes += 1;
        if let Some(closed) = &mut self.closed {
            closed.push(request.0);
        }
        columns.status[row] = status as u8;
        columns.generated_tokens[row] = totals.generated;
        let rows = columns.status.kept();
        put_used(&mut columns.preemptions, rows, row, totals.preemptions);
        if totals.generated > 1 {
            columns.max_itl[row] = totals.max_gap;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder() -> Recorder {
        let optional = OptionalColumns { reasons: true, moves: true, ..OptionalColumns::default() };
        Recorder::new(1, optional)
    }

    #[test]
    fn the_last_reasoning_token_and_the_first_answer_token_have_their_moments() {
        let mut recorder = recorder();
        for generated in 1..6 {
            let end = u64::from(generated) * 10;
            recorder.token(RequestNumber(0), (generated, 3), end - 10, end);
        }
        let columns = &recorder.columns;
        assert_eq!(
            (columns.reasoning_end[0], columns.answer_started[0], columns.first_answer[0]),
            (30, 30, 40)
        );
    }

    #[test]
    fn a_single_token_has_no_gap() {
        for (generated, gap) in [(1, NEVER), (2, 7)] {
            let mut recorder = recorder();
            recorder.close(
                RequestNumber(0),
                Status::Finished,
                RequestTotals { generated, preemptions: 4, max_gap: 7 },
            );
            assert_eq!((recorder.columns.max_itl[0], recorder.columns.preemptions[0]), (gap, 4));
        }
    }

    #[test]
    fn transfers_add_up() {
        let mut recorder = recorder();
        recorder.migrated(0, 5, false);
        recorder.migrated(0, 6, true);
        let columns = &recorder.columns;
        assert_eq!((columns.transfer[0], columns.transfer_answering[0], columns.migrations[0]), (11, 6, 2));
    }
}
