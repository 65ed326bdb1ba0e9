//! A replay that is driven from outside, as an object of Python.
//!
//! Each call takes the engine out of the object and puts it back when it ends. So after an error or a panic in the engine
//! there is none, and a call from within a call (a router that submits) finds none, too.

use std::sync::Mutex;

use numpy::PyArray1;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::{Raised, Routers};
use crate::enter::{advance, between_slices};
use crate::error::raise;
use crate::guard::guarded;
use crate::outcome::Outcome;

/// How many events are handled between two looks at pending signals.
const EVENTS: u64 = 1 << 14;

/// A replay to which requests are submitted while it runs.
#[pyclass(frozen, module = "paceline._core")]
pub(crate) struct Simulation {
    engine: Mutex<Option<paceline_core::Simulation>>,
    raised: Raised,
}

impl Simulation {
    /// Takes the engine out.
    fn take(&self) -> PyResult<paceline_core::Simulation> {
        let taken = self.engine.lock().ok().and_then(|mut engine| engine.take());
        taken
            .ok_or_else(|| PyRuntimeError::new_err("the simulation has ended, failed, or is in another call"))
    }

    /// Puts the engine back.
    fn put(&self, engine: paceline_core::Simulation) {
        if let Ok(mut place) = self.engine.lock() {
            *place = Some(engine);
        }
    }

    /// The exception for an error of the engine: that of a router, if one raised.
    fn error(&self, error: &paceline_core::Error) -> PyErr {
        self.raised.take().unwrap_or_else(|| raise(error))
    }

    /// Has the engine do something that leaves it whole if it is refused.
    fn with<T>(&self, work: impl FnOnce(&mut paceline_core::Simulation) -> PyResult<T>) -> PyResult<T> {
        guarded(|| {
            let mut engine = self.take()?;
            let done = work(&mut engine);
            self.put(engine);
            done
        })
    }
}

#[pymethods]
impl Simulation {
    /// Opens a simulation without requests.
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
                .and_then(|config| paceline_core::Simulation::open(&config, columns, calls))
                .map_err(|error| raise(&error))?;
            Ok(Self { engine: Mutex::new(Some(engine)), raised })
        })
    }

    /// The moment at which it stands, in ticks.
    fn now(&self) -> PyResult<u64> {
        self.with(|engine| Ok(engine.stands_at()))
    }

    /// Adds requests.
    fn submit(&self, columns: &Bound<'_, PyAny>) -> PyResult<()> {
        let more = crate::columns::trace(columns)?;
        self.with(|engine| engine.submit(more).map_err(|error| raise(&error)))
    }

    /// Runs to a moment.
    fn run_until(&self, py: Python<'_>, ticks: u64) -> PyResult<()> {
        guarded(|| {
            let mut engine = self.take()?;
            loop {
                let there =
                    py.detach(|| engine.run_until(ticks, EVENTS)).map_err(|error| self.error(&error))?;
                if there {
                    break;
                }
                if let Err(signal) = py.check_signals() {
                    self.put(engine);
                    return Err(signal);
                }
            }
            self.put(engine);
            Ok(())
        })
    }

    /// Runs to the next moment at which something happens, and returns it.
    fn step(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        guarded(|| {
            let mut engine = self.take()?;
            let next = py.detach(|| engine.step()).map_err(|error| self.error(&error))?;
            self.put(engine);
            Ok(next)
        })
    }

    /// The events since the last call, as arrays by name.
    fn events<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.with(|engine| {
            let events = engine.take_events();
            let arrays = PyDict::new(py);
            let at: Vec<u64> = events.iter().map(|event| event.at).collect();
            let kind: Vec<u8> = events.iter().map(|event| event.kind as u8).collect();
            let request: Vec<u32> = events.iter().map(|event| event.request).collect();
            let instance: Vec<u32> = events.iter().map(|event| event.instance).collect();
            arrays.set_item("at", PyArray1::from_vec(py, at))?;
            arrays.set_item("kind", PyArray1::from_vec(py, kind))?;
            arrays.set_item("request", PyArray1::from_vec(py, request))?;
            arrays.set_item("instance", PyArray1::from_vec(py, instance))?;
            Ok(arrays)
        })
    }

    /// The requests that are on instances, as arrays by name.
    fn tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.with(|engine| {
            let rows = engine.tokens();
            let arrays = PyDict::new(py);
            let column = |of: fn(&(u32, u32, u32)) -> u32| -> Vec<u32> { rows.iter().map(of).collect() };
            arrays.set_item("request", PyArray1::from_vec(py, column(|row| row.0)))?;
            arrays.set_item("instance", PyArray1::from_vec(py, column(|row| row.1)))?;
            arrays.set_item("tokens", PyArray1::from_vec(py, column(|row| row.2)))?;
            Ok(arrays)
        })
    }

    /// The fields of the instances, an array for each field.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.with(|engine| {
            let rows = engine.state();
            let arrays = PyDict::new(py);
            for (at, (name, _)) in paceline_core::STATE_FIELDS.iter().enumerate() {
                let values: Vec<f64> = rows.iter().map(|row| row[at]).collect();
                arrays.set_item(*name, PyArray1::from_vec(py, values))?;
            }
            Ok(arrays)
        })
    }

    /// Has an instance change its pool; returns whether it is in it, or on its way.
    fn set_role(&self, instance: usize, role: u32) -> PyResult<bool> {
        self.with(|engine| engine.set_role(instance, role).map_err(|error| raise(&error)))
    }

    /// Runs to the end, and returns everything that happened.
    fn finish(&self, py: Python<'_>) -> PyResult<Outcome> {
        guarded(|| {
            let mut engine = self.take()?;
            engine.close();
            let mut budget = 1_000;
            while !py
                .detach(|| advance(|events| engine.advance(events), &mut budget))
                .map_err(|error| self.error(&error))?
            {
                between_slices(py, engine.progress(), None)?;
            }
            Outcome::new(py, engine.into_outcome())
        })
    }
}
