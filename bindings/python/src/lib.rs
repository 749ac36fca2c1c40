//! TensorNOODL for Python: the module `tensornoodl._core`. It turns arrays into tensors and results into arrays; what it means is
//! in the crates below, and what users see of it in `python/tensornoodl`.

mod codes;
mod events;
mod model;
mod noodl;
mod planted;
mod run;
mod tensor;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

pyo3::create_exception!(tensornoodl._core, NoPattern, PyValueError, "Nothing stands out in the data.");

/// Wrong values are a `ValueError`, with the sentence that the program has for them, and files that cannot be read or written an
/// `OSError`.
fn wrong(error: impl Into<tensornoodl_data::Error>) -> PyErr {
    use tensornoodl_data::Error;
    match error.into() {
        Error::Read { file, error } | Error::Write { file, error } => match error.raw_os_error() {
            // Python finds the class, such as FileNotFoundError, by the number.
            Some(number) => PyOSError::new_err((number, without_number(&error), file)),
            None => PyOSError::new_err(format!("{file}: {error}")),
        },
        Error::Tensor(tensornoodl::Error::NoPattern) => NoPattern::new_err(no_pattern()),
        error @ Error::Tensor(tensornoodl::Error::NothingShared) => NoPattern::new_err(error.to_string()),
        other => PyValueError::new_err(other.to_string()),
    }
}

/// In Python's words.
fn no_pattern() -> &'static str {
    "no pattern is clearer than chance in most of five searches; n_patterns=N takes the N clearest"
}

/// What the system says, without the number that Python adds itself.
fn without_number(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Something that cannot happen unless we made a mistake.
fn mistake(what: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(format!("a mistake in tensornoodl, please report it: {what}"))
}

#[pymodule]
mod _core {
    #[pymodule_export]
    use super::NoPattern;
    #[pymodule_export]
    use super::codes::Codes;
    #[pymodule_export]
    use super::events::{Events, from_events};
    #[pymodule_export]
    use super::model::Model;
    #[pymodule_export]
    use super::noodl::Learner;
    #[pymodule_export]
    use super::planted::{Match, Planted};
    #[pymodule_export]
    use super::tensor::Tensor;
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
