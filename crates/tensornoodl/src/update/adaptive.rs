//! The adaptive step of stage III: recursive least squares with one error variance per pattern.
//!
//! ```text
//! G_i = sum_f w_f r_f x_if,    E = sum_f w_f x_f x_f',    v = the noise of a fiber
//! A <- A + G (E + diag(v / P))^-1,    then unit columns
//! P <- v diag((E + diag(v / P))^-1) + the error that one pass cannot remove
//! ```
//!
//! P_i is the expected squared error of pattern i. This is a Kalman filter that forgets the past of a pattern when the
//! residuals show that the pattern still moves.
//!
//! Departs: the paper divides by p and takes one step size eta_A for all patterns. Here
//!
//! - E^-1 removes the influence that the patterns of a fiber have on each other's residuals;
//! - P averages over tensors like 1/t where there is noise, and not at all where there is none;
//! - a significant residual resets P, so that a pattern which is still far off, drifts or jumps takes a full step;
//! - a clear first observation counts in full, so that one fiber can be enough for its pattern.
//!
//! All of it follows from the data, and there is nothing to tune. The constants are rounding levels and tail
//! probabilities.

use crate::data::dictionary::{Dictionary, Moved};
use crate::error::Error;
use crate::linalg::product::transposed_product;
use crate::linalg::vector::dot;
use crate::update::second_moment::SecondMoment;
use crate::update::sums::FiberSums;

/// The squared error of a unit pattern that rounding leaves.
const ROUNDING: f64 = 1e-32;

/// Number of fitted columns from which the degrees of freedom of the noise are estimated. Their about 2,000 pairs give
/// the estimate to 3 %.
const FREEDOM_COLUMNS: usize = 64;

/// Residuals are noise if at least this part of their weighted squares is left after the best fit to their tensor. It
/// is near 1 with noise, and at most 0.03 in most steps without: there, the errors of the patterns are all of it.
const MOSTLY_NOISE: f64 = 1.0 / 3.0;

/// State of the adaptive step.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Adaptive {
    /// P, the expected squared error of each pattern. None before the first tensor that shows the pattern.
    variance: Vec<Option<f64>>,
    noise: Noise,
    prior: Prior,
    /// Number of tensors so far.
    tensors: u64,
}

/// The noise: what no dictionary explains.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
struct Noise {
    /// Sum of squared weighted residuals.
    squares: f64,
    /// Degrees of freedom of this sum.
    freedom: f64,
}

/// Sums over the first observation of every pattern. They give the prior variance of patterns that were not seen
/// before.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
struct Prior {
    /// Sum of |G_i|^2.
    squares: f64,
    /// Sum of v d_i, the part of `squares` that noise alone would give.
    noise: f64,
    /// Sum of d_i^2.
    evidence: f64,
}

/// The result of the adaptive step for one pass over a tensor.
pub(crate) struct AdaptiveStep {
    pub(crate) moved: Moved,
    /// The state after the step.
    pub(crate) state: Adaptive,
    /// Whether the gain of a further pass would be small against the error that remains.
    pub(crate) settled: bool,
}

impl Adaptive {
    /// State for patterns that were not seen yet.
    pub(crate) fn new(patterns: usize) -> Adaptive {
        let (noise, prior) = (Noise::default(), Prior::default());
        Adaptive { variance: vec![None; patterns], noise, prior, tensors: 0 }
    }

    /// Whether all numbers are in range and there is one variance per pattern. A state from a file may fail this.
    pub(crate) fn is_sound(&self, patterns: usize) -> bool {
        let fine = |value: &f64| value.is_finite() && *value >= 0.0;
        let Adaptive { variance, noise, prior, .. } = self;
        let sums = [noise.squares, noise.freedom, prior.squares, prior.noise, prior.evidence];
        variance.len() == patterns && variance.iter().flatten().all(fine) && sums.iter().all(fine)
    }

    /// The expected distance of each pattern from the true one: P^(1/2) d / (d - 2) with d = n - 1, because the weights
    /// of the fibers are estimated, too. None before the first tensor that shows the pattern.
    pub(crate) fn distances(&self, features: usize) -> Vec<Option<f64>> {
        let d = (features - 1) as f64;
        self.variance.iter().map(|p| p.map(|p| p.sqrt() * (d / (d - 2.0)))).collect()
    }

