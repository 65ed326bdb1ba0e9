//! The trace: the requests to replay, as columns.

mod append;
mod by_place;
mod cancels;
mod rows;
mod waits;

use serde::{Deserialize, Serialize};

use crate::collections::Column;
use crate::error::Error;
use crate::time::{HORIZON, Ticks};

pub use cancels::Cancels;
pub use rows::{RequestNumber, TraceRow};
pub use waits::{Parents, Waits};

/// Prompts and outputs must be shorter than this.
pub(crate) const LIMIT: u32 = 1 << 30;

/// The model of a request that names none, and of an instance that serves all.
pub(crate) const ANY_MODEL: u32 = u32::MAX;

/// The requests of a replay: one entry a request, in order of arrival.
///
/// `output_tokens` is the length at which a request turns out to end. The engine ends the request by it. Only a policy
/// that reads an oracle field decides by it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Trace {
    /// The arrival of each request.
    pub arrival: Column<Ticks>,
    /// Tokens of its prompt, at least 1.
    pub prompt_tokens: Column<u32>,
    /// Tokens of its output, at least 1.
    pub output_tokens: Column<u32>,
    /// Tokens of its output that are reasoning, before the answer starts.
    pub reasoning_tokens: Option<Column<u32>>,
    /// Its priority, the smallest first; `None`: all are 0.
    pub priority: Option<Column<i64>>,
    /// The score of a predictor, if a policy reads it.
    pub score: Option<Column<f64>>,
    /// Further columns of numbers that a policy reads.
    pub numbers: Vec<Column<f64>>,
    /// Its tenant, as a number, if a policy reads it.
    pub tenant: Option<Column<u32>>,
    /// The number of the model that it names, if instances serve several; `u32::MAX`: none, so that any instance serves it.
    pub model: Option<Column<u32>>,
    /// The number of its adapter, if an instance limits them; `u32::MAX`: none.
    pub adapter: Option<Column<u32>>,
    /// Ids of the blocks that prompts share.
    pub prefix: Option<PrefixIds>,
    /// The number of the conversation of which it is a turn; `u32::MAX`: none.
    pub session: Option<Column<u32>>,
    /// The answers that requests wait for.
    pub waits: Waits,
    /// The row in the trace of each request, by its number, once a source sends them in another order; `None` before a
    /// replay, and where the trace's own arrivals are replayed.
    pub origins: Option<Column<u32>>,
}

/// Ids of the blocks of prompts, one list after another.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PrefixIds {
    /// The end of each request's ids in `ids`.
    pub ends: Column<usize>,
    /// The ids. Two prompts share a prefix as far as their ids are equal.
    pub ids: Column<u64>,
    /// Tokens in a block.
    pub block_tokens: u32,
    /// Ids of the blocks that outputs fill, where they are known.
    pub outputs: Option<OutputIds>,
}

/// Ids of the blocks that outputs fill, one list after another. The first block of a request's output is the one after
/// the last full block of its prompt.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct OutputIds {
    /// The end of each request's ids in `ids`.
    pub ends: Column<usize>,
    /// The ids.
    pub ids: Column<u64>,
}

impl PrefixIds {
    /// The ids of a request's prompt.
    pub(crate) fn of(&self, row: TraceRow) -> &[u64] {
        of_row(&self.ends, &self.ids, row.index())
    }

    /// Forgets the rows before `row`.
    fn forget(&mut self, row: usize) {
        forget_rows(&mut self.ends, &mut self.ids, row);
        if let Some(outputs) = &mut self.outputs {
            forget_rows(&mut outputs.ends, &mut outputs.ids, row);
        }
    }
}

impl OutputIds {
    /// The ids of a request's output.
    pub(crate) fn of(&self, row: TraceRow) -> &[u64] {
        of_row(&self.ends, &self.ids, row.index())
    }
}

/// Forgets the parts of the rows before `row`. The end of the last of them stays, where the part of `row` starts.
pub(crate) fn forget_rows<T>(ends: &mut Column<usize>, ids: &mut Column<T>, row: usize) {
    if row > ends.kept().start {
        ids.forget(ends[row - 1]);
        ends.forget(row - 1);
    }
}

/// The part of a row in a list of all rows' parts.
pub(crate) fn of_row<'a, T>(ends: &Column<usize>, ids: &'a Column<T>, row: usize) -> &'a [T] {
    let start = if row == 0 { 0 } else { ends[row - 1] };
    ids.range(start..ends[row])
}

impl Trace {
    /// The priority of a request.
    pub(crate) fn priority_of(&self, row: usize) -> i64 {
        self.priority.as_ref().map_or(0, |column| column[row])
    }

