//! Alternating least squares for the CP factorization of one tensor, plain and orthogonalized (Sharan and Valiant 2017).
//!
//! ```text
//! A <- Z_(1) (C . B) (C'C * B'B)^-1,   and so on for B and C
//! ```
//!
//! where . is the Khatri-Rao product and * the product entry by entry. Z is known by its non-zero fibers, so that Z_(1) (C . B)
//! is Y W' with w_f = B_j * C_k at the place (j, k) of fiber f, and the other two come from A'Y: no unfolding is formed.
//! Every zero counts, as it has to: they are data too.

use faer::linalg::solvers::Solve;
use faer::{Mat, MatRef, Side};
use tensornoodl::{Dictionary, Error, Factors, Tensor};

use crate::linear::{dot, transposed_product};

/// How long, and whether factors are made orthogonal first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Als {
    /// Sweeps at most.
    pub most_sweeps: usize,
    /// The change of the fit that ends them.
    pub tolerance: f64,
    /// Sweeps that begin by making the columns of each factor orthogonal; needs no more patterns than any axis is long.
    pub orthogonal_sweeps: usize,
}

impl Default for Als {
    fn default() -> Self {
        Als { most_sweeps: 200, tolerance: 1e-12, orthogonal_sweeps: 0 }
    }
}

/// A CP factorization; rows and cols as J x m and K x m, column by column.
#[derive(Debug, Clone)]
pub struct Cp {
    /// A, with unit columns.
    pub dictionary: Dictionary,
    /// B.
    pub rows: Vec<f64>,
    /// C, with unit columns where they are not zero.
    pub cols: Vec<f64>,
    /// |Z - sum A_i o B_i o C_i|_F / |Z|_F.
    pub fit: f64,
    /// Sweeps made.
    pub sweeps: usize,
}

/// Factorizes one tensor, from a dictionary and factors near to it.
pub fn als(tensor: &Tensor<'_>, start: &Dictionary, factors: &Factors, options: Als) -> Result<Cp, Error> {
    let shape = tensor.shape();
    let (n, m) = (start.features(), start.patterns());
    let mut a = start.values().to_vec();
    let dense = |sparse: &tensornoodl::Sparse, length: usize| {
        let mut values = vec![0.0; length * m];
        for (i, column) in sparse.columns().enumerate() {
            column.iter().for_each(|&(at, x)| values[i * length + at as usize] = x);
        }
        values
    };
    let (mut b, mut c) = (dense(&factors.rows, shape.rows), dense(&factors.cols, shape.cols));
    let energy = dot(tensor.values(), tensor.values());
    let (mut fit, mut sweeps) = (f64::INFINITY, 0);
    while sweeps < options.most_sweeps {
        if sweeps < options.orthogonal_sweeps {
            for (factor, length) in [(&mut a, n), (&mut b, shape.rows), (&mut c, shape.cols)] {
                orthogonalize(factor, length);
            }
        }
        sweeps += 1;
        // A from Y W'.
        let mut along = vec![0.0; n * m];
        for (fiber, place) in tensor.places().iter().enumerate() {
            let y = tensor.fiber(fiber);
            for i in 0..m {
                let w = b[i * shape.rows + place.row as usize] * c[i * shape.cols + place.col as usize];
                if w != 0.0 {
                    along[i * n..][..n].iter_mut().zip(y).for_each(|(sum, y)| *sum += w * y);
                }
            }
        }
        a = solve(along, n, &entrywise(&gram(&b, shape.rows), &gram(&c, shape.cols)), m);
        normalize(&mut a, n);
        // B and C from A'Y.
        let mut scores = vec![0.0; m * tensor.fibers()];
        transposed_product(&mut scores, &a, tensor.values(), n);
        let g = gram(&a, n);
        let mut along = vec![0.0; shape.rows * m];
        for (d, place) in scores.chunks_exact(m).zip(tensor.places()) {
            for (i, d) in d.iter().enumerate() {
                along[i * shape.rows + place.row as usize] += d * c[i * shape.cols + place.col as usize];
            }
        }
        b = solve(along, shape.rows, &entrywise(&g, &gram(&c, shape.cols)), m);
        normalize(&mut b, shape.rows);
        let mut along = vec![0.0; shape.cols * m];
        for (d, place) in scores.chunks_exact(m).zip(tensor.places()) {
            for (i, d) in d.iter().enumerate() {
                along[i * shape.cols + place.col as usize] += d * b[i * shape.rows + place.row as usize];
            }
        }
        let second = entrywise(&g, &gram(&b, shape.rows));
        c = solve(along.clone(), shape.cols, &second, m);
        // |Z - Zhat|^2 = |Z|^2 - 2 <along, C> + sum of (A'A * B'B * C'C).
        let model: f64 = entrywise(&second, &gram(&c, shape.cols)).iter().sum();
        let next = ((energy - 2.0 * dot(&along, &c) + model).max(0.0) / energy).sqrt();
        let settled = (fit - next).abs() < options.tolerance;
        fit = next;
        if settled {
            break;
        }
    }
    let dictionary = Dictionary::from_columns(n, filled(a, start))?;
    Ok(Cp { dictionary, rows: b, cols: c, fit, sweeps })
}

/// A pattern that the tensor does not show stays what it was.
fn filled(mut a: Vec<f64>, start: &Dictionary) -> Vec<f64> {
    for (i, column) in a.chunks_exact_mut(start.features()).enumerate() {
        if !column.iter().all(|v| v.is_finite()) || column.iter().all(|v| *v == 0.0) {
            column.copy_from_slice(start.pattern(i));
        }
    }
    a
}

/// F'F.
fn gram(factor: &[f64], length: usize) -> Vec<f64> {
    let m = factor.len() / length;
    let mut gram = vec![0.0; m * m];
    transposed_product(&mut gram, factor, factor, length);
    gram
}

fn entrywise(x: &[f64], y: &[f64]) -> Vec<f64> {
    x.iter().zip(y).map(|(x, y)| x * y).collect()
}

/// M V^-1 for M (length x m) and V (m x m), where V may be singular: patterns that are not there.
fn solve(right: Vec<f64>, length: usize, v: &[f64], m: usize) -> Vec<f64> {
    let largest = (0..m).map(|i| v[i * m + i]).fold(0.0, f64::max);
    let mut v = MatRef::from_column_major_slice(v, m, m).to_owned();
    (0..m).for_each(|i| v[(i, i)] += 1e-13 * largest.max(f64::MIN_POSITIVE));
    let right = MatRef::from_column_major_slice(&right, length, m);
    let solved: Mat<f64> = match v.llt(Side::Lower) {
        Ok(factor) => factor.solve(right.transpose()),
        Err(_) => v.partial_piv_lu().solve(right.transpose()),
    };
    (0..m).flat_map(|i| (0..length).map(|at| solved[(i, at)]).collect::<Vec<f64>>()).collect()
}

fn normalize(factor: &mut [f64], length: usize) {
    for column in factor.chunks_exact_mut(length) {
        let norm = dot(column, column).sqrt();
        if norm > 0.0 {
            column.iter_mut().for_each(|v| *v /= norm);
        }
    }
}

/// Gram and Schmidt, twice; columns that vanish stay zero.
fn orthogonalize(factor: &mut [f64], length: usize) {
    let m = factor.len() / length;
    for i in 0..m {
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
