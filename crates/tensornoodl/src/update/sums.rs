//! Sums over the fibers of a tensor, from which stage III moves the dictionary.
//!
//! With the residual r_f = y_f - A x_f of fiber f, the two rules need
//!
//! ```text
//! paper      G_i = sum_f r_f sgn(x_if)
//! adaptive   G_i = sum_f w_f r_f x_if,    E = sum_f w_f x_f x_f'
//! ```
//!
//! G and E are plain sums over fibers, so that the sums of the parts of a tensor, or of the shares of ranks, add up
//! to the sums of the whole tensor.

use rayon::prelude::*;

use crate::data::dictionary::{Dictionary, Moved};
use crate::data::sparse::Sparse;
use crate::encode::waves::{Encoded, Wave};
use crate::parallel::exact_sum::{ColumnGroup, ExactSums, SummedColumns, sum_over_ranks};
use crate::parallel::team::Team;
use crate::params::{Params, Passes, Rule, Samples};
use crate::update::second_moment::SecondMoment;

/// Waves whose G has fewer multiplications than this are added up on the calling thread.
const SMALL_SUM: usize = 200_000;

/// Sums over the fibers of one tensor. They are added up wave by wave, and the memory is kept for the next tensor.
#[derive(Debug)]
pub(crate) struct FiberSums {
    rule: Rule,
    samples: Samples,
    /// The length of the shortest residual that counts as noise.
    noise: f64,
    /// G (n x m).
    gradient: ExactSums,
    /// For each pattern i, `moment_columns` sums. With the paper's step, the sum of |x_if|. With the adaptive step, the
    /// sum of w_f x_if^2 (s_f - 1), where s_f is the number of codes of fiber f, and E_il for l <= i. Weights differ by
    /// many orders of magnitude, so each sum is a column of its own.
    moment: ExactSums,
    moment_columns: usize,
    tallies: Vec<Tally>,
    /// Number of non-zero fibers in the sample set of stage III.
    pub(crate) fibers_used: usize,
    /// Sum of w_f |r_f|^2.
    residual: ExactSums,
    /// Degrees of freedom of the residuals: the sum of n - s_f over the fibers that are learned from.
    pub(crate) freedom: usize,
}

/// The sums of one pattern: its columns of G and of the moments, and its tally.
type PatternSums<'a> = (ColumnGroup<'a>, ColumnGroup<'a>, &'a mut Tally);

/// Offset of the sum of |x_if| among the moments of a pattern, with the paper's step.
const MAGNITUDE: usize = 0;
/// Offset of the sum of w_f x_if^2 (s_f - 1) among the moments of a pattern, with the adaptive step.
const SHARED: usize = 0;
/// Offset of E_i0 among the moments of a pattern, with the adaptive step.
const MOMENT: usize = 1;

/// Counts of fibers for one pattern.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    /// Number of fibers that show the pattern.
    fibers: usize,
    /// Number of these fibers that show another pattern too.
    mixed: usize,
}

/// Weights of fibers over the passes of one tensor. A further pass keeps the weights of the first one, so that all
/// passes solve one least-squares problem. Only a fiber that had no code before gets its weight in a later pass.
pub(crate) enum PassWeights {
    /// There is only one pass: weights are computed and not stored.
    OnePass,
    /// Weight of each fiber, 0 until it is known.
    Kept(Vec<f64>),
}

impl PassWeights {
    pub(crate) fn new(passes: Passes) -> PassWeights {
        if passes == Passes::Fixed(1) { PassWeights::OnePass } else { PassWeights::Kept(Vec::new()) }
    }

    /// Returns the stored weight of a fiber; stores `weight` if there is none.
    fn keep(&mut self, fiber: usize, weight: f64) -> f64 {
        match self {
            PassWeights::OnePass => weight,
            PassWeights::Kept(weights) => {
                weights.resize(weights.len().max(fiber + 1), 0.0);
                if weights[fiber] == 0.0 {
                    weights[fiber] = weight;
                }
                weights[fiber]
            }
        }
    }
}

impl Default for FiberSums {
    fn default() -> FiberSums {
        FiberSums {
            rule: Rule::Adaptive,
            samples: Samples::All,
            noise: 0.0,
            gradient: ExactSums::default(),
            moment: ExactSums::default(),
            moment_columns: 0,
            tallies: Vec::new(),
            fibers_used: 0,
            residual: ExactSums::new(1, 1),
            freedom: 0,
        }
    }
}

impl FiberSums {
    /// Sets all sums to zero, for a pass over a tensor that is coded with `dictionary`.
    ///
    /// `noise` is the length of the shortest residual that counts as noise: shorter ones give a fiber no more weight.
    pub(crate) fn begin(&mut self, dictionary: &Dictionary, params: &Params, noise: f64) {
        self.clear();
        self.noise = noise;
        let m = dictionary.patterns();
        self.rule = params.rule;
        self.samples = params.samples;
        self.moment_columns = MOMENT + if params.rule == Rule::Adaptive { m } else { 0 };
        let (gradient, moment) = ((m, dictionary.features()), (m * self.moment_columns, 1));
        if (self.gradient.size(), self.moment.size()) != (gradient, moment) {
            // The system zeroes this memory when it is first touched, if ever.
            self.gradient = ExactSums::new(gradient.0, gradient.1);
            self.moment = ExactSums::new(moment.0, moment.1);
        }
        self.tallies = vec![Tally::default(); m];
        self.fibers_used = 0;
        self.residual = ExactSums::new(1, 1);
        self.freedom = 0;
    }

