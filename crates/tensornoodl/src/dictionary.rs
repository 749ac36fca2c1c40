//! The dictionary A: unit columns, guaranteed by the type.

use crate::dense;
use crate::error::Error;

/// A (n x m): column i is pattern i, of unit length.
#[derive(Debug, Clone, PartialEq)]
pub struct Dictionary {
    features: usize,
    values: Vec<f64>,
}

impl Dictionary {
    /// Takes the columns of an n x m matrix, column by column, and scales each to unit length.
    pub fn from_columns(features: usize, mut values: Vec<f64>) -> Result<Dictionary, Error> {
        if features == 0 || values.is_empty() || !values.len().is_multiple_of(features) {
            let expected = features.max(1) * (values.len() / features.max(1)).max(1);
            return Err(Error::Length { what: "dictionary", got: values.len(), expected });
        }
        for (pattern, column) in values.chunks_exact_mut(features).enumerate() {
            normalise(pattern, column)?;
        }
        Ok(Dictionary { features, values })
    }

    /// Adds `changes` (n x k) to k of the patterns and scales those to unit length; the others
    /// keep their bits.
    pub(crate) fn moved(&self, patterns: &[usize], changes: &[f64]) -> Result<Dictionary, Error> {
        let n = self.features;
        let mut values = self.values.clone();
        for (&pattern, change) in patterns.iter().zip(changes.chunks_exact(n)) {
            let column = &mut values[pattern * n..(pattern + 1) * n];
            dense::add_scaled(column, 1.0, change);
            normalise(pattern, column)?;
        }
        Ok(Dictionary { features: n, values })
    }

    /// n, the length of a pattern.
    pub fn features(&self) -> usize {
        self.features
    }

    /// m, the number of patterns.
    pub fn patterns(&self) -> usize {
        self.values.len() / self.features
    }

    /// Pattern i.
    pub fn pattern(&self, pattern: usize) -> &[f64] {
        &self.values[pattern * self.features..(pattern + 1) * self.features]
    }

    /// A, column by column.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// G = A'A (m x m), column by column.
    pub fn gram(&self) -> Vec<f64> {
        let m = self.patterns();
        let mut gram = vec![0.0; m * m];
        dense::transposed_product(&mut gram, &self.values, &self.values, self.features);
        gram
    }

    /// The incoherence mu = sqrt(n) max over i != l of |<A_i, A_l>| (def:mu).
    pub fn incoherence(&self) -> f64 {
        let m = self.patterns();
        let gram = self.gram();
        let off_diagonal = (0..m * m).filter(|at| at / m != at % m).map(|at| gram[at].abs());
        off_diagonal.fold(0.0, f64::max) * (self.features as f64).sqrt()
    }
}

/// Scales a pattern to unit length: A_i / |A_i|.
///
/// By its largest entry first, so that neither tiny nor huge columns lose their norm. The norm
/// decides, not the sum: patterns of centred data add up to zero.
fn normalise(pattern: usize, column: &mut [f64]) -> Result<(), Error> {
    let largest =
        column.iter().fold(0.0, |a: f64, v| if a.is_nan() || v.is_nan() { f64::NAN } else { a.max(v.abs()) });
    if !(largest.is_finite() && largest > 0.0) {
        return Err(Error::Pattern { pattern, norm: largest });
    }
    column.iter_mut().for_each(|v| *v /= largest);
    let norm = dense::dot(column, column).sqrt();
    column.iter_mut().for_each(|v| *v /= norm);
    Ok(())
}
