//! What chance finds: the same climb as that of the search, among fibers without patterns.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use rayon::prelude::*;

use crate::discover::unit_fibers::{BLOCK, Fibers, dot, normalise};
use crate::linalg::decompose::eigen;
use crate::linalg::product::{add_product, transposed_product};

/// Climbs among Gaussian fibers for one null.
const NULL_CLIMBS: usize = 64;

/// Probes that share a product.
const PIECE: usize = 16;

/// A direction at the top of a climb.
pub(crate) struct Top {
    pub(crate) direction: Vec<f32>,
    /// sum_f -log(1 - cos^2): some six for a parallel fiber, next to nothing for one by chance.
    pub(crate) evidence: f32,
    /// Fibers within 45 degrees.
    pub(crate) fibers: usize,
}

/// Climbs from every probe among unit fibers, two steps: u <- unit(sum c^3 r).
pub(crate) fn climb(fibers: &[f32], mut probes: Vec<f32>, n: usize) -> Vec<Top> {
    let q = fibers.len() / n;
    // In few dimensions chance comes near to everything.
    let chance = (2.0 * (2.0 * q as f32).ln() / n as f32).sqrt().min(0.8);
    probes
        .par_chunks_mut(n * PIECE)
        .flat_map_iter(|probes| {
            let mut cosines = vec![0.0; q * (probes.len() / n)];
            for _ in 0..2 {
                transposed_product(&mut cosines, fibers, probes, n);
                cosines.iter_mut().for_each(|c| *c = if c.abs() > chance { *c * *c * *c } else { 0.0 });
                probes.fill(0.0);
                add_product(probes, fibers, &cosines, n);
                probes.chunks_exact_mut(n).for_each(|probe| {
                    normalise(probe);
                });
            }
            transposed_product(&mut cosines, fibers, probes, n);
            let tops = probes.chunks_exact(n).zip(cosines.chunks_exact(q)).map(|(probe, cosines)| Top {
                direction: probe.to_vec(),
                evidence: cosines.iter().map(|c| -(1.0 - c * c + 0.002_f32).max(0.002).ln()).sum(),
                fibers: cosines.iter().filter(|c| c.abs() > 0.7).count(),
            });
            tops.collect::<Vec<Top>>()
        })
        .collect()
}

/// Fibers without patterns: Gaussian, with the covariance of the data.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct NullModel {
    n: usize,
    rng: ChaCha8Rng,
    /// Sum of y y' over so many unit fibers of the data.
    moment: Vec<f64>,
    count: usize,
    pub(crate) flat: Flat,
    /// The one direction that nearly all of the data has, if there is one.
    pub(crate) only: Option<Vec<f32>>,
    /// Drawn when the data had shown so many.
    fibers: Vec<f32>,
    drawn_at: usize,
}

/// Makes directions smaller that most fibers share: what is common to all of them is no pattern, and would hide
/// those that are rare. Where no direction stands out it changes nothing.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Flat {
    /// Unit directions, and by how much they shrink.
    directions: Vec<f32>,
    scales: Vec<f32>,
}

impl Flat {
    pub(crate) fn apply(&self, y: &mut [f32]) {
        for (v, scale) in self.directions.chunks_exact(y.len()).zip(&self.scales) {
            let along = (scale - 1.0) * dot(v, y);
            y.iter_mut().zip(v).for_each(|(y, v)| *y += along * v);
        }
    }

    pub(crate) fn undo(&self, y: &mut [f32]) {
        for (v, scale) in self.directions.chunks_exact(y.len()).zip(&self.scales) {
            let along = (1.0 / scale - 1.0) * dot(v, y);
            y.iter_mut().zip(v).for_each(|(y, v)| *y += along * v);
        }
    }
}

/// Fibers of the data that tell its covariance.
const COVARIANCE: usize = 4096;

/// A direction with this share of the energy is all there is. Chance cannot be asked: Gaussian fibers of that
/// covariance have it too.
pub(crate) const ONLY: f64 = 0.9;

/// A direction stands out if it has so many times the energy of a usual one.
const STANDS_OUT: f64 = 3.0;

impl NullModel {
    pub(crate) fn new(n: usize, seed: u64) -> NullModel {
        let rng = ChaCha8Rng::seed_from_u64(seed ^ 0x6e75_6c6c);
        let (moment, flat, fibers) = (vec![0.0; n * n], Flat::default(), Vec::new());
        NullModel { n, rng, moment, count: 0, flat, only: None, fibers, drawn_at: 0 }
    }

    /// Whether its parts fit together.
    pub(crate) fn is_sound(&self, n: usize) -> bool {
        let finite = |values: &[f32]| values.iter().all(|value| value.is_finite());
        self.n == n
            && self.moment.len() == n * n
            && self.moment.iter().all(|value| value.is_finite())
            && self.count <= COVARIANCE
            && self.flat.directions.len() == n * self.flat.scales.len()
            && finite(&self.flat.directions)
            && self.flat.scales.iter().all(|scale| *scale > 0.0 && scale.is_finite())
            && self.only.as_ref().is_none_or(|only| only.len() == n && finite(only))
            && self.fibers.len().is_multiple_of(n)
            && finite(&self.fibers)
    }

    /// Looks at fibers of the data, until it has seen enough.
    pub(crate) fn add(&mut self, data: &Fibers) {
        let n = self.n;
        let some = data.len().min(COVARIANCE - self.count);
        if some == 0 {
            return;
        }
        // Y Y' as the transposed product of Y'.
        let mut rows = vec![0.0; n * some];
        for f in 0..some {
            let y = data.get(f * data.len() / some);
            y.iter().enumerate().for_each(|(feature, y)| rows[feature * some + f] = *y as f64);
        }
        let mut moment = vec![0.0; n * n];
        transposed_product(&mut moment, &rows, &rows, some);
        self.moment.iter_mut().zip(moment).for_each(|(sum, y)| *sum += y);
        self.count += some;
    }

