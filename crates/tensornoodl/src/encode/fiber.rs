//! Stage I for one fiber: its code, solved for and proved, or iterated.
//!
//! With d = A'y and G = A'A, iterative hard thresholding of one fiber is
//!
//! ```text
//! x(0)   = HT_{C/2}(d)                              (alg:coeff_init)
//! x(r+1) = HT_tau(x(r) - eta_x (G x(r) - d))        (alg:coeff_iht)
//! HT_t(z) keeps the entries with |z_i| >= t and sets the others to zero.
//! ```
//!
//! Departs: [`Solver::Direct`](crate::Solver::Direct) computes the limit of this iteration,
//! R -> infinity, without iterating. While the support S of x(0) stays, the error x(r) - x against
//! the least-squares codes G_SS x = d_S is multiplied by I - eta_x G_SS in each step, and shrinks if
//! eta_x |G_SS| < 2. So with e = |x(0) - x|, a row sum for the norm of G_SS, and r = y - A_S x,
//!
//! ```text
//! eta_x max_i sum_l |G_il| < 2 over S,    |x_i| - e >= tau for i in S,
//! eta_x (|a_i'r| + |G_iS| e) < tau for i outside S
//! ```
//!
//! prove that no step drops an entry and none lets one in: x is where the paper's iteration ends,
//! free of the accuracy floor of a finite R. A fiber that fails this check takes the paper's road, and now and then is
//! checked again with x(r) in place of x(0): once the support is the last one, the rest of the way is known.
//!
//! Neither S nor the check needs all of d: scores that are near enough do (`screen.rs`).

use std::sync::OnceLock;

use rayon::prelude::*;

use crate::data::dictionary::Dictionary;
use crate::encode::screen::Lengths;
use crate::linalg::dense::{add_scaled, add_two, dot, fast, transposed_product};
use crate::params::{Params, Solver};

/// Patterns per piece of G. Fixed, so that its bits do not depend on the number of threads.
const PIECE: usize = 64;

/// Codes fibers under one dictionary.
pub(crate) struct Coder<'a> {
    pub(crate) dictionary: &'a Dictionary,
    pub(crate) params: &'a Params,
    /// Made when first needed: a small tensor whose codes are clear never does.
    gram: OnceLock<Gram>,
    /// Whether it was made in advance, for a large tensor.
    prepared: bool,
    guide: Option<Guide>,
}

/// A dictionary D that explains the fibers of this tensor better than A does, and A'D. While A is far,
/// y = A_T x + r leaves too large an r to tell anything of A'y; but if y = D_T z + e with a small e,
/// then A'y = (A'D)_T z + A'e.
struct Guide {
    dictionary: Dictionary,
    gram: Gram,
}

/// G = A'A (m x m), or A'D for another dictionary D.
pub(crate) struct Gram {
    values: Vec<f64>,
    single: Vec<f32>,
    /// Of each column, the largest magnitude off the diagonal.
    largest: Vec<f64>,
}

impl Gram {
    fn new(a: &Dictionary, d: &Dictionary, in_parallel: bool) -> Gram {
        let (n, m) = (a.features(), a.patterns());
        let (mut values, mut single, mut largest) = (vec![0.0; m * m], vec![0.0; m * m], vec![0.0; m]);
        let piece = |(first, (((values, single), largest), patterns)): (usize, Piece<'_>)| {
            transposed_product(values, a.values(), patterns, n);
            single.iter_mut().zip(values.iter()).for_each(|(single, &value)| *single = value as f32);
            for (at, (largest, column)) in largest.iter_mut().zip(values.chunks_exact(m)).enumerate() {
                let of = |part: &[f64]| part.iter().fold(0.0, |a: f64, g| a.max(g.abs()));
                let diagonal = first * PIECE + at;
                *largest = of(&column[..diagonal]).max(of(&column[diagonal + 1..]));
            }
        };
        let pieces: Vec<(usize, Piece<'_>)> = values
            .chunks_mut(m * PIECE)
            .zip(single.chunks_mut(m * PIECE))
            .zip(largest.chunks_mut(PIECE))
            .zip(d.values().chunks(n * PIECE))
            .enumerate()
            .collect();
        if in_parallel {
            pieces.into_par_iter().for_each(piece);
        } else {
            pieces.into_iter().for_each(piece);
        }
        Gram { values, single, largest }
    }

    fn column(&self, pattern: u32) -> &[f64] {
        let m = self.largest.len();
        &self.values[pattern as usize * m..][..m]
    }

    fn single(&self, pattern: u32) -> &[f32] {
        let m = self.largest.len();
        &self.single[pattern as usize * m..][..m]
    }
}

/// Columns of G, the same in single precision, their largest entries, and the patterns they are of.
type Piece<'a> = (((&'a mut [f64], &'a mut [f32]), &'a mut [f64]), &'a [f64]);

