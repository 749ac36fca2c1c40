//! One cell of the paper's tables, by one method.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use tensornoodl::metrics::Matching;
use tensornoodl::synthetic::{Plan, Planted, PlantedTensor};
use tensornoodl::{Codes, Dictionary, Error, Params, Rule, Sparse, Tensor};

use crate::methods::lasso::{Lasso, Solver};
use crate::methods::{Arora, Mairal, Matrix, Method, Noodl, linear};
use crate::paper::table::eta_a;

/// A stream of the paper's tables.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The probability alpha = beta that an entry of a row or col factor is not zero.
    pub alpha: f64,
    /// The number of rows and of cols, J = K.
    pub size: usize,
    /// The number of patterns, m.
    pub patterns: usize,
    /// The seed of all random draws.
    pub seed: u64,
}

impl Cell {
    /// Returns the plan of the stream.
    pub fn plan(self) -> Plan {
        let Cell { alpha, size, patterns, seed } = self;
        Plan {
            features: FEATURES,
            patterns,
            rows: size,
            cols: size,
            alpha,
            beta: alpha,
            seed,
            ..Plan::default()
        }
    }
}

/// A method for streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MethodName {
    /// TensorNOODL with the paper's update rule.
    Noodl,
    /// TensorNOODL with the adaptive update rule.
    Adaptive,
    /// NOODL for matrices, with the paper's update rule.
    Matrix,
    /// The biased method of Arora and others.
    AroraB,
    /// The unbiased method of Arora and others.
    AroraU,
    /// Online dictionary learning of Mairal and others.
    Mairal,
}

impl MethodName {
    /// All methods, TensorNOODL first: methods that are not NOODL get as many tensors as TensorNOODL needs.
    pub const ALL: [MethodName; 6] = [
        MethodName::Noodl,
        MethodName::Adaptive,
        MethodName::Matrix,
        MethodName::AroraB,
        MethodName::AroraU,
        MethodName::Mairal,
    ];

    /// Returns the name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            MethodName::Noodl => "noodl",
            MethodName::Adaptive => "adaptive",
            MethodName::Matrix => "matrix",
            MethodName::AroraB => "arora-b",
            MethodName::AroraU => "arora-u",
            MethodName::Mairal => "mairal",
        }
    }

    /// Returns the name in the paper's tables. None if the paper does not have the method.
    pub fn in_paper(self) -> Option<&'static str> {
        match self {
            MethodName::Noodl => Some("NOODL"),
            MethodName::Adaptive | MethodName::Matrix => None,
            MethodName::AroraB => Some("Arora(b)"),
            MethodName::AroraU => Some("Arora(u)"),
            MethodName::Mairal => Some("Mairal"),
        }
    }

    /// Whether the method is a NOODL, which continues until its error is 1e-10.
    pub fn is_noodl(self) -> bool {
        matches!(self, MethodName::Noodl | MethodName::Adaptive | MethodName::Matrix)
    }
}

/// A comparison of the codes of the last tensor with the true ones.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Recovered {
    /// Relative error of the codes.
    pub error_x: f64,
    /// Whether signs and support are exact.
    pub support: bool,
    /// Weight of the l1 norm, for Lasso codes.
    pub lambda: Option<f64>,
}

/// The outcome of one method on one stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The stream.
    pub cell: Cell,
    /// The method.
    pub method: MethodName,
    /// Tensors learned from.
    pub steps: u64,
    /// Whether the error of A reached 1e-10. Always true for methods that are not NOODL, which need not reach it.
    pub converged: bool,
    /// The first step by which every pattern had appeared.
    pub coverage_step: Option<u64>,
    /// Relative error of A.
    pub error_a: f64,
    /// The method's own codes of the last tensor.
    pub own: Recovered,
    /// Lasso codes of the last tensor with the best of ten lambdas, chosen by the truth. None if the last tensor is
    /// empty.
    pub lasso_oracle: Option<Recovered>,
    /// Lasso codes of the last tensor with the lambda that the Bayesian information criterion chooses, without the
    /// truth.
    pub lasso_honest: Option<Recovered>,
    /// Mean time of learning from a tensor, in seconds.
    pub seconds_per_step: f64,
    /// Relative errors of A: of A(0), and after each tensor.
    pub errors: Vec<f64>,
    /// For TensorNOODL: the relative error of the codes that each tensor was learned with.
    #[serde(default)]
    pub errors_x: Vec<f64>,
    /// For TensorNOODL: the relative fit of each tensor.
    #[serde(default)]
    pub fits: Vec<f64>,
}

