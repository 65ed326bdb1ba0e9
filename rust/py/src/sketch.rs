//! The sketch of token gaps.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::ResultError;
use crate::guard::guarded;

const PER_SECOND: f64 = paceline_core::TICKS_PER_SECOND as f64;

/// A mergeable sketch of tick counts.
#[pyclass(eq, module = "paceline._core")]
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sketch {
    pub(crate) inner: paceline_core::Sketch,
}

#[pymethods]
impl Sketch {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    #[staticmethod]
    fn from_json(text: &[u8]) -> PyResult<Self> {
        guarded(|| {
            let inner = serde_json::from_slice(text)
                .map_err(|error| ResultError::new_err(format!("sketch: not readable, {error}")))?;
            Ok(Self { inner })
        })
    }

    fn to_json(&self) -> PyResult<Vec<u8>> {
        guarded(|| serde_json::to_vec(&self.inner).map_err(|error| PyValueError::new_err(error.to_string())))
    }

    fn merge(&mut self, other: &Self) -> PyResult<()> {
        guarded(|| {
            self.has_room(other.inner.count())?;
            self.inner.merge(&other.inner);
            Ok(())
        })
    }

    fn add(&mut self, ticks: u64, weight: u64) -> PyResult<()> {
        guarded(|| {
            self.has_room(weight)?;
            self.inner.add(ticks, weight);
            Ok(())
        })
    }

    fn quantile_s(&self, q: f64) -> PyResult<Option<f64>> {
        if !(0.0..=1.0).contains(&q) {
            return Err(PyValueError::new_err(format!("q must be 0 to 1, was {q}")));
        }
        guarded(|| Ok(self.inner.quantile(q).map(|ticks| ticks / PER_SECOND)))
    }

    #[getter]
    fn count(&self) -> u64 {
        self.inner.count()
    }

    #[getter]
    fn sum_ticks(&self) -> u128 {
        self.inner.sum()
    }

    #[getter]
    fn min_ticks(&self) -> Option<u64> {
        self.inner.min()
    }

    #[getter]
    fn max_ticks(&self) -> Option<u64> {
        self.inner.max()
    }

    #[getter]
    fn variance(&self) -> PyResult<Option<f64>> {
        guarded(|| Ok(self.inner.variance().map(|ticks| ticks / PER_SECOND / PER_SECOND)))
    }

    #[getter]
    #[expect(clippy::unused_self, reason = "a getter has one")]
    fn relative_error(&self) -> f64 {
        paceline_core::Sketch::RELATIVE_ERROR
    }

    fn __repr__(&self) -> String {
        format!("Sketch(count={})", self.inner.count())
    }
}

impl Sketch {
    fn has_room(&self, more: u64) -> PyResult<()> {
        let count = self.inner.count();
        if count.checked_add(more).is_some() {
            return Ok(());
        }
        Err(PyValueError::new_err(format!(
            "a sketch counts up to {} values, was given {more} beside {count}",
            u64::MAX
        )))
    }
}
