//! Stage I for one fiber: the limit of iterative hard thresholding, solved for directly and proved.
//!
//! With d = A'y and G = A'A, iterative hard thresholding of one fiber y is
//!
//! ```text
//! x(0)   = HT_{C/2}(d)                              (alg:coeff_init)
//! x(r+1) = HT_tau(x(r) - eta_x (G x(r) - d))        (alg:coeff_iht)
//! HT_t(z) keeps the entries with |z_i| >= t and sets the others to zero.
//! ```
//!
//! Departs: [`Solver::Direct`](crate::Solver::Direct) computes the limit of this iteration,
//! R -> infinity, without iterating. While the support S of x(0) stays, each step multiplies the error x(r) - x against
//! the least-squares codes G_SS x = d_S by I - eta_x G_SS, and the error shrinks if eta_x |G_SS| < 2. So with
//! e = |x(0) - x|, a row sum as bound of the norm of G_SS, and r = y - A_S x, the inequalities
//!
//! ```text
//! eta_x max_i sum_l |G_il| < 2 over S,    |x_i| - e >= tau for i in S,
//! eta_x (|a_i'r| + |G_iS| e) < tau for i outside S
//! ```
//!
//! prove that no step drops an entry of S and no step adds another one: x is the limit of the paper's iteration,
//! without the error that a finite R leaves. A fiber for which the proof fails is iterated (`iht.rs`).
//!
//! Neither S nor the proof needs all of d exactly: approximate scores with an error bound are enough (`screen.rs`).

use std::sync::OnceLock;

use crate::data::dictionary::Dictionary;
use crate::encode::gram::{Gram, add_column};
use crate::encode::screen::RoundingBounds;
use crate::linalg::small::{cholesky_row, cholesky_solve};
use crate::linalg::vector::{add_scaled, add_two_scaled, dot, with_simd};
use crate::params::Params;

/// Smallest square of a diagonal entry of the Cholesky factor of G_SS, relative to its unit diagonal, that is not
/// taken for rounding error.
const SMALLEST_PIVOT: f64 = 1e-12;

/// Largest number of candidates whose scores are computed in double precision, or one in sixteen patterns if that is
/// more. More of them cost as much as the product of the whole dictionary in single precision.
const MAX_CANDIDATES: usize = 8;

/// Largest number of proofs in a block of fibers that compute the few columns of G that they need. Further proofs use
/// the whole of G.
const MAX_WITHOUT_GRAM: usize = 4;

/// Largest size of a predicted support. Fitting more patterns takes longer than the product in single precision.
const MAX_PREDICTED: usize = 16;

/// Encodes fibers with one dictionary A.
pub(crate) struct Coder<'a> {
    pub(crate) dictionary: &'a Dictionary,
    pub(crate) params: &'a Params,
    /// G = A'A, computed at first use: a small tensor with clear codes never uses it.
    gram: OnceLock<Gram>,
    /// Whether G was computed in advance, for a large tensor.
    prepared: bool,
    guide: Option<Guide>,
}

/// A dictionary D that explains the fibers of the tensor better than A does, and A'D.
///
/// While A is far from the truth, y = A_T x + r leaves a residual r that is too large to bound A'y. But if
/// y = D_T z + e with a small e, then A'y = (A'D)_T z + A'e.
struct Guide {
    dictionary: Dictionary,
    gram: Gram,
}

/// The code of the current fiber, and scratch memory.
#[derive(Default)]
pub(crate) struct Work {
    /// x: (pattern, value) entries by increasing pattern.
    pub(crate) code: Vec<(u32, f64)>,
    /// d_S, one entry for each entry of the code.
    pub(super) d_s: Vec<f64>,
    /// Patterns that may be in the support; the next iterate of iterative hard thresholding.
    pub(super) candidates: Vec<(u32, f64)>,
    /// G_SS, row by row.
    g_ss: Vec<f64>,
    /// The Cholesky factor of G_SS, row by row.
    pub(super) factor: Vec<f64>,
    /// The solution x of G_SS x = d_S.
    solution: Vec<f64>,
    /// Approximate scores, one for each pattern.
    scores: Vec<f32>,
    /// d - G_S x, one entry for each pattern.
    pub(super) gradient: Vec<f64>,
    /// |G_iS|^2, one entry for each pattern.
    pub(super) coupling: Vec<f64>,
    /// The values of the iterate for which iterative hard thresholding last computed the gradient of all patterns.
    pub(super) origin: Vec<f64>,
    /// Number of proofs in this block that were made without G.
    without_gram: usize,
}

impl Work {
    /// Starts a new block of fibers.
    pub(crate) fn begin(&mut self) {
        self.without_gram = 0;
    }
}

