//! Synthetic tensors with known factors, drawn as in the paper's experiments.
//!
//! Symbols: n features, m patterns, J rows, K cols; the dictionary A* (n x m) is drawn once, the sparse factors B*(t)
//! (J x m) and C*(t) (K x m) are drawn for every step t.
//!
//! ```text
//! Z(t) = scale (sum_i A*_i o B*_i(t) o C*_i(t) + noise)
//! ```
//!
//! The truth is "planted" in the stream, for the learner to recover. All random numbers of a tensor depend only on
//! (seed, step) and, for the noise, on the place of the fiber. A tensor can therefore be drawn without the tensors
//! before it, on any thread, or in parts by several ranks, and always has the same bits.

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use rayon::prelude::*;

use crate::data::codes::Codes;
use crate::data::dictionary::Dictionary;
use crate::data::sparse::Sparse;
use crate::data::tensor::Tensor;
use crate::error::Error;
use crate::linalg::vector::{add_scaled, dot};
use crate::parallel::team::{Team, rank_range};
use crate::params::{Above, AtLeast, AtMost, Below, within};
use crate::shape::{Place, Shape};

/// The distribution of the non-zero entries of a factor (def:dist_bc).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Values {
    /// +1 or -1, each with probability one half: the class Gamma^Rad.
    Rademacher,
    /// Mean 0, variance 1, random sign, and a magnitude that is uniform between the floor C and the bound that makes
    /// the variance 1: a member of the class Gamma^sG.
    SubGaussian {
        /// The smallest magnitude C, in (0, 1]. With 1 the distribution is Rademacher's.
        floor: f64,
    },
}

impl Values {
    /// The smallest magnitude.
    pub fn floor(self) -> f64 {
        match self {
            Values::Rademacher => 1.0,
            Values::SubGaussian { floor } => floor,
        }
    }

    fn draw(self, rng: &mut ChaCha8Rng) -> f64 {
        let sign = if rng.random::<bool>() { 1.0 } else { -1.0 };
        match self {
            Values::Rademacher => sign,
            Values::SubGaussian { floor } => {
                // The variance (floor^2 + floor bound + bound^2) / 3 is 1.
                let bound = ((12.0 - 3.0 * floor * floor).sqrt() - floor) / 2.0;
                sign * (floor + (bound - floor) * rng.random::<f64>())
            }
        }
    }
}

/// Sizes and distributions of a stream of synthetic tensors.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Number of features, n, at least 2.
    pub features: usize,
    /// Number of patterns, m, at least 1.
    pub patterns: usize,
    /// Number of rows, J, at least 1.
    pub rows: usize,
    /// Number of cols, K, at least 1.
    pub cols: usize,
    /// Probability that an entry of B is non-zero, alpha in (0, 1].
    pub alpha: f64,
    /// Probability that an entry of C is non-zero, beta in (0, 1].
    pub beta: f64,
    /// Distribution of the non-zero entries of B.
    pub row_values: Values,
    /// Distribution of the non-zero entries of C.
    pub col_values: Values,
    /// Expected length (root mean square) of the Gaussian noise added to every non-zero fiber, at least 0.
    pub noise: f64,
    /// Factor of the whole tensor, including the noise, in [1e-50, 1e50].
    pub scale: f64,
    /// Number of late patterns: the last `late` patterns are in no tensor before step `late_step`.
    pub late: usize,
    /// The first step with the late patterns. Steps count from 1.
    pub late_step: u64,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Default for Plan {
    /// The plan of one cell of the paper's tables: 150 patterns in tensors of 300 x 100 x 100.
    fn default() -> Self {
        Plan {
            features: 300,
            patterns: 150,
            rows: 100,
            cols: 100,
            alpha: 0.05,
            beta: 0.05,
            row_values: Values::Rademacher,
            col_values: Values::Rademacher,
            noise: 0.0,
            scale: 1.0,
            late: 0,
            late_step: 1,
            seed: 42,
        }
    }
}

impl Plan {
    /// Checks the range of every field. [`Planted::new`] calls this function.
    ///
    /// # Errors
    /// [`Error::Parameter`] for the first field outside its range.
    pub fn check(&self) -> Result<(), Error> {
        let longest = u32::MAX as f64;
        within("n", self.features as f64, AtLeast(2.0), AtMost(longest))?;
        within("patterns", self.patterns as f64, AtLeast(1.0), AtMost(longest))?;
        within("rows", self.rows as f64, AtLeast(1.0), AtMost(longest))?;
        within("cols", self.cols as f64, AtLeast(1.0), AtMost(longest))?;
        within("alpha", self.alpha, Above(0.0), AtMost(1.0))?;
        within("beta", self.beta, Above(0.0), AtMost(1.0))?;
        within("the floor of the row values", self.row_values.floor(), Above(0.0), AtMost(1.0))?;
        within("the floor of the col values", self.col_values.floor(), Above(0.0), AtMost(1.0))?;
        within("noise", self.noise, AtLeast(0.0), Below(f64::INFINITY))?;
        within("scale", self.scale, AtLeast(1e-50), AtMost(1e50))?;
        within("late", self.late as f64, AtLeast(0.0), AtMost(self.patterns as f64))
    }

