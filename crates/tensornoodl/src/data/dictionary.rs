//! The dictionary A, whose columns have unit length, or unit sum if it explains counts.
//!
//! ```text
//! A (n x m)    column i is pattern i, |A_i| = 1; for counts A_fi >= 0, sum_f A_fi = 1
//! G = A'A      inner products of the patterns (m x m)
//! ```
//!
//! Every function that changes a pattern of the exact model scales it to unit length, so that no other code has to.

use crate::error::Error;
use crate::linalg::product::transposed_product;
use crate::linalg::vector::{add_scaled, divide, dot, squared_distance};

/// The dictionary A (n x m): column i is pattern i. It has unit length in the exact model, and unit sum in the counts
/// model.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Dictionary {
    features: usize,
    values: Vec<f64>,
}

impl Dictionary {
    /// Makes a dictionary from an n x m matrix, given column by column, and scales each column to unit length.
    ///
    /// # Errors
    /// [`Error::Length`] if `values` is empty or its length is not a multiple of `features`, [`Error::Pattern`] if a
    /// column is zero or not finite.
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

    /// Whether lengths fit together and all columns have unit length, for a dictionary that was deserialized.
    pub(crate) fn is_sound(&self) -> bool {
        let unit = |column: &[f64]| (dot(column, column) - 1.0).abs() < 1e-9;
        self.features > 0
            && self.values.len().is_multiple_of(self.features)
            && self.values.chunks_exact(self.features).all(unit)
    }

    /// Whether lengths fit together and all columns have only shares that add up to 1, for a dictionary of a counts model
    /// that was deserialized.
    pub(crate) fn has_unit_sums(&self) -> bool {
        let unit = |column: &[f64]| {
            column.iter().all(|a| *a >= 0.0) && (column.iter().sum::<f64>() - 1.0).abs() < 1e-9
        };
        self.features > 0
            && self.values.len().is_multiple_of(self.features)
            && self.values.chunks_exact(self.features).all(unit)
    }

    /// Makes a dictionary for counts from an n x m matrix of positive numbers, column by column: scales each column to
    /// sum 1.
    pub(crate) fn with_unit_sums(features: usize, mut values: Vec<f64>) -> Dictionary {
        for column in values.chunks_exact_mut(features) {
            let sum = column.iter().sum();
            divide(column, sum);
        }
        Dictionary { features, values }
    }

    /// Returns the dictionary with columns of unit length, so that inner products of patterns are cosines. A dictionary
    /// of the exact model stays as it is.
    pub fn with_unit_lengths(&self) -> Dictionary {
        let mut values = self.values.clone();
        for column in values.chunks_exact_mut(self.features) {
            let square = dot(column, column);
            if (square - 1.0).abs() > 1e-9 {
                divide(column, square.sqrt());
            }
        }
        Dictionary { features: self.features, values }
    }

    /// A dictionary without patterns.
    pub(crate) fn empty(features: usize) -> Dictionary {
        Dictionary { features, values: Vec::new() }
    }

    /// Appends a pattern.
    ///
    /// # Panics
    /// If the pattern has another number of features.
    pub(crate) fn push(&mut self, pattern: &UnitVector) {
        assert_eq!(pattern.0.len(), self.features, "a pattern has one value per feature");
        self.values.extend_from_slice(&pattern.0);
    }

    /// Replaces pattern i.
    pub(crate) fn set(&mut self, i: usize, pattern: &UnitVector) {
        self.values[i * self.features..][..self.features].copy_from_slice(&pattern.0);
    }

    /// The first patterns, at most `count`.
    pub(crate) fn first(&self, count: usize) -> Dictionary {
        let values = self.values[..self.features * count.min(self.patterns())].to_vec();
        Dictionary { features: self.features, values }
    }

    /// Removes patterns, given by increasing number.
    pub(crate) fn remove(&mut self, patterns: &[usize]) {
        for &pattern in patterns.iter().rev() {
            self.values.drain(pattern * self.features..(pattern + 1) * self.features);
        }
    }

    /// Replaces the patterns in `moved`; the others keep their bits.
    pub(crate) fn replace(&mut self, moved: &Moved) {
        for (&pattern, column) in moved.patterns.iter().zip(moved.columns.chunks_exact(self.features)) {
            self.values[pattern * self.features..][..self.features].copy_from_slice(column);
        }
    }

