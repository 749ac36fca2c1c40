//! Stage I: the codes of every fiber (alg:coeff_init, alg:coeff_iht).
//!
//! With d = A'y and G = A'A, iterative hard thresholding of one fiber is
//!
//! ```text
//! x(0)   = HT_{C/2}(d)                              (alg:coeff_init)
//! x(r+1) = HT_tau(x(r) - eta_x (G x(r) - d))        (alg:coeff_iht)
//! HT_t(z) keeps the entries with |z_i| >= t and sets the others to zero.
//! ```
//!
//! Codes have one or two entries, so that after the dense product A'Y everything is sparse.
//!
//! Departs: [`Solver::Direct`] computes the limit of this iteration, R -> infinity, without
//! iterating. While the support S of x(0) stays, the error x(r) - x against the least-squares codes
//! G_SS x = d_S is multiplied by I - eta_x G_SS in each step, and shrinks if eta_x |G_SS| < 2. So with
//! e = |x(0) - x|, and a row sum for the norm of G_SS,
//!
//! ```text
//! eta_x max_i sum_l |G_il| < 2 over S,    |x_i| - e >= tau for i in S,
//! eta_x (|d_i - G_iS x| + |G_iS| e) < tau for i outside S
//! ```
//!
//! prove that no step drops an entry and none lets one in: x is where the paper's iteration ends,
//! free of the accuracy floor of a finite R. A fiber that fails this check takes the paper's road.

use rayon::prelude::*;

use crate::dense::{add_scaled, dot, transposed_product};
use crate::dictionary::Dictionary;
use crate::params::{Params, Rule, Solver};
use crate::sparse::Sparse;
use crate::tensor::{Place, Tensor};
use crate::untangle::{Factors, untangle};

/// Fibers per block. Fixed, so that results do not depend on the number of threads; 256 columns
/// of A'Y stay in the cache while their codes are solved for.
const BLOCK: usize = 256;

/// The codes X (m x p) of one tensor, at the places of its fibers.
///
/// Codes and places together are the paper's S (m x JK), which is never formed.
#[derive(Debug, Clone, PartialEq)]
pub struct Codes {
    matrix: Sparse,
    places: Vec<Place>,
    rows: usize,
    cols: usize,
}

impl Codes {
    /// Puts codes (m x p) at the places of the fibers of `tensor`.
    ///
    /// # Panics
    /// If there is not one column per fiber.
    pub fn new(matrix: Sparse, tensor: &Tensor<'_>) -> Codes {
        assert_eq!(matrix.cols(), tensor.fibers(), "one column of codes per fiber");
        let shape = tensor.shape();
        Codes { matrix, places: tensor.places().to_vec(), rows: shape.rows, cols: shape.cols }
    }

    /// X: row i is pattern i, column f is fiber f.
    pub fn matrix(&self) -> &Sparse {
        &self.matrix
    }

    /// The place of every column of X.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// J and K, the lengths of row and col factors.
    pub fn rows_and_cols(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// Stage II: the row and col factors of this tensor.
    pub fn untangle(&self) -> Factors {
        untangle(self)
    }
}

/// How many fibers were coded in which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Roads {
    /// Solved directly and proved to be the limit of iterative hard thresholding.
    pub direct: usize,
    /// By iterative hard thresholding: asked for, or because the direct solution failed its check.
    pub iht: usize,
    /// By iterative hard thresholding that still moved after `iht_steps` steps. Iterated codes that
    /// fit worse than none, because the iteration diverges, are left out.
    pub unsettled: usize,
}

/// Codes of some fibers, and what they leave of them.
pub(crate) struct Fitted {
    pub(crate) codes: Sparse,
    /// |y - A x|^2 of every fiber.
    pub(crate) residuals: Vec<f64>,
}

impl Fitted {
    fn new(patterns: usize) -> Fitted {
        Fitted { codes: Sparse::new(patterns), residuals: Vec::new() }
    }

    fn push(&mut self, code: &[(u32, f64)], residual: f64) {
        self.codes.push(code);
        self.residuals.push(residual);
    }

    fn append(&mut self, other: &Fitted) {
        self.codes.append(&other.codes);
        self.residuals.extend_from_slice(&other.residuals);
    }
}

/// What stage I knows when it is done.
pub(crate) struct Encoded {
    /// X.
    pub(crate) found: Fitted,
    /// What stage III learns from.
    ///
    /// The paper's step takes X. The adaptive one, which moves by the whole of what it sees, takes
    /// the codes of at least code_floor / 2, fitted again without the smaller ones. By
    /// (alg:coeff_init) these are no codes; yet a wrong one that fits is stable: if
    /// A_i = A*_i - x A_l, then A_i + x A_l explains every fiber of pattern i.
    pub(crate) believed: Fitted,
    /// |y|^2 of every fiber.
    pub(crate) energies: Vec<f64>,
    pub(crate) roads: Roads,
}

