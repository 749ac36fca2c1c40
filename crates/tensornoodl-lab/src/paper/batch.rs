//! One tensor as a whole, by the methods of the paper's Table 1 that know no stream.
//!
//! A stream gives them no more than one tensor does: side by side, Z(1) .. Z(T) have m T terms, not m, because B and C
//! are new each time. So they get the first tensor, and so does TensorNOODL.

use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use tensornoodl::metrics::Matching;
use tensornoodl::recovery::PatternCounts;
use tensornoodl::synthetic::{Planted, PlantedTensor};
use tensornoodl::{DiscoverParams, Error, Learner, Params, Passes, Shape};

use super::cell::Cell;
use crate::methods::{Als, Arora, Cp, Method, Power, als, power};

/// Which method, and what it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchMethod {
    /// TensorNOODL, told A(0), passing over the tensor again and again.
    NoodlNear,
    /// CP-ALS from A(0) and its thresholded codes.
    AlsNear,
    /// TensorNOODL, told nothing.
    Noodl,
    /// CP-ALS from random factors, the best fit of several.
    Als,
    /// Orth-ALS from random factors, the best fit of several.
    OrthAls,
    /// Tensor power method with clustering, told m.
    Power,
    /// Truncated power method, told m and how many non-zeros a row and a col factor may have.
    TruncatedPower,
}

impl BatchMethod {
    /// All of them.
    pub const ALL: [BatchMethod; 7] = [
        BatchMethod::NoodlNear,
        BatchMethod::AlsNear,
        BatchMethod::Noodl,
        BatchMethod::Als,
        BatchMethod::OrthAls,
        BatchMethod::Power,
        BatchMethod::TruncatedPower,
    ];

    /// As in file names.
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

