//! Alternating least squares for the CP factorization of one tensor, plain and orthogonalized (Sharan and Valiant
//! 2017).
//!
//! ```text
//! A <- Z_(1) (C . B) (C'C * B'B)^-1,   and so on for B and C
//! ```
//!
//! where . is the Khatri-Rao product and * the product entry by entry.

use faer::linalg::solvers::Solve;
use faer::{Mat, MatRef, Side};
use tensornoodl::Tensor;

use crate::methods::cp::Cp;
use crate::methods::linear::{dot, entrywise, normalize};

/// Options of alternating least squares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Als {
    /// Maximum number of sweeps.
    pub most_sweeps: usize,
    /// The sweeps end when the change of A, |A' - A|_F / |A|_F, is at most this.
    pub tolerance: f64,
    /// Number of first sweeps that make the columns of each factor orthogonal. They need at most as many patterns as
    /// the shortest axis is long.
    pub orthogonal_sweeps: usize,
}

impl Default for Als {
    fn default() -> Self {
        Als { most_sweeps: 200, tolerance: 1e-14, orthogonal_sweeps: 0 }
    }
}

/// Improves the factors of one tensor. Returns the number of sweeps.
pub fn als(tensor: &Tensor<'_>, cp: &mut Cp, options: Als) -> usize {
    let shape = tensor.shape();
    for sweep in 0..options.most_sweeps {
        if sweep < options.orthogonal_sweeps {
            orthogonalize(&mut cp.features, shape.features);
            orthogonalize(&mut cp.rows, shape.rows);
            orthogonalize(&mut cp.cols, shape.cols);
        }
        let before = cp.features.clone();
        cp.features = solve(&cp.along_features(tensor), &entrywise(&cp.gram_rows(), &cp.gram_cols()));
        normalize(&mut cp.features, shape.features);
        let (scores, gram) = (cp.scores(tensor), cp.gram_features());
        cp.rows = solve(&cp.along_rows(tensor, &scores), &entrywise(&gram, &cp.gram_cols()));
        normalize(&mut cp.rows, shape.rows);
        cp.cols = solve(&cp.along_cols(tensor, &scores), &entrywise(&gram, &cp.gram_rows()));
        let moved: f64 = cp.features.iter().zip(&before).map(|(a, b)| (a - b).powi(2)).sum();
        // The fit is no criterion: it is a difference of sums, and stops to change long before A does.
        if sweep > options.orthogonal_sweeps && moved <= options.tolerance.powi(2) * cp.patterns() as f64 {
            return sweep + 1;
        }
    }
    options.most_sweeps
}

/// Returns M V^-1 for M (length x m) and V (m x m). V is singular where patterns have vanished, so a small ridge is
/// added.
fn solve(right: &[f64], v: &[f64]) -> Vec<f64> {
    let m = v.len().isqrt();
    let length = right.len() / m.max(1);
    let largest = (0..m).map(|i| v[i * m + i]).fold(0.0, f64::max);
    let mut v = MatRef::from_column_major_slice(v, m, m).to_owned();
    (0..m).for_each(|i| v[(i, i)] += 1e-13 * largest.max(f64::MIN_POSITIVE));
    let right = MatRef::from_column_major_slice(right, length, m);
    let solved: Mat<f64> = match v.llt(Side::Lower) {
        Ok(factor) => factor.solve(right.transpose()),
        Err(_) => v.partial_piv_lu().solve(right.transpose()),
    };
    (0..m).flat_map(|i| (0..length).map(|at| solved[(i, at)]).collect::<Vec<f64>>()).collect()
}

/// Makes columns orthonormal by two rounds of Gram-Schmidt.
fn orthogonalize(factor: &mut [f64], length: usize) {
    for i in 0..factor.len() / length {
        let (before, rest) = factor.split_at_mut(i * length);
        let column = &mut rest[..length];
        for _ in 0..2 {
            for other in before.chunks_exact(length) {
                let along = dot(other, column);
                column.iter_mut().zip(other).for_each(|(v, other)| *v -= along * other);
            }
        }
        normalize(column, length);
    }
}
