//! Planted streams: tensors whose factors are known, drawn as in the paper's experiments.
//!
//! Every draw comes from (seed, step): a tensor can be made without the ones before it, on any
//! thread, and is the same each time.

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

/// The law of the non-zero entries of a factor (def:dist_bc).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Values {
    /// +1 or -1, each with probability one half: the class Gamma^Rad.
    Rademacher,
    /// Zero mean, unit variance, bounded and never smaller than the floor: of the class Gamma^sG.
    /// The magnitude is uniform between the floor C and the bound that makes the variance one.
    SubGaussian {
        /// C in (0, 1]; with 1 the law is Rademacher's.
        floor: f64,
    },
}

impl Values {
    /// Smallest magnitude.
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
                // (floor^2 + floor top + top^2) / 3 = 1, the variance of the signed uniform law.
                let top = ((12.0 - 3.0 * floor * floor).sqrt() - floor) / 2.0;
                sign * (floor + (top - floor) * rng.random::<f64>())
            }
        }
    }
}

/// What to plant.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// n.
    pub features: usize,
    /// m.
    pub patterns: usize,
    /// J.
    pub rows: usize,
    /// K.
    pub cols: usize,
    /// Probability that an entry of B is not zero, alpha in (0, 1].
    pub alpha: f64,
    /// Probability that an entry of C is not zero, beta in (0, 1].
    pub beta: f64,
    /// Values of B.
    pub row_values: Values,
    /// Values of C.
    pub col_values: Values,
    /// Expected length of the Gaussian noise added to every non-zero fiber.
    pub noise: f64,
    /// Everything, noise too, is multiplied by this.
    pub scale: f64,
    /// So many patterns, the last ones, are absent at first.
    pub late: usize,
    /// The step at which they appear.
    pub late_step: u64,
    /// All draws come from this number and the step.
    pub seed: u64,
}

impl Default for Plan {
    /// A cell of the paper's tables: 150 patterns in tensors of 300 x 100 x 100.
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
    /// Checks every range; [`Planted::new`] calls it.
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

    /// About how many bytes it takes to learn this plan back: a tensor and a few dictionaries and
    /// Gram matrices.
    pub fn bytes(&self) -> f64 {
        let (n, m) = (self.features as f64, self.patterns as f64);
        let places = self.rows as f64 * self.cols as f64;
        let together = self.alpha * self.beta;
        let fibers = places * (1.0 - (1.0 - together).powf(m));
        let codes = places * together * m;
        8.0 * (n * fibers + 8.0 * codes + 8.0 * n * m + 6.0 * m * m)
    }

    /// A generator for one purpose; purposes never share random numbers.
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

enum Purpose {
    Dictionary,
    Start,
    Factors(u64),
    Noise(u64),
}

/// A planted stream: the true dictionary, and a tensor for every step.
#[derive(Debug, Clone)]
pub struct Planted {
    plan: Plan,
    true_dictionary: Dictionary,
}

/// One planted tensor, with what it is made of.
#[derive(Debug, Clone)]
pub struct PlantedTensor {
    /// Z(t).
    pub tensor: Tensor<'static>,
    /// X(t) at the places of the fibers.
    pub true_codes: Codes,
    /// B(t), J x m.
    pub true_rows: Sparse,
    /// C(t), K x m.
    pub true_cols: Sparse,
}

impl Planted {
    /// Draws the true dictionary: Gaussian columns of unit length.
    pub fn new(plan: Plan) -> Result<Planted, Error> {
        plan.check()?;
        let mut rng = plan.rng(Purpose::Dictionary);
        let values = (0..plan.features * plan.patterns).map(|_| rng.sample(StandardNormal)).collect();
        let true_dictionary = Dictionary::from_columns(plan.features, values)?;
        Ok(Planted { plan, true_dictionary })
    }

    /// What was asked for.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// A*.
    pub fn true_dictionary(&self) -> &Dictionary {
        &self.true_dictionary
    }

