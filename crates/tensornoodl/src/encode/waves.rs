//! Stage I: the codes of every fiber (alg:coeff_init, alg:coeff_iht).
//!
//! Fibers are read once. They are taken in waves, evenly spread over the tensor, so that the rows and
//! cols of one wave tell the next which patterns to expect (`screen.rs`); a wave is cut into blocks, which
//! are coded in parallel (`fiber.rs`) and then teach (`update.rs`). Waves and blocks have fixed sizes and
//! are put together in order, so that nothing depends on the number of threads.

use std::borrow::Borrow;

use rayon::prelude::*;

use crate::data::codes::{Codes, SolverCounts};
use crate::data::dictionary::Dictionary;
use crate::data::sparse::Sparse;
use crate::data::tensor::{Tensor, check_distinct};
use crate::encode::fiber::{Coder, Scores, Work, refit, residual_of};
use crate::encode::screen::PatternsByPlace;
use crate::error::Error;
use crate::linalg::product::transposed_product;
use crate::linalg::vector::{dot, to_single};
use crate::parallel::exact_sum::ExactSums;
use crate::params::{Params, Rule, Solver};
use crate::shape::{Place, Shape};
use crate::stop::Stop;
use crate::update::sums::FiberSums;

/// Fibers per block: enough for a product at full speed, few enough to share among threads.
const BLOCK: usize = 128;

/// Least fibers per wave, and most waves. What a wave leaves of its fibers is held in memory until it has
/// taught; the more blocks it has, the more threads find work.
const WAVE: usize = 2048;
const WAVES: usize = 32;

/// Fibers next to each other that stay together in a wave: memory is read in runs.
const RUN: usize = 8;

/// Products of two numbers in A'Y up to which threads are not worth their start.
const SMALL_PRODUCT: usize = 16_000_000;

/// Fibers whose plain products are computed together, while they are in the cache.
const TILE: usize = 8;

/// Stage I of one tensor, piece by piece.
pub(crate) struct Encoding<'a> {
    coder: Coder<'a>,
    space: &'a mut Space,
    /// Where fibers start.
    first: Road,
    shown: Option<PatternsByPlace>,
    /// Whether rows and cols have shown something, and may propose codes.
    proposing: bool,
    found: Found,
    /// No further wave is begun once it is set.
    stop: &'a Stop,
}

/// Ways to the code of a fiber, each the next one's short cut (`screen.rs`).
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Road {
    Places,
    Product,
    Plain,
}

/// What stage I has found.
pub(crate) struct Found {
    /// Column q: the code of fiber `fibers[q]`.
    codes: Sparse,
    fibers: Vec<usize>,
    pub(crate) places: Vec<Place>,
    /// Number of fibers that are not zero.
    pub(crate) nonzero: usize,
    /// Number of entries of all codes.
    size: usize,
    /// |Y|_F^2 and |Y - A X|_F^2.
    energy: ExactSums,
    pub(crate) solver_counts: SolverCounts,
}

impl Found {
    /// Fibers count from `offset`.
    fn append(
        &mut self,
        tensor: &Tensor<'_>,
        offset: usize,
        blocks: &[Block],
        mut shown: Option<&mut PatternsByPlace>,
    ) {
        for block in blocks {
            if let Some(shown) = &mut shown {
                for (&fiber, code) in block.fibers.iter().zip(block.found.columns()) {
                    code.iter().for_each(|&(pattern, _)| shown.add(tensor.places()[fiber], pattern));
                }
            }
            self.codes.append(&block.found);
            self.fibers.extend(block.fibers.iter().map(|fiber| offset + fiber));
            self.nonzero += block.energies.iter().filter(|energy| **energy > 0.0).count();
            self.size += block.found.nnz();
            self.energy.column(0).add_all(&block.energies);
            self.energy.column(1).add_all(&block.left);
            self.solver_counts.add(block.solver_counts);
        }
    }

    /// Mean number of patterns in a fiber.
    pub(crate) fn mean_code_size(&self) -> f64 {
        self.size as f64 / self.nonzero.max(1) as f64
    }

