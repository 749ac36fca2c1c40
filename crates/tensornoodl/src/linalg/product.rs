//! Matrix products by faer, on column-major slices, in single or double precision.
//!
//! ```text
//! out  = A'Y       A (n x m), Y (n x p), out (m x p)
//! out += A X       A (n x m), X (m x p), out (n x p)
//! ```
//!
//! Every product runs on the calling thread. Callers that use several threads cut their matrices into pieces of fixed
//! size, so that the bits of a result do not depend on the number of threads.

use faer::linalg::matmul::matmul;
use faer::traits::ComplexField;
use faer::{Accum, MatMut, MatRef, Par};

/// Computes out = A'Y for A (n x m) and Y (n x p).
pub(crate) fn transposed_product<T: ComplexField>(out: &mut [T], a: &[T], y: &[T], n: usize) {
    let (m, p) = (a.len() / n, y.len() / n);
    let a = MatRef::from_column_major_slice(a, n, m);
    let y = MatRef::from_column_major_slice(y, n, p);
    let out = MatMut::from_column_major_slice_mut(out, m, p);
    matmul(out, Accum::Replace, a.transpose(), y, T::one_impl(), Par::Seq);
}

/// Computes out += A X for A (n x m) and X (m x p).
pub(crate) fn add_product<T: ComplexField>(out: &mut [T], a: &[T], x: &[T], n: usize) {
    let m = a.len() / n;
    let p = out.len() / n;
    let a = MatRef::from_column_major_slice(a, n, m);
    let x = MatRef::from_column_major_slice(x, m, p);
    let out = MatMut::from_column_major_slice_mut(out, n, p);
    matmul(out, Accum::Add, a, x, T::one_impl(), Par::Seq);
}
