//! The null model of the search: the largest peak that the hill climbing of `search.rs` reaches by chance.
//!
//! Symbols: n is the number of features, q the number of fibers in a climb, r_f a fiber of unit length (n x 1),
//! u a direction of unit length, c_f = <u, r_f> a cosine.
//!
//! A climb moves u to a local maximum (a peak) of sum_f c_f^4. A peak in the data counts as a pattern only if it is
//! higher than the peaks in fibers that contain no pattern. [`NullModel`] draws such fibers: Gaussian vectors with
//! the covariance of the data, scaled to unit length. [`Threshold`] is the height that the climb reaches among them.
//!
//! A few directions may carry most of the energy of all fibers, for example their mean. [`Flattening`] shrinks these
//! directions in the data and in the null fibers, because they would hide the rare patterns.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use rayon::prelude::*;

use crate::discover::spectrum::{Spectrum, moment};
use crate::discover::unit_fibers::{BLOCK, UnitFibers, dot, normalise};
use crate::linalg::product::{add_product, transposed_product};

/// Number of climbs among null fibers for one threshold.
const NULL_CLIMBS: usize = 64;

/// Number of probes whose cosines are computed with one matrix product.
const PROBES_PER_BLOCK: usize = 16;

/// Number of iterations of one climb.
const CLIMB_STEPS: usize = 2;

/// The result of one climb.
pub(crate) struct Peak {
    /// The direction u, of unit length.
    pub(crate) direction: Vec<f32>,
    /// sum_f -log(1 - c_f^2 + 0.002): about 6.2 for a fiber parallel to u, almost 0 for a random fiber.
    pub(crate) evidence: f32,
    /// Number of fibers within 45 degrees of u or -u, including the probe.
    pub(crate) fibers: usize,
}

/// Climbs from every probe (columns, n each) among unit fibers (columns, n each): u <- unit(sum_f c_f^3 r_f).
pub(crate) fn climb(fibers: &[f32], mut probes: Vec<f32>, n: usize) -> Vec<Peak> {
    let q = fibers.len() / n;
    // Smaller cosines are set to 0: about the largest cosine of u with q random fibers. In few dimensions random
    // fibers have large cosines, therefore the bound.
    let chance = (2.0 * (2.0 * q as f32).ln() / n as f32).sqrt().min(0.8);
    probes
        .par_chunks_mut(n * PROBES_PER_BLOCK)
        .flat_map_iter(|probes| {
            let mut cosines = vec![0.0; q * (probes.len() / n)];
            for _ in 0..CLIMB_STEPS {
                transposed_product(&mut cosines, fibers, probes, n);
                cosines.iter_mut().for_each(|c| *c = if c.abs() > chance { *c * *c * *c } else { 0.0 });
                probes.fill(0.0);
                add_product(probes, fibers, &cosines, n);
                probes.chunks_exact_mut(n).for_each(|probe| {
                    normalise(probe);
                });
            }
            transposed_product(&mut cosines, fibers, probes, n);
            let peaks = probes.chunks_exact(n).zip(cosines.chunks_exact(q)).map(|(probe, cosines)| Peak {
                direction: probe.to_vec(),
                evidence: cosines.iter().map(|c| -(1.0 - c * c + 0.002_f32).max(0.002).ln()).sum(),
                fibers: cosines.iter().filter(|c| c.abs() > 0.7).count(),
            });
            peaks.collect::<Vec<Peak>>()
        })
        .collect()
}

/// A source of fibers without patterns: Gaussian, with the covariance of the data.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct NullModel {
    n: usize,
    rng: ChaCha8Rng,
    /// The first `count` unit fibers y of the data (n values each) while they are fewer than n, then the sum of y y'
    /// (n x n).
    #[serde(rename = "moment")]
    second_moment: Vec<f64>,
    count: usize,
    /// Shrinks the directions that most fibers of the data share.
    #[serde(rename = "flat")]
    pub(crate) flattening: Flattening,
    /// The direction that has nearly all energy of the data (see [`SINGLE_DIRECTION`]), if there is one.
    #[serde(rename = "only")]
    pub(crate) single_direction: Option<Vec<f32>>,
    /// Whether the part that all fibers have in common is shrunk to the usual energy. Only a first search does that.
    #[serde(skip)]
    pub(crate) common_part: bool,
    /// Null fibers, n values each.
    fibers: Vec<f32>,
    /// Value of `count` when the null fibers were drawn.
    drawn_at: usize,
}

