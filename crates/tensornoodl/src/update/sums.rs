//! Stage III: the dictionary moves (eq:emp_grad_est, eq:apx_grad).
//!
//! With r_f = y_f - A x_f, both rules rest on sums over the fibers, so that the sums of parts of a
//! tensor add up to those of the whole:
//!
//! ```text
//! paper      G_i = sum_f r_f sgn(x_if)
//!            A_i <- A_i + eta_A / p G_i
//! adaptive   G_i = sum_f w_f r_f x_if,    E = sum_f w_f x_f x_f'
//!            A   <- A + G (E + diag(v / P))^-1,    P <- v diag((E + diag(v / P))^-1) + what a pass leaves
//! ```
//!
//! In both, the columns that moved are scaled to unit length afterwards, and a pattern that no
//! fiber shows does not move.

use rayon::prelude::*;

use crate::data::dictionary::{Dictionary, Moved};
use crate::data::sparse::Sparse;
use crate::data::tensor::Tensor;
use crate::discover::unexplained::UnexplainedFibers;
use crate::encode::waves::{Block, Found};
use crate::error::Error;
use crate::linalg::product::transposed_product;
use crate::linalg::vector::dot;
use crate::parallel::exact_sum::{ColumnGroup, ExactSums, SummedColumns, sum_over_ranks};
use crate::parallel::team::Team;
use crate::params::{Params, Rule, Samples};
use crate::update::second_moment::SecondMoment;

/// What the fibers of a tensor teach: sums over them, added up wave by wave.
pub(crate) struct FiberSums<'a> {
    dictionary: &'a Dictionary,
    rule: Rule,
    samples: Samples,
    /// Weights of the first pass by fiber, where a further one may need them.
    frozen: &'a mut PassWeights,
    /// G (n x m).
    gradient: &'a mut ExactSums,
    /// For each pattern i, with the paper's step the sum of |x_if|; with the adaptive one that of w_f x_if^2 (s_f - 1), the evidence that comes
    /// with s_f - 1 other patterns, and E_il for l <= i. Weights differ by many orders of magnitude, so each is a column of its own.
    moment: &'a mut ExactSums,
    /// How many of them a pattern has.
    wide: usize,
    /// Of each pattern.
    tallies: Vec<Tally>,
    /// Number of fibers that are not zero and in the sample set.
    pub(crate) fibers_used: usize,
    /// Sum of w_f |r_f|^2.
    rest: ExactSums,
    /// Sum of n - s_f over the fibers that teach.
    freedom: usize,
    /// In a growing dictionary, fibers that it does not explain are kept apart.
    pub(crate) unexplained: Option<UnexplainedFibers>,
}

/// What is added up for one pattern: its columns of G and of E, and its tally.
type Row<'a> = (ColumnGroup<'a>, ColumnGroup<'a>, &'a mut Tally);

/// Where a pattern has what in `FiberSums::moment`.
const EVIDENCE: usize = 0;
const SHARED: usize = 0;
const MOMENT: usize = 1;

/// The large sums of [`FiberSums`], kept from tensor to tensor, since fresh memory costs a small step as much
/// as its product does. All zero between tensors.
#[derive(Debug, Default)]
pub(crate) struct Space {
    gradient: ExactSums,
    moment: ExactSums,
}

/// What counts for one pattern.
#[derive(Clone, Copy, Default)]
struct Tally {
    /// Number of fibers that show it.
    fibers: usize,
    /// How many of them show another pattern too.
    mixed: usize,
}

/// Products of two numbers in a wave's G up to which threads are not worth their start.
const SMALL_SUM: usize = 200_000;

/// The weights of the first pass over a tensor. A further one keeps them, and so solves one problem to
/// the end; only a fiber that had no code before gets its weight then.
pub(crate) enum PassWeights {
    /// There is no further pass.
    Unused,
    /// One for each fiber, 0 until it has one.
    Weights(Vec<f64>),
}