/// The relative error of A at which TensorNOODL stops.
pub(crate) const TOLERANCE: f64 = 1e-10;
/// The maximum number of tensors for TensorNOODL.
const MOST_STEPS: u64 = 1000;

/// The number of features n of all experiments.
const FEATURES: usize = 300;

/// Returns ten lambdas from half of the code floor down, two for each decade. With a perfect dictionary, the error of
/// X is about the smallest lambda.
fn lambdas() -> Vec<f64> {
    (0..10).map(|halves| 0.5 * 0.1_f64.powf(f64::from(halves) / 2.0)).collect()
}

/// Runs one method on one stream. The method gets `steps` tensors; with None it continues until the error of A is
/// 1e-10, for at most 1,000 tensors. `told` is called after every tensor, with the number of the tensor and the error
/// of A.
///
/// # Errors
/// If the plan of the cell is wrong.
pub fn run(
    cell: Cell,
    method: MethodName,
    steps: Option<u64>,
    mut told: impl FnMut(u64, f64),
) -> Result<Outcome, Error> {
    let planted = Planted::new(cell.plan())?;
    let mut learner = learner(cell, method, planted.start(planted.paper_distance())?)?;
    let truth = planted.true_dictionary();
    let error_a =
        |found: &Dictionary| Matching::new(found, truth).map(|matching| matching.error_a(found, truth));
    let most = steps.unwrap_or(MOST_STEPS);
    let mut errors = vec![error_a(learner.dictionary())?];
    let (mut seconds, mut seen) = (0.0, vec![false; cell.patterns]);
    let (mut coverage_step, mut errors_x, mut fits) = (None, Vec::new(), Vec::new());
    let mut made = planted.tensor(1);
    for step in 1..=most {
        for code in made.true_codes.matrix().columns() {
            code.iter().for_each(|entry| seen[entry.0 as usize] = true);
        }
        if coverage_step.is_none() && seen.iter().all(|seen| *seen) {
            coverage_step = Some(step);
        }
        let begun = Instant::now();
        learner.learn(&made.tensor)?;
        seconds += begun.elapsed().as_secs_f64();
        let error = error_a(learner.dictionary())?;
        if let Some((codes, fit)) = learner.last() {
            errors_x.push(Matching::new(learner.dictionary(), truth)?.error_x(codes, &made.true_codes));
            fits.push(fit);
        }
        errors.push(error);
        told(step, error);
        if step == most || (steps.is_none() && error <= TOLERANCE) {
            break;
        }
        made = planted.tensor_reusing(step + 1, made);
    }
    let PlantedTensor { tensor, true_codes, .. } = made;
    let matching = Matching::new(learner.dictionary(), truth)?;
    let own = compare(&matching, &learner.encode(&tensor)?, &true_codes, None);
    let (lasso_oracle, lasso_honest) = match method.is_noodl() || tensor.fibers() == 0 {
        true => (None, None),
        false => by_lasso(learner.dictionary(), &matching, &tensor, &true_codes)?,
    };
    let steps = errors.len() as u64 - 1;
    Ok(Outcome {
        cell,
        method,
        steps,
        converged: !method.is_noodl() || errors[errors.len() - 1] <= TOLERANCE,
        coverage_step,
        error_a: errors[errors.len() - 1],
        own,
        lasso_oracle,
        lasso_honest,
        seconds_per_step: seconds / steps.max(1) as f64,
        errors,
        errors_x,
        fits,
    })
}

