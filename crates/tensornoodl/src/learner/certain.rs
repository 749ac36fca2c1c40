//! Certain codes: codes that have the right patterns with the right signs for every dictionary A* near A (Lemma 2).
//!
//! ```text
//! y = A*_T x* + e,    |A_i - A*_i| <= eps_i,    C <= |x*_i|          T: the patterns of the fiber, unknown
//! y = A_S x + r,      A_S'r = 0                                          S: those of its code
//! ```
//!
//! With q_i^2 = (G_SS^-1)_ii, the bound of Lemma 2 on what the errors of A and noise do to the fiber is
//!
//! ```text
//! F = (sum_S eps_i |x_i| + N) / (1 - sum_S eps_i q_i),      N = |r| (delta^(-2 / (n - 2s)) - 1)^(1/2)
//! ```
//!
//! where a random direction has more than N of the noise only with probability delta. If residuals are not noise, they
//! are the errors of A themselves, and the larger one of |r| and sum_S eps_i |x_i| takes the place of the bracket.
//!
//! **No pattern is missing.** Let U be the patterns of T outside of S, u of them. Orthogonal to A_S, the inner products of
//! two of them are at most |G_il| + g^2 / lambda, where g is the largest |G_iS| and lambda <= the smallest eigenvalue of
//! G_SS. So with mu(k), the largest sum of k entries of a row of |G|,
//!
//! ```text
//! max |x*_U| (1 - u g^2 / lambda - mu(u - 1) - u (sum_S eps_i q_i + max eps) / (1 - sum_S eps_i q_i)) <= max |a_i'r| + F
//! ```
//!
//! and if that makes it smaller than C, there is no such pattern. A pattern that A lacks is seen in |r|: it leaves at least
//! C (1 - g^2 / lambda)^(1/2) - F, if it is no more like A_S than the others are.
//!
//! **No pattern is too many.** Then |x_i - x*_i| <= q_i F, and pattern i is in the fiber, with the sign of x_i, if that is
//! below |x_i|. A code below C - q_i F contradicts |x*_i| >= C, and is not certain.
//!
//! Departs: the paper bounds all codes by the sparsity, the incoherence and the largest error. That bound is above C / 2
//! for most fibers of its own experiments, so the code, its residual, and the error of each pattern are used instead.

use rayon::prelude::*;

use crate::data::codes::Codes;
use crate::data::dictionary::Dictionary;
use crate::data::tensor::Tensor;
use crate::error::Error;
use crate::learner::errors::LEAST_FEATURES;
use crate::learner::{Learner, Method};
use crate::linalg::product::transposed_product;
use crate::linalg::small::{cholesky_row, cholesky_solve};
use crate::linalg::vector::{add_scaled, dot};
use crate::params::Rule;

/// The distance of a pattern from the true one is at most this many times its expected distance.
const SAFETY: f64 = 2.0;

/// A pattern outside of a code counts as one that A lacks if its eps is above this.
const FAR: f64 = 0.1;

/// delta, the probability that noise exceeds its bound in one direction.
const CHANCE: f64 = 1e-9;

/// The largest number of patterns that a code may lack, and at most as many as it has.
const MISSING: usize = 2;

/// Number of tensors that must have shown a pattern that was found in the data: it may be a mixture at first.
const SETTLED: u64 = 8;

/// The part of C by which a code may be below C, because C is estimated.
const ROOM: f64 = 0.02;

/// A residual is orthogonal to the patterns of a code up to this part of the fiber.
const ORTHOGONAL: f64 = 1e-9;