    /// A(0): every column turned in a random direction until it is `distance` away from the true
    /// one, in [0, 2). The paper starts at 2 / ln n, see [`Planted::paper_distance`].
    pub fn start(&self, distance: f64) -> Result<Dictionary, Error> {
        within("start_distance", distance, AtLeast(0.0), Below(2.0))?;
        let n = self.plan.features;
        let mut rng = self.plan.rng(Purpose::Start);
        // A chord of length `distance` on the unit circle.
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

    /// 2 / ln n, at most 1: the column distance at which the paper starts.
    pub fn paper_distance(&self) -> f64 {
        (2.0 / (self.plan.features as f64).ln()).min(1.0)
    }

    /// The tensor of a step, Z(t) = sum_i A_i o B_i(t) o C_i(t) (CPD); steps count from 1.
    pub fn tensor(&self, step: u64) -> PlantedTensor {
        self.make(step, Vec::new(), 0..self.places())
    }

    /// The same, in the memory of a tensor that is no longer needed: fresh memory takes longer to get
    /// than a large tensor to make.
    pub fn tensor_in_place_of(&self, step: u64, old: PlantedTensor) -> PlantedTensor {
        self.make(step, old.tensor.into_values(), 0..self.places())
    }

    /// The share of a rank in the tensor of a step: its fibers in as many places as every other rank has.
    pub fn share(&self, team: &dyn Team, step: u64) -> PlantedTensor {
        self.make(step, Vec::new(), rank_range(team, self.places()))
    }

    /// The same in the memory of another one.
    pub fn share_in_place_of(&self, team: &dyn Team, step: u64, old: PlantedTensor) -> PlantedTensor {
        self.make(step, old.tensor.into_values(), rank_range(team, self.places()))
    }

    /// J K.
    fn places(&self) -> u64 {
        self.plan.rows as u64 * self.plan.cols as u64
    }

    /// The fibers in some of the places, which are counted in their order.
    fn make(&self, step: u64, mut values: Vec<f64>, wanted: Range<u64>) -> PlantedTensor {
        let plan = &self.plan;
        let (n, m) = (plan.features, plan.patterns);
        let mut rng = plan.rng(Purpose::Factors(step));
        let here = if step < plan.late_step { m - plan.late } else { m };
        let true_rows = draw_factor(&mut rng, plan.rows, (m, here), plan.alpha, plan.row_values, plan.scale);
        let true_cols = draw_factor(&mut rng, plan.cols, (m, here), plan.beta, plan.col_values, 1.0);

        let number = |place: Place| u64::from(place.col) * plan.rows as u64 + u64::from(place.row);
        // S = (C khatri-rao B)', only where it is not zero: (col, row, pattern, b c).
        let mut entries: Vec<(u32, u32, u32, f64)> = Vec::new();
        for i in 0..m {
            for &(col, c) in true_cols.column(i) {
                for &(row, b) in true_rows.column(i) {
                    if wanted.contains(&number(Place { row, col })) {
                        entries.push((col, row, i as u32, b * c));
                    }
                }
            }
        }
        entries.sort_unstable_by_key(|&(col, row, pattern, _)| (col, row, pattern));
        let mut places = Vec::new();
        let mut codes = Sparse::new(m);
        for fiber in entries.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            places.push(Place { col: fiber[0].0, row: fiber[0].1 });
            codes.push(&fiber.iter().map(|&(_, _, i, x)| (i, x)).collect::<Vec<_>>());
        }

        // Y = A X + noise.
        values.resize(n * places.len(), 0.0);
        let noise = plan.scale * plan.noise / (n as f64).sqrt();
        let rng = || plan.rng(Purpose::Noise(step));
        let fibers = values.par_chunks_exact_mut(n).enumerate().with_min_len(64);
        fibers.for_each_init(rng, |rng, (fiber, y)| {
            if plan.noise > 0.0 {
                // Every place has random numbers of its own, a few times as many as it takes, whoever makes it.
                rng.set_word_pos(u128::from(number(places[fiber])) * 8 * n as u128);
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

/// A factor (length x m): every entry is non-zero with the given probability, but only of the patterns that
/// are here already.
fn draw_factor(
    rng: &mut ChaCha8Rng,
    length: usize,
    (m, here): (usize, usize),
    probability: f64,
    values: Values,
    scale: f64,
) -> Sparse {
    let mut factor = Sparse::new(length);
    for i in 0..m {
        let mut column = Vec::new();
        for at in 0..length {
            if rng.random::<f64>() < probability {
                column.push((at as u32, scale * values.draw(rng)));
            }
        }
        factor.push(if i < here { &column } else { &[] });
    }
    factor
}