/// A linear map that shrinks the dominant directions of the data.
///
/// A direction that most fibers share is not a pattern, and would hide rare patterns. The map is the identity where
/// no direction dominates.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Flattening {
    /// Orthonormal directions, n values each.
    directions: Vec<f32>,
    /// The factor in (0, 1) of each direction.
    scales: Vec<f32>,
}

impl Flattening {
    /// Shrinks the dominant directions of y.
    pub(crate) fn apply(&self, y: &mut [f32]) {
        for (v, scale) in self.directions.chunks_exact(y.len()).zip(&self.scales) {
            let along = (scale - 1.0) * dot(v, y);
            y.iter_mut().zip(v).for_each(|(y, v)| *y += along * v);
        }
    }

    /// Reverses [`Flattening::apply`].
    pub(crate) fn undo(&self, y: &mut [f32]) {
        for (v, scale) in self.directions.chunks_exact(y.len()).zip(&self.scales) {
            let along = (1.0 / scale - 1.0) * dot(v, y);
            y.iter_mut().zip(v).for_each(|(y, v)| *y += along * v);
        }
    }
}

/// Largest number of fibers from which the covariance of the data is estimated.
pub(crate) const MAX_COVARIANCE_FIBERS: usize = 4096;

/// Share of the energy above which one direction is accepted as a pattern without a threshold. The null model cannot
/// decide this case, because Gaussian fibers with this covariance have the direction as well.
pub(crate) const SINGLE_DIRECTION: f64 = 0.9;

/// A direction is dominant if its energy is more than this many times the usual energy of a direction. It is shrunk to
/// that many times the usual energy, or to the usual energy itself: see [`NullModel::without_common_part`].
const DOMINANT: f64 = 3.0;

/// Directions are patterns, not noise, if those above the mean hold at least this share of the energy.
const CONCENTRATED: f64 = 0.9;

impl NullModel {
    /// A null model that has seen no data.
    pub(crate) fn new(n: usize, seed: u64) -> NullModel {
        NullModel {
            n,
            rng: ChaCha8Rng::seed_from_u64(seed ^ 0x6e75_6c6c),
            second_moment: Vec::new(),
            count: 0,
            flattening: Flattening::default(),
            single_direction: None,
            common_part: false,
            fibers: Vec::new(),
            drawn_at: 0,
        }
    }

    /// Returns whether all lengths match n features and all values are finite.
    pub(crate) fn is_sound(&self, n: usize) -> bool {
        let finite = |values: &[f32]| values.iter().all(|value| value.is_finite());
        self.n == n
            && (self.second_moment.len() == n * n || self.holds_fibers())
            && self.second_moment.iter().all(|value| value.is_finite())
            && self.count <= MAX_COVARIANCE_FIBERS
            && self.flattening.directions.len() == n * self.flattening.scales.len()
            && finite(&self.flattening.directions)
            && self.flattening.scales.iter().all(|scale| *scale > 0.0 && scale.is_finite())
            && self
                .single_direction
                .as_ref()
                .is_none_or(|direction| direction.len() == n && finite(direction))
            && self.fibers.len().is_multiple_of(n)
            && finite(&self.fibers)
    }

    /// Adds fibers of the data to the covariance, until it has [`MAX_COVARIANCE_FIBERS`].
    pub(crate) fn add(&mut self, data: &UnitFibers) {
        let n = self.n;
        let some = data.len().min(MAX_COVARIANCE_FIBERS - self.count);
        if some == 0 {
            return;
        }
        let fibers = (0..some).flat_map(|f| data.get(f * data.len() / some)).map(|y| *y as f64);
        let mut new: Vec<f64> = fibers.collect();
        if self.holds_fibers() {
            self.second_moment.append(&mut new);
            self.count += some;
            if self.count >= n {
                self.second_moment = moment(&self.second_moment, n);
            }
            return;
        }
        self.second_moment.iter_mut().zip(moment(&new, n)).for_each(|(sum, y)| *sum += y);
        self.count += some;
    }

    /// Whether `second_moment` has the fibers themselves.
    fn holds_fibers(&self) -> bool {
        self.count < self.n && self.second_moment.len() == self.n * self.count
    }

    /// The directions of the data and the energy along each, and the energy of all other directions.
    ///
    /// Fewer than 4 n fibers do not determine the covariance: it is mixed with a multiple of the identity.
    fn spectrum(&self) -> Option<(Spectrum, f64)> {
        let n = self.n;
        let unknown = (1.0 - self.count as f64 / (4 * n) as f64).max(1e-6);
        let added = unknown * (self.count as f64 / n as f64);
        if self.holds_fibers() {
            let mut spectrum = Spectrum::of_fibers(&self.second_moment, n)?;
            spectrum.energies.iter_mut().for_each(|energy| *energy = (1.0 - unknown) * *energy + added);
            return Some((spectrum, added));
        }
        let mut covariance = self.second_moment.clone();
        covariance.iter_mut().for_each(|c| *c *= 1.0 - unknown);
        (0..n).for_each(|i| covariance[i * n + i] += added);
        Some((Spectrum::of_moment(&covariance, n)?, 0.0))
    }

