//! Leading singular vectors of a sparse matrix, by the Lanczos iteration.
//!
//! ```text
//! M (J x K)                    sparse, by its non-zero entries
//! M v = sigma u, M'u = sigma v singular triples, the largest sigma first
//! V (K x s), orthonormal       a basis of the space spanned by v0, (M'M) v0, (M'M)^2 v0, ...
//! (V'M'M V) y = lambda y       then v ~ V y and sigma^2 ~ lambda
//! ```
//!
//! No dense matrix of the size of M is formed. If M has rank one, the first vector of the basis is already the
//! solution.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use crate::linalg::decompose::eigen;
use crate::linalg::vector::{add_scaled, dot};

/// Number of plain power steps before the Lanczos iteration.
const POWER_STEPS: usize = 8;

/// Largest number of basis vectors, or four for each wanted singular vector if that is more. When the basis is full,
/// the iteration starts again from the best vectors so far.
const MOST_VECTORS: usize = 48;

/// Largest number of starts. All of them are used only if singular values agree to many digits; the result then mixes
/// the vectors of such values.
const STARTS: usize = 20;

/// A residual below this fraction of the largest eigenvalue is rounding error.
const SETTLED: f64 = 1e-14;

/// Components of a unit vector below this magnitude are rounding error.
pub(super) const NEGLIGIBLE: f64 = 1e-13;

/// A sparse matrix M.
pub(super) struct SparseMatrix {
    /// J.
    pub(super) rows: usize,
    /// K.
    pub(super) cols: usize,
    /// (row, col, value).
    pub(super) entries: Vec<(usize, usize, f64)>,
}

impl SparseMatrix {
    /// Returns M v.
    pub(super) fn times(&self, v: &[f64]) -> Vec<f64> {
        let mut u = vec![0.0; self.rows];
        self.entries.iter().for_each(|&(row, col, x)| u[row] += x * v[col]);
        u
    }

    /// Returns M'u.
    fn transposed_times(&self, u: &[f64]) -> Vec<f64> {
        let mut v = vec![0.0; self.cols];
        self.entries.iter().for_each(|&(row, col, x)| v[col] += x * u[row]);
        v
    }

    /// Returns the leading right singular vectors, at most `count`, the one of the largest singular value first.
    pub(super) fn leading_vectors(&self, count: usize) -> Vec<Vec<f64>> {
        if self.entries.is_empty() {
            return Vec::new();
        }
        // Random vectors have a component in every direction; codes of +-1 are orthogonal to many regular vectors. The
        // seed is fixed, so that results can be reproduced.
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        let mut random_start = || {
            let random: Vec<f64> = (0..self.rows).map(|_| rng.sample(StandardNormal)).collect();
            self.transposed_times(&random)
        };
        let mut start = random_start();
        normalise(&mut start);
        // These steps are enough if the model holds, because M has rank one then.
        for _ in 0..POWER_STEPS {
            let mut next = self.transposed_times(&self.times(&start));
            normalise(&mut next);
            let change = next.iter().zip(&start).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            start = next;
            if change <= SETTLED {
                break;
            }
        }
        for _ in 1..STARTS {
            match self.lanczos(start, &mut random_start, count) {
                Ok(settled) => return settled,
                // The next run starts from the sum of all vectors of this one.
                Err(vectors) => {
                    start = vec![0.0; self.cols];
                    vectors.iter().for_each(|v| add_scaled(&mut start, 1.0, v));
                }
            }
        }
        self.lanczos(start, &mut random_start, count).unwrap_or_else(|vectors| vectors)
    }

    /// One run of the Lanczos iteration from v. Returns right singular vectors: `Ok` if they have converged, `Err` if
    /// the basis was full before they converged.
    ///
    /// If M'M maps the basis to itself before all vectors are found, the run goes on with a new random start.
    fn lanczos(
        &self,
        mut v: Vec<f64>,
        random_start: &mut impl FnMut() -> Vec<f64>,
        count: usize,
    ) -> Result<Vec<Vec<f64>>, Vec<Vec<f64>>> {
        let most = MOST_VECTORS.max(4 * count).min(self.cols);
        // V, M V, and the lower triangle of V'M'M V.
        let (mut basis, mut images): (Vec<Vec<f64>>, Vec<Vec<f64>>) = (Vec::new(), Vec::new());
        let mut products: Vec<Vec<f64>> = Vec::new();
        normalise(&mut v);
        loop {
            let image = self.times(&v);
            let mut next = self.transposed_times(&image);
            images.push(image);
            basis.push(v);
            let size = basis.len();
            products.push(images.iter().map(|other| dot(other, &images[size - 1])).collect());
            let product = |at: usize| products[(at / size).max(at % size)][(at / size).min(at % size)];
            let product: Vec<f64> = (0..size * size).map(product).collect();
            let eigen = if size == 1 { Some((product, vec![1.0])) } else { eigen(&product, size) };
            // Only entries that are not finite have no eigenvectors.
            let Some((values, vectors)) = eigen else { return Ok(Vec::new()) };
            let largest = values[size - 1];
            let mut residual = orthogonalise(&mut next, &basis);
            let leading = || (0..size).rev().take(count).map(|at| &vectors[at * size..][..size]);
            // |M'M V y - lambda V y| is the residual of the last basis vector times the last entry of y.
            let last_entry = leading().map(|y| y[size - 1].abs()).fold(0.0, f64::max);
            let mut settled = size >= count && residual * last_entry <= SETTLED * largest;
            if !settled && residual <= SETTLED * largest {
                // M'M maps the basis to itself, but equal singular values may have further vectors.
                next = random_start();
                let length = normalise(&mut next);
                residual = orthogonalise(&mut next, &basis);
                settled = length == 0.0 || residual <= NEGLIGIBLE;
            }
            if settled || size == most {
                let combine = |y: &[f64]| {
                    let mut v = vec![0.0; self.cols];
                    basis.iter().zip(y).for_each(|(b, &y)| add_scaled(&mut v, y, b));
                    v
                };
                let found = leading().map(combine).collect();
                return if settled || size == self.cols { Ok(found) } else { Err(found) };
            }
            v = next;
        }
    }
}

/// Subtracts the components of a vector along orthonormal vectors, scales the remainder to unit length, and returns the
/// length of the remainder.
fn orthogonalise(vector: &mut [f64], basis: &[Vec<f64>]) -> f64 {
    // Subtracting twice makes the vectors orthogonal up to rounding.
    for v in basis.iter().chain(basis) {
        let component = dot(v, vector);
        add_scaled(vector, -component, v);
    }
    normalise(vector)
}

/// Scales a vector to unit length, unless it is zero, and returns its length before.
pub(super) fn normalise(vector: &mut [f64]) -> f64 {
    let norm = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    if norm > 0.0 {
        vector.iter_mut().for_each(|x| *x /= norm);
    }
    norm
}