    /// Estimates the memory, in bytes, of a recovery experiment with this plan: a tensor, and a few dictionaries and
    /// Gram matrices.
    pub fn bytes(&self) -> f64 {
        let (n, m) = (self.features as f64, self.patterns as f64);
        let places = self.rows as f64 * self.cols as f64;
        let together = self.alpha * self.beta;
        let fibers = places * (1.0 - (1.0 - together).powf(m));
        let codes = places * together * m;
        8.0 * (n * fibers + 8.0 * codes + 8.0 * n * m + 6.0 * m * m)
    }

    /// The random number generator for one purpose. Purposes never share random numbers.
    fn rng(&self, purpose: Purpose) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(match purpose {
            Purpose::Dictionary => 0,
            Purpose::Start => 1,
            Purpose::Factors(step) => 2 * step + 2,
            Purpose::Noise(step) => 2 * step + 3,
        });
        rng
    }
}

/// The use of a random number generator.
enum Purpose {
    Dictionary,
    Start,
    /// B and C of a step.
    Factors(u64),
    /// The noise of a step.
    Noise(u64),
}

/// A stream of synthetic tensors: the true dictionary, and a tensor for every step.
#[derive(Debug, Clone)]
pub struct Planted {
    plan: Plan,
    true_dictionary: Dictionary,
}

/// One synthetic tensor, or the share of a rank in it, with its true factors.
#[derive(Debug, Clone)]
pub struct PlantedTensor {
    /// The tensor Z(t).
    pub tensor: Tensor<'static>,
    /// The true codes X(t) of the fibers of `tensor`.
    pub true_codes: Codes,
    /// The true row factor B(t) (J x m) of the whole tensor.
    pub true_rows: Sparse,
    /// The true col factor C(t) (K x m) of the whole tensor.
    pub true_cols: Sparse,
}

impl Planted {
    /// Draws the true dictionary: Gaussian columns of unit length.
    ///
    /// # Errors
    /// [`Error::Parameter`] if a field of the plan is outside its range.
    pub fn new(plan: Plan) -> Result<Planted, Error> {
        plan.check()?;
        let mut rng = plan.rng(Purpose::Dictionary);
        let values = (0..plan.features * plan.patterns).map(|_| rng.sample(StandardNormal)).collect();
        let true_dictionary = Dictionary::from_columns(plan.features, values)?;
        Ok(Planted { plan, true_dictionary })
    }

    /// The plan of the stream.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The true dictionary A*.
    pub fn true_dictionary(&self) -> &Dictionary {
        &self.true_dictionary
    }

    /// Returns a start A(0): every column is the true column, rotated in a random direction until its distance from
    /// the true column is `distance`, in [0, 2). The paper starts at 2 / ln n, see [`Planted::paper_distance`].
    ///
    /// # Errors
    /// [`Error::Parameter`] if the distance is outside its range.
    pub fn start(&self, distance: f64) -> Result<Dictionary, Error> {
        within("start_distance", distance, AtLeast(0.0), Below(2.0))?;
        let n = self.plan.features;
        let mut rng = self.plan.rng(Purpose::Start);
        // The angle of a chord of length `distance` in the unit circle.
        let angle = 2.0 * (distance / 2.0).asin();
        let mut values = Vec::with_capacity(self.true_dictionary.values().len());
        for i in 0..self.plan.patterns {
            let truth = self.true_dictionary.pattern(i);
            let mut direction: Vec<f64> = (0..n).map(|_| rng.sample(StandardNormal)).collect();
            let along = dot(&direction, truth);
            add_scaled(&mut direction, -along, truth);
            let length = dot(&direction, &direction).sqrt();
            values.extend(
                truth.iter().zip(&direction).map(|(a, u)| a * angle.cos() + u / length * angle.sin()),
            );
        }
        Dictionary::from_columns(n, values)
    }

    /// The column distance at which the paper starts: 2 / ln n, at most 1.
    pub fn paper_distance(&self) -> f64 {
        (2.0 / (self.plan.features as f64).ln()).min(1.0)
    }

    /// Draws the tensor of a step, Z(t) = sum_i A_i o B_i(t) o C_i(t) (CPD). Steps count from 1.
    pub fn tensor(&self, step: u64) -> PlantedTensor {
        self.draw(step, Vec::new(), 0..self.places())
    }

    /// Draws the tensor of a step into the memory of an old tensor. For large tensors, allocating memory takes longer
    /// than drawing.
    pub fn tensor_reusing(&self, step: u64, old: PlantedTensor) -> PlantedTensor {
        self.draw(step, old.tensor.into_values(), 0..self.places())
    }

