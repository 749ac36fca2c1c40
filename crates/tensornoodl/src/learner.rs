//! Alg. 1 [alg:main_alg_tens]: the loop that takes one tensor after the other. Start reading here.

use std::time::{Duration, Instant};

use crate::codes::{Codes, Encoded, Roads, encode};
use crate::dense::dot;
use crate::dictionary::Dictionary;
use crate::error::Error;
use crate::params::{Params, Passes, Rule};
use crate::tensor::Tensor;
use crate::update::{Active, Adaptive, paper_step};

/// Most passes over one tensor with [`Passes::Auto`].
const MOST_PASSES: usize = 20;

/// Holds the dictionary and learns from one tensor at a time, for ever.
#[derive(Debug, Clone)]
pub struct Learner {
    dictionary: Dictionary,
    params: Params,
    adaptive: Adaptive,
    steps: u64,
}

/// What happened to one tensor.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Step {
    /// Number of this step, from 1.
    pub step: u64,
    /// Non-zero fibers of the tensor, p.
    pub fibers: usize,
    /// Fibers that stage III learned from.
    pub fibers_used: usize,
    /// Mean number of patterns in a fiber.
    pub mean_code_size: f64,
    /// |Y - A X|_F / |Y|_F, with A as it was when the fibers were coded.
    pub fit: f64,
    /// |A(t+1) - A(t)|_F / |A(t)|_F.
    pub change: f64,
    /// For every pattern, how many fibers showed it to stage III.
    pub activity: Vec<usize>,
    /// How the fibers were coded.
    pub roads: Roads,
    /// Passes made over the tensor.
    pub passes: usize,
    /// Time spent on stage I.
    pub encode_time: Duration,
    /// Time spent on stage III.
    pub update_time: Duration,
    /// The codes of the last pass; [`Codes::untangle`] makes row and col factors of them (stage II).
    pub codes: Codes,
}

impl Learner {
    /// A learner that starts from A(0).
    pub fn new(start: Dictionary, params: Params) -> Result<Learner, Error> {
        params.check()?;
        let adaptive = Adaptive::new(start.patterns());
        Ok(Learner { dictionary: start, params, adaptive, steps: 0 })
    }

    /// The dictionary as it is now.
    pub fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Tensors learned from so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Stage I alone: codes of a tensor under the present dictionary, which stays as it is.
    pub fn encode(&self, tensor: &Tensor<'_>) -> Result<Codes, Error> {
        self.check_features(tensor)?;
        Ok(Codes::new(encode(&self.dictionary, tensor, &self.params).codes, tensor))
    }

    /// One step of Alg. 1: codes the tensor (I) and moves the dictionary (III). The factors (II)
    /// do not feed the update and are made on demand: `step.codes.untangle()`.
    pub fn learn(&mut self, tensor: &Tensor<'_>) -> Result<Step, Error> {
        self.check_features(tensor)?;
        let (mut encode_time, mut update_time) = (Duration::ZERO, Duration::ZERO);
        let mut dictionary = self.dictionary.clone();
        let mut pass = 0;
        let mut last_move = f64::INFINITY;
        loop {
            pass += 1;
            let begun = Instant::now();
            let encoded = encode(&dictionary, tensor, &self.params);
            encode_time += begun.elapsed();

            let begun = Instant::now();
            let active = Active::new(tensor, &dictionary, &encoded, self.params.samples);
            let activity = active.activity();
            let (next, adaptive) = match self.params.rule {
                Rule::Paper { eta_a } => (paper_step(&active, eta_a)?, None),
                Rule::Adaptive => {
                    let (next, state) = self.adaptive.step(&self.dictionary, &active)?;
                    (next, Some(state))
                }
            };
            let moved = distance(&next, &dictionary);
            let fibers_used = active.fibers_used();
            dictionary = next;
            update_time += begun.elapsed();

            let done = match self.params.passes {
                Passes::Fixed(passes) => pass >= passes,
                Passes::Auto => {
                    let rate = moved / last_move;
                    let left = adaptive.as_ref().map_or(0.0, |s| s.total_variance());
                    (pass > 1 && (rate > 0.5 || rate * rate * moved * moved < 0.01 * left))
                        || moved < 1e-15
                        || pass >= MOST_PASSES
                }
            };
            last_move = moved;
            if done {
                if let Some(state) = adaptive {
                    self.adaptive = state;
                }
                let change = distance(&dictionary, &self.dictionary) / (dictionary.patterns() as f64).sqrt();
                self.dictionary = dictionary;
                self.steps += 1;
                return Ok(report(
                    self.steps,
                    tensor,
                    encoded,
                    fibers_used,
                    activity,
                    change,
                    pass,
                    encode_time,
                    update_time,
                ));
            }
        }
    }

    fn check_features(&self, tensor: &Tensor<'_>) -> Result<(), Error> {
        let (tensor, dictionary) = (tensor.shape().features, self.dictionary.features());
        if tensor == dictionary { Ok(()) } else { Err(Error::Features { tensor, dictionary }) }
    }
}

fn report(
    step: u64,
    tensor: &Tensor<'_>,
    encoded: Encoded,
    fibers_used: usize,
    activity: Vec<usize>,
    change: f64,
    passes: usize,
    encode_time: Duration,
    update_time: Duration,
) -> Step {
    let fibers = encoded.energies.iter().filter(|e| **e > 0.0).count();
    let energy: f64 = encoded.energies.iter().sum();
    let rest: f64 = encoded.residuals.iter().sum();
    Step {
        step,
        fibers,
        fibers_used,
        mean_code_size: if fibers > 0 { encoded.codes.nnz() as f64 / fibers as f64 } else { 0.0 },
        fit: if energy > 0.0 { (rest / energy).sqrt() } else { 0.0 },
        change,
        activity,
        roads: encoded.roads,
        passes,
        encode_time,
        update_time,
        codes: Codes::new(encoded.codes, tensor),
    }
}

/// |A - A0|_F.
fn distance(a: &Dictionary, b: &Dictionary) -> f64 {
    let difference: Vec<f64> = a.values().iter().zip(b.values()).map(|(a, b)| a - b).collect();
    dot(&difference, &difference).sqrt()
}