    /// The null model that shrinks the part that all fibers have in common to the usual energy. None if there is no such
    /// part.
    ///
    /// Patterns without negative values have a large part in common, and Gaussian fibers with this part are as much alike
    /// as they are: only what is left of the patterns tells them from chance.
    pub(crate) fn without_common_part(&self) -> Option<NullModel> {
        let (Spectrum { energies, .. }, _) = self.spectrum()?;
        let total = self.count as f64;
        let usual = usual_energy_without_largest(&energies, total, self.n);
        let has_part = energies.last().is_some_and(|&energy| energy > DOMINANT * usual);
        has_part.then(|| NullModel { common_part: true, fibers: Vec::new(), ..self.clone() })
    }

    /// Keeps the part that all fibers have in common from now on.
    pub(crate) fn keep_common_part(&mut self) {
        if std::mem::take(&mut self.common_part) {
            self.fibers.clear();
        }
    }

    /// Draws `count` null fibers, unless there are enough already and the data has not doubled since.
    pub(crate) fn prepare(&mut self, count: usize) {
        let n = self.n;
        if self.fibers.len() >= count * n && 2 * self.drawn_at >= self.count {
            return;
        }
        let Some((Spectrum { energies, directions }, rest)) = self.spectrum() else { return };
        let single = energies.last().is_some_and(|&energy| energy >= SINGLE_DIRECTION * self.count as f64);
        let last = directions[directions.len() - n.min(directions.len())..].iter().map(|&a| a as f32);
        self.single_direction = (single && self.count >= 2).then(|| last.collect());
        let total = self.count as f64;
        // Directions above `most` are shrunk to `left`.
        let (most, left) = if self.common_part {
            let usual = usual_energy_without_largest(&energies, total, n);
            (DOMINANT * usual, usual)
        } else {
            let most = DOMINANT * usual_energy(&energies, total, n).0;
            (most, most)
        };
        self.flattening = Flattening::default();
        for (&energy, v) in energies.iter().zip(directions.chunks_exact(n)) {
            if energy > most {
                self.flattening.directions.extend(v.iter().map(|&v| v as f32));
                self.flattening.scales.push((left / energy).sqrt() as f32);
            }
        }
        let left = |&energy: &f64| if energy > most { left } else { energy.max(0.0) };
        let lengths: Vec<f64> = energies.iter().map(left).map(f64::sqrt).collect();
        self.draw(count, &lengths, &directions, rest.sqrt());
        self.drawn_at = self.count;
    }

    /// Draws `count` Gaussian fibers with these lengths along some directions, and `rest` along all others.
    fn draw(&mut self, count: usize, lengths: &[f64], directions: &[f64], rest: f64) {
        let n = self.n;
        // Fibers with this covariance: independent standard normal numbers, each times its length and direction.
        let normal: Vec<f32> = (0..count * n).map(|_| self.rng.sample(StandardNormal)).collect();
        let scaled: Vec<f32> = directions
            .chunks_exact(n)
            .zip(lengths)
            .flat_map(|(v, length)| v.iter().map(move |&v| ((length - rest) * v) as f32))
            .collect();
        let unit: Vec<f32> =
            if rest > 0.0 { directions.iter().map(|&v| v as f32).collect() } else { Vec::new() };
        self.fibers = vec![0.0; count * n];
        let blocks = self.fibers.par_chunks_mut(n * BLOCK).zip(normal.par_chunks(n * BLOCK));
        blocks.for_each(|(fibers, normal)| {
            if lengths.len() == n {
                add_product(fibers, &scaled, normal, n);
            } else {
                // The part of a standard normal vector along the directions gets their lengths, all else `rest`.
                fibers.iter_mut().zip(normal).for_each(|(y, z)| *y = rest as f32 * z);
                let mut along = vec![0.0; lengths.len() * (normal.len() / n)];
                if !along.is_empty() {
                    transposed_product(&mut along, &unit, normal, n);
                    add_product(fibers, &scaled, &along, n);
                }
            }
            fibers.chunks_exact_mut(n).for_each(|fiber| {
                normalise(fiber);
            });
        });
    }

