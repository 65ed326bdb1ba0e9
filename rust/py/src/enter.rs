//! The one door into the engine: the interpreter is released in slices short
//! enough that Ctrl-C is seen at once, and state is whole at every slice's end.

use std::time::{Duration, Instant};

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::raise;
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
    let slice = array
        .as_slice()
        .map_err(|_| PyValueError::new_err(format!("{name} must be contiguous")))?;
    Ok(slice.to_vec())
}

/// Replays a trace.
#[pyfunction]
#[pyo3(signature = (config, arrival_ticks, prompt_tokens, output_tokens, progress=None))]
pub(crate) fn replay(
    py: Python<'_>,
    config: &[u8],
    arrival_ticks: PyReadonlyArray1<'_, u64>,
    prompt_tokens: PyReadonlyArray1<'_, u32>,
    output_tokens: PyReadonlyArray1<'_, u32>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Outcome> {
    let config = paceline_core::Config::from_json(config).map_err(|error| raise(&error))?;
    let trace = paceline_core::Trace {
        arrival: column("arrival_ticks", &arrival_ticks)?,
        prompt_tokens: column("prompt_tokens", &prompt_tokens)?,
        output_tokens: column("output_tokens", &output_tokens)?,
    };
    let mut simulation = py
        .detach(|| paceline_core::Simulation::new(&config, trace))
        .map_err(|error| raise(&error))?;
    let mut budget = 1_000;
    let mut reported = Instant::now();
    loop {
        let started = Instant::now();
        let done = py.detach(|| simulation.advance(budget)).map_err(|error| raise(&error))?;
        if done {
            break;
        }
        py.check_signals()?;
        if started.elapsed() < SLICE / 2 {
            budget = (budget * 2).min(1 << 20);
        } else if started.elapsed() > SLICE {
            budget = (budget / 2).max(16);
        }
        if let Some(callback) = &progress
            && reported.elapsed() > REPORT
        {
            reported = Instant::now();
            let at = simulation.progress();
            let clock_s = at.clock as f64 / paceline_core::TICKS_PER_SECOND as f64;
            callback.call1(py, (Progress { finished: at.settled, total: at.total, clock_s },))?;
        }
    }
    Outcome::new(py, simulation.into_outcome())
}
