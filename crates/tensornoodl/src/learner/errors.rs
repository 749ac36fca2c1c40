//! Error bars: how far the patterns are expected to be from the true ones.
//!
//! ```text
//! exact     |A_i - A*_i|^2 ~ P_i (d / (d - 2))^2                        d = n - 1
//! counts    (A_fi - A*_fi)^2 ~ A_fi (1 - A_fi) / N_i * Y_fi / I_fi      Y_fi = sum_q y_fq r_q, I_fi = sum_q y_fq r_q^2
//! ```
//!
//! Exact: P_i is the variance of least squares whose weights are known (`update/adaptive.rs`). The weight of a
//! fiber is the inverse of its own squared residual, so that stage III in fact minimizes the sum of (n - s) ln
//! |r_f|^2. The variance of its minimum is larger by the second factor.
//!
//! Counts: r_q is the part of the events of feature f at fiber q that pattern i has, the mean over the supports of
//! the fiber by their probability. If all parts were 0 or 1, pattern i would be the shares of N_i events, and A_fi
//! (1 - A_fi) / N_i the variance. Y / I is the whole information over the observed one: expectation-maximization
//! does not know to which pattern an event belongs (Louis 1982). It is measured in the pool of the latest steps.
//! Half an event is added to Y, I and A_fi N_i, so that no share seems to be known exactly.

use crate::data::dictionary::Dictionary;
use crate::discover::counts::encode_in_waves;
use crate::encode::counts::{CountCoder, LEAST};
use crate::learner::counts::Counts;
use crate::learner::{Learner, Method};
use crate::linalg::vector::dot;
use crate::params::Rule;

/// A pattern has error bars once this many tensors have shown it. Before, the adaptive step does not know which
/// part of the first residuals is noise, and its P is several times too large.
const SIGHTINGS: u64 = 4;

/// The smallest number of features with error bars: the weights of shorter fibers vary too much.
pub(crate) const LEAST_FEATURES: usize = 6;

/// Number of events that are added where few were seen.
const HALF: f64 = 0.5;

impl Learner {
    /// For every pattern, its expected distance from the true pattern, relative to the length of the pattern: the
    /// root of the mean square.
    ///
    /// It is `None` for a pattern that fewer than four tensors have shown, for fewer than six features, and for the
    /// paper's step, which does not estimate it. Where fibers have no noise, all are `None`: the error then falls by
    /// orders of magnitude from one tensor to the next, and an estimate may be off by a factor of 100. It is what
    /// chance leaves if the data follows the model and the pattern is one of those in the data: a pattern that is a
    /// mixture of two true ones, or that drifts, is farther away. For counts, events must be independent, and not
    /// damped by a recipe; this encodes the fibers of the latest steps.
    pub fn errors(&self) -> Vec<Option<f64>> {
        let dictionary = &self.common.dictionary;
        let relative = |(i, bars): (usize, &Option<Vec<f64>>)| {
            let (bars, pattern) = (bars.as_ref()?, dictionary.pattern(i));
            Some((dot(bars, bars) / dot(pattern, pattern)).sqrt())
        };
        self.error_bars().iter().enumerate().map(relative).collect()
    }

    /// For every pattern, the standard errors of its n entries: an entry is within 1.64 of them of the true one
    /// with a probability of about 90 %. `None` as in [`Learner::errors`].
    pub fn error_bars(&self) -> Vec<Option<Vec<f64>>> {
        let (dictionary, sightings) = (&self.common.dictionary, &self.common.sightings);
        if dictionary.features() < LEAST_FEATURES || matches!(self.common.params.rule, Rule::Paper { .. }) {
            return vec![None; dictionary.patterns()];
        }
        let variances = match &self.method {
            Method::Exact(exact) if !exact.adaptive.has_noise() => vec![None; dictionary.patterns()],
            Method::Exact(exact) => {
                of_unit_patterns(dictionary, &exact.adaptive.distances(dictionary.features()))
            }
            Method::Counts(counts) => of_shares(dictionary, counts),
        };
        let known = variances.into_iter().zip(sightings).map(|(variances, sightings)| {
            let variances = variances.filter(|_| sightings.times >= SIGHTINGS)?;
            Some(variances.iter().map(|variance| variance.sqrt()).collect())
        });
        known.collect()
    }
}

/// The variances of the entries of patterns of unit length, from the expected distances of the patterns.
fn of_unit_patterns(dictionary: &Dictionary, distances: &[Option<f64>]) -> Vec<Option<Vec<f64>>> {
    let d = (dictionary.features() - 1) as f64;
    let variances = |(i, distance): (usize, &Option<f64>)| {
        let squared = (*distance)?.powi(2);
        // A pattern keeps its length: errors are orthogonal to it.
        Some(dictionary.pattern(i).iter().map(|a| squared * (1.0 - a * a).max(0.0) / d).collect())
    };
    distances.iter().enumerate().map(variances).collect()
}

/// The variances of the shares of patterns of counts.
fn of_shares(dictionary: &Dictionary, counts: &Counts) -> Vec<Option<Vec<f64>>> {
    let (n, m) = (dictionary.features(), dictionary.patterns());
    let coder = CountCoder::new(dictionary, &counts.statistics.shares());
    let (whole, observed) = information(dictionary, &coder, counts);
    let variances = |i: usize| {
        let events: f64 = counts.statistics.patterns[i * n..][..n].iter().sum();
        let variance = |(f, a): (usize, &f64)| {
            let missing = (whole[i * n + f] + HALF) / (observed[i * n + f] + HALF);
            (a + HALF / events) * (1.0 - a) / events * missing
        };
        (events > 0.0).then(|| dictionary.pattern(i).iter().enumerate().map(variance).collect())
    };
    (0..m).map(variances).collect()
}

/// The sums Y and I (n x m) over the fibers of the latest steps.
fn information(dictionary: &Dictionary, coder: &CountCoder, counts: &Counts) -> (Vec<f64>, Vec<f64>) {
    let (n, m) = (dictionary.features(), dictionary.patterns());
    let (mut whole, mut observed) = (vec![0.0; n * m], vec![0.0; n * m]);
    let fibers = counts.discovery.pooled();
    let mut parts = vec![0.0; m];
    for coded in encode_in_waves(coder, &fibers).flatten() {
        for &(feature, y) in coded.fiber {
            let row = coder.rows().row(feature as usize);
            parts.fill(0.0);
            for probable in &coded.codes {
                let expected: f64 = probable.code.iter().map(|&(i, x)| row[i as usize] * x).sum();
                let scale = probable.probability / expected.max(LEAST);
                probable.code.iter().for_each(|&(i, x)| parts[i as usize] += scale * row[i as usize] * x);
            }
            for (i, &part) in parts.iter().enumerate().filter(|part| *part.1 > 0.0) {
                whole[i * n + feature as usize] += y * part;
                observed[i * n + feature as usize] += y * part * part;
            }
        }
    }
    (whole, observed)
}