    /// As people read it.
    pub fn title(self) -> &'static str {
        match self {
            BatchMethod::NoodlNear | BatchMethod::Noodl => "TensorNOODL",
            BatchMethod::AlsNear | BatchMethod::Als => "CP-ALS",
            BatchMethod::OrthAls => "Orth-ALS (Sharan & Valiant 2017)",
            BatchMethod::Power => "tensor power, clustering (Anandkumar et al. 2015)",
            BatchMethod::TruncatedPower => "truncated power (Sun et al. 2017)",
        }
    }

    /// What it is told besides the tensor.
    pub fn told(self) -> &'static str {
        match self {
            BatchMethod::NoodlNear | BatchMethod::AlsNear => "A(0)",
            BatchMethod::Noodl => "nothing",
            BatchMethod::Als | BatchMethod::OrthAls | BatchMethod::Power => "m",
            BatchMethod::TruncatedPower => "m, non-zeros",
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchOutcome {
    /// The tensor: the first of this stream.
    pub cell: Cell,
    /// The method.
    pub method: BatchMethod,
    /// Patterns that at least two fibers show.
    pub seen: usize,
    /// Those of them found, nearer than 0.5.
    pub found: usize,
    /// Patterns that stand for none.
    pub spurious: usize,
    /// Median distance of the patterns seen from what was found.
    pub median_distance: f64,
    /// Relative error of A over the patterns seen.
    pub error_a: f64,
    /// Relative error of X after hard thresholding.
    pub error_x: f64,
    /// Whether its signs and support are exact.
    pub support: bool,
    /// Time of it all.
    pub seconds: f64,
}

/// A pattern that is nearer than this is found.
const NEAR: f64 = 0.5;

/// Random starts of the alternating methods; the best fit is kept.
const RESTARTS: u64 = 5;

/// Passes of TensorNOODL.
const PASSES: usize = 100;

/// Runs one method; none where it does not apply, or where the tensor is empty.
pub fn run_batch(cell: Cell, method: BatchMethod) -> Result<Option<BatchOutcome>, Error> {
    let planted = Planted::new(cell.plan())?;
    let truth = planted.true_dictionary();
    let PlantedTensor { tensor, true_codes, .. } = planted.tensor(1);
    if tensor.fibers() == 0 {
        return Ok(None);
    }
    let shape = tensor.shape();
    let floor = Params::default().code_floor / 2.0;
    let begun = Instant::now();
    let params = Params { passes: Passes::Fixed(PASSES), ..Params::default() };
    let noodl = |mut learner: Learner| {
        learner.learn(&tensor)?;
        Ok::<_, Error>((learner.dictionary().clone(), learner.encode(&tensor)?))
    };
    let random = |orthogonal_sweeps: usize| {
        let options = Als { orthogonal_sweeps, ..Als::default() };
        let tries = (0..RESTARTS).map(|restart| {
            let mut cp = random(shape, cell.patterns, cell.seed.wrapping_mul(RESTARTS).wrapping_add(restart));
            als(&tensor, &mut cp, options);
            let cp = cp.alive();
            (cp.fit(&tensor), cp)
        });
        tries.min_by(|a, b| a.0.total_cmp(&b.0)).map(|best| best.1)
    };
    let starts = 10 * cell.patterns;
    let of_power = Power { starts, sweeps: 30, kept: None, residual_sweeps: 30, seed: cell.seed };
    let cp = match method {
        BatchMethod::NoodlNear | BatchMethod::Noodl => None,
        BatchMethod::AlsNear => {
            let start = planted.start(planted.paper_distance())?;
            let factors = Arora::new(start.clone(), 0.0, 2.0 * floor, false).encode(&tensor)?.untangle();
            let mut cp = Cp::new(shape, &start, &factors);
            als(&tensor, &mut cp, Als::default());
            Some(cp)
        }
        BatchMethod::Als => random(0),
        BatchMethod::OrthAls if cell.patterns > shape.rows.min(shape.cols).min(shape.features) => {
            return Ok(None);
        }
        BatchMethod::OrthAls => random(20),
        BatchMethod::Power => Some(power(&tensor, cell.patterns, of_power)),
        BatchMethod::TruncatedPower => {
            // Two standard deviations above the mean: to keep too few biases more than to keep too many.
            let most = |length: usize| {
                let mean = cell.alpha * length as f64;
                (mean + 2.0 * (mean * (1.0 - cell.alpha)).sqrt()).ceil() as usize
            };
            let kept = Some((most(shape.rows), most(shape.cols)));
            Some(power(&tensor, cell.patterns, Power { kept, residual_sweeps: 0, ..of_power }))
        }
    };
    let (dictionary, codes) = match (method, cp.map(Cp::alive)) {
        (_, Some(cp)) if cp.patterns() == 0 => return Ok(None),
        (_, Some(cp)) => (cp.dictionary()?, cp.codes(&tensor, floor)),
        (BatchMethod::NoodlNear, None) => {
            noodl(Learner::new(planted.start(planted.paper_distance())?, params)?)?
        }
        (_, None) => noodl(Learner::from_nothing(shape.features, params, DiscoverParams::default())?)?,
    };
    let seconds = begun.elapsed().as_secs_f64();
    let matching = Matching::new(&dictionary, truth)?;
    let mut shown = vec![0; truth.patterns()];
    for code in true_codes.matrix().columns() {
        code.iter().for_each(|entry| shown[entry.0 as usize] += 1);
    }
    let distances = matching.distances(&dictionary, truth).into_iter().zip(&shown);
    let mut distances: Vec<f64> = distances.filter(|(_, shown)| **shown >= 2).map(|seen| seen.0).collect();
    distances.sort_by(f64::total_cmp);
    Ok(Some(BatchOutcome {
        cell,
        method,
        seen: distances.len(),
        found: distances.iter().filter(|distance| **distance <= NEAR).count(),
        spurious: PatternCounts::new(&dictionary, truth, &shown)?.spurious,
        median_distance: distances.get(distances.len() / 2).copied().unwrap_or(0.0),
        error_a: (distances.iter().map(|d| d * d).sum::<f64>() / distances.len().max(1) as f64).sqrt(),
        error_x: matching.error_x(&codes, &true_codes),
        support: matching.same_support(&codes, &true_codes),
        seconds,
    }))
}

fn random(shape: Shape, patterns: usize, seed: u64) -> Cp {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut draw = |length: usize| (0..length * patterns).map(|_| rng.random::<f64>() - 0.5).collect();
    let mut cp = Cp { shape, features: draw(shape.features), rows: draw(shape.rows), cols: draw(shape.cols) };
    cp.normalize_all();
    cp
}
