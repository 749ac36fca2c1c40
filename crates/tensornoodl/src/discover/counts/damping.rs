//! Whether counts are damped before anything is learned from them.
//!
//! Where events come in bursts, a few large counts rule the likelihood, and patterns follow single bursts. A damped table
//! (sqrt, log2, presence) weighs them less. Likelihoods of different tables cannot be compared, but all of them predict
//! whether a hidden cell has any event:
//!
//! ```text
//! P(y_fq > 0) = 1 - exp(-c l_fq^b)    l: the expected value of the cell; b and c are fitted for each table
//! ```
//!
//! The table is damped if that predicts the presence of events in hidden cells significantly better.

use rayon::prelude::*;

use crate::data::tensor::Tensor;
use crate::discover::counts::hidden::{CountFibers, HiddenCells, folds};
use crate::discover::counts::ladder::{Rung, number};
use crate::discover::counts::mixture::Mixture;
use crate::discover::counts::{count_fibers, gather};
use crate::encode::counts::{LEAST, expected};
use crate::error::Error;
use crate::parallel::team::{Team, agree};
use crate::stop::Stop;

/// The number of hidden parts of fibers that tables are compared by, if there are as many.
const UNITS: usize = 4000;

/// The number of hidden cells without events that tables are compared by, at most about. Of more cells, a sample is
/// taken: each fiber has its own, and all tables have the same.
const MOST_CELLS: usize = 1 << 20;

/// Maximum number of rotations of hidden cells.
const MAX_ROTATIONS: usize = 2;

/// How well a damped table predicts where events are, compared with another table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PresenceScore {
    /// Gain in the log-likelihood of the presence of events in hidden cells, over the first table.
    pub gain: f64,
    /// Standard error of `gain`.
    pub error: f64,
}

impl PresenceScore {
    /// Whether the gain is significant twice over. Three tables are compared with the first one, often on a few
    /// events, and a table that is damped for no reason shows less.
    pub fn is_significant(&self) -> bool {
        self.gain > 2.0 * crate::encode::counts::SIGNIFICANCE * self.error
    }
}

/// The result of [`compare_tables`].
#[derive(Debug, Clone, PartialEq)]
pub struct TableComparison {
    /// The score of each table. That of the first one is 0.
    pub scores: Vec<PresenceScore>,
    /// The number of patterns of the first table.
    pub patterns: usize,
    /// The ladder that decided on that number. Empty if the number was given.
    pub rungs: Vec<Rung>,
}

/// Compares tables that a tensor becomes if its counts are damped in different ways. Each of `dampings` returns the new
/// value of a count above 0; the first one returns the count itself. `count` is the number of patterns, if it is known.
///
/// The ranks of a team have shares of the tensor. A large tensor is sampled. A damped table is made when it is fitted,
/// so that a thread holds one of them at a time.
///
/// # Errors
/// [`Error::NotACount`] if a value is negative, before or after it is damped. [`Error::Stopped`] if `stop` was set.
pub fn compare_tables<D: Fn(f64) -> f64 + Sync>(
    team: &dyn Team,
    tensor: &Tensor<'_>,
    dampings: &[D],
    count: Option<usize>,
    seed: u64,
    stop: &Stop,
) -> Result<TableComparison, Error> {
    let own = count_fibers(tensor).and_then(|own| check_damped(&own, dampings).map(|()| own));
    let (fibers, _) = gather(team, agree(team, own)?);
    // All tables get the number of patterns of the counts themselves.
    let (patterns, rungs) = match count {
        Some(count) => (count.max(1), Vec::new()),
        None if fibers.len() == 0 => (1, Vec::new()),
        None => number(&fibers, usize::MAX, seed, stop)
            .map_or((1, Vec::new()), |found| (found.taken, found.rungs)),
    };
    let score = |damping: &D| presence(&damped(&fibers, damping), patterns, seed, stop);
    let scores: Vec<Vec<f64>> = dampings.par_iter().map(score).collect();
    // If one rank is stopped, all of them are.
    let mut stopped = [i8::from(stop.is_set())];
    team.max(&mut stopped);
    if stopped != [0] {
        return Err(Error::Stopped);
    }
    let score = |own: &Vec<f64>| {
        let differences = own.iter().zip(&scores[0]).map(|(a, b)| a - b);
        let (gain, squares) = differences.fold((0.0, 0.0), |(sum, squares), d| (sum + d, squares + d * d));
        PresenceScore { gain, error: squares.sqrt() }
    };
    Ok(TableComparison { scores: scores.iter().map(score).collect(), patterns, rungs })
}

