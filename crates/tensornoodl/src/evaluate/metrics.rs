//! How near a result is to the truth, up to what no method can know: the order of the patterns,
//! their signs, and the scale shared between row and col factors (assumption:scale).

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
use crate::parallel::team::{Solo, Team, get, put};
use crate::untangle::factors::Factors;

/// Which found pattern stands for which true one, and with which sign.
#[derive(Debug, Clone, PartialEq)]
pub struct Matching {
    /// For every true pattern the found one; none where there are fewer of them.
    pub found: Vec<Option<usize>>,
    /// For every true pattern the sign, 1 or -1, that its found one needs.
    pub sign: Vec<f64>,
}

impl Matching {
    /// The assignment with the largest sum of |cos| between true and found patterns, of which there may be
    /// more or fewer.
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

        // If the patterns nearest to those of the smaller dictionary are all different, no other assignment
        // can be better.
        let swapped = count < m;
        let (few, many) = if swapped { (count, m) } else { (m, count) };
        let size = |few: usize, many: usize| {
            if swapped { cosine(many, few).abs() } else { cosine(few, many).abs() }
        };
        let nearest: Vec<usize> = (0..few)
            .map(|i| (0..many).max_by(|&a, &b| size(i, a).total_cmp(&size(i, b))).unwrap_or(i))
            .collect();
        let mut taken = vec![false; many];
        let distinct = nearest.iter().all(|&other| !std::mem::replace(&mut taken[other], true));
        let assignment = if distinct {
            nearest
        } else {
            let weights =
                Matrix::from_fn(few, many, |(i, other)| (size(i, other) * (1u64 << 40) as f64) as i64);
            kuhn_munkres(&weights).1
        };
        let mut matched = vec![None; m];
        for (i, &other) in assignment.iter().enumerate() {
            let (truth, found) = if swapped { (other, i) } else { (i, other) };
            matched[truth] = Some(found);
        }
        let sign = |(i, found): (usize, &Option<usize>)| found.map_or(1.0, |found| cosine(i, found).signum());
        let sign = matched.iter().enumerate().map(sign).collect();
        Ok(Matching { found: matched, sign })
    }

    /// For every found pattern the true one and the sign; those that stand for none get numbers of their own.
    fn inverse(&self, found: usize) -> Vec<(u32, f64)> {
        let m = self.found.len();
        let mut inverse: Vec<(u32, f64)> = (0..found).map(|i| ((m + i) as u32, 1.0)).collect();
        for (truth, (found, &sign)) in self.found.iter().zip(&self.sign).enumerate() {
            found.iter().for_each(|&found| inverse[found] = (truth as u32, sign));
        }
        inverse
    }

    /// The differences sign A_found - A*, n x m; -A* where there is none.
    fn differences(&self, found: &Dictionary, truth: &Dictionary) -> Vec<f64> {
        let mut differences: Vec<f64> = truth.values().iter().map(|a| -a).collect();
        let columns = differences.chunks_exact_mut(truth.features());
        for (column, (i, &sign)) in columns.zip(self.found.iter().zip(&self.sign)) {
            i.iter().for_each(|&i| add_scaled(column, sign, found.pattern(i)));
        }
        differences
    }

    /// |A - A*|_F / |A*|_F.
    pub fn error_a(&self, found: &Dictionary, truth: &Dictionary) -> f64 {
        let differences = self.differences(found, truth);
        (dot(&differences, &differences) / truth.patterns() as f64).sqrt()
    }

    /// The distance of every true pattern from its found one, 1 where there is none.
    pub fn distances(&self, found: &Dictionary, truth: &Dictionary) -> Vec<f64> {
        let differences = self.differences(found, truth);
        differences.chunks_exact(truth.features()).map(|d| dot(d, d).sqrt()).collect()
    }

    /// The smallest (epsilon, kappa) for which A is (epsilon, kappa)-close to A* (def:del_kappa):
    /// the largest distance of a column, and |A - A*| / |A*| in the spectral norm.
    pub fn closeness(&self, found: &Dictionary, truth: &Dictionary) -> (f64, f64) {
        let n = truth.features();
        let differences = self.differences(found, truth);
        let epsilon = self.distances(found, truth).into_iter().fold(0.0, f64::max);
        let kappa = largest_singular_value(&differences, n) / largest_singular_value(truth.values(), n);
        (epsilon, kappa)
    }

    /// |X - X*|_F / |X*|_F.
    ///
    /// # Panics
    /// If the codes are not of the same fibers.
    pub fn error_x(&self, found: &Codes, truth: &Codes) -> f64 {
        self.errors_x(&Solo, found, truth).0
    }

    /// The same, and whether signs and support are right, of codes that the ranks of a team have some each of.
    pub(crate) fn errors_x(&self, team: &dyn Team, found: &Codes, truth: &Codes) -> (f64, bool) {
        let (mut error, mut energy) = (ExactSum::default(), ExactSum::default());
        self.compare(found, truth, |x, true_x| {
            error.add((x - true_x) * (x - true_x));
            energy.add(true_x * true_x);
        });
        let mut own = Vec::new();
        [error, energy].iter().flat_map(ExactSum::to_words).for_each(|word| put(&mut own, word));
        put(&mut own, u64::from(self.same_support(found, truth)));
        let (mut error, mut energy, mut support) = (ExactSum::default(), ExactSum::default(), true);
        for parcel in team.gather(own) {
            let words = &mut &parcel[..];
            [&mut error, &mut energy]
                .into_iter()
                .for_each(|sum| sum.merge(&ExactSum::from_words(std::array::from_fn(|_| get(words)))));
            support &= get(words) == 1;
        }
        (relative(error.get(), energy.get()), support)
    }

    /// Whether the found codes have the signs and the support of the true ones (def:signed-support).
    ///
    /// # Panics
    /// If the codes are not of the same fibers.
    pub fn same_support(&self, found: &Codes, truth: &Codes) -> bool {
        let mut same = true;
        let sign = |x: f64| if x == 0.0 { 0.0 } else { x.signum() };
        self.compare(found, truth, |x, true_x| same &= sign(x) == sign(true_x));
        same
    }

    /// Calls `each(x, true x)` for every entry that is not zero in both.
    fn compare(&self, found: &Codes, truth: &Codes, mut each: impl FnMut(f64, f64)) {
        assert_eq!(found.places(), truth.places(), "codes of the same fibers");
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

    /// Relative Frobenius errors of B and C, each column scaled to fit best.
    ///
    /// A pattern whose true B or C column is zero shows in no fiber; nothing can be known of the
    /// other column, and it is left out.
    ///
    /// # Panics
    /// If there is not one column of each factor per matched pattern.
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
}

