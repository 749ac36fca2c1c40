//! The pairwise start that the paper refers to (Arora, Ge, Ma and Moitra 2015), for comparison.
//!
//! Two fibers u and v that share one pattern, and no more, single it out: the second moment weighted by how much a
//! fiber has in common with both,
//!
//! ```text
//! M_uv = sum_f <y_f, u> <y_f, v> y_f y_f'
//! ```
//!
//! has one dominant direction, and that is the pattern. So pairs are drawn until nothing new comes: a singular value
//! that dwarfs the second one makes a candidate, candidates near to each other are one pattern, and a pattern hit
//! several times is believed. Most pairs share nothing, and patterns come like the coupons of a collector; the search of
//! `search.rs` finds the same at a hundredth of the cost.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::data::dictionary::Dictionary;
use crate::data::tensor::Tensor;
use crate::discover::unit_fibers::{Fibers, dot, normalise};
use crate::error::Error;
use crate::linalg::product::{add_product, transposed_product};
use crate::params::{Above, AtLeast, AtMost, Below, within};

/// How pairs are drawn and judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Pairs {
    /// Pairs drawn, at most. It ends before if half of all pairs, and 20,000, brought nothing new.
    pub most_pairs: usize,
    /// Fibers that the moments are made of, at most.
    pub most_fibers: usize,
    /// The second singular value may be this share of the first.
    pub ratio: f64,
    /// Candidates nearer than this are one pattern.
    pub distance: f64,
    /// Hits that make a pattern.
    pub least_hits: usize,
    /// Of the random draws.
    pub seed: u64,
}

impl Pairs {
    /// What suits patterns of this length.
    pub fn new(features: usize) -> Pairs {
        let distance = (2.0 / (features.max(2) as f64).ln()).min(1.0);
        let (most_pairs, most_fibers) = (100_000, 4_000);
        Pairs { most_pairs, most_fibers, ratio: 0.2, distance, least_hits: 3, seed: 0 }
    }
}

/// What the pairs have found, the most often hit first.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Found {
    /// The patterns.
    pub dictionary: Dictionary,
    /// How often each was hit.
    pub hits: Vec<usize>,
    /// Pairs drawn.
    pub pairs: usize,
    /// Pairs with one dominant direction.
    pub accepted: usize,
}

/// Pairs whose products are made together.
const BATCH: usize = 8;

/// Pairs without anything new that end the search, at least.
const ENOUGH: usize = 20_000;

/// Batches between two looks at what is new.
const ROUND: usize = 64;

/// Steps of the power method, which two orthogonal vectors make together.
const POWER_STEPS: usize = 10;

/// Finds patterns by pairs of fibers.
pub fn find(tensor: &Tensor<'_>, pairs: &Pairs) -> Result<Found, Error> {
    within("ratio", pairs.ratio, Above(0.0), Below(1.0))?;
    within("distance", pairs.distance, Above(0.0), AtMost(1.0))?;
    within("least_hits", pairs.least_hits as f64, AtLeast(1.0), Below(f64::INFINITY))?;
    within("most_fibers", pairs.most_fibers as f64, AtLeast(2.0), Below(f64::INFINITY))?;
    let n = tensor.shape().features;
    let mut fibers = Fibers::new(n);
    let every = tensor.fibers().div_ceil(pairs.most_fibers).max(1);
    (0..tensor.fibers()).step_by(every).for_each(|fiber| fibers.push(tensor, fiber));

    let mut rng = ChaCha8Rng::seed_from_u64(pairs.seed);
    let mut candidates: Vec<Candidate> = Vec::new();
    let (mut drawn, mut accepted, mut latest) = (0, 0, 0);
    while fibers.len() > 1 && drawn < pairs.most_pairs.min(2 * latest + ENOUGH) {
        let batches: Vec<Vec<(usize, usize)>> = (0..ROUND)
            .map(|_| {
                let pair = || (rng.random_range(0..fibers.len()), rng.random_range(0..fibers.len()));
                std::iter::repeat_with(pair).filter(|(u, v)| u != v).take(BATCH).collect()
            })
            .collect();
        drawn += ROUND * BATCH;
        let tops: Vec<Vec<f32>> =
            batches.par_iter().flat_map_iter(|batch| dominant(&fibers, batch, pairs)).collect();
        accepted += tops.len();
        for top in tops {
            let near = (1.0 - pairs.distance.powi(2) / 2.0) as f32;
            let same = candidates.iter_mut().find(|known| dot(&known.mean, &top).abs() > near);
            let hits = match same {
                Some(known) => known.hit(&top),
                None => {
                    candidates.push(Candidate { mean: top.clone(), sum: top, hits: 1 });
                    1
                }
            };
            if hits == pairs.least_hits {
                latest = drawn;
            }
        }
    }
    candidates.retain(|candidate| candidate.hits >= pairs.least_hits);
    candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.hits));
    let hits = candidates.iter().map(|candidate| candidate.hits).collect();
    let mut dictionary = Dictionary::empty(n);
    let columns = candidates.iter().flat_map(|candidate| &candidate.mean).map(|&a| a as f64);
    dictionary.append(columns.collect())?;
    Ok(Found { dictionary, hits, pairs: drawn, accepted })
}

/// Pairs that lead to the same direction.
struct Candidate {
    /// Of unit length.
    mean: Vec<f32>,
    /// Of all hits, each with its sign.
    sum: Vec<f32>,
    hits: usize,
}

impl Candidate {
    /// Once more; returns how often by now.
    fn hit(&mut self, top: &[f32]) -> usize {
        let sign = dot(&self.mean, top).signum();
        self.sum.iter_mut().zip(top).for_each(|(sum, a)| *sum += sign * a);
        self.mean.copy_from_slice(&self.sum);
        normalise(&mut self.mean);
        self.hits += 1;
        self.hits
    }
}

/// The dominant directions of those M_uv that have one, M never formed: two orthogonal vectors for each pair, by the
/// power method.
fn dominant(fibers: &Fibers, batch: &[(usize, usize)], pairs: &Pairs) -> Vec<Vec<f32>> {
    let (n, q) = (fibers.n, fibers.len());
    let mut vectors: Vec<f32> =
        batch.iter().flat_map(|&(u, v)| [fibers.get(u), fibers.get(v)].concat()).collect();
    let mut along = vec![0.0; q * vectors.len() / n];
    transposed_product(&mut along, &fibers.values, &vectors, n);
    let weights: Vec<f32> = along
        .chunks_exact(2 * q)
        .flat_map(|pair| (0..q).map(|f| pair[f] * pair[q + f]).collect::<Vec<f32>>())
        .collect();
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
    let mut tops = Vec::new();
    for pair in vectors.chunks_exact_mut(2 * n) {
        let (top, second) = pair.split_at_mut(n);
        let first = dot(top, top).sqrt();
        normalise(top);
        let part = dot(top, second);
        second.iter_mut().zip(top.iter()).for_each(|(b, a)| *b -= part * a);
        // Where fibers have but one direction, nothing is left of the second.
        let second = dot(second, second).sqrt();
        if second < pairs.ratio as f32 * first {
            tops.push(top.to_vec());
        }
    }
    tops
}

/// Makes two vectors orthonormal.
fn orthonormal(pair: &mut [f32], n: usize) {
    let (a, b) = pair.split_at_mut(n);
    normalise(a);
    let part = dot(a, b);
    b.iter_mut().zip(a.iter()).for_each(|(b, a)| *b -= part * a);
    if !normalise(b) {
        b.fill(0.0);
    }
}