/// Checks that no damped value is negative.
fn check_damped<D: Fn(f64) -> f64>(fibers: &CountFibers, dampings: &[D]) -> Result<(), Error> {
    for damping in dampings {
        for (&place, column) in fibers.places.iter().zip(fibers.fibers.columns()) {
            let mut values = column.iter().map(|&(feature, y)| (feature as usize, damping(y)));
            if let Some((feature, value)) = values.find(|(_, value)| *value < 0.0) {
                return Err(Error::NotACount { feature, place, value });
            }
        }
    }
    Ok(())
}

/// The fibers after damping. Cells and fibers that become zero are left out.
fn damped(fibers: &CountFibers, damping: impl Fn(f64) -> f64) -> CountFibers {
    let matrix = &fibers.fibers;
    let mut left = CountFibers::with_capacity(matrix.rows(), matrix.cols(), matrix.nnz());
    let mut column: Vec<(u32, f64)> = Vec::new();
    for (&place, own) in fibers.places.iter().zip(matrix.columns()) {
        column.clear();
        let values = own.iter().map(|&(feature, y)| (feature, damping(y)));
        column.extend(values.filter(|entry| entry.1 != 0.0));
        if !column.is_empty() {
            left.fibers.push(&column);
            left.places.push(place);
        }
    }
    left
}

/// For each fiber and rotation, the log-likelihood of the presence of events in its hidden cells. Empty if the
/// search was stopped.
fn presence(fibers: &CountFibers, patterns: usize, seed: u64, stop: &Stop) -> Vec<f64> {
    let enough = UNITS.div_ceil(fibers.len().max(1)).min(MAX_ROTATIONS);
    let rotations = enough.min(folds(fibers.fibers.rows()));
    let rotation = |rotation: usize| {
        if stop.is_set() {
            return Vec::new();
        }
        let cells = HiddenCells::rotation(fibers, seed, rotation);
        let mut fit = Mixture::mean(&cells);
        fit.overfill(&cells, 2 * patterns, seed.wrapping_add(rotation as u64));
        let (fit, _) = fit.merge_down(&cells, patterns, |_| ());
        score(&cells, fit)
    };
    (0..rotations).into_par_iter().map(rotation).collect::<Vec<_>>().concat()
}

/// ln l of the hidden cells of all fibers: for each fiber, those with events, then those without or a sample of them.
struct Hidden {
    logarithms: Vec<f64>,
    fibers: Vec<HiddenFiber>,
}

/// The hidden cells of a fiber.
struct HiddenFiber {
    /// Where the cells without events start in the logarithms.
    start: usize,
    /// Where they end.
    end: usize,
    /// The number of cells without events that one of the sample stands for.
    weight: f64,
}

impl Hidden {
    /// `most` is about the largest number of cells without events.
    fn new(cells: &HiddenCells, fit: &Mixture, most: usize) -> Hidden {
        let mut features = vec![Vec::new(); cells.folds];
        cells.feature_folds.iter().zip(0..).for_each(|(fold, feature)| features[*fold].push(feature));
        let size: usize = (0..cells.fibers()).map(|q| features[cells.fold(q)].len()).sum();
        let stride = size.div_ceil(most).max(1);
        let mut logarithms = Vec::with_capacity(size.min(most));
        let mut fibers = Vec::with_capacity(cells.fibers());
        for q in 0..cells.fibers() {
            let (code, events) = (fit.code(q), cells.hidden(q));
            let expected = |feature: u32| expected(fit.rows.row(feature as usize), code).max(LEAST).ln();
            let is_absent = |feature: &u32| events.binary_search_by_key(feature, |entry| entry.0).is_err();
            logarithms.extend(events.iter().map(|entry| expected(entry.0)));
            let start = logarithms.len();
            let all = &features[cells.fold(q)];
            let absent = all.len() - events.len();
            let first = q % stride.min(absent.max(1));
            let sample = all.iter().copied().filter(is_absent).skip(first).step_by(stride);
            logarithms.extend(sample.map(expected));
            let end = logarithms.len();
            fibers.push(HiddenFiber { start, end, weight: absent as f64 / (end - start).max(1) as f64 });
        }
        Hidden { logarithms, fibers }
    }

