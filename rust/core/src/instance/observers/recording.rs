//! The columns of the result as an observer.

use super::fact::{Fact, Subject};
use crate::metrics::{EventKind, Reason, Recorder, Status, add_part, put_used};
use crate::time::{NEVER, Ticks};

/// The event that a caller is told of a fact. It is known where the fact is told.
#[inline(always)]
#[expect(clippy::inline_always, reason = "so that the test drops out")]
fn event_of(fact: Fact) -> Option<EventKind> {
    match fact {
        Fact::Admitted { since: None, .. } => Some(EventKind::Admitted),
        Fact::Admitted { .. } => Some(EventKind::Readmitted),
        Fact::Yielded { gap: None, .. } => Some(EventKind::FirstToken),
        Fact::Preempted => Some(EventKind::Preempted),
        Fact::Finished => Some(EventKind::Finished),
        Fact::Dropped => Some(EventKind::Rejected),
        Fact::Landed { .. } => Some(EventKind::Migrated),
        _ => None,
    }
}

impl Recorder {
    /// Writes what happened to a request.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the fact is known where it is told")]
    pub(super) fn observe(&mut self, fact: Fact, of: Subject) {
        if let Some(kind) = event_of(fact) {
            self.note(kind, of.index(), of.now);
        }
        match fact {
            Fact::Admitted { since: None, .. } => {
                self.columns.scheduled[of.index()] = of.now;
                self.cached(of.index(), of.state.computed);
            }
            Fact::Admitted { since: Some(since), received, .. } => self.readmitted(since, received, of),
            Fact::Yielded { start, gap } => self.yielded(start, gap, of),
            Fact::Passed { generated, start, .. } => {
                if let Some(reasoning) = of.reasoning() {
                    self.token(of.state.request, (generated, reasoning), start, of.now);
                }
            }
            Fact::Finished => {
                self.columns.finish[of.index()] = of.now;
                self.close(of.state.request, Status::Finished, of.state.totals());
            }
            Fact::Dropped => {
                self.columns.reason[of.index()] = Reason::ExceedsBudget as u8;
                self.close(of.state.request, Status::Rejected, of.state.totals());
            }
            Fact::Cancelled { .. } => {
                if !self.is_cancelled(of.index()) {
                    // Its last token was the one after which its client cancels it.
                    self.cancel(of.index(), Reason::Cancelled, of.now);
                }
                self.close(of.state.request, Status::Cancelled, of.state.totals());
            }
            Fact::Landed { transfer, wait, .. } => {
                self.migrated(of.index(), transfer, of.is_before_answer());
                self.columns.handover_wait[of.index()] += wait;
                if of.state.generated == 0 && self.columns.scheduled[of.index()] != NEVER {
                    let rows = self.columns.status.kept();
                    add_part(&mut self.columns.interrupted_prefill, rows, of.index(), transfer);
                }
            }
            Fact::Loaded { first, cached, loaded, fetched, wait } => {
                self.columns.load_wait[of.index()] += wait;
                if first {
                    self.loaded(of.index(), cached, loaded, fetched);
                }
            }
            // Until the first token, the column is the time of the steps that computed the prompt.
            Fact::Computed { start } if of.state.generated == 0 => {
                self.columns.prefill_stall[of.index()] += of.now - start;
            }
            Fact::Computed { .. }
            | Fact::Joined { .. }
            | Fact::Verified { .. }
            | Fact::Preempted
            | Fact::Left
            | Fact::Came => {}
        }
    }

    /// Writes the tokens of a request's prompt that the prefix cache had.
    fn cached(&mut self, row: usize, tokens: u32) {
        let rows = self.columns.status.kept();
        put_used(&mut self.columns.cached_tokens, rows, row, tokens);
    }

    /// Writes where the prefix of a request came from that is admitted for the first time.
    fn loaded(&mut self, row: usize, cached: u32, loaded: u32, fetched: u32) {
        self.cached(row, cached);
        self.columns.loaded_tokens[row] = loaded;
        if let Some(of_store) = self.columns.store_tokens.get_mut(row) {
            *of_store = fetched;
        }
    }

    /// Writes for how long a request was out of the batch that is admitted again.
    fn readmitted(&mut self, since: Ticks, received: bool, of: Subject) {
        let (row, out, rows) = (of.index(), of.now - since, self.columns.status.kept());
        if of.state.generated == 0 {
            add_part(&mut self.columns.interrupted_prefill, rows.clone(), row, out);
        }
        if received {
            self.columns.received_wait[row] += out;
        }
        let reasoning = of.reasoning();
        // Between the end of reasoning and the answer a request is blocked, not preempted.
        if reasoning.is_some_and(|reasoning| reasoning > 0 && of.state.generated == reasoning) {
            return;
        }
        add_part(&mut self.columns.preempted, rows.clone(), row, out);
        if of.state.generated > reasoning.unwrap_or(0) {
            add_part(&mut self.columns.preempted_answering, rows, row, out);
        }
    }

    /// Writes a token that a request yielded outside the decode set.
    fn yielded(&mut self, start: Ticks, gap: Option<Ticks>, of: Subject) {
        match gap {
            None => {
                let stall = &mut self.columns.prefill_stall[of.index()];
                *stall = of.now - self.columns.scheduled[of.index()] - *stall;
                self.first_token(of.index(), of.now);
            }
            Some(gap) => self.gaps.add(gap, 1),
        }
        if let Some(reasoning) = of.reasoning() {
            self.token(of.state.request, (of.state.generated, reasoning), start, of.now);
        }
    }
}
