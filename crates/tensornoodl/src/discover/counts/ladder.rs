//! How many patterns there are: a ladder of fits, judged by how well they predict hidden cells.

use rayon::prelude::*;

use crate::discover::counts::hidden::{CountFibers, HiddenCells, folds};
use crate::discover::counts::mixture::Mixture;
use crate::encode::counts::{FeatureRows, SIGNIFICANCE};
use crate::stop::Stop;

/// How many further patterns are looked at before a ladder ends: two patterns may predict no better than one where four
/// predict much better.
const AHEAD: usize = 4;

/// The number of hidden parts of fibers that a ladder is judged by, if there are as many.
const UNITS: usize = 10_000;

/// A rotation of few fibers is fitted more than once: as often as these have together this many fibers.
const STARTED_FIBERS: usize = 1_000;

/// Maximum number of fits of a rotation.
const MAX_STARTS: usize = 4;

/// Minimum number of rotations of hidden cells.
const MIN_ROTATIONS: usize = 3;

/// The number of patterns that the first search starts with. It is doubled as long as more than half of them are needed.
const FIRST_TOP: usize = 16;

/// Number of unmasked fits, of which the most likely one is taken.
const TRIES: u64 = 3;

/// Iterations of the fit that is taken.
const LAST_ITERATIONS: usize = 50;

/// Iterations of known patterns before patterns are added to them.
pub(crate) const WARM_ITERATIONS: usize = 8;

/// The difference of one fiber counts at most this many times as much as that of a fiber on the average, so that a single
/// large fiber does not decide.
const MOST_OF_ONE: f64 = 10.0;

/// One rung of a ladder: what the last patterns add to the prediction of hidden cells.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Rung {
    /// Number of patterns.
    pub patterns: usize,
    /// How much more likely the hidden events are than on the rung below, as a difference of log-likelihoods. 0 on the
    /// first rung.
    pub gain: f64,
    /// Standard error of `gain`.
    pub error: f64,
}

/// The log-likelihood of the hidden part of each fiber, for each rotation of hidden cells.
pub(crate) type Score = Vec<Vec<f64>>;

/// The scores of fits with different numbers of patterns.
pub(crate) struct Ladder {
    /// For each rung, the number of patterns and the score.
    pub(crate) scores: Vec<(usize, Score)>,
}

/// How well a fit predicts.
pub(crate) struct Fit {
    /// Number of patterns.
    patterns: usize,
    /// The log-likelihood of all cells that are seen.
    seen: f64,
    /// The log-likelihood of the hidden part of each fiber.
    hidden: Vec<f64>,
}

impl Fit {
    fn new(fit: &Mixture, cells: &HiddenCells) -> Fit {
        Fit {
            patterns: fit.patterns(),
            seen: fit.log_likelihood(cells),
            hidden: fit.hidden_log_likelihoods(cells),
        }
    }
}

/// Difference of two scores in standard errors.
fn significance(better: &Score, worse: &Score) -> f64 {
    let (gain, error) = difference(better, worse);
    if error > 0.0 { gain / error } else { 0.0 }
}

/// The difference of two scores, summed over the hidden parts d of all fibers, and its standard error. Large d are cut to
/// [`MOST_OF_ONE`] times the mean of |d|.
///
/// The standard error is the root of the sum of d^2, or the one that the sums of the rotations have among each other if
/// that is clearly larger: all fibers of a rotation have one fit, which may be a poor optimum.
fn difference(better: &Score, worse: &Score) -> (f64, f64) {
    let pairs = || better.iter().zip(worse).flat_map(|(a, b)| a.iter().zip(b));
    let (sizes, units) = pairs().fold((0.0, 0.0), |(sum, count), (a, b)| (sum + (a - b).abs(), count + 1.0));
    let most = MOST_OF_ONE * sizes / f64::max(units, 1.0);
    let differences = |(a, b): (&Vec<f64>, &Vec<f64>)| -> (f64, f64) {
        let parts = a.iter().zip(b).map(|(a, b)| (a - b).clamp(-most, most));
        parts.fold((0.0, 0.0), |(sum, squares), d| (sum + d, squares + d * d))
    };
    let rotations: Vec<(f64, f64)> = better.iter().zip(worse).map(differences).collect();
    let count = rotations.len() as f64;
    let gain: f64 = rotations.iter().map(|rotation| rotation.0).sum();
    let squares: f64 = rotations.iter().map(|rotation| rotation.1).sum();
    let between: f64 = rotations.iter().map(|rotation| (rotation.0 - gain / count).powi(2)).sum();
    let between = if count > 1.0 { between * count / (count - 1.0) } else { 0.0 };
    (gain, if between > 2.0 * squares { between } else { squares }.sqrt())
}

