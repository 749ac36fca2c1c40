//! Test of the assumptions of the theory on one tensor, with a verdict on each.
//!
//! Symbols: n features, m patterns, J rows, K cols; A the learned dictionary (n x m, unit columns); p fibers with a
//! code, s patterns per fiber on average; alpha and beta the shares of non-zero entries in B (J x m) and C (K x m).
//!
//! | name | measured | the theory asks for |
//! | --- | --- | --- |
//! | energy | share of the energy of the fibers that A explains | 1 (exact model) |
//! | incoherence | mu = sqrt(n) max \|cos(A_i, A_l)\| | O(log n) |
//! | norm | the spectral norm \|A\| | O(sqrt(m / n)) |
//! | patterns | m | O(n) |
//! | sparsity | s | O(sqrt(n) / (mu log n)) |
//! | density | m alpha beta | at least log min(J, K) |
//! | samples | p | at least of order m s^2 |
//! | restarts | share of the patterns that searches with other seeds find | 1 |
//! | rank one | share of the codes' energy in B_i C_i' | 1 (exact model) |
//! | noise | the largest noise along one of m patterns | below the smallest code that counts |
//!
//! The theory gives orders of magnitude, O(.), without constants. Where a constant is needed, it is the constant of the
//! paper's own experiments: a value up to that is good, up to twice that is fair.

use crate::data::dictionary::Dictionary;
use crate::data::tensor::Tensor;
use crate::discover::params::DiscoverParams;
use crate::discover::start::{self, Start};
use crate::discover::{held_out, stable};
use crate::error::Error;
use crate::learner::{Learner, Step};
use crate::linalg::decompose::largest_singular_value;
use crate::params::Params;
use crate::shape::Shape;
use crate::untangle::factors::Factors;

/// How well an assumption holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The value is as in the theory, or as in the paper's experiments.
    Good,
    /// The value is beyond the paper's experiments, but the method may well work.
    Fair,
    /// The results are doubtful unless there is another reason to trust them.
    Poor,
}

/// One assumption of the theory, tested.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Assumption {
    /// Short name of the measured value.
    pub name: &'static str,
    /// The measured value.
    pub value: f64,
    /// The value that the theory or the paper's experiments ask for.
    pub bound: f64,
    /// How well the assumption holds.
    pub verdict: Verdict,
    /// Value and bound in words.
    pub explanation: String,
    /// What to do if the assumption does not hold; empty if the verdict is [`Verdict::Good`].
    pub advice: &'static str,
}

/// The result of [`check`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AssumptionReport {
    /// The patterns that were found and tested.
    pub start: Start,
    /// The assumptions. Only the energy if no pattern was found.
    pub assumptions: Vec<Assumption>,
}

/// s mu log n / sqrt(n) in the paper's experiments (n = 300, m = 600, alpha = beta = .05: s = 1.9, mu = 4.9).
const PAPER_SPARSITY: f64 = 3.2;

/// Number of passes over the tensor before the assumptions are tested.
const PASSES: usize = 3;

/// Number of further searches, each with another seed.
const RESTARTS: u64 = 2;

/// Number of fibers per pattern that is enough to find the pattern, if not to meet the theory.
const MIN_FIBERS_PER_PATTERN: f64 = 4.0;

/// Finds the patterns of a tensor, learns them, and tests the assumptions of the theory on the result.
///
/// # Errors
/// If a parameter is outside its range, the search is stopped, or learning diverges.
pub fn check(tensor: &Tensor<'_>, discover: &DiscoverParams) -> Result<AssumptionReport, Error> {
    let start = stable::find_stable(tensor, discover)?;
    let patterns = start.findings.len();
    if patterns == 0 {
        let assumptions = vec![energy(0.0, 0)];
        return Ok(AssumptionReport { start, assumptions });
    }
    // The learner must not find further patterns.
    let no_more = DiscoverParams {
        min_length: start.min_length,
        max_patterns: Some(patterns),
        stop: discover.stop.clone(),
        ..DiscoverParams::default()
    };
    let mut learner = Learner::from_start(&start, Params::default(), no_more)?;
    let mut step = learner.learn(tensor)?;
    for _ in 1..PASSES {
        step = learner.learn(tensor)?;
    }
    let dictionary = learner.dictionary();
    let factors = step.codes.untangle();

    let mut assumptions = vec![energy(1.0 - step.fit * step.fit, dictionary.patterns())];
    assumptions.extend(of_dictionary(dictionary));
    assumptions.extend(of_codes(tensor.shape(), dictionary, &step, &factors));
    assumptions.push(restarts(tensor, &start, discover)?);
    assumptions.push(rank_one(&factors));
    assumptions.extend(noise(&learner));
    Ok(AssumptionReport { start, assumptions })
}