    /// Climbs among the first `count` null fibers and returns what the climbs reach.
    ///
    /// # Panics
    /// If [`NullModel::prepare`] has not drawn `count` fibers.
    pub(crate) fn threshold(&mut self, count: usize) -> Threshold {
        let n = self.n;
        let probes: Vec<f32> = (0..NULL_CLIMBS)
            .flat_map(|_| self.fibers[self.rng.random_range(0..count) * n..][..n].to_vec())
            .collect();
        let peaks = climb(&self.fibers[..count * n], probes, n);
        Threshold {
            evidence: peaks.iter().map(|peak| peak.evidence).fold(0.0, f32::max),
            fibers: peaks.iter().map(|peak| peak.fibers.saturating_sub(1) as f64).sum::<f64>()
                / NULL_CLIMBS as f64,
        }
    }
}

/// The usual energy of a direction, and the energy of all directions that have at least the mean energy. The usual
/// energy is the median over these. `energies` are increasing; `total` is the energy of all n directions.
fn usual_energy(energies: &[f64], total: f64, n: usize) -> (f64, f64) {
    let mean = total / n as f64;
    let high = &energies[energies.partition_point(|&energy| energy < mean)..];
    (high.get(high.len() / 2).copied().unwrap_or(mean), high.iter().sum())
}

/// The usual energy of a direction where a part that all fibers have in common may hold so much that it alone is above
/// the mean. Then the directions without it decide, provided that they hold something themselves: those above their mean
/// have nearly all of their energy.
fn usual_energy_without_largest(energies: &[f64], total: f64, n: usize) -> f64 {
    let (usual, _) = usual_energy(energies, total, n);
    let Some((&largest, others)) = energies.split_last().filter(|_| n > 1) else { return usual };
    let rest = (total - largest).max(0.0);
    let (usual_of_others, high) = usual_energy(others, rest, n - 1);
    let hidden = largest <= DOMINANT * usual && largest > DOMINANT * usual_of_others;
    if hidden && usual_of_others > 0.0 && high >= CONCENTRATED * rest { usual_of_others } else { usual }
}

/// A peak with this many times the evidence of the null model is accepted whatever its number of fibers.
const CLEAR: f32 = 2.0;

/// The largest peak that the null model reaches.
pub(crate) struct Threshold {
    /// Largest evidence of a peak among null fibers.
    pub(crate) evidence: f32,
    /// Mean number of null fibers within 45 degrees of a peak, without the probe. Almost 0 unless n is small.
    fibers: f64,
}

impl Threshold {
    /// Returns whether a peak is higher than those of the null model.
    ///
    /// At least two fibers must support the peak. If n is small, many null fibers are near a peak by chance, but not as
    /// near as fibers that share a pattern: unless the number of fibers is significant (one false alarm in 10,000
    /// probes), [`CLEAR`] times the evidence is required.
    pub(crate) fn passed_by(&self, peak: &Peak) -> bool {
        let many = surprise(peak.fibers as f64 - 1.0, self.fibers) > 1e4_f64.ln();
        peak.fibers >= 2 && peak.evidence > self.evidence * if many { 1.0 } else { CLEAR }
    }
}

/// Returns a lower bound of -log P(N >= count) for a Poisson number N with mean `expected` (Chernoff).
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
    fn undo_reverses_apply() {
        let flattening = Flattening { directions: vec![0.6, 0.8, 0.0], scales: vec![0.25] };
        let mut y = [3.0, 4.0, 1.0];
        flattening.apply(&mut y);
        assert!((dot(&y, &[0.6, 0.8, 0.0]) - 1.25).abs() < 1e-6 && y[2] == 1.0);
        flattening.undo(&mut y);
        assert!(y.iter().zip([3.0, 4.0, 1.0]).all(|(a, b)| (a - b).abs() < 1e-5));
    }

    #[test]
    fn a_peak_passes_with_more_fibers_or_more_evidence_than_the_null_model() {
        let peak = |evidence: f32, fibers: usize| Peak { direction: vec![], evidence, fibers };
        let rare = Threshold { evidence: 10.0, fibers: 0.0 };
        assert!(
            rare.passed_by(&peak(10.1, 2))
                && !rare.passed_by(&peak(10.0, 9))
                && !rare.passed_by(&peak(99.0, 1))
        );
        let common = Threshold { evidence: 10.0, fibers: 50.0 };
        // About 50 + sqrt(2 * 50 * ln 10^4) fibers are significant.
        assert!(common.passed_by(&peak(11.0, 85)) && !common.passed_by(&peak(11.0, 80)));
        assert!(common.passed_by(&peak(20.1, 40)), "twice the evidence is enough");
    }
}