impl Ladder {
    /// Fits the patterns of all rungs, with several rotations of hidden cells, and scores them. `rungs` returns the
    /// fits of one rotation, for the same numbers of patterns in each. Few fibers are fitted from several starts, of
    /// which each rung takes the one that makes the seen cells most likely.
    pub(crate) fn climb(
        fibers: &CountFibers,
        seed: u64,
        stop: &Stop,
        rungs: impl Fn(&HiddenCells, u64) -> Vec<Fit> + Sync,
    ) -> Ladder {
        let all = folds(fibers.fibers.rows());
        let rotations =
            UNITS.div_ceil(fibers.len().max(1)).clamp(MIN_ROTATIONS, all.max(MIN_ROTATIONS)).min(all);
        let starts = (STARTED_FIBERS / fibers.len().max(1)).clamp(1, MAX_STARTS) as u64;
        let rotation = |rotation: usize| -> Vec<Fit> {
            if stop.is_set() {
                return Vec::new();
            }
            let cells = HiddenCells::rotation(fibers, seed, rotation);
            let seed = seed.wrapping_mul(1009).wrapping_add(rotation as u64);
            let better = |best: Fit, next: Fit| if next.seen > best.seen { next } else { best };
            let start = |start: u64| rungs(&cells, seed.wrapping_add(start << 32));
            let all = (0..starts).map(start);
            let best =
                all.reduce(|best, next| best.into_iter().zip(next).map(|(a, b)| better(a, b)).collect());
            best.unwrap_or_default()
        };
        let rotations: Vec<Vec<Fit>> = (0..rotations).into_par_iter().map(rotation).collect();
        let mut scores: Vec<(usize, Score)> = Vec::new();
        for rotation in rotations {
            scores.resize_with(rotation.len().max(scores.len()), Default::default);
            for (all, fit) in scores.iter_mut().zip(rotation) {
                all.0 = fit.patterns;
                all.1.push(fit.hidden);
            }
        }
        Ladder { scores }
    }

    /// The rung that is taken: the lowest one that no rung up to [`AHEAD`] patterns above it significantly exceeds. Also
    /// returns the largest significance with which a rung above the first one exceeds it.
    ///
    /// Where there are many patterns, fits with a few of them are poor. So the first rung is compared with all rungs if
    /// the next ones do not exceed it. Because these are many, one of them must be twice as significant.
    pub(crate) fn decide(&self) -> (usize, f64) {
        let (mut taken, mut first) = (0, 0.0);
        let exceeds = |rung: usize, from: usize| significance(&self.scores[rung].1, &self.scores[from].1);
        let best = |from: usize, most: usize| {
            let rungs = (from + 1..self.scores.len()).filter(|rung| self.scores[*rung].0 <= most);
            rungs.map(|rung| (exceeds(rung, from), rung)).max_by(|a, b| a.0.total_cmp(&b.0))
        };
        while let Some((z, top)) = best(taken, self.scores[taken].0 + AHEAD) {
            let far = if taken == 0 && z < SIGNIFICANCE { best(0, usize::MAX) } else { None };
            let (z, top) = far.filter(|far| far.0 >= 2.0 * SIGNIFICANCE).unwrap_or((z, top));
            if taken == 0 {
                first = z;
            }
            if z < SIGNIFICANCE {
                break;
            }
            // The lowest rung on the way that the best one does not significantly exceed.
            taken = (taken + 1..=top).find(|rung| exceeds(top, *rung) < SIGNIFICANCE).unwrap_or(top);
        }
        (taken, first)
    }

