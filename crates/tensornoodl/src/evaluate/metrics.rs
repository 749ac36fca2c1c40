//! Errors of a learned factorization against the true one.
//!
//! Symbols: A (n x count), X, B and C are the learned dictionary, codes, row factor and col factor; A* (n x m), X*,
//! B* and C* are the true ones.
//!
//! Some properties of the truth cannot be known: the order of the patterns, their signs, and the scale shared between
//! the columns B_i and C_i (assumption:scale). [`Matching`] assigns learned patterns to true ones, with signs, and
//! all errors are measured after this assignment. [`Oracle`] is the dictionary that least squares with the true codes
//! gives, the best that can be expected from noisy fibers. [`CountOracle`] is its counterpart for counts.

use pathfinding::prelude::{Matrix, kuhn_munkres};

use crate::data::codes::Codes;
use crate::data::dictionary::Dictionary;
use crate::data::sparse::Sparse;
use crate::data::tensor::Tensor;
use crate::error::Error;
use crate::linalg::decompose::{Cholesky, largest_singular_value};
use crate::linalg::product::transposed_product;
use crate::linalg::vector::{add_scaled, dot};
use crate::parallel::exact_sum::ExactSum;
use crate::parallel::message::gather;
use crate::parallel::team::{Solo, Team};
use crate::untangle::factors::Factors;

/// The assignment of found patterns to true patterns, with signs.
#[derive(Debug, Clone, PartialEq)]
pub struct Matching {
    /// For every true pattern the index of the found pattern; `None` if fewer patterns were found.
    pub found: Vec<Option<usize>>,
    /// For every true pattern the sign, 1 or -1, by which the found pattern is multiplied.
    pub sign: Vec<f64>,
}

impl Matching {
    /// Finds the assignment with the largest sum of |cos| between true and found patterns. The numbers of patterns may
    /// differ.
    ///
    /// # Errors
    /// [`Error::Features`] if the dictionaries have different numbers of features.
    pub fn new(found: &Dictionary, truth: &Dictionary) -> Result<Matching, Error> {
        let n = truth.features();
        if found.features() != n {
            return Err(Error::Features { tensor: n, dictionary: found.features() });
        }
        let (m, count) = (truth.patterns(), found.patterns());
        let mut cosines = vec![0.0; m * count];
        if count > 0 {
            transposed_product(&mut cosines, found.values(), truth.values(), n);
        }
        let cosine = |truth: usize, found: usize| cosines[truth * count + found];

        let mut matched = vec![None; m];
        if count < m {
            let assignment = best_assignment(count, m, |found, truth| cosine(truth, found).abs());
            assignment.iter().enumerate().for_each(|(found, &truth)| matched[truth] = Some(found));
        } else {
            let assignment = best_assignment(m, count, |truth, found| cosine(truth, found).abs());
            matched = assignment.into_iter().map(Some).collect();
        }
        let sign = |(i, found): (usize, &Option<usize>)| found.map_or(1.0, |found| cosine(i, found).signum());
        let sign = matched.iter().enumerate().map(sign).collect();
        Ok(Matching { found: matched, sign })
    }

    /// For every found pattern the true pattern and the sign. Found patterns without a true one get the indices m, m
    /// + 1, ...
    fn inverse(&self, found: usize) -> Vec<(u32, f64)> {
        let m = self.found.len();
        let mut inverse: Vec<(u32, f64)> = (0..found).map(|i| ((m + i) as u32, 1.0)).collect();
        for (truth, (found, &sign)) in self.found.iter().zip(&self.sign).enumerate() {
            found.iter().for_each(|&found| inverse[found] = (truth as u32, sign));
        }
        inverse
    }

    /// The differences sign_i A_found(i) - A*_i (n x m); -A*_i if no pattern was found for i.
    fn differences(&self, found: &Dictionary, truth: &Dictionary) -> Vec<f64> {
        let mut differences: Vec<f64> = truth.values().iter().map(|a| -a).collect();
        let columns = differences.chunks_exact_mut(truth.features());
        for (column, (i, &sign)) in columns.zip(self.found.iter().zip(&self.sign)) {
            i.iter().for_each(|&i| add_scaled(column, sign, found.pattern(i)));
        }
        differences
    }

