//! Codes of one block of fibers, each found by the cheapest method that proves it (`screen.rs`).

use crate::data::codes::SolverCounts;
use crate::data::sparse::Sparse;
use crate::data::tensor::Tensor;
use crate::encode::fiber::{Coder, Scores, Work, refit, residual_of};
use crate::encode::screen::PatternsByPlace;
use crate::linalg::product::transposed_product;
use crate::linalg::vector::{dot, to_single};
use crate::params::{Rule, Solver};

/// Number of fibers whose products with A in double precision are computed together, while they are in the cache.
const TILE: usize = 8;

/// How scores of the patterns are found, cheapest first. Each screening tries the fibers whose codes the screening
/// before could not prove.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub(crate) enum Screening {
    /// From the patterns that the fiber's row and col have shown in other fibers.
    Places,
    /// From the product A'Y in single precision.
    Single,
    /// From the product A'y in double precision.
    Double,
}

/// Codes of one block of fibers, in the order in which they were found.
pub(crate) struct Block {
    /// The number of each fiber in its tensor.
    pub(crate) fibers: Vec<usize>,
    /// The codes X.
    pub(crate) codes: Sparse,
    /// The codes that stage III uses.
    ///
    /// The paper's step uses X. The adaptive step uses only codes of at least code_floor / 2, fitted again without the
    /// smaller codes, which (alg:coeff_init) does not accept as codes. Otherwise a wrong small code could stay:
    /// if A_i = A*_i - x A_l, then A_i + x A_l explains every fiber of pattern i, and no residual corrects A_i.
    pub(crate) update_codes: Sparse,
    /// |y|^2 of each fiber.
    pub(crate) energies: Vec<f64>,
    /// |y - A x|^2 with `codes`.
    pub(crate) residual_energies: Vec<f64>,
    /// |y - A x|^2 with `update_codes`.
    pub(crate) update_residual_energies: Vec<f64>,
    /// Number of fibers whose residual is small enough for rows and cols to propose codes.
    pub(crate) well_fitted: usize,
    /// How many fibers each solver coded.
    pub(crate) solver_counts: SolverCounts,
}

/// Codes blocks of fibers. Blocks are coded in parallel.
pub(crate) struct BlockCoder<'a> {
    pub(crate) coder: &'a Coder<'a>,
    /// Patterns that rows and cols have shown, if they may propose codes.
    pub(crate) by_place: Option<&'a PatternsByPlace>,
    /// A in single precision.
    pub(crate) single: &'a [f32],
    /// The first screening to try.
    pub(crate) first: Screening,
}

/// A fiber that has no code yet, and its energy |y|^2.
type Open = (usize, f64);

impl BlockCoder<'_> {
    /// Codes the given fibers. The residual of the q-th coded fiber is written to column q of `residuals` (n rows).
    pub(crate) fn code(
        &self,
        work: &mut Work,
        tensor: &Tensor<'_>,
        fibers: &[usize],
        residuals: &mut [f64],
    ) -> Block {
        work.begin();
        let mut block = Block::new(self.coder.dictionary.patterns(), fibers.len());
        let energy = |fiber: usize| dot(tensor.fiber(fiber), tensor.fiber(fiber));
        let mut open: Vec<Open> = fibers.iter().map(|&fiber| (fiber, energy(fiber))).collect();
        if self.coder.dictionary.patterns() == 0 {
            self.leave_uncoded(&open, &mut block, work, tensor, residuals);
            return block;
        }
        self.by_places(&mut open, &mut block, work, tensor, residuals);
        if self.first <= Screening::Single {
            self.by_single_precision(&mut open, &mut block, work, tensor, residuals);
        }
        self.by_double_precision(&open, &mut block, work, tensor, residuals);
        block
    }

    /// Gives every fiber an empty code, for a dictionary without patterns. The residual is the fiber.
    fn leave_uncoded(
        &self,
        open: &[Open],
        block: &mut Block,
        work: &mut Work,
        tensor: &Tensor<'_>,
        residuals: &mut [f64],
    ) {
        let n = tensor.shape().features;
        for &(fiber, energy) in open {
            work.code.clear();
            let (y, r) = (tensor.fiber(fiber), block.next(residuals, n));
            r.copy_from_slice(y);
            block.push(self.coder, work, fiber, y, r, energy, energy);
        }
    }

    /// Tries the patterns that both the row and the col of a fiber have shown.
    fn by_places(
        &self,
        open: &mut Vec<Open>,
        block: &mut Block,
        work: &mut Work,
        tensor: &Tensor<'_>,
        residuals: &mut [f64],
    ) {
        let Some(by_place) = self.by_place else { return };
        let (coder, n) = (self.coder, tensor.shape().features);
        open.retain(|&(fiber, energy)| {
            work.code.clear();
            work.code.extend(by_place.in_row_and_col(tensor.places()[fiber]).map(|i| (i, 0.0)));
            let (y, r) = (tensor.fiber(fiber), block.next(residuals, n));
            let found = coder.code_from_prediction(work, y, r, coder.rounding_bounds(energy));
            if let Some(residual) = found {
                block.solver_counts.direct += 1;
                block.solver_counts.predicted += 1;
                block.push(coder, work, fiber, y, r, energy, residual);
            }
            found.is_none()
        });
    }

    /// Tries the patterns with large entries in the product A'Y in single precision.
    fn by_single_precision(
        &self,
        open: &mut Vec<Open>,
        block: &mut Block,
        work: &mut Work,
        tensor: &Tensor<'_>,
        residuals: &mut [f64],
    ) {
        let (coder, n, m) = (self.coder, tensor.shape().features, self.coder.dictionary.patterns());
        let mut single = vec![0.0; n * open.len()];
        for (single, &(fiber, _)) in single.chunks_exact_mut(n).zip(&*open) {
            to_single(single, tensor.fiber(fiber), 1.0 / coder.params.code_floor);
        }
        let mut products = vec![0.0; m * open.len()];
        transposed_product(&mut products, self.single, &single, n);
        let mut scores = products.chunks_exact(m);
        open.retain(|&(fiber, energy)| {
            let bounds = coder.rounding_bounds(energy);
            let scores = Scores { values: scores.next().unwrap_or(&[]), radius: bounds.single_product() };
            if !bounds.fits_single() {
                return true;
            }
            let (y, r) = (tensor.fiber(fiber), block.next(residuals, n));
            let found = coder.direct(work, y, r, bounds, scores, None);
            if let Some(residual) = found {
                block.solver_counts.direct += 1;
                block.push(coder, work, fiber, y, r, energy, residual);
            }
            found.is_none()
        });
    }

    /// Codes all remaining fibers: A'y in double precision, and iterative hard thresholding where no proof holds.
    fn by_double_precision(
        &self,
        open: &[Open],
        block: &mut Block,
        work: &mut Work,
        tensor: &Tensor<'_>,
        residuals: &mut [f64],
    ) {
        let (coder, n, m) = (self.coder, tensor.shape().features, self.coder.dictionary.patterns());
        let mut products = vec![0.0; m * open.len().min(TILE)];
        for tile in open.chunks(TILE) {
            for (i, pattern) in coder.dictionary.values().chunks_exact(n).enumerate() {
                for (at, &(fiber, _)) in tile.iter().enumerate() {
                    products[at * m + i] = dot(pattern, tensor.fiber(fiber));
                }
            }
            for (&(fiber, energy), d) in tile.iter().zip(products.chunks_exact(m)) {
                let (y, r) = (tensor.fiber(fiber), block.next(residuals, n));
                let residual = coder.code_from_all_scores(work, y, r, energy, d, &mut block.solver_counts);
                block.push(coder, work, fiber, y, r, energy, residual);
            }
        }
    }
}

