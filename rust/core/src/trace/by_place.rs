//! The columns whose entries move with the requests.

use super::{Trace, Waits};
use crate::collections::Column;

/// Does the same with each column whose entries move with the requests. The ids of their blocks, and what only clients read,
/// stay where they are, by row of the trace.
macro_rules! each {
    ($trace:expr, $column:ident => $work:expr) => {{
        let Trace {
            arrival,
            prompt_tokens,
            output_tokens,
            reasoning_tokens,
            priority,
            score,
            numbers,
            tenant,
            model,
            adapter,
            prefix: _,
            session,
            waits: _,
            origins,
        } = $trace;
        let $column = arrival;
        $work;
        for $column in [prompt_tokens, output_tokens] {
            $work;
        }
        for $column in [reasoning_tokens, tenant, model, adapter, session, origins].into_iter().flatten() {
            $work;
        }
        for $column in numbers.iter_mut().chain(score) {
            $work;
        }
        if let Some($column) = priority {
            $work;
        }
    }};
}

/// The values of some rows of a column.
fn at<T: Copy>(column: &Column<T>, rows: &[u32]) -> Column<T> {
    rows.iter().map(|&row| column[row as usize]).collect()
}

impl Trace {
    /// The requests of some rows, in order, each with its row as its origin. The ids of their blocks stay where they are.
    pub(crate) fn select(&self, of: Vec<u32>) -> Self {
        let rows = of.as_slice();
        let Self {
            arrival,
            prompt_tokens,
            output_tokens,
            reasoning_tokens,
            priority,
            score,
            numbers,
            tenant,
            model,
            adapter,
            prefix: _,
            session,
            waits: _,
            origins: _,
        } = self;
        let codes = |column: &Option<Column<u32>>| column.as_ref().map(|column| at(column, rows));
        Self {
            arrival: at(arrival, rows),
            prompt_tokens: at(prompt_tokens, rows),
            output_tokens: at(output_tokens, rows),
            reasoning_tokens: codes(reasoning_tokens),
            priority: priority.as_ref().map(|column| at(column, rows)),
            score: score.as_ref().map(|column| at(column, rows)),
            numbers: numbers.iter().map(|column| at(column, rows)).collect(),
            tenant: codes(tenant),
            model: codes(model),
            adapter: codes(adapter),
            prefix: None,
            session: codes(session),
            waits: Waits::default(),
            origins: Some(of.into()),
        }
    }

    /// Forgets the requests before a row, which have ended, where no source sends them in another order.
    pub(crate) fn forget(&mut self, row: usize) {
        each!(self, column => column.forget(row));
        self.waits.cancels.forget(row);
        if let Some(prefix) = &mut self.prefix {
            prefix.forget(row);
        }
    }

    /// Swaps two requests that have not arrived.
    pub(crate) fn swap(&mut self, one: usize, other: usize) {
        each!(self, column => column.swap(one, other));
    }

    /// Appends a request again that has arrived, at the end of the columns.
    pub(crate) fn repeat(&mut self, place: usize) {
        each!(self, column => column.push(column[place]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::RequestNumber;
    use crate::trace::TraceRow;
    use crate::trace::{Cancels, OutputIds, PrefixIds};

    /// Two requests with every column that moves.
    fn trace() -> Trace {
        Trace {
            arrival: vec![1, 2].into(),
            prompt_tokens: vec![3, 4].into(),
            output_tokens: vec![5, 6].into(),
            reasoning_tokens: Some(vec![1, 2].into()),
            priority: Some(vec![-1, 1].into()),
            score: Some(vec![0.5, 1.5].into()),
            numbers: vec![vec![7.0, 8.0].into()],
            tenant: Some(vec![0, 1].into()),
            model: Some(vec![2, 3].into()),
            adapter: Some(vec![4, 5].into()),
            session: Some(vec![6, 7].into()),
            origins: Some(vec![0, 1].into()),
            ..Trace::default()
        }
    }

    /// The entries of a request.
    fn of(trace: &Trace, place: usize) -> String {
        let numbers = (trace.number(0, place), trace.score.as_ref().map(|column| column[place]));
        let lengths = (trace.prompt_tokens[place], trace.output_tokens[place], trace.reasoning(place));
        let codes =
            [&trace.tenant, &trace.session, &trace.origins].map(|one| one.as_ref().map(|one| one[place]));
        let served = (trace.model_of(place), trace.adapter_of(place), trace.priority_of(place));
        format!("{:?}", (trace.arrival[place], lengths, numbers, codes, served))
    }

    #[test]
    fn all_entries_of_a_request_move_together() {
        let (before, mut after) = (trace(), trace());
        after.swap(0, 1);
        assert_eq!((of(&after, 0), of(&after, 1)), (of(&before, 1), of(&before, 0)));
        after.repeat(1);
        assert_eq!((of(&after, 2), after.len()), (of(&before, 0), 3));
    }

    #[test]
    fn selected_requests_have_all_their_entries() {
        let whole = trace();
        let some = whole.select(vec![1]);
        assert_eq!((of(&some, 0), some.len()), (of(&whole, 1), 1));
    }

    #[test]
    fn a_request_keeps_its_row_when_those_before_it_are_forgotten() {
        let cancels = Cancels { after: Some(vec![3, 9].into()), tokens: Some(vec![1, 2].into()) };
        let prefix = PrefixIds {
            ends: vec![2, 3].into(),
            ids: vec![7, 8, 9].into(),
            block_tokens: 4,
            outputs: Some(OutputIds { ends: vec![1, 3].into(), ids: vec![4, 5, 6].into() }),
        };
        let waits = Waits { cancels, ..Waits::default() };
        let mut trace = Trace { prefix: Some(prefix), waits, origins: None, ..trace() };
        let before = of(&trace, 1);
        trace.forget(1);
        assert_eq!((of(&trace, 1), trace.len(), trace.arrival.get(0)), (before, 2, None));
        assert_eq!((trace.cancel_after(RequestNumber(1)), trace.last_token(RequestNumber(1))), (9, 2));
        let ids = trace.prefix.as_ref().unwrap();
        assert_eq!(
            (ids.of(TraceRow(1)), ids.outputs.as_ref().unwrap().of(TraceRow(1))),
            (&[9][..], &[5, 6][..])
        );
        assert_eq!((ids.ids.kept(), ids.ids.len()), (2..3, 3));
    }
}
