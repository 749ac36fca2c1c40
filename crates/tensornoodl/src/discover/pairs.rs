//! The pairwise start that the paper refers to (Arora, Ge, Ma and Moitra 2015), for comparison with the search.
//!
//! Symbols: n is the number of features, y_f a fiber scaled to unit length (n x 1), u and v two of these fibers.
//!
//! If u and v share exactly one pattern, the second moment of the fibers, weighted by their products with u and v,
//!
//! ```text
//! M_uv = sum_f <y_f, u> <y_f, v> y_f y_f'    (n x n)
//! ```
//!
//! has one dominant direction, and this direction is the pattern. The method draws random pairs. A pair whose first
//! singular value is much larger than the second gives a candidate. Candidates near each other are one pattern, and a
//! candidate that several pairs hit is accepted. The method ends when further pairs bring nothing new.
//!
//! Most pairs share no pattern, and the last patterns take many pairs (the coupon collector's problem). The search of
//! `search.rs` finds the same patterns at about a hundredth of the cost.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::data::dictionary::{Dictionary, UnitVector};
use crate::data::tensor::Tensor;
use crate::discover::unit_fibers::{UnitFibers, dot, normalise};
use crate::error::Error;
use crate::linalg::product::{add_product, transposed_product};
use crate::params::{Above, AtLeast, AtMost, Below, within};

/// Parameters of the pairwise start.
#[derive(Debug, Clone, PartialEq)]
pub struct PairParams {
    /// Largest number of pairs. The method ends earlier if half of all pairs, and at least 20,000, brought nothing new.
    pub max_pairs: usize,
    /// Largest number of fibers in the moments M_uv, at least 2. If the tensor has more, every k-th fiber is used.
    pub max_fibers: usize,
    /// Largest second singular value of M_uv relative to the first, in (0, 1).
    pub ratio: f64,
    /// Candidates nearer to each other than this are one pattern, in (0, 1].
    pub distance: f64,
    /// Smallest number of hits of an accepted pattern, at least 1.
    pub min_hits: usize,
    /// Seed of the random pairs.
    pub seed: u64,
}

impl PairParams {
    /// Default parameters for patterns with this number of features.
    pub fn new(features: usize) -> PairParams {
        let distance = (2.0 / (features.max(2) as f64).ln()).min(1.0);
        PairParams { max_pairs: 100_000, max_fibers: 4_000, ratio: 0.2, distance, min_hits: 3, seed: 0 }
    }
}

/// The patterns that pairs of fibers have found.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Found {
    /// The patterns, most hits first.
    pub dictionary: Dictionary,
    /// Number of pairs that hit each pattern.
    pub hits: Vec<usize>,
    /// Number of pairs drawn.
    pub pairs: usize,
    /// Number of pairs with one dominant direction.
    pub accepted: usize,
}

/// Number of pairs whose moments are computed together.
const BATCH: usize = 8;

/// Smallest number of pairs without a new pattern that ends the method.
const PATIENCE: usize = 20_000;

/// Number of batches drawn before their candidates are compared.
const ROUND: usize = 64;

/// Number of iterations of the power method, with two orthogonal vectors.
const POWER_STEPS: usize = 10;

/// Finds patterns with pairs of fibers.
///
/// # Errors
/// [`Error::Parameter`] if a parameter is outside its range.
pub fn find(tensor: &Tensor<'_>, params: &PairParams) -> Result<Found, Error> {
    within("ratio", params.ratio, Above(0.0), Below(1.0))?;
    within("distance", params.distance, Above(0.0), AtMost(1.0))?;
    within("min_hits", params.min_hits as f64, AtLeast(1.0), Below(f64::INFINITY))?;
    within("max_fibers", params.max_fibers as f64, AtLeast(2.0), Below(f64::INFINITY))?;
    let n = tensor.shape().features;
    let mut fibers = UnitFibers::new(n);
    let every = tensor.fibers().div_ceil(params.max_fibers).max(1);
    (0..tensor.fibers()).step_by(every).for_each(|fiber| fibers.push(tensor, fiber));

    let mut rng = ChaCha8Rng::seed_from_u64(params.seed);
    let mut candidates: Vec<Candidate> = Vec::new();
    // `latest` is the number of pairs drawn when the latest pattern got enough hits.
    let (mut drawn, mut accepted, mut latest) = (0, 0, 0);
    while fibers.len() > 1 && drawn < params.max_pairs.min(2 * latest + PATIENCE) {
        let batches: Vec<Vec<(usize, usize)>> = (0..ROUND)
            .map(|_| {
                let pair = || (rng.random_range(0..fibers.len()), rng.random_range(0..fibers.len()));
                std::iter::repeat_with(pair).filter(|(u, v)| u != v).take(BATCH).collect()
            })
            .collect();
        drawn += ROUND * BATCH;
        let directions: Vec<Vec<f32>> = batches
            .par_iter()
            .flat_map_iter(|batch| dominant_directions(&fibers, batch, params.ratio as f32))
            .collect();
        accepted += directions.len();
        for direction in directions {
            // |a - b|^2 = 2 - 2 cos for unit vectors.
            let near = (1.0 - params.distance.powi(2) / 2.0) as f32;
            let same = candidates.iter_mut().find(|known| dot(&known.mean, &direction).abs() > near);
            let hits = match same {
                Some(known) => known.hit(&direction),
                None => {
                    candidates.push(Candidate { mean: direction.clone(), sum: direction, hits: 1 });
                    1
                }
            };
            if hits == params.min_hits {
                latest = drawn;
            }
        }
    }
    candidates.retain(|candidate| candidate.hits >= params.min_hits);
    candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.hits));
    let hits = candidates.iter().map(|candidate| candidate.hits).collect();
    let mut dictionary = Dictionary::empty(n);
    let columns = candidates.iter().flat_map(|candidate| &candidate.mean).map(|&a| a as f64);
    for column in columns.collect::<Vec<f64>>().chunks_exact(dictionary.features()) {
        let unit = UnitVector::new(column.to_vec());
        dictionary.push(&unit.ok_or(Error::Pattern { pattern: dictionary.patterns(), norm: f64::NAN })?);
    }
    Ok(Found { dictionary, hits, pairs: drawn, accepted })
}

