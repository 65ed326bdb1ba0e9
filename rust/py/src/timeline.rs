//! A replay's samples, as arrays.

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The columns by name, one value a sample and instance, with `times` of the samples and the interval, `every`.
pub(crate) fn columns(py: Python<'_>, rows: &paceline_core::Rows) -> PyResult<Py<PyDict>> {
    let columns = PyDict::new(py);
    columns.set_item("every", rows.every)?;
    columns.set_item("times", PyArray1::from_slice(py, &rows.times))?;
    for (name, values) in rows.whole() {
        columns.set_item(name, PyArray1::from_vec(py, values))?;
    }
    for (name, values) in rows.large() {
        columns.set_item(name, PyArray1::from_vec(py, values))?;
    }
    Ok(columns.unbind())
}
