//! The recovery claim as an experiment: learn from a planted stream and measure, after every
//! tensor, how near the result is to what was planted.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::learner::{Learner, Step};
use crate::metrics::{Matching, Oracle};
use crate::params::Params;
use crate::synthetic::{Planted, PlantedTensor};

/// A planted stream and the learner it feeds.
#[derive(Debug, Clone)]
pub struct Recovery {
    planted: Planted,
    learner: Learner,
    matching: Matching,
    oracle: Option<Oracle>,
    last: Option<PlantedTensor>,
    unseen: Vec<bool>,
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
    /// With noise: the error of least squares with the true codes over the same tensors.
    pub oracle_error_a: Option<f64>,
    /// Time spent learning, without making tensors and measuring errors.
    pub learn_time: Duration,
}

impl Recovery {
    /// Starts at A(0), every column at this distance from the true one.
    pub fn new(planted: Planted, start_distance: f64, params: Params) -> Result<Recovery, Error> {
        let start = planted.start(start_distance)?;
        let (n, m) = (start.features(), start.patterns());
        let matching = Matching::new(&start, planted.true_dictionary())?;
        Ok(Recovery {
            oracle: (planted.plan().noise > 0.0).then(|| Oracle::new(n, m)),
            learner: Learner::new(start, params)?,
            planted,
            matching,
            last: None,
            unseen: vec![true; m],
            coverage_step: None,
            fibers: 0,
            codes: 0,
            learn_time: Duration::ZERO,
        })
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
        let made = match self.last.take() {
            Some(old) => self.planted.tensor_in_place_of(t, old),
            None => self.planted.tensor(t),
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
        truth.matrix().columns().flatten().for_each(|&(i, _)| self.unseen[i as usize] = false);
        if self.coverage_step.is_none() && !self.unseen.contains(&true) {
            self.coverage_step = Some(t);
        }
        self.fibers += step.fibers;
        self.codes += step.codes.matrix().nnz();
        if let Some(oracle) = &mut self.oracle {
            oracle.add(&made.tensor, truth);
        }
        // Patterns that are near keep their names; only where one is not can the matching change.
        let (found, planted) = (self.learner.dictionary(), self.planted.true_dictionary());
        if self.matching.distances(found, planted).iter().any(|distance| *distance > 0.5) {
            self.matching = Matching::new(found, planted)?;
        }
        let progress = Progress {
            error_a: self.matching.error_a(found, planted),
            error_x: self.matching.error_x(&step.codes, truth),
            support: self.matching.same_support(&step.codes, truth),
            step,
        };
        self.last = Some(made);
        Ok(progress)
    }

    /// Where the recovery stands, patterns matched anew.
    pub fn outcome(&self) -> Result<Outcome, Error> {
        let dictionary = self.learner.dictionary();
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
            oracle_error_a: None,
            learn_time: self.learn_time,
        };
        if let Some(last) = &self.last {
            let codes = self.learner.encode(&last.tensor)?;
            outcome.error_x = matching.error_x(&codes, &last.true_codes);
            outcome.support = matching.same_support(&codes, &last.true_codes);
            (outcome.error_b, outcome.error_c) =
                matching.error_b_c(&codes.untangle(), &last.true_rows, &last.true_cols);
        }
        if let Some(oracle) = self.oracle.as_ref().and_then(Oracle::dictionary) {
            outcome.oracle_error_a = Some(Matching::new(&oracle, truth)?.error_a(&oracle, truth));
        }
        Ok(outcome)
    }
}
