//! Fu, Huang, Ma, Sidiropoulos and Bro, "Joint tensor factorization and outlying slab suppression with applications"
//! (2015).
//!
//! ```text
//! minimise over A, B, C >= 0   sum_k (|Z_k - A diag(c_k) B'|_F^2 + eps)^(p/2) + lambda (|A|_1 + |B|_F^2 + |C|_F^2)
//! ```
//!
//! where Z_k are the slabs along the third axis. From the original: the first term with 0 < p <= 1, and its
//! alternating minimization. The weights of slabs are those of reweighted least squares, w_k = p/2 (|Z_k - A
//! diag(c_k) B'|_F^2 + eps)^(p/2 - 1) in every sweep. They define a quadratic that touches the objective from above,
//! so that the objective never rises. The TensorNOODL paper describes the method with one sparse factor and bounded
//! Frobenius norms of the others.
//!
//! Chosen here, because the original text on Enron was not available: p, eps, lambda, the starts, and the solver of a
//! factor, which goes through its columns,
//!
//! ```text
//! f_i <- max(0, (M_i - sum_{j != i} f_j V_ji - lambda/2) / V_ii)   for the l1 norm,
//! f_i <- max(0, (M_i - sum_{j != i} f_j V_ji) / (V_ii + lambda))   for the Frobenius norm.
//! ```
//!
//! One lambda is enough: scale moves freely between the factors, so that of three lambdas only lambda_a^2 lambda_b
//! lambda_c would matter. Z is given by its entries, and no unfolding is formed; zeros count as data.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use tensornoodl::{Error, Shape};

use crate::methods::linear::{dot, transposed_product};

/// An index along each axis, and the value there. No two entries may have the same indices.
pub type Entry = ([usize; 3], f64);

/// Options of the method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fu {
    /// Number of columns of each factor.
    pub groups: usize,
    /// The exponent p, above 0 and at most 2; at 2 all slabs have the weight 1.
    pub p: f64,
    /// The eps of the objective, above 0: slabs with smaller residuals gain no more weight. Residuals are differences
    /// of sums, so far smaller ones are rounding errors.
    pub eps: f64,
    /// The weight lambda of the penalties, at least 0. It must be chosen for the data and for p: the larger it is,
    /// the fewer members a group has.
    pub lambda: f64,
    /// Whether A, B and C have the l1 norm; otherwise they have the squared Frobenius norm.
    pub sparse: [bool; 3],
    /// Number of random starts; the fit with the lowest objective is kept.
    pub starts: u64,
    /// Seed of the starts.
    pub seed: u64,
    /// Maximum number of sweeps.
    pub most_sweeps: usize,
    /// The sweeps end when the relative change of the objective is at most this.
    pub tolerance: f64,
}

impl Default for Fu {
    fn default() -> Self {
        let (sparse, most_sweeps) = ([true, false, false], 2000);
        Fu {
            groups: 5,
            p: 1.0,
            eps: 1e-3,
            lambda: 0.1,
            sparse,
            starts: 40,
            seed: 0,
            most_sweeps,
            tolerance: 1e-9,
        }
    }
}

/// A fitted model.
#[derive(Debug, Clone)]
pub struct FuFit {
    /// The factors A, B and C, column by column.
    pub factors: [Vec<f64>; 3],
    /// The objective at the end.
    pub objective: f64,
    /// The number of sweeps.
    pub sweeps: usize,
    /// The weights of the slabs at the end.
    pub weights: Vec<f64>,
}

/// Factorizes from several random starts. Each start is fitted without lambda first: with lambda, groups of a random
/// start vanish.
///
/// # Errors
/// If an option is out of range or an entry lies outside the shape.
pub fn fu(entries: &[Entry], shape: [usize; 3], options: &Fu) -> Result<FuFit, Error> {
    let fits = (0..options.starts).into_par_iter().map(|start| {
        let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
        rng.set_stream(start);
        let random = shape.map(|length| (0..length * options.groups).map(|_| rng.random()).collect());
        let free = fu_from(entries, shape, random, &Fu { lambda: 0.0, ..*options })?;
        fu_from(entries, shape, free.factors, options)
    });
    let fits: Vec<FuFit> = fits.collect::<Result<_, Error>>()?;
    let best = fits.into_iter().min_by(|a, b| a.objective.total_cmp(&b.objective));
    best.ok_or(Error::Parameter { name: "starts", value: "0".into(), rule: "at least 1".into() })
}