/// The energy that the patterns explain, in [0, 1].
fn energy(explained: f64, patterns: usize) -> Assumption {
    let assumption = Assumption::new(
        ("energy", explained, 1.0),
        (1.0 - explained, [0.1, 0.5]),
        format!("{patterns} patterns explain {:.0} % of the energy", 100.0 * explained),
        "the remaining energy is noise, or patterns too rare to be distinguished from noise",
    );
    let advice = match assumption.verdict {
        Verdict::Poor if patterns == 0 => {
            "no pattern is clearer than those that chance finds: if there are patterns, use more fibers or less noisy ones"
        }
        Verdict::Poor => {
            "most of the energy is noise, or fibers mix too many patterns: the patterns found describe only a part of the data"
        }
        _ => assumption.advice,
    };
    Assumption { advice, ..assumption }
}

/// Incoherence, norm and number of patterns of the dictionary.
fn of_dictionary(dictionary: &Dictionary) -> [Assumption; 3] {
    let (n, m) = (dictionary.features() as f64, dictionary.patterns() as f64);
    let (mu, log_n) = (dictionary.incoherence(), n.ln());
    let norm = largest_singular_value(dictionary.values(), dictionary.features());
    let random_norm = 1.0 + (m / n).sqrt();
    [
        Assumption::new(
            ("incoherence", mu, log_n),
            (mu / log_n, [1.0, 2.0]),
            format!(
                "mu is {mu:.1}, the theory asks for the order of log n = {log_n:.1}; the largest cosine is {:.2}",
                mu / n.sqrt()
            ),
            "similar patterns are confused in the codes: subtract what all fibers share, such as their mean, or use fewer patterns",
        ),
        Assumption::new(
            ("norm", norm, random_norm),
            (norm / random_norm, [1.5, 3.0]),
            format!("|A| is {norm:.1}; random patterns have 1 + sqrt(m/n) = {random_norm:.1}"),
            "the patterns have a common part: subtract what all fibers share, such as their mean",
        ),
        Assumption::new(
            ("patterns", m, n),
            (m / n, [2.0, 4.0]),
            format!("{m} patterns of {n} features; the theory asks for m of the order of n"),
            "use more features or fewer patterns, so that the patterns are distinguished reliably",
        ),
    ]
}

/// Sparsity of the codes, density of the factors, and number of samples.
fn of_codes(shape: Shape, dictionary: &Dictionary, step: &Step, factors: &Factors) -> [Assumption; 3] {
    let (n, m) = (shape.features as f64, dictionary.patterns() as f64);
    let codes = step.codes.matrix();
    let p = codes.columns().filter(|code| !code.is_empty()).count().max(1) as f64;
    let (nnz, s) = (codes.nnz() as f64, codes.nnz() as f64 / p);

    let max_sparsity = n.sqrt() / (dictionary.incoherence() * n.ln()).max(1.0);
    let share = |nnz: usize, length: usize| nnz as f64 / (m * length as f64);
    let (alpha, beta) = (share(factors.rows.nnz(), shape.rows), share(factors.cols.nnz(), shape.cols));
    let (density, min_density) = (m * alpha * beta, (shape.rows.min(shape.cols) as f64).ln());
    let min_samples = m * s * s;
    let excess = if p >= min_samples {
        0.0
    } else if nnz >= MIN_FIBERS_PER_PATTERN * m {
        1.5
    } else {
        3.0
    };
    [
        Assumption::new(
            ("sparsity", s, max_sparsity),
            (s / max_sparsity / PAPER_SPARSITY, [1.0, 2.0]),
            format!(
                "{s:.1} patterns per fiber; sqrt(n) / (mu log n) is {max_sparsity:.2}, the paper's experiments have up to \
                 {PAPER_SPARSITY} times that"
            ),
            "fibers mix too many patterns: use finer rows or cols, or shorter steps",
        ),
        Assumption::new(
            ("density", density, min_density),
            (min_density / density, [1.0, f64::INFINITY]),
            format!(
                "a pattern has {alpha:.3} of the rows and {beta:.3} of the cols: m alpha beta is {density:.2}, the theory asks for \
                 log min(J, K) = {min_density:.1}"
            ),
            "not every tensor shows every pattern: learning needs more tensors, and is otherwise unharmed",
        ),
        Assumption::new(
            ("samples", p, min_samples),
            (excess, [1.0, 2.0]),
            format!(
                "{p} fibers with patterns, the theory asks for the order of m s^2 = {min_samples:.0}; a pattern is in {:.1} of them",
                nnz / m
            ),
            "use more tensors: some patterns are in too few of these fibers",
        ),
    ]
}

