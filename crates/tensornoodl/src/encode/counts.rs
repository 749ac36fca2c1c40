//! Stage I for counts: sparse codes of fibers that count events.
//!
//! ```text
//! y_f ~ Poisson(l_f),  l = A x    the N events of a fiber; A_fi >= 0 is the share of feature f in pattern i, x_i >= 0
//! x_i <- (a + x_i sum_f A_fi y_f / l_f) / (a / (N w_i) + 1)         expectation-maximization
//! ```
//!
//! This is stage I with the Kullback-Leibler divergence in the place of squares. Each event is divided among the
//! patterns in proportion to A_fi x_i, and a code is the number of events that a pattern gets. The prior has the weight of
//! `a` events: without any evidence, pattern i has its usual share w_i of the events of a fiber. Where fibers of the same
//! row and col are known from earlier steps, w_i is the share that they lead to expect ([`PlaceShares`]): a place with a
//! few events borrows from its row and col.
//!
//! These soft codes have an entry for every pattern. The sparse code keeps a pattern only if leaving it out makes the
//! fiber significantly less likely ([`SIGNIFICANCE`]): the counterpart of the hard threshold. The problem is concave, so
//! the result does not depend on a start.

use std::collections::BTreeMap;

use crate::data::dictionary::Dictionary;
use crate::linalg::vector::with_simd;
use crate::shape::Place;

/// The significance of all decisions of the counts model, in standard errors: whether a pattern stays in a code, how many
/// patterns there are, whether a table is damped.
pub(crate) const SIGNIFICANCE: f64 = 2.5;

/// Weight of the prior of a code, in events, where the shares of the patterns are those of all fibers.
pub(crate) const PRIOR_CODE: f64 = 0.1;

/// Weight of the prior of a code, in events, where the shares of the patterns are those of the row and the col.
const PRIOR_PLACE: f64 = 0.5;

/// Maximum number of iterations for the soft code of a fiber.
const MAX_ITERATIONS: usize = 100;

/// A soft code has settled if no entry changes by more than this share of the events of the fiber.
const SETTLED: f64 = 1e-5;

/// Iterations of a code after one of its patterns was left out.
const REFIT_ITERATIONS: usize = 12;

/// Entries of a soft code below this share of the events are left out without a test.
const NEGLIGIBLE: f64 = 1e-3;

/// Number of lanes that rows are padded to, so that loops over patterns fill vector registers.
const LANES: usize = 4;

/// A, stored by features: row f has the share of feature f in every pattern. Rows are padded with zeros.
#[derive(Debug, Clone)]
pub(crate) struct FeatureRows {
    patterns: usize,
    stride: usize,
    values: Vec<f64>,
}

impl FeatureRows {
    /// Rows of zeros for n features and this many patterns.
    pub(crate) fn new(features: usize, patterns: usize) -> FeatureRows {
        let stride = patterns.next_multiple_of(LANES).max(LANES);
        FeatureRows { patterns, stride, values: vec![0.0; features * stride] }
    }

    /// The rows of a dictionary.
    pub(crate) fn of(dictionary: &Dictionary) -> FeatureRows {
        FeatureRows::from_columns(dictionary.features(), dictionary.values())
    }

    /// The rows of a matrix that is given column by column, with n values in each.
    pub(crate) fn from_columns(features: usize, columns: &[f64]) -> FeatureRows {
        let mut rows = FeatureRows::new(features, columns.len() / features);
        for (i, column) in columns.chunks_exact(features).enumerate() {
            column.iter().enumerate().for_each(|(f, value)| rows.values[f * rows.stride + i] = *value);
        }
        rows
    }

    /// The matrix, column by column.
    pub(crate) fn columns(&self) -> Vec<f64> {
        let column = |i: usize| self.values.chunks_exact(self.stride).map(move |row| row[i]);
        (0..self.patterns).flat_map(column).collect()
    }

    /// m, the number of patterns.
    pub(crate) fn patterns(&self) -> usize {
        self.patterns
    }

    /// The length of a row, with padding.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// One row, with padding.
    #[inline(always)]
    pub(crate) fn row(&self, feature: usize) -> &[f64] {
        &self.values[feature * self.stride..][..self.stride]
    }

    /// One row, with padding, to be changed.
    #[inline(always)]
    pub(crate) fn row_mut(&mut self, feature: usize) -> &mut [f64] {
        &mut self.values[feature * self.stride..][..self.stride]
    }
}

/// Returns the inner product of two padded rows, in a fixed order.
#[inline(always)]
pub(crate) fn expected(row: &[f64], code: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    for (a, x) in row.chunks_exact(LANES).zip(code.chunks_exact(LANES)) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * x[lane];
        }
    }
    (sums[0] + sums[2]) + (sums[1] + sums[3])
}

/// The smallest expected number of events, so that no ratio overflows.
pub(crate) const LEAST: f64 = 1e-300;

