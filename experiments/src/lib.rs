//! The methods that the paper compares with, in correct and fast form, and its tables, run again.
//!
//! | | codes | dictionary | |
//! | --- | --- | --- | --- |
//! | [`Noodl`] | iterative hard thresholding, its limit | gradient, adaptive or the paper's | this project |
//! | [`Matrix`] | the same | the same; fibers have no places, so there is no B and C | Rambhatla, Li, Haupt 2019 |
//! | [`Arora`] | one hard threshold of A'y | the paper's gradient, with or without bias | Arora, Ge, Ma, Moitra 2015 |
//! | [`Mairal`] | Lasso | block coordinate descent on accumulated moments | Mairal, Bach, Ponce, Sapiro 2009 |
//!
//! All of them take one tensor after the other and start from the same A(0). Codes of [`Arora`] and [`Mairal`] are also
//! recovered afterwards by the [`lasso`], as the paper does it. Methods for one tensor as a whole: [`als()`] (CP-ALS,
//! Orth-ALS), [`power()`] (tensor power with clustering, truncated power).

#![forbid(unsafe_code)]

mod als;
mod arora;
mod batch;
mod cell;
mod cp;
mod fu;
pub mod lasso;
mod linear;
mod mairal;
mod power;
mod runner;
mod table;

pub use als::{Als, als};
pub use arora::Arora;
pub use batch::{BatchMethod, BatchOutcome, run_batch};
pub use cell::{Cell, MethodName, Outcome, Recovered, run};
pub use cp::Cp;
pub use fu::{Entry, Fu, FuFit, fu, fu_from};
pub use mairal::Mairal;
pub use power::{Power, power};
pub use runner::{Event, Failure, Line, Work, by_jobs, keep, lines};
pub use table::{PaperRow, eta_a, paper};

use tensornoodl::{Codes, Dictionary, Error, Learner, Params, Place, Shape, Step, Tensor};

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

/// NOODL for plain matrices (Rambhatla, Li and Haupt 2019): the fibers without their places, as a tensor n x p x 1.
pub struct Matrix(Noodl);

impl Matrix {
    /// Starts at a dictionary.
    pub fn new(start: Dictionary, params: Params) -> Result<Matrix, Error> {
        Ok(Matrix(Noodl::new(start, params)?))
    }
}

fn without_places<'t>(tensor: &'t Tensor<'_>) -> Result<Tensor<'t>, Error> {
    let shape = Shape { features: tensor.shape().features, rows: tensor.fibers().max(1), cols: 1 };
    let places: Vec<Place> = (0..tensor.fibers() as u32).map(|row| Place { row, col: 0 }).collect();
    Tensor::from_fibers(shape, tensor.values(), places)
}

impl Method for Matrix {
    fn learn(&mut self, tensor: &Tensor<'_>) -> Result<(), Error> {
        self.0.learn(&without_places(tensor)?)
    }

    fn dictionary(&self) -> &Dictionary {
        self.0.dictionary()
    }

    fn encode(&self, tensor: &Tensor<'_>) -> Result<Codes, Error> {
        let codes = self.0.encode(&without_places(tensor)?)?;
        Ok(Codes::new(codes.matrix().clone(), tensor))
    }
}