    /// Sets the large sums to zero. Only patterns that some fiber showed have anything in them.
    fn clear(&mut self) {
        for i in (0..self.tallies.len()).filter(|&i| self.tallies[i].fibers > 0) {
            self.gradient.clear(i);
            let columns = i * self.moment_columns..(i + 1) * self.moment_columns;
            columns.for_each(|column| self.moment.clear(column));
        }
    }

    /// Adds the fibers of a wave. `unexplained[q]` says whether the q-th fiber of the wave is left out because the
    /// dictionary does not explain it; without it, no fiber is left out for that reason.
    pub(crate) fn add(&mut self, wave: &Wave<'_>, unexplained: Option<&[bool]>, weights: &mut PassWeights) {
        let n = wave.tensor.shape().features;
        let mut codes = Sparse::new(self.tallies.len());
        wave.blocks.iter().for_each(|block| codes.append(&block.update_codes));
        let fibers = self.weigh(wave, unexplained, weights);
        let adaptive = self.rule == Rule::Adaptive;
        let by_pattern = codes.transpose();
        let add = |(i, (mut gradient, mut moment, tally)): (usize, PatternSums<'_>)| {
            for &(fiber, x) in by_pattern.column(i) {
                let fiber = fiber as usize;
                let (weight, code) = (fibers.weights[fiber], codes.column(fiber));
                if weight == 0.0 {
                    continue;
                }
                let factor = if adaptive { weight * x } else { x.signum() };
                // No entry of r is longer than r, except for rounding.
                let bound = 2.0 * factor.abs() * fibers.residual_norms[fiber];
                gradient.column(0).add_scaled(factor, &wave.residuals[fiber * n..][..n], bound);
                tally.fibers += 1;
                tally.mixed += usize::from(code.len() > 1);
                if !adaptive {
                    moment.column(MAGNITUDE).add(factor * x);
                    continue;
                }
                if code.len() > 1 {
                    moment.column(SHARED).add(factor * x * (code.len() - 1) as f64);
                }
                for &(l, x) in code.iter().take_while(|entry| entry.0 as usize <= i) {
                    moment.column(MOMENT + l as usize).add(factor * x);
                }
            }
        };
        let columns = self.gradient.groups(1).zip(self.moment.groups(self.moment_columns));
        let sums =
            columns.zip(&mut self.tallies).map(|((gradient, moment), tally)| (gradient, moment, tally));
        if n * codes.nnz() < SMALL_SUM {
            sums.enumerate().for_each(add);
        } else {
            sums.collect::<Vec<_>>().into_par_iter().enumerate().with_min_len(8).for_each(add);
        }
    }

    /// Computes the weight of every fiber of a wave, and adds up the counts and residuals that need no code.
    fn weigh(
        &mut self,
        wave: &Wave<'_>,
        unexplained: Option<&[bool]>,
        weights: &mut PassWeights,
    ) -> WeightedFibers {
        let n = wave.tensor.shape().features;
        let mut weighted = WeightedFibers::default();
        let mut residuals = Vec::new();
        for block in wave.blocks {
            let codes = block.fibers.iter().zip(block.update_codes.columns());
            let energies = block.energies.iter().zip(&block.update_residual_energies);
            for ((&fiber, code), (&energy, &residual)) in codes.zip(energies) {
                let at = weighted.weights.len();
                let place = wave.tensor.places()[fiber];
                let used = energy > 0.0 && (self.samples == Samples::All || place.row == place.col);
                self.fibers_used += usize::from(used);
                // Any n patterns fit a fiber of n features, so a fiber with n codes or more is not learned from.
                let left_out = unexplained.is_some_and(|unexplained| unexplained[at]);
                let learned_from = used && !left_out && !code.is_empty() && code.len() < n;
                weighted.weights.push(match self.rule {
                    _ if !learned_from => 0.0,
                    Rule::Paper { .. } => 1.0,
                    Rule::Adaptive => {
                        let residual = residual.max(self.noise.powi(2));
                        weights.keep(wave.offset + fiber, inverse_variance(n, code.len(), energy, residual))
                    }
                });
                // The square of a tiny residual is zero although the residual is not.
                let largest = || wave.residuals[at * n..][..n].iter().fold(0.0, |a: f64, r| a.max(r.abs()));
                weighted.residual_norms.push(if residual > 1e-280 { residual.sqrt() } else { largest() });
                if self.rule == Rule::Adaptive && learned_from {
                    residuals.push(weighted.weights[at] * residual);
                    self.freedom += n - code.len();
                }
            }
        }
        self.residual.column(0).add_all(&residuals);
        weighted
    }