/// Approximate scores A'y in units of the code floor, with an error bound: |values_i - a_i'y| <= radius.
#[derive(Clone, Copy)]
pub(crate) struct Scores<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) radius: f64,
}

/// What a proof knows about A'y. If nothing is known, a proof uses |a_i'r| <= |r|.
#[derive(Clone, Copy)]
enum Known<'a> {
    Nothing,
    Scores(Scores<'a>),
    All(&'a [f64]),
}

impl<'a> Coder<'a> {
    /// A coder that computes G when it is first needed.
    pub(crate) fn new(dictionary: &'a Dictionary, params: &'a Params) -> Coder<'a> {
        Coder { dictionary, params, gram: OnceLock::new(), prepared: false, guide: None }
    }

    /// G = A'A, computed on this thread if it does not exist yet.
    pub(super) fn gram(&self) -> &Gram {
        self.gram.get_or_init(|| Gram::new(self.dictionary, self.dictionary, false))
    }

    /// Computes G now, on all threads.
    pub(crate) fn prepare(&mut self) {
        self.prepared = true;
        self.gram.get_or_init(|| Gram::new(self.dictionary, self.dictionary, true));
    }

    /// Uses the dictionary D to fit predicted supports.
    pub(crate) fn follow(&mut self, dictionary: Dictionary) {
        let gram = Gram::new(self.dictionary, &dictionary, true);
        self.guide = Some(Guide { dictionary, gram });
    }

    /// Bounds of rounding errors for a fiber with |y|^2 = `energy`.
    pub(crate) fn rounding_bounds(&self, energy: f64) -> RoundingBounds {
        RoundingBounds { features: self.dictionary.features(), fiber: energy.sqrt() / self.params.code_floor }
    }

    /// Finds the code from a prediction of its support in `work.code`, proves it, and returns |r|^2.
    pub(crate) fn code_from_prediction(
        &self,
        work: &mut Work,
        y: &[f64],
        r: &mut [f64],
        bounds: RoundingBounds,
    ) -> Option<f64> {
        let floor = self.params.code_floor;
        if work.code.len() > MAX_PREDICTED {
            return None;
        }
        let (dictionary, gram) = match &self.guide {
            Some(guide) => (&guide.dictionary, &guide.gram),
            None => (self.dictionary, self.gram()),
        };
        let residual = refit(work, y, r, dictionary)?;
        let (total, s) = (sum_of_magnitudes(&work.code) / floor, work.code.len());
        let radius = residual.sqrt() / floor * (1.0 + 1e-12) + bounds.single_gram(total, s);
        if radius >= 0.5 {
            return None;
        }
        let own = self.guide.is_none();
        // A bound of the largest score outside of the predicted support, small enough for most fibers with few
        // patterns.
        let highest: f64 = work.code.iter().map(|&(i, x)| x.abs() / floor * gram.largest(i)).sum();
        if own && highest + radius < 0.5 && work.d_s.iter().all(|d| d.abs() >= floor / 2.0) {
            return self.is_limit(work, r, bounds, Known::Nothing, residual).then_some(residual);
        }
        let mut scores = std::mem::take(&mut work.scores);
        scores.resize(self.dictionary.patterns(), 0.0);
        gram.scores(&mut scores, &work.code, floor);
        let fitted = own.then_some(residual);
        let found = self.direct(work, y, r, bounds, Scores { values: &scores, radius }, fitted);
        work.scores = scores;
        found
    }

    /// Finds the code from approximate scores, proves it to be the limit of iterative hard thresholding, and returns
    /// |r|^2.
    ///
    /// With `fitted`, `work.code` already holds the least-squares fit on a predicted support, and `fitted` is its
    /// |r|^2.
    pub(crate) fn direct(
        &self,
        work: &mut Work,
        y: &[f64],
        r: &mut [f64],
        bounds: RoundingBounds,
        scores: Scores<'_>,
        fitted: Option<f64>,
    ) -> Option<f64> {
        if !self.find_candidates(work, y, scores) {
            return None;
        }
        let Work { code, d_s, candidates, .. } = &mut *work;
        let same = fitted.is_some() && candidates.iter().map(|c| c.0).eq(code.iter().map(|c| c.0));
        if !same {
            code.clone_from(candidates);
            d_s.clear();
            d_s.extend(candidates.iter().map(|candidate| candidate.1));
        }
        let residual = if same { fitted? } else { fit(work, y, r, self.dictionary)? };
        // Scores computed from the code bound a_i'r no better than |r| does.
        let known = if same { Known::Nothing } else { Known::Scores(scores) };
        self.is_limit(work, r, bounds, known, residual).then_some(residual)
    }

    /// Fills `work.candidates` with the support of x(0) and its entries of A'y, in double precision.
    ///
    /// Returns false, with unfinished candidates, if too many scores are near the threshold.
    fn find_candidates(&self, work: &mut Work, y: &[f64], scores: Scores<'_>) -> bool {
        let half = self.params.code_floor / 2.0;
        // Rounded down: an extra candidate does no harm.
        let lowest = ((0.5 - scores.radius) * (1.0 - 1e-6)) as f32;
        let candidates = &mut work.candidates;
        candidates.clear();
        for (first, chunk) in (0..).step_by(16).zip(scores.values.chunks(16)) {
            if chunk.iter().fold(0.0, |a: f32, score| a.max(score.abs())) >= lowest {
                candidates.extend(
                    (first..).zip(chunk).filter(|(_, score)| score.abs() >= lowest).map(|(i, _)| (i, 0.0)),
                );
            }
        }
        if candidates.len() > MAX_CANDIDATES.max(scores.values.len() / 16) {
            return false;
        }
        candidates.iter_mut().for_each(|(i, d)| *d = dot(self.dictionary.pattern(*i as usize), y));
        candidates.retain(|(_, d)| d.abs() >= half);
        true
    }

    /// Finds the code from all of d = A'y, proves it to be the limit of iterative hard thresholding, and returns |r|^2.
    pub(crate) fn direct_from_all(
        &self,
        work: &mut Work,
        y: &[f64],
        r: &mut [f64],
        bounds: RoundingBounds,
        d: &[f64],
    ) -> Option<f64> {
        self.start(work, d);
        work.d_s.clear();
        work.d_s.extend(work.code.iter().map(|entry| entry.1));
        let residual = fit(work, y, r, self.dictionary)?;
        self.is_limit(work, r, bounds, Known::All(d), residual).then_some(residual)
    }

    /// Sets the code to x(0) = HT_{C/2}(d) (alg:coeff_init).
    pub(super) fn start(&self, work: &mut Work, d: &[f64]) {
        let half = self.params.code_floor / 2.0;
        work.code.clear();
        work.code.extend((0..).zip(d).filter(|(_, d)| d.abs() >= half).map(|(i, &d)| (i, d)));
    }

    /// Whether the three inequalities of this module prove the fitted code, with |r|^2 = `residual`, to be the limit of
    /// iterative hard thresholding.
    fn is_limit(
        &self,
        work: &mut Work,
        r: &[f64],
        bounds: RoundingBounds,
        known: Known<'_>,
        residual: f64,
    ) -> bool {
        let Params { eta_x, tau, code_floor: floor, .. } = *self.params;
        let Work { code, d_s, g_ss, without_gram, .. } = &*work;
        let s = code.len();
        let row_sum = |row: &[f64]| row.iter().map(|g| g.abs()).sum::<f64>();
        if s > 0 && g_ss.chunks_exact(s).any(|row| eta_x * row_sum(row) >= 2.0) {
            return false;
        }
        let distance = code.iter().zip(d_s).map(|(c, d)| (d - c.1).powi(2)).sum::<f64>().sqrt();
        if code.iter().any(|(_, x)| x.abs() - distance < tau) {
            return false;
        }
        // Two cheap bounds for the patterns outside of the support: |a_i'r| <= |r|, and |G_iS| from its largest
        // entries.
        let total = sum_of_magnitudes(code) / floor;
        let limit = tau / eta_x * (1.0 - 1e-12) - floor * bounds.double(total, s);
        let length = residual.sqrt();
        if length + (s as f64).sqrt() * distance < limit {
            return true;
        }
        // A few proofs in a small tensor are not worth computing all of G.
        let without_gram = !self.prepared && *without_gram < MAX_WITHOUT_GRAM;
        let largest = |&(i, _): &(u32, f64)| self.gram().largest(i).powi(2);
        if !without_gram && length + code.iter().map(largest).sum::<f64>().sqrt() * distance < limit {
            return true;
        }
        let Some(radius) = self.bound_gradient(work, r, bounds, known, without_gram) else { return false };
        let Work { code, gradient, coupling, .. } = work;
        for &(i, _) in code.iter() {
            (gradient[i as usize], coupling[i as usize]) = (0.0, 0.0);
        }
        // |gradient_i| + |G_iS| e < highest, squared to save the roots.
        let (highest, squared) = (limit / floor - radius, (distance / floor * (1.0 + 1e-6)).powi(2));
        with_simd(
            #[inline(always)]
            || {
                gradient.iter().zip(&*coupling).all(|(g, c)| {
                    let room = highest - g.abs();
                    (room > 0.0) & (room * room > c * squared)
                })
            },
        )
    }

    /// Computes, for every pattern, `work.gradient` = a_i'r = a_i'y - G_iS x in units of the code floor, and
    /// `work.coupling` = |G_iS|^2. Returns a bound of the error of the gradient; `None` if nothing is known about A'y.
    fn bound_gradient(
        &self,
        work: &mut Work,
        r: &[f64],
        bounds: RoundingBounds,
        known: Known<'_>,
        without_gram: bool,
    ) -> Option<f64> {
        let floor = self.params.code_floor;
        let Work { code, gradient, coupling, .. } = work;
        let (total, s) = (sum_of_magnitudes(code) / floor, code.len());
        gradient.clear();
        coupling.clear();
        coupling.resize(self.dictionary.patterns(), 0.0);
        Some(match known {
            Known::Nothing => return None,
            _ if without_gram => {
                work.without_gram += 1;
                for (i, coupling) in coupling.iter_mut().enumerate() {
                    let a = self.dictionary.pattern(i);
                    let g = |&(l, _): &(u32, f64)| dot(a, self.dictionary.pattern(l as usize));
                    *coupling = code.iter().map(|entry| g(entry).powi(2)).sum();
                    gradient.push(dot(a, r) / floor);
                }
                2.0 * bounds.double(total, s)
            }
            Known::Scores(scores) => {
                gradient.extend(scores.values.iter().map(|&score| score as f64));
                let gram = self.gram();
                code.iter().for_each(|&(i, x)| add_column(gradient, coupling, x / floor, gram.single(i)));
                scores.radius + bounds.single_gram(total, s)
            }
            Known::All(d) => {
                gradient.extend(d.iter().map(|d| d / floor));
                let gram = self.gram();
                code.iter().for_each(|&(i, x)| add_column(gradient, coupling, x / floor, gram.column(i)));
                2.0 * bounds.double(total, s)
            }
        })
    }
}

