//! Recorded steps and transfers, as arrays.

use numpy::PyArray1;
use paceline_core::{StepColumns, TransferKind, TransferRecord};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The columns of an instance's steps by name. A list of values a step is a column of all values, and one of where each
/// step's end.
pub(crate) fn steps<'py>(py: Python<'py>, steps: &StepColumns) -> PyResult<Bound<'py, PyDict>> {
    let columns = PyDict::new(py);
    for (name, values) in [
        ("start", &steps.start),
        ("ticks", &steps.ticks),
        ("copied_out", &steps.copied_out),
        ("copied_in", &steps.copied_in),
        ("free_blocks", &steps.free_blocks),
        ("scheduled_ends", &steps.scheduled_ends),
        ("preempted_ends", &steps.preempted_ends),
    ] {
        columns.set_item(name, PyArray1::from_slice(py, values))?;
    }
    for (name, values) in
        [("requests", &steps.requests), ("tokens", &steps.tokens), ("preempted", &steps.preempted)]
    {
        columns.set_item(name, PyArray1::from_slice(py, values))?;
    }
    columns.set_item("decodes", PyArray1::from_vec(py, steps.decodes().collect()))?;
    Ok(columns)
}

/// The columns of transfers by name.
pub(crate) fn transfers<'py>(py: Python<'py>, records: &[TransferRecord]) -> PyResult<Bound<'py, PyDict>> {
    let columns = PyDict::new(py);
    let of = |value: fn(&TransferRecord) -> u64| PyArray1::from_vec(py, records.iter().map(value).collect());
    columns.set_item("request", of(|one| u64::from(one.request)))?;
    columns.set_item("source", of(|one| one.source as u64))?;
    columns.set_item("target", of(|one| one.target as u64))?;
    columns.set_item("sent", of(|one| one.sent))?;
    columns.set_item("first_byte", of(|one| one.first_byte))?;
    columns.set_item("delivered", of(|one| one.delivered))?;
    columns.set_item("bytes", of(|one| one.bytes))?;
    let kinds: Vec<&str> = records.iter().map(|one| name(one.kind)).collect();
    columns.set_item("kind", kinds)?;
    Ok(columns)
}

/// The name of the contents of a transfer.
fn name(kind: TransferKind) -> &'static str {
    match kind {
        TransferKind::Request => "request",
        TransferKind::Accepted => "accepted",
        TransferKind::Stage => "stage",
    }
}
