//! The recovery experiment: learn from synthetic tensors and measure the errors against the truth.
//!
//! Symbols: A*, X*(t), B*(t) and C*(t) are drawn by `synthetic.rs`; A(t), X(t), B(t) and C(t) are what the learner
//! finds.
//!
//! The paper claims that A(t) converges to A*, and that the codes have the right signs and supports on the way. Each
//! [`Recovery::advance`] draws tensor t, learns from it, and measures A(t) and X(t). [`Recovery::outcome`] measures all
//! factors of the latest tensor with the latest dictionary.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::data::dictionary::Dictionary;
use crate::discover::params::DiscoverParams;
use crate::error::Error;
use crate::evaluate::metrics::{Matching, Oracle};
use crate::evaluate::synthetic::{Planted, PlantedTensor};
use crate::learner::{Learner, Step};
use crate::parallel::team::Team;
use crate::params::Params;
use crate::stop::Stop;

/// Largest distance of a found pattern from its true pattern.
const MAX_DISTANCE: f64 = 0.5;

/// A stream of synthetic tensors and the learner that learns from them.
#[derive(Debug, Clone)]
pub struct Recovery {
    planted: Planted,
    learner: Learner,
    matching: Matching,
    /// The reference for noisy tensors. `None` if there is no noise.
    oracle: Option<Oracle>,
    /// The latest tensor.
    last: Option<PlantedTensor>,
    /// Number of fibers so far that contain each true pattern.
    shown: Vec<usize>,
    /// The first step by which every true pattern was in a fiber.
    coverage_step: Option<u64>,
    /// Number of fibers so far.
    fibers: usize,
    /// Number of non-zero codes so far.
    codes: usize,
    /// Time in [`Learner::learn`].
    learn_time: Duration,
}

/// The result of one step.
#[derive(Debug, Clone)]
pub struct Progress {
    /// The learner's report on the step.
    pub step: Step,
    /// Relative error of the dictionary after the step.
    pub error_a: f64,
    /// Relative error of the codes, which are computed with the dictionary before the step.
    pub error_x: f64,
    /// Whether the codes, computed with the dictionary before the step, have the true signs and support.
    pub support: bool,
    /// Numbers of true, found and spurious patterns after the step.
    pub pattern_counts: PatternCounts,
}

/// Numbers of true, found and spurious patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatternCounts {
    /// True patterns in at least two fibers so far. A pattern in one fiber only cannot be distinguished from noise.
    pub seen: usize,
    /// True patterns with a found pattern at a distance of at most 0.5.
    pub found: usize,
    /// All other patterns of the dictionary: sums of true patterns, duplicates, or noise.
    pub spurious: usize,
}

impl PatternCounts {
    /// Counts the patterns. `shown[i]` is the number of fibers that contain true pattern i.
    ///
    /// # Errors
    /// [`Error::Features`] if the dictionaries have different numbers of features.
    pub fn new(found: &Dictionary, truth: &Dictionary, shown: &[usize]) -> Result<PatternCounts, Error> {
        Ok(PatternCounts::matched(&Matching::new(found, truth)?, found, truth, shown))
    }

    fn matched(
        matching: &Matching,
        found: &Dictionary,
        truth: &Dictionary,
        shown: &[usize],
    ) -> PatternCounts {
        let is_near = |distance: &&f64| **distance <= MAX_DISTANCE;
        let near = matching.distances(found, truth).iter().filter(is_near).count();
        let seen = shown.iter().filter(|count| **count >= 2).count();
        PatternCounts { seen, found: near, spurious: found.patterns() - near }
    }
}