    /// |Y - A X|_F / |Y|_F.
    pub(crate) fn fit(&self) -> f64 {
        let (energy, rest) = (self.energy.get(0, 0), self.energy.get(1, 0));
        if energy > 0.0 { (rest / energy).sqrt() } else { 0.0 }
    }

    /// What all ranks have found, but for the codes, which stay where they are: sums and counts.
    pub(crate) fn sums(&mut self) -> (&mut ExactSums, [&mut usize; 6]) {
        let SolverCounts { direct, guessed, iht, unsettled } = &mut self.solver_counts;
        (&mut self.energy, [&mut self.nonzero, &mut self.size, direct, guessed, iht, unsettled])
    }

    /// The codes of all fibers, in the order of the fibers.
    pub(crate) fn codes(self, shape: Shape) -> Codes {
        let mut column = vec![0; self.fibers.len()];
        self.fibers.iter().enumerate().for_each(|(at, &fiber)| column[fiber] = at);
        let matrix = self.codes.gather(&column);
        Codes::at(matrix, self.places, shape)
    }
}

/// The large arrays of an [`Encoding`], kept from tensor to tensor.
#[derive(Debug, Default)]
pub(crate) struct Space {
    /// A in single precision.
    single: Vec<f32>,
    /// n x wave: what the codes leave of the fibers.
    residuals: Vec<f64>,
}

/// Codes of one block of fibers, in the order in which they were found.
pub(crate) struct Block {
    pub(crate) fibers: Vec<usize>,
    found: Sparse,
    /// What stage III learns from.
    ///
    /// The paper's step takes X. The adaptive one, which moves by the whole of what it sees, takes
    /// the codes of at least code_floor / 2, fitted again without the smaller ones. By
    /// (alg:coeff_init) these are no codes; yet a wrong one that fits is stable: if
    /// A_i = A*_i - x A_l, then A_i + x A_l explains every fiber of pattern i.
    pub(crate) believed: Sparse,
    /// |y|^2, and |y - A x|^2 with the believed codes.
    pub(crate) energies: Vec<f64>,
    pub(crate) rests: Vec<f64>,
    /// |y - A x|^2 with the found ones.
    left: Vec<f64>,
    /// Fibers that rows and cols could have proposed codes for.
    near: usize,
    solver_counts: SolverCounts,
}

