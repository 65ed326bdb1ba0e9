//! A replay of a trace that is read as it is replayed, as an object of Python.
//!
//! Each call takes the engine out of the object and puts it back when it ends, as those of a simulation do.

use std::sync::Mutex;
use std::time::Instant;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::call::{Raised, Routers};
use crate::enter::{REPORT, advance, between_slices};
use crate::error::raise;
use crate::guard::guarded;
use crate::outcome::{Outcome, by_request};

/// A replay that runs, and when its progress was last reported.
struct Running {
    engine: paceline_core::Stream,
    reported: Instant,
}

/// A replay to which the rows of a trace are given in chunks.
#[pyclass(frozen, module = "paceline._core")]
pub(crate) struct Stream {
    running: Mutex<Option<Running>>,
    raised: Raised,
}

impl Stream {
    /// Takes the engine out.
    fn take(&self) -> PyResult<Running> {
        let taken = self.running.lock().ok().and_then(|mut running| running.take());
        taken.ok_or_else(|| PyRuntimeError::new_err("the replay has ended, failed, or is in another call"))
    }

    /// Has the engine do something, and puts it back if that did not fail.
    fn with<T>(&self, work: impl FnOnce(&mut Running) -> PyResult<T>) -> PyResult<T> {
        guarded(|| {
            let mut running = self.take()?;
            let done = work(&mut running)?;
            if let Ok(mut place) = self.running.lock() {
                *place = Some(running);
            }
            Ok(done)
        })
    }
}

#[pymethods]
impl Stream {
    /// Opens a replay without rows.
    #[new]
    #[pyo3(signature = (config, columns, routers=None))]
    fn new(config: &[u8], columns: &Bound<'_, PyAny>, routers: Option<Vec<Py<PyAny>>>) -> PyResult<Self> {
        guarded(|| {
            let columns = crate::columns::trace(columns)?;
            let raised = Raised::default();
            let calls = routers.map(|routers| -> Box<dyn paceline_core::Decide> {
                Box::new(Routers { routers, raised: raised.clone() })
            });
            let engine = paceline_core::Config::from_json(config)
                .and_then(|config| paceline_core::Stream::new(config, columns, calls))
                .map_err(|error| raise(&error))?;
            Ok(Self { running: Mutex::new(Some(Running { engine, reported: Instant::now() })), raised })
        })
    }

    /// Opens a replay that goes on from a state, of a configuration without routers of Python's.
    #[staticmethod]
    fn resume(config: &[u8], columns: &Bound<'_, PyAny>, state: &[u8]) -> PyResult<Self> {
        guarded(|| {
            let columns = crate::columns::trace(columns)?;
            let engine = paceline_core::Config::from_json(config)
                .and_then(|config| paceline_core::Stream::resume(config, columns, state))
                .map_err(|error| raise(&error))?;
            let running = Running { engine, reported: Instant::now() };
            Ok(Self { running: Mutex::new(Some(running)), raised: Raised::default() })
        })
    }

    /// Returns the state, from which `resume` goes on.
    fn checkpoint<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.with(|running| {
            let engine = &mut running.engine;
            let state = py.detach(move || engine.checkpoint()).map_err(|error| raise(&error))?;
            Ok(PyBytes::new(py, &state))
        })
    }

    /// Adds the next rows; none ends the trace.
    fn extend(&self, columns: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let more = columns.map(crate::columns::trace).transpose()?;
        self.with(|running| {
            if let Some(more) = more {
                return running.engine.extend(more).map_err(|error| raise(&error));
            }
            running.engine.end_trace();
            Ok(())
        })
    }

    /// Runs as far as the rows allow; returns whether the replay has ended. Progress is reported as of `total` rows.
    #[pyo3(signature = (progress=None, total=0))]
    fn advance(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>, total: u64) -> PyResult<bool> {
        let progress = progress.map(|callback| callback.clone().unbind());
        self.with(|Running { engine, reported }| {
            let mut budget = 1_000;
            loop {
                let waits = py
                    .detach(|| advance(|events| engine.advance(events), &mut budget))
                    .map_err(|error| self.raised.take().unwrap_or_else(|| raise(&error)))?;
                let due = progress.as_ref().filter(|_| reported.elapsed() > REPORT);
                let at = engine.progress();
                between_slices(py, paceline_core::Progress { total: total.max(at.total), ..at }, due)?;
                if due.is_some() {
                    *reported = Instant::now();
                }
                if waits {
                    return Ok(engine.is_done());
                }
            }
        })
    }

    /// Takes the columns of the first requests out, as far as they have ended and are at least so many.
    fn take_ended(&self, py: Python<'_>, least: usize) -> PyResult<Py<PyDict>> {
        self.with(|running| by_request(py, py.detach(|| running.engine.take_ended(least))))
    }

    /// How many rows take memory.
    fn rows_kept(&self) -> PyResult<usize> {
        self.with(|running| Ok(running.engine.rows_kept()))
    }

    /// Returns what happened, but for the columns that were taken.
    fn outcome(&self, py: Python<'_>) -> PyResult<Outcome> {
        guarded(|| Outcome::new(py, self.take()?.engine.into_outcome()))
    }
}