    /// The relative error of the dictionary, |A - A*|_F / |A*|_F.
    pub fn error_a(&self, found: &Dictionary, truth: &Dictionary) -> f64 {
        let differences = self.differences(found, truth);
        (dot(&differences, &differences) / truth.patterns() as f64).sqrt()
    }

    /// The distance of every true pattern from its found pattern; 1 if no pattern was found for it.
    pub fn distances(&self, found: &Dictionary, truth: &Dictionary) -> Vec<f64> {
        let differences = self.differences(found, truth);
        differences.chunks_exact(truth.features()).map(|d| dot(d, d).sqrt()).collect()
    }

    /// The smallest (epsilon, kappa) for which A is (epsilon, kappa)-close to A* (def:del_kappa): epsilon is the
    /// largest distance of a column, kappa is |A - A*| / |A*| in the spectral norm.
    pub fn closeness(&self, found: &Dictionary, truth: &Dictionary) -> (f64, f64) {
        let n = truth.features();
        let differences = self.differences(found, truth);
        let epsilon = self.distances(found, truth).into_iter().fold(0.0, f64::max);
        let kappa = largest_singular_value(&differences, n) / largest_singular_value(truth.values(), n);
        (epsilon, kappa)
    }

    /// The relative error of the codes, |X - X*|_F / |X*|_F.
    ///
    /// # Panics
    /// If the codes belong to different fibers.
    pub fn error_x(&self, found: &Codes, truth: &Codes) -> f64 {
        self.errors_x(&Solo, found, truth).0
    }

    /// The relative error of the codes over all ranks, and whether signs and support are right on every rank. Each rank
    /// has the codes of some fibers.
    pub(crate) fn errors_x(&self, team: &dyn Team, found: &Codes, truth: &Codes) -> (f64, bool) {
        let (mut error, mut energy) = (ExactSum::default(), ExactSum::default());
        self.compare(found, truth, |x, true_x| {
            error.add((x - true_x) * (x - true_x));
            energy.add(true_x * true_x);
        });
        let own = (error, energy, self.same_support(found, truth));
        let (mut error, mut energy, mut support) = (ExactSum::default(), ExactSum::default(), true);
        for (rank_error, rank_energy, rank_support) in gather(team, own) {
            error.merge(&rank_error);
            energy.merge(&rank_energy);
            support &= rank_support;
        }
        (relative(error.get(), energy.get()), support)
    }

    /// Returns whether the found codes have the signs and the support of the true codes (def:signed-support).
    ///
    /// # Panics
    /// If the codes belong to different fibers.
    pub fn same_support(&self, found: &Codes, truth: &Codes) -> bool {
        let mut same = true;
        let sign = |x: f64| if x == 0.0 { 0.0 } else { x.signum() };
        self.compare(found, truth, |x, true_x| same &= sign(x) == sign(true_x));
        same
    }

    /// Calls `each(x, true_x)` for every entry that is non-zero in the found or in the true codes.
    fn compare(&self, found: &Codes, truth: &Codes, mut each: impl FnMut(f64, f64)) {
        assert_eq!(found.places(), truth.places(), "both codes must belong to the same fibers");
        let inverse = self.inverse(found.matrix().rows());
        let mut aligned: Vec<(u32, f64)> = Vec::new();
        for (found, truth) in found.matrix().columns().zip(truth.matrix().columns()) {
            aligned.clear();
            aligned.extend(found.iter().map(|&(i, x)| {
                let (truth, sign) = inverse[i as usize];
                (truth, sign * x)
            }));
            aligned.sort_unstable_by_key(|entry| entry.0);
            merge(&aligned, truth, &mut each);
        }
    }

