//! The native module `paceline._core`: converts, releases the interpreter,
//! reports progress, and nothing else.

mod apart;
mod call;
mod columns;
mod enter;
mod error;
mod guard;
mod outcome;
mod recorded;
mod reuse;
mod simulation;
mod sketch;
mod spread;
mod stream;
mod timeline;

use pyo3::prelude::*;

/// Paceline's simulator, for the use of the package around it.
#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use super::call::{InstanceSight, RequestSight};
    #[pymodule_export]
    use super::enter::{Progress, coupling, replay};
    #[pymodule_export]
    use super::guard::fail;
    #[pymodule_export]
    use super::outcome::Outcome;
    #[pymodule_export]
    use super::reuse::reuse;
    #[pymodule_export]
    use super::simulation::Simulation;
    #[pymodule_export]
    use super::sketch::Sketch;
    #[pymodule_export]
    use super::spread::measure;
    #[pymodule_export]
    use super::stream::Stream;

    use pyo3::prelude::*;

    /// Ticks in one second.
    #[pymodule_export]
    const TICKS_PER_SECOND: u64 = paceline_core::TICKS_PER_SECOND;

    /// The last tick that the clock may reach.
    #[pymodule_export]
    const HORIZON_TICKS: u64 = paceline_core::HORIZON;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::guard::install();
        module.add("BUILD_PROFILE", super::build_profile())?;
        module.add("COLUMNS", super::outcome::declared())?;
        let requests: Vec<_> = paceline_core::CALLBACK_REQUEST_FIELDS.iter().map(|(name, _)| *name).collect();
        let instances: Vec<_> =
            paceline_core::CALLBACK_INSTANCE_FIELDS.iter().map(|(name, _)| *name).collect();
        module.add("SEEN_OF_REQUEST", requests)?;
        module.add("SEEN_OF_INSTANCE", instances)?;
        module.add("EVENT_KINDS", paceline_core::EventKind::NAMES)?;
        module.add("VERSION", env!("CARGO_PKG_VERSION"))
    }
}

/// Whether this is an optimised build: a debug build is fifty times slower.
fn build_profile() -> &'static str {
    if cfg!(debug_assertions) { "debug" } else { "release" }
}
