//! Stage III for counts: online expectation-maximization.
//!
//! ```text
//! S_fi += sum_q A_fi x_iq y_fq / l_fq    the events of feature f that pattern i has, over the fibers q of a tensor: the
//!                                        mean over the supports of a fiber, by their probability
//! A_fi  = S_fi + mean_f, columns scaled to sum 1
//! ```
//!
//! S is a plain sum over the fibers of all tensors. It has no step size, and nothing is forgotten unless `forgetting` says
//! so: a pattern that is seen rarely moves little, and a pattern that is not seen stays. The mean of all fibers has the
//! weight of one event in each pattern, so that no share is zero.
//!
//! The sums of one tensor are integer multiples of 2^-24 events. Integers add up in any order, so that threads, parts and
//! ranks make no difference.

use rayon::prelude::*;

use crate::data::dictionary::Dictionary;
use crate::encode::counts::{CountCoder, LEAST, ProbableCode, log_likelihood};
use crate::parallel::exact_sum::{ExactSums, sum_over_ranks};
use crate::parallel::team::Team;
use crate::shape::Place;

/// The unit of sums over the fibers of one tensor, in events.
const UNIT: f64 = 1.0 / (1u64 << 24) as f64;

/// The largest number of events of a tensor, so that sums do not overflow.
pub(crate) const MOST_EVENTS: f64 = (1u64 << 38) as f64;

/// The unit of sums of strengths. The strengths of [`MOST_EVENTS`] events do not overflow.
const STRENGTH_UNIT: f64 = 1.0 / 32.0;

/// Columns of [`EventSums::scores`]: sum y ln y, sum N ln N, sum y ln l over cells and fibers.
const CELLS: usize = 0;
const FIBERS: usize = 1;
const EXPECTED: usize = 2;

/// The statistics of all tensors so far.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Statistics {
    /// S (n x m), column by column.
    pub(crate) patterns: Vec<f64>,
    /// The number of events of each feature.
    pub(crate) features: Vec<f64>,
}

impl Statistics {
    /// Statistics without events.
    pub(crate) fn new(features: usize) -> Statistics {
        Statistics { patterns: Vec::new(), features: vec![0.0; features] }
    }

    /// Whether all parts fit together. Statistics from a file may fail this.
    pub(crate) fn is_sound(&self, features: usize, patterns: usize) -> bool {
        let valid = |values: &[f64]| values.iter().all(|value| value.is_finite() && *value >= 0.0);
        self.features.len() == features
            && self.patterns.len() == features * patterns
            && valid(&self.features)
            && valid(&self.patterns)
    }

    /// The share of each feature in all events. No share is zero.
    pub(crate) fn mean(&self) -> Vec<f64> {
        let (n, total) = (self.features.len() as f64, self.features.iter().sum::<f64>());
        self.features.iter().map(|events| (events + 0.5 / n) / (total + 0.5)).collect()
    }

    /// The share of each pattern in all events.
    pub(crate) fn shares(&self) -> Vec<f64> {
        let n = self.features.len();
        let events: Vec<f64> =
            self.patterns.chunks_exact(n).map(|column| column.iter().sum::<f64>() + 1.0).collect();
        let total: f64 = events.iter().sum();
        events.iter().map(|events| events / total).collect()
    }

    /// The patterns: A_fi = S_fi + mean_f, columns scaled to sum 1.
    pub(crate) fn dictionary(&self) -> Dictionary {
        let mean = self.mean();
        let mut columns = self.patterns.clone();
        for column in columns.chunks_exact_mut(mean.len()) {
            column.iter_mut().zip(&mean).for_each(|(a, mean)| *a += mean);
        }
        Dictionary::with_unit_sums(self.features.len(), columns)
    }

    /// Gives the events of a pattern other shares of features, which sum up to 1.
    pub(crate) fn set_pattern(&mut self, pattern: usize, shares: &[f64]) {
        let own = &mut self.patterns[pattern * shares.len()..][..shares.len()];
        let events: f64 = own.iter().sum();
        own.iter_mut().zip(shares).for_each(|(own, share)| *own = events * share);
    }

