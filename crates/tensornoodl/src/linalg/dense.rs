//! The dense linear algebra the method needs, on plain column-major slices.
//!
//! The one place that knows faer, which is called for one thread at a time: what is spread over threads
//! is cut into pieces of fixed size, so that the bits of a result never depend on their number.

use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt;
use faer::linalg::evd::{self, ComputeEigenvectors};
use faer::linalg::matmul::matmul;
use faer::linalg::svd::{self, ComputeSvdVectors};
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::traits::ComplexField;
use faer::{Accum, MatMut, MatRef, Par, Spec};
use rayon::prelude::*;

/// Runs a loop with the widest vector registers of this machine. The loop stays a plain one, and its
/// bits are those of the plain one: the compiler neither reorders sums nor fuses products into them.
/// It has to be inlined: `fast(#[inline(always)] || ...)`.
#[inline(always)]
pub(crate) fn fast<T>(work: impl FnOnce() -> T) -> T {
    pulp::Arch::new().dispatch(work)
}

/// The sum of f(x_i, y_i), in sixteen running sums, so that the compiler may use vector registers.
#[inline(always)]
fn sum_over(x: &[f64], y: &[f64], f: impl Fn(f64, f64) -> f64) -> f64 {
    fast(
        #[inline(always)]
        || {
            let mut sums = [0.0; 16];
            let (x_chunks, y_chunks) = (x.chunks_exact(16), y.chunks_exact(16));
            let (x_tail, y_tail) = (x_chunks.remainder(), y_chunks.remainder());
            for (a, b) in x_chunks.zip(y_chunks) {
                for lane in 0..16 {
                    sums[lane] += f(a[lane], b[lane]);
                }
            }
            for ((sum, &a), &b) in sums.iter_mut().zip(x_tail).zip(y_tail) {
                *sum += f(a, b);
            }
            for half in [8, 4, 2, 1] {
                for lane in 0..half {
                    sums[lane] += sums[lane + half];
                }
            }
            sums[0]
        },
    )
}

/// <x, y>.
pub(crate) fn dot(x: &[f64], y: &[f64]) -> f64 {
    sum_over(x, y, |x, y| x * y)
}

/// |x - y|^2.
pub(crate) fn squared_distance(x: &[f64], y: &[f64]) -> f64 {
    sum_over(x, y, |x, y| (x - y) * (x - y))
}

/// y += a x.
pub(crate) fn add_scaled(y: &mut [f64], a: f64, x: &[f64]) {
    fast(
        #[inline(always)]
        || y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x),
    );
}

/// x /= a.
pub(crate) fn divide(x: &mut [f64], a: f64) {
    fast(
        #[inline(always)]
        || x.iter_mut().for_each(|x| *x /= a),
    );
}

/// r = y + x a + z b.
pub(crate) fn add_two(r: &mut [f64], y: &[f64], x: f64, a: &[f64], z: f64, b: &[f64]) {
    fast(
        #[inline(always)]
        || {
            for (((r, y), a), b) in r.iter_mut().zip(y).zip(a).zip(b) {
                *r = y + x * a + z * b;
            }
        },
    );
}

/// out = a y, in single precision.
pub(crate) fn to_single(out: &mut [f32], y: &[f64], a: f64) {
    fast(
        #[inline(always)]
        || out.iter_mut().zip(y).for_each(|(out, y)| *out = (a * y) as f32),
    );
}

/// out = A'Y for A (n x m) and Y (n x p), in single or double precision.
pub(crate) fn transposed_product<T: ComplexField>(out: &mut [T], a: &[T], y: &[T], n: usize) {
    let (m, p) = (a.len() / n, y.len() / n);
    let a = MatRef::from_column_major_slice(a, n, m);
    let y = MatRef::from_column_major_slice(y, n, p);
    let out = MatMut::from_column_major_slice_mut(out, m, p);
    matmul(out, Accum::Replace, a.transpose(), y, T::one_impl(), Par::Seq);
}

/// out += A X for A (n x m) and X (m x p), in single or double precision.
pub(crate) fn add_product<T: ComplexField>(out: &mut [T], a: &[T], x: &[T], n: usize) {
    let m = a.len() / n;
    let p = out.len() / n;
    let a = MatRef::from_column_major_slice(a, n, m);
    let x = MatRef::from_column_major_slice(x, m, p);
    let out = MatMut::from_column_major_slice_mut(out, n, p);
    matmul(out, Accum::Add, a, x, T::one_impl(), Par::Seq);
}

/// The spectral norm of a matrix with n rows.
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
        // Only a matrix that is not finite has no singular values.
        Err(_) => f64::NAN,
    }
}

/// Eigenvalues, increasing, and eigenvectors, column by column, of a symmetric matrix; none if it is not finite.
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

/// The Cholesky factor of a symmetric positive definite matrix.
pub(crate) struct Cholesky {
    size: usize,
    factor: Vec<f64>,
}

impl Cholesky {
    /// Factors a symmetric matrix; none if it is not positive definite.
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

    /// Overwrites B (n x size) with B M^-1, for the factored symmetric M.
    pub(crate) fn solve_from_right(&self, b: &mut [f64]) {
        let k = self.size;
        let b = MatMut::from_column_major_slice_mut(b, b.len() / k, k);
        let solve = |rows: MatMut<'_, f64>| {
            llt::solve::solve_in_place(self.lower(), rows.transpose_mut(), Par::Seq, MemStack::new(&mut []));
        };
        // Every row of B alone.
        if k < LARGE { solve(b) } else { b.par_row_chunks_mut(ROWS).for_each(solve) }
    }

    /// With M = L L': (M^-1)_ii is the squared length of column i of L^-1.
    pub(crate) fn diagonal_of_inverse(&self) -> Vec<f64> {
        let k = self.size;
        let mut inverse = vec![0.0; k * k];
        // Some columns of L^-1 alone, which are zero above the diagonal.
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

/// From this size on a system is worth the start of threads, which take so many rows at a time.
const LARGE: usize = 128;
const ROWS: usize = 64;