    /// Draws so many fibers, unless they are there.
    pub(crate) fn prepare(&mut self, count: usize) {
        let n = self.n;
        if self.fibers.len() >= count * n && 2 * self.drawn_at >= self.count {
            return;
        }
        let mean = self.count as f64 / n as f64;
        // Few fibers span few directions, and say little of the others.
        let unknown = (1.0 - self.count as f64 / (4 * n) as f64).max(1e-6);
        let mut covariance = self.moment.clone();
        covariance.iter_mut().for_each(|c| *c *= 1.0 - unknown);
        (0..n).for_each(|i| covariance[i * n + i] += unknown * mean);
        let Some((energies, directions)) = eigen(&covariance, n) else { return };
        let only = energies.last().is_some_and(|&energy| energy >= ONLY * self.count as f64);
        let last = directions[n * (n - 1)..].iter().map(|&a| a as f32);
        self.only = (only && self.count >= 2).then(|| last.collect());
        // What is usual: the median of the directions that have something.
        let high = &energies[energies.partition_point(|&energy| energy < mean)..];
        let most = STANDS_OUT * high.get(high.len() / 2).copied().unwrap_or(mean);
        self.flat = Flat::default();
        let mut factor = vec![0.0; n * n];
        for (i, (&energy, v)) in energies.iter().zip(directions.chunks_exact(n)).enumerate() {
            if energy > most {
                self.flat.directions.extend(v.iter().map(|&v| v as f32));
                self.flat.scales.push((most / energy).sqrt() as f32);
            }
            let length = energy.clamp(0.0, most).sqrt();
            factor[i * n..][..n].iter_mut().zip(v).for_each(|(out, v)| *out = (length * v) as f32);
        }
        let normal: Vec<f32> = (0..count * n).map(|_| self.rng.sample(StandardNormal)).collect();
        self.fibers = vec![0.0; count * n];
        let blocks = self.fibers.par_chunks_mut(n * BLOCK).zip(normal.par_chunks(n * BLOCK));
        blocks.for_each(|(fibers, normal)| {
            add_product(fibers, &factor, normal, n);
            fibers.chunks_exact_mut(n).for_each(|fiber| {
                normalise(fiber);
            });
        });
        self.drawn_at = self.count;
    }

    /// What chance finds among this many fibers.
    pub(crate) fn threshold(&mut self, count: usize) -> Threshold {
        let n = self.n;
        let probes: Vec<f32> = (0..NULL_CLIMBS)
            .flat_map(|_| self.fibers[self.rng.random_range(0..count) * n..][..n].to_vec())
            .collect();
        let tops = climb(&self.fibers[..count * n], probes, n);
        Threshold {
            evidence: tops.iter().map(|top| top.evidence).fold(0.0, f32::max),
            fibers: tops.iter().map(|top| top.fibers.saturating_sub(1) as f64).sum::<f64>()
                / NULL_CLIMBS as f64,
        }
    }
}

/// So many times the evidence of chance is clear without more fibers than chance has.
const NEARER: f32 = 2.0;

/// What chance finds.
pub(crate) struct Threshold {
    /// At most.
    pub(crate) evidence: f32,
    /// On the average, fibers within 45 degrees beside the probe itself: none unless dimensions are few.
    fibers: f64,
}

impl Threshold {
    pub(crate) fn passed_by(&self, top: &Top) -> bool {
        // One false alarm in 10,000 probes. In few dimensions many fibers come near by chance, but not as near.
        let many = surprise(top.fibers as f64 - 1.0, self.fibers) > 1e4_f64.ln();
        top.fibers >= 2 && top.evidence > self.evidence * if many { 1.0 } else { NEARER }
    }
}

/// Minus the log of the probability that chance brings so many where it brings `expected` on the average, at
/// least (Chernoff's bound for a Poisson number).
pub(crate) fn surprise(count: f64, expected: f64) -> f64 {
    if count <= expected {
        0.0
    } else if expected == 0.0 {
        f64::INFINITY
    } else {
        count * (count / expected).ln() - (count - expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flattening_is_undone() {
        let flat = Flat { directions: vec![0.6, 0.8, 0.0], scales: vec![0.25] };
        let mut y = [3.0, 4.0, 1.0];
        flat.apply(&mut y);
        assert!((dot(&y, &[0.6, 0.8, 0.0]) - 1.25).abs() < 1e-6 && y[2] == 1.0);
        flat.undo(&mut y);
        assert!(y.iter().zip([3.0, 4.0, 1.0]).all(|(a, b)| (a - b).abs() < 1e-5));
    }

    #[test]
    fn chance_is_passed_by_more_fibers_than_it_has() {
        let top = |evidence: f32, fibers: usize| Top { direction: vec![], evidence, fibers };
        let rare = Threshold { evidence: 10.0, fibers: 0.0 };
        assert!(
            rare.passed_by(&top(10.1, 2)) && !rare.passed_by(&top(10.0, 9)) && !rare.passed_by(&top(99.0, 1))
        );
        let common = Threshold { evidence: 10.0, fibers: 50.0 };
        // 50 + sqrt(2 * 50 * ln 10^4) and a little more.
        assert!(common.passed_by(&top(11.0, 85)) && !common.passed_by(&top(11.0, 80)));
        assert!(common.passed_by(&top(20.1, 40)), "or much nearer");
    }
}