impl Learner {
    /// For every fiber of a tensor, whether its code is certain: it has all patterns of the fiber, no other one, and the
    /// right signs, for every true dictionary near this one. `codes` are those of [`Learner::encode`]. `None` for counts,
    /// for the paper's step, and for fewer than six features.
    ///
    /// It assumes that the fiber is a sum of true patterns and white Gaussian noise, with codes of at least the code floor;
    /// that a pattern is at most twice as far from the true one as expected; and that the code lacks at most two patterns,
    /// and no more than it has. A code with a pattern that no tensor has shown yet is not certain, nor is an empty code.
    /// Patterns that were found in the data may be mixtures at first; a code with one is not certain before eight tensors
    /// have shown it.
    ///
    /// # Errors
    /// [`Error::Features`] for a tensor of another number of features; [`Error::Patterns`] for codes of another number of
    /// patterns.
    ///
    /// # Panics
    /// If there is not one code for each fiber.
    pub fn certain_codes(&self, tensor: &Tensor<'_>, codes: &Codes) -> Result<Option<Vec<bool>>, Error> {
        self.common.check_features(tensor.shape())?;
        let dictionary = &self.common.dictionary;
        let (coded, patterns) = (codes.matrix().rows(), dictionary.patterns());
        if coded != patterns {
            return Err(Error::Patterns { codes: coded, dictionary: patterns });
        }
        let Method::Exact(exact) = &self.method else { return Ok(None) };
        if matches!(self.common.params.rule, Rule::Paper { .. }) || dictionary.features() < LEAST_FEATURES {
            return Ok(None);
        }
        assert_eq!(codes.places(), tensor.places(), "one code for each fiber");
        let floor = exact.params_in_units_of_data(&self.common.params).code_floor;
        let mut errors = exact.adaptive.distances(dictionary.features());
        if exact.discovery.is_some() {
            let early = errors.iter_mut().zip(&self.common.sightings).filter(|it| it.1.times < SETTLED);
            early.for_each(|(error, _)| *error = None);
        }
        let certificate = Certificate::new(dictionary, &errors, exact.adaptive.has_noise(), floor);
        let columns: Vec<&[(u32, f64)]> = codes.matrix().columns().collect();
        let certain = |(fiber, code): (usize, &&[(u32, f64)])| {
            let mut y = vec![0.0; dictionary.features()];
            tensor.entries(fiber).for_each(|(feature, value)| y[feature as usize] = value);
            certificate.holds(&y, code)
        };
        Ok(Some(columns.par_iter().enumerate().with_min_len(64).map(certain).collect()))
    }
}

/// What certificates need of a dictionary.
struct Certificate<'a> {
    dictionary: &'a Dictionary,
    /// eps, for every pattern that is known well enough.
    eps: Vec<Option<f64>>,
    /// The largest eps of a pattern that is not far from the true one.
    largest_eps: f64,
    /// Whether residuals are noise and not the errors of the patterns.
    noisy: bool,
    /// C.
    floor: f64,
    /// G = A'A (m x m).
    gram: Vec<f64>,
    /// mu(k) for k from 0 to MISSING - 1.
    incoherence: [f64; MISSING],
}

