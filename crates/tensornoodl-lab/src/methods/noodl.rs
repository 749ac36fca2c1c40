//! TensorNOODL and NOODL for matrices, as methods beside those they are compared with.

use tensornoodl::{Codes, Dictionary, Error, Learner, Params, Place, Shape, Step, Tensor};

use crate::methods::method::Method;

/// TensorNOODL as a [`Method`].
pub struct Noodl {
    learner: Learner,
    last: Option<Step>,
}

impl Noodl {
    /// Starts from a dictionary.
    ///
    /// # Errors
    /// If a parameter is out of range.
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

/// NOODL for matrices (Rambhatla, Li and Haupt 2019): the fibers without their places, as a tensor n x p x 1.
pub struct Matrix(Noodl);

impl Matrix {
    /// Starts from a dictionary.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn new(start: Dictionary, params: Params) -> Result<Matrix, Error> {
        Ok(Matrix(Noodl::new(start, params)?))
    }
}

/// Returns the fibers of a tensor as a tensor with one col.
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