/// The smallest share of the patterns that a search with another seed finds again, in [0, 1].
fn restarts(tensor: &Tensor<'_>, start: &Start, discover: &DiscoverParams) -> Result<Assumption, Error> {
    let mut same = 1.0_f64;
    for restart in 1..=RESTARTS {
        let seed = discover.seed.wrapping_add(restart);
        let params = DiscoverParams { seed, min_length: start.min_length, ..discover.clone() };
        let other = start::find(tensor, &params)?.dictionary;
        same = same.min(held_out::agreeing(&start.dictionary, &other) as f64 / start.findings.len() as f64);
    }
    Ok(Assumption::new(
        ("restarts", same, 1.0),
        (1.0 - same, [0.02, 0.2]),
        format!("{:.0} % of the patterns are found again with other random numbers", 100.0 * same),
        "trust the patterns that are found again, or use fewer patterns",
    ))
}

/// The share of the codes' energy that B_i C_i' has: the mean over patterns, weighted by sigma_1 = |B_i|^2.
fn rank_one(factors: &Factors) -> Assumption {
    let weights: Vec<f64> = (0..factors.rank_one.len())
        .map(|i| factors.rows.column(i).iter().map(|entry| entry.1.powi(2)).sum::<f64>())
        .collect();
    let sum: f64 = factors.rank_one.iter().zip(&weights).map(|(r, w)| r * w).sum();
    let rank_one = sum / weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    Assumption::new(
        ("rank one", rank_one, 1.0),
        (1.0 - rank_one, [0.1, 0.5]),
        format!("{:.0} % of a pattern's codes fit one group of rows and cols", 100.0 * rank_one),
        "patterns have several groups of rows and cols: the factors show the strongest group, the codes show all",
    )
}

/// The noise along a pattern, compared with the smallest code that counts; none if the scale of the data is unknown.
///
/// Noise e has the size |e| / sqrt(n) along one pattern, and sqrt(2 log m) times that along the worst of m patterns.
fn noise(learner: &Learner) -> Option<Assumption> {
    let (n, m) = (learner.dictionary().features() as f64, learner.dictionary().patterns() as f64);
    let scale = learner.scale()?;
    let noise = scale.noise * (2.0 * (m + 1.0).ln() / n).sqrt();
    let floor = scale.floor / 2.0;
    Some(Assumption::new(
        ("noise", noise, floor),
        (noise / floor, [1.0, 2.0]),
        format!(
            "noise of length {:.2e} reaches {noise:.2e} along a pattern; codes count from {floor:.2e} on",
            scale.noise
        ),
        "supports of the codes will have errors; further tensors still improve the patterns",
    ))
}

impl Assumption {
    /// An assumption with its verdict: good if `excess` is at most the first limit, fair if at most the second.
    pub(crate) fn new(
        (name, value, bound): (&'static str, f64, f64),
        (excess, limits): (f64, [f64; 2]),
        explanation: String,
        advice: &'static str,
    ) -> Assumption {
        let verdict = match excess {
            excess if excess <= limits[0] => Verdict::Good,
            excess if excess <= limits[1] => Verdict::Fair,
            _ => Verdict::Poor,
        };
        let advice = if verdict == Verdict::Good { "" } else { advice };
        Assumption { name, value, bound, verdict, explanation, advice }
    }
}
