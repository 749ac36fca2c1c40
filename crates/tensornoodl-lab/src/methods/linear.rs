//! Dense products, and codes of many fibers in blocks.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;
use tensornoodl::{Codes, Dictionary, Sparse, Tensor};

/// Number of fibers in a block.
pub(crate) const BLOCK: usize = 256;

/// Computes A'Y (m x p) for A (n x m) and Y (n x p), all column by column.
pub(crate) fn transposed_product(out: &mut [f64], a: &[f64], y: &[f64], n: usize) {
    let (m, p) = (a.len() / n, y.len() / n);
    let out = MatMut::from_column_major_slice_mut(out, m, p);
    let (a, y) = (MatRef::from_column_major_slice(a, n, m), MatRef::from_column_major_slice(y, n, p));
    matmul(out, Accum::Replace, a.transpose(), y, 1.0, Par::Seq);
}

/// Computes A X (n x p) for A (n x m) and X (m x p), all column by column.
pub(crate) fn product(out: &mut [f64], a: &[f64], x: &[f64], n: usize) {
    let (m, p) = (a.len() / n, out.len() / n);
    let out = MatMut::from_column_major_slice_mut(out, n, p);
    let (a, x) = (MatRef::from_column_major_slice(a, n, m), MatRef::from_column_major_slice(x, m, p));
    matmul(out, Accum::Replace, a, x, 1.0, Par::Seq);
}

/// Computes Y W' (n x m) for Y (n x p) and W (m x p), all column by column.
pub(crate) fn product_transposed(out: &mut [f64], y: &[f64], w: &[f64], m: usize) {
    let (n, p) = (out.len() / m, w.len() / m);
    let out = MatMut::from_column_major_slice_mut(out, n, m);
    let (y, w) = (MatRef::from_column_major_slice(y, n, p), MatRef::from_column_major_slice(w, m, p));
    matmul(out, Accum::Replace, y, w.transpose(), 1.0, Par::Seq);
}

/// Returns the product of x and y, entry by entry.
pub(crate) fn entrywise(x: &[f64], y: &[f64]) -> Vec<f64> {
    x.iter().zip(y).map(|(x, y)| x * y).collect()
}

/// Scales columns to length one; columns of zeros stay.
pub(crate) fn normalize(factor: &mut [f64], length: usize) {
    for column in factor.chunks_exact_mut(length) {
        let norm = dot(column, column).sqrt();
        if norm > 0.0 {
            column.iter_mut().for_each(|v| *v /= norm);
        }
    }
}

/// Returns the inner product <x, y>.
pub(crate) fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

/// Adds a x to y.
pub(crate) fn add(y: &mut [f64], a: f64, x: &[f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x);
}

/// Works on blocks of fibers in parallel: `work` gets the index of the first fiber of a block and A'Y of the block.
/// Returns the results in order.
pub(crate) fn by_blocks<T: Send>(
    dictionary: &Dictionary,
    tensor: &Tensor<'_>,
    work: impl Fn(usize, &[f64]) -> T + Sync,
) -> Vec<T> {
    let (n, m) = (dictionary.features(), dictionary.patterns());
    let blocks = tensor.values().par_chunks(n * BLOCK).enumerate();
    let results = blocks.map(|(block, y)| {
        let mut scores = vec![0.0; m * (y.len() / n)];
        transposed_product(&mut scores, dictionary.values(), y, n);
        work(block * BLOCK, &scores)
    });
    results.collect()
}

/// Returns the codes of all fibers; `code` computes the code of a fiber from A'y.
pub(crate) fn encode(
    dictionary: &Dictionary,
    tensor: &Tensor<'_>,
    code: impl Fn(&[f64]) -> Vec<(u32, f64)> + Sync,
) -> Codes {
    let m = dictionary.patterns();
    let blocks =
        by_blocks(dictionary, tensor, |_, scores| scores.chunks_exact(m).map(&code).collect::<Vec<_>>());
    let mut matrix = Sparse::new(m);
    blocks.iter().flatten().for_each(|code| matrix.push(code));
    Codes::new(matrix, tensor)
}