    /// Adds up the sums and counts of all ranks, in these sums and in `encoded`; see [`sum_over_ranks`] for `alarm`.
    pub(crate) fn sum_over_ranks(&mut self, team: &dyn Team, encoded: &mut Encoded, alarm: i8) -> i8 {
        if team.size() == 1 {
            return alarm;
        }
        let (energy, counts) = encoded.sums();
        let tallies = self.tallies.iter_mut().flat_map(|tally| [&mut tally.fibers, &mut tally.mixed]);
        let own = [&mut self.fibers_used, &mut self.freedom];
        let mut counts: Vec<&mut usize> = counts.into_iter().chain(own).chain(tallies).collect();
        let mut numbers: Vec<i64> = counts.iter().map(|count| **count as i64).collect();
        // E is symmetric: only its lower half is sent.
        let (m, width) = (self.gradient.size().0, self.moment_columns);
        let lower = (0..m).flat_map(|i| i * width..i * width + width.min(MOMENT + i + 1)).collect();
        let mut sums: [SummedColumns<'_>; 4] = [
            (&mut self.gradient, (0..m).collect()),
            (&mut self.moment, lower),
            (&mut self.residual, vec![0]),
            (energy, vec![0, 1]),
        ];
        let alarm = sum_over_ranks(team, &mut sums, &mut numbers, alarm);
        counts.iter_mut().zip(numbers).for_each(|(count, number)| **count = number as usize);
        alarm
    }

    /// Number of fibers that show each pattern.
    pub(crate) fn activity(&self) -> Vec<usize> {
        self.tallies.iter().map(|tally| tally.fibers).collect()
    }

    /// Number of fibers that show a pattern.
    pub(crate) fn fibers_of(&self, pattern: usize) -> usize {
        self.tallies[pattern].fibers
    }

    /// The patterns that some fiber shows, by increasing number.
    pub(crate) fn shown(&self) -> Vec<usize> {
        (0..self.tallies.len()).filter(|&i| self.tallies[i].fibers > 0).collect()
    }

    /// Returns a rough guess of where the dictionary goes: every pattern moves alone, by G_i over the sum of its
    /// squared codes (adaptive) or of their magnitudes (paper).
    pub(crate) fn guide(&self, dictionary: &Dictionary) -> Option<Dictionary> {
        let shown = self.shown();
        let mut changes = self.gradient_of(&shown);
        for (change, &i) in changes.chunks_exact_mut(dictionary.features()).zip(&shown) {
            let at = if self.rule == Rule::Adaptive { MOMENT + i } else { MAGNITUDE };
            let own = self.moment.get(i * self.moment_columns + at, 0);
            change.iter_mut().for_each(|g| *g /= own);
        }
        let mut guide = dictionary.clone();
        guide.replace(&Moved::new(dictionary, shown, changes).ok()?);
        Some(guide)
    }

    /// The columns of G that belong to some patterns.
    pub(crate) fn gradient_of(&self, patterns: &[usize]) -> Vec<f64> {
        let n = self.gradient.size().1;
        let mut columns = vec![0.0; n * patterns.len()];
        patterns.iter().zip(columns.chunks_exact_mut(n)).for_each(|(&i, sums)| self.gradient.read(i, sums));
        columns
    }

    /// Sum of w_f |r_f|^2.
    pub(crate) fn residual(&self) -> f64 {
        self.residual.get(0, 0)
    }

    /// Sum of w_f x_if^2 (s_f - 1): the weight of pattern i in fibers that show other patterns too.
    pub(crate) fn shared_moment(&self, pattern: usize) -> f64 {
        self.moment.get(pattern * self.moment_columns + SHARED, 0)
    }

    /// E, the weighted second moment of the codes.
    pub(crate) fn second_moment(&self) -> SecondMoment {
        let mixed: Vec<bool> = self.tallies.iter().map(|tally| tally.mixed > 0).collect();
        SecondMoment::new(&mixed, |i, l| {
            self.moment.get(i.max(l) * self.moment_columns + MOMENT + i.min(l), 0)
        })
    }
}

/// Weights of the fibers of a wave, and bounds on their residuals.
#[derive(Default)]
struct WeightedFibers {
    /// w_f, or 0 for a fiber that is not learned from.
    weights: Vec<f64>,
    /// A bound on the entries of r_f: |r_f|, or the largest entry where |r_f|^2 underflows.
    residual_norms: Vec<f64>,
}

/// w_f, the inverse of the residual variance of a fiber of energy |y|^2 with s codes and the residual |r|^2.
///
/// A residual has n - s degrees of freedom, which are many, so that each fiber shows its own noise. An outlier or a
/// wrong code gets almost no weight. Residuals below 1e-12 of the fiber are rounding.
fn inverse_variance(n: usize, s: usize, energy: f64, residual: f64) -> f64 {
    (n - s) as f64 / residual.max(1e-24 * energy)
}
