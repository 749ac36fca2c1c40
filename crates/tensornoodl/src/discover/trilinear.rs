//! The patterns of one dense tensor without negative values, such as spectra of mixtures.
//!
//! Fibers of such a tensor have all patterns at once, so that the search, which looks for directions that some fibers
//! share, cannot tell them apart. But few patterns, rows and cols explain the whole tensor together
//! (`untangle/trilinear.rs`). Some cells are hidden from the fit, and a further pattern must explain them clearly better.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::data::tensor::Tensor;
use crate::discover::held_out::{CLOSE, WORTH};
use crate::discover::params::DiscoverParams;
use crate::discover::search::Search;
use crate::discover::start::Start;
use crate::discover::unit_fibers::UnitFibers;
use crate::error::Error;
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
const TRIES: usize = 2;

/// Maximum number of sweeps of a fit.
const SWEEPS: usize = 100;

/// Finds the patterns that explain a dense tensor without negative values together with their rows and cols.
///
/// Their number is the smallest one so that each further pattern explains less than one percent of the energy of hidden
/// cells. None if the tensor is sparse, large or negative, or if these patterns explain less than nine tenths of that
/// energy.
///
/// # Errors
/// [`Error::Parameter`] for a parameter outside its range, [`Error::Stopped`] if `params.stop` ended the search.
pub(crate) fn find_together(tensor: &Tensor<'_>, params: &DiscoverParams) -> Result<Option<Start>, Error> {
    params.check()?;
    let Some(columns) = columns(tensor, params.seed, &params.stop) else { return Ok(None) };
    if params.stop.is_set() {
        return Err(Error::Stopped);
    }
    let n = tensor.shape().features;
    let mut fibers = UnitFibers::new(n);
    (0..tensor.fibers()).for_each(|fiber| fibers.push(tensor, fiber));
    fibers.keep_longer(params.min_length);
    let single = columns.iter().map(|&a| a as f32).collect();
    let scale = Search::new(n, single, None, 0, params.seed).estimate_scale(&fibers);
    Start::new(tensor, &columns, &vec![1.0; columns.len() / n], scale, params.min_length).map(Some)
}

/// The patterns, column by column and of unit length. Meaningless if `stop` was set.
fn columns(tensor: &Tensor<'_>, seed: u64, stop: &Stop) -> Option<Vec<f64>> {
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
    let (mut best, mut taken, mut explained) = (None, 0, 0.0);
    for patterns in 1..=most {
        if patterns > taken + AHEAD {
            break;
        }
        let (error, fit) = fit(&cells, lengths, patterns, &mut rng);
        let now = 1.0 - error / hidden;
        if now >= explained + WORTH * (patterns - taken) as f64 {
            (best, taken, explained) = (Some(fit), patterns, now);
        }
        if stop.is_set() {
            break;
        }
    }
    let best = best.filter(|_| explained >= CLOSE)?;
    Some(best.into_parts(ModelKind::Exact).0)
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

/// Returns the best of some fits with this many patterns, and its squared error of hidden cells.
fn fit(cells: &[Cell], lengths: [usize; 3], patterns: usize, rng: &mut ChaCha8Rng) -> (f64, Trilinear) {
    let mut try_once = || {
        let mut draw = |length: usize| (0..length * patterns).map(|_| rng.random::<f64>()).collect();
        let mut fit = Trilinear::from_parts(patterns, lengths.map(&mut draw));
        fit.fit(ModelKind::Exact, cells, SWEEPS);
        (fit.squared_error(cells), fit)
    };
    let mut best = try_once();
    for _ in 1..TRIES {
        let other = try_once();
        best = if other.0 < best.0 { other } else { best };
    }
    let error = |cell: &Cell| (cell.value - best.1.expected(cell.at)).powi(2);
    (cells.iter().filter(|cell| cell.hidden).map(error).sum(), best.1)
}
