//! Patterns, rows and cols that explain one tensor together, none of them negative.
//!
//! ```text
//! Z_fjk ~ l_fjk = sum_i A_fi B_ji C_ki        A, B, C >= 0
//! ```
//!
//! Stages I to III learn A from each fiber alone. They do not use that B and C are shared by all fibers of a tensor.
//! Where similar patterns occur in the same fibers, this leaves errors that a few sweeps over A, B and C remove. A sweep
//! is alternating non-negative least squares for the exact model, and expectation-maximization for counts:
//!
//! ```text
//! squares   A = argmin |Z - l|^2, A >= 0                            then the same for B and C
//! events    A_fi <- A_fi (sum_jk B_ji C_ki Z_fjk / l_fjk) / (sum_j B_ji sum_k C_ki)
//! ```
//!
//! Cells may be hidden. A hidden cell is missing and not zero: it has the value that the factors give it.

use crate::data::dictionary::Dictionary;
use crate::data::sparse::Sparse;
use crate::linalg::vector::dot;
use crate::params::ModelKind;
use crate::untangle::factors::Factors;

/// Maximum number of sweeps.
const MAX_SWEEPS: usize = 1000;

/// Sweeps end when one reduces the misfit by less than this share of the data.
const SETTLED: f64 = 1e-9;

/// Rounds of coordinate descent for one factor.
const ROUNDS: usize = 20;

/// One cell of a tensor.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub(crate) struct Cell {
    /// Feature, row and col.
    pub(crate) at: [u32; 3],
    /// The value, at least 0.
    pub(crate) value: f64,
    /// Whether the value is hidden.
    pub(crate) hidden: bool,
}

/// A, B and C.
#[derive(Debug, Clone)]
pub(crate) struct Trilinear {
    patterns: usize,
    /// The factors of features, rows and cols. Each has `patterns` numbers for every index.
    factors: [Vec<f64>; 3],
}

impl Trilinear {
    /// Starts from factors, of which negative numbers count as 0. A pattern without rows or cols starts with all of
    /// them.
    pub(crate) fn new(dictionary: &Dictionary, factors: &Factors) -> Trilinear {
        let m = dictionary.patterns();
        let mut features = vec![0.0; dictionary.features() * m];
        for i in 0..m {
            let pattern = dictionary.pattern(i).iter().enumerate();
            pattern.for_each(|(f, a)| features[f * m + i] = a.max(0.0));
        }
        let dense = |sparse: &Sparse| {
            let mut values = vec![0.0; sparse.rows() * m];
            for (i, column) in sparse.columns().enumerate() {
                column.iter().for_each(|&(at, x)| values[at as usize * m + i] = x.max(0.0));
                if column.iter().all(|entry| entry.1 <= 0.0) {
                    values.iter_mut().skip(i).step_by(m).for_each(|x| *x = 1.0);
                }
            }
            values
        };
        Trilinear { patterns: m, factors: [features, dense(&factors.rows), dense(&factors.cols)] }
    }

    /// Starts from given factors, which have `patterns` numbers for every index.
    pub(crate) fn from_parts(patterns: usize, factors: [Vec<f64>; 3]) -> Trilinear {
        Trilinear { patterns, factors }
    }

    /// Sweeps until the factors settle, `most` times at most. Cells that are not given are zero. Returns the number of
    /// sweeps.
    pub(crate) fn fit(&mut self, kind: ModelKind, cells: &[Cell], most: usize) -> usize {
        let seen = || cells.iter().filter(|cell| !cell.hidden);
        let size: f64 = match kind {
            ModelKind::Exact => seen().map(|cell| cell.value.powi(2)).sum(),
            ModelKind::Counts => seen().map(|cell| cell.value).sum(),
        };
        let mut before = f64::INFINITY;
        for sweep in 1..=most.min(MAX_SWEEPS) {
            for axis in [1, 2, 0] {
                match kind {
                    ModelKind::Exact => self.fit_squares(axis, cells),
                    ModelKind::Counts => self.fit_events(axis, cells),
                }
            }
            self.balance();
            let now = match kind {
                ModelKind::Exact => self.squared_error(cells),
                ModelKind::Counts => self.divergence(cells),
            };
            if before - now <= SETTLED * size {
                return sweep;
            }
            before = now;
        }
        most.min(MAX_SWEEPS)
    }

    /// The numbers of one index of an axis.
    fn row(&self, axis: usize, at: [u32; 3]) -> &[f64] {
        &self.factors[axis][at[axis] as usize * self.patterns..][..self.patterns]
    }

    /// l, the value that the factors give a cell.
    pub(crate) fn expected(&self, at: [u32; 3]) -> f64 {
        let (a, b, c) = (self.row(0, at), self.row(1, at), self.row(2, at));
        a.iter().zip(b).zip(c).map(|((a, b), c)| a * b * c).sum()
    }

    /// Adds up, for each index of an axis, the values of its cells times the products of the other two factors.
    fn project(&self, axis: usize, cells: &[Cell], value: impl Fn(&Cell) -> f64) -> Vec<f64> {
        let (m, others) = (self.patterns, [(axis + 1) % 3, (axis + 2) % 3]);
        let mut sums = vec![0.0; self.factors[axis].len()];
        for cell in cells {
            let value = value(cell);
            let products = self.row(others[0], cell.at).iter().zip(self.row(others[1], cell.at));
            let own = &mut sums[cell.at[axis] as usize * m..][..m];
            own.iter_mut().zip(products).for_each(|(sum, (x, y))| *sum += value * x * y);
        }
        sums
    }