/// The state of a recovery: errors of the latest dictionary, and of the latest tensor factorized with it.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Number of tensors learned from.
    pub steps: u64,
    /// Relative error of the dictionary.
    pub error_a: f64,
    /// Relative error of the codes of the latest tensor.
    pub error_x: f64,
    /// Whether the codes of the latest tensor have the true signs and support.
    pub support: bool,
    /// Relative error of the row factor of the latest tensor, up to scale.
    pub error_b: f64,
    /// Relative error of the col factor of the latest tensor, up to scale.
    pub error_c: f64,
    /// Whether the supports of the row factor and of the col factor of the latest tensor are right.
    pub supports_b_c: (bool, bool),
    /// The error of the dictionary that the learner expects, in the units of `error_a`. None if a pattern has no error
    /// bar ([`Learner::errors`]), or if there are fewer patterns than true ones.
    pub expected_error_a: Option<f64>,
    /// Share of the fibers of the latest tensor whose codes are certain ([`Learner::certain_codes`]). None if the
    /// learner cannot tell.
    pub certain_codes: Option<f64>,
    /// The first step by which every true pattern was in a fiber.
    pub coverage_step: Option<u64>,
    /// Mean number of patterns in a fiber, over all tensors.
    pub mean_code_size: f64,
    /// Numbers of true, found and spurious patterns.
    pub pattern_counts: PatternCounts,
    /// Relative error of the [`Oracle`] dictionary over the same tensors, if there is noise.
    pub oracle_error_a: Option<f64>,
    /// Time spent on learning. Drawing tensors and measuring errors do not count.
    pub learn_time: Duration,
}

impl Recovery {
    /// A recovery that starts from a dictionary whose every column is at `start_distance` from the true column.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the distance or a parameter is outside its range.
    pub fn new(planted: Planted, start_distance: f64, params: Params) -> Result<Recovery, Error> {
        let learner = Learner::new(planted.start(start_distance)?, params)?;
        Recovery::with_learner(planted, learner)
    }

    /// A recovery that starts without a dictionary.
    ///
    /// # Errors
    /// [`Error::Parameter`] if a parameter is outside its range.
    pub fn from_nothing(planted: Planted, params: Params) -> Result<Recovery, Error> {
        let learner = Learner::from_nothing(planted.plan().features, params, DiscoverParams::default())?;
        Recovery::with_learner(planted, learner)
    }

    fn with_learner(planted: Planted, learner: Learner) -> Result<Recovery, Error> {
        let truth = planted.true_dictionary();
        let (n, m) = (truth.features(), truth.patterns());
        Ok(Recovery {
            oracle: (planted.plan().noise > 0.0).then(|| Oracle::new(n, m)),
            matching: Matching::new(learner.dictionary(), truth)?,
            learner,
            planted,
            last: None,
            shown: vec![0; m],
            coverage_step: None,
            fibers: 0,
            codes: 0,
            learn_time: Duration::ZERO,
        })
    }

    /// Joins a team: this rank draws and learns its share of every tensor. All reports describe the whole tensors. See
    /// [`Learner::join`].
    pub fn join(&mut self, team: Arc<dyn Team>) {
        self.learner.join(team);
    }

    /// Sets the flag that ends learning early. See [`Learner::set_stop`].
    pub fn set_stop(&mut self, stop: Stop) {
        self.learner.set_stop(stop);
    }

    /// The stream of synthetic tensors.
    pub fn planted(&self) -> &Planted {
        &self.planted
    }

    /// The learner.
    pub fn learner(&self) -> &Learner {
        &self.learner
    }

    /// Draws the next tensor, learns from it, and measures the errors.
    ///
    /// # Errors
    /// If learning fails. The learner is unchanged then, and the next call draws the tensor again.
    pub fn advance(&mut self) -> Result<Progress, Error> {
        let t = self.learner.steps() + 1;
        let team = Arc::clone(self.learner.team());
        let planted_tensor = match self.last.take() {
            Some(old) => self.planted.rank_tensor_reusing(&*team, t, old),
            None => self.planted.rank_tensor(&*team, t),
        };
        let begun = Instant::now();
        let learned = self.learner.learn(&planted_tensor.tensor);
        self.learn_time += begun.elapsed();
        let step = match learned {
            Ok(step) => step,
            Err(error) => {
                self.last = Some(planted_tensor);
                return Err(error);
            }
        };
        self.count(&*team, &planted_tensor, &step);
        self.update_matching(&step)?;
        let (found, truth) = (self.learner.dictionary(), self.planted.true_dictionary());
        let (error_x, support) = self.matching.errors_x(&*team, &step.codes, &planted_tensor.true_codes);
        let progress = Progress {
            error_a: self.matching.error_a(found, truth),
            error_x,
            support,
            pattern_counts: self.pattern_counts(&self.matching),
            step,
        };
        self.last = Some(planted_tensor);
        Ok(progress)
    }