    /// Adds the sums of a tensor, after a share of the past was forgotten (counts:update).
    pub(crate) fn add(&self, sums: &EventSums, forgetting: f64) -> Statistics {
        let add = |past: &[f64], sum: &dyn Fn(usize) -> i64| -> Vec<f64> {
            let new = |(at, past): (usize, &f64)| past * (1.0 - forgetting) + sum(at) as f64 * UNIT;
            past.iter().enumerate().map(new).collect()
        };
        let (n, m) = (self.features.len(), sums.patterns);
        Statistics {
            patterns: add(&self.patterns, &|at| sums.events[at % n * m + at / n]),
            features: add(&self.features, &|feature| sums.features[feature]),
        }
    }
}

/// Sums over the fibers of one tensor.
pub(crate) struct EventSums {
    patterns: usize,
    /// For each feature and pattern, the events that the pattern has, in units. By features.
    events: Vec<i64>,
    /// The events of each feature, in units.
    features: Vec<i64>,
    /// For each pattern, the number of fibers whose code has it.
    activity: Vec<i64>,
    /// For each pattern, its strength, in units.
    strengths: Vec<i64>,
    /// Number of fibers, and number of entries of their codes.
    sizes: [i64; 2],
    /// Parts of the deviance.
    scores: ExactSums,
}

/// One fiber of counts, and its codes.
pub(crate) struct CodedFiber<'a> {
    /// The events of the fiber, by features.
    pub(crate) fiber: &'a [(u32, f64)],
    /// The codes on the supports that may explain it, the most probable one first. Empty without patterns.
    pub(crate) codes: Vec<ProbableCode>,
    /// The weight of the fiber: less than 1 for outliers.
    weight: f64,
}

impl<'a> CodedFiber<'a> {
    /// Codes the fiber at a place.
    pub(crate) fn new(coder: &CountCoder, place: Place, fiber: &'a [(u32, f64)]) -> CodedFiber<'a> {
        CodedFiber { fiber, codes: coder.codes(place, fiber), weight: coder.weight(fiber) }
    }

    /// The code of the fiber: the one on the most probable support.
    pub(crate) fn code(&self) -> &[(u32, f64)] {
        self.codes.first().map_or(&[], |probable| &probable.code)
    }

    /// The mean of the codes over all supports, for this many patterns.
    pub(crate) fn mean_code(&self, patterns: usize) -> Vec<f64> {
        let mut mean = vec![0.0; patterns];
        for ProbableCode { probability, code } in &self.codes {
            code.iter().for_each(|&(i, x)| mean[i as usize] += probability * x);
        }
        mean
    }
}

impl EventSums {
    /// Empty sums.
    pub(crate) fn new(features: usize, patterns: usize) -> EventSums {
        EventSums {
            patterns,
            events: vec![0; features * patterns],
            features: vec![0; features],
            activity: vec![0; patterns],
            strengths: vec![0; patterns],
            sizes: [0; 2],
            scores: ExactSums::new(3, 1),
        }
    }