impl Encoded {
    fn new(patterns: usize) -> Encoded {
        let fitted = || Fitted::new(patterns);
        Encoded { found: fitted(), believed: fitted(), energies: Vec::new(), roads: Roads::default() }
    }

    fn append(&mut self, other: &Encoded) {
        self.found.append(&other.found);
        self.believed.append(&other.believed);
        self.energies.extend_from_slice(&other.energies);
        self.roads.direct += other.roads.direct;
        self.roads.iht += other.roads.iht;
        self.roads.unsettled += other.roads.unsettled;
    }
}

/// Stage I: codes of all fibers.
pub(crate) fn encode(dictionary: &Dictionary, tensor: &Tensor<'_>, params: &Params) -> Encoded {
    let (n, m) = (dictionary.features(), dictionary.patterns());
    if tensor.fibers() == 0 {
        return Encoded::new(m);
    }
    let gram = dictionary.gram();
    let block = |fibers: &[f64]| encode_block(dictionary, &gram, fibers, params);
    if tensor.fibers() <= BLOCK {
        return block(tensor.values());
    }
    let blocks: Vec<Encoded> = tensor.values().par_chunks(n * BLOCK).map(block).collect();
    let mut all = Encoded::new(m);
    blocks.iter().for_each(|block| all.append(block));
    all
}

/// Codes of one block of fibers (n x at most [`BLOCK`]).
fn encode_block(dictionary: &Dictionary, gram: &[f64], fibers: &[f64], params: &Params) -> Encoded {
    let (n, m) = (dictionary.features(), dictionary.patterns());
    let mut products = vec![0.0; m * (fibers.len() / n)];
    transposed_product(&mut products, dictionary.values(), fibers, n);

    let least = match params.rule {
        Rule::Paper { .. } => 0.0,
        Rule::Adaptive => params.code_floor / 2.0,
    };
    let mut work = Work::new(m);
    let mut residual = vec![0.0; n];
    let mut encoded = Encoded::new(m);
    for (y, d) in fibers.chunks_exact(n).zip(products.chunks_exact(m)) {
        let proved = params.solver == Solver::Direct && direct(&mut work, d, gram, params);
        let settled = proved || iht(&mut work, d, gram, params);
        match (proved, settled) {
            (true, _) => encoded.roads.direct += 1,
            (false, true) => encoded.roads.iht += 1,
            (false, false) => encoded.roads.unsettled += 1,
        }
        if params.solver == Solver::Direct && settled && !proved && params.code_tolerance > 0.0 {
            // The support is settled; what the last steps would still add is known.
            let Work { code, factor, .. } = &mut work;
            solve_on_support(code, factor, d, gram);
        }
        let energy = dot(y, y);
        let mut rest = residual_of(&mut residual, y, dictionary, &work.code);
        if rest.is_nan() || (!proved && rest > energy) {
            work.code.clear();
            rest = energy;
        }
        encoded.found.push(&work.code, rest);
        let small = |code: &[(u32, f64)]| code.iter().any(|entry| entry.1.abs() < least);
        if small(&work.code) {
            let Work { code, factor, .. } = &mut work;
            while small(code) {
                code.retain(|entry| entry.1.abs() >= least);
                solve_on_support(code, factor, d, gram);
            }
            rest = residual_of(&mut residual, y, dictionary, code);
        }
        encoded.believed.push(&work.code, rest);
        encoded.energies.push(energy);
    }
    encoded
}

/// r = y - A x; returns |r|^2.
pub(crate) fn residual_of(
    residual: &mut [f64],
    y: &[f64],
    dictionary: &Dictionary,
    code: &[(u32, f64)],
) -> f64 {
    residual.copy_from_slice(y);
    for &(pattern, x) in code {
        add_scaled(residual, -x, dictionary.pattern(pattern as usize));
    }
    dot(residual, residual)
}

/// Scratch space of the solvers, and the code they leave.
struct Work {
    code: Vec<(u32, f64)>,
    factor: Vec<f64>,
    dense: Vec<f64>,
    gradient: Vec<f64>,
}

impl Work {
    fn new(m: usize) -> Work {
        Work { code: Vec::new(), factor: Vec::new(), dense: vec![0.0; m], gradient: vec![0.0; m] }
    }
}

