//! The core's errors as the package's exceptions, which Python defines.

use pyo3::prelude::*;

mod exceptions {
    #![allow(missing_docs, reason = "the macro writes the types; Python documents them")]
    pyo3::import_exception!(paceline.errors, ConfigError);
    pyo3::import_exception!(paceline.errors, TraceError);
    pyo3::import_exception!(paceline.errors, ClockError);
    pyo3::import_exception!(paceline.errors, NoProgressError);
    pyo3::import_exception!(paceline.errors, ResultError);
    pyo3::import_exception!(paceline.errors, InternalError);
}

pub(crate) use exceptions::{InternalError, ResultError};

/// The exception that says what the core's error says.
pub(crate) fn raise(error: &paceline_core::Error) -> PyErr {
    use paceline_core::Error;
    let text = error.to_string();
    match error {
        Error::Config { .. } => exceptions::ConfigError::new_err(text),
        Error::Trace { .. } => exceptions::TraceError::new_err(text),
        Error::ClockOverflow { .. } | Error::LateArrival { .. } => exceptions::ClockError::new_err(text),
        Error::RecordFull { .. } => exceptions::ConfigError::new_err(format!(
            "record: {text}; end the window before, or raise the limit: PACELINE_LIMITS=recorded=N in the environment"
        )),
        Error::Checkpoint { .. } => exceptions::ResultError::new_err(text),
        Error::NoProgress { .. } => exceptions::NoProgressError::new_err(text),
    }
}