/// Adds r a to `sum`, row by row of the same length.
#[inline(always)]
fn add_row(sum: &mut [f64], r: f64, row: &[f64]) {
    sum.iter_mut().zip(row).for_each(|(sum, a)| *sum += r * a);
}

/// Divides the events of a fiber among the patterns: `shares[i]` becomes sum_f A_fi y_f / l_f.
#[inline(always)]
pub(crate) fn divide_events(rows: &FeatureRows, fiber: &[(u32, f64)], code: &[f64], shares: &mut [f64]) {
    shares.fill(0.0);
    for &(feature, y) in fiber {
        let row = rows.row(feature as usize);
        let ratio = y / expected(row, code).max(LEAST);
        add_row(shares, ratio, row);
    }
}

/// Returns sum_f y_f ln l_f, for the events of a fiber.
pub(crate) fn log_likelihood(rows: &FeatureRows, fiber: &[(u32, f64)], code: &[f64]) -> f64 {
    let term = |&(feature, y): &(u32, f64)| y * expected(rows.row(feature as usize), code).max(LEAST).ln();
    fiber.iter().map(term).sum()
}

/// The shares of the patterns that the codes of earlier fibers lead to expect at a place.
///
/// If rows and cols take part in patterns independently of each other, the events of pattern i at row j and col k are in
/// proportion to r_ji c_ki / w_i, where r, c and w are the events of the pattern in the row, in the col and in all.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlaceShares {
    rows: BTreeMap<u32, Vec<f64>>,
    cols: BTreeMap<u32, Vec<f64>>,
}

impl PlaceShares {
    /// Adds the soft code of a fiber.
    pub(crate) fn add(&mut self, place: Place, code: &[f64]) {
        let add = |sums: &mut BTreeMap<u32, Vec<f64>>, index: u32| {
            let sums = sums.entry(index).or_insert_with(|| vec![0.0; code.len()]);
            sums.iter_mut().zip(code).for_each(|(sum, x)| *sum += x);
        };
        add(&mut self.rows, place.row);
        add(&mut self.cols, place.col);
    }

    /// The expected shares of the patterns at a place, padded, where `weights` are their shares in all events. None if
    /// neither the row nor the col is known.
    fn at(&self, place: Place, weights: &[f64]) -> Option<Vec<f64>> {
        let (row, col) = (self.rows.get(&place.row), self.cols.get(&place.col));
        if row.is_none() && col.is_none() {
            return None;
        }
        // One event with the usual shares is added to each row and col.
        let shares = |events: Option<&Vec<f64>>, i: usize| {
            let total = events.map_or(0.0, |events| events.iter().sum::<f64>());
            (events.map_or(0.0, |events| events[i]) + weights[i]) / (total + 1.0)
        };
        let product = |i: usize| shares(row, i) * shares(col, i) / weights[i];
        let mut products: Vec<f64> = (0..weights.len()).map(product).collect();
        let total: f64 = products.iter().sum();
        products.iter_mut().for_each(|share| *share = (*share / total).max(LEAST_SHARE));
        Some(products)
    }
}

/// The smallest share of a pattern that is expected anywhere.
const LEAST_SHARE: f64 = 1e-6;

/// Codes of fibers under one dictionary.
#[derive(Debug, Clone)]
pub(crate) struct CountCoder {
    rows: FeatureRows,
    /// The share of each pattern in all events, padded with zeros.
    weights: Vec<f64>,
    places: PlaceShares,
}

impl CountCoder {
    /// A coder for a dictionary whose patterns have these shares in all events.
    pub(crate) fn new(dictionary: &Dictionary, shares: &[f64]) -> CountCoder {
        let weights = shares.iter().map(|share| share.max(LEAST_SHARE)).collect();
        CountCoder { rows: FeatureRows::of(dictionary), weights, places: PlaceShares::default() }
    }

    /// The same coder, which expects at a place what fibers of the same row and col had before.
    pub(crate) fn expecting(self, places: PlaceShares) -> CountCoder {
        CountCoder { places, ..self }
    }

    /// A, stored by features.
    pub(crate) fn rows(&self) -> &FeatureRows {
        &self.rows
    }

    /// Returns the soft code of the fiber at a place, padded.
    pub(crate) fn soft(&self, place: Place, fiber: &[(u32, f64)]) -> Vec<f64> {
        let events: f64 = fiber.iter().map(|entry| entry.1).sum();
        let (m, stride) = (self.rows.patterns, self.rows.stride);
        let (weights, prior) = match self.places.at(place, &self.weights) {
            Some(weights) => (&weights.clone(), PRIOR_PLACE),
            None => (&self.weights, PRIOR_CODE),
        };
        let (mut code, mut shares) = (vec![0.0; stride], vec![0.0; stride]);
        code[..m].iter_mut().zip(weights).for_each(|(x, weight)| *x = events * weight);
        let rates: Vec<f64> = weights.iter().map(|weight| 1.0 + prior / (events * weight)).collect();
        with_simd(
            #[inline(always)]
            || {
                for _ in 0..MAX_ITERATIONS {
                    divide_events(&self.rows, fiber, &code, &mut shares);
                    let mut largest: f64 = 0.0;
                    for ((x, share), rate) in code[..m].iter_mut().zip(&shares).zip(&rates) {
                        let next = (prior + *x * share) / rate;
                        largest = largest.max((next - *x).abs());
                        *x = next;
                    }
                    if largest <= SETTLED * events {
                        break;
                    }
                }
            },
        );
        code
    }