    /// The gain of every rung.
    fn rungs(&self) -> Vec<Rung> {
        let rung = |at: usize| {
            let (gain, error) = match at {
                0 => (0.0, 0.0),
                _ => difference(&self.scores[at].1, &self.scores[at - 1].1),
            };
            Rung { patterns: self.scores[at].0, gain, error }
        };
        (0..self.scores.len()).map(rung).collect()
    }
}

/// The result of a search.
pub(crate) struct Found {
    /// The fit with the patterns that were found, to all cells.
    pub(crate) fit: Mixture,
    /// The ladder that decided on their number. Empty if the number was given.
    pub(crate) rungs: Vec<Rung>,
    /// How significantly more patterns than the first rung predict hidden cells, in standard errors.
    pub(crate) significance: f64,
}

/// The number of patterns that predict hidden cells significantly better than fewer do.
pub(crate) struct Number {
    /// The number of patterns.
    pub(crate) taken: usize,
    /// The ladder that decided on it.
    pub(crate) rungs: Vec<Rung>,
    /// The number of patterns that the ladder started with.
    top: usize,
    /// How significantly more patterns than the first rung predict hidden cells, in standard errors.
    significance: f64,
}

/// Decides on the number of patterns, at most `most`. There are fewer patterns than features. None if the search was
/// stopped.
pub(crate) fn number(fibers: &CountFibers, most: usize, seed: u64, stop: &Stop) -> Option<Number> {
    let most = most.min(fibers.fibers.rows().saturating_sub(1)).min(fibers.len()).max(1);
    let mut top = FIRST_TOP.min(most);
    loop {
        let ladder = Ladder::climb(fibers, seed, stop, |cells, seed| {
            from_mean(cells, top, 1, seed, |fit| Fit::new(fit, cells)).1
        });
        if stop.is_set() {
            return None;
        }
        let (rung, significance) = ladder.decide();
        let taken = ladder.scores[rung].0;
        if 2 * taken <= top || top >= most {
            return Some(Number { taken, rungs: ladder.rungs(), top, significance });
        }
        top = (2 * top).min(most);
    }
}

/// Finds patterns from nothing: exactly `count` of them, or as many as predict hidden cells significantly better than
/// fewer do, at most `most`. There are fewer patterns than features, unless `count` says otherwise. None if the search
/// was stopped.
pub(crate) fn start(
    fibers: CountFibers,
    count: Option<usize>,
    most: usize,
    seed: u64,
    stop: &Stop,
) -> Option<Found> {
    let Number { taken, rungs, top, significance } = match count {
        Some(taken) => Number { taken, rungs: Vec::new(), top: 2 * taken, significance: 0.0 },
        None => number(&fibers, most, seed, stop)?,
    };
    let cells = HiddenCells::none(&fibers);
    drop(fibers);
    let attempt =
        |attempt: u64| from_mean(&cells, top.max(taken), taken, seed.wrapping_add(attempt << 32), |_| ()).0;
    let fit = most_likely(&cells, TRIES, attempt);
    (!stop.is_set()).then_some(Found { fit, rungs, significance })
}

/// Fits `top` patterns and fewer, down to `least`: see [`Mixture::merge_down`].
pub(crate) fn from_mean<R>(
    cells: &HiddenCells,
    top: usize,
    least: usize,
    seed: u64,
    judge: impl Fn(&Mixture) -> R,
) -> (Mixture, Vec<R>) {
    let mut fit = Mixture::mean(cells);
    fit.overfill(cells, top, seed);
    fit.merge_down(cells, least, judge)
}

/// Fits several times, takes the most likely fit, the first of equal ones, and improves it.
pub(crate) fn most_likely(
    cells: &HiddenCells,
    tries: u64,
    attempt: impl Fn(u64) -> Mixture + Sync,
) -> Mixture {
    let judged = |number: u64| {
        let fit = attempt(number);
        (fit.log_likelihood(cells), fit)
    };
    let better = |best: (f64, Mixture), next: (f64, Mixture)| if next.0 > best.0 { next } else { best };
    let best = (0..tries).into_par_iter().map(judged).reduce_with(better);
    let mut fit = best.map_or_else(|| Mixture::mean(cells), |best| best.1);
    fit.iterate(cells, LAST_ITERATIONS);
    fit
}

