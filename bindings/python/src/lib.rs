//! TensorNOODL for Python: the module `tensornoodl._core`. It converts arrays to tensors and results to arrays. The
//! crates below do the work, and `python/tensornoodl` has the classes and functions that users see.

mod arrays;
mod begin;
mod codes;
mod errors;
mod events;
mod labels;
mod model;
mod noodl;
mod options;
mod planted;
mod prepare;
mod run;
mod surprises;
mod tensor;
mod verdict;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::codes::Codes;
    #[pymodule_export]
    use crate::errors::NoPattern;
    #[pymodule_export]
    use crate::events::{Events, from_events};
    #[pymodule_export]
    use crate::model::Model;
    #[pymodule_export]
    use crate::noodl::Learner;
    #[pymodule_export]
    use crate::planted::{Match, Planted};
    #[pymodule_export]
    use crate::tensor::Tensor;
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