    /// Whether residuals are noise and not the errors of the patterns. Only then P is close to the true squared errors.
    pub(crate) fn has_noise(&self) -> bool {
        self.noise.squares > MOSTLY_NOISE * self.noise.freedom
    }

    /// Appends patterns that were not seen yet.
    pub(crate) fn append(&mut self, patterns: usize) {
        self.variance.resize(self.variance.len() + patterns, None);
    }

    /// Removes patterns, given by increasing number.
    pub(crate) fn remove(&mut self, patterns: &[usize]) {
        patterns.iter().rev().for_each(|&pattern| {
            self.variance.remove(pattern);
        });
    }

    /// Forgets what is known about a pattern, because another pattern now has its number.
    pub(crate) fn forget(&mut self, pattern: usize) {
        self.variance[pattern] = None;
    }

    /// One pass over a tensor: moves A(t), `origin`, by the sums over the fibers.
    ///
    /// The fibers were coded with the dictionary `coded_with`. In the first pass this is `origin` itself; a further
    /// pass replaces the one before and starts again from `origin`.
    ///
    /// # Errors
    /// A pattern that becomes zero or not finite.
    pub(crate) fn step(
        &self,
        origin: &Dictionary,
        coded_with: &Dictionary,
        sums: &FiberSums,
        forgetting: f64,
    ) -> Result<AdaptiveStep, Error> {
        let e = sums.second_moment();
        let (d, patterns) = (&e.diagonal, &e.patterns);
        let (n, m, k) = (origin.features(), origin.patterns(), patterns.len());
        let mut state = self.clone();
        state.tensors += 1;
        state.fade(forgetting);
        if k == 0 {
            let moved = Moved::new(origin, Vec::new(), Vec::new())?;
            return Ok(AdaptiveStep { moved, state, settled: true });
        }
        let not_finite = || Error::Pattern { pattern: patterns[0], norm: f64::NAN };
        // The sum of 1 / (m t^2) over all patterns and tensors is finite: about one false alarm is expected in all.
        let tail = (m as f64 * (state.tensors as f64).powi(2)).ln().max(1.0);

        // v: the noise that is left after the best fit H = G E^-1 to this tensor alone.
        let mut gradient = sums.gradient_of(patterns);
        let mut fit = gradient.clone();
        let rounding: Vec<f64> = d.iter().map(|d| 1e-10 * d).collect();
        e.regular(&rounding).ok_or_else(not_finite)?.solve(&mut fit, n);
        let squares = (sums.residual() - dot(&fit, &gradient)).max(0.0);
        // A unit pattern takes n - 1 degrees of freedom.
        let freedom = sums.freedom as f64 - (n - 1) as f64 * k as f64;
        state.noise.add(Noise { squares, freedom }, tail);
        let v = state.noise.level(n);

        // G + (A - A(t)) E: the gradient, if the residuals had been taken at A(t).
        if !std::ptr::eq(coded_with, origin) {
            e.add_product(&mut gradient, &difference(coded_with, origin, patterns), n);
        }

        // P before this tensor, then the gain, then A.
        let counts: Vec<usize> = patterns.iter().map(|&i| sums.fibers_of(i)).collect();
        let before = state.expect(&e, &counts, &gradient, v, significance(&fit, n, tail));
        // v is at least 1e-12 of what the pattern and its companions carry, so that rounding cannot blow up the inverse
        // where codes only ever occur together.
        let carried: Vec<f64> = d.iter().zip(&before).map(|(d, p)| 1e-12 * d * p).collect();
        let v: Vec<f64> = e.largest(&carried).iter().map(|carried| carried.max(v)).collect();
        let ridge: Vec<f64> = v.iter().zip(&before).map(|(v, p)| v / p).collect();
        let regular = e.regular(&ridge).ok_or_else(not_finite)?;
        regular.solve(&mut gradient, n);
        let moved = Moved::new(origin, patterns.clone(), gradient)?;
        let squares = moved.squares_from(coded_with);
        let settled = state.record(sums, &e, &v, &regular.diagonal_of_inverse(), &squares, n);
        Ok(AdaptiveStep { moved, state, settled })
    }

    /// Raises P by the forgetting factor, so that older tensors count less.
    fn fade(&mut self, forgetting: f64) {
        let fade = |p: &mut f64| *p = (*p / (1.0 - forgetting)).min(p.max(1.0));
        self.variance.iter_mut().flatten().for_each(fade);
    }