    /// The inner products of the columns of a factor (m x m).
    fn gram(&self, axis: usize) -> Vec<f64> {
        let m = self.patterns;
        let mut gram = vec![0.0; m * m];
        for row in self.factors[axis].chunks_exact(m) {
            for (x, sums) in row.iter().zip(gram.chunks_exact_mut(m)) {
                sums.iter_mut().zip(row).for_each(|(sum, y)| *sum += x * y);
            }
        }
        gram
    }

    /// Non-negative least squares for one factor, given the other two.
    fn fit_squares(&mut self, axis: usize, cells: &[Cell]) {
        let m = self.patterns;
        let target =
            self.project(axis, cells, |cell| if cell.hidden { self.expected(cell.at) } else { cell.value });
        let (one, other) = (self.gram((axis + 1) % 3), self.gram((axis + 2) % 3));
        let gram: Vec<f64> = one.iter().zip(&other).map(|(x, y)| x * y).collect();
        for (x, target) in self.factors[axis].chunks_exact_mut(m).zip(target.chunks_exact(m)) {
            for _ in 0..ROUNDS {
                for i in 0..m {
                    let products = &gram[i * m..][..m];
                    if products[i] > 0.0 {
                        x[i] = (x[i] + (target[i] - dot(x, products)) / products[i]).max(0.0);
                    }
                }
            }
        }
    }

    /// One step of expectation-maximization for one factor, given the other two.
    fn fit_events(&mut self, axis: usize, cells: &[Cell]) {
        let m = self.patterns;
        let share = |cell: &Cell| match self.expected(cell.at) {
            expected if expected > 0.0 => cell.value / expected,
            _ => 0.0,
        };
        let events = self.project(axis, cells, share);
        let (one, other) = (self.sums((axis + 1) % 3), self.sums((axis + 2) % 3));
        for (x, events) in self.factors[axis].chunks_exact_mut(m).zip(events.chunks_exact(m)) {
            for i in (0..m).filter(|&i| one[i] * other[i] > 0.0) {
                x[i] *= events[i] / (one[i] * other[i]);
            }
        }
    }

    /// The sum of each column of a factor.
    fn sums(&self, axis: usize) -> Vec<f64> {
        let mut sums = vec![0.0; self.patterns];
        for row in self.factors[axis].chunks_exact(self.patterns) {
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
        sums
    }

    /// Scales the columns of the factors of rows and cols to unit length, and those of the features so that nothing
    /// changes.
    fn balance(&mut self) {
        for axis in [1, 2] {
            let gram = self.gram(axis);
            for i in 0..self.patterns {
                let length = gram[i * self.patterns + i].sqrt();
                if length > 0.0 {
                    self.factors[axis].iter_mut().skip(i).step_by(self.patterns).for_each(|x| *x /= length);
                    self.factors[0].iter_mut().skip(i).step_by(self.patterns).for_each(|x| *x *= length);
                }
            }
        }
    }

    /// |Z - l|^2 over all cells that are not hidden.
    pub(crate) fn squared_error(&self, cells: &[Cell]) -> f64 {
        let [a, b, c] = [0, 1, 2].map(|axis| self.gram(axis));
        let all: f64 = a.iter().zip(&b).zip(&c).map(|((a, b), c)| a * b * c).sum();
        let given = cells.iter().map(|cell| {
            let expected = self.expected(cell.at);
            if cell.hidden { -expected.powi(2) } else { cell.value * (cell.value - 2.0 * expected) }
        });
        (all + given.sum::<f64>()).max(0.0)
    }

    /// The Kullback-Leibler divergence of the factors from the cells, up to a constant.
    fn divergence(&self, cells: &[Cell]) -> f64 {
        let [a, b, c] = [0, 1, 2].map(|axis| self.sums(axis));
        let all: f64 = a.iter().zip(&b).zip(&c).map(|((a, b), c)| a * b * c).sum();
        let given = cells.iter().filter(|cell| cell.value > 0.0);
        all - given.map(|cell| cell.value * self.expected(cell.at).max(f64::MIN_POSITIVE).ln()).sum::<f64>()
    }

    /// Returns the patterns, column by column, and the factors. The patterns have unit length (exact) or unit sum
    /// (counts), and the two factors of a pattern have the same length (exact) or the same sum (counts).
    pub(crate) fn into_parts(self, kind: ModelKind) -> (Vec<f64>, Factors) {
        let m = self.patterns;
        let column = |axis: usize, i: usize| -> Vec<f64> {
            self.factors[axis].iter().skip(i).step_by(m).copied().collect()
        };
        let size = |column: &[f64]| match kind {
            ModelKind::Exact => dot(column, column).sqrt(),
            ModelKind::Counts => column.iter().sum(),
        };
        let [n, rows, cols] = [0, 1, 2].map(|axis| self.factors[axis].len() / m.max(1));
        let mut patterns = Vec::with_capacity(n * m);
        let mut factors = Factors { rows: Sparse::new(rows), cols: Sparse::new(cols), rank_one: Vec::new() };
        for i in 0..m {
            let [a, b, c] = [0, 1, 2].map(|axis| column(axis, i));
            let sizes = [size(&a), size(&b), size(&c)];
            let strength = sizes.iter().product::<f64>();
            let scaled = |column: &[f64], size: f64| -> Vec<(u32, f64)> {
                let entries = column.iter().enumerate().filter(|(_, x)| **x > 0.0 && strength > 0.0);
                entries.map(|(at, x)| (at as u32, strength.sqrt() * x / size)).collect()
            };
            patterns.extend(a.iter().map(|x| x / sizes[0]));
            factors.rows.push(&scaled(&b, sizes[1]));
            factors.cols.push(&scaled(&c, sizes[2]));
            factors.rank_one.push(if strength > 0.0 { 1.0 } else { 0.0 });
        }
        (patterns, factors)
    }
}