impl<'a> FiberSums<'a> {
    pub(crate) fn new(
        dictionary: &'a Dictionary,
        params: &Params,
        frozen: &'a mut PassWeights,
        space: &'a mut Space,
        unexplained: Option<UnexplainedFibers>,
    ) -> FiberSums<'a> {
        let m = dictionary.patterns();
        let adaptive = params.rule == Rule::Adaptive;
        // Zeroed by the system when it is first touched, if it ever is.
        let wide = MOMENT + if adaptive { m } else { 0 };
        let (gradient, moment) = ((m, dictionary.features()), (m * wide, 1));
        if (space.gradient.size(), space.moment.size()) != (gradient, moment) {
            let new = |(columns, length)| ExactSums::new(columns, length);
            *space = Space { gradient: new(gradient), moment: new(moment) };
        }
        FiberSums {
            dictionary,
            rule: params.rule,
            samples: params.samples,
            frozen,
            gradient: &mut space.gradient,
            moment: &mut space.moment,
            wide,
            tallies: vec![Tally::default(); m],
            fibers_used: 0,
            rest: ExactSums::new(1, 1),
            freedom: 0,
            unexplained,
        }
    }

    /// Adds a wave of blocks. Column q of `residuals` is what the codes leave of the q-th fiber; fibers
    /// count from `offset`.
    pub(crate) fn add(&mut self, tensor: &Tensor<'_>, offset: usize, blocks: &[Block], residuals: &[f64]) {
        let (n, m) = (self.dictionary.features(), self.dictionary.patterns());
        let adaptive = self.rule == Rule::Adaptive;
        let mut codes = Sparse::new(m);
        // By fiber of the wave; a fiber of no weight teaches nothing.
        let mut weights = Vec::with_capacity(residuals.len() / n);
        let (mut lengths, mut rests) = (Vec::with_capacity(residuals.len() / n), Vec::new());
        for block in blocks {
            codes.append(&block.believed);
            let fibers = block.fibers.iter().zip(block.believed.columns());
            for ((&fiber, code), (&energy, &rest)) in fibers.zip(block.energies.iter().zip(&block.rests)) {
                let place = tensor.places()[fiber];
                let used = energy > 0.0 && (self.samples == Samples::All || place.row == place.col);
                self.fibers_used += usize::from(used);
                // A fiber with as many patterns as features is fitted whatever they are, and tells nothing.
                let unexplained = self.unexplained.as_mut();
                let strange = unexplained.is_some_and(|s| s.add(tensor, fiber, code, energy, rest));
                let teaches = used && !strange && !code.is_empty() && code.len() < n;
                weights.push(match self.rule {
                    _ if !teaches => 0.0,
                    Rule::Paper { .. } => 1.0,
                    Rule::Adaptive => self.weigh(offset + fiber, code.len(), energy, rest),
                });
                // Squares of tiny numbers vanish, the numbers do not.
                let residual = &residuals[lengths.len() * n..][..n];
                let largest = || residual.iter().fold(0.0, |a: f64, r| a.max(r.abs()));
                lengths.push(if rest > 1e-280 { rest.sqrt() } else { largest() });
                if adaptive && teaches {
                    rests.push(weights[weights.len() - 1] * rest);
                    self.freedom += n - code.len();
                }
            }
        }
        self.rest.column(0).add_all(&rests);
        let by_pattern = codes.transpose();
        let add = |(i, (mut sum, mut moment, tally)): (usize, Row<'_>)| {
            for &(fiber, x) in by_pattern.column(i) {
                let fiber = fiber as usize;
                if weights[fiber] == 0.0 {
                    continue;
                }
                let (step, code) =
                    (if adaptive { weights[fiber] * x } else { x.signum() }, codes.column(fiber));
                // No entry of r is longer than r, but for rounding.
                let size = 2.0 * step.abs() * lengths[fiber];
                sum.column(0).add_scaled(step, &residuals[fiber * n..][..n], size);
                tally.fibers += 1;
                tally.mixed += usize::from(code.len() > 1);
                if !adaptive {
                    moment.column(EVIDENCE).add(step * x);
                    continue;
                }
                if code.len() > 1 {
                    moment.column(SHARED).add(step * x * (code.len() - 1) as f64);
                }
                for &(l, x) in code.iter().take_while(|entry| entry.0 as usize <= i) {
                    moment.column(MOMENT + l as usize).add(step * x);
                }
            }
        };
        let rows = self.gradient.groups(1).zip(self.moment.groups(self.wide)).zip(&mut self.tallies);
        let rows = rows.map(|((sum, moment), tally)| (sum, moment, tally));
        if n * codes.nnz() < SMALL_SUM {
            rows.enumerate().for_each(add);
        } else {
            rows.collect::<Vec<_>>().into_par_iter().enumerate().with_min_len(8).for_each(add);
        }
    }

    /// Adds up what all ranks have learned and found; see [`sum_over_ranks`].
    pub(crate) fn add_up(&mut self, team: &dyn Team, found: &mut Found, alarm: i8) -> i8 {
        if team.size() == 1 {
            return alarm;
        }
        let (energy, counts) = found.sums();
        let tallies = self.tallies.iter_mut().flat_map(|tally| [&mut tally.fibers, &mut tally.mixed]);
        let own = [&mut self.fibers_used, &mut self.freedom];
        let mut counts: Vec<&mut usize> = counts.into_iter().chain(own).chain(tallies).collect();
        let mut numbers: Vec<i64> = counts.iter().map(|count| **count as i64).collect();
        let (m, wide) = (self.dictionary.patterns(), self.wide);
        let lower = (0..m).flat_map(|i| i * wide..i * wide + wide.min(MOMENT + i + 1)).collect();
        let mut totals: [SummedColumns<'_>; 4] = [
            (&mut *self.gradient, (0..m).collect()),
            (&mut *self.moment, lower),
            (&mut self.rest, vec![0]),
            (energy, vec![0, 1]),
        ];
        let alarm = sum_over_ranks(team, &mut totals, &mut numbers, alarm);
        counts.iter_mut().zip(numbers).for_each(|(count, number)| **count = number as usize);
        alarm
    }

    /// w_f, the inverse of the residual variance of a fiber. A residual has n - s degrees of freedom,
    /// many, so that each fiber tells its own noise; an outlier or a wrong code weighs next to nothing.
    /// Residuals below 1e-12 of the fiber are rounding.
    fn weigh(&mut self, fiber: usize, s: usize, energy: f64, rest: f64) -> f64 {
        let weight = (self.dictionary.features() - s) as f64 / rest.max(1e-24 * energy);
        match self.frozen {
            PassWeights::Unused => weight,
            PassWeights::Weights(weights) => {
                weights.resize(weights.len().max(fiber + 1), 0.0);
                if weights[fiber] == 0.0 {
                    weights[fiber] = weight;
                }
                weights[fiber]
            }
        }
    }

    /// Number of fibers that show each pattern.
    pub(crate) fn activity(&self) -> Vec<usize> {
        self.tallies.iter().map(|tally| tally.fibers).collect()
    }

    /// A rough guess of where the dictionary is going: every pattern alone, moved by G_i / (its evidence).
    pub(crate) fn guide(&self) -> Option<Dictionary> {
        let n = self.dictionary.features();
        let shown: Vec<usize> = (0..self.tallies.len()).filter(|&i| self.tallies[i].fibers > 0).collect();
        let mut changes = self.gradient_of(&shown);
        for (change, &i) in changes.chunks_exact_mut(n).zip(&shown) {
            let at = if self.rule == Rule::Adaptive { MOMENT + i } else { EVIDENCE };
            let evidence = self.moment.get(i * self.wide + at, 0);
            change.iter_mut().for_each(|g| *g /= evidence);
        }
        let mut guide = self.dictionary.clone();
        guide.replace(&Moved::new(self.dictionary, shown, changes).ok()?);
        Some(guide)
    }

    /// The columns of G that belong to these patterns.
    fn gradient_of(&self, patterns: &[usize]) -> Vec<f64> {
        let n = self.dictionary.features();
        let mut columns = vec![0.0; n * patterns.len()];
        patterns.iter().zip(columns.chunks_exact_mut(n)).for_each(|(&i, sums)| self.gradient.read(i, sums));
        columns
    }

    /// E.
    fn moment(&self) -> SecondMoment {
        let mixed: Vec<bool> = self.tallies.iter().map(|tally| tally.mixed > 0).collect();
        SecondMoment::new(&mixed, |i, l| self.moment.get(i.max(l) * self.wide + MOMENT + i.min(l), 0))
    }
}