    /// The number of a request in a further column; 0 if there is no such column.
    pub(crate) fn number(&self, column: u32, row: usize) -> f64 {
        self.numbers.get(column as usize).map_or(0.0, |values| values[row])
    }

    /// The model that a request names; [`ANY_MODEL`] if it names none.
    pub(crate) fn model_of(&self, row: usize) -> u32 {
        self.model.as_ref().map_or(ANY_MODEL, |column| column[row])
    }

    /// The adapter of a request, if it has one.
    pub(crate) fn adapter_of(&self, row: usize) -> Option<u32> {
        self.adapter.as_ref().map(|column| column[row]).filter(|&adapter| adapter != u32::MAX)
    }

    /// Reasoning tokens of a request, where the trace has them.
    pub(crate) fn reasoning(&self, row: usize) -> Option<u32> {
        self.reasoning_tokens.as_ref().map(|column| column[row])
    }

    /// Whether the reasoning of a request that has yielded `generated` tokens has ended.
    pub(crate) fn is_answering(&self, row: usize, generated: u32) -> bool {
        generated > 0 && self.reasoning(row).is_none_or(|reasoning| generated >= reasoning)
    }

    /// The row in the trace of a request.
    pub(crate) fn origin(&self, request: RequestNumber) -> TraceRow {
        TraceRow(self.origins.as_ref().map_or(request.0, |origins| origins[request.index()]))
    }

    /// The ids of the blocks that outputs fill, where they are known.
    fn outputs(&self) -> Option<&OutputIds> {
        self.prefix.as_ref()?.outputs.as_ref()
    }

    /// Requests in the trace.
    pub fn len(&self) -> usize {
        self.arrival.len()
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.arrival.is_empty()
    }

    /// Checks the rules that the engine relies on.
    ///
    /// # Errors
    ///
    /// Names the first row that breaks a rule.
    pub fn validate(&self) -> Result<(), Error> {
        self.validate_after(0)
    }

    /// As [`Self::validate`], for requests that follow `before` others.
    fn validate_after(&self, before: usize) -> Result<(), Error> {
        self.check_lengths()?;
        if self.origins.is_some() {
            return Err(Error::config("origins", "must be left out: a replay writes it"));
        }
        let n = before + self.len();
        if n > i32::MAX as usize {
            return Err(Error::trace(n, "a trace holds at most 2147483647 requests"));
        }
        if let Some(prefix) = &self.prefix {
            check_ends("prefix", &prefix.ends, prefix.ids.len())?;
            if let Some(outputs) = &prefix.outputs {
                check_ends("output", &outputs.ends, outputs.ids.len())?;
            }
            if prefix.block_tokens == 0 {
                return Err(Error::config("prefix_block_tokens", "must be 1 or more, was 0"));
            }
        }
        if let Some(session) = &self.session
            && let Some(row) = session.iter().position(|&s| s != u32::MAX && s as usize >= n)
        {
            // Memory is allocated for as many sessions as the largest number.
            let rule = format!(
                "session must be below the {n} requests of the trace, or {}: none; was {}",
                u32::MAX,
                session[row]
            );
            return Err(Error::trace(row, rule));
        }
        self.waits.validate()?;
        if let Some(reasoning) = &self.reasoning_tokens
            && let Some(row) = (0..self.len()).find(|&row| reasoning[row] > self.output_tokens[row])
        {
            let (part, whole) = (reasoning[row], self.output_tokens[row]);
            let rule = format!("reasoning_tokens is at most the {whole} of output_tokens, was {part}");
            return Err(Error::trace(row, rule));
        }
        let mut before = 0;
        for (row, &arrival) in self.arrival.iter().enumerate() {
            if arrival < before {
                let rule = format!("arrivals are in order of time, was {arrival} ticks after {before}");
                return Err(Error::trace(row, rule));
            }
            if arrival > HORIZON {
                let rule = format!("arrivals lie within 186 days, {HORIZON} ticks, was {arrival}");
                return Err(Error::trace(row, rule));
            }
            before = arrival;
        }
        for (name, column) in [("prompt_tokens", &self.prompt_tokens), ("output_tokens", &self.output_tokens)]
        {
            if let Some(row) = column.iter().position(|&n| n == 0 || n >= LIMIT) {
                return Err(Error::trace(row, format!("{name} is 1 to {}, was {}", LIMIT - 1, column[row])));
            }
        }
        Ok(())
    }