/// The mean of directions that are near each other.
struct Candidate {
    /// The mean direction, of unit length.
    mean: Vec<f32>,
    /// Sum of all directions, with the signs that align them.
    sum: Vec<f32>,
    /// Number of directions.
    hits: usize,
}

impl Candidate {
    /// Adds a direction and returns the number of hits.
    fn hit(&mut self, direction: &[f32]) -> usize {
        let sign = dot(&self.mean, direction).signum();
        self.sum.iter_mut().zip(direction).for_each(|(sum, a)| *sum += sign * a);
        self.mean.copy_from_slice(&self.sum);
        normalise(&mut self.mean);
        self.hits += 1;
        self.hits
    }
}

/// Returns the first singular vector of every M_uv whose second singular value is below `ratio` times the first.
///
/// The power method with two orthogonal vectors per pair computes both without forming M_uv.
fn dominant_directions(fibers: &UnitFibers, batch: &[(usize, usize)], ratio: f32) -> Vec<Vec<f32>> {
    let (n, q) = (fibers.n, fibers.len());
    let mut vectors: Vec<f32> =
        batch.iter().flat_map(|&(u, v)| [fibers.get(u), fibers.get(v)].concat()).collect();
    // <y_f, vector> for both vectors of every pair, and the weights <y_f, u> <y_f, v>.
    let mut along = vec![0.0; q * vectors.len() / n];
    transposed_product(&mut along, &fibers.values, &vectors, n);
    let weights: Vec<f32> = along
        .chunks_exact(2 * q)
        .flat_map(|pair| (0..q).map(|f| pair[f] * pair[q + f]).collect::<Vec<f32>>())
        .collect();
    // Replaces both vectors of every pair by M_uv times their orthonormal basis.
    let mut multiply = |vectors: &mut Vec<f32>| {
        vectors.chunks_exact_mut(2 * n).for_each(|pair| orthonormal(pair, n));
        transposed_product(&mut along, &fibers.values, vectors, n);
        for (pair, weights) in along.chunks_exact_mut(2 * q).zip(weights.chunks_exact(q)) {
            for along in pair.chunks_exact_mut(q) {
                along.iter_mut().zip(weights).for_each(|(along, weight)| *along *= weight);
            }
        }
        vectors.fill(0.0);
        add_product(vectors, &fibers.values, &along, n);
    };
    (0..POWER_STEPS).for_each(|_| multiply(&mut vectors));
    let mut directions = Vec::new();
    for pair in vectors.chunks_exact_mut(2 * n) {
        let (direction, second) = pair.split_at_mut(n);
        let first = dot(direction, direction).sqrt();
        normalise(direction);
        let part = dot(direction, second);
        second.iter_mut().zip(direction.iter()).for_each(|(b, a)| *b -= part * a);
        // 0 if all fibers are parallel.
        let second = dot(second, second).sqrt();
        if second < ratio * first {
            directions.push(direction.to_vec());
        }
    }
    directions
}

/// Makes two vectors (n values each) orthonormal. The second becomes 0 if they are parallel.
fn orthonormal(pair: &mut [f32], n: usize) {
    let (a, b) = pair.split_at_mut(n);
    normalise(a);
    let part = dot(a, b);
    b.iter_mut().zip(a.iter()).for_each(|(b, a)| *b -= part * a);
    if !normalise(b) {
        b.fill(0.0);
    }
}