/// Returns a method at its start, with the parameters of the paper.
fn learner(cell: Cell, method: MethodName, start: Dictionary) -> Result<Box<dyn Method>, Error> {
    let eta_a = eta_a(cell.alpha, cell.size, cell.patterns);
    let code_floor = Params::default().code_floor;
    let paper = Params { rule: Rule::Paper { eta_a }, ..Params::default() };
    Ok(match method {
        MethodName::Noodl => Box::new(Noodl::new(start, paper)?),
        MethodName::Matrix => Box::new(Matrix::new(start, paper)?),
        MethodName::Adaptive => Box::new(Noodl::new(start, Params::default())?),
        MethodName::AroraB => Box::new(Arora::new(start, eta_a, code_floor, false)),
        MethodName::AroraU => Box::new(Arora::new(start, eta_a, code_floor, true)),
        MethodName::Mairal => Box::new(Mairal::new(start, 1.2 / (FEATURES as f64).sqrt())),
    })
}

/// Compares codes with the true ones.
fn compare(matching: &Matching, codes: &Codes, true_codes: &Codes, lambda: Option<f64>) -> Recovered {
    Recovered {
        error_x: matching.error_x(codes, true_codes),
        support: matching.same_support(codes, true_codes),
        lambda,
    }
}

/// Recovers codes by the Lasso, with the best of ten lambdas: the best by the truth, and the best by the Bayesian
/// information criterion.
fn by_lasso(
    dictionary: &Dictionary,
    matching: &Matching,
    tensor: &Tensor<'_>,
    true_codes: &Codes,
) -> Result<(Option<Recovered>, Option<Recovered>), Error> {
    let (tensor, true_codes) = sample(tensor, true_codes)?;
    let lambdas = lambdas();
    let path = Lasso::new(dictionary).path(&tensor, &lambdas, Solver::Descent);
    let recovered: Vec<Recovered> = path
        .iter()
        .zip(&lambdas)
        .map(|(codes, &lambda)| compare(matching, codes, &true_codes, Some(lambda)))
        .collect();
    let oracle = recovered.iter().copied().min_by(|a, b| a.error_x.total_cmp(&b.error_x));
    let criterion: Vec<f64> = path.iter().map(|codes| information(dictionary, &tensor, codes)).collect();
    let best = (0..path.len()).min_by(|&a, &b| criterion[a].total_cmp(&criterion[b]));
    Ok((oracle, best.map(|best| recovered[best])))
}

/// At most this many fibers of the last tensor get Lasso codes, because ten lambdas take long.
const MOST_LASSO: usize = 2_000;

/// Returns every n-th fiber of a tensor, at most [`MOST_LASSO`] of them, and their true codes.
fn sample(tensor: &Tensor<'_>, true_codes: &Codes) -> Result<(Tensor<'static>, Codes), Error> {
    let every = tensor.fibers().div_ceil(MOST_LASSO).max(1);
    let (mut values, mut places, mut matrix) =
        (Vec::new(), Vec::new(), Sparse::new(true_codes.matrix().rows()));
    for fiber in (0..tensor.fibers()).step_by(every) {
        values.extend_from_slice(tensor.fiber(fiber));
        places.push(tensor.places()[fiber]);
        matrix.push(true_codes.matrix().column(fiber));
    }
    let sample = Tensor::from_fibers(tensor.shape(), values, places)?;
    let codes = Codes::new(matrix, &sample);
    Ok((sample, codes))
}

/// Returns the Bayesian information criterion, N log(|Y - A X|^2 / N) + k log N for N values and k codes.
fn information(dictionary: &Dictionary, tensor: &Tensor<'_>, codes: &Codes) -> f64 {
    let mut residual = 0.0;
    for (fiber, code) in codes.matrix().columns().enumerate() {
        let mut r = tensor.fiber(fiber).to_vec();
        code.iter().for_each(|&(i, x)| linear::add(&mut r, -x, dictionary.pattern(i as usize)));
        residual += linear::dot(&r, &r);
    }
    let count = tensor.values().len() as f64;
    count * (residual / count).max(f64::MIN_POSITIVE).ln() + codes.matrix().nnz() as f64 * count.ln()
}