impl Drop for FiberSums<'_> {
    fn drop(&mut self) {
        // Only patterns that some fiber showed have anything in the sums.
        for i in (0..self.tallies.len()).filter(|&i| self.tallies[i].fibers > 0) {
            self.gradient.clear(i);
            (i * self.wide..(i + 1) * self.wide).for_each(|column| self.moment.clear(column));
        }
    }
}

/// The paper's step: A <- A - eta_A g,  g = 1/p (A X - Y) sgn(X)' (eq:emp_grad_est, eq:apx_grad).
pub(crate) fn paper_step(sums: &FiberSums<'_>, eta_a: f64) -> Result<Moved, Error> {
    let scale = eta_a / sums.fibers_used as f64;
    let shown = |i: &usize| sums.tallies[*i].fibers > 0;
    let patterns: Vec<usize> = (0..sums.tallies.len()).filter(shown).collect();
    let mut gradient = sums.gradient_of(&patterns);
    gradient.iter_mut().for_each(|g| *g *= scale);
    Moved::new(sums.dictionary, patterns, gradient)
}

/// The adaptive step: recursive least squares (a Kalman filter with one error variance per
/// pattern) that forgets a pattern's past when its residuals say that it still moves.
///
/// Departs: the paper divides by p and takes one eta_A for all patterns. Here
///
/// - E^-1 takes out what the patterns of a fiber do to each other's residuals;
/// - P averages over tensors as noise demands, 1/t, and not at all without noise;
/// - a significant residual resets P, so that a pattern which is still far, turns or jumps takes
///   a full step.
///
/// - a first sight that is clear counts in full, so that one fiber can be enough for its pattern.
///
/// All of it follows from the data; there is nothing to tune. The numbers below are rounding
/// levels and tail probabilities.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Adaptive {
    /// P: expected squared error of each pattern; none before its first sight.
    variance: Vec<Option<f64>>,
    noise: Noise,
    prior: Prior,
    tensors: u64,
}

