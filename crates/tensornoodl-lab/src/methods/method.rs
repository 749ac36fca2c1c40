//! The interface of methods that learn from a stream.

use tensornoodl::{Codes, Dictionary, Error, Tensor};

/// A method that learns a dictionary from a stream.
pub trait Method {
    /// Learns from one tensor.
    ///
    /// # Errors
    /// If the tensor has another number of features than the dictionary.
    fn learn(&mut self, tensor: &Tensor<'_>) -> Result<(), Error>;

    /// Returns the current dictionary.
    fn dictionary(&self) -> &Dictionary;

    /// Returns the method's own codes of a tensor.
    ///
    /// # Errors
    /// If the tensor has another number of features than the dictionary.
    fn encode(&self, tensor: &Tensor<'_>) -> Result<Codes, Error>;

    /// Returns the codes that the last tensor was learned with, and the relative fit of the tensor. None if the
    /// method does not keep them.
    fn last(&self) -> Option<(&Codes, f64)> {
        None
    }
}