/// The limit of iterative hard thresholding; false if it cannot be proved to be that.
fn direct(work: &mut Work, d: &[f64], gram: &[f64], params: &Params) -> bool {
    let m = d.len();
    let Work { code, factor, dense: coupling, gradient } = work;
    code.clear();
    code.extend((0..).zip(d).filter(|(_, d)| d.abs() >= params.code_floor / 2.0).map(|(i, &d)| (i, d)));
    if !solve_on_support(code, factor, d, gram) {
        return false;
    }
    let row_sum = |&(i, _): &(u32, f64)| -> f64 {
        code.iter().map(|&(l, _)| gram[l as usize * m + i as usize].abs()).sum()
    };
    let shrinks = code.iter().all(|entry| params.eta_x * row_sum(entry) < 2.0);
    let distance = code.iter().map(|&(i, x)| (d[i as usize] - x).powi(2)).sum::<f64>().sqrt();
    // d_i - G_iS x and |G_iS|^2 of all patterns; on the support the first is zero.
    gradient.copy_from_slice(d);
    coupling.fill(0.0);
    for &(pattern, x) in code.iter() {
        let column = &gram[pattern as usize * m..][..m];
        add_scaled(gradient, -x, column);
        coupling.iter_mut().zip(column).for_each(|(sum, g)| *sum += g * g);
    }
    for &(pattern, _) in code.iter() {
        (gradient[pattern as usize], coupling[pattern as usize]) = (0.0, 0.0);
    }
    let stays = code.iter().all(|&(_, x)| x.abs() - distance >= params.tau);
    let enters = |(g, c): (&f64, &f64)| params.eta_x * (g.abs() + c.sqrt() * distance) >= params.tau;
    shrinks && stays && !gradient.iter().zip(coupling.iter()).any(enters)
}

/// Solves G_SS x_S = d_S by Cholesky, S being the support of `code`; false, and the code as it was,
/// if G_SS is not positive definite. By hand, because the systems are 1 x 1 or 2 x 2 and many.
fn solve_on_support(code: &mut [(u32, f64)], factor: &mut Vec<f64>, d: &[f64], gram: &[f64]) -> bool {
    let (s, m) = (code.len(), d.len());
    factor.clear();
    factor.resize(s * s, 0.0);
    for row in 0..s {
        let i = code[row].0 as usize;
        for col in 0..=row {
            let l = code[col].0 as usize;
            let known = dot(&factor[row * s..row * s + col], &factor[col * s..col * s + col]);
            let rest = gram[l * m + i] - known;
            factor[row * s + col] = if row > col {
                rest / factor[col * s + col]
            } else if rest > 1e-12 {
                rest.sqrt()
            } else {
                return false;
            };
        }
    }
    for row in 0..s {
        let mut rest = d[code[row].0 as usize];
        for col in 0..row {
            rest -= factor[row * s + col] * code[col].1;
        }
        code[row].1 = rest / factor[row * s + row];
    }
    for row in (0..s).rev() {
        let mut rest = code[row].1;
        for below in row + 1..s {
            rest -= factor[below * s + row] * code[below].1;
        }
        code[row].1 = rest / factor[row * s + row];
    }
    true
}

/// Iterative hard thresholding (alg:coeff_init, alg:coeff_iht); false if the iterate still moves
/// by more than `code_tolerance` after `iht_steps` steps.
///
/// Choice: the paper fixes R. Real data has no true X to compare with, so that the iteration stops
/// on the change of the iterate; with a tolerance of 0 it makes R steps.
fn iht(work: &mut Work, d: &[f64], gram: &[f64], params: &Params) -> bool {
    let m = d.len();
    let Work { code, dense: x, gradient, .. } = work;
    let mut settled = params.code_tolerance == 0.0;
    for (x, &d) in x.iter_mut().zip(d) {
        *x = if d.abs() >= params.code_floor / 2.0 { d } else { 0.0 };
    }
    for _ in 0..params.iht_steps {
        // The negative gradient d - G x.
        gradient.copy_from_slice(d);
        for (i, &x) in x.iter().enumerate().filter(|(_, x)| **x != 0.0) {
            add_scaled(gradient, -x, &gram[i * m..][..m]);
        }
        let (mut change, mut largest) = (0.0_f64, 0.0_f64);
        for (x, g) in x.iter_mut().zip(gradient.iter()) {
            let z = *x + params.eta_x * g;
            let next = if z.abs() >= params.tau { z } else { 0.0 };
            change = change.max((next - *x).abs());
            largest = largest.max(next.abs());
            *x = next;
        }
        if !largest.is_finite() {
            settled = false;
            break;
        }
        if change <= params.code_tolerance * largest {
            settled = true;
            break;
        }
    }
    code.clear();
    code.extend((0..).zip(x.iter()).filter(|(_, x)| **x != 0.0).map(|(i, &x)| (i, x)));
    settled
}