/// Known patterns, and the events that they were learned from, other than those of the fibers at hand.
pub(crate) struct Known {
    /// A, stored by features.
    pub(crate) rows: FeatureRows,
    /// Events of earlier steps, by features.
    pub(crate) past: FeatureRows,
}

/// A test of whether fibers have patterns beside those that are known.
pub(crate) struct Test {
    /// Number of further patterns.
    pub(crate) further: usize,
    /// How significantly further patterns predict hidden cells, in standard errors.
    pub(crate) significance: f64,
    /// The ladder that decided.
    pub(crate) rungs: Vec<Rung>,
}

/// Tests whether further patterns predict hidden cells of the fibers better than the known patterns alone.
pub(crate) fn test(fibers: &CountFibers, known: &Known, most: usize, seed: u64) -> Test {
    let m = known.rows.patterns();
    let top = (m + 2 * AHEAD).min(most).max(m);
    let ladder = Ladder::climb(fibers, seed, &Stop::default(), |cells, seed| {
        from_known(cells, known, top, m, seed, |fit| Fit::new(fit, cells)).1
    });
    if ladder.scores.is_empty() {
        return Test { further: 0, significance: 0.0, rungs: Vec::new() };
    }
    let (rung, significance) = ladder.decide();
    Test { further: ladder.scores[rung].0 - m, significance, rungs: ladder.rungs() }
}

/// Fits the known patterns and `further` new ones to the fibers.
pub(crate) fn extend(fibers: &CountFibers, known: &Known, further: usize, seed: u64) -> Mixture {
    let cells = HiddenCells::none(fibers);
    let least = known.rows.patterns() + further;
    let attempt = |attempt: u64| {
        let top = if further == 0 { least } else { known.rows.patterns() + further.max(2 * AHEAD) };
        from_known(&cells, known, top, least, seed.wrapping_add(attempt << 32), |_| ()).0
    };
    let tries = if further == 0 { 1 } else { TRIES };
    most_likely(&cells, tries, attempt)
}

/// Fits with `top` patterns and fewer, down to `least`, that include the known ones.
fn from_known<R>(
    cells: &HiddenCells,
    known: &Known,
    top: usize,
    least: usize,
    seed: u64,
    judge: impl Fn(&Mixture) -> R,
) -> (Mixture, Vec<R>) {
    let mut fit = Mixture::with_past(cells, known.rows.clone(), known.past.clone());
    fit.iterate(cells, WARM_ITERATIONS);
    fit.overfill(cells, top, seed);
    fit.merge_down(cells, least, judge)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ladder with these gains of each of 100 fibers over the first rung, which differ by chance.
    fn ladder(gains: &[f64]) -> Ladder {
        let chance = |fiber: usize, rung: usize| ((fiber * 37 + rung * 59) % 100) as f64 / 50.0 - 0.99;
        let fibers = |rung: usize| (0..100).map(move |fiber| (fiber, rung));
        let score = |(rung, gain): (usize, &f64)| {
            (rung + 1, vec![fibers(rung).map(|(fiber, rung)| gain + chance(fiber, rung)).collect()])
        };
        Ladder { scores: gains.iter().enumerate().map(score).collect() }
    }

    #[test]
    fn many_patterns_are_found_where_few_do_not_help() {
        let poor = [0.0, -0.4, -0.4, -0.3, -0.2];
        let taken = |gains: &[f64]| ladder(&[&poor, gains].concat()).decide().0 + 1;
        assert_eq!(taken(&[0.0, 1.0, 2.0, 2.0]), 8);
        // A gain far above the first rung must be twice as significant: this one has four standard errors.
        assert_eq!(taken(&[0.0, 0.0, 0.33, 0.0]), 1);
        assert_eq!(ladder(&[0.0, 0.0, 0.33, 0.0]).decide().0 + 1, 3);
    }
}