/// What no dictionary explains: a sum of squares, in units of the weights, and its degrees of freedom.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
struct Noise {
    squares: f64,
    freedom: f64,
}

/// Sums over all first sights of a pattern, from which the next ones get their P.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
struct Prior {
    /// |G_i|^2.
    squares: f64,
    /// v d_i, what noise alone would give.
    noise: f64,
    /// d_i^2.
    evidence: f64,
}

/// The result of one pass over a tensor.
pub(crate) struct Pass {
    pub(crate) moved: Moved,
    pub(crate) state: Adaptive,
    /// Whether what a further pass could still bring is small against the error that remains.
    pub(crate) settled: bool,
}

impl Adaptive {
    /// Whether it can be the state of so many patterns.
    pub(crate) fn is_sound(&self, patterns: usize) -> bool {
        let fine = |value: &f64| value.is_finite() && *value >= 0.0;
        let sums = [
            self.noise.squares,
            self.noise.freedom,
            self.prior.squares,
            self.prior.noise,
            self.prior.evidence,
        ];
        self.variance.len() == patterns && self.variance.iter().flatten().all(fine) && sums.iter().all(fine)
    }

    pub(crate) fn new(patterns: usize) -> Adaptive {
        let (noise, prior) = (Noise::default(), Prior::default());
        Adaptive { variance: vec![None; patterns], noise, prior, tensors: 0 }
    }

    /// So many patterns, not seen yet.
    pub(crate) fn grow(&mut self, patterns: usize) {
        self.variance.resize(self.variance.len() + patterns, None);
    }