    /// Draws the share of this rank in the tensor of a step. All ranks have the same number of places, up to one.
    pub fn rank_tensor(&self, team: &dyn Team, step: u64) -> PlantedTensor {
        self.draw(step, Vec::new(), rank_range(team, self.places()))
    }

    /// Draws the share of this rank in the tensor of a step into the memory of an old tensor.
    pub fn rank_tensor_reusing(&self, team: &dyn Team, step: u64, old: PlantedTensor) -> PlantedTensor {
        self.draw(step, old.tensor.into_values(), rank_range(team, self.places()))
    }

    /// Number of places, J K.
    fn places(&self) -> u64 {
        self.plan.rows as u64 * self.plan.cols as u64
    }

    /// The index of a place among all places, ordered by col, then row.
    fn index(&self, place: Place) -> u64 {
        u64::from(place.col) * self.plan.rows as u64 + u64::from(place.row)
    }

    /// Draws the fibers whose place has an index in `wanted`, into `values`.
    fn draw(&self, step: u64, mut values: Vec<f64>, wanted: Range<u64>) -> PlantedTensor {
        let plan = &self.plan;
        let (n, m) = (plan.features, plan.patterns);
        let mut rng = plan.rng(Purpose::Factors(step));
        let present = |i: usize| step >= plan.late_step || i < m - plan.late;
        let (row_values, col_values) = (plan.row_values, plan.col_values);
        let true_rows = draw_factor(&mut rng, (plan.rows, m), plan.alpha, present, |rng| {
            plan.scale * row_values.draw(rng)
        });
        let true_cols = draw_factor(&mut rng, (plan.cols, m), plan.beta, present, |rng| col_values.draw(rng));
        let (places, codes) = khatri_rao(&true_rows, &true_cols, |place| wanted.contains(&self.index(place)));

        // Y = A X + noise.
        values.resize(n * places.len(), 0.0);
        let noise = plan.scale * plan.noise / (n as f64).sqrt();
        let rng = || plan.rng(Purpose::Noise(step));
        let fibers = values.par_chunks_exact_mut(n).enumerate().with_min_len(64);
        fibers.for_each_init(rng, |rng, (fiber, y)| {
            if plan.noise > 0.0 {
                // Every place has its own part of the random stream, larger than the noise of one fiber needs.
                rng.set_word_pos(u128::from(self.index(places[fiber])) * 8 * n as u128);
                y.iter_mut().for_each(|y| *y = noise * rng.sample::<f64, _>(StandardNormal));
            } else {
                y.fill(0.0);
            }
            for &(i, x) in codes.column(fiber) {
                add_scaled(y, x, self.true_dictionary.pattern(i as usize));
            }
        });
        let shape = Shape { features: n, rows: plan.rows, cols: plan.cols };
        let tensor = Tensor::trusted(shape, values, places);
        let true_codes = Codes::new(codes, &tensor);
        PlantedTensor { tensor, true_codes, true_rows, true_cols }
    }
}

/// The non-zero columns of the Khatri-Rao product S = (C khatri-rao B)' at the places that are wanted: their places,
/// ordered by col, then row, and their values (m x places).
pub(crate) fn khatri_rao(
    rows: &Sparse,
    cols: &Sparse,
    wanted: impl Fn(Place) -> bool,
) -> (Vec<Place>, Sparse) {
    let m = rows.cols();
    // (col, row, pattern, b c).
    let mut entries: Vec<(u32, u32, u32, f64)> = Vec::new();
    for i in 0..m {
        for &(col, c) in cols.column(i) {
            let wanted = rows.column(i).iter().filter(|entry| wanted(Place { row: entry.0, col }));
            entries.extend(wanted.map(|&(row, b)| (col, row, i as u32, b * c)));
        }
    }
    entries.sort_unstable_by_key(|&(col, row, pattern, _)| (col, row, pattern));
    let mut places = Vec::new();
    let mut codes = Sparse::new(m);
    for fiber in entries.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        places.push(Place { col: fiber[0].0, row: fiber[0].1 });
        codes.push(&fiber.iter().map(|&(_, _, i, x)| (i, x)).collect::<Vec<_>>());
    }
    (places, codes)
}

/// Draws a factor (length x m). Every entry of the columns that are present is non-zero with the given probability, and
/// `value` draws it; the other columns are zero, but use up as many random numbers.
pub(crate) fn draw_factor(
    rng: &mut ChaCha8Rng,
    (length, m): (usize, usize),
    probability: f64,
    present: impl Fn(usize) -> bool,
    value: impl Fn(&mut ChaCha8Rng) -> f64,
) -> Sparse {
    let mut factor = Sparse::new(length);
    for i in 0..m {
        let mut column = Vec::new();
        for at in 0..length {
            if rng.random::<f64>() < probability {
                column.push((at as u32, value(rng)));
            }
        }
        factor.push(if present(i) { &column } else { &[] });
    }
    factor
}
