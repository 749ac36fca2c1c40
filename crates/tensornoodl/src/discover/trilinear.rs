//! The number of patterns of one dense tensor without negative values, such as spectra of mixtures.
//!
//! Fibers of such a tensor have all patterns at once, so that the search, which looks for directions that some fibers
//! share, cannot tell them apart. But few patterns, rows and cols explain the whole tensor together
//! (`untangle/trilinear.rs`). Some cells are hidden from the fit, and a further pattern must explain them clearly better.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::data::tensor::Tensor;
use crate::discover::held_out::WORTH;
use crate::discover::stable::CLOSE;
use crate::params::ModelKind;
use crate::stop::Stop;
use crate::untangle::trilinear::{Cell, Trilinear};

/// Tensors with more cells are left to the search.
const MAX_CELLS: usize = 1 << 20;

/// A tensor is dense if at least this share of its cells is not zero.
const DENSE: f64 = 0.5;

/// Largest share of the energy in negative values that counts as noise.
const MAX_NEGATIVE: f64 = 0.01;

/// One of this many cells is hidden.
const HIDDEN: u64 = 10;

/// Number of further patterns that are tried after the last one that was worth it.
const AHEAD: usize = 2;

/// Number of random starts of a fit.
const TRIES: u64 = 2;

/// Maximum number of sweeps of a fit.
const SWEEPS: usize = 100;

/// Returns the number of patterns that explain a dense tensor without negative values together with their rows and cols.
///
/// It is the smallest number so that each further pattern explains less than one percent of the energy of hidden cells.
/// None if the tensor is sparse, large or negative, if these patterns explain less than nine tenths of that energy, or if
/// `stop` was set.
pub(crate) fn trilinear_patterns(tensor: &Tensor<'_>, seed: u64, stop: &Stop) -> Option<usize> {
    let shape = tensor.shape();
    let lengths = [shape.features, shape.rows, shape.cols];
    let all = lengths.iter().try_fold(1usize, |all, length| all.checked_mul(*length))?;
    let positive = tensor.values().iter().filter(|value| **value > 0.0).count();
    let energy = |of: &dyn Fn(&f64) -> bool| -> f64 {
        tensor.values().iter().filter(|value| of(value)).map(|value| value * value).sum()
    };
    let (below, total) = (energy(&|value| *value < 0.0), energy(&|_| true));
    if all > MAX_CELLS || (positive as f64) < DENSE * all as f64 || below > MAX_NEGATIVE * total {
        return None;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x7472_696c);
    let cells = dense_cells(tensor, &mut rng);
    let hidden: f64 = cells.iter().filter(|cell| cell.hidden).map(|cell| cell.value.powi(2)).sum();
    if hidden <= 0.0 {
        return None;
    }
    let most = lengths.iter().copied().max()?;
    let (mut taken, mut explained) = (0, 0.0);
    for patterns in 1..=most {
        if patterns > taken + AHEAD {
            break;
        }
        let now = 1.0 - hidden_error(&cells, lengths, patterns, &mut rng) / hidden;
        if stop.is_set() {
            return None;
        }
        if now >= explained + WORTH * (patterns - taken) as f64 {
            (taken, explained) = (patterns, now);
        }
    }
    (explained >= CLOSE).then_some(taken)
}

/// All cells of a tensor, of which some are hidden. Negative values count as 0.
fn dense_cells(tensor: &Tensor<'_>, rng: &mut ChaCha8Rng) -> Vec<Cell> {
    let shape = tensor.shape();
    let mut fibers = vec![None; shape.rows * shape.cols];
    for (fiber, place) in tensor.places().iter().enumerate() {
        fibers[place.row as usize * shape.cols + place.col as usize] = Some(tensor.fiber(fiber));
    }
    let mut cells = Vec::with_capacity(fibers.len() * shape.features);
    for (place, fiber) in fibers.into_iter().enumerate() {
        for feature in 0..shape.features {
            cells.push(Cell {
                at: [feature as u32, (place / shape.cols) as u32, (place % shape.cols) as u32],
                value: fiber.map_or(0.0, |fiber| fiber[feature].max(0.0)),
                hidden: rng.random_range(0..HIDDEN) == 0,
            });
        }
    }
    cells
}

/// The squared error of hidden cells, by the best of some fits with this many patterns.
fn hidden_error(cells: &[Cell], lengths: [usize; 3], patterns: usize, rng: &mut ChaCha8Rng) -> f64 {
    let mut best = (f64::INFINITY, f64::INFINITY);
    for _ in 0..TRIES {
        let mut draw = |length: usize| (0..length * patterns).map(|_| rng.random::<f64>()).collect();
        let mut fit = Trilinear::from_parts(patterns, lengths.map(&mut draw));
        fit.fit(ModelKind::Exact, cells, SWEEPS);
        let seen = fit.squared_error(cells);
        if seen < best.0 {
            let error = |cell: &Cell| (cell.value - fit.expected(cell.at)).powi(2);
            best = (seen, cells.iter().filter(|cell| cell.hidden).map(error).sum());
        }
    }
    best.1
}
