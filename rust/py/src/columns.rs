//! The columns of a trace, as Python gives them: arrays by name.

use numpy::PyReadonlyArray1;
use paceline_core::Column;
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;

/// A column as the engine takes it; `None` if it is not given.
fn given<T: numpy::Element + Copy>(columns: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<Column<T>>> {
    if !columns.contains(name)? {
        return Ok(None);
    }
    let value = columns.get_item(name)?;
    let array: PyReadonlyArray1<'_, T> = value.extract().map_err(|error| of_column(name, error))?;
    let values = array.as_slice().map_err(|_| PyValueError::new_err(format!("{name} must be contiguous")))?;
    Ok(Some(values.to_vec().into()))
}

/// The error of a value of another type, with the name of its column.
fn of_column(name: &str, error: impl Into<PyErr>) -> PyErr {
    PyTypeError::new_err(format!("Columns.{name}: {}", error.into()))
}

/// A column that every trace has.
fn needed<T: numpy::Element + Copy>(columns: &Bound<'_, PyAny>, name: &str) -> PyResult<Column<T>> {
    given(columns, name)?.ok_or_else(|| PyKeyError::new_err(format!("columns must have {name}")))
}

/// The ends of lists that lie one after another.
fn ends(columns: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<Column<usize>>> {
    Ok(given::<u64>(columns, name)?.map(|ends| ends.into_iter().map(|end| end as usize).collect()))
}

/// The answers for which requests wait.
fn waits(columns: &Bound<'_, PyAny>) -> PyResult<paceline_core::Waits> {
    let parents = match (ends(columns, "parent_ends")?, given(columns, "parent_rows")?) {
        (Some(ends), Some(rows)) => {
            Some(paceline_core::Parents { ends, rows, delay: needed(columns, "delay_ticks")? })
        }
        _ => None,
    };
    let (think, not_before) = (given(columns, "think_ticks")?, given(columns, "not_before_ticks")?);
    Ok(paceline_core::Waits { think, parents, not_before, cancels: cancels(columns)? })
}

/// When clients cancel requests.
fn cancels(columns: &Bound<'_, PyAny>) -> PyResult<paceline_core::Cancels> {
    let (after, tokens) = (given(columns, "cancel_after_ticks")?, given(columns, "cancel_after_tokens")?);
    Ok(paceline_core::Cancels { after, tokens })
}

/// The blocks that prompts and outputs share.
fn prefix(columns: &Bound<'_, PyAny>) -> PyResult<Option<paceline_core::PrefixIds>> {
    let (Some(ends_of_prompts), Some(ids)) = (ends(columns, "prefix_ends")?, given(columns, "prefix_ids")?)
    else {
        return Ok(None);
    };
    let outputs = match (ends(columns, "output_ends")?, given(columns, "output_ids")?) {
        (Some(ends), Some(ids)) => Some(paceline_core::OutputIds { ends, ids }),
        _ => None,
    };
    let name = "prefix_block_tokens";
    let block_tokens = columns.get_item(name)?.extract().map_err(|error| of_column(name, error))?;
    Ok(Some(paceline_core::PrefixIds { ends: ends_of_prompts, ids, block_tokens, outputs }))
}

/// Further columns of numbers, one after another.
fn numbers(columns: &Bound<'_, PyAny>) -> PyResult<Vec<Column<f64>>> {
    let name = "numbers";
    if !columns.contains(name)? {
        return Ok(Vec::new());
    }
    let several: Vec<PyReadonlyArray1<'_, f64>> =
        columns.get_item(name)?.extract().map_err(|error| of_column(name, error))?;
    several.iter().map(|array| Ok(array.as_array().to_vec().into())).collect()
}

/// The trace of a mapping of columns by name.
pub(crate) fn trace(columns: &Bound<'_, PyAny>) -> PyResult<paceline_core::Trace> {
    Ok(paceline_core::Trace {
        arrival: needed(columns, "arrival_ticks")?,
        prompt_tokens: needed(columns, "prompt_tokens")?,
        output_tokens: needed(columns, "output_tokens")?,
        reasoning_tokens: given(columns, "reasoning_tokens")?,
        priority: given(columns, "priority")?,
        score: given(columns, "score")?,
        numbers: numbers(columns)?,
        tenant: given(columns, "tenant")?,
        model: given(columns, "model")?,
        adapter: given(columns, "adapter")?,
        session: given(columns, "session")?,
        waits: waits(columns)?,
        prefix: prefix(columns)?,
        origins: None,
    })
}