/// The code under work, and scratch space.
#[derive(Default)]
pub(crate) struct Work {
    /// x, by increasing pattern.
    pub(crate) code: Vec<(u32, f64)>,
    /// d_S, beside the code.
    d_s: Vec<f64>,
    candidates: Vec<(u32, f64)>,
    /// G_SS and its Cholesky factor, row by row.
    g_ss: Vec<f64>,
    factor: Vec<f64>,
    /// One for each pattern.
    scores: Vec<f32>,
    gradient: Vec<f64>,
    coupling: Vec<f64>,
    /// The iterate at which all of the gradient was last known.
    origin: Vec<f64>,
    /// Proofs in this block that were made without G.
    without_gram: usize,
}

impl Work {
    /// Ready for the next block.
    pub(crate) fn begin(&mut self) {
        self.without_gram = 0;
    }
}

/// What is known of A'y, in units of the code floor: |values_i - a_i'y| <= radius.
#[derive(Clone, Copy)]
pub(crate) struct Scores<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) radius: f64,
}

/// What a proof may use of A'y, beside |a_i'r| <= |r|.
#[derive(Clone, Copy)]
enum Known<'a> {
    Nothing,
    Scores(Scores<'a>),
    All(&'a [f64]),
}

impl<'a> Coder<'a> {
    pub(crate) fn new(dictionary: &'a Dictionary, params: &'a Params) -> Coder<'a> {
        Coder { dictionary, params, gram: OnceLock::new(), prepared: false, guide: None }
    }

    /// G, made on this thread if it is not there yet.
    fn gram(&self) -> &Gram {
        self.gram.get_or_init(|| Gram::new(self.dictionary, self.dictionary, false))
    }

    /// Makes G now, on all threads.
    pub(crate) fn prepare(&mut self) {
        self.prepared = true;
        self.gram.get_or_init(|| Gram::new(self.dictionary, self.dictionary, true));
    }

    /// Takes D as a guide.
    pub(crate) fn follow(&mut self, dictionary: Dictionary) {
        let gram = Gram::new(self.dictionary, &dictionary, true);
        self.guide = Some(Guide { dictionary, gram });
    }

    /// |y| and n, for rounding bounds.
    pub(crate) fn lengths(&self, energy: f64) -> Lengths {
        Lengths { features: self.dictionary.features(), fiber: energy.sqrt() / self.params.code_floor }
    }

    /// The code, if it is found from a guess of its support that is in `work.code`; returns |r|^2.
    pub(crate) fn guessed(&self, work: &mut Work, y: &[f64], r: &mut [f64], lengths: Lengths) -> Option<f64> {
        let floor = self.params.code_floor;
        if work.code.len() > MOST_GUESSED {
            return None;
        }
        let (dictionary, gram) = match &self.guide {
            Some(guide) => (&guide.dictionary, &guide.gram),
            None => (self.dictionary, self.gram()),
        };
        let rest = refit(work, y, r, dictionary)?;
        let (total, s) = (sum_of_magnitudes(&work.code) / floor, work.code.len());
        let radius = rest.sqrt() / floor * (1.0 + 1e-12) + lengths.coupled(total, s);
        if radius >= 0.5 {
            return None;
        }
        let own = self.guide.is_none();
        // The largest score outside of the guess is small enough for most fibers of few patterns.
        let highest: f64 = work.code.iter().map(|&(i, x)| x.abs() / floor * gram.largest[i as usize]).sum();
        if own && highest + radius < 0.5 && work.d_s.iter().all(|d| d.abs() >= floor / 2.0) {
            return self.proved(work, r, lengths, Known::Nothing, rest).then_some(rest);
        }
        let mut scores = std::mem::take(&mut work.scores);
        scores.resize(self.dictionary.patterns(), 0.0);
        single_sum(&mut scores, gram, &work.code, floor);
        let found = self.direct(work, y, r, lengths, Scores { values: &scores, radius }, own.then_some(rest));
        work.scores = scores;
        found
    }

    /// The limit of iterative hard thresholding, if the scores prove it to be that; returns |r|^2.
    ///
    /// With `guess`, the code is a least-squares fit already, and this is its |r|^2.
    pub(crate) fn direct(
        &self,
        work: &mut Work,
        y: &[f64],
        r: &mut [f64],
        lengths: Lengths,
        scores: Scores<'_>,
        guess: Option<f64>,
    ) -> Option<f64> {
        let half = self.params.code_floor / 2.0;
        // Rounded down: a candidate too many does not hurt.
        let lowest = ((0.5 - scores.radius) * (1.0 - 1e-6)) as f32;
        let mut candidates = std::mem::take(&mut work.candidates);
        candidates.clear();
        for (first, chunk) in (0..).step_by(16).zip(scores.values.chunks(16)) {
            if chunk.iter().fold(0.0, |a: f32, score| a.max(score.abs())) >= lowest {
                candidates.extend(
                    (first..).zip(chunk).filter(|(_, score)| score.abs() >= lowest).map(|(i, _)| (i, 0.0)),
                );
            }
        }
        let most = MOST_CANDIDATES.max(scores.values.len() / 16);
        let few = candidates.len() <= most;
        if few {
            candidates.iter_mut().for_each(|(i, d)| *d = dot(self.dictionary.pattern(*i as usize), y));
            candidates.retain(|(_, d)| d.abs() >= half);
        }
        let same = guess.is_some() && candidates.iter().map(|c| c.0).eq(work.code.iter().map(|c| c.0));
        if few && !same {
            work.code.clone_from(&candidates);
            work.d_s.clear();
            work.d_s.extend(candidates.iter().map(|candidate| candidate.1));
        }
        work.candidates = candidates;
        if !few {
            return None;
        }
        let rest = if same { guess? } else { fit(work, y, r, self.dictionary)? };
        // Scores that come from the code itself tell no more of a_i'r than |r| does.
        let known = if same { Known::Nothing } else { Known::Scores(scores) };
        self.proved(work, r, lengths, known, rest).then_some(rest)
    }

    /// The same where all of d = A'y is known.
    pub(crate) fn direct_from_all(
        &self,
        work: &mut Work,
        y: &[f64],
        r: &mut [f64],
        lengths: Lengths,
        d: &[f64],
    ) -> Option<f64> {
        self.start(work, d);
        work.d_s.clear();
        work.d_s.extend(work.code.iter().map(|entry| entry.1));
        let rest = fit(work, y, r, self.dictionary)?;
        self.proved(work, r, lengths, Known::All(d), rest).then_some(rest)
    }

    /// x(0) = HT_{C/2}(d) (alg:coeff_init).
    fn start(&self, work: &mut Work, d: &[f64]) {
        let half = self.params.code_floor / 2.0;
        work.code.clear();
        work.code.extend((0..).zip(d).filter(|(_, d)| d.abs() >= half).map(|(i, &d)| (i, d)));
    }

    /// Whether the fitted code is where iterative hard thresholding ends.
    fn proved(&self, work: &mut Work, r: &[f64], lengths: Lengths, known: Known<'_>, rest: f64) -> bool {
        let Params { eta_x, tau, code_floor: floor, .. } = *self.params;
        let Work { code, d_s, g_ss, gradient, coupling, without_gram, .. } = work;
        let s = code.len();
        let row_sum = |row: &[f64]| row.iter().map(|g| g.abs()).sum::<f64>();
        if s > 0 && g_ss.chunks_exact(s).any(|row| eta_x * row_sum(row) >= 2.0) {
            return false;
        }
        let distance = code.iter().zip(&*d_s).map(|(c, d)| (d - c.1).powi(2)).sum::<f64>().sqrt();
        if code.iter().any(|(_, x)| x.abs() - distance < tau) {
            return false;
        }
        let total = sum_of_magnitudes(code) / floor;
        let limit = tau / eta_x * (1.0 - 1e-12) - floor * lengths.double(total, s);
        let length = rest.sqrt();
        if length + (s as f64).sqrt() * distance < limit {
            return true;
        }
        // Few proofs in a small tensor are not worth all of G.
        let alone = !self.prepared && *without_gram < MOST_WITHOUT_GRAM;
        let largest = |&(i, _): &(u32, f64)| self.gram().largest[i as usize].powi(2);
        if !alone && length + code.iter().map(largest).sum::<f64>().sqrt() * distance < limit {
            return true;
        }
        // a_i'r = a_i'y - G_iS x and |G_iS|^2, pattern by pattern, in units of the floor.
        gradient.clear();
        coupling.clear();
        coupling.resize(self.dictionary.patterns(), 0.0);
        let radius = match known {
            Known::Nothing => return false,
            _ if alone => {
                *without_gram += 1;
                for (i, coupling) in coupling.iter_mut().enumerate() {
                    let a = self.dictionary.pattern(i);
                    let g = |&(l, _): &(u32, f64)| dot(a, self.dictionary.pattern(l as usize));
                    *coupling = code.iter().map(|entry| g(entry).powi(2)).sum();
                    gradient.push(dot(a, r) / floor);
                }
                2.0 * lengths.double(total, s)
            }
            Known::Scores(scores) => {
                gradient.extend(scores.values.iter().map(|&score| score as f64));
                code.iter().for_each(|&(i, x)| couple(gradient, coupling, x / floor, self.gram().single(i)));
                scores.radius + lengths.coupled(total, s)
            }
            Known::All(d) => {
                gradient.extend(d.iter().map(|d| d / floor));
                code.iter().for_each(|&(i, x)| couple(gradient, coupling, x / floor, self.gram().column(i)));
                2.0 * lengths.double(total, s)
            }
        };
        for &(i, _) in code.iter() {
            (gradient[i as usize], coupling[i as usize]) = (0.0, 0.0);
        }
        // |gradient| + |G_iS| e < highest without the root.
        let (highest, squared) = (limit / floor - radius, (distance / floor * (1.0 + 1e-6)).powi(2));
        fast(
            #[inline(always)]
            || {
                gradient.iter().zip(&*coupling).all(|(g, c)| {
                    let room = highest - g.abs();
                    (room > 0.0) & (room * room > c * squared)
                })
            },
        )
    }

    /// Iterative hard thresholding (alg:coeff_init, alg:coeff_iht), from d = A'y; false if the iterate
    /// still moves by more than `code_tolerance` after `iht_steps` steps.
    ///
    /// Choice: the paper fixes R. Real data has no true X to compare with, so that the iteration stops
    /// on the change of the iterate; with a tolerance of 0 it makes R steps.
    ///
    /// Most steps change the entries of the support S only, and are made on these: with g = d - G x and
    /// c = max_i |G_iS|, no entry outside can pass the threshold before x has gone the way
    /// (tau / eta_x - max_i |g_i|) / c.
    pub(crate) fn iht(&self, work: &mut Work, d: &[f64]) -> bool {
        let Params { eta_x, tau, iht_steps, code_tolerance, .. } = *self.params;
        let gram = self.gram();
        self.start(work, d);
        let limit = self.params.solver == Solver::Direct && code_tolerance > 0.0;
        work.gradient.resize(d.len(), 0.0);
        // How far x may go from `origin` before entries outside the support have to be looked at.
        let mut way = 0.0;
        for steps in 1..=iht_steps {
            let Work { code, candidates: next, gradient, origin, .. } = &mut *work;
            next.clear();
            let gone = code.iter().zip(origin.iter()).map(|(x, o)| (x.1 - o).powi(2)).sum::<f64>().sqrt();
            if gone < way {
                for &(i, x) in code.iter() {
                    let column = gram.column(i);
                    let known: f64 = code.iter().map(|&(l, x)| column[l as usize] * x).sum();
                    next.push((i, x + eta_x * (d[i as usize] - known)));
                }
                next.retain(|(_, z)| z.abs() >= tau);
            } else {
                // The negative gradient d - G x.
                gradient.copy_from_slice(d);
                code.iter().for_each(|&(i, x)| add_scaled(gradient, -x, gram.column(i)));
                let mut own = code.iter().peekable();
                let mut highest = 0.0_f64;
                for (i, &g) in (0..).zip(gradient.iter()) {
                    let x = own.next_if(|entry| entry.0 == i);
                    if x.is_none() {
                        highest = highest.max(g.abs());
                    }
                    let z = x.map_or(0.0, |entry| entry.1) + eta_x * g;
                    if z.abs() >= tau {
                        next.push((i, z));
                    }
                }
                let steepest =
                    code.iter().map(|&(i, _)| gram.largest[i as usize].powi(2)).sum::<f64>().sqrt();
                way = (tau / eta_x * (1.0 - 1e-12) - highest) / steepest;
                origin.clear();
                origin.extend(code.iter().map(|entry| entry.1));
            }
            let same = next.iter().map(|entry| entry.0).eq(code.iter().map(|entry| entry.0));
            let largest = next.iter().fold(0.0, |a: f64, entry| a.max(entry.1.abs()));
            let step = |(a, b): (&(u32, f64), &(u32, f64))| (a.1 - b.1).abs();
            let change = if same {
                next.iter().zip(code.iter()).map(step).fold(0.0, f64::max)
            } else {
                way = 0.0;
                f64::INFINITY
            };
            std::mem::swap(code, next);
            if code.iter().any(|entry| !entry.1.is_finite()) {
                return false;
            }
            if change <= code_tolerance * largest {
                return true;
            }
            if limit && same && steps.is_power_of_two() && self.stays(work, d) {
                return true;
            }
        }
        code_tolerance == 0.0
    }

    /// Whether iterative hard thresholding keeps the support from here on; the code is where it ends then.
    fn stays(&self, work: &mut Work, d: &[f64]) -> bool {
        let Params { eta_x, tau, .. } = *self.params;
        let (gram, margin) = (self.gram(), 1e-9 * tau);
        let Work { code, d_s, g_ss, factor, gradient, coupling, .. } = work;
        let now: Vec<f64> = code.iter().map(|entry| entry.1).collect();
        let row_sum = |i: u32| code.iter().map(|&(l, _)| gram.column(i)[l as usize].abs()).sum::<f64>();
        if code.iter().any(|&(i, _)| eta_x * row_sum(i) >= 2.0) {
            return false;
        }
        d_s.clear();
        d_s.extend(code.iter().map(|&(i, _)| d[i as usize]));
        // Patterns that are almost dependent would cost the digits that the margin stands for.
        let s = code.len();
        let solved = solve(code, d_s, g_ss, factor, |i, l| gram.column(i)[l as usize])
            && (0..s).all(|at| factor[at * s + at] > 1e-3);
        let distance = code.iter().zip(&now).map(|(x, now)| (x.1 - now).powi(2)).sum::<f64>().sqrt();
        let mut stays = solved && code.iter().all(|(_, x)| x.abs() - distance >= tau + margin);
        if stays {
            gradient.copy_from_slice(d);
            coupling.clear();
            coupling.resize(d.len(), 0.0);
            code.iter().for_each(|&(i, x)| couple(gradient, coupling, x, gram.column(i)));
            code.iter().for_each(|&(i, _)| (gradient[i as usize], coupling[i as usize]) = (0.0, 0.0));
            let inside = |(g, c): (&f64, &f64)| eta_x * (g.abs() + c.sqrt() * distance) < tau - margin;
            stays = gradient.iter().zip(&*coupling).all(inside);
        }
        if !stays {
            code.iter_mut().zip(now).for_each(|(entry, now)| entry.1 = now);
        }
        stays
    }
}