/// Fits the code to y by least squares on its support S, with `work.d_s` given: G_SS x = d_S, r = y - A_S x.
///
/// Returns |r|^2; `None` if G_SS is not positive definite.
fn fit(work: &mut Work, y: &[f64], r: &mut [f64], dictionary: &Dictionary) -> Option<f64> {
    let pattern = |i: u32| dictionary.pattern(i as usize);
    let solved = solve_on_support(work, |i, l| dot(pattern(i), pattern(l)));
    solved.then(|| residual_of(r, y, dictionary, &work.code))
}

/// Fits the code to y by least squares on its support S: d_S = A_S'y, G_SS x = d_S, r = y - A_S x.
///
/// Returns |r|^2; `None` if G_SS is not positive definite.
pub(crate) fn refit(work: &mut Work, y: &[f64], r: &mut [f64], dictionary: &Dictionary) -> Option<f64> {
    let Work { code, d_s, .. } = work;
    d_s.clear();
    d_s.extend(code.iter().map(|&(i, _)| dot(dictionary.pattern(i as usize), y)));
    fit(work, y, r, dictionary)
}

/// Solves G_SS x = d_S for the values x of the code, where `g(i, l)` is G_il.
///
/// Returns false, and leaves the code as it was, if G_SS is not positive definite.
pub(super) fn solve_on_support(work: &mut Work, g: impl Fn(u32, u32) -> f64) -> bool {
    let Work { code, d_s, g_ss, factor, solution, .. } = work;
    let s = code.len();
    // Patterns have unit length.
    g_ss.clear();
    g_ss.resize(s * s, 1.0);
    factor.clear();
    factor.resize(s * s, 0.0);
    for row in 0..s {
        for col in 0..row {
            let g = g(code[row].0, code[col].0);
            (g_ss[row * s + col], g_ss[col * s + row]) = (g, g);
        }
        if !cholesky_row(factor, g_ss, s, row, SMALLEST_PIVOT) {
            return false;
        }
    }
    solution.clone_from(d_s);
    cholesky_solve(factor, solution);
    code.iter_mut().zip(solution).for_each(|(entry, x)| entry.1 = *x);
    true
}

fn sum_of_magnitudes(code: &[(u32, f64)]) -> f64 {
    code.iter().map(|(_, x)| x.abs()).sum()
}

/// Computes the residual r = y - A x, and returns |r|^2.
pub(crate) fn residual_of(r: &mut [f64], y: &[f64], dictionary: &Dictionary, code: &[(u32, f64)]) -> f64 {
    let mut terms = code.iter().map(|&(i, x)| (-x, dictionary.pattern(i as usize)));
    // The first two terms in one loop: most codes have no more.
    match (terms.next(), terms.next()) {
        (Some((x, a)), Some((z, b))) => add_two_scaled(r, y, x, a, z, b),
        (Some((x, a)), None) => add_two_scaled(r, y, x, a, 0.0, a),
        (None, _) => r.copy_from_slice(y),
    }
    terms.for_each(|(x, a)| add_scaled(r, x, a));
    dot(r, r)
}