    /// Forgets patterns, given by increasing number.
    pub(crate) fn remove(&mut self, patterns: &[usize]) {
        patterns.iter().rev().for_each(|&pattern| {
            self.variance.remove(pattern);
        });
    }

    /// A pattern that is another one now.
    pub(crate) fn forget(&mut self, pattern: usize) {
        self.variance[pattern] = None;
    }

    /// One pass: moves A(t), `origin`, by what the fibers say, which were coded with
    /// `sums.dictionary`. In the first pass the two are the same; a further one replaces it.
    pub(crate) fn step(
        &self,
        origin: &Dictionary,
        sums: &FiberSums<'_>,
        forgetting: f64,
    ) -> Result<Pass, Error> {
        let e = sums.moment();
        let (d, patterns) = (&e.diagonal, &e.patterns);
        let (n, m, k) = (origin.features(), origin.patterns(), patterns.len());
        let mut state = self.clone();
        state.tensors += 1;
        // What was learned long ago counts less.
        let fade = |p: &mut f64| *p = (*p / (1.0 - forgetting)).min(p.max(1.0));
        state.variance.iter_mut().flatten().for_each(fade);
        if k == 0 {
            let moved = Moved::new(origin, Vec::new(), Vec::new())?;
            return Ok(Pass { moved, state, settled: true });
        }
        let not_finite = Error::Pattern { pattern: patterns[0], norm: f64::NAN };
        // One false alarm is to be expected over all patterns and all time: sum of 1/(m t^2).
        let tail = (m as f64 * (state.tensors as f64).powi(2)).ln().max(1.0);

        // v: the noise, from what is left after the best fit H = G E^-1 to this tensor alone.
        let mut gradient = sums.gradient_of(patterns);
        let mut fit = gradient.clone();
        let rounding: Vec<f64> = d.iter().map(|d| 1e-10 * d).collect();
        e.regular(&rounding).ok_or(not_finite.clone())?.solve(&mut fit, n);
        let squares = (sums.rest.get(0, 0) - dot(&fit, &gradient)).max(0.0);
        // A unit pattern takes n - 1 degrees of freedom.
        let freedom = sums.freedom as f64 - (n - 1) as f64 * k as f64;
        state.noise.add(Noise { squares, freedom }, tail);
        let v = state.noise.level(n);

        // G' = G + (A - A(t)) E: the gradient, had the residuals been taken at A(t).
        if !std::ptr::eq(sums.dictionary, origin) {
            e.add_product(&mut gradient, &difference(sums.dictionary, origin, patterns), n);
        }

        // P before this tensor, then the gain and P after it.
        let counts: Vec<usize> = patterns.iter().map(|&i| sums.tallies[i].fibers).collect();
        let before = state.expect(&e, &counts, &gradient, v, significance(&fit, n, tail));
        // Rounding, so that codes which only ever occur together cannot blow up the inverse: v
        // counts at least 1e-12 of what the pattern and its companions carry.
        let carried: Vec<f64> = d.iter().zip(&before).map(|(d, p)| 1e-12 * d * p).collect();
        let v: Vec<f64> = e.largest(&carried).iter().map(|carried| carried.max(v)).collect();
        let ridge: Vec<f64> = v.iter().zip(&before).map(|(v, p)| v / p).collect();
        let regular = e.regular(&ridge).ok_or(not_finite)?;
        regular.solve(&mut gradient, n);
        let gain = regular.diagonal_of_inverse();
        let moved = Moved::new(origin, patterns.clone(), gradient)?;

        // Codes are least-squares fits, so that a fiber's residual lacks what lies along its other
        // patterns, about 1/n of the energy of each move. A further pass brings most of it.
        let squares = moved.squares_from(sums.dictionary);
        let from_others = e.due_to_others(&squares);
        let mut settled = true;
        for (at, &i) in patterns.iter().enumerate() {
            let own = sums.moment.get(i * sums.wide + SHARED, 0) / d[at] * squares[at];
            let left = (own + from_others[at] / d[at].powi(2)) / n as f64;
            let known = v[at] * gain[at];
            settled &= left <= 0.01 * known || left <= ROUNDING;
            state.variance[i] = Some(known + left);
        }
        Ok(Pass { moved, state, settled })
    }

