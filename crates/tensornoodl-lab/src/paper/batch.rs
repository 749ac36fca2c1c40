//! One tensor as a whole, by the methods of the paper's Table 1 that do not learn from streams.
//!
//! A stream gives these methods no more than one tensor does: B and C are new in each tensor, so the tensors Z(1) ..
//! Z(T) side by side have m T terms, not m. All methods, and TensorNOODL, get the first tensor.

use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use tensornoodl::metrics::Matching;
use tensornoodl::recovery::PatternCounts;
use tensornoodl::synthetic::{Planted, PlantedTensor};
use tensornoodl::{Codes, Dictionary, DiscoverParams, Error, Learner, Params, Passes, Shape, Tensor};

use crate::methods::{Als, Arora, Cp, Method, Power, als, power};
use crate::paper::cell::Cell;

/// A method for one tensor, and what it knows besides the tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchMethod {
    /// TensorNOODL from A(0), with many passes over the tensor.
    NoodlNear,
    /// CP-ALS from A(0) and its thresholded codes.
    AlsNear,
    /// TensorNOODL from nothing.
    Noodl,
    /// CP-ALS from random factors, the best fit of several.
    Als,
    /// Orth-ALS from random factors, the best fit of several.
    OrthAls,
    /// Tensor power method with clustering; it knows m.
    Power,
    /// Truncated power method; it knows m and the number of non-zeros of a row and a col factor.
    TruncatedPower,
}

impl BatchMethod {
    /// All methods.
    pub const ALL: [BatchMethod; 7] = [
        BatchMethod::NoodlNear,
        BatchMethod::AlsNear,
        BatchMethod::Noodl,
        BatchMethod::Als,
        BatchMethod::OrthAls,
        BatchMethod::Power,
        BatchMethod::TruncatedPower,
    ];

    /// Returns the name in files.
    pub fn name(self) -> &'static str {
        match self {
            BatchMethod::NoodlNear => "noodl-near",
            BatchMethod::AlsNear => "als-near",
            BatchMethod::Noodl => "noodl",
            BatchMethod::Als => "als",
            BatchMethod::OrthAls => "orth-als",
            BatchMethod::Power => "power",
            BatchMethod::TruncatedPower => "truncated-power",
        }
    }

    /// Returns the name in tables.
    pub fn title(self) -> &'static str {
        match self {
            BatchMethod::NoodlNear | BatchMethod::Noodl => "TensorNOODL",
            BatchMethod::AlsNear | BatchMethod::Als => "CP-ALS",
            BatchMethod::OrthAls => "Orth-ALS (Sharan & Valiant 2017)",
            BatchMethod::Power => "tensor power, clustering (Anandkumar et al. 2015)",
            BatchMethod::TruncatedPower => "truncated power (Sun et al. 2017)",
        }
    }

    /// Returns what the method knows besides the tensor.
    pub fn told(self) -> &'static str {
        match self {
            BatchMethod::NoodlNear | BatchMethod::AlsNear => "A(0)",
            BatchMethod::Noodl => "nothing",
            BatchMethod::Als | BatchMethod::OrthAls | BatchMethod::Power => "m",
            BatchMethod::TruncatedPower => "m, non-zeros",
        }
    }
}

/// The outcome of one method on one tensor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchOutcome {
    /// The stream whose first tensor was used.
    pub cell: Cell,
    /// The method.
    pub method: BatchMethod,
    /// Patterns that at least two fibers show.
    pub seen: usize,
    /// Patterns among those seen that were found, at a distance of at most 0.5.
    pub found: usize,
    /// Found patterns that stand for no planted one.
    pub spurious: usize,
    /// Median distance of the seen patterns from the found ones.
    pub median_distance: f64,
    /// Relative error of A over the seen patterns.
    pub error_a: f64,
    /// Relative error of X after hard thresholding.
    pub error_x: f64,
    /// Whether signs and support of X are exact.
    pub support: bool,
    /// Time of the method, in seconds.
    pub seconds: f64,
}

/// A pattern at this distance or nearer is found.
const NEAR: f64 = 0.5;

/// Random starts of the alternating methods; the best fit is kept.
const RESTARTS: u64 = 5;

/// Passes of TensorNOODL.
const PASSES: usize = 100;

/// Runs one method on the first tensor of a stream. Returns None if the method does not apply or the tensor is empty.
///
/// # Errors
/// If the plan of the cell is wrong.
pub fn run_batch(cell: Cell, method: BatchMethod) -> Result<Option<BatchOutcome>, Error> {
    let planted = Planted::new(cell.plan())?;
    let made = planted.tensor(1);
    if made.tensor.fibers() == 0 {
        return Ok(None);
    }
    let begun = Instant::now();
    let Some((dictionary, codes)) = factorize(cell, method, &planted, &made.tensor)? else {
        return Ok(None);
    };
    let seconds = begun.elapsed().as_secs_f64();
    measure(cell, method, &planted, &made, &dictionary, &codes, seconds).map(Some)
}