/// Scores that need a product in double precision cost as much as the whole product in single
/// precision when they are about this many, or one in sixteen patterns.
const MOST_CANDIDATES: usize = 8;

/// Proofs in a block of fibers that may be made without G, each at the cost of a few of its columns.
const MOST_WITHOUT_GRAM: usize = 4;

/// A guess of more patterns than this takes longer to fit than the product in single precision.
const MOST_GUESSED: usize = 16;

/// Least squares on the support of the code, whose d_S is known: G_SS x = d_S, r = y - A_S x.
/// Returns |r|^2; none if G_SS is not positive definite.
///
/// By hand, because the systems are 1 x 1 or 2 x 2 and many.
fn fit(work: &mut Work, y: &[f64], r: &mut [f64], dictionary: &Dictionary) -> Option<f64> {
    let Work { code, d_s, g_ss, factor, .. } = work;
    let pattern = |i: u32| dictionary.pattern(i as usize);
    let solved = solve(code, d_s, g_ss, factor, |i, l| dot(pattern(i), pattern(l)));
    solved.then(|| residual_of(r, y, dictionary, code))
}

/// G_SS x = d_S for the support of the code, by Cholesky's factors; false if G_SS is not positive definite.
fn solve(
    code: &mut [(u32, f64)],
    d_s: &[f64],
    g_ss: &mut Vec<f64>,
    factor: &mut Vec<f64>,
    g: impl Fn(u32, u32) -> f64,
) -> bool {
    let s = code.len();
    g_ss.clear();
    g_ss.resize(s * s, 1.0);
    factor.clear();
    factor.resize(s * s, 0.0);
    for row in 0..s {
        for col in 0..=row {
            let g = if row == col { 1.0 } else { g(code[row].0, code[col].0) };
            (g_ss[row * s + col], g_ss[col * s + row]) = (g, g);
            let known: f64 = (0..col).map(|before| factor[row * s + before] * factor[col * s + before]).sum();
            factor[row * s + col] = if row > col {
                (g - known) / factor[col * s + col]
            } else if g - known > 1e-12 {
                (g - known).sqrt()
            } else {
                return false;
            };
        }
    }
    for row in 0..s {
        let known: f64 = (0..row).map(|col| factor[row * s + col] * code[col].1).sum();
        code[row].1 = (d_s[row] - known) / factor[row * s + row];
    }
    for row in (0..s).rev() {
        let known: f64 = (row + 1..s).map(|below| factor[below * s + row] * code[below].1).sum();
        code[row].1 = (code[row].1 - known) / factor[row * s + row];
    }
    true
}