    /// Adds coded fibers.
    pub(crate) fn add(&mut self, coder: &CountCoder, fibers: &[CodedFiber<'_>]) {
        let (n, m) = (self.features.len(), self.patterns);
        let empty = || (vec![0i64; n * m], vec![0i64; n]);
        let add_fiber = |(mut events, mut features): (Vec<i64>, Vec<i64>), coded: &CodedFiber<'_>| {
            for &(feature, y) in coded.fiber {
                let row = coder.rows().row(feature as usize);
                let sums = &mut events[feature as usize * m..][..m];
                for ProbableCode { probability, code } in &coded.codes {
                    let expected: f64 = code.iter().map(|&(i, x)| row[i as usize] * x).sum();
                    let ratio = coded.weight * probability * y / expected.max(LEAST) / UNIT;
                    for &(i, x) in code {
                        sums[i as usize] += (ratio * row[i as usize] * x).round() as i64;
                    }
                }
                features[feature as usize] += (coded.weight * y / UNIT).round() as i64;
            }
            (events, features)
        };
        let merge = |mut a: (Vec<i64>, Vec<i64>), b: (Vec<i64>, Vec<i64>)| {
            a.0.iter_mut().zip(b.0).for_each(|(a, b)| *a += b);
            a.1.iter_mut().zip(b.1).for_each(|(a, b)| *a += b);
            a
        };
        let (events, features) =
            fibers.par_iter().with_min_len(256).fold(empty, add_fiber).reduce(empty, merge);
        self.events.iter_mut().zip(events).for_each(|(a, b)| *a += b);
        self.features.iter_mut().zip(features).for_each(|(a, b)| *a += b);
        let score = |coded: &CodedFiber<'_>| {
            let total: f64 = coded.fiber.iter().map(|entry| entry.1).sum();
            let cells = coded.fiber.iter().map(|(_, y)| y * y.ln()).sum::<f64>();
            let mut code = vec![0.0; coder.rows().stride()];
            coded.code().iter().for_each(|&(i, x)| code[i as usize] = x);
            [cells, total * total.ln(), log_likelihood(coder.rows(), coded.fiber, &code)]
        };
        let scores: Vec<[f64; 3]> = fibers.par_iter().with_min_len(256).map(score).collect();
        for column in [CELLS, FIBERS, EXPECTED] {
            let values: Vec<f64> = scores.iter().map(|score| score[column]).collect();
            self.scores.column(column).add_all(&values);
        }
        for coded in fibers {
            self.sizes[0] += 1;
            self.sizes[1] += coded.code().len() as i64;
            for &(i, x) in coded.code() {
                self.activity[i as usize] += 1;
                let x = coded.weight * x;
                self.strengths[i as usize] += (x * x.sqrt() / STRENGTH_UNIT).round() as i64;
            }
        }
    }

    /// Adds the sums of all ranks, and leaves the totals on every rank. Returns the largest `alarm` of all ranks; if it is
    /// not 0, nothing is added.
    pub(crate) fn sum_over_ranks(&mut self, team: &dyn Team, alarm: i8) -> i8 {
        let parts = [&self.events[..], &self.features, &self.activity, &self.strengths, &self.sizes];
        let mut counts = parts.concat();
        let scores = (&mut self.scores, vec![CELLS, FIBERS, EXPECTED]);
        let alarm = sum_over_ranks(team, &mut [scores], &mut counts, alarm);
        let mut counts = counts.into_iter();
        let parts = [
            &mut self.events[..],
            &mut self.features,
            &mut self.activity,
            &mut self.strengths,
            &mut self.sizes,
        ];
        for part in parts {
            part.iter_mut().zip(&mut counts).for_each(|(to, count)| *to = count);
        }
        alarm
    }

    /// Number of fibers.
    pub(crate) fn fibers(&self) -> usize {
        self.sizes[0] as usize
    }

    /// Mean number of patterns in a fiber.
    pub(crate) fn mean_code_size(&self) -> f64 {
        self.sizes[1] as f64 / self.sizes[0].max(1) as f64
    }

    /// For each pattern, the number of fibers whose code has it.
    pub(crate) fn activity(&self) -> Vec<usize> {
        self.activity.iter().map(|count| *count as usize).collect()
    }

    /// For each pattern, the sum of x^1.5 over its codes x. It is small for stray events, which are few and alone in their
    /// fibers.
    pub(crate) fn strengths(&self) -> Vec<f64> {
        self.strengths.iter().map(|strength| *strength as f64 * STRENGTH_UNIT).collect()
    }

    /// The root of the share of the deviance that the codes do not explain. The whole is the deviance of the fibers from
    /// the mean shares of all features. 0 if there are no events.
    pub(crate) fn fit(&self, mean: &[f64]) -> f64 {
        let score = |column: usize| self.scores.get(column, 0);
        let by_mean = |(events, share): (&i64, &f64)| *events as f64 * UNIT * share.ln();
        let mean: f64 = self.features.iter().zip(mean).map(by_mean).sum();
        let (own, whole) = (score(CELLS) - score(EXPECTED), score(CELLS) - score(FIBERS) - mean);
        if whole > 0.0 { (own.max(0.0) / whole).sqrt() } else { 0.0 }
    }
}