impl<'a> Encoding<'a> {
    pub(crate) fn new(
        dictionary: &'a Dictionary,
        params: &'a Params,
        space: &'a mut Space,
        stop: &'a Stop,
    ) -> Encoding<'a> {
        space.single.resize(dictionary.values().len(), 0.0);
        to_single(&mut space.single, dictionary.values(), 1.0);
        Encoding {
            coder: Coder::new(dictionary, params),
            space,
            first: match params.solver {
                Solver::Direct => Road::Places,
                Solver::Iht => Road::Plain,
            },
            shown: None,
            stop,
            proposing: false,
            found: Found {
                codes: Sparse::new(dictionary.patterns()),
                fibers: Vec::new(),
                places: Vec::new(),
                nonzero: 0,
                size: 0,
                energy: ExactSums::new(2, 1),
                solver_counts: SolverCounts::default(),
            },
        }
    }

    /// Codes the fibers of a tensor in parts of the same shape.
    pub(crate) fn add_parts<'t, T: Borrow<Tensor<'t>>, E: From<Error>>(
        &mut self,
        shape: Shape,
        parts: impl IntoIterator<Item = Result<T, E>>,
        sums: &mut FiberSums<'_>,
    ) -> Result<(), E> {
        let mut count = 0;
        for part in parts {
            let part = part?;
            let part: &Tensor<'_> = part.borrow();
            if part.shape() != shape {
                return Err(Error::OtherShape { part: part.shape(), tensor: shape }.into());
            }
            self.add(part, Some(sums));
            count += 1;
        }
        if self.stop.is_set() {
            return Err(Error::Stopped.into());
        }
        if count > 1 {
            check_distinct(&self.found.places)?;
        }
        Ok(())
    }

    /// Codes the fibers of a tensor, or of its next part, and teaches `sums`.
    pub(crate) fn add(&mut self, tensor: &Tensor<'_>, sums: Option<&mut FiberSums<'_>>) {
        let (n, p) = (tensor.shape().features, tensor.fibers());
        // Less work than it takes to wake threads up.
        let small = n * self.coder.dictionary.patterns() * p < SMALL_PRODUCT;
        if small {
            self.waves(tensor, small, sums);
        } else {
            // Among the threads from here on, so that they are woken once, not for every wave.
            rayon::scope(|_| self.waves(tensor, small, sums));
        }
    }

    fn waves(&mut self, tensor: &Tensor<'_>, small: bool, mut sums: Option<&mut FiberSums<'_>>) {
        let p = tensor.fibers();
        let runs = p.div_ceil(RUN);
        let waves = (runs * RUN).div_ceil(WAVE).min(WAVES);
        let patterns = self.coder.dictionary.patterns();
        if waves > 1 && patterns > 0 {
            self.coder.prepare();
        }
        if waves > 1 && patterns > 0 && self.shown.is_none() && self.first <= Road::Places {
            self.shown = PatternsByPlace::new(tensor.shape(), patterns, size_of_val(tensor.values()));
        }
        let offset = self.found.places.len();
        self.found.places.extend_from_slice(tensor.places());
        for wave in 0..waves {
            // At first, rows and cols learn from every fiber: small waves.
            let pieces = match wave {
                _ if waves == 1 => 1,
                0 => 4,
                1 => 2,
                _ => 1,
            };
            for piece in 0..pieces {
                if self.stop.is_set() {
                    return;
                }
                let runs = (wave + piece * waves..runs).step_by(pieces * waves);
                let fibers: Vec<usize> = runs.flat_map(|run| run * RUN..p.min((run + 1) * RUN)).collect();
                let near = self.wave(tensor, offset, &fibers, small, sums.as_deref_mut());
                if self.shown.is_none() || self.proposing {
                    continue;
                }
                if near {
                    // A is its own guide.
                    self.proposing = true;
                } else if piece + 1 == pieces {
                    let guide = sums.as_ref().and_then(|sums| sums.guide());
                    self.proposing = guide.is_some();
                    guide.into_iter().for_each(|guide| self.coder.follow(guide));
                }
            }
        }
    }

    /// Codes a wave and teaches `sums`; true if most of its fibers leave little.
    fn wave(
        &mut self,
        tensor: &Tensor<'_>,
        offset: usize,
        fibers: &[usize],
        small: bool,
        sums: Option<&mut FiberSums<'_>>,
    ) -> bool {
        let n = tensor.shape().features;
        let mut residuals = std::mem::take(&mut self.space.residuals);
        residuals.resize(n * fibers.len().max(residuals.len() / n), 0.0);
        let code = |work: &mut Work, (fibers, residuals): (&[usize], &mut [f64])| {
            self.block(work, tensor, fibers, residuals)
        };
        let blocks: Vec<Block> = if small {
            let (mut work, residuals) = (Work::default(), residuals.chunks_mut(n * BLOCK));
            fibers.chunks(BLOCK).zip(residuals).map(|block| code(&mut work, block)).collect()
        } else {
            let residuals = residuals.par_chunks_mut(n * BLOCK);
            fibers.par_chunks(BLOCK).zip(residuals).with_max_len(1).map_init(Work::default, code).collect()
        };
        let Encoding { shown, found, space, .. } = self;
        let teach = || {
            if let Some(sums) = sums {
                sums.add(tensor, offset, &blocks, &residuals);
            }
        };
        let mut keep = || found.append(tensor, offset, &blocks, shown.as_mut());
        if small {
            teach();
            keep();
        } else {
            rayon::join(teach, keep);
        }
        space.residuals = residuals;
        2 * blocks.iter().map(|block| block.near).sum::<usize>() > fibers.len()
    }

    /// What was found.
    pub(crate) fn found(self) -> Found {
        self.found
    }

    /// Codes one block of fibers (at most [`BLOCK`] of them): each by the first road that proves its code.
    fn block(&self, work: &mut Work, tensor: &Tensor<'_>, fibers: &[usize], residuals: &mut [f64]) -> Block {
        let coder = &self.coder;
        let (n, m) = (coder.dictionary.features(), coder.dictionary.patterns());
        let floor = coder.params.code_floor;
        work.begin();
        let mut block = Block::new(m, fibers.len());
        let energies: Vec<f64> =
            fibers.iter().map(|&fiber| dot(tensor.fiber(fiber), tensor.fiber(fiber))).collect();
        let mut left: Vec<(usize, f64)> = fibers.iter().copied().zip(energies).collect();

        // Without patterns there are no codes.
        if m == 0 {
            for (fiber, energy) in left.drain(..) {
                work.code.clear();
                let (y, r) = (tensor.fiber(fiber), block.next(residuals, n));
                r.copy_from_slice(y);
                block.push(coder, work, fiber, y, r, energy, energy);
            }
            return block;
        }

        // Rows and cols.
        if let Some(shown) = self.shown.as_ref().filter(|_| self.proposing) {
            left.retain(|&(fiber, energy)| {
                work.code.clear();
                work.code.extend(shown.in_row_and_col(tensor.places()[fiber]).map(|i| (i, 0.0)));
                let (y, r) = (tensor.fiber(fiber), block.next(residuals, n));
                let found = coder.guessed(work, y, r, coder.rounding_bounds(energy));
                if let Some(rest) = found {
                    block.solver_counts.direct += 1;
                    block.solver_counts.guessed += 1;
                    block.push(coder, work, fiber, y, r, energy, rest);
                }
                found.is_none()
            });
        }

        // The product in single precision.
        if self.first <= Road::Product {
            let mut single = vec![0.0; n * left.len()];
            for (single, &(fiber, _)) in single.chunks_exact_mut(n).zip(&left) {
                to_single(single, tensor.fiber(fiber), 1.0 / floor);
            }
            let mut products = vec![0.0; m * left.len()];
            transposed_product(&mut products, &self.space.single, &single, n);
            let mut scores = products.chunks_exact(m);
            left.retain(|&(fiber, energy)| {
                let lengths = coder.rounding_bounds(energy);
                let scores =
                    Scores { values: scores.next().unwrap_or(&[]), radius: lengths.single_product() };
                if !lengths.fits_single() {
                    return true;
                }
                let (y, r) = (tensor.fiber(fiber), block.next(residuals, n));
                let found = coder.direct(work, y, r, lengths, scores, None);
                if let Some(rest) = found {
                    block.solver_counts.direct += 1;
                    block.push(coder, work, fiber, y, r, energy, rest);
                }
                found.is_none()
            });
        }

        // The plain product, and the paper's iteration if it comes to that.
        let mut products = vec![0.0; m * left.len().min(TILE)];
        for tile in left.chunks(TILE) {
            for (i, pattern) in coder.dictionary.values().chunks_exact(n).enumerate() {
                for (at, &(fiber, _)) in tile.iter().enumerate() {
                    products[at * m + i] = dot(pattern, tensor.fiber(fiber));
                }
            }
            for (&(fiber, energy), d) in tile.iter().zip(products.chunks_exact(m)) {
                let (y, r) = (tensor.fiber(fiber), block.next(residuals, n));
                let rest = coder.plain(work, y, r, energy, d, &mut block.solver_counts);
                block.push(coder, work, fiber, y, r, energy, rest);
            }
        }
        block
    }
}