impl<'a> Certificate<'a> {
    /// `errors` is the expected distance of each pattern.
    fn new(dictionary: &'a Dictionary, errors: &[Option<f64>], noisy: bool, floor: f64) -> Certificate<'a> {
        let m = dictionary.patterns();
        let mut gram = vec![0.0; m * m];
        transposed_product(&mut gram, dictionary.values(), dictionary.values(), dictionary.features());
        let mut incoherence = [0.0; MISSING];
        for (i, row) in gram.chunks_exact(m.max(1)).enumerate() {
            let mut others: Vec<f64> =
                row.iter().enumerate().filter(|other| other.0 != i).map(|other| other.1.abs()).collect();
            others.sort_unstable_by(|a, b| b.total_cmp(a));
            let mut sum: f64 = 0.0;
            for (k, largest) in incoherence.iter_mut().enumerate() {
                *largest = sum.max(*largest);
                sum += others.get(k).unwrap_or(&0.0);
            }
        }
        let eps: Vec<Option<f64>> = errors.iter().map(|error| error.map(|error| SAFETY * error)).collect();
        let largest_eps = eps.iter().flatten().copied().filter(|eps| *eps <= FAR).fold(0.0, f64::max);
        Certificate { dictionary, eps, largest_eps, noisy, floor, gram, incoherence }
    }

    /// Whether the code of the fiber y is certain.
    fn holds(&self, y: &[f64], code: &[(u32, f64)]) -> bool {
        self.try_to_hold(y, code).unwrap_or(false)
    }

    fn try_to_hold(&self, y: &[f64], code: &[(u32, f64)]) -> Option<bool> {
        let (n, m, s) = (y.len(), self.dictionary.patterns(), code.len());
        if s == 0 || 2 * s >= n {
            return None;
        }
        let index = |at: usize| code[at].0 as usize;
        let eps: Vec<f64> = (0..s).map(|at| self.eps[index(at)]).collect::<Option<_>>()?;
        let mut r = y.to_vec();
        code.iter().for_each(|&(i, x)| add_scaled(&mut r, -x, self.dictionary.pattern(i as usize)));
        let (length, residual) = (dot(y, y).sqrt(), dot(&r, &r).sqrt());
        let score = |i: usize| dot(self.dictionary.pattern(i), &r).abs();
        // Iterations that have not converged are no least-squares fit.
        if (0..s).any(|at| score(index(at)) > ORTHOGONAL * length) {
            return None;
        }

        // F, and what remains of a missing pattern.
        let q = self.roots_of_inverse(code)?;
        let lambda = 1.0 / q.iter().map(|q| q * q).sum::<f64>();
        let moved: f64 = code.iter().zip(&eps).map(|(entry, eps)| entry.1.abs() * eps).sum();
        let left = 1.0 - eps.iter().zip(&q).map(|(eps, q)| eps * q).sum::<f64>();
        let noise = residual * (CHANCE.powf(-2.0 / (n - 2 * s) as f64) - 1.0).sqrt();
        let known = if self.noisy { moved + noise } else { moved.max(residual) };
        let bound = known / left;
        let g = self.largest_coupling(code);
        let u = MISSING.min(s);
        let visible = 1.0
            - u as f64 * g * g / lambda
            - self.incoherence[u - 1]
            - u as f64 * (1.0 - left + self.largest_eps) / left;
        if left <= 0.0 || visible <= 0.0 {
            return None;
        }

        // A code below C contradicts what is assumed. Patterns that are mixtures of true ones have such codes.
        let fits = |x: f64, error: f64| x > error && x + error >= (1.0 - ROOM) * self.floor;
        let none_too_many = code.iter().zip(&q).all(|(entry, q)| fits(entry.1.abs(), q * bound));
        let allowed = self.floor * visible - bound;
        // |a_i'r| <= |r| saves the product with all patterns.
        let none_missing = || {
            let unknown = self.floor * (1.0 - g * g / lambda).sqrt() - bound;
            residual < allowed || (residual < unknown && (0..m).all(|i| score(i) < allowed))
        };
        Some(none_too_many && none_missing())
    }

    /// q: the roots of the diagonal of G_SS^-1. None if G_SS is singular.
    fn roots_of_inverse(&self, code: &[(u32, f64)]) -> Option<Vec<f64>> {
        let (m, s) = (self.dictionary.patterns(), code.len());
        let (mut g, mut factor) = (vec![0.0; s * s], vec![0.0; s * s]);
        for row in 0..s {
            for col in 0..s {
                g[row * s + col] = self.gram[code[row].0 as usize * m + code[col].0 as usize];
            }
            if !cholesky_row(&mut factor, &g, s, row, 1e-6) {
                return None;
            }
        }
        let root = |at: usize| {
            let mut unit = vec![0.0; s];
            unit[at] = 1.0;
            cholesky_solve(&factor, &mut unit);
            unit[at].sqrt()
        };
        Some((0..s).map(root).collect())
    }

    /// g: the largest |G_iS| of a pattern outside of the code.
    fn largest_coupling(&self, code: &[(u32, f64)]) -> f64 {
        let m = self.dictionary.patterns();
        let mut squares = vec![0.0; m];
        for &(l, _) in code {
            let row = &self.gram[l as usize * m..][..m];
            squares.iter_mut().zip(row).for_each(|(square, g)| *square += g * g);
        }
        code.iter().for_each(|&(l, _)| squares[l as usize] = 0.0);
        squares.into_iter().fold(0.0, f64::max).sqrt()
    }
}
