//! The one door into the engine: the interpreter is released in slices short
//! enough that Ctrl-C is seen at once, and state is whole at every slice's end.

use std::time::{Duration, Instant};

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::call::{Raised, Routers};
use crate::error::raise;
use crate::guard::guarded;
use crate::outcome::Outcome;

/// How long the engine runs between two looks at pending signals.
const SLICE: Duration = Duration::from_millis(30);
/// How often progress is reported at most.
const REPORT: Duration = Duration::from_millis(100);

/// How far a replay has come.
#[pyclass(frozen, module = "paceline._core")]
pub(crate) struct Progress {
    /// Requests that finished or were rejected.
    #[pyo3(get)]
    finished: u64,
    /// Requests in the trace.
    #[pyo3(get)]
    total: u64,
    /// The simulated time, in seconds.
    #[pyo3(get)]
    clock_s: f64,
}

fn column<T: numpy::Element + Copy>(name: &str, array: &PyReadonlyArray1<'_, T>) -> PyResult<Vec<T>> {
    let slice = array.as_slice().map_err(|_| PyValueError::new_err(format!("{name} must be contiguous")))?;
    Ok(slice.to_vec())
}

/// The columns of a trace, by name.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Columns<'py> {
    arrival_ticks: PyReadonlyArray1<'py, u64>,
    prompt_tokens: PyReadonlyArray1<'py, u32>,
    output_tokens: PyReadonlyArray1<'py, u32>,
    #[pyo3(default)]
    reasoning_tokens: Option<PyReadonlyArray1<'py, u32>>,
    #[pyo3(default)]
    priority: Option<PyReadonlyArray1<'py, i64>>,
    #[pyo3(default)]
    score: Option<PyReadonlyArray1<'py, f64>>,
    #[pyo3(default)]
    tenant: Option<PyReadonlyArray1<'py, u32>>,
    #[pyo3(default)]
    session: Option<PyReadonlyArray1<'py, u32>>,
    #[pyo3(default)]
    think_ticks: Option<PyReadonlyArray1<'py, u64>>,
    #[pyo3(default)]
    prefix_ends: Option<PyReadonlyArray1<'py, u64>>,
    #[pyo3(default)]
    prefix_ids: Option<PyReadonlyArray1<'py, u64>>,
    #[pyo3(default)]
    prefix_block_tokens: u32,
    #[pyo3(default)]
    output_ends: Option<PyReadonlyArray1<'py, u64>>,
    #[pyo3(default)]
    output_ids: Option<PyReadonlyArray1<'py, u64>>,
}

impl Columns<'_> {
    fn to_trace(&self) -> PyResult<paceline_core::Trace> {
        let ends = |name: &str, ends: &PyReadonlyArray1<'_, u64>| -> PyResult<Vec<usize>> {
            Ok(column(name, ends)?.into_iter().map(|end| end as usize).collect())
        };
        let outputs = match (&self.output_ends, &self.output_ids) {
            (Some(output_ends), Some(ids)) => Some(paceline_core::OutputIds {
                ends: ends("output_ends", output_ends)?,
                ids: column("output_ids", ids)?,
            }),
            _ => None,
        };
        let prefix = match (&self.prefix_ends, &self.prefix_ids) {
            (Some(prefix_ends), Some(ids)) => Some(paceline_core::PrefixIds {
                ends: ends("prefix_ends", prefix_ends)?,
                ids: column("prefix_ids", ids)?,
                block_tokens: self.prefix_block_tokens,
                outputs,
            }),
            _ => None,
        };
        Ok(paceline_core::Trace {
            arrival: column("arrival_ticks", &self.arrival_ticks)?,
            prompt_tokens: column("prompt_tokens", &self.prompt_tokens)?,
            output_tokens: column("output_tokens", &self.output_tokens)?,
            reasoning_tokens: self
                .reasoning_tokens
                .as_ref()
                .map(|array| column("reasoning_tokens", array))
                .transpose()?,
            priority: self.priority.as_ref().map(|array| column("priority", array)).transpose()?,
            score: self.score.as_ref().map(|array| column("score", array)).transpose()?,
            tenant: self.tenant.as_ref().map(|array| column("tenant", array)).transpose()?,
            session: self.session.as_ref().map(|array| column("session", array)).transpose()?,
            think: self.think_ticks.as_ref().map(|array| column("think_ticks", array)).transpose()?,
            not_before: None,
            prefix,
            origins: None,
        })
    }
}

/// Replays a trace.
#[pyfunction]
#[pyo3(signature = (config, columns, progress=None, routers=None))]
pub(crate) fn replay(
    py: Python<'_>,
    config: &[u8],
    columns: Columns<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    routers: Option<Vec<Py<PyAny>>>,
) -> PyResult<Outcome> {
    guarded(|| run(py, config, columns, progress, routers))
}

fn run(
    py: Python<'_>,
    config: &[u8],
    columns: Columns<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    routers: Option<Vec<Py<PyAny>>>,
) -> PyResult<Outcome> {
    let trace = columns.to_trace()?;
    drop(columns);
    let raised = Raised::default();
    let calls = routers.map(|routers| -> Box<dyn paceline_core::Decide> {
        Box::new(Routers { routers, raised: raised.clone() })
    });
    let progress = progress.map(|callback| callback.clone().unbind());
    // The interpreter is taken back once a slice only: in a sweep, each time can be a wait for another thread.
    let outcome = py.detach(|| {
        let start = || {
            let config = paceline_core::Config::from_json(config)?;
            paceline_core::Simulation::with_calls(&config, trace, calls)
        };
        let mut simulation = start().map_err(|error| raise(&error))?;
        let mut budget = 1_000;
        let mut reported = Instant::now();
        while !advance(&mut simulation, &mut budget)
            .map_err(|error| raised.take().unwrap_or_else(|| raise(&error)))?
        {
            let due = progress.as_ref().filter(|_| reported.elapsed() > REPORT);
            Python::attach(|py| between_slices(py, &simulation, due))?;
            if due.is_some() {
                reported = Instant::now();
            }
        }
        PyResult::Ok(simulation.into_outcome())
    })?;
    Outcome::new(py, outcome)
}

/// Raises what a signal raises, and reports progress if that is due.
fn between_slices(
    py: Python<'_>,
    simulation: &paceline_core::Simulation,
    report: Option<&Py<PyAny>>,
) -> PyResult<()> {
    py.check_signals()?;
    let Some(callback) = report else { return Ok(()) };
    let at = simulation.progress();
    let clock_s = at.clock as f64 / paceline_core::TICKS_PER_SECOND as f64;
    callback.call1(py, (Progress { finished: at.settled, total: at.total, clock_s },))?;
    Ok(())
}

/// Runs the engine for a slice, and adapts `budget` to its speed; returns whether the replay has ended.
fn advance(
    simulation: &mut paceline_core::Simulation,
    budget: &mut u64,
) -> Result<bool, paceline_core::Error> {
    let began = Instant::now();
    while began.elapsed() < SLICE / 2 {
        let started = Instant::now();
        if simulation.advance(*budget)? {
            return Ok(true);
        }
        if started.elapsed() < SLICE / 2 {
            *budget = (*budget * 2).min(1 << 20);
        } else if started.elapsed() > SLICE {
            *budget = (*budget / 2).max(16);
        }
    }
    Ok(false)
}