    /// Each column but that of arrivals, with its number of values.
    fn lengths(&self) -> impl Iterator<Item = (&'static str, Option<usize>)> {
        let columns = [
            ("prompt_tokens", Some(self.prompt_tokens.len())),
            ("output_tokens", Some(self.output_tokens.len())),
            ("reasoning_tokens", self.reasoning_tokens.as_ref().map(Column::len)),
            ("priority", self.priority.as_ref().map(Column::len)),
            ("score", self.score.as_ref().map(Column::len)),
            ("tenant", self.tenant.as_ref().map(Column::len)),
            ("model", self.model.as_ref().map(Column::len)),
            ("adapter", self.adapter.as_ref().map(Column::len)),
            ("session", self.session.as_ref().map(Column::len)),
            ("prefix_ends", self.prefix.as_ref().map(|prefix| prefix.ends.len())),
            ("output_ends", self.outputs().map(|outputs| outputs.ends.len())),
        ];
        let numbers = self.numbers.iter().map(|column| ("numbers", Some(column.len())));
        let others = self.waits.lengths().into_iter().chain(self.waits.cancels.lengths());
        columns.into_iter().chain(numbers).chain(others)
    }

    /// Checks that every column has a value for every request.
    fn check_lengths(&self) -> Result<(), Error> {
        let n = self.len();
        for (name, length) in self.lengths() {
            if let Some(length) = length.filter(|&length| length != n) {
                let rule = format!("{name} must have a value for each of {n} arrivals, had {length}");
                return Err(Error::trace(n.min(length), rule));
            }
        }
        Ok(())
    }
}

/// Checks the ends of each row's ids.
fn check_ends(name: &str, ends: &Column<usize>, ids: usize) -> Result<(), Error> {
    let n = ends.len();
    if let Some(row) = (1..n).find(|&row| ends[row] < ends[row - 1]) {
        let (was, before) = (ends[row], ends[row - 1]);
        return Err(Error::trace(row, format!("{name}_ends must not fall, was {was} after {before}")));
    }
    let end = ends.last().copied().unwrap_or(0);
    if end != ids {
        let rule = format!("{name}_ends must end at the {ids} of {name}_ids, was {end}");
        return Err(Error::trace(n.saturating_sub(1), rule));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Trace {
        Trace {
            arrival: vec![0, 1].into(),
            prompt_tokens: vec![8, 8].into(),
            output_tokens: vec![2, 2].into(),
            ..Trace::default()
        }
    }

    fn said(trace: &Trace) -> String {
        trace.validate().unwrap_err().to_string()
    }

    #[test]
    fn every_column_has_a_value_for_every_request() {
        assert_eq!(two().validate(), Ok(()));
        let short = [
            ("prompt_tokens", Trace { prompt_tokens: vec![8].into(), ..two() }),
            ("output_tokens", Trace { output_tokens: vec![].into(), ..two() }),
            ("reasoning_tokens", Trace { reasoning_tokens: Some(vec![0].into()), ..two() }),
            ("priority", Trace { priority: Some(vec![0; 3].into()), ..two() }),
            ("score", Trace { score: Some(vec![].into()), ..two() }),
            ("tenant", Trace { tenant: Some(vec![0].into()), ..two() }),
            ("session", Trace { session: Some(vec![0].into()), ..two() }),
            (
                "prefix_ends",
                Trace {
                    prefix: Some(PrefixIds {
                        ends: vec![0].into(),
                        ids: vec![].into(),
                        block_tokens: 1,
                        outputs: None,
                    }),
                    ..two()
                },
            ),
        ];
        for (name, trace) in short {
            let rule = format!("{name} must have a value for each of 2 arrivals, had");
            assert!(said(&trace).contains(&rule), "{name}: {}", said(&trace));
        }
    }

    #[test]
    fn rows_that_break_a_rule_are_named() {
        let prefix = |ends: Vec<usize>, block_tokens| {
            let prefix = PrefixIds { ends: ends.into(), ids: vec![4, 5].into(), block_tokens, outputs: None };
            said(&Trace { prefix: Some(prefix), ..two() })
        };
        assert!(prefix(vec![2, 1], 1).contains("row 1 of the trace: prefix_ends must not fall"));
        assert!(prefix(vec![0, 1], 1).contains("must end at the 2 of prefix_ids, was 1"));
        assert!(prefix(vec![0, 2], 0).contains("prefix_block_tokens: must be 1 or more"));
        let cases = [
            (Trace { arrival: vec![1, 0].into(), ..two() }, "was 0 ticks after 1"),
            (Trace { arrival: vec![0, Ticks::MAX].into(), ..two() }, "within 186 days"),
            (Trace { output_tokens: vec![1, 0].into(), ..two() }, "output_tokens is 1 to 1073741823, was 0"),
            (
                Trace { session: Some(vec![u32::MAX, 2].into()), ..two() },
                "session must be below the 2 requests",
            ),
            (
                Trace { reasoning_tokens: Some(vec![0, 3].into()), ..two() },
                "at most the 2 of output_tokens, was 3",
            ),
        ];
        for (trace, rule) in cases {
            assert!(said(&trace).contains(rule), "{}", said(&trace));
        }
    }
}