    /// Returns |A - B|_F^2 for another dictionary B.
    pub(crate) fn squared_distance(&self, other: &Dictionary) -> f64 {
        let columns = (0..self.patterns()).map(|i| (self.pattern(i), other.pattern(i)));
        columns.map(|(a, b)| squared_distance(a, b)).sum()
    }

    /// n, the number of features: the length of a pattern.
    pub fn features(&self) -> usize {
        self.features
    }

    /// m, the number of patterns.
    pub fn patterns(&self) -> usize {
        self.values.len() / self.features
    }

    /// One pattern: a column of A, of length n.
    ///
    /// # Panics
    /// If there is no pattern with this number.
    pub fn pattern(&self, pattern: usize) -> &[f64] {
        &self.values[pattern * self.features..(pattern + 1) * self.features]
    }

    /// All values of A, column by column.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Returns the Gram matrix G = A'A (m x m), column by column.
    pub fn gram(&self) -> Vec<f64> {
        let m = self.patterns();
        let mut gram = vec![0.0; m * m];
        transposed_product(&mut gram, &self.values, &self.values, self.features);
        gram
    }

    /// Returns the incoherence mu = sqrt(n) max over i != l of |<A_i, A_l>| (def:mu).
    pub fn incoherence(&self) -> f64 {
        let m = self.patterns();
        let gram = self.gram();
        let off_diagonal = (0..m * m).filter(|at| at / m != at % m).map(|at| gram[at].abs());
        off_diagonal.fold(0.0, f64::max) * (self.features as f64).sqrt()
    }
}

/// A vector of unit length: a pattern that can be added to a dictionary.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UnitVector(Vec<f64>);

impl UnitVector {
    /// Scales a vector to unit length. None if it is zero or not finite.
    pub(crate) fn new(mut values: Vec<f64>) -> Option<UnitVector> {
        normalise(0, &mut values).ok()?;
        Some(UnitVector(values))
    }
}

/// New values for some patterns of a dictionary.
pub(crate) struct Moved {
    /// The numbers of the k patterns, increasing.
    pub(crate) patterns: Vec<usize>,
    /// The new values of the k patterns (n x k), in columns of unit length.
    columns: Vec<f64>,
}

impl Moved {
    /// Adds `changes` (n x k) to k patterns of a dictionary and scales the sums to unit length.
    pub(crate) fn new(
        dictionary: &Dictionary,
        patterns: Vec<usize>,
        changes: Vec<f64>,
    ) -> Result<Moved, Error> {
        let mut columns = changes;
        for (&i, column) in patterns.iter().zip(columns.chunks_exact_mut(dictionary.features)) {
            add_scaled(column, 1.0, dictionary.pattern(i));
            normalise(i, column)?;
        }
        Ok(Moved { patterns, columns })
    }

    /// Returns the squared distance between the new and the old value of every moved pattern.
    pub(crate) fn squares_from(&self, dictionary: &Dictionary) -> Vec<f64> {
        let columns = self.columns.chunks_exact(dictionary.features).zip(&self.patterns);
        columns.map(|(column, &i)| squared_distance(column, dictionary.pattern(i))).collect()
    }
}

/// Scales a pattern to unit Euclidean length: A_i / |A_i|. (Scaling by the sum would fail for centred data, whose
/// patterns add up to zero.)
fn normalise(pattern: usize, column: &mut [f64]) -> Result<(), Error> {
    let mut square = dot(column, column);
    // If squares would overflow or underflow, the column is divided by its largest entry first.
    if !(1e-200..1e200).contains(&square) {
        let larger = |a: f64, v: &f64| if a.is_nan() || v.is_nan() { f64::NAN } else { a.max(v.abs()) };
        let largest = column.iter().fold(0.0, larger);
        if !(largest.is_finite() && largest > 0.0) {
            return Err(Error::Pattern { pattern, norm: largest });
        }
        column.iter_mut().for_each(|v| *v /= largest);
        square = dot(column, column);
    }
    divide(column, square.sqrt());
    Ok(())
}
