//! The spread of latencies, and the requests within bounds.

use numpy::PyReadonlyArray1;
use paceline_core::{Measured, Spans, Spread};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::guard::guarded;

/// A latency of requests: columns with an entry a request, and its bound in seconds.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Latency<'py> {
    ends: PyReadonlyArray1<'py, u64>,
    #[pyo3(default)]
    starts: Option<PyReadonlyArray1<'py, u64>>,
    #[pyo3(default)]
    tokens: Option<PyReadonlyArray1<'py, u32>>,
    #[pyo3(default)]
    bound: Option<f64>,
}

/// Count, mean, maximum and quantiles.
type Found = (usize, f64, f64, Vec<f64>);

/// Returns count, mean, maximum and quantiles of each latency in seconds, None for one that no request has; and how many
/// candidates exceed none of the bounds.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "arguments of Python's functions are owned")]
#[pyo3(signature = (latencies, shares, *, candidates, rows=None))]
pub(crate) fn measure(
    py: Python<'_>,
    latencies: Vec<Latency<'_>>,
    shares: Vec<f64>,
    candidates: PyReadonlyArray1<'_, bool>,
    rows: Option<PyReadonlyArray1<'_, bool>>,
) -> PyResult<(Vec<Option<Found>>, usize)> {
    guarded(|| {
        if let Some(share) = shares.iter().find(|share| !(0.0..=1.0).contains(*share)) {
            return Err(PyValueError::new_err(format!("a share must be 0 to 1, was {share}")));
        }
        let candidates = candidates.as_slice()?;
        let rows = slice("rows", rows.as_ref(), candidates.len())?;
        let spans: PyResult<Vec<_>> =
            latencies.iter().map(|latency| Ok((spans(latency, candidates.len())?, latency.bound))).collect();
        let spans = spans?;
        let measured = py.detach(|| Measured::of(&spans, rows, candidates, &shares));
        let spreads = measured.spreads.into_iter().map(|spread| spread.map(found)).collect();
        Ok((spreads, measured.within))
    })
}

fn found(spread: Spread) -> Found {
    (spread.count, spread.mean, spread.max, spread.quantiles)
}

fn spans<'a>(latency: &'a Latency<'_>, requests: usize) -> PyResult<Spans<'a>> {
    Ok(Spans {
        ends: slice("ends", Some(&latency.ends), requests)?.unwrap_or_default(),
        starts: slice("starts", latency.starts.as_ref(), requests)?,
        tokens: slice("tokens", latency.tokens.as_ref(), requests)?,
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