    /// The relative Frobenius errors of B and C, after every column is scaled to fit best.
    ///
    /// If the true B_i or C_i is zero, pattern i is in no fiber and the other column cannot be known. Such patterns
    /// are left out.
    ///
    /// # Panics
    /// If a factor does not have one column per pattern.
    pub fn error_b_c(&self, found: &Factors, true_rows: &Sparse, true_cols: &Sparse) -> (f64, f64) {
        let shown: Vec<usize> = (0..self.found.len())
            .filter(|&i| !true_rows.column(i).is_empty() && !true_cols.column(i).is_empty())
            .collect();
        let error = |found: &Sparse, truth: &Sparse| {
            let (mut error, mut energy) = (0.0, 0.0);
            for &i in &shown {
                let column = self.found[i].map_or(&[][..], |i| found.column(i));
                let true_column = truth.column(i);
                let (mut square, mut product, mut true_square) = (0.0, 0.0, 0.0);
                merge(column, true_column, &mut |x, true_x| {
                    square += x * x;
                    product += x * true_x;
                    true_square += true_x * true_x;
                });
                let scale = if square > 0.0 { product / square } else { 0.0 };
                merge(column, true_column, &mut |x, true_x| {
                    error += (scale * x - true_x) * (scale * x - true_x)
                });
                energy += true_square;
            }
            relative(error, energy)
        };
        (error(&found.rows, true_rows), error(&found.cols, true_cols))
    }

    /// Whether the supports of B and C are right, for the patterns for which [`Matching::error_b_c`] measures errors.
    ///
    /// # Panics
    /// If a factor does not have one column per pattern.
    pub fn same_supports_b_c(&self, found: &Factors, true_rows: &Sparse, true_cols: &Sparse) -> (bool, bool) {
        let same = |found: &Sparse, truth: &Sparse| {
            let shown = (0..self.found.len())
                .filter(|&i| !true_rows.column(i).is_empty() && !true_cols.column(i).is_empty());
            shown.into_iter().all(|i| {
                let column = self.found[i].map_or(&[][..], |at| found.column(at));
                column.iter().map(|entry| entry.0).eq(truth.column(i).iter().map(|entry| entry.0))
            })
        };
        (same(&found.rows, true_rows), same(&found.cols, true_cols))
    }

    /// For every fiber, whether its found code has the signs and the support of its true code.
    ///
    /// # Panics
    /// If the codes belong to different fibers.
    pub fn right_codes(&self, found: &Codes, truth: &Codes) -> Vec<bool> {
        assert_eq!(found.places(), truth.places(), "both codes must belong to the same fibers");
        let inverse = self.inverse(found.matrix().rows());
        let signs = |code: &[(u32, f64)]| code.iter().map(|&(i, x)| (i, x > 0.0)).collect::<Vec<_>>();
        let aligned = |code: &[(u32, f64)]| {
            let aligned = code.iter().map(|&(i, x)| (inverse[i as usize].0, inverse[i as usize].1 * x > 0.0));
            let mut aligned: Vec<(u32, bool)> = aligned.collect();
            aligned.sort_unstable();
            aligned
        };
        let columns = found.matrix().columns().zip(truth.matrix().columns());
        columns.map(|(found, truth)| aligned(found) == signs(truth)).collect()
    }
}

/// Returns how alike the patterns of two dictionaries are, from 0 to 1: the mean of |cos| between each pattern and the
/// most similar pattern of the other dictionary, over the patterns of both. 0 if only one of them has patterns, and 1 if
/// none has.
///
/// # Errors
/// [`Error::Features`] if the dictionaries have different numbers of features.
pub fn agreement(a: &Dictionary, b: &Dictionary) -> Result<f64, Error> {
    if a.features() != b.features() {
        return Err(Error::Features { tensor: a.features(), dictionary: b.features() });
    }
    let (of_a, of_b) = (a.patterns(), b.patterns());
    if of_a == 0 || of_b == 0 {
        return Ok(if of_a == of_b { 1.0 } else { 0.0 });
    }
    let (a, b) = (a.with_unit_lengths(), b.with_unit_lengths());
    let mut cosines = vec![0.0; of_a * of_b];
    transposed_product(&mut cosines, b.values(), a.values(), a.features());
    // Rounding may bring the cosine of equal patterns above 1.
    let cosine = |i: usize, l: usize| cosines[i * of_b + l].abs().min(1.0);
    let nearest_to_a = (0..of_a).map(|i| (0..of_b).map(|l| cosine(i, l)).fold(0.0, f64::max));
    let nearest_to_b = (0..of_b).map(|l| (0..of_a).map(|i| cosine(i, l)).fold(0.0, f64::max));
    Ok(nearest_to_a.chain(nearest_to_b).sum::<f64>() / (of_a + of_b) as f64)
}

