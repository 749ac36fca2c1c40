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

/// Compares tables that are damped in different ways: each has the same cells as the first one, with other values.
/// `count` is the number of patterns, if it is known.
///
/// The ranks of a team have shares of the tensors. Large tensors are sampled.
///
/// # Errors
/// [`Error::NotACount`] if a value is negative, [`Error::Stopped`] if `stop` was set.
pub fn compare_tables(
    team: &dyn Team,
    tables: &[Tensor<'_>],
    count: Option<usize>,
    seed: u64,
    stop: &Stop,
) -> Result<TableComparison, Error> {
    let own: Result<Vec<CountFibers>, Error> = tables.iter().map(count_fibers).collect();
    let fibers: Vec<CountFibers> =
        agree(team, own)?.into_iter().map(|fibers| gather(team, fibers).0).collect();
    // All tables get the number of patterns of the first one.
    let first = fibers.first().filter(|fibers| fibers.len() > 0);
    let (patterns, rungs) = match count {
        Some(count) => (count.max(1), Vec::new()),
        None => first
            .and_then(|first| number(first, seed, stop))
            .map_or((1, Vec::new()), |found| (found.taken, found.rungs)),
    };
    let scores: Vec<Vec<f64>> =
        fibers.par_iter().map(|fibers| presence(fibers, patterns, seed, stop)).collect();
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
        score(&cells, &fit)
    };
    (0..rotations).into_par_iter().map(rotation).collect::<Vec<_>>().concat()
}

/// The hidden cells of one fiber: ln l of the cells with events, and of those without.
struct Hidden {
    present: Vec<f64>,
    absent: Vec<f64>,
}

/// For each fiber, the log-likelihood of the presence of events in its hidden cells, with the best b and c.
fn score(cells: &HiddenCells, fit: &Mixture) -> Vec<f64> {
    let hidden = |q: usize| {
        let code = fit.code(q);
        let expected = |feature: usize| expected(fit.rows.row(feature), code).max(LEAST).ln();
        let events: Vec<u32> = cells.hidden(q).iter().map(|entry| entry.0).collect();
        let in_fold = (0..cells.features).filter(|&feature| cells.feature_folds[feature] == cells.fold(q));
        let absent = in_fold.filter(|&feature| events.binary_search(&(feature as u32)).is_err());
        Hidden {
            absent: absent.map(expected).collect(),
            present: events.iter().map(|&feature| expected(feature as usize)).collect(),
        }
    };
    let hidden: Vec<Hidden> = (0..cells.fibers()).map(hidden).collect();
    let likelihood = |b: f64, c: f64| -> Vec<f64> {
        let rate = |l: &f64| (b * l + c).exp();
        let fiber = |hidden: &Hidden| {
            let present: f64 = hidden.present.iter().map(|l| (-(-rate(l)).exp_m1()).max(LEAST).ln()).sum();
            present - hidden.absent.iter().map(rate).sum::<f64>()
        };
        hidden.iter().map(fiber).collect()
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
