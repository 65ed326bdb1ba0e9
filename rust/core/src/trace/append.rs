//! More requests at the end of a trace, while a replay runs.

use super::{PrefixIds, Trace};
use crate::collections::Column;
use crate::error::Error;

/// Appends a column to another, where there is one.
fn join<T>(column: &mut Option<Column<T>>, more: Option<Column<T>>) {
    if let (Some(column), Some(more)) = (column, more) {
        column.extend(more);
    }
}

impl Trace {
    /// Whether another trace has the same optional columns.
    ///
    /// # Errors
    ///
    /// Names the first column that one of them lacks.
    fn check_same_columns(&self, more: &Self) -> Result<(), Error> {
        if self.numbers.len() != more.numbers.len() {
            let rule = format!("numbers must be {} columns, were {}", self.numbers.len(), more.numbers.len());
            return Err(Error::trace(0, rule));
        }
        if !more.waits.is_empty() {
            let rule = "must not wait for answers: a request that is submitted is sent at its moment";
            return Err(Error::trace(0, rule));
        }
        for ((name, ours), (_, theirs)) in std::iter::zip(self.lengths(), more.lengths()) {
            if ours.is_some() != theirs.is_some() {
                let rule = if ours.is_some() { "given" } else { "left out" };
                return Err(Error::trace(0, format!("{name} must be {rule}, as at the start")));
            }
        }
        let sizes = [self, more].map(|trace| trace.prefix.as_ref().map(|ids| ids.block_tokens));
        if sizes[0] != sizes[1] {
            let [ours, theirs] = sizes.map(Option::unwrap_or_default);
            return Err(Error::trace(0, format!("prefix_block_tokens must be {ours}, was {theirs}")));
        }
        Ok(())
    }

    /// Appends requests, which need not arrive after those before. Nothing is appended if a rule is broken.
    ///
    /// # Errors
    ///
    /// If the requests break a rule of traces, have other columns than this trace, or wait for answers.
    pub(crate) fn append(&mut self, more: Self) -> Result<(), Error> {
        self.check_same_columns(&more)?;
        let before = self.len();
        more.validate_after(before)?;
        self.arrival.extend(more.arrival);
        self.prompt_tokens.extend(more.prompt_tokens);
        self.output_tokens.extend(more.output_tokens);
        join(&mut self.reasoning_tokens, more.reasoning_tokens);
        join(&mut self.priority, more.priority);
        join(&mut self.score, more.score);
        for (column, more) in std::iter::zip(&mut self.numbers, more.numbers) {
            column.extend(more);
        }
        join(&mut self.tenant, more.tenant);
        join(&mut self.model, more.model);
        join(&mut self.adapter, more.adapter);
        join(&mut self.session, more.session);
        join(&mut self.waits.cancels.after, more.waits.cancels.after);
        join(&mut self.waits.cancels.tokens, more.waits.cancels.tokens);
        if let (Some(ours), Some(theirs)) = (&mut self.prefix, more.prefix) {
            ours.append(theirs);
        }
        if let Some(origins) = &mut self.origins {
            origins.extend(before as u32..self.arrival.len() as u32);
        }
        Ok(())
    }
}

/// Appends lists with their ends to others.
fn join_lists(
    ends: &mut Column<usize>,
    ids: &mut Column<u64>,
    more_ends: &Column<usize>,
    more_ids: Column<u64>,
) {
    let before = ids.len();
    ends.extend(more_ends.iter().map(|end| before + end));
    ids.extend(more_ids);
}

impl PrefixIds {
    fn append(&mut self, more: Self) {
        join_lists(&mut self.ends, &mut self.ids, &more.ends, more.ids);
        if let (Some(ours), Some(theirs)) = (&mut self.outputs, more.outputs) {
            join_lists(&mut ours.ends, &mut ours.ids, &theirs.ends, theirs.ids);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceRow;

    fn row(arrival: u64, ids: &[u64]) -> Trace {
        Trace {
            arrival: vec![arrival].into(),
            prompt_tokens: vec![8].into(),
            output_tokens: vec![2].into(),
            session: Some(vec![0].into()),
            prefix: Some(PrefixIds {
                ends: vec![ids.len()].into(),
                ids: ids.to_vec().into(),
                block_tokens: 4,
                outputs: None,
            }),
            ..Trace::default()
        }
    }

    #[test]
    fn rows_are_appended_with_their_lists() {
        let mut trace = row(7, &[1, 2]);
        trace.origins = Some(vec![0].into());
        trace.append(row(3, &[1])).unwrap();
        assert_eq!(
            (trace.arrival.clone(), trace.origins.clone()),
            (vec![7, 3].into(), Some(vec![0, 1].into()))
        );
        let ids = trace.prefix.as_ref().unwrap();
        assert_eq!((ids.of(TraceRow(0)), ids.of(TraceRow(1))), (&[1, 2][..], &[1][..]));
    }

    #[test]
    fn other_columns_than_before_are_refused_and_nothing_is_appended() {
        let mut trace = row(7, &[1]);
        let bare = Trace { session: None, ..row(8, &[1]) };
        let error = trace.append(bare).unwrap_err().to_string();
        assert!(error.contains("session must be given, as at the start"), "{error}");
        let empty = Trace { output_tokens: vec![0].into(), ..row(8, &[1]) };
        assert!(trace.append(empty).unwrap_err().to_string().contains("output_tokens is 1 to"));
        assert_eq!(trace.len(), 1);
    }
}
