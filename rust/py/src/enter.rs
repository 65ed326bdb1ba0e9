//! The one door into the engine: the interpreter is released in slices short
//! enough that Ctrl-C is seen at once, and state is whole at every slice's end.

use std::time::{Duration, Instant};

use paceline_core::{Config, Simulation, Trace};
use pyo3::prelude::*;

use crate::call::{Raised, Routers};
use crate::error::raise;
use crate::guard::guarded;
use crate::outcome::Outcome;

/// How long the engine runs between two looks at pending signals.
pub(crate) const SLICE: Duration = Duration::from_millis(30);
/// How often progress is reported at most.
pub(crate) const REPORT: Duration = Duration::from_millis(100);

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

/// Replays a trace.
#[pyfunction]
#[pyo3(signature = (config, columns, progress=None, routers=None, threads=1))]
pub(crate) fn replay(
    py: Python<'_>,
    config: &[u8],
    columns: &Bound<'_, PyAny>,
    progress: Option<&Bound<'_, PyAny>>,
    routers: Option<Vec<Py<PyAny>>>,
    threads: usize,
) -> PyResult<Outcome> {
    guarded(|| {
        let trace = crate::columns::trace(columns)?;
        if threads == 1 || routers.is_some() {
            return run(py, || Ok((Config::from_json(config)?, trace)), progress, routers);
        }
        match on_threads(py, config, trace, progress, threads)? {
            Attempt::Done(outcome) => Outcome::new(py, *outcome),
            Attempt::Coupled(given) => run(py, || Ok(*given), progress, routers),
            Attempt::Failed => {
                let trace = crate::columns::trace(columns)?;
                run(py, || Ok((Config::from_json(config)?, trace)), progress, routers)
            }
        }
    })
}

/// The setting or columns by which instances influence each other, so that one thread replays them; none: several may.
#[pyfunction]
pub(crate) fn coupling(config: &[u8], columns: &Bound<'_, PyAny>) -> PyResult<Option<&'static str>> {
    guarded(|| {
        let trace = crate::columns::trace(columns)?;
        let config = Config::from_json(config).map_err(|error| raise(&error))?;
        Ok(paceline_core::coupling(&config, &trace))
    })
}

/// The end of an attempt to replay instances on several threads.
enum Attempt {
    /// It was done.
    Done(Box<paceline_core::Outcome>),
    /// The instances influence each other.
    Coupled(Box<(Config, Trace)>),
    /// It failed. The error that comes first in the simulated time is that of the replay on one thread.
    Failed,
}

/// Replays the instances on several threads, if they do not influence each other.
fn on_threads(
    py: Python<'_>,
    config: &[u8],
    trace: Trace,
    progress: Option<&Bound<'_, PyAny>>,
    threads: usize,
) -> PyResult<Attempt> {
    let mut report = Report::new(progress);
    py.detach(|| {
        let Ok(config) = Config::from_json(config) else { return Ok(Attempt::Failed) };
        if paceline_core::coupling(&config, &trace).is_some() {
            return Ok(Attempt::Coupled(Box::new((config, trace))));
        }
        let Ok(apart) = paceline_core::Apart::new(&config, trace) else { return Ok(Attempt::Failed) };
        let outcome = crate::apart::replay(apart, threads, |at| report.between_slices(at))?;
        Ok(outcome.map_or(Attempt::Failed, |outcome| Attempt::Done(Box::new(outcome))))
    })
}

/// A callback that is told of progress every so often.
struct Report {
    callback: Option<Py<PyAny>>,
    /// When it was told last.
    last: Instant,
}

impl Report {
    fn new(callback: Option<&Bound<'_, PyAny>>) -> Self {
        Self { callback: callback.map(|callback| callback.clone().unbind()), last: Instant::now() }
    }

    /// Raises what a signal raises, and reports progress if that is due.
    fn between_slices(&mut self, at: paceline_core::Progress) -> PyResult<()> {
        let due = self.callback.as_ref().filter(|_| self.last.elapsed() > REPORT);
        Python::attach(|py| between_slices(py, at, due))?;
        if due.is_some() {
            self.last = Instant::now();
        }
        Ok(())
    }
}

/// Replays a trace on this thread. `given`: its configuration and the trace.
fn run(
    py: Python<'_>,
    given: impl FnOnce() -> Result<(Config, Trace), paceline_core::Error> + Send,
    progress: Option<&Bound<'_, PyAny>>,
    routers: Option<Vec<Py<PyAny>>>,
) -> PyResult<Outcome> {
    let raised = Raised::default();
    let calls = routers.map(|routers| -> Box<dyn paceline_core::Decide> {
        Box::new(Routers { routers, raised: raised.clone() })
    });
    let mut report = Report::new(progress);
    // The interpreter is taken back once a slice only: in a sweep, each time can be a wait for another thread.
    let outcome = py.detach(|| {
        let start = || given().and_then(|(config, trace)| Simulation::with_calls(&config, trace, calls));
        let mut simulation = start().map_err(|error| raise(&error))?;
        let mut budget = 1_000;
        while !advance(|events| simulation.advance(events), &mut budget)
            .map_err(|error| raised.take().unwrap_or_else(|| raise(&error)))?
        {
            report.between_slices(simulation.progress())?;
        }
        PyResult::Ok(simulation.into_outcome())
    })?;
    Outcome::new(py, outcome)
}

/// Raises what a signal raises, and reports progress if that is due.
pub(crate) fn between_slices(
    py: Python<'_>,
    at: paceline_core::Progress,
    report: Option<&Py<PyAny>>,
) -> PyResult<()> {
    py.check_signals()?;
    let Some(callback) = report else { return Ok(()) };
    let clock_s = at.clock as f64 / paceline_core::TICKS_PER_SECOND as f64;
    callback.call1(py, (Progress { finished: at.settled, total: at.total, clock_s },))?;
    Ok(())
}

/// Runs the engine for a slice by `run`, which takes a number of events, and adapts `budget` to its speed; returns whether
/// there is nothing left to run.
pub(crate) fn advance(
    mut run: impl FnMut(u64) -> Result<bool, paceline_core::Error>,
    budget: &mut u64,
) -> Result<bool, paceline_core::Error> {
    let began = Instant::now();
    while began.elapsed() < SLICE / 2 {
        let started = Instant::now();
        if run(*budget)? {
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
