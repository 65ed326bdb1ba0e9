//! When clients cancel their requests, as the trace says.

use serde::{Deserialize, Serialize};

use super::{Error, HORIZON, RequestNumber, Trace};
use crate::collections::Column;
use crate::time::{NEVER, Ticks};

/// When clients cancel their requests, by row of the trace. A column that is left out cancels none.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Cancels {
    /// Ticks from when a request is sent until its client cancels it; [`NEVER`](crate::NEVER): it does not.
    pub after: Option<Column<Ticks>>,
    /// Output tokens after which its client cancels it; `u32::MAX`: it does not.
    pub tokens: Option<Column<u32>>,
}

impl Cancels {
    /// Whether no client cancels a request.
    pub fn is_empty(&self) -> bool {
        self.after.is_none() && self.tokens.is_none()
    }

    /// Forgets the rows before `row`.
    pub(super) fn forget(&mut self, row: usize) {
        if let Some(after) = &mut self.after {
            after.forget(row);
        }
        if let Some(tokens) = &mut self.tokens {
            tokens.forget(row);
        }
    }

    /// Each column with its number of values.
    pub(super) fn lengths(&self) -> [(&'static str, Option<usize>); 2] {
        [
            ("cancel_after", self.after.as_ref().map(Column::len)),
            ("cancel_after_tokens", self.tokens.as_ref().map(Column::len)),
        ]
    }

    /// Checks the rules that the engine relies on.
    pub(super) fn validate(&self) -> Result<(), Error> {
        let late = |&after: &Ticks| after > HORIZON && after != NEVER;
        if let Some(row) = self.after.as_ref().and_then(|column| column.iter().position(late)) {
            return Err(Error::trace(row, format!("cancel_after lies within 186 days, {HORIZON} ticks")));
        }
        if let Some(row) = self.tokens.as_ref().and_then(|column| column.iter().position(|&n| n == 0)) {
            return Err(Error::trace(row, "cancel_after_tokens is 1 or more, was 0"));
        }
        Ok(())
    }
}

impl Trace {
    /// The output tokens with which a request ends: all, or those after which its client cancels it.
    pub(crate) fn last_token(&self, request: RequestNumber) -> u32 {
        let output = self.output_tokens[request.index()];
        match &self.waits.cancels.tokens {
            None => output,
            Some(tokens) => output.min(tokens[self.origin(request).index()]),
        }
    }

    /// Ticks from when a request is sent until its client cancels it; [`NEVER`]: it does not.
    pub(crate) fn cancel_after(&self, request: RequestNumber) -> Ticks {
        self.waits.cancels.after.as_ref().map_or(NEVER, |after| after[self.origin(request).index()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{TraceRow, Waits};

    fn waits(cancels: Cancels) -> Waits {
        Waits { cancels, ..Waits::default() }
    }

    fn trace() -> Trace {
        Trace {
            arrival: vec![5, 6].into(),
            prompt_tokens: vec![8, 9].into(),
            output_tokens: vec![4, 7].into(),
            waits: waits(Cancels {
                after: Some(vec![NEVER, 30].into()),
                tokens: Some(vec![u32::MAX, 3].into()),
            }),
            ..Trace::default()
        }
    }

    #[test]
    fn a_request_ends_with_the_token_after_which_it_is_cancelled() {
        let mut trace = trace();
        assert_eq!([0, 1].map(|number| trace.last_token(RequestNumber(number))), [4, 3]);
        assert_eq!([0, 1].map(|number| trace.cancel_after(RequestNumber(number))), [NEVER, 30]);
        trace.origins = Some(vec![1, 0].into());
        trace.output_tokens.swap(0, 1);
        assert_eq!([0, 1].map(|number| trace.last_token(RequestNumber(number))), [3, 4]);
    }

    #[test]
    fn a_request_that_is_sent_again_is_the_same_row() {
        let mut trace =
            Trace { origins: Some(vec![1, 0].into()), priority: Some(vec![3, 4].into()), ..trace() };
        trace.repeat(0);
        assert_eq!(
            (trace.len(), trace.prompt_tokens[2], trace.origin(RequestNumber(2))),
            (3, 8, TraceRow(1))
        );
        assert_eq!(trace.priority, Some(vec![3, 4, 3].into()));
    }

    #[test]
    fn columns_are_checked() {
        let none =
            Trace { waits: waits(Cancels { after: None, tokens: Some(vec![1, 0].into()) }), ..trace() };
        assert!(none.validate().unwrap_err().to_string().contains("cancel_after_tokens is 1 or more"));
        let late = Cancels { after: Some(vec![HORIZON + 1, 0].into()), tokens: None };
        assert!(Trace { waits: waits(late), ..trace() }.validate().is_err());
        let short = Cancels { after: Some(vec![1].into()), tokens: None };
        assert!(Trace { waits: waits(short), ..trace() }.validate().is_err());
        assert_eq!(trace().validate(), Ok(()));
    }
}