/// Factorizes from one start, given as factors column by column.
///
/// # Errors
/// If an option is out of range, a factor has another length, or an entry lies outside the shape.
pub fn fu_from(
    entries: &[Entry],
    shape: [usize; 3],
    start: [Vec<f64>; 3],
    options: &Fu,
) -> Result<FuFit, Error> {
    check(entries, shape, &start, options)?;
    let (problem, mut factors, mut sweeps) = (Problem { entries, shape, options }, start, 0);
    let (mut weights, mut objective) = problem.weigh(&factors);
    while sweeps < options.most_sweeps {
        sweeps += 1;
        (0..3).for_each(|axis| problem.update(&mut factors, axis, &weights));
        problem.balance(&mut factors);
        let before = objective;
        (weights, objective) = problem.weigh(&factors);
        if before - objective <= options.tolerance * objective {
            break;
        }
    }
    Ok(FuFit { factors, objective, sweeps, weights })
}

fn check(entries: &[Entry], shape: [usize; 3], start: &[Vec<f64>; 3], options: &Fu) -> Result<(), Error> {
    let Fu { groups, p, eps, lambda, .. } = *options;
    let rules = [
        ("groups", groups as f64, groups > 0, "at least 1"),
        ("p", p, p > 0.0 && p <= 2.0, "above 0 and at most 2"),
        ("eps", eps, eps > 0.0 && eps.is_finite(), "above 0"),
        ("lambda", lambda, lambda >= 0.0 && lambda.is_finite(), "at least 0"),
    ];
    if let Some(&(name, value, _, rule)) = rules.iter().find(|rule| !rule.2) {
        return Err(Error::Parameter { name, value: value.to_string(), rule: rule.into() });
    }
    for (factor, length) in start.iter().zip(shape) {
        let (got, expected) = (factor.len(), length * groups);
        if got != expected {
            return Err(Error::Length { what: "a factor to start at", got, expected });
        }
    }
    let outside = |(at, _): &Entry| at.iter().zip(shape).any(|(at, length)| *at >= length);
    if let Some(entry) = entries.iter().position(outside) {
        let ([feature, row, col], [features, rows, cols]) = (entries[entry].0, shape);
        return Err(Error::OutOfBounds { entry, feature, row, col, shape: Shape { features, rows, cols } });
    }
    Ok(())
}

/// Number of cycles over the columns of a factor: after one cycle, columns of a random start are still zero, and stay
/// zero.
const CYCLES: usize = 10;

struct Problem<'p> {
    entries: &'p [Entry],
    shape: [usize; 3],
    options: &'p Fu,
}