    /// Records P after a step whose patterns have moved by `squares` (squared distances). Returns whether a further
    /// pass would gain little.
    ///
    /// Codes are least-squares fits, so that the residual of a fiber lacks what lies along its other patterns: about
    /// 1/n of the energy of each move. A further pass recovers most of it.
    fn record(
        &mut self,
        sums: &FiberSums,
        e: &SecondMoment,
        v: &[f64],
        gain: &[f64],
        squares: &[f64],
        n: usize,
    ) -> bool {
        let from_others = e.due_to_others(squares);
        let mut settled = true;
        for (at, &i) in e.patterns.iter().enumerate() {
            let d = e.diagonal[at];
            let own = sums.shared_moment(i) / d * squares[at];
            let missed = (own + from_others[at] / d.powi(2)) / n as f64;
            let known = v[at] * gain[at];
            settled &= missed <= 0.01 * known || missed <= ROUNDING;
            self.variance[i] = Some(known + missed);
        }
        settled
    }

    /// Returns P of the shown patterns before this tensor: a common prior for patterns that were never seen, and the
    /// P of earlier tensors for the others, raised where the residuals contradict it.
    fn expect(
        &mut self,
        e: &SecondMoment,
        counts: &[usize],
        gradient: &[f64],
        v: f64,
        significant: f64,
    ) -> Vec<f64> {
        let (k, d, patterns) = (e.size(), &e.diagonal, &e.patterns);
        let squares: Vec<f64> = gradient.chunks_exact(gradient.len() / k).map(|g| dot(g, g)).collect();
        for at in (0..k).filter(|&at| self.variance[patterns[at]].is_none()) {
            self.prior.squares += squares[at];
            self.prior.noise += v * d[at];
            self.prior.evidence += d[at] * d[at];
        }
        let prior = self.prior.variance((gradient.len() / k) as f64);
        // At the first observation v still contains what the errors of other patterns leave in mixed fibers, and would
        // hold back a pattern that is seen clearly. So the prior grows with the signal-to-noise ratio: where the ratio
        // is large, the first step is a full one.
        let first = |at: usize| prior * (1.0 + prior * d[at] / v);
        let past = |(at, &i): (usize, &usize)| self.variance[i].unwrap_or_else(|| first(at)).max(ROUNDING);
        let mut variance: Vec<f64> = patterns.iter().enumerate().map(past).collect();
        // A reset raises the expected squares of patterns in the same fibers. Three rounds are enough for this to
        // settle.
        for _ in 0..3 {
            let from_others = e.due_to_others(&variance);
            for i in 0..k {
                let expected = v * d[i] + d[i] * d[i] * variance[i] + from_others[i];
                // A single fiber may be an outlier and must not move a known pattern.
                if squares[i] > significant * expected && counts[i] >= 2 {
                    variance[i] += (squares[i] - expected) / (d[i] * d[i]);
                }
            }
        }
        variance
    }
}

impl Noise {
    /// Adds the noise of one tensor, or starts again from it if it differs by more than chance.
    fn add(&mut self, new: Noise, tail: f64) {
        if new.freedom <= 0.0 {
            return;
        }
        // The first tensor has nothing to compare with: the ratio is 0 / 0 and every comparison is false.
        let ratio = (new.squares / new.freedom) / (self.squares / self.freedom);
        let spread = 2.0 * (tail / new.freedom).sqrt();
        if ratio > 1.0 - spread && ratio < 1.0 + spread + spread * spread / 2.0 {
            self.squares += new.squares;
            self.freedom += new.freedom;
        } else {
            *self = new;
        }
    }

    /// v, the noise of a whole fiber. The weights make it about n before anything is fitted; 1e-14 of that is rounding.
    fn level(&self, n: usize) -> f64 {
        let per_value = if self.freedom > 0.0 { self.squares / self.freedom } else { 0.0 };
        n as f64 * per_value.max(1e-14)
    }
}

impl Prior {
    /// The mean squared error of patterns at their first observation, at least the smallest one that is visible above
    /// the noise.
    fn variance(&self, features: f64) -> f64 {
        (self.squares - self.noise).max((2.0 / features).sqrt() * self.noise) / self.evidence
    }
}

/// Columns A_i - B_i of some patterns.
fn difference(a: &Dictionary, b: &Dictionary, patterns: &[usize]) -> Vec<f64> {
    patterns.iter().flat_map(|&i| a.pattern(i).iter().zip(b.pattern(i)).map(|(a, b)| a - b)).collect()
}

