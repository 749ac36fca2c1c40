//! One cell of the paper's tables, by one method.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use tensornoodl::metrics::Matching;
use tensornoodl::synthetic::{Plan, Planted, PlantedTensor};
use tensornoodl::{Codes, Dictionary, Error, Params, Rule, Sparse, Tensor};

use super::table::eta_a;
use crate::methods::lasso::{Lasso, Solver};
use crate::methods::{Arora, Mairal, Matrix, Method, Noodl, linear};

/// Which stream.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// alpha = beta.
    pub alpha: f64,
    /// J = K.
    pub size: usize,
    /// m.
    pub patterns: usize,
    /// Of all draws.
    pub seed: u64,
}

impl Cell {
    /// What to plant.
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

/// Which method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MethodName {
    /// TensorNOODL with the paper's step.
    Noodl,
    /// TensorNOODL with the adaptive step.
    Adaptive,
    /// NOODL for plain matrices, with the paper's step.
    Matrix,
    /// Arora(b).
    AroraB,
    /// Arora(u).
    AroraU,
    /// Mairal.
    Mairal,
}

impl MethodName {
    /// All of them, TensorNOODL first: the others take as many tensors as it does.
    pub const ALL: [MethodName; 6] = [
        MethodName::Noodl,
        MethodName::Adaptive,
        MethodName::Matrix,
        MethodName::AroraB,
        MethodName::AroraU,
        MethodName::Mairal,
    ];

    /// As in file names and on the command line.
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

    /// As in the paper's tables.
    pub fn in_paper(self) -> Option<&'static str> {
        match self {
            MethodName::Noodl => Some("NOODL"),
            MethodName::Adaptive | MethodName::Matrix => None,
            MethodName::AroraB => Some("Arora(b)"),
            MethodName::AroraU => Some("Arora(u)"),
            MethodName::Mairal => Some("Mairal"),
        }
    }

    /// Whether it goes on until it is done, rather than as long as TensorNOODL does.
    pub fn is_noodl(self) -> bool {
        matches!(self, MethodName::Noodl | MethodName::Adaptive | MethodName::Matrix)
    }
}

/// Codes of the last tensor, compared with the true ones.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Recovered {
    /// Relative error.
    pub error_x: f64,
    /// Whether signs and support are exact.
    pub support: bool,
    /// Weight of the l1 norm, for Lasso codes.
    pub lambda: Option<f64>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The stream.
    pub cell: Cell,
    /// The method.
    pub method: MethodName,
    /// Tensors learned from.
    pub steps: u64,
    /// Whether TensorNOODL came to 1e-10, however many tensors that took; the others are not asked to.
    pub converged: bool,
    /// The first step by which every pattern had appeared.
    pub coverage_step: Option<u64>,
    /// Relative error of A.
    pub error_a: f64,
    /// The method's own codes of the last tensor.
    pub own: Recovered,
    /// Lasso codes of the last tensor with the lambda, of ten, that comes nearest to the truth: an oracle chose it. None if the
    /// last tensor is empty.
    pub lasso_oracle: Option<Recovered>,
    /// Lasso codes with the lambda that the Bayesian information criterion chooses, without the truth.
    pub lasso_honest: Option<Recovered>,
    /// Time of learning, per tensor.
    pub seconds_per_step: f64,
    /// Relative error of A after each tensor, from A(0) on.
    pub errors: Vec<f64>,
    /// Of TensorNOODL: relative error of the codes that each tensor was learned with, and its relative fit.
    #[serde(default)]
    pub errors_x: Vec<f64>,
    /// The latter.
    #[serde(default)]
    pub fits: Vec<f64>,
}

/// Goal of TensorNOODL, and the most tensors it gets for it.
pub(crate) const TOLERANCE: f64 = 1e-10;
const MOST_STEPS: u64 = 1000;

/// n of all experiments.
const FEATURES: usize = 300;

/// Ten values, from half of the code floor down, two to a decade: with a perfect dictionary the error of X is about the
/// smallest of them.
fn lambdas() -> Vec<f64> {
    (0..10).map(|halves| 0.5 * 0.1_f64.powf(f64::from(halves) / 2.0)).collect()
}