    /// P of the shown patterns before this tensor: a common prior for those never seen, the past
    /// for the others, unless their residuals contradict it.
    fn expect(
        &mut self,
        e: &SecondMoment,
        counts: &[usize],
        gradient: &[f64],
        v: f64,
        significant: f64,
    ) -> Vec<f64> {
        let (k, d, patterns) = (e.size(), &e.diagonal, &e.patterns);
        let squares: Vec<f64> = gradient.chunks_exact(gradient.len() / k).map(|g| dot(g, g)).collect();
        for at in (0..k).filter(|&at| self.variance[patterns[at]].is_none()) {
            self.prior.squares += squares[at];
            self.prior.noise += v * d[at];
            self.prior.evidence += d[at] * d[at];
        }
        let prior = self.prior.variance((gradient.len() / k) as f64);
        // At a first sight v still contains what the errors of other patterns leave in mixed fibers,
        // and would hold back a pattern that is seen clearly. So the prior grows with the ratio of
        // signal to noise: where the ratio is large, the first step is a full one.
        let first = |at: usize| prior * (1.0 + prior * d[at] / v);
        let past = |(at, &i): (usize, &usize)| self.variance[i].unwrap_or_else(|| first(at)).max(ROUNDING);
        let mut variance: Vec<f64> = patterns.iter().enumerate().map(past).collect();
        // A reset raises what is expected of the pattern's companions; three rounds settle it.
        for _ in 0..3 {
            let from_others = e.due_to_others(&variance);
            for i in 0..k {
                let expected = v * d[i] + d[i] * d[i] * variance[i] + from_others[i];
                // One fiber alone may be an outlier, and must not turn a known pattern.
                if squares[i] > significant * expected && counts[i] >= 2 {
                    variance[i] += (squares[i] - expected) / (d[i] * d[i]);
                }
            }
        }
        variance
    }
}

impl Noise {
    /// Adds the noise of one tensor, or starts again from it if it differs by more than chance.
    fn add(&mut self, new: Noise, tail: f64) {
        if new.freedom <= 0.0 {
            return;
        }
        // At first there is nothing to compare with: 0 / 0, and every comparison is false.
        let ratio = (new.squares / new.freedom) / (self.squares / self.freedom);
        let spread = 2.0 * (tail / new.freedom).sqrt();
        if ratio > 1.0 - spread && ratio < 1.0 + spread + spread * spread / 2.0 {
            self.squares += new.squares;
            self.freedom += new.freedom;
        } else {
            *self = new;
        }
    }

    /// v: the noise of a whole fiber. The weights make it about n before anything is fitted;
    /// 1e-14 of that is rounding.
    fn level(&self, n: usize) -> f64 {
        let per_value = if self.freedom > 0.0 { self.squares / self.freedom } else { 0.0 };
        n as f64 * per_value.max(1e-14)
    }
}

impl Prior {
    /// The mean squared error of patterns at their first sight, at least what could be seen above the noise.
    fn variance(&self, features: f64) -> f64 {
        (self.squares - self.noise).max((2.0 / features).sqrt() * self.noise) / self.evidence
    }
}

/// The squared error of a unit pattern that rounding leaves.
const ROUNDING: f64 = 1e-32;

/// Columns to tell the degrees of freedom of the noise from: some 2,000 pairs give them to 3 %.
const COLUMNS: usize = 64;

/// Columns A_i - B_i of some patterns.
fn difference(a: &Dictionary, b: &Dictionary, patterns: &[usize]) -> Vec<f64> {
    patterns.iter().flat_map(|&i| a.pattern(i).iter().zip(b.pattern(i)).map(|(a, b)| a - b)).collect()
}

