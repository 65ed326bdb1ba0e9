//! The columns whose entries move with the requests.

use super::Trace;

/// A change of one column, the same for each of these columns.
trait Work {
    fn on<T: Copy>(&self, column: &mut Vec<T>);
}

/// Swaps two entries.
struct Swap(usize, usize);

impl Work for Swap {
    #[inline]
    fn on<T: Copy>(&self, column: &mut Vec<T>) {
        column.swap(self.0, self.1);
    }
}

/// Appends an entry again.
struct Repeat(usize);

impl Work for Repeat {
    #[inline]
    fn on<T: Copy>(&self, column: &mut Vec<T>) {
        column.push(column[self.0]);
    }
}

impl Trace {
    /// Swaps two requests that have not arrived.
    pub(crate) fn swap(&mut self, one: usize, other: usize) {
        self.work(&Swap(one, other));
    }

    /// Appends a request again that has arrived, at the end of the columns.
    pub(crate) fn repeat(&mut self, place: usize) {
        self.work(&Repeat(place));
    }

    /// Does something with each column whose entries move with the requests. The ids of their blocks, and what only clients
    /// read, stay where they are, by row of the trace.
    #[inline]
    fn work(&mut self, work: &impl Work) {
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
            origins,
        } = self;
        work.on(arrival);
        for column in [prompt_tokens, output_tokens] {
            work.on(column);
        }
        for column in [reasoning_tokens, tenant, model, adapter, session, origins].into_iter().flatten() {
            work.on(column);
        }
        if let Some(column) = priority {
            work.on(column);
        }
        for column in numbers.iter_mut().chain(score) {
            work.on(column);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two requests with every column that moves.
    fn trace() -> Trace {
        Trace {
            arrival: vec![1, 2],
            prompt_tokens: vec![3, 4],
            output_tokens: vec![5, 6],
            reasoning_tokens: Some(vec![1, 2]),
            priority: Some(vec![-1, 1]),
            score: Some(vec![0.5, 1.5]),
            numbers: vec![vec![7.0, 8.0]],
            tenant: Some(vec![0, 1]),
            model: Some(vec![2, 3]),
            adapter: Some(vec![4, 5]),
            session: Some(vec![6, 7]),
            origins: Some(vec![0, 1]),
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
}
