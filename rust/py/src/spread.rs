//! The spread of latencies.

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::guard::guarded;

/// Columns of a result, an entry a request.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Columns<'py> {
    ends: PyReadonlyArray1<'py, u64>,
    #[pyo3(default)]
    starts: Option<PyReadonlyArray1<'py, u64>>,
    #[pyo3(default)]
    tokens: Option<PyReadonlyArray1<'py, u32>>,
    #[pyo3(default)]
    rows: Option<PyReadonlyArray1<'py, bool>>,
}

/// Count, mean, maximum and quantiles.
type Found = (usize, f64, f64, Vec<f64>);

/// Returns count, mean, maximum and quantiles of latencies in seconds; None if there are none.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "arguments of Python's functions are owned")]
pub(crate) fn spread(py: Python<'_>, columns: Columns<'_>, shares: Vec<f64>) -> PyResult<Option<Found>> {
    guarded(|| {
        if let Some(share) = shares.iter().find(|share| !(0.0..=1.0).contains(*share)) {
            return Err(PyValueError::new_err(format!("a share must be 0 to 1, was {share}")));
        }
        let spans = spans(&columns, columns.ends.len()?)?;
        let found = py.detach(|| paceline_core::Spread::of(spans.seconds(), &shares));
        Ok(found.map(|found| (found.count, found.mean, found.max, found.quantiles)))
    })
}

/// Counts the requests that exceed none of the bounds in seconds, one for each of some latencies of the same requests. The
/// first says which requests count.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "arguments of Python's functions are owned")]
pub(crate) fn count_within(py: Python<'_>, latencies: Vec<(Columns<'_>, f64)>) -> PyResult<usize> {
    guarded(|| {
        let Some((first, _)) = latencies.first() else { return Ok(0) };
        let requests = first.ends.len()?;
        let bounded: PyResult<Vec<_>> =
            latencies.iter().map(|(columns, bound)| Ok((spans(columns, requests)?, *bound))).collect();
        let bounded = bounded?;
        Ok(py.detach(|| paceline_core::Spans::count_within(&bounded)))
    })
}

fn spans<'a>(columns: &'a Columns<'_>, requests: usize) -> PyResult<paceline_core::Spans<'a>> {
    let ends = slice("ends", Some(&columns.ends), requests)?;
    Ok(paceline_core::Spans {
        ends: ends.unwrap_or_default(),
        starts: slice("starts", columns.starts.as_ref(), requests)?,
        tokens: slice("tokens", columns.tokens.as_ref(), requests)?,
        rows: slice("rows", columns.rows.as_ref(), requests)?,
    })
}

fn slice<'a, T: numpy::Element>(
    name: &str,
    column: Option<&'a PyReadonlyArray1<'_, T>>,
    requests: usize,
) -> PyResult<Option<&'a [T]>> {
    let Some(column) = column else { return Ok(None) };
    let slice = column.as_slice()?;
    if slice.len() == requests {
        return Ok(Some(slice));
    }
    let held = slice.len();
    Err(PyValueError::new_err(format!(
        "{name} must have an entry for each of {requests} requests, had {held}"
    )))
}
