//! The methods that the paper compares with, in correct and fast form, and its tables, run again.
//!
//! | | codes | dictionary | |
//! | --- | --- | --- | --- |
//! | [`Noodl`] | iterative hard thresholding, its limit | gradient, adaptive or the paper's | this project |
//! | [`Arora`] | one hard threshold of A'y | the paper's gradient, with or without bias | Arora, Ge, Ma, Moitra 2015 |
//! | [`Mairal`] | Lasso | block coordinate descent on accumulated moments | Mairal, Bach, Ponce, Sapiro 2009 |
//!
//! All of them take one tensor after the other and start from the same A(0); [`als`] (CP-ALS, Orth-ALS) takes one tensor as a whole. Codes of [`Arora`] and [`Mairal`] are
//! also recovered afterwards by the [`lasso`], as the paper does it.

#![forbid(unsafe_code)]

mod als;
mod arora;
mod cell;
pub mod lasso;
mod linear;
mod mairal;
mod runner;
mod table;

pub use als::{Als, Cp, als};
pub use arora::Arora;
pub use cell::{Cell, MethodName, Outcome, Recovered, run};
pub use mairal::Mairal;
pub use runner::{Event, Failure, Line, Work, lines};
pub use table::{PaperRow, eta_a, paper};

use tensornoodl::{Codes, Dictionary, Error, Learner, Params, Step, Tensor};

/// A method that learns a dictionary from a stream.
pub trait Method {
    /// Learns from one tensor.
    fn learn(&mut self, tensor: &Tensor<'_>) -> Result<(), Error>;

    /// The dictionary as it is now.
    fn dictionary(&self) -> &Dictionary;

    /// The method's own codes of a tensor.
    fn encode(&self, tensor: &Tensor<'_>) -> Result<Codes, Error>;

    /// The codes that the last tensor was learned with, and its relative fit, if the method has them at hand.
    fn last(&self) -> Option<(&Codes, f64)> {
        None
    }
}

/// TensorNOODL, as a method among others.
pub struct Noodl {
    learner: Learner,
    last: Option<Step>,
}

impl Noodl {
    /// Starts at a dictionary.
    pub fn new(start: Dictionary, params: Params) -> Result<Noodl, Error> {
        Ok(Noodl { learner: Learner::new(start, params)?, last: None })
    }
}

impl Method for Noodl {
    fn learn(&mut self, tensor: &Tensor<'_>) -> Result<(), Error> {
        self.last = Some(self.learner.learn(tensor)?);
        Ok(())
    }

    fn dictionary(&self) -> &Dictionary {
        self.learner.dictionary()
    }

    fn encode(&self, tensor: &Tensor<'_>) -> Result<Codes, Error> {
        self.learner.encode(tensor)
    }

    fn last(&self) -> Option<(&Codes, f64)> {
        self.last.as_ref().map(|step| (&step.codes, step.fit))
    }
}
