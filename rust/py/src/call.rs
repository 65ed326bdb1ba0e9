//! Routers written in Python: called once a decision, with what they may see.

use std::sync::{Arc, Mutex};

use paceline_core::{CALLBACK_INSTANCE_FIELDS, CALLBACK_REQUEST_FIELDS, CallbackView, Decide, Error};
use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;

use crate::guard::guarded;

/// An exception that a router raised, on its way past the core.
#[derive(Clone, Default)]
pub(crate) struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.0.lock().ok()?.take()
    }

    fn keep(&self, error: PyErr) -> Error {
        if let Ok(mut kept) = self.0.lock() {
            *kept = Some(error);
        }
        Error::config("routing", "called a router that raised")
    }
}

/// The request that a router decides about.
#[pyclass(frozen, module = "paceline._core")]
pub(crate) struct RequestSight {
    /// Its row in the trace.
    #[pyo3(get)]
    row: usize,
    /// The instance that it is on, if it is on one.
    #[pyo3(get)]
    here: Option<usize>,
    values: Vec<f64>,
}

/// An instance as of its last finished step.
#[pyclass(frozen, module = "paceline._core")]
pub(crate) struct InstanceSight {
    /// Its place in the cluster.
    #[pyo3(get)]
    index: usize,
    values: Vec<f64>,
}

fn value(names: impl Iterator<Item = &'static str>, values: &[f64], name: &str, of: &str) -> PyResult<f64> {
    let names: Vec<_> = names.collect();
    let found = names.iter().position(|known| *known == name).and_then(|at| values.get(at));
    found.copied().ok_or_else(|| {
        let known = names.join(", ");
        PyAttributeError::new_err(format!("{of} has no {name}; it has {known}"))
    })
}

#[pymethods]
impl RequestSight {
    /// One of its fields, by the engine's name of it.
    fn value(&self, name: &str) -> PyResult<f64> {
        guarded(|| {
            value(CALLBACK_REQUEST_FIELDS.iter().map(|(name, _)| *name), &self.values, name, "a request")
        })
    }
}

#[pymethods]
impl InstanceSight {
    /// One of its fields, by the engine's name of it.
    fn value(&self, name: &str) -> PyResult<f64> {
        guarded(|| {
            value(CALLBACK_INSTANCE_FIELDS.iter().map(|(name, _)| *name), &self.values, name, "an instance")
        })
    }
}

/// The routers of a policy.
pub(crate) struct Routers {
    pub(crate) routers: Vec<Py<PyAny>>,
    pub(crate) raised: Raised,
}

impl Decide for Routers {
    fn decide(&mut self, callable: usize, view: &CallbackView) -> Result<Option<usize>, Error> {
        let answer = Python::attach(|py| -> PyResult<Option<usize>> {
            let Some(router) = self.routers.get(callable) else {
                return Err(PyTypeError::new_err(format!("there is no router {callable}")));
            };
            let request = RequestSight { row: view.row, here: view.here, values: view.request.clone() };
            let instances: Vec<InstanceSight> = view
                .instances
                .iter()
                .enumerate()
                .map(|(index, values)| InstanceSight { index, values: values.clone() })
                .collect();
            let answer = router.call1(py, (request, instances))?;
            answer.extract(py).map_err(|_| {
                let given = answer.bind(py).repr().map_or_else(|_| String::new(), |text| text.to_string());
                let rule = "a router must give the index of an instance, or None to stay";
                PyTypeError::new_err(format!("{rule}; it gave {given}"))
            })
        });
        answer.map_err(|error| self.raised.keep(error))
    }
}
