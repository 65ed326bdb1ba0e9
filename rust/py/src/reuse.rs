//! Hits of a prefix cache against its capacity.

use numpy::{IntoPyArray, PyArray1};
use paceline_core::{Lookup, Reuse};
use pyo3::prelude::*;

use crate::error::raise;
use crate::guard::guarded;

/// Capacities, blocks and tokens found at each, blocks and tokens asked for, and different blocks.
type Found<'py> =
    (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<u64>>, u64, u64, u64);

/// Returns the capacities in blocks at which more is found than with one block fewer; the blocks and tokens that are found at
/// each, and not with one block fewer; the blocks and tokens of all prompts; and the number of different blocks.
#[pyfunction]
#[pyo3(signature = (columns, block_tokens, *, full_blocks, answers))]
pub(crate) fn reuse<'py>(
    py: Python<'py>,
    columns: &Bound<'py, PyAny>,
    block_tokens: u32,
    full_blocks: bool,
    answers: bool,
) -> PyResult<Found<'py>> {
    guarded(|| {
        let trace = crate::columns::trace(columns)?;
        let lookup = Lookup { block_tokens, full_blocks, answers };
        let found = py.detach(|| Reuse::of(&trace, lookup)).map_err(|error| raise(&error))?;
        let Reuse { depths, blocks, tokens, asked_blocks, asked_tokens, distinct } = found;
        let arrays = [depths, blocks, tokens].map(|numbers| numbers.into_pyarray(py));
        let [depths, blocks, tokens] = arrays;
        Ok((depths, blocks, tokens, asked_blocks, asked_tokens, distinct))
    })
}