    /// Adds a step to the counts over all ranks, and to the oracle.
    fn count(&mut self, team: &dyn Team, planted_tensor: &PlantedTensor, step: &Step) {
        let m = self.shown.len();
        // Fibers with each true pattern, then the number of codes.
        let mut counts = vec![0; m + 1];
        let true_codes = &planted_tensor.true_codes;
        true_codes.matrix().columns().flatten().for_each(|&(i, _)| counts[i as usize] += 1);
        counts[m] = step.codes.matrix().nnz() as i64;
        team.sum(&mut counts);
        self.shown.iter_mut().zip(&counts).for_each(|(shown, count)| *shown += *count as usize);
        if self.coverage_step.is_none() && !self.shown.contains(&0) {
            self.coverage_step = Some(self.learner.steps());
        }
        self.fibers += step.fibers;
        self.codes += counts[m] as usize;
        if let Some(oracle) = &mut self.oracle {
            oracle.add(&planted_tensor.tensor, true_codes);
        }
    }

    /// Matches the patterns again if the matching may have changed: at the first step, if patterns were found or
    /// lost, or if a pattern is far from its true pattern.
    fn update_matching(&mut self, step: &Step) -> Result<(), Error> {
        let (found, truth) = (self.learner.dictionary(), self.planted.true_dictionary());
        let renumbered = step.found > 0 || !step.lost.is_empty() || self.learner.steps() == 1;
        if renumbered || self.matching.distances(found, truth).iter().any(|d| *d > MAX_DISTANCE) {
            self.matching = Matching::new(found, truth)?;
        }
        Ok(())
    }

    fn pattern_counts(&self, matching: &Matching) -> PatternCounts {
        PatternCounts::matched(
            matching,
            self.learner.dictionary(),
            self.planted.true_dictionary(),
            &self.shown,
        )
    }

    /// The root of the mean squared expected error of all patterns.
    fn expected_error_a(&self) -> Option<f64> {
        let errors: Vec<f64> = self.learner.errors().into_iter().collect::<Option<_>>()?;
        let mean = errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64;
        (errors.len() >= self.planted.true_dictionary().patterns()).then_some(mean.sqrt())
    }

    /// Measures the errors of the latest dictionary and of the latest tensor, after matching the patterns again.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the learner is stopped.
    pub fn outcome(&self) -> Result<Outcome, Error> {
        let (dictionary, team) = (self.learner.dictionary(), &**self.learner.team());
        let truth = self.planted.true_dictionary();
        let matching = Matching::new(dictionary, truth)?;
        let mut outcome = Outcome {
            steps: self.learner.steps(),
            error_a: matching.error_a(dictionary, truth),
            error_x: 0.0,
            support: true,
            error_b: 0.0,
            error_c: 0.0,
            supports_b_c: (true, true),
            expected_error_a: self.expected_error_a(),
            certain_codes: None,
            coverage_step: self.coverage_step,
            mean_code_size: self.codes as f64 / self.fibers.max(1) as f64,
            pattern_counts: self.pattern_counts(&matching),
            oracle_error_a: None,
            learn_time: self.learn_time,
        };
        if let Some(last) = &self.last {
            let codes = self.learner.encode(&last.tensor)?;
            (outcome.error_x, outcome.support) = matching.errors_x(team, &codes, &last.true_codes);
            let factors = codes.untangle_blocks(team, 1).remove(0);
            (outcome.error_b, outcome.error_c) =
                matching.error_b_c(&factors, &last.true_rows, &last.true_cols);
            outcome.supports_b_c = matching.same_supports_b_c(&factors, &last.true_rows, &last.true_cols);
            outcome.certain_codes = self.learner.certain_codes(&last.tensor, &codes)?.map(|certain| {
                let mut counts = [certain.iter().filter(|it| **it).count() as i64, certain.len() as i64];
                team.sum(&mut counts);
                counts[0] as f64 / counts[1].max(1) as f64
            });
        }
        if let Some(oracle) = self.oracle.as_ref().and_then(|oracle| oracle.dictionary_of(team)) {
            outcome.oracle_error_a = Some(Matching::new(&oracle, truth)?.error_a(&oracle, truth));
        }
        Ok(outcome)
    }
}