    /// For each fiber, its cells with events, those without, and the weight of each of the latter.
    fn fibers(&self) -> impl Iterator<Item = (&[f64], &[f64], f64)> {
        let mut first = 0;
        self.fibers.iter().map(move |it| {
            let cells = (&self.logarithms[first..it.start], &self.logarithms[it.start..it.end], it.weight);
            first = it.end;
            cells
        })
    }
}

/// For each fiber, the log-likelihood of the presence of events in its hidden cells, with the best b and c.
fn score(cells: &HiddenCells, fit: Mixture) -> Vec<f64> {
    let hidden = Hidden::new(cells, &fit, MOST_CELLS);
    drop(fit);
    let likelihood = |b: f64, c: f64| -> Vec<f64> {
        let rate = |l: &f64| (b * l + c).exp();
        let fiber = |(present, absent, weight): (&[f64], &[f64], f64)| {
            let present: f64 = present.iter().map(|l| (-(-rate(l)).exp_m1()).max(LEAST).ln()).sum();
            present - weight * absent.iter().map(rate).sum::<f64>()
        };
        hidden.fibers().map(fiber).collect()
    };
    let total = |b: f64, c: f64| likelihood(b, c).iter().sum::<f64>();
    let (b, c) = maximum(total, (1.0, 0.0));
    likelihood(b, c)
}

/// Returns the arguments of the maximum of a function of two variables: a search with steps that are halved.
fn maximum(f: impl Fn(f64, f64) -> f64, start: (f64, f64)) -> (f64, f64) {
    let (mut at, mut best, mut step) = (start, f(start.0, start.1), 0.5);
    while step > 0.01 {
        let moves = [(step, 0.0), (-step, 0.0), (0.0, step), (0.0, -step)];
        let next = moves.map(|(b, c)| (at.0 + b, at.1 + c)).map(|to| (f(to.0, to.1), to));
        let (value, to) = next.into_iter().fold((best, at), |a, b| if b.0 > a.0 { b } else { a });
        if value > best {
            (best, at) = (value, to);
        } else {
            step /= 2.0;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Place;

    #[test]
    fn a_sample_of_the_cells_without_events_stands_for_all() {
        // Each fiber has events in every fourth feature, more of them in some fibers and features than in others.
        let mut fibers = CountFibers::new(200);
        for col in 0..60 {
            let cells = (0..200).filter(|feature| (feature + col) % 4 == 0);
            let column: Vec<(u32, f64)> =
                cells.map(|feature| (feature, f64::from(1 + (feature * col) % 5))).collect();
            fibers.fibers.push(&column);
            fibers.places.push(Place { row: 0, col });
        }
        let cells = HiddenCells::rotation(&fibers, 0, 0);
        let fit = Mixture::mean(&cells);
        let sums = |most: usize| {
            let hidden = Hidden::new(&cells, &fit, most);
            let cell = |(present, absent, weight): (&[f64], &[f64], f64)| {
                let absent: f64 = absent.iter().map(|l| l.exp()).sum();
                (present.len(), weight * absent)
            };
            let fibers: Vec<(usize, f64)> = hidden.fibers().map(cell).collect();
            let sums = fibers.iter().fold((0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
            (sums, hidden.logarithms.len() - sums.0)
        };
        let (all, absent) = sums(usize::MAX);
        let (sampled, kept) = sums(200);
        assert_eq!(all.0, sampled.0);
        assert!(kept < absent / 4 && kept >= 60, "{kept} of {absent}");
        assert!((sampled.1 / all.1 - 1.0).abs() < 0.05, "{} instead of {}", sampled.1, all.1);
    }
}
