//! The paper's step of stage III.

use crate::data::dictionary::{Dictionary, Moved};
use crate::error::Error;
use crate::update::sums::FiberSums;

/// Computes the paper's step: A <- A - eta_A g with g = 1/p (A X - Y) sgn(X)', then unit columns
/// (eq:emp_grad_est, eq:apx_grad).
///
/// # Errors
/// A pattern that becomes zero or not finite.
pub(crate) fn paper_step(dictionary: &Dictionary, sums: &FiberSums, eta_a: f64) -> Result<Moved, Error> {
    let scale = eta_a / sums.fibers_used as f64;
    let patterns = sums.shown();
    let mut gradient = sums.gradient_of(&patterns);
    gradient.iter_mut().for_each(|g| *g *= scale);
    Moved::new(dictionary, patterns, gradient)
}
