//! Stage I for counts: sparse codes of fibers that count events.
//!
//! ```text
//! y_f ~ Poisson(l_f),  l = A x    the N events of a fiber; A_fi >= 0 is the share of feature f in pattern i, x_i >= 0
//! x_i <- x_i sum_f A_fi y_f / l_f    expectation-maximization, over the patterns i of a support
//! p ~ w exp(log-likelihood of y - c (size of the support - 1))    the probability of a support
//!     c = z^2 / 2 + ln(N) / 2; w: the mean over the code of the usual shares w_i of its patterns; z: SIGNIFICANCE
//! ```
//!
//! This is stage I with the Kullback-Leibler divergence in the place of squares. Each event is divided among the
//! patterns in proportion to A_fi x_i, and a code is the number of events that a pattern gets.
//!
//! Which patterns a fiber has is not known. Many supports may explain it, and each further pattern must explain more than
//! chance does: the counterpart of the hard threshold. The code of a fiber is the one on its most probable support. Stage
//! III learns from all of them, each with its probability. A code on all patterns would not do: it gives some events of
//! every fiber to patterns that the fiber does not have, and then more fibers do not make A better.
//!
//! The usual shares w_i are those of all fibers. Where fibers of the same row and col are known from earlier steps, half
//! of them is what these lead to expect ([`PlaceShares`]): a place with a few events borrows from its row and col.

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
const MAX_ITERATIONS: usize = 30;

/// A soft code has settled if no entry changes by more than this share of the events of the fiber.
const SETTLED: f64 = 1e-3;

/// Iterations of a code after one of its patterns was left out.
const REFIT_ITERATIONS: usize = 12;

/// Patterns with fewer events than this in the soft code are in no support of several patterns. Leaving such a
/// pattern out changes the log-likelihood by less than its cost.
const LEAST_EVENTS: f64 = 0.5;

/// Supports that are less probable than the best one by this factor, as a logarithm, are left out.
const IMPROBABLE: f64 = 7.0;

/// The part of the usual shares at a place that its row and col determine.
const PLACE_PART: f64 = 0.5;

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

/// The shares of the patterns that the codes of earlier fibers lead to expect at a place (counts:place).
///
/// If rows and cols take part in patterns independently of each other, the events of pattern i at row j and col k
/// are in proportion to r_ji c_ki / w_i, where r, c and w are the events of the pattern in the row, in the col and
/// in all.
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

    /// The expected shares of the patterns at a place, where `weights` are their shares in all events. None if
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
    /// The logarithms of `rows`.
    logarithms: FeatureRows,
    /// The share of each pattern in all events, padded with zeros.
    weights: Vec<f64>,
    places: PlaceShares,
    /// The number of events above which a fiber is an outlier.
    far: f64,
}

impl CountCoder {
    /// A coder for a dictionary whose patterns have these shares in all events.
    pub(crate) fn new(dictionary: &Dictionary, shares: &[f64]) -> CountCoder {
        let weights = shares.iter().map(|share| share.max(LEAST_SHARE)).collect();
        let rows = FeatureRows::of(dictionary);
        let mut logarithms = rows.clone();
        logarithms.values.iter_mut().for_each(|value| *value = value.max(LEAST).ln());
        CountCoder { rows, logarithms, weights, places: PlaceShares::default(), far: f64::INFINITY }
    }

    /// Makes this coder expect at a place what earlier fibers of its row and col had.
    pub(crate) fn expecting(self, places: PlaceShares) -> CountCoder {
        CountCoder { places, ..self }
    }

    /// Makes fibers with more events than this outliers.
    pub(crate) fn with_outliers_above(self, far: f64) -> CountCoder {
        CountCoder { far, ..self }
    }

    /// The weight of a fiber: that of an outlier is as large as if it had as many events as the largest other fibers.
    pub(crate) fn weight(&self, fiber: &[(u32, f64)]) -> f64 {
        (self.far / fiber.iter().map(|entry| entry.1).sum::<f64>()).min(1.0)
    }

    /// A, stored by features.
    pub(crate) fn rows(&self) -> &FeatureRows {
        &self.rows
    }

    /// The usual shares of the patterns at a place, and the weight of the prior that has them, in events.
    fn usual(&self, place: Place) -> (Vec<f64>, f64) {
        let mix = |(own, all): (f64, &f64)| PLACE_PART * own + (1.0 - PLACE_PART) * all;
        match self.places.at(place, &self.weights) {
            Some(own) => (own.into_iter().zip(&self.weights).map(mix).collect(), PRIOR_PLACE),
            None => (self.weights.clone(), PRIOR_CODE),
        }
    }