/// Runs one method on one stream. `steps` is how many tensors it gets; TensorNOODL goes on until it is done.
/// `told` is called after every tensor.
pub fn run(
    cell: Cell,
    method: MethodName,
    steps: Option<u64>,
    mut told: impl FnMut(u64, f64),
) -> Result<Outcome, Error> {
    let planted = Planted::new(cell.plan())?;
    let start = planted.start(planted.paper_distance())?;
    let patterns = cell.patterns;
    let eta_a = eta_a(cell.alpha, cell.size, patterns);
    let code_floor = Params::default().code_floor;
    let papers = Params { rule: Rule::Paper { eta_a }, ..Params::default() };
    let mut learner: Box<dyn Method> = match method {
        MethodName::Noodl => Box::new(Noodl::new(start, papers)?),
        MethodName::Matrix => Box::new(Matrix::new(start, papers)?),
        MethodName::Adaptive => Box::new(Noodl::new(start, Params::default())?),
        MethodName::AroraB => Box::new(Arora::new(start, eta_a, code_floor, false)),
        MethodName::AroraU => Box::new(Arora::new(start, eta_a, code_floor, true)),
        MethodName::Mairal => Box::new(Mairal::new(start, 1.2 / (FEATURES as f64).sqrt())),
    };
    let truth = planted.true_dictionary();
    let error_a =
        |found: &Dictionary| Matching::new(found, truth).map(|matching| matching.error_a(found, truth));
    let most = steps.unwrap_or(MOST_STEPS);
    let mut errors = vec![error_a(learner.dictionary())?];
    let (mut seconds, mut seen) = (0.0, vec![false; patterns]);
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
    let dictionary = learner.dictionary();
    let matching = Matching::new(dictionary, truth)?;
    let codes = learner.encode(&tensor)?;
    let own = Recovered {
        error_x: matching.error_x(&codes, &true_codes),
        support: matching.same_support(&codes, &true_codes),
        lambda: None,
    };
    let (mut lasso_oracle, mut lasso_honest) = (None, None);
    if !method.is_noodl() && tensor.fibers() > 0 {
        let (tensor, true_codes) = sample(&tensor, &true_codes)?;
        let compare = |codes: &Codes, lambda: Option<f64>| Recovered {
            error_x: matching.error_x(codes, &true_codes),
            support: matching.same_support(codes, &true_codes),
            lambda,
        };
        let lambdas = lambdas();
        let path = Lasso::new(dictionary).path(&tensor, &lambdas, Solver::Descent);
        let recovered: Vec<Recovered> =
            path.iter().zip(&lambdas).map(|(codes, &lambda)| compare(codes, Some(lambda))).collect();
        lasso_oracle = recovered.iter().copied().min_by(|a, b| a.error_x.total_cmp(&b.error_x));
        let criterion: Vec<f64> = path.iter().map(|codes| information(dictionary, &tensor, codes)).collect();
        let best = (0..path.len()).min_by(|&a, &b| criterion[a].total_cmp(&criterion[b]));
        lasso_honest = best.map(|best| recovered[best]);
    }
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

/// Fibers of the last tensor whose Lasso codes are recovered, at most: ten lambdas take their time.
const MOST_LASSO: usize = 2_000;

/// Fibers spread over the tensor, and their true codes.
fn sample(tensor: &Tensor<'_>, true_codes: &Codes) -> Result<(Tensor<'static>, Codes), Error> {
    let every = tensor.fibers().div_ceil(MOST_LASSO).max(1);
    let (mut values, mut places, mut matrix) =
        (Vec::new(), Vec::new(), Sparse::new(true_codes.matrix().rows()));
    for fiber in (0..tensor.fibers()).step_by(every) {
        values.extend_from_slice(tensor.fiber(fiber));
        places.push(tensor.places()[fiber]);
        matrix.push(true_codes.matrix().column(fiber));
    }
    let some = Tensor::from_fibers(tensor.shape(), values, places)?;
    let codes = Codes::new(matrix, &some);
    Ok((some, codes))
}

/// N log(|Y - A X|^2 / N) + k log N for N values and k codes.
fn information(dictionary: &Dictionary, tensor: &Tensor<'_>, codes: &Codes) -> f64 {
    let mut rest = 0.0;
    for (fiber, code) in codes.matrix().columns().enumerate() {
        let mut r = tensor.fiber(fiber).to_vec();
        code.iter().for_each(|&(i, x)| linear::add(&mut r, -x, dictionary.pattern(i as usize)));
        rest += linear::dot(&r, &r);
    }
    let count = tensor.values().len() as f64;
    count * (rest / count).max(f64::MIN_POSITIVE).ln() + codes.matrix().nnz() as f64 * count.ln()
}