/// Calls `each(a, b)` for every row in which one of two sparse columns is not zero.
fn merge(mut a: &[(u32, f64)], mut b: &[(u32, f64)], each: &mut impl FnMut(f64, f64)) {
    while let (Some(&(row_a, x)), Some(&(row_b, y))) = (a.first(), b.first()) {
        each(if row_a <= row_b { x } else { 0.0 }, if row_b <= row_a { y } else { 0.0 });
        a = &a[usize::from(row_a <= row_b)..];
        b = &b[usize::from(row_b <= row_a)..];
    }
    a.iter().for_each(|&(_, x)| each(x, 0.0));
    b.iter().for_each(|&(_, y)| each(0.0, y));
}

/// The sums over all ranks, in their order.
fn sum(team: &dyn Team, numbers: &mut [f64]) {
    if team.size() > 1 {
        let own = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        numbers.fill(0.0);
        for parcel in team.gather(own) {
            let theirs = parcel.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes));
            numbers.iter_mut().zip(theirs).for_each(|(sum, number)| *sum += number);
        }
    }
}

/// The square root of a ratio of energies; an error against nothing is 0 if there is none.
fn relative(error: f64, energy: f64) -> f64 {
    if error == 0.0 { 0.0 } else { (error / energy).sqrt() }
}

/// The dictionary of one who knows the true codes: least squares over all tensors so far, the
/// yardstick for learning from noisy fibers.
#[derive(Debug, Clone)]
pub struct Oracle {
    features: usize,
    /// Y X' (n x m).
    moment: Vec<f64>,
    /// X X' (m x m).
    second: Vec<f64>,
}

impl Oracle {
    /// An oracle that has seen nothing.
    pub fn new(features: usize, patterns: usize) -> Oracle {
        Oracle { features, moment: vec![0.0; features * patterns], second: vec![0.0; patterns * patterns] }
    }

    /// Adds a tensor and its true codes.
    ///
    /// # Panics
    /// If they do not have the features and patterns the oracle was made for.
    pub fn add(&mut self, tensor: &Tensor<'_>, true_codes: &Codes) {
        let (n, m) = (self.features, true_codes.matrix().rows());
        assert_eq!(
            (tensor.shape().features, n * m),
            (n, self.moment.len()),
            "features and patterns of the oracle"
        );
        for (fiber, code) in true_codes.matrix().columns().enumerate() {
            for &(i, x) in code {
                let i = i as usize;
                add_scaled(&mut self.moment[i * n..(i + 1) * n], x, tensor.fiber(fiber));
                code.iter().for_each(|&(l, x_l)| self.second[i * m + l as usize] += x * x_l);
            }
        }
    }

    /// Y X' (X X')^-1 with unit columns; none while a pattern has not been seen.
    pub fn dictionary(&self) -> Option<Dictionary> {
        self.dictionary_of(&Solo)
    }

    /// The same for what all ranks of a team have seen.
    pub(crate) fn dictionary_of(&self, team: &dyn Team) -> Option<Dictionary> {
        let m = self.moment.len() / self.features.max(1);
        let (mut values, mut second) = (self.moment.clone(), self.second.clone());
        sum(team, &mut values);
        sum(team, &mut second);
        Cholesky::new(second, m)?.solve_from_right(&mut values);
        Dictionary::from_columns(self.features, values).ok()
    }
}