/// The ratio of |G_i|^2 to its expectation that chance exceeds only with probability exp(-tail) (Laurent and Massart's
/// bound for chi-square).
///
/// Noise that is not white has fewer than n degrees of freedom. Their number is estimated from the cosines between
/// fitted columns; [`FREEDOM_COLUMNS`] of them are enough.
fn significance(fit: &[f64], n: usize, tail: f64) -> f64 {
    let every = (fit.len() / n).div_ceil(FREEDOM_COLUMNS);
    let mut unit = Vec::with_capacity(n * FREEDOM_COLUMNS);
    fit.chunks_exact(n).step_by(every).for_each(|column| unit.extend_from_slice(column));
    let mut columns = 0.0;
    for column in unit.chunks_exact_mut(n) {
        let norm = dot(column, column).sqrt();
        let rounding = norm <= 1e-12;
        columns += if rounding { 0.0 } else { 1.0 };
        column.iter_mut().for_each(|x| *x = if rounding { 0.0 } else { *x / norm });
    }
    let k = unit.len() / n;
    let mut cosines = vec![0.0; k * k];
    transposed_product(&mut cosines, &unit, &unit, n);
    let off_diagonal = dot(&cosines, &cosines) - columns;
    let pairs = columns * (columns - 1.0);
    // A single column cannot be compared with another one: white noise is assumed.
    let white = pairs == 0.0 || off_diagonal <= 0.0;
    let freedom = if white { n as f64 } else { (pairs / off_diagonal).clamp(1.0, n as f64) };
    1.0 + 2.0 * (tail / freedom).sqrt() + 2.0 * tail / freedom
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn significance_follows_the_tail_of_chi_square() {
        let (n, tail) = (4, 3.0);
        let bound = |freedom: f64| 1.0 + 2.0 * (tail / freedom).sqrt() + 2.0 * tail / freedom;
        let near = |fit: &[f64], freedom: f64| (significance(fit, n, tail) - bound(freedom)).abs() < 1e-12;
        // Orthogonal columns of any length: all n degrees of freedom.
        assert!(near(&[2.0, 0.0, 0.0, 0.0, 0.0, 5.0, 0.0, 0.0], 4.0));
        // Parallel columns: one degree of freedom. Columns in between: one over the squared cosine.
        assert!(near(&[2.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0], 1.0));
        assert!(near(&[1.0, 0.0, 0.0, 0.0, 0.8, 0.6, 0.0, 0.0], 1.0 / 0.64));
        // A single column gives no estimate, and neither does a column of rounding errors: white noise is assumed.
        assert!(near(&[0.1, 0.7, 0.3, 0.9], 4.0) && near(&[0.3, 0.3, 0.1, 0.2], 4.0));
        assert!(near(&[1.0, 0.0, 0.0, 0.0, 1e-13, 0.0, 0.0, 0.0], 4.0));
    }

    #[test]
    fn noise_adds_up_until_it_changes() {
        let mut noise = Noise::default();
        assert_eq!(noise.level(10), 1e-13);
        noise.add(Noise { squares: 7.0, freedom: -3.0 }, 1.0);
        assert_eq!(noise, Noise::default(), "no degrees of freedom, no news");
        noise.add(Noise { squares: 800.0, freedom: 400.0 }, 1.0);
        assert_eq!(noise.level(10), 20.0);
        // With a tail of 1 and 400 degrees of freedom, 0.9 to 1.105 times as much is chance.
        noise.add(Noise { squares: 2.0 * 1.104 * 400.0, freedom: 400.0 }, 1.0);
        assert_eq!(noise.freedom, 800.0);
        noise.add(Noise { squares: 2.104 * 0.91 * 400.0, freedom: 400.0 }, 1.0);
        assert_eq!(noise.freedom, 1200.0);
        for factor in [0.89, 1.106] {
            let mut changed = noise;
            let squares = factor * 400.0 * noise.squares / noise.freedom;
            changed.add(Noise { squares, freedom: 400.0 }, 1.0);
            assert_eq!(changed, Noise { squares, freedom: 400.0 });
        }
    }

    #[test]
    fn the_prior_is_what_first_sights_show_above_the_noise() {
        let prior = Prior { squares: 9.0, noise: 1.0, evidence: 4.0 };
        assert_eq!(prior.variance(8.0), 2.0);
        // The prior is at least the smallest variance that is visible above the noise.
        assert_eq!(Prior { squares: 1.1, ..prior }.variance(8.0), 0.125);
    }
}