impl Problem<'_> {
    /// Returns M = Z_(axis) (F . G) for the other two factors F and G, where each entry has the weight of its slab.
    fn along(&self, factors: &[Vec<f64>; 3], axis: usize, weights: &[f64]) -> Vec<f64> {
        let (f, g) = ((axis + 1) % 3, (axis + 2) % 3);
        let mut along = vec![0.0; factors[axis].len()];
        for (i, along) in along.chunks_exact_mut(self.shape[axis]).enumerate() {
            let (of_f, of_g) = (&factors[f][i * self.shape[f]..], &factors[g][i * self.shape[g]..]);
            for (at, z) in self.entries {
                along[at[axis]] += weights[at[2]] * z * of_f[at[f]] * of_g[at[g]];
            }
        }
        along
    }

    /// Returns V = F'F * G'G, with C'WC in place of C'C.
    fn gram(&self, factors: &[Vec<f64>; 3], axis: usize, weights: &[f64]) -> Vec<f64> {
        let m = self.options.groups;
        let mut product = vec![1.0; m * m];
        for other in (0..3).filter(|other| *other != axis) {
            let mut right = factors[other].clone();
            if other == 2 {
                right.iter_mut().zip(weights.iter().cycle()).for_each(|(c, w)| *c *= w);
            }
            let mut gram = vec![0.0; m * m];
            transposed_product(&mut gram, &factors[other], &right, self.shape[other]);
            product.iter_mut().zip(gram).for_each(|(v, gram)| *v *= gram);
        }
        product
    }

    fn update(&self, factors: &mut [Vec<f64>; 3], axis: usize, weights: &[f64]) {
        let (n, m, lambda) = (self.shape[axis], self.options.groups, self.options.lambda);
        let (along, v) = (self.along(factors, axis, weights), self.gram(factors, axis, weights));
        let (l1, ridge) = if self.options.sparse[axis] { (lambda / 2.0, 0.0) } else { (0.0, lambda) };
        let factor = &mut factors[axis];
        for i in (0..CYCLES).flat_map(|_| 0..m) {
            for at in 0..n {
                // A row of C belongs to one slab, whose weight V does not have.
                let weight = if axis == 2 { weights[at] } else { 1.0 };
                let others: f64 = (0..m).filter(|j| *j != i).map(|j| factor[j * n + at] * v[j * m + i]).sum();
                let (slope, curvature) =
                    (along[i * n + at] - weight * others - l1, weight * v[i * m + i] + ridge);
                // Without curvature the other two factors are zero, and this one has no use.
                factor[i * n + at] = if curvature > 0.0 { (slope / curvature).max(0.0) } else { 0.0 };
            }
        }
    }

    /// Moves scale between the factors of a group to where the penalties P are least: degree times P is then the same
    /// for all three. The updates alone would take thousands of sweeps to get there.
    fn balance(&self, factors: &mut [Vec<f64>; 3]) {
        let degrees = self.options.sparse.map(|sparse| if sparse { 1.0 } else { 2.0 });
        let mean = |x: [f64; 3]| x.iter().zip(degrees).map(|(x, degree)| x / degree).sum::<f64>();
        for i in 0..self.options.groups {
            let column = |axis: usize| i * self.shape[axis]..(i + 1) * self.shape[axis];
            let slopes =
                [0, 1, 2].map(|axis| degrees[axis] * self.penalty(&factors[axis][column(axis)], axis));
            if slopes.iter().all(|slope| slope.is_normal()) {
                let common = mean(slopes.map(f64::ln)) / mean([1.0; 3]);
                for axis in 0..3 {
                    let scale = ((common - slopes[axis].ln()) / degrees[axis]).exp();
                    factors[axis][column(axis)].iter_mut().for_each(|x| *x *= scale);
                }
            }
        }
    }

    fn penalty(&self, values: &[f64], axis: usize) -> f64 {
        if self.options.sparse[axis] { values.iter().map(|x| x.abs()).sum() } else { dot(values, values) }
    }

    /// Returns the weights of the slabs and the objective.
    fn weigh(&self, factors: &[Vec<f64>; 3]) -> (Vec<f64>, f64) {
        let (slabs, m, Fu { p, eps, lambda, .. }) = (self.shape[2], self.options.groups, *self.options);
        let ones = vec![1.0; slabs];
        let (along, v) = (self.along(factors, 2, &ones), self.gram(factors, 2, &ones));
        // |Z_k - A diag(c_k) B'|^2 = |Z_k|^2 - 2 <M_k, c_k> + c_k' V c_k.
        let mut residuals = vec![0.0; slabs];
        self.entries.iter().for_each(|(at, z)| residuals[at[2]] += z * z);
        for (k, residual) in residuals.iter_mut().enumerate() {
            let c = |i: usize| factors[2][i * slabs + k];
            for i in 0..m {
                let model: f64 = (0..m).map(|j| v[j * m + i] * c(j)).sum();
                *residual += c(i) * (model - 2.0 * along[i * slabs + k]);
            }
            *residual = residual.max(0.0) + eps;
        }
        let fit: f64 = residuals.iter().map(|residual| residual.powf(p / 2.0)).sum();
        let penalties: f64 = (0..3).map(|axis| self.penalty(&factors[axis], axis)).sum();
        let weights = residuals.iter().map(|residual| p / 2.0 * residual.powf(p / 2.0 - 1.0)).collect();
        (weights, fit + lambda * penalties)
    }
}
