//! The recovery claim as an experiment: learn from a planted stream and measure, after every
//! tensor, how near the result is to what was planted.

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

/// A pattern farther than this from the true one does not stand for it.
const FAR: f64 = 0.5;

/// A planted stream and the learner it feeds.
#[derive(Debug, Clone)]
pub struct Recovery {
    planted: Planted,
    learner: Learner,
    matching: Matching,
    oracle: Option<Oracle>,
    last: Option<PlantedTensor>,
    /// Fibers that have shown each true pattern so far.
    shown: Vec<usize>,
    coverage_step: Option<u64>,
    fibers: usize,
    codes: usize,
    learn_time: Duration,
}

/// One tensor later.
#[derive(Debug, Clone)]
pub struct Progress {
    /// What the learner says.
    pub step: Step,
    /// Relative error of the dictionary after the step.
    pub error_a: f64,
    /// Relative error of the codes that the step was made with.
    pub error_x: f64,
    /// Whether those codes have the true signs and support.
    pub support: bool,
    /// Patterns found and to be found after the step.
    pub census: Census,
}

/// Which patterns there are, and which were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Census {
    /// True patterns that two fibers or more have shown so far: one alone can be told from no noise.
    pub seen: usize,
    /// True patterns that a found one is nearer to than 0.5.
    pub found: usize,
    /// All other patterns of the dictionary: sums of several, twins, or nothing.
    pub spurious: usize,
}

impl Census {
    /// Counts them. `shown` says how many fibers have shown each true pattern.
    pub fn new(found: &Dictionary, truth: &Dictionary, shown: &[usize]) -> Result<Census, Error> {
        Ok(Census::of(&Matching::new(found, truth)?, found, truth, shown))
    }

    fn of(matching: &Matching, found: &Dictionary, truth: &Dictionary, shown: &[usize]) -> Census {
        let near = |distance: &&f64| **distance <= FAR;
        let near = matching.distances(found, truth).iter().filter(near).count();
        let seen = shown.iter().filter(|count| **count >= 2).count();
        Census { seen, found: near, spurious: found.patterns() - near }
    }
}

/// The state of the recovery: the last tensor, factorized with the dictionary as it is now.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Tensors learned from.
    pub steps: u64,
    /// Relative error of the dictionary.
    pub error_a: f64,
    /// Relative error of the codes of the last tensor.
    pub error_x: f64,
    /// Whether they have the true signs and support.
    pub support: bool,
    /// Relative error of the row factor of the last tensor, up to scale.
    pub error_b: f64,
    /// Relative error of the col factor of the last tensor, up to scale.
    pub error_c: f64,
    /// The first step by which every pattern had appeared in some fiber.
    pub coverage_step: Option<u64>,
    /// Mean number of patterns in a fiber, over all tensors.
    pub mean_code_size: f64,
    /// Which patterns there are, and which were found.
    pub census: Census,
    /// With noise: the error of least squares with the true codes over the same tensors.
    pub oracle_error_a: Option<f64>,
    /// Time spent learning, without making tensors and measuring errors.
    pub learn_time: Duration,
}

impl Recovery {
    /// Starts at A(0), every column at this distance from the true one.
    pub fn new(planted: Planted, start_distance: f64, params: Params) -> Result<Recovery, Error> {
        let learner = Learner::new(planted.start(start_distance)?, params)?;
        Recovery::with(planted, learner)
    }

    /// Starts from nothing.
    pub fn from_nothing(planted: Planted, params: Params) -> Result<Recovery, Error> {
        let learner = Learner::from_nothing(planted.plan().features, params, DiscoverParams::default())?;
        Recovery::with(planted, learner)
    }

    fn with(planted: Planted, learner: Learner) -> Result<Recovery, Error> {
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

    /// Makes and learns its share of every tensor as a rank of a team; see [`Learner::join`]. What it tells is of the whole.
    pub fn join(&mut self, team: Arc<dyn Team>) {
        self.learner.join(team);
    }

    /// Lets `stop` end what it does.
    pub fn set_stop(&mut self, stop: Stop) {
        self.learner.set_stop(stop);
    }

    /// What was planted.
    pub fn planted(&self) -> &Planted {
        &self.planted
    }

    /// The learner.
    pub fn learner(&self) -> &Learner {
        &self.learner
    }

    /// Makes the next tensor and learns from it.
    pub fn advance(&mut self) -> Result<Progress, Error> {
        let t = self.learner.steps() + 1;
        let team = Arc::clone(self.learner.team());
        let made = match self.last.take() {
            Some(old) => self.planted.share_in_place_of(&*team, t, old),
            None => self.planted.share(&*team, t),
        };
        let begun = Instant::now();
        let learned = self.learner.learn(&made.tensor);
        self.learn_time += begun.elapsed();
        let step = match learned {
            Ok(step) => step,
            Err(error) => {
                self.last = Some(made);
                return Err(error);
            }
        };

        let truth = &made.true_codes;
        let mut counts = vec![0; self.shown.len() + 1];
        truth.matrix().columns().flatten().for_each(|&(i, _)| counts[i as usize] += 1);
        counts[self.shown.len()] = step.codes.matrix().nnz() as i64;
        team.sum(&mut counts);
        self.shown.iter_mut().zip(&counts).for_each(|(shown, count)| *shown += *count as usize);
        if self.coverage_step.is_none() && !self.shown.contains(&0) {
            self.coverage_step = Some(t);
        }
        self.fibers += step.fibers;
        self.codes += counts[self.shown.len()] as usize;
        if let Some(oracle) = &mut self.oracle {
            oracle.add(&made.tensor, truth);
        }
        // Patterns that are near keep their names; only where one is not can the matching change.
        let (found, planted) = (self.learner.dictionary(), self.planted.true_dictionary());
        let other_names = step.found > 0 || !step.lost.is_empty() || t == 1;
        if other_names || self.matching.distances(found, planted).iter().any(|d| *d > FAR) {
            self.matching = Matching::new(found, planted)?;
        }
        let (error_x, support) = self.matching.errors_x(&*team, &step.codes, truth);
        let progress = Progress {
            error_a: self.matching.error_a(found, planted),
            error_x,
            support,
            census: self.census(&self.matching),
            step,
        };
        self.last = Some(made);
        Ok(progress)
    }

    fn census(&self, matching: &Matching) -> Census {
        Census::of(matching, self.learner.dictionary(), self.planted.true_dictionary(), &self.shown)
    }

    /// Where the recovery stands, patterns matched anew.
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
            coverage_step: self.coverage_step,
            mean_code_size: self.codes as f64 / self.fibers.max(1) as f64,
            census: self.census(&matching),
            oracle_error_a: None,
            learn_time: self.learn_time,
        };
        if let Some(last) = &self.last {
            let codes = self.learner.encode(&last.tensor)?;
            (outcome.error_x, outcome.support) = matching.errors_x(team, &codes, &last.true_codes);
            let factors = codes.untangle_blocks(team, 1).remove(0);
            (outcome.error_b, outcome.error_c) =
                matching.error_b_c(&factors, &last.true_rows, &last.true_cols);
        }
        if let Some(oracle) = self.oracle.as_ref().and_then(|oracle| oracle.dictionary_of(team)) {
            outcome.oracle_error_a = Some(Matching::new(&oracle, truth)?.error_a(&oracle, truth));
        }
        Ok(outcome)
    }
}