/// Assigns a different one of `many` objects to each of `few` objects, so that the sum of `similarity(few, many)` is as
/// large as possible.
fn best_assignment(few: usize, many: usize, similarity: impl Fn(usize, usize) -> f64) -> Vec<usize> {
    let nearest: Vec<usize> = (0..few)
        .map(|i| (0..many).max_by(|&a, &b| similarity(i, a).total_cmp(&similarity(i, b))).unwrap_or(i))
        .collect();
    // If the nearest objects are all different, no assignment is better.
    let mut taken = vec![false; many];
    if nearest.iter().all(|&other| !std::mem::replace(&mut taken[other], true)) {
        return nearest;
    }
    let weights =
        Matrix::from_fn(few, many, |(i, other)| (similarity(i, other) * (1u64 << 40) as f64) as i64);
    kuhn_munkres(&weights).1
}

/// Calls `each(a, b)` for every row in which one of two sparse columns is non-zero.
fn merge(mut a: &[(u32, f64)], mut b: &[(u32, f64)], each: &mut impl FnMut(f64, f64)) {
    while let (Some(&(row_a, x)), Some(&(row_b, y))) = (a.first(), b.first()) {
        each(if row_a <= row_b { x } else { 0.0 }, if row_b <= row_a { y } else { 0.0 });
        a = &a[usize::from(row_a <= row_b)..];
        b = &b[usize::from(row_b <= row_a)..];
    }
    a.iter().for_each(|&(_, x)| each(x, 0.0));
    b.iter().for_each(|&(_, y)| each(0.0, y));
}

/// Replaces every number by the sum over all ranks, added in the order of the ranks.
fn sum(team: &dyn Team, numbers: &mut [f64]) {
    if team.size() > 1 {
        let of_ranks = gather(team, numbers.to_vec());
        numbers.fill(0.0);
        for of_rank in of_ranks {
            numbers.iter_mut().zip(of_rank).for_each(|(sum, number)| *sum += number);
        }
    }
}

/// Returns sqrt(error / energy); 0 if both are 0.
fn relative(error: f64, energy: f64) -> f64 {
    if error == 0.0 { 0.0 } else { (error / energy).sqrt() }
}

/// Least squares with the true codes over all tensors so far: the reference for learning from noisy fibers.
#[derive(Debug, Clone)]
pub struct Oracle {
    features: usize,
    /// Y X*' (n x m).
    cross_moment: Vec<f64>,
    /// X* X*' (m x m).
    second_moment: Vec<f64>,
}

impl Oracle {
    /// An oracle that has seen no tensor.
    pub fn new(features: usize, patterns: usize) -> Oracle {
        Oracle {
            features,
            cross_moment: vec![0.0; features * patterns],
            second_moment: vec![0.0; patterns * patterns],
        }
    }

    /// Adds a tensor and its true codes.
    ///
    /// # Panics
    /// If the tensor or the codes do not have the features and patterns that the oracle was made for.
    pub fn add(&mut self, tensor: &Tensor<'_>, true_codes: &Codes) {
        let (n, m) = (self.features, true_codes.matrix().rows());
        assert_eq!(
            (tensor.shape().features, n * m),
            (n, self.cross_moment.len()),
            "tensor and codes must have the features and patterns of the oracle"
        );
        for (fiber, code) in true_codes.matrix().columns().enumerate() {
            for &(i, x) in code {
                let i = i as usize;
                add_scaled(&mut self.cross_moment[i * n..(i + 1) * n], x, tensor.fiber(fiber));
                code.iter().for_each(|&(l, x_l)| self.second_moment[i * m + l as usize] += x * x_l);
            }
        }
    }

    /// The dictionary Y X*' (X* X*')^-1 with unit columns; `None` if X* X*' is singular, for example because a
    /// pattern has not been seen.
    pub fn dictionary(&self) -> Option<Dictionary> {
        self.dictionary_of(&Solo)
    }

    /// The dictionary over the tensors of all ranks; `None` if X* X*' is singular.
    pub(crate) fn dictionary_of(&self, team: &dyn Team) -> Option<Dictionary> {
        let m = self.cross_moment.len() / self.features.max(1);
        let (mut values, mut second) = (self.cross_moment.clone(), self.second_moment.clone());
        sum(team, &mut values);
        sum(team, &mut second);
        Cholesky::new(second, m)?.solve_from_right(&mut values);
        Dictionary::from_columns(self.features, values).ok()
    }
}

