//! What a replay gives, as arrays that are moved, not copied.

use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde::Serialize;

use crate::guard::guarded;
use crate::sketch::Sketch;

/// Everything that happened.
#[pyclass(frozen, module = "paceline._core")]
pub(crate) struct Outcome {
    #[pyo3(get)]
    scheduled_ticks: Py<PyArray1<u64>>,
    #[pyo3(get)]
    first_token_ticks: Py<PyArray1<u64>>,
    #[pyo3(get)]
    reasoning_end_ticks: Py<PyArray1<u64>>,
    #[pyo3(get)]
    first_answer_ticks: Py<PyArray1<u64>>,
    #[pyo3(get)]
    answer_started_ticks: Py<PyArray1<u64>>,
    #[pyo3(get)]
    preempted_ticks: Py<PyArray1<u64>>,
    #[pyo3(get)]
    preempted_answering_ticks: Py<PyArray1<u64>>,
    #[pyo3(get)]
    transfer_ticks: Py<PyArray1<u64>>,
    #[pyo3(get)]
    transfer_answering_ticks: Py<PyArray1<u64>>,
    #[pyo3(get)]
    handover_wait_ticks: Py<PyArray1<u64>>,
    #[pyo3(get)]
    received_wait_ticks: Py<PyArray1<u64>>,
    #[pyo3(get)]
    first_decode_ticks: Py<PyArray1<u64>>,
    #[pyo3(get)]
    migrations: Py<PyArray1<u32>>,
    #[pyo3(get)]
    last_instance: Py<PyArray1<u32>>,
    #[pyo3(get)]
    qoe: Py<PyArray1<f64>>,
    #[pyo3(get)]
    qoe_answering: Py<PyArray1<f64>>,
    #[pyo3(get)]
    finish_ticks: Py<PyArray1<u64>>,
    #[pyo3(get)]
    max_itl_ticks: Py<PyArray1<u64>>,
    #[pyo3(get)]
    preemptions: Py<PyArray1<u32>>,
    #[pyo3(get)]
    generated_tokens: Py<PyArray1<u32>>,
    #[pyo3(get)]
    cached_tokens: Py<PyArray1<u32>>,
    #[pyo3(get)]
    instance: Py<PyArray1<u32>>,
    #[pyo3(get)]
    status: Py<PyArray1<u8>>,
    #[pyo3(get)]
    held_ticks: Py<PyArray1<u64>>,
    #[pyo3(get)]
    reason: Py<PyArray1<u8>>,
    #[pyo3(get)]
    itl: Py<Sketch>,
    #[pyo3(get)]
    stats: Py<PyBytes>,
    /// The changes of roles, as JSON: rows of ticks, instance, role before, role after, cause and request.
    #[pyo3(get)]
    flips: Py<PyBytes>,
    decisions: Vec<paceline_core::StepColumns>,
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
}

fn moved<T: numpy::Element>(py: Python<'_>, column: Vec<T>) -> Py<PyArray1<T>> {
    PyArray1::from_vec(py, column).unbind()
}

/// A change of a role as a row.
fn flip_row(flip: &paceline_core::FlipRecord) -> (u64, u32, u32, u32, &'static str, Option<u32>) {
    (flip.time, flip.instance, flip.from, flip.to, flip.cause.name(), flip.cause.request())
}

impl Outcome {
    pub(crate) fn new(py: Python<'_>, outcome: paceline_core::Outcome) -> PyResult<Self> {
        let stats = Stats {
            end_ticks: outcome.end,
            steps: outcome.stats.iter().map(|stats| stats.steps).sum(),
            events: outcome.events,
            instances: &outcome.stats,
            network: &outcome.network,
        };
        let stats = serde_json::to_vec(&stats).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let flips: Vec<_> = outcome.flips.iter().map(flip_row).collect();
        let flips = serde_json::to_vec(&flips).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let timeline = outcome.timeline.map(|rows| crate::timeline::columns(py, &rows)).transpose()?;
        let columns = outcome.columns;
        Ok(Self {
            scheduled_ticks: moved(py, columns.scheduled),
            first_token_ticks: moved(py, columns.first_token),
            reasoning_end_ticks: moved(py, columns.reasoning_end),
            first_answer_ticks: moved(py, columns.first_answer),
            answer_started_ticks: moved(py, columns.answer_started),
            preempted_ticks: moved(py, columns.preempted),
            preempted_answering_ticks: moved(py, columns.preempted_answering),
            transfer_ticks: moved(py, columns.transfer),
            transfer_answering_ticks: moved(py, columns.transfer_answering),
            handover_wait_ticks: moved(py, columns.handover_wait),
            received_wait_ticks: moved(py, columns.received_wait),
            first_decode_ticks: moved(py, columns.first_decode),
            migrations: moved(py, columns.migrations),
            last_instance: moved(py, columns.last_instance),
            qoe: moved(py, columns.qoe),
            qoe_answering: moved(py, columns.qoe_answering),
            held_ticks: moved(py, columns.held),
            finish_ticks: moved(py, columns.finish),
            max_itl_ticks: moved(py, columns.max_itl),
            preemptions: moved(py, columns.preemptions),
            generated_tokens: moved(py, columns.generated),
            cached_tokens: moved(py, columns.cached),
            instance: moved(py, columns.instance),
            status: moved(py, columns.status),
            reason: moved(py, columns.reason),
            itl: Py::new(py, Sketch { inner: outcome.gaps })?,
            stats: PyBytes::new(py, &stats).unbind(),
            flips: PyBytes::new(py, &flips).unbind(),
            decisions: outcome.decisions,
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