    /// Returns the sparse code of a fiber, given its soft code: patterns are left out, the smallest first, as long as
    /// that does not make the fiber significantly less likely. At least one pattern stays, and the entries add up to the
    /// number of events.
    pub(crate) fn sparse(&self, fiber: &[(u32, f64)], soft: &[f64]) -> Vec<(u32, f64)> {
        let events: f64 = fiber.iter().map(|entry| entry.1).sum();
        let order = |code: &[f64]| (0..code.len()).max_by(|&i, &j| code[i].total_cmp(&code[j])).unwrap_or(0);
        let soft = &soft[..self.rows.patterns];
        let largest = order(soft);
        let kept = (0..soft.len()).filter(|&i| i == largest || soft[i] > NEGLIGIBLE * events);
        let mut code = Support::new(&self.rows, fiber, kept.collect(), soft);
        code.iterate(REFIT_ITERATIONS);
        let mut likelihood = code.log_likelihood();
        while code.patterns.len() > 1 {
            let smallest =
                (0..code.patterns.len()).min_by(|&i, &j| code.values[i].total_cmp(&code.values[j]));
            let mut fewer = code.without(smallest.unwrap_or(0));
            fewer.iterate(REFIT_ITERATIONS);
            let next = fewer.log_likelihood();
            if likelihood - next > SIGNIFICANCE * SIGNIFICANCE / 2.0 {
                break;
            }
            (code, likelihood) = (fewer, next);
        }
        let total: f64 = code.values.iter().sum();
        let entries = code.patterns.iter().zip(&code.values).map(|(&i, x)| (i as u32, x * events / total));
        entries.filter(|entry| entry.1 > 0.0).collect()
    }
}

/// The code of one fiber on some of the patterns, without a prior.
struct Support<'a> {
    fiber: &'a [(u32, f64)],
    /// Numbers of the patterns, increasing.
    patterns: Vec<usize>,
    /// The code of each pattern.
    values: Vec<f64>,
    /// A at the features of the fiber: for each of them, the share in each of the patterns.
    shares: Vec<f64>,
}

impl<'a> Support<'a> {
    fn new(rows: &FeatureRows, fiber: &'a [(u32, f64)], patterns: Vec<usize>, soft: &[f64]) -> Support<'a> {
        let values = patterns.iter().map(|&i| soft[i]).collect();
        let row = |&(feature, _): &(u32, f64)| {
            let row = rows.row(feature as usize);
            patterns.iter().map(|&i| row[i]).collect::<Vec<f64>>()
        };
        Support { fiber, shares: fiber.iter().flat_map(row).collect(), values, patterns }
    }

    /// The same code without one of its patterns, whose events go to the others in proportion.
    fn without(&self, at: usize) -> Support<'a> {
        let left_out = |values: &[f64]| -> Vec<f64> {
            let kept = values.iter().enumerate().filter(|(i, _)| i % self.patterns.len() != at);
            kept.map(|(_, value)| *value).collect()
        };
        let mut values = left_out(&self.values);
        let (total, kept): (f64, f64) = (self.values.iter().sum(), values.iter().sum());
        values.iter_mut().for_each(|x| *x *= if kept > 0.0 { total / kept } else { 0.0 });
        let mut patterns = self.patterns.clone();
        patterns.remove(at);
        Support { fiber: self.fiber, patterns, values, shares: left_out(&self.shares) }
    }

    /// Rows of `shares`, with the events of each.
    fn rows(&self) -> impl Iterator<Item = (&[f64], f64)> {
        self.shares.chunks_exact(self.patterns.len()).zip(self.fiber.iter().map(|entry| entry.1))
    }

    fn expected(&self, row: &[f64]) -> f64 {
        row.iter().zip(&self.values).map(|(a, x)| a * x).sum::<f64>().max(LEAST)
    }

    /// Runs this many iterations of expectation-maximization.
    fn iterate(&mut self, iterations: usize) {
        if let [x] = self.values.as_mut_slice() {
            *x = self.fiber.iter().map(|entry| entry.1).sum();
            return;
        }
        for _ in 0..iterations {
            let mut divided = vec![0.0; self.values.len()];
            for (row, y) in self.rows() {
                add_row(&mut divided, y / self.expected(row), row);
            }
            self.values.iter_mut().zip(divided).for_each(|(x, share)| *x *= share);
        }
    }

    /// sum_f y_f ln l_f minus the expected number of events.
    fn log_likelihood(&self) -> f64 {
        let terms = self.rows().map(|(row, y)| y * self.expected(row).ln());
        terms.sum::<f64>() - self.values.iter().sum::<f64>()
    }
}