/// Maximum likelihood with the true supports of the codes over all tensors so far: the reference for learning from
/// counts. Both A and the values of the codes are fitted, by expectation-maximization.
#[derive(Debug, Clone)]
pub struct CountOracle {
    features: usize,
    /// The fibers of all tensors.
    fibers: Sparse,
    /// For every fiber, the patterns of its true code.
    supports: Vec<Vec<u32>>,
    patterns: usize,
}

impl CountOracle {
    /// Iterations end when A changes by less than this, relative to its size.
    const SETTLED: f64 = 1e-6;

    /// Maximum number of iterations.
    const MAX_ITERATIONS: usize = 5000;

    /// An oracle that has seen no tensor.
    pub fn new(features: usize, patterns: usize) -> CountOracle {
        CountOracle { features, fibers: Sparse::new(features), supports: Vec::new(), patterns }
    }

    /// Adds a tensor and the supports of its true codes. The values of the true codes are not used.
    ///
    /// # Panics
    /// If the tensor or the codes do not have the features and patterns that the oracle was made for.
    pub fn add(&mut self, tensor: &Tensor<'_>, true_codes: &Codes) {
        assert_eq!(
            (tensor.shape().features, true_codes.matrix().rows()),
            (self.features, self.patterns),
            "tensor and codes must have the features and patterns of the oracle"
        );
        for (at, code) in true_codes.matrix().columns().enumerate() {
            self.fibers.push(&tensor.entries(at).collect::<Vec<_>>());
            self.supports.push(code.iter().map(|entry| entry.0).collect());
        }
    }

    /// Fits A and the codes to all tensors so far. Columns of A add up to 1. `None` if a pattern has not been seen.
    pub fn dictionary(&self) -> Option<Dictionary> {
        // The first iteration divides the events of a fiber equally among the patterns of its support.
        let mut shares = vec![1.0 / self.features as f64; self.features * self.patterns];
        let equal = |(fiber, support): (&[(u32, f64)], &Vec<u32>)| {
            let events: f64 = fiber.iter().map(|entry| entry.1).sum();
            support.iter().map(|&i| (i, events / support.len() as f64)).collect()
        };
        let mut codes: Vec<Vec<(u32, f64)>> = self.fibers.columns().zip(&self.supports).map(equal).collect();
        for _ in 0..Self::MAX_ITERATIONS {
            let next = self.iterate(&shares, &mut codes)?;
            let change: f64 = next.iter().zip(&shares).map(|(a, b)| (a - b) * (a - b)).sum();
            shares = next;
            if change <= Self::SETTLED * Self::SETTLED * dot(&shares, &shares) {
                break;
            }
        }
        Some(Dictionary::with_unit_sums(self.features, shares))
    }

    /// One iteration: x_i <- x_i sum_f A_fi y_f / l_f for every fiber, and A_fi <- sum of A_fi x_i y_f / l_f over all
    /// fibers, with columns scaled to sum 1. `None` if a column is zero.
    fn iterate(&self, shares: &[f64], codes: &mut [Vec<(u32, f64)>]) -> Option<Vec<f64>> {
        let n = self.features;
        let mut sums = vec![0.0; shares.len()];
        for (fiber, code) in self.fibers.columns().zip(codes) {
            let mut next = vec![0.0; code.len()];
            for &(feature, y) in fiber {
                let at = |i: u32| i as usize * n + feature as usize;
                let expected: f64 = code.iter().map(|&(i, x)| shares[at(i)] * x).sum();
                if expected > 0.0 {
                    for (&(i, x), next) in code.iter().zip(&mut next) {
                        let events = shares[at(i)] * x * y / expected;
                        *next += events;
                        sums[at(i)] += events;
                    }
                }
            }
            code.iter_mut().zip(next).for_each(|(entry, next)| entry.1 = next);
        }
        for column in sums.chunks_exact_mut(n) {
            let total: f64 = column.iter().sum();
            if total <= 0.0 {
                return None;
            }
            column.iter_mut().for_each(|a| *a /= total);
        }
        Some(sums)
    }
}
