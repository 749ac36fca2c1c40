//! Errors of the crates below as Python exceptions.

use pyo3::exceptions::{PyMemoryError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

pyo3::create_exception!(tensornoodl._core, NoPattern, PyValueError, "No pattern was found in the data.");

/// Message of [`NoPattern`]. It names the parameter as Python spells it.
const NO_PATTERN: &str = "no pattern is clearer than chance in the majority of five searches; use n_patterns=N to accept the N strongest";

/// Converts an error: files that cannot be read or written become an `OSError`, too little memory becomes a
/// `MemoryError`, everything else a `ValueError` with the message that the program `noodl` shows.
pub(crate) fn py_error(error: impl Into<tensornoodl_data::Error>) -> PyErr {
    use tensornoodl_data::Error;
    match error.into() {
        Error::Read { file, error } | Error::Write { file, error } => match error.raw_os_error() {
            // Python derives the class, such as FileNotFoundError, from the number.
            Some(number) => PyOSError::new_err((number, without_number(&error), file)),
            None => PyOSError::new_err(format!("{file}: {error}")),
        },
        Error::Tensor(tensornoodl::Error::NoPattern) => NoPattern::new_err(NO_PATTERN),
        error @ Error::Tensor(tensornoodl::Error::NothingShared) => NoPattern::new_err(error.to_string()),
        error @ Error::Tensor(tensornoodl::Error::NotFinite { value, .. }) if value.is_nan() => {
            PyValueError::new_err(format!("{error}; fill missing values first"))
        }
        Error::NotACount { value, feature, row, col, .. } => {
            not_a_count(&format!("the cell of feature {feature:?}, row {row:?}, col {col:?}"), value)
        }
        error @ Error::Memory { .. } => PyMemoryError::new_err(error.to_string()),
        // It names the parameters as Python spells them.
        error @ Error::Stretched { .. } => {
            let text =
                error.to_string().replace("--max-features ", "max_features=").replace("--where", "where=");
            PyValueError::new_err(text)
        }
        other => PyValueError::new_err(other.to_string()),
    }
}

/// Returns the exception for a value that cannot be a number of events. It names the parameters as Python spells them.
pub(crate) fn not_a_count(cell: &str, value: f64) -> PyErr {
    PyValueError::new_err(format!(
        "{cell} is {value}: the counts model needs whole numbers that are not negative; \
         use model='exact', or count events with from_events(..., value='count')"
    ))
}

/// Returns the message of the operating system without the error number, which Python adds itself.
fn without_number(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Returns the exception for a condition that only a bug of this package can cause.
pub(crate) fn internal_error(what: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(format!("a bug in tensornoodl, please report it: {what}"))
}