impl Block {
    fn new(patterns: usize, fibers: usize) -> Block {
        Block {
            fibers: Vec::with_capacity(fibers),
            found: Sparse::new(patterns),
            believed: Sparse::new(patterns),
            energies: Vec::with_capacity(fibers),
            rests: Vec::with_capacity(fibers),
            left: Vec::with_capacity(fibers),
            near: 0,
            solver_counts: SolverCounts::default(),
        }
    }

    /// Where the residual of the next fiber belongs.
    fn next<'r>(&self, residuals: &'r mut [f64], n: usize) -> &'r mut [f64] {
        &mut residuals[self.fibers.len() * n..][..n]
    }

    /// Takes the code of the next fiber out of `work`.
    #[allow(clippy::too_many_arguments)]
    fn push(
        &mut self,
        coder: &Coder<'_>,
        work: &mut Work,
        fiber: usize,
        y: &[f64],
        r: &mut [f64],
        energy: f64,
        rest: f64,
    ) {
        let half = coder.params.code_floor / 2.0;
        self.fibers.push(fiber);
        self.found.push(&work.code);
        self.energies.push(energy);
        self.left.push(rest);
        self.near += usize::from(rest < half * half / 4.0);
        let least = match coder.params.rule {
            Rule::Paper { .. } => 0.0,
            Rule::Adaptive => half,
        };
        let small = |code: &[(u32, f64)]| code.iter().any(|entry| entry.1.abs() < least);
        let mut believed = rest;
        while small(&work.code) {
            work.code.retain(|entry| entry.1.abs() >= least);
            let refitted = refit(work, y, r, coder.dictionary);
            believed = refitted.unwrap_or_else(|| residual_of(r, y, coder.dictionary, &work.code));
        }
        self.believed.push(&work.code);
        self.rests.push(believed);
    }
}

