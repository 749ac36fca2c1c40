//! x
#![forbid(unsafe_code)]
mod codes;
mod dense;
mod dictionary;
mod error;
mod learner;
pub mod metrics;
mod params;
pub mod recovery;
mod sparse;
pub mod synthetic;
mod tensor;
mod untangle;
mod update;

pub use codes::{Codes, Roads};
pub use dictionary::Dictionary;
pub use error::Error;
pub use learner::{Learner, Step};
pub use params::{Params, Passes, Rule, Samples, Solver};
pub use sparse::Sparse;
pub use tensor::{Place, Shape, Tensor};
pub use untangle::Factors;