    /// Returns the soft code of the fiber at a place, padded: a code on all patterns, with a prior of the usual shares
    /// (counts:soft).
    ///
    /// ```text
    /// x_i <- (a + x_i sum_f A_fi y_f / l_f) / (a / (N w_i) + 1)    a: the weight of the prior
    /// ```
    ///
    /// The problem is concave, so the result does not depend on a start.
    pub(crate) fn soft(&self, place: Place, fiber: &[(u32, f64)]) -> Vec<f64> {
        let (usual, prior) = self.usual(place);
        let events: f64 = fiber.iter().map(|entry| entry.1).sum();
        let (m, stride) = (self.rows.patterns, self.rows.stride);
        let (mut code, mut shares) = (vec![0.0; stride], vec![0.0; stride]);
        // From a start near zero, an entry would grow so slowly that it seems settled.
        code[..m].fill(events / m as f64);
        let rates: Vec<f64> = usual.iter().map(|share| 1.0 + prior / (events * share)).collect();
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

    /// Returns the codes of the fiber at a place on the supports that may explain it, the most probable one first: each
    /// pattern alone, and the patterns of the soft code, of which the smallest is left out again and again
    /// (counts:codes). Empty without patterns.
    pub(crate) fn codes(&self, place: Place, fiber: &[(u32, f64)]) -> Vec<ProbableCode> {
        if self.rows.patterns == 0 {
            return Vec::new();
        }
        let (usual, _) = self.usual(place);
        let soft = self.soft(place, fiber);
        let events: f64 = fiber.iter().map(|entry| entry.1).sum();
        let cost = (SIGNIFICANCE * SIGNIFICANCE + events.max(1.0).ln()) / 2.0;
        let mut likelihoods = vec![events * events.ln() - events; self.rows.patterns];
        for &(feature, y) in fiber {
            add_row(&mut likelihoods, y, &self.logarithms.row(feature as usize)[..self.rows.patterns]);
        }
        let alone = |(i, likelihood): (usize, &f64)| (likelihood + usual[i].ln(), vec![(i as u32, events)]);
        let mut scored: Vec<(f64, Vec<(u32, f64)>)> = likelihoods.iter().enumerate().map(alone).collect();
        let candidates = (0..self.rows.patterns).filter(|&i| soft[i] > LEAST_EVENTS);
        let mut support = Support::new(&self.rows, fiber, candidates.collect(), &soft);
        while support.patterns.len() > 1 {
            support.iterate(REFIT_ITERATIONS);
            let entries = support.patterns.iter().zip(&support.values);
            let share = entries.clone().map(|(&i, x)| usual[i] * x).sum::<f64>() / events;
            let further = (support.patterns.len() - 1) as f64;
            let score = support.log_likelihood() - cost * further + share.max(LEAST_SHARE).ln();
            scored.push((score, entries.map(|(&i, x)| (i as u32, *x)).collect()));
            support = support.without_smallest();
        }
        let best = scored.iter().map(|scored| scored.0).fold(f64::NEG_INFINITY, f64::max);
        scored.retain(|scored| scored.0 > best - IMPROBABLE);
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        let total: f64 = scored.iter().map(|scored| (scored.0 - best).exp()).sum();
        let probable =
            |(score, code): (f64, _)| ProbableCode { probability: (score - best).exp() / total, code };
        scored.into_iter().map(probable).collect()
    }
}

/// The code of a fiber on one of the supports that may explain it.
#[derive(Debug, Clone)]
pub(crate) struct ProbableCode {
    /// The probability that the fiber has the patterns of this support.
    pub(crate) probability: f64,
    /// The code, by increasing pattern. Its entries add up to the number of events.
    pub(crate) code: Vec<(u32, f64)>,
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

    /// Returns this code without its smallest entry. The events of that entry go to the others in proportion.
    fn without_smallest(&self) -> Support<'a> {
        let smallest =
            (0..self.values.len()).min_by(|&i, &j| self.values[i].total_cmp(&self.values[j])).unwrap_or(0);
        let left_out = |values: &[f64]| -> Vec<f64> {
            let kept = values.iter().enumerate().filter(|(i, _)| i % self.patterns.len() != smallest);
            kept.map(|(_, value)| *value).collect()
        };
        let mut values = left_out(&self.values);
        let (total, kept): (f64, f64) = (self.values.iter().sum(), values.iter().sum());
        values.iter_mut().for_each(|x| *x *= if kept > 0.0 { total / kept } else { 0.0 });
        let mut patterns = self.patterns.clone();
        patterns.remove(smallest);
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