impl Coder<'_> {
    /// The last road: all of d = A'y is known. Returns |r|^2.
    fn plain(
        &self,
        work: &mut Work,
        y: &[f64],
        r: &mut [f64],
        energy: f64,
        d: &[f64],
        solver_counts: &mut SolverCounts,
    ) -> f64 {
        let params = self.params;
        let lengths = self.rounding_bounds(energy);
        let direct = params.solver == Solver::Direct;
        if direct && let Some(rest) = self.direct_from_all(work, y, r, lengths, d) {
            solver_counts.direct += 1;
            return rest;
        }
        let settled = self.iht(work, d);
        *(if settled { &mut solver_counts.iht } else { &mut solver_counts.unsettled }) += 1;
        // The support is settled; what the last steps would still add is known.
        let polish = direct && settled && params.code_tolerance > 0.0;
        let polished = if polish { refit(work, y, r, self.dictionary) } else { None };
        let rest = polished.unwrap_or_else(|| residual_of(r, y, self.dictionary, &work.code));
        if rest <= energy {
            return rest;
        }
        // Diverged, or worse than nothing.
        work.code.clear();
        residual_of(r, y, self.dictionary, &work.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::synthetic::{Plan, Planted, Values};
    use crate::update::sums::{PassWeights, Space as SumSpace};

    /// A tensor of several waves.
    fn plan() -> Plan {
        let (rows, cols, alpha, beta) = (220, 210, 0.08, 0.06);
        Plan { features: 60, patterns: 130, rows, cols, alpha, beta, ..Plan::default() }
    }

    fn encode(
        tensor: &Tensor<'_>,
        dictionary: &Dictionary,
        params: &Params,
        first: Road,
    ) -> (SolverCounts, Codes) {
        let (mut space, mut sums, mut frozen) = (Space::default(), SumSpace::default(), PassWeights::Unused);
        let stop = Stop::default();
        let mut encoding = Encoding::new(dictionary, params, &mut space, &stop);
        encoding.first = first;
        encoding.add(tensor, Some(&mut FiberSums::new(dictionary, params, &mut frozen, &mut sums, None)));
        let found = encoding.found();
        (found.solver_counts, found.codes(tensor.shape()))
    }

    /// The codes are the same to the last bit on all solver_counts; returns the shares of guessed and iterated fibers.
    #[track_caller]
    fn same_on_all_roads(plan: Plan, distance: f64, params: Params) -> (f64, f64) {
        let planted = Planted::new(plan).unwrap();
        let (dictionary, tensor) = (planted.start(distance).unwrap(), planted.tensor(1).tensor);
        assert!(tensor.fibers() > 2 * WAVE, "{} fibers are too few", tensor.fibers());
        let (solver_counts, codes) = encode(&tensor, &dictionary, &params, Road::Places);
        for first in [Road::Product, Road::Plain] {
            let (others, other) = encode(&tensor, &dictionary, &params, first);
            let same = |a: &(u32, f64), b: &(u32, f64)| a.0 == b.0 && a.1.to_bits() == b.1.to_bits();
            let columns = codes.matrix().columns().zip(other.matrix().columns()).enumerate();
            for (fiber, (a, b)) in columns {
                assert!(
                    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
                    "{fiber}: {a:?} {b:?}"
                );
            }
            assert_eq!(others.guessed, 0);
            // A proof may fail by a hair on one road and hold on another.
            assert!(
                others.direct.abs_diff(solver_counts.direct) <= tensor.fibers() / 1000,
                "{others:?} {solver_counts:?}"
            );
        }
        let share = |count: usize| count as f64 / tensor.fibers() as f64;
        (share(solver_counts.guessed), share(solver_counts.iht + solver_counts.unsettled))
    }

    #[test]
    fn near_dictionaries_are_their_own_guide() {
        let (guessed, iterated) = same_on_all_roads(plan(), 1e-6, Params::default());
        assert!(guessed > 0.5 && iterated < 0.2, "{guessed} {iterated}");
    }

    #[test]
    fn far_dictionaries_get_a_guide() {
        let (guessed, _) = same_on_all_roads(plan(), 0.4, Params::default());
        assert!(guessed > 0.3, "{guessed}");
        let paper = Params { rule: Rule::Paper { eta_a: 20.0 }, ..Params::default() };
        let (guessed, _) = same_on_all_roads(plan(), 0.4, paper);
        assert!(guessed > 0.3, "{guessed}");
    }

    #[test]
    fn noise_and_small_codes_change_no_code() {
        let noisy = Plan { noise: 0.3, row_values: Values::SubGaussian { floor: 0.4 }, ..plan() };
        for distance in [1e-6, 0.3] {
            same_on_all_roads(noisy.clone(), distance, Params { code_floor: 0.4, ..Params::default() });
        }
    }

    #[test]
    fn fibers_at_the_thresholds_keep_their_codes() {
        // Half the floor is exactly the size of the codes, and d lies on either side of it by rounding.
        let (_, iterated) = same_on_all_roads(plan(), 0.0, Params { code_floor: 2.0, ..Params::default() });
        assert!(iterated > 0.0);
        // The threshold of the iteration is the size of the codes.
        let params = Params { tau: 1.0, eta_x: 0.9, ..Params::default() };
        let (_, iterated) = same_on_all_roads(plan(), 0.0, params);
        assert!(iterated > 0.2, "{iterated}");
    }

    #[test]
    fn any_scale_will_do() {
        for scale in [1e-60, 1e-30, 1e30, 1e60] {
            let planted = Planted::new(plan()).unwrap();
            let (dictionary, tensor) = (planted.start(0.01).unwrap(), planted.tensor(1).tensor);
            let values: Vec<f64> = tensor.values().iter().map(|y| scale * y).collect();
            let scaled = Tensor::from_fibers(tensor.shape(), values, tensor.places()).unwrap();
            let params = Params {
                code_floor: scale,
                tau: 0.1 * scale,
                rule: Rule::Paper { eta_a: 1.0 },
                ..Params::default()
            };
            let (solver_counts, codes) = encode(&scaled, &dictionary, &params, Road::Places);
            let (_, plain) = encode(&scaled, &dictionary, &params, Road::Plain);
            assert_eq!(codes, plain, "{scale:e}");
            assert!(2 * solver_counts.guessed > tensor.fibers(), "{scale:e}: {solver_counts:?}");
        }
    }
}
