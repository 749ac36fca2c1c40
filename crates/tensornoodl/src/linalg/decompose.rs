//! Matrix decompositions by faer, on column-major slices, in double precision.
//!
//! ```text
//! M = U diag(sigma) V'    largest_singular_value: max sigma of any M (n x m)
//! M = V diag(lambda) V'   eigen: of a symmetric M (size x size)
//! M = L L'                Cholesky: of a symmetric positive definite M (size x size)
//! ```
//!
//! faer always runs on one thread here. Work for several threads is cut into pieces of fixed size, so that the bits of
//! a result do not depend on the number of threads. Systems with a handful of unknowns are solved by
//! [`small`](crate::linalg::small).

use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt;
use faer::linalg::evd::{self, ComputeEigenvectors};
use faer::linalg::svd::{self, ComputeSvdVectors};
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{MatMut, MatRef, Par, Spec};
use rayon::prelude::*;

use crate::linalg::vector::dot;

/// Systems of at least this size are solved by several threads. Waking threads takes longer than solving a smaller
/// system.
const LARGE: usize = 128;

/// Number of rows or columns that one thread solves at a time.
const ROWS: usize = 64;

/// Returns the spectral norm of a matrix with n rows; NaN if an entry is not finite.
pub(crate) fn largest_singular_value(matrix: &[f64], n: usize) -> f64 {
    let m = matrix.len() / n;
    let matrix = MatRef::from_column_major_slice(matrix, n, m);
    let mut values = Diag::<f64>::zeros(n.min(m));
    let params = Spec::default();
    let mut memory = MemBuffer::new(svd::svd_scratch::<f64>(
        n,
        m,
        ComputeSvdVectors::No,
        ComputeSvdVectors::No,
        Par::Seq,
        params,
    ));
    let stack = MemStack::new(&mut memory);
    match svd::svd(matrix, values.as_mut(), None, None, Par::Seq, stack, params) {
        Ok(()) => values.column_vector()[0],
        // faer fails only if an entry is not finite.
        Err(_) => f64::NAN,
    }
}

/// Returns the eigenvalues, increasing, and the eigenvectors, column by column, of a symmetric matrix (size x size).
///
/// Returns `None` if an entry is not finite.
pub(crate) fn eigen(matrix: &[f64], size: usize) -> Option<(Vec<f64>, Vec<f64>)> {
    let matrix = MatRef::from_column_major_slice(matrix, size, size);
    let (mut values, mut vectors) = (Diag::<f64>::zeros(size), vec![0.0; size * size]);
    let params = Spec::default();
    let mut memory = MemBuffer::new(evd::self_adjoint_evd_scratch::<f64>(
        size,
        ComputeEigenvectors::Yes,
        Par::Seq,
        params,
    ));
    let out = MatMut::from_column_major_slice_mut(&mut vectors, size, size);
    let stack = MemStack::new(&mut memory);
    evd::self_adjoint_evd(matrix, values.as_mut(), Some(out), Par::Seq, stack, params).ok()?;
    Some((values.column_vector().iter().copied().collect(), vectors))
}

/// The Cholesky factor L of a symmetric positive definite matrix M = L L'.
pub(crate) struct Cholesky {
    size: usize,
    /// L, column by column; entries above the diagonal are not used.
    factor: Vec<f64>,
}

impl Cholesky {
    /// Factors a symmetric matrix (size x size); `None` if the matrix is not positive definite.
    pub(crate) fn new(mut matrix: Vec<f64>, size: usize) -> Option<Cholesky> {
        let params = Spec::default();
        let mut memory =
            MemBuffer::new(llt::factor::cholesky_in_place_scratch::<f64>(size, Par::Seq, params));
        let view = MatMut::from_column_major_slice_mut(&mut matrix, size, size);
        let stack = MemStack::new(&mut memory);
        llt::factor::cholesky_in_place(view, Default::default(), Par::Seq, stack, params).ok()?;
        Some(Cholesky { size, factor: matrix })
    }

    fn lower(&self) -> MatRef<'_, f64> {
        MatRef::from_column_major_slice(&self.factor, self.size, self.size)
    }

    /// Overwrites B (n x size) with B M^-1.
    pub(crate) fn solve_from_right(&self, b: &mut [f64]) {
        let k = self.size;
        let b = MatMut::from_column_major_slice_mut(b, b.len() / k, k);
        let solve = |rows: MatMut<'_, f64>| {
            llt::solve::solve_in_place(self.lower(), rows.transpose_mut(), Par::Seq, MemStack::new(&mut []));
        };
        // Rows of B are independent of each other.
        if k < LARGE { solve(b) } else { b.par_row_chunks_mut(ROWS).for_each(solve) }
    }

    /// Returns the diagonal of M^-1: (M^-1)_ii is the squared length of column i of L^-1.
    pub(crate) fn diagonal_of_inverse(&self) -> Vec<f64> {
        let k = self.size;
        let mut inverse = vec![0.0; k * k];
        // Columns of L^-1 are independent of each other, and zero above the diagonal.
        let invert = |(piece, columns): (usize, &mut [f64])| {
            let (first, count) = (piece * ROWS, columns.len() / k);
            (0..count).for_each(|at| columns[at * k + first + at] = 1.0);
            let lower = self.lower().submatrix(first, first, k - first, k - first);
            let columns =
                MatMut::from_column_major_slice_mut(columns, k, count).subrows_mut(first, k - first);
            solve_lower_triangular_in_place(lower, columns, Par::Seq);
        };
        if k < LARGE {
            inverse.chunks_mut(k * ROWS).enumerate().for_each(invert);
        } else {
            inverse.par_chunks_mut(k * ROWS).enumerate().for_each(invert);
        }
        inverse.chunks_exact(k).enumerate().map(|(i, column)| dot(&column[i..], &column[i..])).collect()
    }
}