/// Least squares on the support of the code.
pub(crate) fn refit(work: &mut Work, y: &[f64], r: &mut [f64], dictionary: &Dictionary) -> Option<f64> {
    let Work { code, d_s, .. } = work;
    d_s.clear();
    d_s.extend(code.iter().map(|&(i, _)| dot(dictionary.pattern(i as usize), y)));
    fit(work, y, r, dictionary)
}

fn sum_of_magnitudes(code: &[(u32, f64)]) -> f64 {
    code.iter().map(|(_, x)| x.abs()).sum()
}

/// gradient -= x g, coupling += g^2, for a column g of G.
fn couple<T: Copy + Into<f64>>(gradient: &mut [f64], coupling: &mut [f64], x: f64, column: &[T]) {
    fast(
        #[inline(always)]
        || {
            for ((gradient, coupling), &g) in gradient.iter_mut().zip(coupling).zip(column) {
                let g: f64 = g.into();
                *gradient -= x * g;
                *coupling += g * g;
            }
        },
    );
}

/// scores = G_S x / C in single precision.
fn single_sum(scores: &mut [f32], gram: &Gram, code: &[(u32, f64)], floor: f64) {
    scores.fill(0.0);
    for &(i, x) in code {
        let x = (x / floor) as f32;
        let column = gram.single(i);
        fast(
            #[inline(always)]
            || scores.iter_mut().zip(column).for_each(|(score, g)| *score += x * g),
        );
    }
}

/// r = y - A x; returns |r|^2.
pub(crate) fn residual_of(r: &mut [f64], y: &[f64], dictionary: &Dictionary, code: &[(u32, f64)]) -> f64 {
    let mut terms = code.iter().map(|&(i, x)| (-x, dictionary.pattern(i as usize)));
    // The first two in one go: most codes have no more.
    match (terms.next(), terms.next()) {
        (Some((x, a)), Some((z, b))) => add_two(r, y, x, a, z, b),
        (Some((x, a)), None) => add_two(r, y, x, a, 0.0, a),
        (None, _) => r.copy_from_slice(y),
    }
    terms.for_each(|(x, a)| add_scaled(r, x, a));
    dot(r, r)
}