/// The ratio of |G_i|^2 to its expectation that chance exceeds with probability exp(-tail) only
/// (Laurent and Massart's bound for chi-square). Noise that is not white has fewer degrees of
/// freedom than n; how many, the directions of the fitted columns tell. Some of them are enough.
fn significance(fit: &[f64], n: usize, tail: f64) -> f64 {
    let every = (fit.len() / n).div_ceil(COLUMNS);
    let mut some = Vec::with_capacity(n * COLUMNS);
    fit.chunks_exact(n).step_by(every).for_each(|column| some.extend_from_slice(column));
    let mut fit = some;
    let mut columns = 0.0;
    for column in fit.chunks_exact_mut(n) {
        let norm = dot(column, column).sqrt();
        let rounding = norm <= 1e-12;
        columns += if rounding { 0.0 } else { 1.0 };
        column.iter_mut().for_each(|x| *x = if rounding { 0.0 } else { *x / norm });
    }
    let k = fit.len() / n;
    let mut cosines = vec![0.0; k * k];
    transposed_product(&mut cosines, &fit, &fit, n);
    let off_diagonal = dot(&cosines, &cosines) - columns;
    let pairs = columns * (columns - 1.0);
    // One column has nothing to be compared with.
    let white = pairs == 0.0 || off_diagonal <= 0.0;
    let freedom = if white { n as f64 } else { (pairs / off_diagonal).clamp(1.0, n as f64) };
    1.0 + 2.0 * (tail / freedom).sqrt() + 2.0 * tail / freedom
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn significance_follows_the_tail_of_chi_square() {
        let (n, tail) = (4, 3.0);
        let bound = |freedom: f64| 1.0 + 2.0 * (tail / freedom).sqrt() + 2.0 * tail / freedom;
        let near = |fit: &[f64], freedom: f64| (significance(fit, n, tail) - bound(freedom)).abs() < 1e-12;
        // Orthogonal columns of any length: all n degrees of freedom.
        assert!(near(&[2.0, 0.0, 0.0, 0.0, 0.0, 5.0, 0.0, 0.0], 4.0));
        // Parallel columns: one. In between, one over the squared cosine.
        assert!(near(&[2.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0], 1.0));
        assert!(near(&[1.0, 0.0, 0.0, 0.0, 0.8, 0.6, 0.0, 0.0], 1.0 / 0.64));
        // One column, whatever its rounding, and one of rounding only, say nothing.
        assert!(near(&[0.1, 0.7, 0.3, 0.9], 4.0) && near(&[0.3, 0.3, 0.1, 0.2], 4.0));
        assert!(near(&[1.0, 0.0, 0.0, 0.0, 1e-13, 0.0, 0.0, 0.0], 4.0));
    }

    #[test]
    fn noise_adds_up_until_it_changes() {
        let mut noise = Noise::default();
        assert_eq!(noise.level(10), 1e-13);
        noise.add(Noise { squares: 7.0, freedom: -3.0 }, 1.0);
        assert_eq!(noise, Noise::default(), "no degrees of freedom, no news");
        noise.add(Noise { squares: 800.0, freedom: 400.0 }, 1.0);
        assert_eq!(noise.level(10), 20.0);
        // With a tail of 1 and 400 degrees of freedom, 0.9 to 1.105 times as much is chance.
        noise.add(Noise { squares: 2.0 * 1.104 * 400.0, freedom: 400.0 }, 1.0);
        assert_eq!(noise.freedom, 800.0);
        noise.add(Noise { squares: 2.104 * 0.91 * 400.0, freedom: 400.0 }, 1.0);
        assert_eq!(noise.freedom, 1200.0);
        for factor in [0.89, 1.106] {
            let mut changed = noise;
            let squares = factor * 400.0 * noise.squares / noise.freedom;
            changed.add(Noise { squares, freedom: 400.0 }, 1.0);
            assert_eq!(changed, Noise { squares, freedom: 400.0 });
        }
    }

    #[test]
    fn the_prior_is_what_first_sights_show_above_the_noise() {
        let prior = Prior { squares: 9.0, noise: 1.0, evidence: 4.0 };
        assert_eq!(prior.variance(8.0), 2.0);
        // Never below what could be seen.
        assert_eq!(Prior { squares: 1.1, ..prior }.variance(8.0), 0.125);
    }
}
