//! The outcome of a replay, as arrays that are moved, not copied.

use numpy::PyArray1;
use paceline_core::Buffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde::Serialize;

use crate::guard::guarded;
use crate::sketch::Sketch;

/// Everything that happened.
#[pyclass(frozen, module = "paceline._core")]
pub(crate) struct Outcome {
    /// The columns by request, by name; those that the replay does not have are empty.
    #[pyo3(get)]
    columns: Py<PyDict>,
    #[pyo3(get)]
    itl: Py<Sketch>,
    #[pyo3(get)]
    stats: Py<PyBytes>,
    /// The changes of roles, as JSON: rows of ticks, instance, role before, role after, cause and request.
    #[pyo3(get)]
    flips: Py<PyBytes>,
    decisions: Vec<paceline_core::StepColumns>,
    tiers: Vec<Option<Box<paceline_core::TierLog>>>,
    transfers: Vec<paceline_core::TransferRecord>,
    #[pyo3(get)]
    watched: Py<PyArray1<f64>>,
    /// The instances over time; none if they were not sampled.
    #[pyo3(get)]
    timeline: Option<Py<PyDict>>,
}

#[derive(Serialize)]
struct Stats<'a> {
    end_ticks: u64,
    steps: u64,
    events: u64,
    instances: &'a [paceline_core::InstanceStats],
    network: &'a paceline_core::NetworkStats,
    stores: &'a [paceline_core::StoreStats],
}

fn moved<T: numpy::Element>(py: Python<'_>, column: Vec<T>) -> Py<PyArray1<T>> {
    PyArray1::from_vec(py, column).unbind()
}

/// The columns by request, as arrays by name.
pub(crate) fn by_request(py: Python<'_>, columns: paceline_core::Columns) -> PyResult<Py<PyDict>> {
    let arrays = PyDict::new(py);
    for (name, buffer) in columns.into_buffers() {
        match buffer {
            Buffer::U64(values) => arrays.set_item(name, PyArray1::from_vec(py, values))?,
            Buffer::U32(values) => arrays.set_item(name, PyArray1::from_vec(py, values))?,
            Buffer::F64(values) => arrays.set_item(name, PyArray1::from_vec(py, values))?,
            Buffer::U8(values) => arrays.set_item(name, PyArray1::from_vec(py, values))?,
        }
    }
    Ok(arrays.unbind())
}

/// The declarations of the columns by request: name, kind, the replays that have it, definition.
pub(crate) fn declared() -> Vec<(&'static str, &'static str, &'static str, String)> {
    let plain = |text: &str| text.trim().to_owned();
    paceline_core::Columns::DECLARED
        .iter()
        .map(|one| (one.name, one.kind, one.when, plain(one.definition)))
        .collect()
}

/// A change of a role as a row.
fn flip_row(flip: &paceline_core::FlipRecord) -> (u64, u32, u32, u32, &'static str, Option<u32>) {
    (flip.time, flip.instance, flip.from, flip.to, flip.cause.name(), flip.cause.request())
}

impl Outcome {
    pub(crate) fn new(py: Python<'_>, outcome: paceline_core::Outcome) -> PyResult<Self> {
        let stats = Stats {
            end_ticks: outcome.end,
            steps: outcome.stats.iter().map(|stats| stats.work.steps).sum(),
            events: outcome.events,
            instances: &outcome.stats,
            network: &outcome.network,
            stores: &outcome.stores,
        };
        let stats = serde_json::to_vec(&stats).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let flips: Vec<_> = outcome.flips.iter().map(flip_row).collect();
        let flips = serde_json::to_vec(&flips).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let timeline = outcome.timeline.map(|rows| crate::timeline::columns(py, &rows)).transpose()?;
        Ok(Self {
            columns: by_request(py, outcome.columns)?,
            itl: Py::new(py, Sketch { inner: outcome.gaps })?,
            stats: PyBytes::new(py, &stats).unbind(),
            flips: PyBytes::new(py, &flips).unbind(),
            decisions: outcome.decisions,
            tiers: outcome.tiers,
            transfers: outcome.transfers,
            watched: moved(py, outcome.watched),
            timeline,
        })
    }

    /// The recorded steps of an instance.
    fn steps_of(&self, instance: usize) -> PyResult<&paceline_core::StepColumns> {
        self.decisions.get(instance).ok_or_else(|| {
            let held = self.decisions.len();
            PyValueError::new_err(format!("instance must be one of {held}, counted from 0, was {instance}"))
        })
    }
}

#[pymethods]
impl Outcome {
    /// The steps of one instance, as JSON.
    fn decisions<'py>(&self, py: Python<'py>, instance: usize) -> PyResult<Bound<'py, PyBytes>> {
        guarded(|| {
            let text = serde_json::to_vec(self.steps_of(instance)?)
                .map_err(|error| PyValueError::new_err(error.to_string()))?;
            Ok(PyBytes::new(py, &text))
        })
    }

    /// The actions of the steps of one instance on its tier, as JSON; `null` if it has none.
    fn tier<'py>(&self, py: Python<'py>, instance: usize) -> PyResult<Bound<'py, PyBytes>> {
        guarded(|| {
            let text = serde_json::to_vec(&self.tiers.get(instance))
                .map_err(|error| PyValueError::new_err(error.to_string()))?;
            Ok(PyBytes::new(py, &text))
        })
    }

    /// The steps of one instance, as arrays by name.
    fn steps<'py>(&self, py: Python<'py>, instance: usize) -> PyResult<Bound<'py, PyDict>> {
        guarded(|| crate::recorded::steps(py, self.steps_of(instance)?))
    }

    /// The recorded transfers of KV between instances, as arrays by name.
    fn transfer_columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        guarded(|| crate::recorded::transfers(py, &self.transfers))
    }

    /// The recorded transfers of KV between instances, as JSON.
    fn transfers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        guarded(|| {
            let text = serde_json::to_vec(&self.transfers)
                .map_err(|error| PyValueError::new_err(error.to_string()))?;
            Ok(PyBytes::new(py, &text))
        })
    }
}