/// Returns the dictionary and the codes that a method finds.
fn factorize(
    cell: Cell,
    method: BatchMethod,
    planted: &Planted,
    tensor: &Tensor<'_>,
) -> Result<Option<(Dictionary, Codes)>, Error> {
    let params = Params { passes: Passes::Fixed(PASSES), ..Params::default() };
    let learn = |mut learner: Learner| {
        learner.learn(tensor)?;
        Ok(Some((learner.dictionary().clone(), learner.encode(tensor)?)))
    };
    match method {
        BatchMethod::NoodlNear => {
            return learn(Learner::new(planted.start(planted.paper_distance())?, params)?);
        }
        BatchMethod::Noodl => {
            let features = tensor.shape().features;
            return learn(Learner::from_nothing(features, params, DiscoverParams::default())?);
        }
        _ => {}
    }
    let floor = Params::default().code_floor / 2.0;
    match cp(cell, method, planted, tensor, floor)?.map(Cp::alive) {
        Some(cp) if cp.patterns() > 0 => Ok(Some((cp.dictionary()?, cp.codes(tensor, floor)))),
        _ => Ok(None),
    }
}

/// Returns the CP factors that a method finds. None if the method does not apply.
fn cp(
    cell: Cell,
    method: BatchMethod,
    planted: &Planted,
    tensor: &Tensor<'_>,
    floor: f64,
) -> Result<Option<Cp>, Error> {
    let shape = tensor.shape();
    let starts = 10 * cell.patterns;
    let options = Power { starts, sweeps: 30, kept: None, residual_sweeps: 30, seed: cell.seed };
    Ok(match method {
        BatchMethod::NoodlNear | BatchMethod::Noodl => None,
        BatchMethod::AlsNear => {
            let start = planted.start(planted.paper_distance())?;
            let factors = Arora::new(start.clone(), 0.0, 2.0 * floor, false).encode(tensor)?.untangle();
            let mut cp = Cp::new(shape, &start, &factors);
            als(tensor, &mut cp, Als::default());
            Some(cp)
        }
        BatchMethod::Als => best_of_random(cell, tensor, 0),
        BatchMethod::OrthAls if cell.patterns > shape.rows.min(shape.cols).min(shape.features) => None,
        BatchMethod::OrthAls => best_of_random(cell, tensor, 20),
        BatchMethod::Power => Some(power(tensor, cell.patterns, options)),
        BatchMethod::TruncatedPower => {
            // Two standard deviations above the mean: to keep too few entries biases more than to keep too many.
            let most = |length: usize| {
                let mean = cell.alpha * length as f64;
                (mean + 2.0 * (mean * (1.0 - cell.alpha)).sqrt()).ceil() as usize
            };
            let kept = Some((most(shape.rows), most(shape.cols)));
            Some(power(tensor, cell.patterns, Power { kept, residual_sweeps: 0, ..options }))
        }
    })
}

/// Runs alternating least squares from several random starts. Returns the factors with the best fit.
fn best_of_random(cell: Cell, tensor: &Tensor<'_>, orthogonal_sweeps: usize) -> Option<Cp> {
    let options = Als { orthogonal_sweeps, ..Als::default() };
    let tries = (0..RESTARTS).map(|restart| {
        let seed = cell.seed.wrapping_mul(RESTARTS).wrapping_add(restart);
        let mut cp = random(tensor.shape(), cell.patterns, seed);
        als(tensor, &mut cp, options);
        let cp = cp.alive();
        (cp.fit(tensor), cp)
    });
    tries.min_by(|a, b| a.0.total_cmp(&b.0)).map(|best| best.1)
}

/// Compares what was found with what was planted.
fn measure(
    cell: Cell,
    method: BatchMethod,
    planted: &Planted,
    made: &PlantedTensor,
    dictionary: &Dictionary,
    codes: &Codes,
    seconds: f64,
) -> Result<BatchOutcome, Error> {
    let truth = planted.true_dictionary();
    let matching = Matching::new(dictionary, truth)?;
    let mut shown = vec![0; truth.patterns()];
    for code in made.true_codes.matrix().columns() {
        code.iter().for_each(|entry| shown[entry.0 as usize] += 1);
    }
    let distances = matching.distances(dictionary, truth).into_iter().zip(&shown);
    let mut distances: Vec<f64> = distances.filter(|(_, shown)| **shown >= 2).map(|seen| seen.0).collect();
    distances.sort_by(f64::total_cmp);
    Ok(BatchOutcome {
        cell,
        method,
        seen: distances.len(),
        found: distances.iter().filter(|distance| **distance <= NEAR).count(),
        spurious: PatternCounts::new(dictionary, truth, &shown)?.spurious,
        median_distance: distances.get(distances.len() / 2).copied().unwrap_or(0.0),
        error_a: (distances.iter().map(|d| d * d).sum::<f64>() / distances.len().max(1) as f64).sqrt(),
        error_x: matching.error_x(codes, &made.true_codes),
        support: matching.same_support(codes, &made.true_codes),
        seconds,
    })
}

/// Returns random factors with columns of length one.
fn random(shape: Shape, patterns: usize, seed: u64) -> Cp {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut draw = |length: usize| (0..length * patterns).map(|_| rng.random::<f64>() - 0.5).collect();
    let mut cp = Cp { shape, features: draw(shape.features), rows: draw(shape.rows), cols: draw(shape.cols) };
    cp.normalize_all();
    cp
}