impl Block {
    fn new(patterns: usize, fibers: usize) -> Block {
        Block {
            fibers: Vec::with_capacity(fibers),
            codes: Sparse::new(patterns),
            update_codes: Sparse::new(patterns),
            energies: Vec::with_capacity(fibers),
            residual_energies: Vec::with_capacity(fibers),
            update_residual_energies: Vec::with_capacity(fibers),
            well_fitted: 0,
            solver_counts: SolverCounts::default(),
        }
    }

    /// The column of `residuals` (n rows) that belongs to the next fiber.
    fn next<'r>(&self, residuals: &'r mut [f64], n: usize) -> &'r mut [f64] {
        &mut residuals[self.fibers.len() * n..][..n]
    }

    /// Appends the code of the next fiber, which is in `work`. `residual` is |r|^2.
    #[allow(clippy::too_many_arguments)]
    fn push(
        &mut self,
        coder: &Coder<'_>,
        work: &mut Work,
        fiber: usize,
        y: &[f64],
        r: &mut [f64],
        energy: f64,
        residual: f64,
    ) {
        let half = coder.params.code_floor / 2.0;
        self.fibers.push(fiber);
        self.codes.push(&work.code);
        self.energies.push(energy);
        self.residual_energies.push(residual);
        self.well_fitted += usize::from(residual < half * half / 4.0);
        let smallest = match coder.params.rule {
            Rule::Paper { .. } => 0.0,
            Rule::Adaptive => half,
        };
        let has_small = |code: &[(u32, f64)]| code.iter().any(|entry| entry.1.abs() < smallest);
        let mut update_residual = residual;
        while has_small(&work.code) {
            work.code.retain(|entry| entry.1.abs() >= smallest);
            let refitted = refit(work, y, r, coder.dictionary);
            update_residual = refitted.unwrap_or_else(|| residual_of(r, y, coder.dictionary, &work.code));
        }
        self.update_codes.push(&work.code);
        self.update_residual_energies.push(update_residual);
    }
}

impl Coder<'_> {
    /// Finds the code of a fiber from all of d = A'y, leaves it in `work`, and returns |r|^2.
    fn code_from_all_scores(
        &self,
        work: &mut Work,
        y: &[f64],
        r: &mut [f64],
        energy: f64,
        d: &[f64],
        solver_counts: &mut SolverCounts,
    ) -> f64 {
        let params = self.params;
        let bounds = self.rounding_bounds(energy);
        let direct = params.solver == Solver::Direct;
        if direct && let Some(residual) = self.direct_from_all(work, y, r, bounds, d) {
            solver_counts.direct += 1;
            return residual;
        }
        let converged = self.iht(work, d);
        *(if converged { &mut solver_counts.iht } else { &mut solver_counts.unconverged }) += 1;
        // The support no longer changes, so least squares on it is where the iteration would end.
        let refits = direct && converged && params.code_tolerance > 0.0;
        let refitted = if refits { refit(work, y, r, self.dictionary) } else { None };
        let residual = refitted.unwrap_or_else(|| residual_of(r, y, self.dictionary, &work.code));
        if residual <= energy {
            return residual;
        }
        // The iteration diverged: an empty code fits better.
        work.code.clear();
        residual_of(r, y, self.dictionary, &work.code)
    }
}
